package share

import (
	"sync"
	"time"
)

// Turns shares out cores among work that computes for milliseconds, in the order of coming. While
// all cores compute, Go polls sockets and finished commits only every 10 ms; so the turns should be
// fewer than GOMAXPROCS.
type Turns chan struct{} // capacity: the cores; a token for each work that computes

// mayCompute is how long a turn of Do lasts. Work that takes longer waits for something, for the disk
// perhaps, and another begins meanwhile.
const mayCompute = 20 * time.Millisecond

// NewTurns shares out cores, at least one.
func NewTurns(cores int) Turns { return make(Turns, max(1, cores)) }

// Begin waits for a turn, which lasts until End.
func (t Turns) Begin() { t <- struct{}{} }

// End lets another work begin.
func (t Turns) End() { <-t }

// Do calls f when it is its turn, which ends with f, or earlier if f waits for something.
// f must not call Do.
func (t Turns) Do(f func()) {
	t.Begin()
	leave := sync.OnceFunc(t.End)
	defer leave()
	defer time.AfterFunc(mayCompute, leave).Stop()
	f()
}
