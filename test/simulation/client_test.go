package simulation

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/petrel-im/petrel/internal/checker"
	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/route"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// device is a client as proto/README.md describes it: it connects again, resends a message
// until its outcome is known, and fills its gaps from the history. It logs every entry that
// it gets.
type device struct {
	w        *world
	account  im.Account
	name     string
	patience time.Duration // for an answer; then it takes another connection
	limit    int           // of its outbox, in bytes
	hints    bool

	mu     sync.Mutex // tier 1; guards the fields below
	dice   *rand.Rand
	conn   *conn // nil: it has none
	conns  int
	quit   bool
	views  map[im.Key]*view
	queue  []*send // that are not settled, oldest first
	tokens route.Places
}

// conn is a connection of a device.
type conn struct {
	d       *device
	at      *node
	out     *fanout.Outbox
	name    string
	began   time.Time
	ready   chan struct{} // capacity 1; a token: there are frames, or something to send
	ctx     context.Context
	abandon context.CancelFunc

	// Guarded by device.mu.
	over      bool // the device does not look at it any more
	leaving   []*conv.Send
	waits     map[uint64]*attempt
	next      uint64
	focus     uint64
	syncing   bool
	lagged    int // how often it had to sync
	synced    int
	complete  bool             // the first sync is done
	top       map[*view]im.Seq // the highest entry that came by a push or an ack
	heads     map[*view]im.Seq // as the first sync told them
	takeovers int64            // before it
}

// attempt is one try of a send on a connection.
type attempt struct {
	s     *send
	began time.Time
}

// run connects again and again until the world ends.
func (d *device) run() {
	for d.w.ctx.Err() == nil {
		nodes := d.w.up()
		d.mu.Lock()
		quit := d.quit
		var at *node
		if len(nodes) > 0 {
			at = nodes[d.dice.IntN(len(nodes))]
		}
		pause := time.Duration(50+d.dice.IntN(500)) * time.Millisecond
		d.mu.Unlock()
		if at != nil && !quit && at.door.waiting() == nil {
			c := d.connect(at)
			if at.leaving.Load() { // since it was chosen
				c.abandon()
			}
			c.serve()
		}
		select {
		case <-time.After(pause):
		case <-d.w.ctx.Done():
		}
	}
}

// connect logs in at a node: first into the table, then the sync. Spec: P-6.3.
func (d *device) connect(at *node) *conn {
	c := &conn{d: d, at: at, began: time.Now(), ready: make(chan struct{}, 1), waits: map[uint64]*attempt{}, top: map[*view]im.Seq{}, heads: map[*view]im.Seq{}, takeovers: d.w.takeovers.Load()}
	c.ctx, c.abandon = context.WithCancel(d.w.ctx)
	c.out = fanout.NewOutbox(wire.Encoding{Codec: wire.Proto, Framing: wire.TCP}, fanout.NewFlusher(c.wake), d.limit)
	c.out.Account, c.out.Receipts, c.out.Notes, c.out.Hints = d.account, true, true, d.hints
	d.mu.Lock()
	d.conns++
	c.name = d.name + "#" + string(rune('a'+d.conns/26%26)) + string(rune('a'+d.conns%26))
	d.conn = c
	for _, v := range d.views {
		clear(v.held)
		if v.follows {
			c.noteLocked(checker.Op{Kind: checker.Follow, Conv: v.key.Conv.String(), Seq: uint64(v.have)})
		}
	}
	c.syncLocked()
	d.mu.Unlock()
	at.Table.Enter(d.account, c.out, -1)
	var k fanout.WakeUps
	c.out.Welcome(&petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Welcome{Welcome: &petrelv1.Welcome{}}}, &k)
	k.Flush()
	d.w.wg.Go(c.sync)
	return c
}

func (c *conn) wake() {
	select {
	case c.ready <- struct{}{}:
	default:
	}
}

// noteLocked writes an op of this connection.
func (c *conn) noteLocked(op checker.Op) {
	op.User, op.Device, op.Session = string(c.d.account.User), c.name, c.name+op.Session
	c.d.w.log.add(op)
}

// serve does what a connection has to, until it ends.
func (c *conn) serve() {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for c.ctx.Err() == nil {
		if thawed := c.at.door.waiting(); thawed != nil {
			select {
			case <-thawed:
			case <-tick.C:
			case <-c.ctx.Done():
			}
		} else {
			c.take()
			c.submit()
			select {
			case <-c.ready:
			case <-tick.C:
			case <-c.ctx.Done():
			}
		}
		c.d.mu.Lock()
		c.sendLocked()
		c.d.mu.Unlock()
	}
	c.d.mu.Lock()
	c.abandonLocked("the world ends")
	c.d.mu.Unlock()
	c.d.w.wg.Go(c.linger)
}

// abandonLocked ends a connection for its device. Frames that have left arrive all the
// same.
func (c *conn) abandonLocked(why string) {
	if c.over {
		return
	}
	c.over = true
	c.abandon()
	if c.d.conn == c {
		c.d.conn = nil
	}
	for _, a := range c.waits {
		a.s.on = nil
		a.s.unknown++
	}
	c.noteLocked(checker.Op{Kind: checker.End})
}

// linger brings what has left to the node, when that goes on, and ends the session there.
func (c *conn) linger() {
	_ = c.at.door.pass(context.Background()) // a dead node's door is open
	if !c.at.dead.Load() {
		c.submit()
		c.at.Table.Leave(c.d.account, c.out)
	}
	c.out.Close()
}

// submit gives the node what has left.
func (c *conn) submit() {
	c.d.mu.Lock()
	sends := c.leaving
	c.leaving = nil
	c.d.mu.Unlock()
	if len(sends) > 0 && !c.at.dead.Load() {
		var k fanout.WakeUps
		c.at.Convs.Submit(sends, &k)
		k.Flush()
	}
}

// sendLocked begins the attempts that are due, in their order, and gives the connection up
// if an answer takes too long.
func (c *conn) sendLocked() {
	if c.over {
		return
	}
	now := time.Now()
	for _, a := range c.waits {
		if now.Sub(a.began) > c.d.patience {
			c.abandonLocked("no answer")
			return
		}
	}
	for _, s := range c.d.queue {
		if c.d.w.fateOf(s) != open || s.on != nil || now.Before(s.again) {
			continue
		}
		size := s.size()
		if !c.out.Window(size, 64, 256<<10) {
			break
		}
		c.next++
		c.noteLocked(s.invoke())
		s.on, s.tries = c, s.tries+1
		c.waits[c.next] = &attempt{s, now}
		c.leaving = append(c.leaving, s.build(c.d, fanout.Origin{Out: c.out, ID: c.next, Bytes: size}))
	}
	if len(c.leaving) > 0 {
		c.wake()
	}
}

// take reads the frames that wait.
func (c *conn) take() {
	p, _ := c.out.Take()
	defer c.out.Wrote(p, 0)
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	for b := p.Bytes; len(b) > 0 && !c.over; {
		n := binary.BigEndian.Uint32(b)
		var f petrelv1.ServerFrame
		if err := f.UnmarshalVT(b[4 : 4+n]); err != nil {
			c.d.w.convict("%s got a frame that does not parse: %v", c.name, err)
			return
		}
		c.frameLocked(&f)
		b = b[4+n:]
	}
}

func (c *conn) frameLocked(f *petrelv1.ServerFrame) {
	d := c.d
	switch b := f.Body.(type) {
	case *petrelv1.ServerFrame_Ack:
		c.answerLocked(f.Id, im.Seq(b.Ack.Seq), nil)
	case *petrelv1.ServerFrame_Error:
		c.answerLocked(f.Id, 0, b.Error)
	case *petrelv1.ServerFrame_Lagged:
		c.syncLocked()
		d.w.wg.Go(c.sync)
	case *petrelv1.ServerFrame_Kick:
		c.abandonLocked("kicked")
	case *petrelv1.ServerFrame_Events:
		for _, m := range b.Events.Messages {
			if v := d.viewLocked(m.Conv); v != nil && im.Seq(m.Seq) > v.have && !v.held[im.Seq(m.Seq)] {
				c.pushedLocked(v, m)
			}
		}
		for _, h := range b.Events.Hints {
			if v := d.viewLocked(h.Conv); v != nil {
				c.noteLocked(checker.Op{Kind: checker.Head, Conv: h.Conv, Seq: h.Head})
				v.head = max(v.head, im.Seq(h.Head))
				c.repairLocked(v)
			}
		}
		for _, r := range b.Events.Receipts {
			op := checker.Op{Kind: checker.Receipt, Conv: r.Conv, About: r.User, Seq: r.Delivered, ReadUpTo: r.Read}
			if c.takeovers != d.w.takeovers.Load() { // a receipt of the former owner may come after one of the new owner
				op.Session = fmt.Sprint(" ", d.w.log.stamp())
			}
			c.noteLocked(op)
		}
		for _, n := range b.Events.Notes {
			c.noteLocked(noteOp(n.Conv, n))
		}
	}
}

// pushedLocked takes an entry that the device does not have.
func (c *conn) pushedLocked(v *view, m *petrelv1.Message) {
	op, q := checker.Shown(checker.Deliver, m), im.Seq(m.Seq)
	if q < c.top[v] {
		op.Kind = checker.Read // a new owner may push once more what is in the gap of a device that was away
		if head, told := c.heads[v]; told && q > head && c.takeovers == c.d.w.takeovers.Load() {
			c.d.w.convict("I5: %s is pushed seq %d of %s after seq %d", c.name, q, m.Conv, c.top[v])
		}
	}
	c.top[v] = max(c.top[v], q)
	c.noteLocked(op)
	v.hold(q)
	c.repairLocked(v)
}

// answerLocked takes the answer to an attempt.
func (c *conn) answerLocked(id uint64, seq im.Seq, e *petrelv1.Error) {
	a := c.waits[id]
	if a == nil {
		return
	}
	delete(c.waits, id)
	s := a.s
	s.on = nil
	op := s.invoke()
	op.Edits, op.Recalls = 0, 0
	switch {
	case e == nil:
		op.Kind, op.Seq = checker.OK, uint64(seq)
		if s.twin.Load() {
			// No promise says which of the two is first: the checker takes the attempts of
			// both for one.
			op.Body, op.Session = 0, s.id
		}
		v := c.d.views[s.key]
		late := v != nil && seq < c.top[v] && seq > v.have && c.takeovers != c.d.w.takeovers.Load()
		if late { // a new owner has pushed later entries first: the client reads the history
			op.User, op.Device, op.Session = string(s.user), "acks", s.id
			c.d.w.log.add(op)
		} else {
			c.noteLocked(op)
		}
		c.d.w.settle(s, acked, seq)
		if v != nil && late {
			c.repairLocked(v)
		} else if v != nil && seq > v.have {
			c.top[v] = max(c.top[v], seq)
			v.hold(seq)
			c.repairLocked(v)
		}
	case e.Settled:
		c.d.w.say("%s: %s is refused: %s %s", c.name, s.id, e.Code, e.Message)
		op.Kind = checker.Rejected
		c.noteLocked(op)
		if s.unknown > 0 {
			c.d.w.settle(s, unknowable, 0)
		} else {
			c.d.w.settle(s, rejected, 0)
		}
	default:
		if e.Code == string(im.CodeAfterAhead) {
			c.d.w.convict("I7: %s knew of seq %d of %s, and is told of the head %d", c.name, s.after, s.key.Conv, e.Head)
		}
		s.unknown++
		s.again = time.Now().Add(max(200*time.Millisecond, time.Duration(e.RetryAfterMs)*time.Millisecond))
	}
	if c.d.w.fateOf(s) != open {
		c.d.queue = slices.DeleteFunc(c.d.queue, func(x *send) bool { return x == s })
	}
}
