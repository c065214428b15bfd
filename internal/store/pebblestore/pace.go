package pebblestore

import (
	"strings"
	"sync/atomic"
	"time"
)

// Tables are written in the background, by flushes and compactions, and a
// writer at full speed takes a core for half a second. While the log grows
// slowly, each table is written at tableRate, so that commits need not wait
// for a core (docs/decisions/004).
const (
	tableRate  = 24 << 20              // bytes per second of one table
	pacedBelow = 12 << 20              // bytes per second of the log, from which on nothing is paced
	paceWindow = 50 * time.Millisecond // over which the log's rate is taken
	paceStep   = 2 * time.Millisecond  // shorter rests are put together
)

func isTable(base string) bool {
	return strings.HasSuffix(base, ".sst") || strings.HasSuffix(base, ".blob")
}

// pace knows how fast the log grows.
type pace struct {
	logged atomic.Uint64 // bytes written to the log

	taken atomic.Int64  // Unix nanoseconds of the last look
	seen  atomic.Uint64 // logged then
	rate  atomic.Uint64 // bytes per second up to then
}

// slow tells whether the log grows slowly enough to pace the tables.
func (p *pace) slow() bool {
	now, last := time.Now().UnixNano(), p.taken.Load()
	if d := now - last; (d >= int64(paceWindow) || d < 0) && p.taken.CompareAndSwap(last, now) {
		logged := p.logged.Load()
		grown := logged - p.seen.Swap(logged)
		if d > 0 {
			p.rate.Store(uint64(float64(grown) * float64(time.Second) / float64(d)))
		}
	}
	return p.rate.Load() < pacedBelow
}

// paced is one table being written.
type paced struct {
	*pace
	debt time.Duration // of rest; below 0 when one took too long
}

// wrote rests for n bytes.
func (p *paced) wrote(n int) {
	if !p.slow() {
		p.debt = 0
		return
	}
	p.debt += time.Duration(n) * time.Second / tableRate
	if p.debt < paceStep {
		return
	}
	began := time.Now()
	time.Sleep(p.debt)
	p.debt = max(p.debt-time.Since(began), -paceStep)
}
