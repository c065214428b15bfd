package share

import (
	"sync"
	"time"
)

// Turns shares out cores among work that computes for milliseconds, in the order of coming.
// While all cores compute, Go looks for bytes that have come, and for commits that are done,
// only every 10 ms; so the turns should be fewer than GOMAXPROCS.
type Turns chan struct{} // capacity: the cores; a token for each work that computes

// mayCompute is how long a turn lasts. Work that takes longer waits for something, for the disk
// perhaps, and another begins meanwhile.
const mayCompute = 20 * time.Millisecond

// NewTurns shares out cores, at least one.
func NewTurns(cores int) Turns { return make(Turns, max(1, cores)) }

// Do waits for its turn and calls f, which must not call Do.
func (t Turns) Do(f func()) {
	t <- struct{}{}
	leave := sync.OnceFunc(func() { <-t })
	defer leave()
	defer time.AfterFunc(mayCompute, leave).Stop()
	f()
}
