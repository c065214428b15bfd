package pebblestore

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/petrel-im/petrel/internal/imtest/eventually"
)

// run runs a program that every Linux has.
func run(t testing.TB, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
}

// inPlace writes the files of from over those of to, as rsync --inplace --delete does:
// files that are there keep their inode numbers, those that from does not have go.
func inPlace(t testing.TB, from, to string) {
	t.Helper()
	other := func(path, of, in string) string {
		rel, err := filepath.Rel(of, path)
		if err != nil {
			t.Fatal(err)
		}
		return filepath.Join(in, rel)
	}
	err := errors.Join(
		filepath.WalkDir(to, func(path string, e fs.DirEntry, err error) error {
			if _, gone := os.Lstat(other(path, to, from)); err != nil || e.IsDir() || gone == nil {
				return err
			}
			return os.Remove(path)
		}),
		filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return os.WriteFile(other(path, from, to), b, 0o600)
		}))
	if err != nil {
		t.Fatal(err)
	}
}

// ways in which a copy takes the place of a folder, and how the copy is made.
var ways = []struct {
	name      string
	copy, put func(t testing.TB, from, to string)
}{
	{"cp -a", cpA, cpA},
	{"rsync --inplace --delete", cpA, inPlace},
	{"tar", packTar,
		func(t testing.TB, from, to string) { run(t, "tar", "-C", to, "-xf", from+".tar") }},
	{"tar --overwrite", packTar,
		func(t testing.TB, from, to string) { run(t, "tar", "-C", to, "--overwrite", "-xf", from+".tar") }},
	{"cp -al, renamed", func(t testing.TB, from, to string) { run(t, "cp", "-al", from, to) },
		func(t testing.TB, from, to string) {
			run(t, "mv", to, to+"-newest")
			run(t, "mv", from, to)
		}},
}

// packTar packs a folder. Files of a store that runs may change, or go, while they are packed:
// tar says so by its exit code 1.
func packTar(t testing.TB, from, to string) {
	t.Helper()
	run(t, "sh", "-c", `tar -C "$0" -cf "$1" . || [ $? = 1 ]`, from, to+".tar")
}

func cpA(t testing.TB, from, to string) {
	t.Helper()
	if err := os.MkdirAll(to, 0o700); err != nil {
		t.Fatal(err)
	}
	run(t, "cp", "-a", from+"/.", to)
}

// ended leaves a store as a process does that was killed. Its folder gets another name:
// Pebble holds the lock of the former one until this process ends.
func ended(t testing.TB, st *Store, o *Options) {
	t.Helper()
	st.out.fail(errors.New("killed"))
	_ = st.Close() // it has failed
	run(t, "mv", o.Dir, o.Dir+"-x")
	o.Dir += "-x"
}

func sealOf(st *Store) seal {
	st.guard.mu.Lock()
	defer st.guard.mu.Unlock()
	return st.guard.inv.Seal
}

// An older copy of the folder is put in the place of the folder. In three of four cases
// the server had the same files open when the copy was made, and all copies keep the
// inode numbers of the log, the manifest and the witness, or are links to them.
func TestOlderFilesWrittenOverTheFolderAreNoticed(t *testing.T) {
	for _, w := range ways {
		for _, when := range []string{"copied while it ran, killed", "copied while it ran, closed", "copied stopped, started, killed"} {
			t.Run(w.name+", "+when, func(t *testing.T) {
				t.Parallel()
				o := onDisk(t)
				o.sealShare = 1 // the next seal comes soon although one took long
				st := mustOpen(t, o)
				wr := newWriter(t, st)
				wr.add(t, 5)
				aside := o.Dir + "-aside"
				if when == "copied stopped, started, killed" {
					mustClose(t, st)
					w.copy(t, o.Dir, aside)
					st = mustOpen(t, o)
					newWriter(t, st).add(t, 3)
				} else {
					w.copy(t, o.Dir, aside)
					was := sealOf(st)
					wr.add(t, 3)
					if when == "copied while it ran, killed" {
						eventually.True(t, "a new seal", func() bool { return sealOf(st) != was })
					}
				}
				if when == "copied while it ran, closed" {
					mustClose(t, st)
				} else {
					ended(t, st, &o)
				}
				w.put(t, aside, o.Dir)
				rewound(t, o, "was put back from a copy")
				if _, err := Renew(o); err != nil {
					t.Fatal(err)
				}
				st = mustOpen(t, o)
				if got := lastSeq(t, st); got < 5 {
					t.Errorf("last row is %d, want 5 or more", got)
				}
				newWriter(t, st).add(t, 1)
				mustClose(t, st)
				mustClose(t, mustOpen(t, o))
			})
		}
	}
}

// A copy that is started beside the store would go on with the same history.
func TestCopyBesideItsOriginalIsRefused(t *testing.T) {
	o := onDisk(t)
	fill(t, o, 5)
	beside := o
	beside.Dir += "-beside"
	cpA(t, o.Dir, beside.Dir)
	st := mustOpen(t, o)
	defer mustClose(t, st)
	rewound(t, beside, "was put back from a copy")
	beside.AcceptCopies = true // nothing else shows it
	mustClose(t, mustOpen(t, beside))
}

// Nothing is lost, but an older witness cannot show a later loss.
func TestOlderWitnessIsRefused(t *testing.T) {
	o := onDisk(t)
	fill(t, o, 5)
	path := filepath.Join(o.Dir, "witness")
	older, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, o, 5)
	if err := os.WriteFile(path, older, 0o600); err != nil {
		t.Fatal(err)
	}
	rewound(t, o, "was put back from a copy: seal-")
	o.AcceptCopies = true // the inventory shows it then
	_, err = Open(o)
	if d, ok := errors.AsType[*Damaged](err); !ok || d.Rewound || d.First > 0 || d.Cause != nil {
		t.Errorf("without the seal: got %v, want a file that the inventory names", err)
	}
}

// The folder as it was a moment ago is written over its files, which keep their inodes, after a kill. No seal was made
// meanwhile, so the store cannot notice it. Only the positions that clients know are ahead of it.
func TestFilesOfTheLastSecondWrittenOverAreNotNoticed(t *testing.T) {
	eventually.True(t, "no seal is made between the copy and the kill", func() bool {
		o := onDisk(t)
		st := mustOpen(t, o)
		w := newWriter(t, st)
		w.add(t, 5)
		aside := o.Dir + "-aside"
		was := sealOf(st)
		cpA(t, o.Dir, aside)
		w.add(t, 3)
		ended(t, st, &o)
		if sealOf(st) != was {
			return false
		}
		inPlace(t, aside, o.Dir)
		st = mustOpen(t, o)
		defer mustClose(t, st)
		if again := newWriter(t, st); again.pos >= w.pos || again.seq != 5 {
			t.Errorf("position %d with row %d, want less than %d with row 5", again.pos, again.seq, w.pos)
		}
		return true
	})
}

// Usual operations on a folder do not make it count as a copy.
func TestFolderThatIsNoCopyIsServed(t *testing.T) {
	o := onDisk(t)
	for what, do := range map[string]func(){
		"nothing":       func() {},
		"chmod":         func() { run(t, "chmod", "-R", "g+r", o.Dir) },
		"touch":         func() { run(t, "find", o.Dir, "-exec", "touch", "-d", "2020-01-01", "{}", ";") },
		"read":          func() { run(t, "tar", "-cf", filepath.Join(t.TempDir(), "backup.tar"), o.Dir) },
		"linked":        func() { run(t, "cp", "-al", o.Dir, filepath.Join(t.TempDir(), "links")) },
		"renamed twice": func() { run(t, "mv", o.Dir, o.Dir+"-2"); run(t, "mv", o.Dir+"-2", o.Dir) },
		"put back unchanged": func() {
			run(t, "rm", "-rf", o.Dir+"-copy")
			run(t, "cp", "-a", o.Dir, o.Dir+"-copy")
			run(t, "cp", "-a", o.Dir+"-copy/.", o.Dir)
		},
	} {
		for _, killed := range []bool{false, true} {
			st := mustOpen(t, o)
			newWriter(t, st).add(t, 2)
			if killed {
				ended(t, st, &o)
			} else {
				mustClose(t, st)
			}
			do()
			again, err := Open(o)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			mustClose(t, again)
		}
	}
}

// The name of a seal is durable before the witness knows it, at every moment.
func TestSealIsThereAfterAPowerCut(t *testing.T) {
	disk := vfs.NewCrashableMem()
	mustClose(t, mustOpen(t, mem(disk)))
	var cuts atomic.Int64
	h := &hookFS{FS: disk, at: func(e event) error {
		if !isFile(e.path, "witness") && !strings.Contains(e.path, "seal-") {
			return nil
		}
		cuts.Add(1)
		cut := disk.CrashClone(vfs.CrashCloneCfg{})
		st, err := Open(mem(cut))
		if err != nil {
			t.Errorf("%s %s after=%v: %v", e.op, e.path, e.after, err)
			return nil
		}
		mustClose(t, st)
		return nil
	}}
	st := mustOpen(t, mem(h))
	newWriter(t, st).add(t, 2)
	mustClose(t, st)
	if cuts.Load() < 10 {
		t.Errorf("%d power cuts, want more", cuts.Load())
	}
}

func TestSealLeavesAStoreAloneThatTookThePlace(t *testing.T) {
	eventually.True(t, "a store makes its last seal before it misses its folder", func() bool {
		o, other := onDisk(t), onDisk(t)
		fill(t, other, 3)
		st := mustOpen(t, o)
		newWriter(t, st).add(t, 3)
		run(t, "mv", o.Dir, o.Dir+"-away")
		run(t, "mv", other.Dir, o.Dir)
		_ = st.Close() // it makes a seal, unless it has noticed that its folder is gone
		if st.out.err() != nil {
			return false // Pebble holds the lock of the folder still
		}
		mustClose(t, mustOpen(t, o))
		return true
	})
}

// A disk without a place for a seal goes on with the one before.
func TestSealThatCannotBeMadeEndsNothing(t *testing.T) {
	fs := vfs.NewCrashableMem()
	var full atomic.Bool
	h := &hookFS{FS: fs, at: func(e event) error {
		if full.Load() && e.op == "create" && strings.Contains(e.path, "seal-") {
			return errors.New("no space")
		}
		return nil
	}}
	st := mustOpen(t, mem(h))
	newWriter(t, st).add(t, 2)
	full.Store(true)
	mustClose(t, st)
	mustClose(t, mustOpen(t, mem(h)))
	full.Store(false)
	mustClose(t, mustOpen(t, mem(fs)))
}
