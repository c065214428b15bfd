package pebblestore

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storetest"
)

// onDisk are options of a store in the folder "data" of a new one.
func onDisk(t testing.TB) Options {
	t.Helper()
	return small(Options{Dir: filepath.Join(t.TempDir(), "data"), BallastBytes: -1, MinFreeBytes: -1})
}

// fill makes a store, or goes on with one, and closes it.
func fill(t testing.TB, o Options, rows int) store.Info {
	t.Helper()
	st := mustOpen(t, o)
	newWriter(t, st).add(t, rows)
	mustClose(t, st)
	return st.Info()
}

// copied copies the folder from to the folder to, as cp -a does.
func copied(t testing.TB, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// rewound wants Open to refuse a store as an earlier state, with what in the
// error, and Repair to leave it alone.
func rewound(t testing.TB, o Options, what string) {
	t.Helper()
	for name, f := range map[string]func(Options) error{
		"open":   func(o Options) error { _, err := Open(o); return err },
		"repair": func(o Options) error { _, err := Repair(o); return err },
	} {
		err := f(o)
		d, ok := errors.AsType[*Damaged](err)
		if !ok || !d.Rewound || !strings.Contains(err.Error(), what) || !strings.Contains(err.Error(), "petrel repair --new-history") {
			t.Errorf("%s: got %v, want a refusal with %q and what to do", name, err, what)
		}
	}
}

func TestFolderPutBackFromACopyIsRefused(t *testing.T) {
	o := onDisk(t)
	info := fill(t, o, 10)
	aside := o.Dir + "-copy"
	copied(t, o.Dir, aside)
	fill(t, o, 10)
	if err := os.RemoveAll(o.Dir); err != nil {
		t.Fatal(err)
	}
	copied(t, aside, o.Dir)
	rewound(t, o, "was put back from a copy")
	mustClose(t, mustOpen(t, Options{Dir: o.Dir, AcceptCopies: true, BallastBytes: -1, MinFreeBytes: -1, tune: o.tune}))
	mustClose(t, mustOpen(t, o)) // its files are its own now

	if err := os.RemoveAll(o.Dir); err != nil {
		t.Fatal(err)
	}
	copied(t, aside, o.Dir)
	r, err := Renew(o)
	if err != nil {
		t.Fatal(err)
	}
	renewed := o.Dir + "-renewed" // before its first start
	copied(t, o.Dir, renewed)
	st := mustOpen(t, o)
	defer func() {
		mustClose(t, st)
		if err := os.RemoveAll(o.Dir); err != nil {
			t.Fatal(err)
		}
		copied(t, renewed, o.Dir)
		rewound(t, o, "was put back from a copy")
	}()
	if got := st.Info(); got.StoreID != info.StoreID || got.HistoryID == info.HistoryID || got.HistoryID != r.HistoryID {
		t.Errorf("got %+v after %+v and %+v, want the same store with a new history", got, info, r)
	}
	if got := lastSeq(t, st); got != 10 {
		t.Errorf("last row is %d, want 10", got)
	}
}

// The files keep their inode numbers when they are written over.
func TestFolderWrittenOverByACopyIsRefused(t *testing.T) {
	o := onDisk(t)
	fill(t, o, 10)
	aside := o.Dir + "-copy"
	copied(t, o.Dir, aside)
	fill(t, o, 10)
	names, err := os.ReadDir(filepath.Join(o.Dir, "store"))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names { // as rsync --delete --inplace does
		if _, err := os.Stat(filepath.Join(aside, "store", n.Name())); errors.Is(err, os.ErrNotExist) {
			if err := os.Remove(filepath.Join(o.Dir, "store", n.Name())); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, dir := range []string{"", "store"} {
		from, err := os.ReadDir(filepath.Join(aside, dir))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range from {
			if e.IsDir() {
				continue
			}
			b, err := os.ReadFile(filepath.Join(aside, dir, e.Name()))
			if err == nil {
				err = os.WriteFile(filepath.Join(o.Dir, dir, e.Name()), b, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	rewound(t, o, "was put back from a copy")
}

func TestRenamedFolderKeepsWorking(t *testing.T) {
	o := onDisk(t)
	info := fill(t, o, 5)
	moved := o
	moved.Dir = o.Dir + "-2"
	if err := os.Rename(o.Dir, moved.Dir); err != nil {
		t.Fatal(err)
	}
	st := mustOpen(t, moved)
	defer mustClose(t, st)
	if got := st.Info(); got != info {
		t.Errorf("got %+v, want %+v", got, info)
	}
	_, err := Open(o)
	if !errors.Is(err, ErrNoStore) || !strings.Contains(err.Error(), "--data at the place where the folder is now") {
		t.Errorf("the old place: got %v, want %v", err, ErrNoStore)
	}
}

// An unmounted volume leaves its mount point behind, an empty folder.
func TestUnmountedVolumeIsNotTakenForANewStore(t *testing.T) {
	o := onDisk(t)
	info := fill(t, o, 5)
	volume := o.Dir + "-volume"
	for what, left := range map[string]func() error{
		"mount point":    func() error { return os.Mkdir(o.Dir, 0o700) },
		"no mount point": func() error { return nil },
	} {
		if err := os.Rename(o.Dir, volume); err != nil {
			t.Fatal(err)
		}
		if err := left(); err != nil {
			t.Fatal(err)
		}
		_, err := Open(o)
		if !errors.Is(err, ErrNoStore) || !strings.Contains(err.Error(), "; mount its volume, ") || !strings.Contains(err.Error(), hex(info.StoreID)) {
			t.Errorf("%s: got %v, want %v with the store and what to do", what, err, ErrNoStore)
		}
		if names, err := os.ReadDir(o.Dir); len(names) > 0 {
			t.Errorf("%s: %v, %v: something was made", what, names, err)
		}
		if err := os.RemoveAll(o.Dir); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(volume, o.Dir); err != nil {
			t.Fatal(err)
		}
		mustClose(t, mustOpen(t, o))
	}
	// An operator who means it deletes the marker that the error names.
	if err := errors.Join(os.RemoveAll(o.Dir), os.Remove(place{fs: o.withDefaults().FS, dir: o.Dir}.markers()[0])); err != nil {
		t.Fatal(err)
	}
	st := mustOpen(t, o)
	defer mustClose(t, st)
	if st.Info().StoreID == info.StoreID {
		t.Error("the store is the old one")
	}
}

// The marker in the volume goes with it; the one beside its mount point stays.
func TestMarkersAreLookedForBesideEveryFolderAbove(t *testing.T) {
	o := onDisk(t)
	volume := filepath.Dir(o.Dir)
	o.Dir = filepath.Join(volume, "a", "b")
	fill(t, o, 1)
	p := place{fs: o.withDefaults().FS, dir: o.Dir}
	all := p.markers()
	if err := errors.Join(os.Rename(all[0], all[1]), os.RemoveAll(filepath.Join(volume, "a"))); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(o); !errors.Is(err, ErrNoStore) || !strings.Contains(err.Error(), filepath.Join(volume, ".a-b.store")) {
		t.Errorf("got %v, want %v and the marker", err, ErrNoStore)
	}
}

func TestStoreIDThatDoesNotMatchIsRefused(t *testing.T) {
	o := onDisk(t)
	expecting := o
	expecting.StoreID = 7
	if _, err := Open(expecting); !errors.Is(err, ErrNoStore) {
		t.Errorf("no store: got %v, want %v", err, ErrNoStore)
	}
	if _, err := os.Stat(o.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder was made: %v", err)
	}
	info := fill(t, o, 1)
	if _, err := Open(expecting); !errors.Is(err, ErrOtherStore) || !strings.Contains(err.Error(), hex(info.StoreID)) {
		t.Errorf("another store: got %v, want %v with its id", err, ErrOtherStore)
	}
	expecting.StoreID = info.StoreID
	mustClose(t, mustOpen(t, expecting))
}

// A backup that root has made once does not keep the user of the server from making the next one.
func TestBackupByRootLeavesItsLockToTheOwner(t *testing.T) {
	server := os.Geteuid()
	if server == 0 {
		server = 41938 // only root gives files to others
	}
	o := onDisk(t)
	mustClose(t, mustOpen(t, o))
	if err := os.Chown(o.Dir, server, server); err != nil {
		t.Fatal(err)
	}
	if _, err := Backup(t.Context(), o, BackupOptions{To: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	i, err := os.Stat(filepath.Join(o.Dir, backupLock))
	if err != nil {
		t.Fatal(err)
	}
	if got := i.Sys().(*syscall.Stat_t).Uid; int(got) != server {
		t.Errorf("the lock belongs to %d, want the owner of the folder, %d", got, server)
	}
}

func TestSecondServerIsRefusedAfterTheLockFilesWereDeleted(t *testing.T) {
	o := onDisk(t)
	st := mustOpen(t, o)
	defer mustClose(t, st)
	for _, name := range []string{"lock", "pid"} {
		if err := os.Remove(filepath.Join(o.Dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	// By another name, as Pebble refuses a name that this process has locked.
	again := o
	again.Dir = o.Dir + "-link"
	if err := os.Symlink(o.Dir, again.Dir); err != nil {
		t.Fatal(err)
	}
	if second, err := Open(again); err == nil || !strings.Contains(err.Error(), "locked by another process; stop it") {
		t.Errorf("got %v, want the refusal of a locked folder", err)
		if err == nil {
			mustClose(t, second)
		}
	}
}

func TestRemovedFolderStopsTheAcks(t *testing.T) {
	for what, remove := range map[string]func(dir string) error{
		"removed": os.RemoveAll,
		"renamed": func(dir string) error { return os.Rename(dir, dir+"-2") },
		"replaced by its copy": func(dir string) error {
			return errors.Join(os.Rename(dir, dir+"-2"), os.CopyFS(dir, os.DirFS(dir+"-2")))
		},
		"its tables and logs removed": func(dir string) error { return os.RemoveAll(filepath.Join(dir, "store")) },
		"its files removed": func(dir string) error {
			names, err := os.ReadDir(filepath.Join(dir, "store"))
			for _, n := range names {
				// RemoveAll, because Pebble removes files that it no longer needs by itself.
				err = errors.Join(err, os.RemoveAll(filepath.Join(dir, "store", n.Name())))
			}
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			o := onDisk(t)
			st := mustOpen(t, o)
			w := newWriter(t, st)
			w.add(t, 5)
			if err := remove(o.Dir); err != nil {
				t.Fatal(err)
			}
			eventually.Receive(t, "the store fails", st.Failed())
			if err := storetest.Append(st, w.next()); !errors.Is(err, store.ErrFailed) || !errors.Is(err, ErrFolderGone) {
				t.Errorf("append: got %v, want %v", err, ErrFolderGone)
			}
			_ = st.Close() // it has failed
		})
	}
}

// Users are promised that no append is acked 2 s after the folder has gone
// (docs/guide/folder.md).
func TestRemovedFolderIsNoticedInHalfASecond(t *testing.T) {
	o := onDisk(t)
	st := mustOpen(t, o)
	defer func() { _ = st.Close() }() // its folder is gone
	synctest.Test(t, func(t *testing.T) {
		watcher := &Store{place: st.place, witness: st.witness, stop: make(chan struct{}), out: newFailure(o.withDefaults().Log)}
		here := map[string]os.FileInfo{}
		if err := watcher.checkFolder(here); err != nil {
			t.Fatal(err)
		}
		go watcher.watchFolder(here) // ends when it misses the folder
		time.Sleep(10*folderEvery + time.Millisecond)
		if err := watcher.out.err(); err != nil {
			t.Fatalf("a folder that is there is missed: %v", err)
		}
		if err := os.RemoveAll(o.Dir); err != nil {
			t.Fatal(err)
		}
		gone := time.Now()
		<-watcher.out.ch
		if took := time.Since(gone); took != folderEvery-time.Millisecond || folderEvery != 500*time.Millisecond {
			t.Errorf("it took %s until the folder was missed, which is looked for each %s, want 499ms", took, folderEvery)
		}
	})
}
