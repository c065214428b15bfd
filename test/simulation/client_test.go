package simulation

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/petrel-im/petrel/internal/checker"
	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/route"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// device is a client as proto/README.md describes it: it connects again, resends until it
// knows what became of a message, and fills its gaps from the history. What it sees goes
// into the log.
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

// view is what a device has of a conversation. Spec: P-6.7.
type view struct {
	key        im.Key
	have, head im.Seq
	held       map[im.Seq]bool // above have+1
	pages      bool            // a goroutine reads the history
	follows    bool
}

// conn is a connection of a device.
type conn struct {
	d       *device
	at      *node
	out     *fanout.Outbox
	name    string
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
	c := &conn{d: d, at: at, ready: make(chan struct{}, 1), waits: map[uint64]*attempt{}, top: map[*view]im.Seq{}, heads: map[*view]im.Seq{}, takeovers: d.w.takeovers.Load()}
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

// abandonLocked ends a connection for its device. What has left arrives all the same.
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
			c.noteLocked(checker.Op{Kind: checker.Receipt, Conv: r.Conv, About: r.User, Seq: r.Delivered, ReadUpTo: r.Read})
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
			// Which of the two was first is nobody's promise, and neither is their order: the
			// checker takes the attempts of both for one.
			op.Body, op.Session = 0, s.id
		}
		c.noteLocked(op)
		c.d.w.settle(s, acked, seq)
		if v := c.d.views[s.key]; v != nil && seq > v.have {
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

func (d *device) viewLocked(conv string) *view {
	id, err := im.ParseConvID(conv)
	if err != nil {
		return nil
	}
	return d.views[im.Key{Tenant: im.DefaultTenant, Conv: id}]
}

// hold takes an entry, and then what was held back and follows it.
func (v *view) hold(q im.Seq) {
	v.head = max(v.head, q)
	v.held[q] = true
	for v.held[v.have+1] {
		v.have++
		delete(v.held, v.have)
	}
}

// skipTo moves over what the user may not read, or has from a page.
func (v *view) skipTo(q im.Seq) {
	if q <= v.have {
		return
	}
	v.have, v.head = q, max(v.head, q)
	for h := range v.held {
		if h <= q {
			delete(v.held, h)
		}
	}
	for v.held[v.have+1] {
		v.have++
		delete(v.held, v.have)
	}
}

// repairLocked reads the history of a conversation that has a gap.
func (c *conn) repairLocked(v *view) {
	if v.have < v.head && !v.pages && !c.over {
		v.pages = true
		c.d.w.wg.Go(func() { c.repair(v) })
	}
}

func (c *conn) repair(v *view) {
	d := c.d
	d.mu.Lock()
	for v.have < v.head && !c.over {
		after, limit := v.have, 1+d.dice.IntN(20)
		d.mu.Unlock()
		got := c.page(v.key, &petrelv1.GetHistory{After: uint64(after)}, limit, true)
		if !got {
			c.pause(300 * time.Millisecond)
		}
		d.mu.Lock()
	}
	v.pages = false
	if now := d.conn; now != nil && now != c {
		now.repairLocked(v)
	}
	d.mu.Unlock()
}

func (c *conn) pause(t time.Duration) {
	select {
	case <-time.After(t):
	case <-c.ctx.Done():
	}
}

// call asks the node of the connection, as far as it is there.
func (c *conn) call(f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(c.ctx, c.d.patience)
	defer cancel()
	if err := c.at.door.pass(ctx); err != nil {
		return err
	}
	err := f(ctx)
	if e := c.at.door.pass(ctx); err == nil {
		err = e
	}
	return err
}

// page reads a page of history, and tells whether it brought anything. one is whether its
// entries are for the stream of the device.
func (c *conn) page(key im.Key, q *petrelv1.GetHistory, limit int, own bool) bool {
	began := c.d.w.log.stamp()
	q.Conv = key.Conv.String()
	var p *petrelv1.HistoryPage
	err := c.call(func(ctx context.Context) (err error) {
		p, err = c.at.router.HistoryPage(ctx, c.d.account, q, limit, conv.Extras{Notes: true})
		return err
	})
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	if err != nil || c.over {
		return false
	}
	v := c.d.views[key]
	since := uint64(0)
	if q.Before+q.Around == 0 {
		since = q.After + 1
	}
	for _, m := range p.Messages {
		op := checker.Shown(checker.Read, m)
		op.Began, op.Since = began, since
		op.User, op.Session, op.Device = string(c.d.account.User), c.name, c.name
		if !own {
			op.Device = "pages"
		}
		c.d.w.log.add(op)
		if since = m.Seq + 1; own {
			v.skipTo(im.Seq(m.Seq))
		}
	}
	for _, n := range p.Notes {
		c.noteLocked(noteOp(p.Conv, n))
	}
	if own && !p.More {
		v.skipTo(im.Seq(p.CoveredTo))
	}
	return len(p.Messages) > 0 || own && v.have >= v.head
}

func noteOp(conv string, n *petrelv1.Note) checker.Op {
	b := []byte{0}
	if n.Pinned {
		b[0] = 1
	}
	for _, r := range n.Reactions {
		b = append(append(b, r.Emoji...), byte(r.Count))
	}
	return checker.Op{Kind: checker.Note, Conv: conv, Seq: n.Seq, Version: n.Version, Body: checker.Digest("note", b)}
}

func (c *conn) syncLocked() { c.lagged++ }

// sync asks what is new, until that has been answered after the last time that it had to.
func (c *conn) sync() {
	d := c.d
	d.mu.Lock()
	if c.syncing {
		d.mu.Unlock()
		return
	}
	c.syncing = true
	for c.synced < c.lagged && !c.over {
		upTo, since := c.lagged, d.tokens
		if d.dice.IntN(4) == 0 {
			since = nil
		}
		var asks []*convpb.Ask
		for _, key := range d.w.keysOf(d.account.User) {
			a := &convpb.Ask{Conv: key.Conv[:], Kind: kindOf(key), Peer: string(d.w.peerOf(key, d.account.User)), Since: uint64(since[0]), Always: since == nil}
			asks = append(asks, a)
		}
		d.mu.Unlock()
		ok := c.changes(asks, true)
		if !ok {
			c.pause(300 * time.Millisecond)
		}
		d.mu.Lock()
		if ok {
			c.synced, c.complete = upTo, true
		}
	}
	c.syncing = false
	d.mu.Unlock()
}

// changes does what a session does for a sync: it takes events again, and then reads.
func (c *conn) changes(asks []*convpb.Ask, own bool) bool {
	began := c.d.w.log.stamp()
	var states []*petrelv1.ConvState
	var places route.Places
	err := c.call(func(ctx context.Context) (err error) {
		if own {
			c.out.Resume()
		}
		states, places, err = c.at.router.Changes(ctx, c.d.account, asks, conv.Newest{})
		return err
	})
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	if err != nil || c.over {
		return false
	}
	for _, st := range states {
		if st == nil {
			continue
		}
		v := c.d.viewLocked(st.Conv)
		if v == nil {
			continue
		}
		if st.Role != petrelv1.Role_ROLE_UNSPECIFIED && !st.Left {
			c.noteLocked(checker.Op{Kind: checker.Head, Conv: st.Conv, Seq: st.Head, Began: began})
		}
		c.noteLocked(checker.Op{Kind: checker.Receipt, Conv: st.Conv, About: string(c.d.account.User), Seq: st.Delivered, ReadUpTo: st.Read, Began: began})
		if own {
			v.head = max(v.head, im.Seq(st.Head))
			if !c.complete {
				c.heads[v] = im.Seq(st.Head)
			}
		}
	}
	if own {
		c.d.tokens = places
		for _, v := range c.d.views {
			c.repairLocked(v)
		}
	}
	return true
}

func kindOf(key im.Key) petrelv1.ConvKind {
	if key.Conv.Kind() == im.Direct {
		return petrelv1.ConvKind_CONV_KIND_DIRECT
	}
	return petrelv1.ConvKind_CONV_KIND_GROUP
}
