package fanout

import (
	"sync"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/measure"
)

// Flusher gathers the outboxes that one writer has to write. An event loop has one
// Flusher for all its connections; a connection with a goroutine of its own has one
// for itself. The writer is woken once for all outboxes of a commit, so that it
// writes everything that a connection gets in one call.
type Flusher struct {
	Meter *Meter // set before use; nil: nothing is counted

	wake func() // makes the writer call Take soon, as loop.execute of the gateway does; must not block

	mu    sync.Mutex // tier 0; guards the fields below
	dirty []*Outbox
	armed bool // the writer was woken and has not called Take, or a WakeUps will wake it
}

// Meter counts the acks of a node's clients and the refusals. A nil Meter counts nothing.
type Meter struct {
	Acks     measure.Histogram // from a send to its ack
	Refusals *measure.Counts   // of frames, by code
}

func (m *Meter) acked(took time.Duration) {
	if m != nil {
		m.Acks.Observe(took)
	}
}

func (m *Meter) refused(c im.Code) {
	if m != nil {
		m.Refusals.Add(string(c))
	}
}

// NewFlusher makes a Flusher whose writer is woken by wake.
func NewFlusher(wake func()) *Flusher { return &Flusher{wake: wake} }

// Take returns the outboxes to write. The next outbox that is added wakes the writer again. reuse is a list
// that the writer does not need any more; its memory is used again.
func (f *Flusher) Take(reuse []*Outbox) []*Outbox {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.dirty
	f.dirty = reuse[:0]
	f.armed = false
	return d
}

func (f *Flusher) add(o *Outbox, k *WakeUps) {
	f.mu.Lock()
	f.dirty = append(f.dirty, o)
	armed := f.armed
	f.armed = true
	f.mu.Unlock()
	if !armed {
		k.due = append(k.due, f)
	}
}

// WakeUps gathers the wake-ups of writers during a piece of work, so that a commit wakes each writer once, and
// not once for each outbox. The caller that fills it must call Flush: before that call no other WakeUps wakes
// these writers either.
type WakeUps struct {
	due []*Flusher
	now time.Duration // 0: the clock was not read since the last Flush
}

// Now returns the time of the piece of work, by measure.Now. The clock
// is read once for all answers of the piece.
func (k *WakeUps) Now() time.Duration {
	if k.now == 0 {
		k.now = measure.Now()
	}
	return k.now
}

// Flush wakes the writers.
func (k *WakeUps) Flush() {
	k.now = 0
	for i, f := range k.due {
		f.wake()
		k.due[i] = nil
	}
	k.due = k.due[:0]
}
