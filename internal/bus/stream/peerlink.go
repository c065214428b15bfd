package stream

import (
	"math"
	"time"

	"github.com/petrel-im/petrel/internal/bus/buspb"
)

const (
	askAgain = 200 * time.Millisecond // between two requests for the same frame, while nothing comes

	// other is how many beacons a link may be silent while its peer speaks on
	// another one: then the two ends do not mean the same.
	other = 3

	// maxQueue is how much may wait for the handlers, in bytes: more than the
	// window of a sender, so a correct one never meets it.
	maxQueue = 4 * window

	// former is how many ended streams are remembered, so that whoever waits for
	// one of their numbers learns that it waits in vain.
	former = 8
)

// pair is this node's part of the two streams between it and a peer: the frames to send, the frames
// that came, and the agreement on when both began. It has no I/O and no clock. The caller holds the
// lock.
//
// Each end names the pair by a random number of its own. An end that has no pair,
// or hears from one it does not know, makes a new name and says it; whoever
// echoes that name is alive now, and is adopted, with both streams at 0. So what
// a former process left on the way is never taken for a new one.
type pair struct {
	o           *Options
	incarnation uint64
	draw        func() uint64 // a name, random

	link  *link // nil: none is agreed
	offer struct {
		us, them uint64 // our name for the next pair; who asked for it, 0: nobody, we ask
		due      bool
	}
	ended [former]uint64 // streams to us that have ended, by streamID
	alone int            // our beacons since there was a link

	// What there is for the handlers, in order, and how many bytes of it, with
	// what they have at hand.
	queue    []item
	queued   int
	handling bool
}

// link is a pair both ends agree on.
type link struct {
	us, them    uint64 // its names
	incarnation uint64 // of the peer's process
	out         out

	received uint64 // number taken last from the peer; all before it were
	applied  uint64 // number whose frame the handlers are done with
	unacked  int    // what was applied since they were told, as it counts in their window
	asked    uint64 // frame that was asked for again; 0: none is missing
	askedAt  time.Time
	want     uint64 // to be asked for now
	due      bool   // there is something to say even without a frame

	clock  uint64 // our beacons
	echoed uint64 // the last of them the peer has heard
	theirs uint64 // the last of its beacons we have heard
	silent int    // our beacons since we heard the peer
}

// item is something for the handlers. A link without frames: it begins or ends.
type item struct {
	link          *link
	up, down      bool
	frames        [][]byte
	kinds         []byte
	last          uint64 // number up to which the handlers are done with this one
	bytes, window int
}

// streamID names the stream between two names, one way.
func streamID(from, to uint64) uint64 { return from ^ (to<<32 | to>>32) }

// ready tells whether next has something.
func (c *pair) ready() bool {
	l := c.link
	return c.offer.due || l != nil && (l.due || l.out.sent < l.out.last && l.out.flight < window)
}

// next puts the frames to send now into an empty packet. False: there are none.
func (c *pair) next(p *buspb.Packet) bool {
	p.Incarnation = c.incarnation
	if c.offer.due {
		c.offer.due = false
		p.From, p.To = c.offer.us, c.offer.them
		return true
	}
	l := c.link
	if l == nil || !l.out.fill(p) && !l.due {
		return false
	}
	p.From, p.To = l.us, l.them
	p.Applied, p.Want, p.Clock, p.Echo = l.applied, l.want, l.clock, l.theirs
	l.due, l.want, l.unacked = false, 0, 0
	return true
}

// beat is called once for each beacon.
func (c *pair) beat(now time.Time) {
	l := c.link
	if l == nil {
		if c.offer.us == 0 {
			c.offer.us = c.draw()
		}
		c.offer.due = true
		c.alone++
		return
	}
	c.alone = 0
	l.clock++
	l.silent++
	l.due = true
	l.out.age(now)
	if l.silent > c.o.forget() {
		c.end()
	}
}

// end gives the link up.
func (c *pair) end() {
	copy(c.ended[1:], c.ended[:])
	c.ended[0] = streamID(c.link.them, c.link.us)
	c.queue = append(c.queue, item{link: c.link, down: true})
	c.link = nil
}

// receive takes a packet of size bytes. False: it makes no sense.
func (c *pair) receive(p *buspb.Packet, size int, now time.Time) bool {
	l := c.link
	switch {
	case l != nil && p.From == l.them && p.To == l.us:
		if p.Bye {
			c.end()
			return true
		}
	case p.From == 0 || p.Bye:
		return p.Bye // of a link that we do not have
	case p.To == 0:
		if l != nil && p.From == l.them {
			return true // from before we agreed
		}
		if c.offer.us == 0 || c.offer.them != 0 && c.offer.them != p.From {
			c.offer.us = c.draw()
		}
		c.offer.them, c.offer.due = p.From, true
		return true
	case p.To == c.offer.us:
		if l != nil {
			c.end()
		}
		l = &link{us: c.offer.us, them: p.From, incarnation: p.Incarnation, due: true,
			out: out{o: c.o, byKey: map[hintKey]*oldHint{}}}
		c.link = l
		c.offer.us, c.offer.them, c.offer.due = 0, 0, false
		c.queue = append(c.queue, item{link: l, up: true})
	default: // to a name that is no more
		if l != nil && l.silent >= other {
			c.end()
		}
		if c.link == nil {
			c.offer.them = 0 // whoever it was, the next beacon asks anew
		}
		return true
	}
	l.silent = 0
	l.theirs = max(l.theirs, p.Clock)
	if p.Echo <= l.clock {
		l.echoed = max(l.echoed, p.Echo)
	}
	l.out.ack(p.Applied)
	l.out.again(p.Want)
	return c.take(l, p, size, now)
}

// take takes the frames of a packet if they are next.
func (c *pair) take(l *link, p *buspb.Packet, size int, now time.Time) bool {
	n := len(p.Frames)
	if p.First == 0 && p.Count == 0 && n == 0 {
		return true // it only agrees
	}
	if len(p.Kinds) != n || uint64(n) > p.Count || len(p.Offsets) != 0 && len(p.Offsets) != n || p.First == 0 ||
		p.Count > math.MaxUint64-p.First {
		return false
	}
	if p.First > l.received+1 {
		if l.asked != l.received+1 || now.Sub(l.askedAt) >= askAgain {
			l.asked, l.askedAt = l.received+1, now
			l.want, l.due = l.asked, true
		}
		return true
	}
	last := p.First + p.Count - 1
	if p.Count == 0 || last <= l.received {
		return true
	}
	if c.queued+size > maxQueue {
		return true // lost
	}
	first := 0 // frame that is new
	for ; first < n; first++ {
		num := p.First + uint64(first)
		if len(p.Offsets) != 0 {
			num = p.First + p.Offsets[first]
		}
		if num > l.received {
			break
		}
	}
	l.received, l.asked = last, 0
	c.queue = append(c.queue, item{link: l, frames: p.Frames[first:], kinds: p.Kinds[first:], last: last, bytes: size,
		window: size + packetCost})
	c.queued += size
	return true
}

// pop takes the next item for the handlers, which are done with the last one.
func (c *pair) pop() (item, bool) {
	c.handling = len(c.queue) > 0
	if len(c.queue) == 0 {
		c.queue = nil
		return item{}, false
	}
	i := c.queue[0]
	c.queue[0] = item{}
	c.queue = c.queue[1:]
	return i, true
}

// applied notes that the handlers are done with an item.
func (c *pair) applied(i item) {
	c.queued -= i.bytes
	l := i.link
	l.applied = max(l.applied, i.last)
	if l.unacked += i.window; l.unacked >= window/8 {
		l.due = true
	}
}

// send gives a frame its number.
func (c *pair) send(kind byte, payload []byte, hint Hint, now time.Time) (Mark, bool) {
	if c.link == nil {
		return Mark{}, false
	}
	l := c.link
	num := l.out.add(frame{kind: kind, payload: payload, hint: hint, at: now})
	return Mark{Stream: streamID(l.us, l.them), Num: num}, true
}

// reached tells whether a number of the peer's stream has been applied; over: it
// never will be, its stream has ended.
func (c *pair) reached(m Mark) (reached, over bool) {
	if l := c.link; l != nil && streamID(l.them, l.us) == m.Stream {
		return l.applied >= m.Num, false
	}
	for _, id := range c.ended {
		over = over || id == m.Stream
	}
	return false, over
}
