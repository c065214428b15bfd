package pebblestore

import (
	"sync"
	"testing"

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
