package pebblestore

import (
	"testing"
	"testing/synctest"
	"time"
)

// writeTable writes a table of n bytes in steps while the log grows by grow
// bytes at each, and returns how long it took beside the 100 µs of each step.
func writeTable(p *pace, n, grow int) time.Duration {
	const step = 16 << 10
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
	var p pace
	p.taken.Store(time.Now().Add(time.Hour).UnixNano())
	p.rate.Store(pacedBelow)
	p.slow()
	p.taken.Add(-int64(time.Second))
	if !p.slow() {
		t.Error("the rate of an hour ago still holds")
	}
}
