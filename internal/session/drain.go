package session

import (
	"time"

	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
)

// SendAway makes the hub refuse new sessions, as Drain does, and tells every
// session to come back elsewhere: over a time that grows with their number,
// 1,000 a second. It returns how many there were. Spec: P-9.3.
func (h *Hub) SendAway() int {
	h.Drain() // before the table is read: a hello under way looks at this behind the table
	wait := time.Second + time.Duration(min(h.Sessions.Load(), 30_000))*time.Millisecond
	var k fanout.Kicks
	n := 0
	h.table.Each(func(o *fanout.Outbox) bool {
		o.End(&im.Error{Code: im.CodeDraining, RetryAfter: wait}, &k)
		n++
		return true
	})
	k.Flush()
	return n
}

// Resume makes the hub take sessions again.
func (h *Hub) Resume() { h.draining.Store(false) }

func (o *Options) gateways(a im.Account) []string {
	if o.Gateways == nil {
		return nil
	}
	return o.Gateways(a)
}
