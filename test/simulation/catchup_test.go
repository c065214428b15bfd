package simulation

import (
	"context"
	"time"

	"github.com/petrel-im/petrel/internal/checker"
	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/route"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// view is what a device has of a conversation. Spec: P-6.7.
type view struct {
	key        im.Key
	have, head im.Seq
	held       map[im.Seq]bool // above have+1
	pages      bool            // a goroutine reads the history
	follows    bool
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
