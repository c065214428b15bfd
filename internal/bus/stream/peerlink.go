package stream

import (
	"math"
	"time"

	"github.com/petrel-im/petrel/internal/bus/buspb"
)

const (
	askAgain = 200 * time.Millisecond // between two requests for the same frame, while nothing comes

	// other is how many beacons a link may be silent while the peer sends packets under other names: then the two
	// ends do not agree, and the link is given up.
	other = 3

	// maxQueue is how much may wait for the handlers, in bytes: more than the window of a sender, so a correct
	// sender never reaches it.
	maxQueue = 4 * window

	// former is how many ended streams are remembered, so that a caller that waits for one of their frames learns
	// that it waits in vain.
	former = 8
)

// pair is this node's part of the two streams between it and a peer: the frames to send, the frames that came,
// and the agreement on when both streams began. It has no I/O and no clock. The caller holds the lock.
//
// Each end names a link by a random number of its own. An end without a link, or one that gets a packet of a link
// that it does not know, draws a new name and offers it. A peer that sends this name back is alive now: a new
// link begins, with both streams at 0. So packets of a former process that are still under way never count as new
// ones.
type pair struct {
	o           *Options
	incarnation uint64
	draw        func() uint64 // draws a random name

	link  *link // nil: none is agreed
	offer struct {
		us, them uint64 // our name for the next link; the peer's name for it, 0: not known yet
		due      bool
	}
	ended [former]uint64 // streams to us that have ended, by streamID
	alone int            // our beacons without a link

	// queue has what waits for the handlers, in order. queued counts its bytes, and those of the item that they
	// handle now.
	queue    []item
	queued   int
	handling bool
}

// link is a pair of streams that both ends agree on.
type link struct {
	us, them    uint64 // our name for it, and the peer's
	incarnation uint64 // of the peer's process
	out         out

	received uint64 // number of the last frame taken; all before it were taken too
	applied  uint64 // number whose frame the handlers are done with
	unacked  int    // bytes of the peer's window applied since our last packet
	asked    uint64 // number of the frame that we asked for again; 0: none is missing
	askedAt  time.Time
	want     uint64 // number to ask for in the next packet; 0: none
	due      bool   // a packet is due even without a frame

	clock  uint64 // our beacons
	echoed uint64 // the last of them the peer has heard
	theirs uint64 // the last of its beacons we have heard
	silent int    // our beacons since we heard the peer
}

// item is a task for the handlers: frames of a link, or its beginning (up) or end (down).
type item struct {
	link          *link
	up, down      bool
	frames        [][]byte
	kinds         []byte
	last          uint64 // number up to which all is applied after this item
	bytes, window int
}

// streamID returns the id of the stream from one end of a link to the other, made of their names for it.
func streamID(from, to uint64) uint64 { return from ^ (to<<32 | to>>32) }

// ready reports whether next would fill a packet.
func (c *pair) ready() bool {
	l := c.link
	return c.offer.due || l != nil && (l.due || l.out.sent < l.out.last && l.out.flight < window)
}

// next fills an empty packet with what is due: an offer, or frames and acknowledgements. False: nothing is.
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

// beat makes the next beacon due: an offer if there is no link. It ends a link whose peer was silent for too
// long.
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

// end gives the link up, and queues the news for the handlers.
func (c *pair) end() {
	copy(c.ended[1:], c.ended[:])
	c.ended[0] = streamID(c.link.them, c.link.us)
	c.queue = append(c.queue, item{link: c.link, down: true})
	c.link = nil
}

// receive applies a packet of size bytes. False: the packet is malformed.
func (c *pair) receive(p *buspb.Packet, size int, now time.Time) bool {
	l := c.link
	switch {
	case l != nil && p.From == l.them && p.To == l.us:
		if p.Bye {
			c.end()
			return true
		}
	case p.From == 0 || p.Bye:
		return p.Bye // the end of a link that we do not have
	case p.To == 0:
		if l != nil && p.From == l.them {
			return true // sent before both ends agreed
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
	default: // for a link that has ended
		if l != nil && l.silent >= other {
			c.end()
		}
		if c.link == nil {
			c.offer.them = 0 // the next beacon offers our name to any process
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

// take queues the new frames of a packet for the handlers. If frames before them are missing, it asks for those
// instead. If too much waits for the handlers, the packet is lost. False: the packet is malformed.
func (c *pair) take(l *link, p *buspb.Packet, size int, now time.Time) bool {
	n := len(p.Frames)
	if p.First == 0 && p.Count == 0 && n == 0 {
		return true // the packet has no frames
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
	first := 0 // index of the first new frame
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

// pop returns the next item for the handlers. False: there is none.
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

// applied records that the handlers are done with i.
func (c *pair) applied(i item) {
	c.queued -= i.bytes
	l := i.link
	l.applied = max(l.applied, i.last)
	if l.unacked += i.window; l.unacked >= window/8 {
		l.due = true
	}
}

// send adds a frame to the stream, and returns its place. False: there is no link.
func (c *pair) send(kind byte, payload []byte, hint Hint, now time.Time) (Mark, bool) {
	if c.link == nil {
		return Mark{}, false
	}
	l := c.link
	num := l.out.add(frame{kind: kind, payload: payload, hint: hint, at: now})
	return Mark{Stream: streamID(l.us, l.them), Num: num}, true
}

// reached reports whether the peer's frame m has been applied. over: it never will be, because its stream has
// ended.
func (c *pair) reached(m Mark) (reached, over bool) {
	if l := c.link; l != nil && streamID(l.them, l.us) == m.Stream {
		return l.applied >= m.Num, false
	}
	for _, id := range c.ended {
		over = over || id == m.Stream
	}
	return false, over
}
