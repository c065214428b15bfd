package share

import (
	"sync"
	"time"
)

// Turns shares out cores among work that computes for milliseconds, first
// come, first served. While all cores compute, Go polls sockets and finished
// commits only every 10 ms. So there should be fewer turns than GOMAXPROCS.
type Turns chan struct{} // capacity: the cores; a token for each work that computes

// mayCompute is how long a turn of Do lasts at most. Work that takes longer
// probably waits for something, such as the disk, and other work begins meanwhile.
const mayCompute = 20 * time.Millisecond

// NewTurns shares out cores, at least one.
func NewTurns(cores int) Turns { return make(Turns, max(1, cores)) }

// Begin waits for a turn, which lasts until End.
func (t Turns) Begin() { t <- struct{}{} }

// End ends the turn, so that other work may begin.
func (t Turns) End() { <-t }

// Do waits for a turn and calls f. The turn ends with f, or after mayCompute. f must not call Do.
func (t Turns) Do(f func()) {
	t.Begin()
	leave := sync.OnceFunc(t.End)
	defer leave()
	defer time.AfterFunc(mayCompute, leave).Stop()
	f()
}
