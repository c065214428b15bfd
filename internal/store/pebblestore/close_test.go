package pebblestore

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
)

func TestCloseAnswersEveryAppendAndLeavesNoGoroutine(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	o := small(Options{Dir: t.TempDir()})
	st := mustOpen(t, o)
	w := newWriter(t, st)
	const n = 300
	var mu sync.Mutex
	acked := 0
	for range n {
		st.Append(w.next(), func(err error) {
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			acked++
		})
	}
	mustClose(t, st)
	mu.Lock()
	defer mu.Unlock()
	if acked != n {
		t.Errorf("%d of %d appends were answered when Close returned", acked, n)
	}
}

// An append that comes while Close waits for an earlier one is refused, and nothing of it is stored.
func TestAppendDuringCloseIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var holds atomic.Bool
		synced := make(chan struct{})
		fs := &hookFS{FS: vfs.NewMem(), at: func(e event) error {
			if e.op == "sync" && strings.HasSuffix(e.path, ".log") && !e.after && holds.Load() {
				<-synced
			}
			return nil
		}}
		o := mem(fs)
		st := mustOpen(t, o)
		w := newWriter(t, st)
		first, second := w.next(), w.next()
		answers := make(chan error, 2)
		holds.Store(true)
		go st.Append(first, func(err error) { answers <- err })
		synctest.Wait() // the sync hangs
		closed := make(chan error, 1)
		go func() { closed <- st.Close() }()
		synctest.Wait() // Close waits for the append
		late := make(chan error, 1)
		st.Append(second, func(err error) { late <- err })
		holds.Store(false)
		close(synced)
		synctest.Wait()
		if err := <-closed; err != nil {
			t.Error(err)
		}
		if err := <-answers; err != nil {
			t.Errorf("the append before Close: %v", err)
		}
		if len(late) != 1 || !errors.Is(<-late, errClosed) {
			t.Error("the append during Close was not answered, or not refused")
		}
		again := mustOpen(t, o)
		defer mustClose(t, again)
		if row, err := again.LastRow(t.Context(), conv); err != nil || row == nil || row.Seq != first.Rows[len(first.Rows)-1].Seq {
			t.Errorf("the newest row is %v (%v), not that of the first append", row, err)
		}
	})
}

func TestCompactKeepsEverything(t *testing.T) {
	o := small(Options{Dir: t.TempDir()})
	st := mustOpen(t, o)
	w := newWriter(t, st)
	for range 30 {
		b := w.next()
		for range 200 {
			w.seq++
			b.Rows = append(b.Rows, store.RowPut{Conv: conv, Seq: w.seq, Value: make([]byte, 100)})
		}
		if err := st.DropRows(t.Context(), conv, im.Seq(1)); err != nil {
			t.Fatal(err)
		}
		st.Append(b, func(error) {})
	}
	if err := st.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if levels, err := st.db.SSTables(); err != nil || len(levels[0]) > 0 {
		t.Errorf("%d tables wait in L0 after compaction: %v", len(levels[0]), err)
	}
	n := im.Seq(0)
	if err := st.Rows(t.Context(), conv, 1, w.seq, func(store.Row) bool { n++; return true }); err != nil || n != w.seq {
		t.Errorf("%d of %d rows after compaction: %v", n, w.seq, err)
	}
	mustClose(t, st)
	mustClose(t, mustOpen(t, o))
}
