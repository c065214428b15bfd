package pebblestore

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/store/storetest"
)

// writeTable writes a table of n bytes in steps while the log grows by grow
// bytes at each, and returns how long it took beside the 100 µs of each step.
func writeTable(p *pace, n, grow int) time.Duration {
	const step = 16 << 10
	synctest.Wait() // time is not real
	w, began := paced{pace: p}, time.Now()
	for range n / step {
		p.logged.Add(uint64(grow))
		time.Sleep(100 * time.Microsecond)
		w.wrote(step)
	}
	return time.Since(began) - time.Duration(n/step)*100*time.Microsecond
}

func TestTablesAreWrittenSlowlyWhileTheLogIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pace
		p.relax()
		p.slow()
		want := time.Second / 2
		if got := writeTable(&p, tableRate/2, 100); got < want-paceStep || got > want+paceStep {
			t.Errorf("%d bytes took %v of rest, want %v", tableRate/2, got, want)
		}
	})
}

func TestTablesAreNotHeldUpWhenTheLogIsFast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pace
		p.relax()
		p.slow()
		writeTable(&p, 16<<20, 100_000) // the rate is known after a window
		if got := writeTable(&p, 8<<20, 100_000); got != 0 {
			t.Errorf("rested %v while the log grows by a gigabyte per second", got)
		}
		if got := writeTable(&p, 16<<20, 0); got == 0 {
			t.Error("no rest after the log has become slow again")
		}
	})
}

func TestPaceOutlivesAClockThatGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pace
		p.relax()
		p.taken.Store(time.Now().Add(time.Hour).UnixNano())
		p.rate.Store(pacedBelow)
		p.slow()
		p.taken.Add(-int64(time.Second))
		if !p.slow() {
			t.Error("the rate of an hour ago still holds")
		}
	})
}

// unhurried is a store whose tables are written only when they are asked for,
// in a bubble where only rests take time.
func unhurried(fs vfs.FS) Options {
	o := small(Options{Dir: "data", FS: fs})
	o.MemTableBytes = 16 << 20
	o.tune = func(p *pebble.Options) { p.DisableAutomaticCompactions = true }
	return o
}

// fill adds n rows of 100 kB that cannot be compressed.
func (w *writer) fill(t *testing.T, n int) {
	t.Helper()
	rng := rand.NewChaCha8([32]byte{})
	for range n {
		b := w.next()
		b.Rows[0].Value = make([]byte, 100_000)
		_, _ = rng.Read(b.Rows[0].Value) // never fails
		if err := storetest.Append(w.st, b); err != nil {
			t.Fatal(err)
		}
	}
}

// took is how long f took in the bubble.
func took(f func()) time.Duration {
	began := time.Now()
	f()
	return time.Since(began)
}

func TestTablesAreNotHeldUpForThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewCrashableMem()
		st := mustOpen(t, unhurried(fs))
		w := newWriter(t, st)
		const rest = 5 * paceStep // that one write had begun
		var flushed <-chan struct{}
		flush := func() {
			w.fill(t, 20)
			time.Sleep(time.Second) // the log is slow
			st.pace.slow()
			var err error
			if flushed, err = st.db.AsyncFlush(); err != nil {
				t.Fatal(err)
			}
		}
		flush()
		if got := took(func() { <-flushed }); got < 4*rest {
			t.Errorf("a flush took %v of rest: what do the others prove?", got)
		}
		flush()
		if got := took(func() {
			if err := st.Compact(t.Context()); err != nil {
				t.Error(err)
			}
		}); got > rest {
			t.Errorf("Compact took %v of rest", got)
		}
		w.fill(t, 20)
		left := killed(fs)
		if got := took(func() { mustClose(t, mustOpen(t, unhurried(left))) }); got > 0 {
			t.Errorf("a start and its end took %v of rest", got)
		}
		flush()
		if got := took(func() { mustClose(t, st) }); got > rest {
			t.Errorf("Close took %v of rest", got)
		}
	})
}

func TestTablesAreNotHeldUpWhenTheyPileUp(t *testing.T) {
	st := mustOpen(t, unhurried(vfs.NewMem()))
	defer mustClose(t, st)
	w := newWriter(t, st)
	for i := range piledUp - 1 { // the start has written one
		if !st.pace.slow() {
			t.Fatalf("%d tables are said to pile up", i+1)
		}
		w.add(t, 1)
		if err := st.db.Flush(); err != nil {
			t.Fatal(err)
		}
		st.checkTables()
	}
	eventually.True(t, "tables pile up", func() bool {
		st.checkTables()
		return !st.pace.slow()
	})
	if err := st.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "they are merged", func() bool {
		st.checkTables()
		return st.pace.slow()
	})
}

func TestTablesAreNotHeldUpWhenSendsWaitForThem(t *testing.T) {
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	var armed atomic.Bool
	o := unhurried(&hookFS{FS: vfs.NewMem(), at: func(e event) error {
		if armed.Load() && e.op == "create" && isTable(e.path) && !e.after {
			<-gate
		}
		return nil
	}})
	o.MemTableBytes = 256 << 10
	st := mustOpen(t, o)
	defer mustClose(t, st)
	w := newWriter(t, st)
	defer open()
	armed.Store(true)
	all := make(chan struct{})
	go func() {
		defer close(all)
		w.fill(t, 20)
	}()
	eventually.True(t, "sends wait", func() bool { return st.pace.ease.Load() == 0 })
	open()
	<-all
	if st.pace.ease.Load() != 1 {
		t.Error("sends go on and nothing is paced")
	}
}
