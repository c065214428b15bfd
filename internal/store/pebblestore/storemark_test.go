package pebblestore

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/store"
)

// marked are options of a store with a mark, whose folder may be a copy: what
// the mark alone finds out.
func marked(t testing.TB) Options {
	t.Helper()
	o := onDisk(t)
	o.Mark, o.AcceptCopies = filepath.Join(t.TempDir(), "petrel.mark"), true
	return o
}

func TestStoreBehindItsMarkIsRefused(t *testing.T) {
	o := marked(t)
	info := fill(t, o, 10)
	aside := o.Dir + "-copy"
	copied(t, o.Dir, aside)
	fill(t, o, 10)
	if err := os.RemoveAll(o.Dir); err != nil {
		t.Fatal(err)
	}
	copied(t, aside, o.Dir)
	rewound(t, o, "commits 13 to ")
	r, err := Renew(o)
	if err != nil {
		t.Fatal(err)
	}
	st := mustOpen(t, o)
	defer mustClose(t, st)
	if got := st.Info().HistoryID; got == info.HistoryID || got != r.HistoryID {
		t.Errorf("history %x after %x, want a new one", got, info.HistoryID)
	}
}

func TestStoreOfAnotherHistoryThanItsMarkIsRefused(t *testing.T) {
	o := marked(t)
	fill(t, o, 3)
	aside := o.Dir + "-copy"
	copied(t, o.Dir, aside)
	if _, err := Renew(o); err != nil { // its mark is of the new history
		t.Fatal(err)
	}
	mustClose(t, mustOpen(t, o))
	if err := os.RemoveAll(o.Dir); err != nil {
		t.Fatal(err)
	}
	copied(t, aside, o.Dir)
	rewound(t, o, "is of history ")
}

// The snapshot has more commits than the store after its repair. Only the history id in the mark shows it.
func TestSnapshotFromBeforeARepairIsRefused(t *testing.T) {
	o := marked(t)
	fill(t, o, 20)
	aside := o.Dir + "-copy"
	copied(t, o.Dir, aside)
	before, err := readStoreMark(o.Mark)
	if err != nil {
		t.Fatal(err)
	}
	logs, err := filepath.Glob(filepath.Join(o.Dir, "store", "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range logs {
		if err := os.Truncate(path, 500); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Repair(o); err != nil {
		t.Fatal(err)
	}
	mustClose(t, mustOpen(t, o))
	if m, err := readStoreMark(o.Mark); err != nil || m.Commit >= before.Commit {
		t.Fatalf("the mark after the repair is %+v, %v, want a commit below %d", m, err, before.Commit)
	}
	if err := os.RemoveAll(o.Dir); err != nil {
		t.Fatal(err)
	}
	copied(t, aside, o.Dir)
	rewound(t, o, "is of history ")
}

func TestMarkOfAnotherStoreIsRefused(t *testing.T) {
	o := marked(t)
	fill(t, o, 1)
	other := marked(t)
	other.Mark = o.Mark
	if _, err := Open(other); !errors.Is(err, ErrNoStore) || !strings.Contains(err.Error(), o.Mark) {
		t.Errorf("an empty folder: got %v, want %v with the mark", err, ErrNoStore)
	}
	other.Mark = ""
	fill(t, other, 1)
	other.Mark = o.Mark
	if _, err := Open(other); !errors.Is(err, ErrOtherStore) || !strings.Contains(err.Error(), o.Mark) {
		t.Errorf("got %v, want %v with the mark", err, ErrOtherStore)
	}
}

func TestMissingMarkIsMadeAnew(t *testing.T) {
	o := marked(t)
	fill(t, o, 3)
	if err := os.Remove(o.Mark); err != nil {
		t.Fatal(err)
	}
	info := fill(t, o, 3)
	m, err := readStoreMark(o.Mark)
	if err != nil || m == nil || m.Store != hex(info.StoreID) || m.Commit < 8 {
		t.Errorf("got %+v, %v, want the mark of store %x", m, err, info.StoreID)
	}
}

func TestFileThatIsNoMarkIsNotOverwritten(t *testing.T) {
	o := marked(t)
	if err := os.WriteFile(o.Mark, []byte("a shopping list"), 0o600); err != nil {
		t.Fatal(err)
	}
	if st, err := Open(o); err == nil || !strings.Contains(err.Error(), "is no mark of this kind of store") {
		t.Errorf("got %v, %v", st, err)
	}
	if b, err := os.ReadFile(o.Mark); string(b) != "a shopping list" {
		t.Errorf("the file is %q now, %v", b, err)
	}
}

func TestMarkThatCannotBeWrittenStopsNoAck(t *testing.T) {
	o := marked(t)
	o.Mark = filepath.Join(t.TempDir(), "gone", "petrel.mark")
	st := mustOpen(t, o)
	defer mustClose(t, st)
	newWriter(t, st).add(t, 5)
	eventually.True(t, "the failure is counted", func() bool { return st.MarkFailures() > 0 })
	newWriter(t, st).add(t, 5)
}

func TestRefutedStoreIsNotServedAgain(t *testing.T) {
	fs := vfs.NewCrashableMem()
	st := mustOpen(t, mem(fs))
	newWriter(t, st).add(t, 5)
	st.Refute("a token names commit 9")
	select {
	case <-st.Failed():
	default:
		t.Error("the store goes on")
	}
	if err := st.Writable(); !errors.Is(err, store.ErrRewound) || !errors.Is(err, store.ErrFailed) {
		t.Errorf("got %v, want %v", err, store.ErrRewound)
	}
	o := mem(unplugged(fs))
	_ = st.Close() // it has failed
	rewound(t, o, "a token names commit 9")
	if _, err := Renew(o); err != nil {
		t.Fatal(err)
	}
	mustClose(t, mustOpen(t, o))
}

func TestATrialRestoreLeavesTheMarkToTheStoreThatServes(t *testing.T) {
	o := marked(t)
	fill(t, o, 10)
	to := filepath.Join(t.TempDir(), "backups")
	if _, err := Backup(t.Context(), o, BackupOptions{To: to}); err != nil {
		t.Fatal(err)
	}
	was, err := os.ReadFile(o.Mark)
	if err != nil {
		t.Fatal(err)
	}
	trial := o
	trial.Dir = o.Dir + "-trial"
	if _, err := Restore(t.Context(), trial, RestoreOptions{From: to}); err != nil {
		t.Fatal(err)
	}
	if st, err := Open(trial); !errors.Is(err, ErrOtherStore) || !strings.Contains(err.Error(), o.Dir+", which is there; name another file in store.mark") {
		t.Errorf("the trial with the mark of the other one: %v, %v", st, err)
	}
	if now, err := os.ReadFile(o.Mark); err != nil || string(now) != string(was) {
		t.Errorf("the mark was %s and is %s, %v", was, now, err)
	}
	without := trial
	without.Mark = ""
	mustClose(t, mustOpen(t, without))
	mustClose(t, mustOpen(t, o))
	// One that replaces the other takes the mark.
	if err := os.RemoveAll(o.Dir); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(t.Context(), o, RestoreOptions{From: to}); err != nil {
		t.Fatal(err)
	}
	mustClose(t, mustOpen(t, o))
}
