package pebblestore

import (
	"strings"
	"sync/atomic"
	"time"
)

// Tables are written in the background, by flushes and compactions, and a
// writer at full speed takes a core for half a second. While the log grows
// slowly, each table is written at tableRate, so that commits need not wait
// for a core (docs/decisions/004). Nothing is paced for those who wait for
// tables: a start, Close, Compact, sends that Pebble stops, and sends that it
// will stop when still more tables pile up.
const (
	tableRate  = 24 << 20              // bytes per second of one table
	pacedBelow = 12 << 20              // bytes per second of the log, from which on nothing is paced
	paceWindow = 50 * time.Millisecond // over which the log's rate is taken
	paceStep   = 2 * time.Millisecond  // shorter rests are put together
	piledUp    = stopWritesAt / 2      // tables over each other in L0, from which on nothing is paced
)

func isTable(base string) bool {
	return strings.HasSuffix(base, ".sst") || strings.HasSuffix(base, ".blob")
}

// pace knows how fast the log grows and whether anybody waits for tables. The
// zero value is that of a start: nothing is paced before relax.
type pace struct {
	ease   atomic.Int32 // 1 in a running store, less by everybody who waits for tables
	behind atomic.Bool  // tables pile up

	logged atomic.Uint64 // bytes written to the log

	taken atomic.Int64  // Unix nanoseconds of the last look
	seen  atomic.Uint64 // logged then
	rate  atomic.Uint64 // bytes per second up to then
}

// hurry is called when somebody begins to wait for tables, and relax when the wait ends.
func (p *pace) hurry() { p.ease.Add(-1) }
func (p *pace) relax() { p.ease.Add(1) }

// slow tells whether the log grows slowly enough to pace the tables, and nobody
// waits for them.
func (p *pace) slow() bool {
	now, last := time.Now().UnixNano(), p.taken.Load()
	if d := now - last; (d >= int64(paceWindow) || d < 0) && p.taken.CompareAndSwap(last, now) {
		logged := p.logged.Load()
		grown := logged - p.seen.Swap(logged)
		if d > 0 {
			p.rate.Store(uint64(float64(grown) * float64(time.Second) / float64(d)))
		}
	}
	return p.rate.Load() < pacedBelow && p.ease.Load() > 0 && !p.behind.Load()
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

// checkTables looks whether tables pile up. It asks Pebble, which may not answer
// any more once the store has failed; so nobody waits for it then.
func (s *Store) checkTables() {
	if !s.looking.CompareAndSwap(false, true) {
		return // the last look is still under way
	}
	if s.enter() != nil {
		return // for good
	}
	go func() {
		defer s.leave()
		s.pace.behind.Store(s.db.Metrics().Levels[0].Sublevels >= piledUp)
		s.looking.Store(false)
	}()
}
