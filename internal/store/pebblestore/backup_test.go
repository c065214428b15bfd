package pebblestore

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storetest"
)

var (
	backups     = flag.Int("backups", fromEnv("PETREL_BACKUPS", 2), "backups under load")
	backupKills = flag.Int("backup-kills", fromEnv("PETREL_BACKUP_KILLS", standardBackupKills), "backups and restores that are cut short")
)

// load appends rows until it is stopped.
type load struct {
	st    *Store
	acked atomic.Uint64 // seq of the newest row that was
	stop  func()
}

func underLoad(t *testing.T, st *Store) *load {
	l := &load{st: st}
	w := newWriter(t, st)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			b := w.next()
			st.Append(b, func(err error) {
				if err != nil {
					t.Error(err)
				}
				l.acked.Store(uint64(b.Rows[0].Seq))
			})
		}
	})
	l.stop = func() { cancel(); wg.Wait() }
	return l
}

// online are the options of a backup of a store that is in use.
func online(st *Store, to string) BackupOptions {
	return BackupOptions{To: to, Checkpoint: st.Checkpoint}
}

// wantRows compares the rows of a store with what a writer has written, and
// returns how many there are.
func wantRows(t testing.TB, st *Store) im.Seq {
	t.Helper()
	n, at := lastSeq(t, st), im.Seq(0)
	if n == 0 {
		return 0
	}
	err := st.Rows(t.Context(), conv, 1, n, func(r store.Row) bool {
		at++
		if want := strings.Repeat("row ", int(at%50)+1); r.Seq != at || string(r.Value) != want {
			t.Errorf("row %d is %q, want %q", r.Seq, r.Value, want)
		}
		return true
	})
	if err != nil || at != n {
		t.Errorf("read %d of %d rows: %v", at, n, err)
	}
	return n
}

// mustRestore restores the backup in from, and opens what was made of it.
func mustRestore(t testing.TB, o Options, from string) (*Store, Restored) {
	t.Helper()
	r, err := Restore(t.Context(), o, RestoreOptions{From: from})
	if err != nil {
		t.Fatal(err)
	}
	return mustOpen(t, o), r
}

func TestBackupUnderLoadHoldsWhatWasAcked(t *testing.T) {
	dir := t.TempDir()
	o := busy(vfs.Default)
	o.Dir = filepath.Join(dir, "data")
	st := mustOpen(t, o)
	defer mustClose(t, st)
	l := underLoad(t, st)
	defer l.stop()
	for i := range *backups {
		before := l.acked.Load()
		eventually.True(t, "rows", func() bool { return l.acked.Load() > before+200 })
		acked := l.acked.Load()
		taken, err := Backup(t.Context(), o, online(st, filepath.Join(dir, "backups")))
		if err != nil {
			t.Fatal(err)
		}
		restored := o
		restored.Dir = filepath.Join(dir, fmt.Sprintf("restored-%d", i))
		again, r := mustRestore(t, restored, taken.Folder)
		if n := wantRows(t, again); uint64(n) < acked || uint64(n) > l.acked.Load() {
			t.Errorf("%d rows in the backup; %d were acked when it began, %d when it had ended", n, acked, l.acked.Load())
		}
		got, was := again.Info(), st.Info()
		if got.StoreID != was.StoreID || got.Secret != was.Secret || got.HistoryID == was.HistoryID || got.HistoryID != r.Report.HistoryID {
			t.Errorf("restored %+v of %+v: want the same store with a new history", got, was)
		}
		newWriter(t, again).add(t, 3)
		mustClose(t, again)
	}
}

// chain makes n backups of a store that grows, and returns the seqs they hold.
func chain(t *testing.T, fs vfs.FS, n int) []im.Seq {
	t.Helper()
	st := mustOpen(t, mem(fs))
	defer mustClose(t, st)
	w := newWriter(t, st)
	var seqs []im.Seq
	for range n {
		w.add(t, 150)
		if _, err := Backup(t.Context(), mem(fs), online(st, "backups")); err != nil {
			t.Fatal(err)
		}
		seqs = append(seqs, w.seq)
	}
	return seqs
}

func TestChainedBackupsRestoreEach(t *testing.T) {
	fs := vfs.NewCrashableMem()
	seqs := chain(t, fs, 10)
	all, err := VerifyBackups(t.Context(), busy(fs), "backups", nil)
	if err != nil || len(all) != len(seqs) {
		t.Fatalf("verify: %d backups, %v", len(all), err)
	}
	shared := 0
	for i, v := range all {
		if len(v.Problems) > 0 {
			t.Errorf("%s: %v", v.Folder, v.Problems)
		}
		if i > 0 {
			if v.Continues != all[i-1].Name {
				t.Errorf("%s continues %q", v.Name, v.Continues)
			}
			for _, f := range v.Files {
				if slices.Contains(all[i-1].Files, f) && isTable(f.Name) {
					shared++
				}
			}
		}
		o := busy(fs)
		o.Dir = fmt.Sprintf("restored-%d", i)
		again, _ := mustRestore(t, o, v.Folder)
		if got := wantRows(t, again); got != seqs[i] {
			t.Errorf("%s: %d rows, want %d", v.Name, got, seqs[i])
		}
		mustClose(t, again)
	}
	if shared == 0 {
		t.Error("no backup has a table of the one before: nothing was shown")
	}
}

func TestBackupCopiesOnlyNewTables(t *testing.T) {
	fs := vfs.NewCrashableMem()
	st := mustOpen(t, mem(fs))
	w := newWriter(t, st)
	w.fill(t, 20) // far more than what is copied always: manifest, log, options
	if err := st.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	first, err := Backup(t.Context(), mem(fs), online(st, "backups"))
	if err != nil {
		t.Fatal(err)
	}
	second, err := Backup(t.Context(), mem(fs), online(st, "backups"))
	if err != nil {
		t.Fatal(err)
	}
	if first.Copied != first.Bytes || second.Bytes < first.Bytes/2 || second.Copied > second.Bytes/4 {
		t.Errorf("copied %d of %d bytes, then %d of %d", first.Copied, first.Bytes, second.Copied, second.Bytes)
	}
	// A store that was restored counts its files on from the same number. Its
	// tables are others.
	mustClose(t, st)
	if err := fs.RemoveAll("data"); err != nil {
		t.Fatal(err)
	}
	again, _ := mustRestore(t, mem(fs), first.Folder)
	defer mustClose(t, again)
	third, err := Backup(t.Context(), mem(fs), online(again, "backups"))
	if err != nil {
		t.Fatal(err)
	}
	if third.Continues != "" || third.Copied != third.Bytes {
		t.Errorf("of another history: continues %q, copied %d of %d", third.Continues, third.Copied, third.Bytes)
	}
	// The first can go: the others have what they need.
	if err := fs.RemoveAll(first.Folder); err != nil {
		t.Fatal(err)
	}
	verifies(t, mem(fs), "backups", 2)
}

// verifies wants n good backups in dir.
func verifies(t testing.TB, o Options, dir string, n int) []Verified {
	t.Helper()
	all, err := VerifyBackups(t.Context(), o, dir, nil)
	if err != nil || len(all) != n {
		t.Fatalf("verify %s: %d backups, want %d: %v", dir, len(all), n, err)
	}
	for _, v := range all {
		if len(v.Problems) > 0 {
			t.Errorf("%s: %v", v.Folder, v.Problems)
		}
	}
	return all
}

func TestStoppedStoreIsBackedUpAsItIs(t *testing.T) {
	fs := vfs.NewCrashableMem()
	st := mustOpen(t, mem(fs))
	newWriter(t, st).add(t, 50)
	disk := killed(fs)
	mustClose(t, st)
	for what, disk := range map[string]*vfs.MemFS{"closed": fs, "killed": disk} {
		if _, err := Backup(t.Context(), mem(disk), BackupOptions{To: "backups"}); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		verifies(t, mem(disk), "backups", 1)
		o := mem(disk)
		o.Dir = "restored"
		again, _ := mustRestore(t, o, "backups")
		if n := wantRows(t, again); n != 50 {
			t.Errorf("%s: restored %d rows, want 50", what, n)
		}
		mustClose(t, again)
	}
	logs := filesOf(t, disk, "log")
	rewriteFile(t, disk, logs[len(logs)-1], nil)
	if _, err := Backup(t.Context(), mem(disk), BackupOptions{To: "backups"}); err == nil {
		t.Error("a damaged store was backed up without a word")
	} else if _, ok := errors.AsType[*Damaged](err); !ok {
		t.Errorf("damaged: got %v", err)
	}
	if _, err := Backup(t.Context(), Options{FS: fs, Dir: "nothing"}, BackupOptions{To: "backups"}); err == nil || !strings.Contains(err.Error(), "no store") {
		t.Errorf("an empty folder: got %v", err)
	}
}

func TestFlippedByteInABackupIsNamed(t *testing.T) {
	fs := vfs.NewCrashableMem()
	chain(t, fs, 1)
	folder := "backups/" + backupName(1)
	names, err := fs.List(folder)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(newSeed(t), 1))
	for _, n := range names {
		disk := killed(fs)
		path := folder + "/" + n
		whole := contentOf(t, disk, path)
		if len(whole) > 0 {
			rewriteFile(t, disk, path, flipped(whole, rng.IntN(len(whole))))
		} else {
			rewriteFile(t, disk, path, []byte("x"))
		}
		isNamed(t, disk, folder, n)
		rewriteFile(t, disk, path, nil) // it is gone
		isNamed(t, disk, folder, n)
	}
}

// isNamed wants that a file is named by verify, and refused by restore.
func isNamed(t *testing.T, disk *vfs.MemFS, folder, name string) {
	t.Helper()
	if name == manifestSum {
		name = "manifest." // one of the two
	}
	all, err := VerifyBackups(t.Context(), busy(disk), folder, nil)
	if err != nil || len(all) != 1 || len(all[0].Problems) != 1 || !strings.Contains(all[0].Problems[0], folder+"/"+name) {
		t.Errorf("%s: verify found %+v, %v", name, all, err)
	}
	o := busy(disk)
	o.Dir = "restored"
	_, err = Restore(t.Context(), o, RestoreOptions{From: folder})
	if _, ok := errors.AsType[*BadBackup](err); !ok || !strings.Contains(err.Error(), name) {
		t.Errorf("%s: restore: got %v, want *BadBackup", name, err)
	}
	if st, err := disk.List("restored"); err == nil && slices.Contains(st, "store") {
		t.Errorf("%s: a refused restore has left %v", name, st)
	}
}

func TestVerifyFindsWhatWasDamagedBefore(t *testing.T) {
	fs := vfs.NewCrashableMem()
	st := mustOpen(t, mem(fs))
	newWriter(t, st).add(t, 2000)
	if err := st.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustClose(t, st)
	table := filesOf(t, fs, "sst")[0]
	whole := contentOf(t, fs, table)
	rewriteFile(t, fs, table, flipped(whole, len(whole)/3))
	if _, err := Backup(t.Context(), mem(fs), BackupOptions{To: "backups"}); err != nil {
		t.Fatal(err)
	}
	all, err := VerifyBackups(t.Context(), mem(fs), "backups", nil)
	if err != nil || len(all[0].Problems) != 1 || !strings.Contains(all[0].Problems[0], "before the backup was made") {
		t.Errorf("got %+v, %v", all, err)
	}
}

func TestRestoreRefusesAFolderThatIsTaken(t *testing.T) {
	fs := vfs.NewCrashableMem()
	seqs := chain(t, fs, 1)
	into := func(dir string) error {
		o := busy(fs)
		o.Dir = dir
		_, err := Restore(t.Context(), o, RestoreOptions{From: "backups"})
		return err
	}
	before := everything(t, fs)
	if err := into("data"); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("a folder with a store: got %v", err)
	}
	if now := everything(t, fs); !maps.Equal(before, now) {
		t.Error("the folder was changed")
	}
	st := mustOpen(t, busy(fs))
	defer mustClose(t, st)
	if err := into("data"); err == nil || !strings.Contains(err.Error(), "locked by") {
		t.Errorf("a folder in use: got %v", err)
	}
	if n := wantRows(t, st); n != seqs[0] {
		t.Errorf("the store in use has %d rows, want %d", n, seqs[0])
	}
	rewriteNew(t, fs, "mine/notes", "x")
	if err := into("mine"); err == nil || !strings.Contains(err.Error(), "notes") {
		t.Errorf("a folder with a file: got %v", err)
	}
	rewriteNew(t, fs, "new/admin.key", "x")
	if err := into("new"); err != nil {
		t.Errorf("a folder with an admin key: %v", err)
	}
}

// A service manager may start the server after the restore has failed.
func TestFailedRestoreLeavesNoPlaceForANewStore(t *testing.T) {
	fs := vfs.NewCrashableMem()
	seqs := chain(t, fs, 1)
	table := "backups/" + backupName(1) + "/"
	names, err := fs.List(table)
	if err != nil {
		t.Fatal(err)
	}
	table += names[slices.IndexFunc(names, isTable)]
	whole := contentOf(t, fs, table)
	rewriteFile(t, fs, table, flipped(whole, len(whole)/2))
	o := busy(fs)
	o.Dir = "restored"
	if _, err := Restore(t.Context(), o, RestoreOptions{From: "nope"}); err == nil || !strings.Contains(err.Error(), "; name a backup") {
		t.Errorf("no backup: got %v, want what to do", err)
	}
	if _, err := fs.Stat("restored"); !isNotExist(err) {
		t.Errorf("a restore of nothing has made the folder: %v", err)
	}
	if _, err := Restore(t.Context(), o, RestoreOptions{From: "backups"}); err == nil {
		t.Fatal("a damaged backup was restored")
	}
	if st, err := Open(o); err == nil || !strings.Contains(err.Error(), `run "petrel restore --data restored" again, or remove`) {
		t.Errorf("open: %v, %v, want a refusal", st, err)
	}
	if left, err := fs.List("restored/" + restoring); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
	rewriteFile(t, fs, table, whole)
	if _, err := Restore(t.Context(), o, RestoreOptions{From: "backups"}); err != nil {
		t.Fatal(err)
	}
	st := mustOpen(t, o)
	defer mustClose(t, st)
	if got := wantRows(t, st); got != seqs[0] {
		t.Errorf("%d rows, want %d", got, seqs[0])
	}
}

func rewriteNew(t *testing.T, fs vfs.FS, path, text string) {
	t.Helper()
	if err := fs.MkdirAll(fs.PathDir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := writeFile(fs, path, text); err != nil {
		t.Fatal(err)
	}
}

// cutsOf runs do on a file system and returns disks as a power cut may leave
// them at random moments meanwhile.
func cutsOf(t *testing.T, fs *vfs.MemFS, n int, under string, do func(fs vfs.FS)) []*vfs.MemFS {
	rng := rand.New(rand.NewPCG(newSeed(t), 1))
	var mu sync.Mutex
	moments := 0
	count := &hookFS{FS: fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rng}), at: func(e event) error {
		mu.Lock()
		defer mu.Unlock()
		if strings.HasPrefix(e.path, under) {
			moments++
		}
		return nil
	}}
	do(count)
	var cuts []*vfs.MemFS
	for i := 0; i < n; {
		disk := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rng})
		left := 1 + rng.IntN(moments)
		taken := len(cuts)
		h := &hookFS{FS: disk, at: func(e event) error {
			mu.Lock()
			defer mu.Unlock()
			if strings.HasPrefix(e.path, under) {
				if left--; left == 0 {
					percent := []int{0, 100, rng.IntN(100)}[rng.IntN(3)]
					cuts = append(cuts, disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng}))
				}
			}
			return nil
		}}
		do(h)
		if len(cuts) == taken {
			continue // it had fewer moments this time
		}
		i++
	}
	return cuts
}

func TestBackupThatIsCutShortIsNone(t *testing.T) {
	fs := vfs.NewCrashableMem()
	seqs := chain(t, fs, 2)
	cuts := cutsOf(t, fs, *backupKills, "backups/"+backupName(3), func(fs vfs.FS) {
		st := mustOpen(t, busy(fs))
		defer mustClose(t, st)
		w := newWriter(t, st)
		w.add(t, 100)
		if _, err := Backup(t.Context(), busy(fs), online(st, "backups")); err != nil {
			t.Fatal(err)
		}
	})
	parts := 0
	for i, disk := range cuts {
		names, err := disk.List("backups")
		if err != nil {
			t.Fatal(err)
		}
		n := len(backupsIn(names))
		if n < 2 || n > 3 {
			t.Fatalf("cut %d: %v", i, names)
		}
		if slices.Contains(names, backupName(3)+partSuffix) {
			parts++
		}
		verifies(t, busy(disk), "backups", n)
		st := mustOpen(t, busy(disk))
		if left, _ := disk.List("data"); slices.ContainsFunc(left, func(n string) bool { return strings.HasPrefix(n, checkpointPrefix) }) {
			t.Errorf("cut %d: the next start has left %v", i, left)
		}
		if got := wantRows(t, st); got < seqs[1] {
			t.Errorf("cut %d: the store has %d rows, want %d or more", i, got, seqs[1])
		}
		if _, err := Backup(t.Context(), busy(disk), online(st, "backups")); err != nil {
			t.Errorf("cut %d: the next backup: %v", i, err)
		}
		mustClose(t, st)
		verifies(t, busy(disk), "backups", n+1)
	}
	t.Logf("kills=%d unfinished=%d", len(cuts), parts)
	if parts == 0 && len(cuts) >= 40 { // about one cut of three leaves one
		t.Error("no cut has left an unfinished backup: nothing was shown")
	}
}

func TestRestoreThatIsCutShortIsNoStore(t *testing.T) {
	fs := vfs.NewCrashableMem()
	seqs := chain(t, fs, 1)
	o := busy(nil)
	o.Dir = "restored"
	run := func(fs vfs.FS) error {
		o := o
		o.FS = fs
		_, err := Restore(t.Context(), o, RestoreOptions{From: "backups"})
		return err
	}
	cuts := cutsOf(t, fs, *backupKills, "restored/", func(fs vfs.FS) {
		if err := run(fs); err != nil {
			t.Fatal(err)
		}
	})
	unfinished := 0
	for i, disk := range cuts {
		o := o
		o.FS = disk
		names, err := disk.List("restored")
		if err != nil && !isNotExist(err) {
			t.Fatal(err)
		}
		if slices.Contains(names, "store") { // it was finished
			continue
		}
		if slices.Contains(names, restoring) {
			unfinished++
			if _, err := Open(o); err == nil || !strings.Contains(err.Error(), "restore") {
				t.Fatalf("cut %d: %v was opened: %v", i, names, err)
			}
			if _, err := Repair(o); err == nil || !strings.Contains(err.Error(), "restore") {
				t.Fatalf("cut %d: %v was repaired: %v", i, names, err)
			}
		}
		if err := run(disk); err != nil {
			t.Errorf("cut %d: the next restore into %v: %v", i, names, err)
		}
	}
	for i, disk := range cuts {
		o := o
		o.FS = disk
		st, err := Open(o)
		if err != nil {
			t.Errorf("cut %d: %v", i, err)
			continue
		}
		if got := wantRows(t, st); got != seqs[0] {
			t.Errorf("cut %d: %d rows, want %d", i, got, seqs[0])
		}
		mustClose(t, st)
	}
	t.Logf("kills=%d unfinished=%d", len(cuts), unfinished)
	if unfinished == 0 {
		t.Error("no cut has left an unfinished restore: nothing was shown")
	}
}

func TestFullDiskEndsACheckpointAndNotTheStore(t *testing.T) {
	fs := vfs.NewCrashableMem()
	var full atomic.Bool
	h := &hookFS{FS: fs, at: func(e event) error {
		if full.Load() && strings.Contains(e.path, checkpointPrefix) && !e.after && (e.op == "write" || e.op == "create" || e.op == "sync") {
			return syscall.ENOSPC
		}
		return nil
	}}
	st := mustOpen(t, busy(h))
	w := newWriter(t, st)
	w.add(t, 400)
	full.Store(true)
	made := make(chan error, 1)
	go func() {
		_, err := st.Checkpoint(t.Context())
		made <- err
	}()
	select {
	case err := <-made:
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("got %v, want %v", err, syscall.ENOSPC)
		}
	case <-st.Failed():
		t.Fatal("the store has ended")
	}
	names, err := fs.List("data")
	if err != nil || slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, checkpointPrefix) }) {
		t.Errorf("left %v, %v", names, err)
	}
	w.add(t, 400)
	full.Store(false)
	if _, err := Backup(t.Context(), busy(h), online(st, "backups")); err != nil {
		t.Error(err)
	}
	mustClose(t, st)
	verifies(t, busy(fs), "backups", 1)
	again := mustOpen(t, busy(fs))
	defer mustClose(t, again)
	if n := wantRows(t, again); n != 800 {
		t.Errorf("%d rows, want 800", n)
	}
}

// A backup goes to another disk, and an operator wants one most when this disk is
// nearly full.
func TestNearlyFullDiskIsBackedUp(t *testing.T) {
	fs := vfs.NewCrashableMem()
	var free atomic.Uint64
	free.Store(1 << 40)
	flushed := func() (n int) { return len(filesOf(t, fs, "sst")) }
	o := mem(fs)
	o.MinFreeBytes, o.CheckEvery, o.FreeBytes = 1<<30, time.Millisecond, func() (uint64, error) { return free.Load(), nil }
	st := mustOpen(t, o)
	defer mustClose(t, st)
	newWriter(t, st).add(t, 50)
	free.Store(1 << 29)
	eventually.True(t, "the disk is nearly full", func() bool { return errors.Is(st.Writable(), store.ErrFull) })
	tables := flushed()
	if _, err := Backup(t.Context(), o, online(st, "backups")); err != nil {
		t.Fatal(err)
	}
	if flushed() != tables {
		t.Error("the checkpoint wrote a table into the store: without space for it, the store ends")
	}
	verifies(t, mem(fs), "backups", 1)
	to := mem(fs)
	to.Dir = "restored"
	if _, err := Restore(t.Context(), to, RestoreOptions{From: "backups"}); err != nil {
		t.Fatal(err)
	}
	again := mustOpen(t, to)
	defer mustClose(t, again)
	if n := wantRows(t, again); n != 50 {
		t.Errorf("%d rows, want 50", n)
	}
	free.Store(1000) // less than the log
	if _, err := Backup(t.Context(), o, online(st, "backups")); !errors.Is(err, store.ErrFull) {
		t.Errorf("got %v, want %v", err, store.ErrFull)
	}
	if err := st.out.err(); err != nil {
		t.Error(err)
	}
}

// The log is read ahead of the disk. A message in a backup is durable in the store before
// the backup is there; otherwise a power cut could give the message another place in the
// store.
func TestF1CheckpointHoldsNothingThatCouldBeLost(t *testing.T) {
	fs := vfs.NewCrashableMem()
	var st *Store
	var w *writer
	syncing, gate := make(chan struct{}), make(chan struct{})
	syncBegins, letSync := sync.OnceFunc(func() { close(syncing) }), sync.OnceFunc(func() { close(gate) })
	acked := make(chan error, 1)
	var armed, held atomic.Bool
	h := &hookFS{FS: fs, at: func(e event) error {
		if !armed.Load() || e.after {
			return nil
		}
		if e.op == "create" && strings.Contains(e.path, checkpointPrefix) && !held.Swap(true) {
			go st.Append(w.next(), func(err error) { acked <- err })
			eventually.True(t, "the row to be readable", func() bool { return lastSeq(t, st) == 11 })
			<-syncing // the row is in the file of the log
		}
		if held.Load() && e.op == "sync" && isFile(e.path, "log") && strings.HasPrefix(e.path, "data/store/") {
			syncBegins()
			<-gate
		}
		return nil
	}}
	st = mustOpen(t, mem(h))
	defer mustClose(t, st)
	defer letSync()
	w = newWriter(t, st)
	w.add(t, 10)
	armed.Store(true)
	done := make(chan error, 1)
	go func() {
		_, err := st.Checkpoint(t.Context())
		done <- err
	}()
	eventually.True(t, "the copy of the row", func() bool {
		names, _ := fs.List("data")
		i := slices.IndexFunc(names, func(n string) bool { return strings.HasPrefix(n, checkpointPrefix) })
		if i < 0 {
			return false
		}
		f, err := readable(mem(fs).withDefaults(), "data/"+names[i])
		return err == nil && f.last.pos == 11
	})
	select {
	case err := <-done:
		t.Errorf("the checkpoint was handed out before its last row was synced: %v", err)
		done <- err
	default:
	}
	letSync()
	if err := errors.Join(<-acked, <-done); err != nil {
		t.Error(err)
	}
}

func TestCheckpointsAreMadeOneAtATime(t *testing.T) {
	fs := vfs.NewCrashableMem()
	st := mustOpen(t, mem(fs))
	defer mustClose(t, st)
	newWriter(t, st).add(t, 5)
	first, err := st.Checkpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	second, err := st.Checkpoint(t.Context()) // the first was left by who has ended
	if err != nil {
		t.Fatal(err)
	}
	names, err := fs.List("data")
	if err != nil || slices.Contains(names, first) || !slices.Contains(names, second) {
		t.Errorf("%v has %s and %s: %v", names, first, second, err)
	}
	st.checkpointing.Store(true)
	if _, err := st.Checkpoint(t.Context()); !errors.Is(err, ErrBusy) {
		t.Errorf("got %v, want %v", err, ErrBusy)
	}
	st.checkpointing.Store(false)
	for _, busy := range []string{"data", "backups"} {
		if err := fs.MkdirAll(busy, 0o700); err != nil {
			t.Fatal(err)
		}
		lock, err := fs.Lock(busy + "/" + backupLock)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Backup(t.Context(), mem(fs), online(st, "backups")); err == nil || !strings.Contains(err.Error(), "is another backup") {
			t.Errorf("while another backup uses %s: got %v", busy, err)
		}
		if err := lock.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := storetest.Append(st, newWriter(t, st).next()); err != nil {
		t.Error(err)
	}
}

// A backup holds regular files: a symbolic link in it brings no file from outside into a store,
// and a FIFO keeps nobody waiting.
func TestABackupHoldsRegularFilesOnly(t *testing.T) {
	o, folder := onDisk(t), t.TempDir()
	fill(t, o, 3)
	if _, err := Backup(t.Context(), o, BackupOptions{To: folder}); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(folder, backupName(1))
	names, err := vfs.Default.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		path, kept := filepath.Join(dir, name), filepath.Join(t.TempDir(), name)
		if err := os.Rename(path, kept); err != nil {
			t.Fatal(err)
		}
		for what, replace := range map[string]func() error{
			"a symbolic link": func() error { return os.Symlink(kept, path) },
			"a FIFO":          func() error { return syscall.Mkfifo(path, 0o600) },
		} {
			if err := replace(); err != nil {
				t.Fatal(err)
			}
			_, err := Restore(t.Context(), onDisk(t), RestoreOptions{From: folder})
			if bad, ok := errors.AsType[*BadBackup](err); !ok || bad.What != "it is no regular file" || !strings.Contains(err.Error(), name) {
				t.Errorf("%s in the place of %s: %v, want that it is no regular file", what, name, err)
			}
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Rename(kept, path); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Restore(t.Context(), onDisk(t), RestoreOptions{From: folder}); err != nil {
		t.Errorf("as it was: %v", err)
	}
}

func TestAFolderTakesTheBackupsOfOneStore(t *testing.T) {
	one, other := onDisk(t), onDisk(t)
	fill(t, one, 3)
	fill(t, other, 3)
	to, apart := filepath.Join(t.TempDir(), "backups"), filepath.Join(t.TempDir(), "backups")
	for _, folder := range []string{to, apart} {
		if _, err := Backup(t.Context(), one, BackupOptions{To: folder}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Backup(t.Context(), other, BackupOptions{To: to}); err == nil || !strings.Contains(err.Error(), "; name another folder") {
		t.Errorf("a backup of another store: %v", err)
	}
	if _, err := Backup(t.Context(), other, BackupOptions{To: filepath.Join(to, "other")}); err != nil {
		t.Fatal(err)
	}
	copied(t, filepath.Join(to, "other", backupName(1)), filepath.Join(apart, backupName(2)))
	fresh := onDisk(t)
	if _, err := Restore(t.Context(), fresh, RestoreOptions{From: apart}); err == nil || !strings.Contains(err.Error(), "; name the one to restore") {
		t.Errorf("the newest of two stores: %v", err)
	}
	if r, err := Restore(t.Context(), fresh, RestoreOptions{From: filepath.Join(apart, backupName(1))}); err != nil || r.Name != backupName(1) {
		t.Errorf("the one that was named: %+v, %v", r, err)
	}
}
