package pebblestore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storetest"
)

func TestRepairLeavesASoundStoreAlone(t *testing.T) {
	fs := vfs.NewCrashableMem()
	st := mustOpen(t, mem(fs))
	newWriter(t, st).add(t, 5)
	for what, disk := range map[string]*vfs.MemFS{"killed": killed(fs), "unplugged": unplugged(fs)} {
		before := everything(t, disk)
		if _, err := Repair(mem(disk)); !errors.Is(err, ErrSound) {
			t.Errorf("%s: got %v, want %v", what, err, ErrSound)
		}
		for name, was := range before {
			if now := everything(t, disk)[name]; name != "data/pid" && now != was {
				t.Errorf("%s: %s has changed", what, name)
			}
		}
	}
	mustClose(t, st)
}

func TestRepairKeepsTheUnbrokenPart(t *testing.T) {
	fs := vfs.NewCrashableMem()
	st := mustOpen(t, mem(fs))
	info := st.Info()
	w := newWriter(t, st)
	w.add(t, 20)
	disk := killed(fs)
	mustClose(t, st)
	logs := filesOf(t, disk, "log")
	path := logs[len(logs)-1]
	whole := contentOf(t, disk, path)
	rewriteFile(t, disk, path, flipped(whole, len(whole)*2/3))
	refusal(t, disk, "flipped")
	r, err := Repair(mem(disk))
	if err != nil {
		t.Fatal(err)
	}
	if r.Found.Last != 22 && r.Found.Cause == nil {
		t.Errorf("found %v", r.Found)
	}
	if got := contentOf(t, disk, r.Aside+"/"+disk.PathBase(path)); len(r.Files) != 1 || string(got) != string(flipped(whole, len(whole)*2/3)) {
		t.Errorf("the damaged log is not as it was in %s: %v", r.Aside, r.Files)
	}
	again := mustOpen(t, mem(disk))
	defer mustClose(t, again)
	if got := again.Info(); got.StoreID != info.StoreID || got.HistoryID == info.HistoryID || got.HistoryID != r.HistoryID || got.Secret != info.Secret {
		t.Errorf("got %+v after %+v, want the same store with a new history", got, info)
	}
	left := lastSeq(t, again)
	if left < 5 || left >= 20 || r.Recovered != uint64(left)+2 {
		t.Errorf("last row is %d and commit %d was recovered, want a part of 20 rows and two commits more", left, r.Recovered)
	}
	if err := again.Rows(t.Context(), conv, 1, left, func(store.Row) bool { return true }); err != nil {
		t.Error(err)
	}
	if err := storetest.Append(again, w.next()); !errors.Is(err, store.ErrStale) {
		t.Errorf("the writer from before the repair: got %v, want %v", err, store.ErrStale)
	}
	newWriter(t, again).add(t, 3)
}

func TestRepairGivesUpWhatFollowsAMissingLog(t *testing.T) {
	disk, _, last := severalLogs(t)
	logs := filesOf(t, disk, "log")
	rewriteFile(t, disk, logs[len(logs)-2], nil)
	refusal(t, disk, "a log in the middle is gone")
	r, err := Repair(mem(disk))
	if err != nil {
		t.Fatal(err)
	}
	again := mustOpen(t, mem(disk))
	defer mustClose(t, again)
	left := lastSeq(t, again)
	if left == 0 || left >= last {
		t.Errorf("last row is %d, want a part of %d", left, last)
	}
	if err := again.Rows(t.Context(), conv, 1, left, func(store.Row) bool { return true }); err != nil {
		t.Errorf("what is left has a hole: %v", err)
	}
	if len(r.Files) != 1 || r.Files[0] != disk.PathBase(logs[len(logs)-1]) {
		t.Errorf("set aside: %v, want the last log", r.Files)
	}
}

// severalLogs is the disk of a store that was killed with more than two log
// files whose data is in no table, its history id and its last row.
func severalLogs(t *testing.T) (*vfs.MemFS, uint64, im.Seq) {
	t.Helper()
	gate := make(chan struct{})
	var armed atomic.Bool
	fs := vfs.NewCrashableMem()
	o := mem(&hookFS{FS: fs, at: func(e event) error {
		if armed.Load() && isFile(e.path, "sst") && e.op == "create" {
			<-gate // nothing is flushed
		}
		return nil
	}})
	o.MemTableBytes = 64 << 10
	st := mustOpen(t, o)
	w := newWriter(t, st)
	armed.Store(true)
	for len(filesOf(t, fs, "log")) < 4 {
		w.add(t, 20)
	}
	w.add(t, 5)
	disk := killed(fs)
	close(gate)
	mustClose(t, st)
	return disk, st.Info().HistoryID, w.seq
}

// TestRepairIsDoneOrNotDone cuts the power during repairs.
func TestRepairIsDoneOrNotDone(t *testing.T) {
	disk, history, _ := severalLogs(t)
	logs := filesOf(t, disk, "log")
	rewriteFile(t, disk, logs[len(logs)-2], nil)
	rng := rand.New(rand.NewPCG(newSeed(t), 0))
	var want im.Seq
	for n := 0; ; n++ {
		fs := killed(disk)
		left := n
		var mu sync.Mutex
		var cut *vfs.MemFS
		_, err := Repair(mem(&hookFS{FS: fs, at: func(event) error {
			mu.Lock()
			defer mu.Unlock()
			if left--; left == 0 {
				cut = fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
			}
			return nil
		}}))
		if err != nil {
			t.Fatal(err)
		}
		if cut == nil && n > 0 {
			if n < 20 {
				t.Errorf("a repair has only %d steps", n)
			}
			return
		}
		if n == 0 {
			cut = fs
		}
		what := fmt.Sprintf("repair cut at step %d", n)
		again, err := Open(mem(cut))
		if err != nil {
			if _, ok := errors.AsType[*Damaged](err); !ok {
				t.Fatalf("%s: %v", what, err)
			}
			if _, err := Repair(mem(cut)); err != nil {
				t.Fatalf("%s: second repair: %v", what, err)
			}
			again = mustOpen(t, mem(cut))
		}
		if got := again.Info().HistoryID; got == history {
			t.Errorf("%s: the history is still the old one", what)
		}
		got := lastSeq(t, again)
		if n == 0 {
			want = got
		}
		if got != want {
			t.Errorf("%s: last row is %d, want %d", what, got, want)
		}
		mustClose(t, again)
	}
}

func TestRepairNamesTheCommitsThatAreGone(t *testing.T) {
	fs := vfs.NewCrashableMem()
	st := mustOpen(t, mem(fs))
	newWriter(t, st).add(t, 20)
	disk := killed(fs)
	mustClose(t, st)
	logs := filesOf(t, disk, "log")
	path := logs[len(logs)-1]
	whole := contentOf(t, disk, path)
	rewriteFile(t, disk, path, flipped(whole, len(whole)*2/3))
	r, err := Repair(mem(disk))
	if err != nil {
		t.Fatal(err)
	}
	if r.LostFrom != r.Recovered+1 || r.LostTo != 22 || r.LostMs == 0 {
		t.Errorf("got %d to %d, of %d, after %d commits that are kept; want all up to 22", r.LostFrom, r.LostTo, r.LostMs, r.Recovered)
	}
}

// A power cut brings a log file back whose removal was not synced. Its content is in
// tables, and so is that of the log files between it and the newest.
func TestRepairPassesOverALogThatWasGivenUp(t *testing.T) {
	fs := vfs.NewCrashableMem()
	st := mustOpen(t, mem(fs))
	w := newWriter(t, st)
	var first string
	var content []byte
	flush := func(rows int) {
		t.Helper()
		w.add(t, rows)
		if err := st.db.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	w.add(t, 5)
	logs := filesOf(t, fs, "log")
	first = logs[len(logs)-1]
	content = contentOf(t, fs, first)
	flush(5)
	flush(10)
	w.add(t, 10)
	disk := killed(fs)
	mustClose(t, st)
	if _, err := disk.Stat(first); err == nil {
		if err := disk.Remove(first); err != nil {
			t.Fatal(err)
		}
	}
	rewriteNew(t, disk, first, string(content))
	tables := filesOf(t, disk, "sst")
	rewriteFile(t, disk, tables[len(tables)-1], nil) // it has the number of the last commit in tables
	r, err := Repair(mem(disk))
	if err != nil {
		t.Fatal(err)
	}
	again := mustOpen(t, mem(disk))
	defer mustClose(t, again)
	if got := lastSeq(t, again); got != 30 || r.LostTo != 0 {
		t.Errorf("last row is %d, want 30; lost %d to %d", got, r.LostFrom, r.LostTo)
	}
}

func TestDamagedFileOfOptionsStopsNothing(t *testing.T) {
	fs := vfs.NewCrashableMem()
	st := mustOpen(t, mem(fs))
	newWriter(t, st).add(t, 20)
	mustClose(t, st)
	damaged := filesOf(t, fs, "options")
	for _, path := range damaged {
		rewriteFile(t, fs, path, append([]byte("\x00x"), contentOf(t, fs, path)...))
	}
	again := mustOpen(t, mem(fs))
	defer mustClose(t, again)
	if got := lastSeq(t, again); got != 20 {
		t.Errorf("last row is %d, want 20", got)
	}
	if now := filesOf(t, fs, "options"); len(now) != 1 || slices.Contains(damaged, now[0]) {
		t.Errorf("the files of options are %q, after %q", now, damaged)
	}
}
