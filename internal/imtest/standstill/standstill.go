// Package standstill notices that the machine stood still: it was stopped, or other programs took all of its
// time. Processes may lose each other meanwhile without a fault of theirs.
package standstill

import (
	"context"
	"sync/atomic"
	"time"
)

// Least is the shortest pause that counts as a standstill.
const Least = 300 * time.Millisecond

// Machine counts how often the machine stood still while it was watched. The zero value is ready.
type Machine struct {
	times   atomic.Int64
	longest atomic.Int64 // in nanoseconds; Watch alone writes it
}

// Watch counts the standstills until ctx ends. It wakes up every 20 ms. If it wakes up more than Least too late,
// the machine stood still.
func (m *Machine) Watch(ctx context.Context) {
	const every = 20 * time.Millisecond
	tick := time.NewTicker(every)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if gap := time.Since(last) - every; gap > Least {
			m.Note()
			m.longest.Store(max(m.longest.Load(), int64(gap)))
		}
		last = time.Now()
	}
}

// Note counts one more standstill.
func (m *Machine) Note() { m.times.Add(1) }

// Stood returns how often the machine stood still.
func (m *Machine) Stood() int { return int(m.times.Load()) }

// Longest returns the longest standstill that Watch has seen.
func (m *Machine) Longest() time.Duration { return time.Duration(m.longest.Load()) }
