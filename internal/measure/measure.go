// Package measure counts events on the way of a message, and their durations, without a lock and without memory
// for each event. Package metrics exports the counts.
package measure

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// Buckets is how many bounded buckets a Histogram has. The first one is for durations below 100 µs. The bound
// doubles with each further one, up to 52 s.
const Buckets = 20

// shortest is the bound of the first bucket.
const shortest = 100 * time.Microsecond

// Histogram counts durations by their length. The zero value is empty. Any goroutine
// may use it.
type Histogram struct {
	counts [Buckets + 1]atomic.Uint64 // the last one is for longer durations
	sum    atomic.Int64               // nanoseconds
}

// Observe counts a duration.
func (h *Histogram) Observe(d time.Duration) {
	d = max(d, 0)
	h.counts[min(bits.Len64(uint64(d/shortest)), Buckets)].Add(1)
	h.sum.Add(int64(d))
}

// Bound returns the upper bound of a bucket. A duration of exactly that length is in the next bucket.
func Bound(bucket int) time.Duration { return shortest << bucket }

// Read returns how many durations there were, their sum, and how many of them were
// below the bound of each bucket.
func (h *Histogram) Read() (count uint64, sum time.Duration, below [Buckets]uint64) {
	for i := range below {
		count += h.counts[i].Load()
		below[i] = count
	}
	return count + h.counts[Buckets].Load(), time.Duration(h.sum.Load()), below
}

// Counts counts by names that are known from the start. A nil Counts counts nothing.
// Any goroutine may use it.
type Counts struct{ of map[string]*atomic.Uint64 }

// NewCounts makes counts for some names.
func NewCounts[T ~string](names ...T) *Counts {
	c := &Counts{map[string]*atomic.Uint64{}}
	for _, n := range names {
		c.of[string(n)] = new(atomic.Uint64)
	}
	return c
}

// Add counts one for a name. A name that is not known is not counted.
func (c *Counts) Add(name string) {
	if c == nil {
		return
	}
	if n := c.of[name]; n != nil {
		n.Add(1)
	}
}

// Each calls f for every name that was counted.
func (c *Counts) Each(f func(name string, n uint64)) {
	if c == nil {
		return
	}
	for name, n := range c.of {
		if n := n.Load(); n > 0 {
			f(name, n)
		}
	}
}

// begun is where Now counts from.
var begun = time.Now()

// Now returns the time since begun, by the monotonic clock: it never goes back.
func Now() time.Duration { return time.Since(begun) }
