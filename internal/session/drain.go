package session

import (
	"time"

	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
)

// Drain makes the hub refuse new sessions.
func (h *Hub) Drain() { h.draining.Store(true) }

// Draining tells whether the hub refuses new sessions.
func (h *Hub) Draining() bool { return h.draining.Load() }

// SendAway makes the hub refuse new sessions, and tells the client of every session
// to connect to another node. All get the same time to wait: a second, and a
// millisecond for each session, 31 s at most. A client adds a random time of up to as
// much again, so they come back spread over it. It returns how many sessions there
// were. Spec: P-9.3.
func (h *Hub) SendAway() int {
	h.Drain() // before the table is read: a hello that enters the table later sees it
	wait := time.Second + time.Duration(min(h.Sessions.Load(), 30_000))*time.Millisecond
	var k fanout.WakeUps
	n := 0
	h.table.Each(func(o *fanout.Outbox) bool {
		o.End(&im.Error{Code: im.CodeDraining, RetryAfter: wait}, &k)
		n++
		return true
	})
	k.Flush()
	return n
}

// Resume makes the hub take new sessions again.
func (h *Hub) Resume() { h.draining.Store(false) }
