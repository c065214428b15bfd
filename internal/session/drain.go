package session

import (
	"time"

	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
)

// Drain makes the hub refuse hellos and sends (draining). Sessions stay connected, and other requests go on.
func (h *Hub) Drain() { h.draining.Store(true) }

// Draining tells whether the hub refuses hellos and sends.
func (h *Hub) Draining() bool { return h.draining.Load() }

// SendAway does what Drain does, and tells the client of every session to connect to
// another node. All clients get the same time to wait: a second, and a millisecond for each
// session, 31 s at most. A client waits up to as much again, at random, so the clients come
// back spread over that time. It returns how many sessions there were. Spec: P-9.3.
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

// Resume makes the hub take hellos and sends again.
func (h *Hub) Resume() { h.draining.Store(false) }
