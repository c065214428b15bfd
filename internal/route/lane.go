package route

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
)

const ticketShift = 48 // tickets begin with their feed

// lane holds the sends for one feed while its owner is elsewhere, or unknown.
type lane struct {
	n atomic.Int64 // sends in it, and on their way out of it into an Owner here

	mu      sync.Mutex // tier 3; guards the fields below. memory.mu of conv is taken under it
	queues  map[im.Key]*queue
	ready   []*queue // those with something to send to the owner, each once
	epoch   im.Epoch // of the owner that was known when moveLane ran last
	tickets map[uint64]asked
	last    uint64 // the newest ticket, without its feed
}

// queue holds the sends to one conversation. One group of them is under way to the owner, and the
// next group goes out when that whole group is answered. So no send overtakes another, whatever is
// lost. Spec: P-4.3.
type queue struct {
	key     im.Key
	out     []pending // under way to an owner and not answered, in order
	wait    []pending // behind out, not under way
	ready   bool      // it stands in the lane's list
	epoch   im.Epoch  // of the owner asked
	at      time.Time // when it was asked
	resends int       // how often its sends went out again since the last answer
	since   time.Time // when the last answer came, or the first send
}

// pending is a send that has no answer.
type pending struct {
	s      *conv.Send
	ticket uint64 // its name for other nodes; 0: it was sent to none
	asked  int    // how often it was sent to other nodes, without the copies that they gave back
	bytes  int
}

// asked is a send that was given a ticket, in its queue.
type asked struct {
	q *queue
	p pending
}

// all returns the sends of the queue in their order.
func (q *queue) all() []pending { return append(q.out, q.wait...) }

// resend marks all sends to be sent again, in order.
func (q *queue) resend() { q.wait, q.out = q.all(), nil }

func sendsOf(list []pending) []*conv.Send {
	sends := make([]*conv.Send, len(list))
	for i := range list {
		sends[i] = list[i].s
	}
	return sends
}

// readyLocked marks a queue for the next move of the lane.
func (l *lane) readyLocked(q *queue) {
	if !q.ready {
		q.ready = true
		l.ready = append(l.ready, q)
	}
}

// takeReadyLocked returns the queues with something to do or, with all, every queue.
func (l *lane) takeReadyLocked(all bool) []*queue {
	list := l.ready
	if all {
		list = slices.Collect(maps.Values(l.queues))
	}
	l.ready = nil
	for _, q := range list {
		q.ready = false
	}
	return slices.DeleteFunc(list, func(q *queue) bool { return l.queues[q.key] != q }) // emptied meanwhile
}

func (l *lane) addLocked(s *conv.Send, bytes int) {
	q := l.queues[s.Conv]
	if q == nil {
		q = &queue{key: s.Conv, since: time.Now()}
		l.queues[s.Conv] = q
	}
	q.wait = append(q.wait, pending{s: s, bytes: bytes})
	if len(q.out) == 0 {
		l.readyLocked(q)
	}
	l.n.Add(1)
}

// takeLocked removes a queue from its lane and returns its sends.
func (l *lane) takeLocked(q *queue) []pending {
	list := q.all()
	for _, p := range list {
		delete(l.tickets, p.ticket)
	}
	l.n.Add(-int64(len(list)))
	delete(l.queues, q.key)
	return list
}

// prependLocked puts sends in front of everything in the lane, those of a conversation in their order. Sends of
// the same conversations that were under way are sent again after them. Spec: P-4.3.
func (l *lane) prependLocked(sends []*conv.Send) {
	later := l.queues
	l.queues = map[im.Key]*queue{}
	for _, s := range sends {
		l.addLocked(s, s.Size())
	}
	for key, q := range later {
		if first := l.queues[key]; first != nil {
			q.wait, q.out = append(first.wait, q.all()...), nil
		}
		l.queues[key] = q
	}
	l.epoch = 0
}

// sendLocked puts the next group of a queue into a packet for the owner: at most 256 sends or 64 KiB, but at
// least one send.
func (l *lane) sendLocked(f store.Feed, q *queue, to *packet) {
	const maxRows, maxBytes = 256, 64 << 10
	n, bytes := 0, 0
	for n < len(q.wait) && n < maxRows && (n == 0 || bytes+q.wait[n].bytes <= maxBytes) {
		bytes += q.wait[n].bytes
		n++
	}
	q.out, q.wait = q.wait[:n:n], q.wait[n:]
	for i := range q.out {
		p := &q.out[i]
		if p.ticket == 0 {
			l.last++
			p.ticket = uint64(f)<<ticketShift | l.last
		}
		p.s.Tried = p.s.Tried || p.asked > 0
		p.asked++
		l.tickets[p.ticket] = asked{q, *p}
		to.add(p.s, p.ticket)
	}
}

// undecidedLocked takes back one attempt of a send: the asked node does not decide that copy.
func (l *lane) undecidedLocked(ticket uint64, a asked) {
	for _, list := range [][]pending{a.q.out, a.q.wait} {
		for i := range list {
			if p := &list[i]; p.s == a.p.s && p.asked > 0 {
				p.asked--
				l.tickets[ticket] = asked{a.q, *p}
			}
		}
	}
}

// answeredLocked removes an answered send from its lane. next is true if its queue
// has a further group to send now. ok is false if the send was answered before.
func (l *lane) answeredLocked(ticket uint64) (p pending, next, ok bool) {
	a, ok := l.tickets[ticket]
	if !ok {
		return pending{}, false, false
	}
	q := a.q
	delete(l.tickets, ticket)
	l.n.Add(-1)
	q.out, q.wait = without(q.out, a.p.s), without(q.wait, a.p.s) // the answer may come when it is to be sent again
	q.since, q.resends = time.Now(), 0
	if len(q.out) == 0 && len(q.wait) == 0 {
		delete(l.queues, q.key)
	}
	if next = len(q.out) == 0 && len(q.wait) > 0; next {
		l.readyLocked(q)
	}
	return a.p, next, true
}

// without takes s out of list, where it usually is the first.
func without(list []pending, s *conv.Send) []pending {
	for i := range list {
		if list[i].s == s {
			if i == 0 {
				return list[1:]
			}
			return append(list[:i:i], list[i+1:]...)
		}
	}
	return list
}
