package fanout

import "sync"

// Flusher gathers the outboxes that one writer has to write: an event loop has
// one for all its connections, a connection with its own goroutine has one to
// itself. Waking the writer once for a whole commit is what coalesces writes.
type Flusher struct {
	wake func() // must not block; makes the writer call Take soon

	mu    sync.Mutex // tier 0, below Outbox.mu; guards the fields below
	dirty []*Outbox
	armed bool // a wake-up is under way or due to somebody's Kicks
}

// NewFlusher makes a Flusher whose writer is woken by wake.
func NewFlusher(wake func()) *Flusher { return &Flusher{wake: wake} }

// Take returns the outboxes to write; reuse is a list that the writer has
// finished with.
func (f *Flusher) Take(reuse []*Outbox) []*Outbox {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.dirty
	f.dirty = reuse[:0]
	f.armed = false
	return d
}

func (f *Flusher) add(o *Outbox, k *Kicks) {
	f.mu.Lock()
	f.dirty = append(f.dirty, o)
	armed := f.armed
	f.armed = true
	f.mu.Unlock()
	if !armed {
		k.due = append(k.due, f)
	}
}

// Kicks are wake-ups put off to the end of a piece of work, so that a commit
// wakes each writer once. Flush must be called behind every use.
type Kicks struct{ due []*Flusher }

// Flush wakes the writers.
func (k *Kicks) Flush() {
	for i, f := range k.due {
		f.wake()
		k.due[i] = nil
	}
	k.due = k.due[:0]
}
