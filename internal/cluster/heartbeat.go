package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/wake"
)

// recordLocked returns the present record of this node, under a new version.
func (c *Cluster) recordLocked() *storepb.Node {
	c.version++
	now := time.Now()
	rec := &storepb.Node{
		Incarnation: c.incarnation, Version: c.version, Roles: uint32(c.o.Roles), Addresses: c.o.Addresses,
		Release: c.o.Release,
		Level:   store.FormatLevel, StartedMs: uint64(c.began.UnixMilli()), TimeMs: uint64(c.o.Now().UnixMilli()),
		Taking: c.takingLocked(now), Draining: c.draining, Hearing: c.hearingLocked(now),
		Slow: c.slow,
	}
	if len(c.took) > 0 {
		rec.StoreMs = uint32(usual(c.took).Milliseconds())
	}
	for _, id := range c.feeds {
		x := &storepb.FeedEpoch{Feed: uint32(id)}
		switch f := c.own[id]; f.phase {
		case opening:
			rec.Held = append(rec.Held, x)
		case open, closing:
			x.Epoch = uint64(f.epoch)
			rec.Held = append(rec.Held, x)
		case none:
			if x.Epoch = uint64(f.released); x.Epoch != 0 {
				rec.Released = append(rec.Released, x)
			}
		}
	}
	return rec
}

// record encodes the record of this node. Only the record for peers has the
// positions of feeds. In the row they would be useless: the same store has
// the feeds, and a failover that loses their commits loses the row as well.
func (c *Cluster) record(toPeers bool) []byte {
	c.mu.Lock()
	rec := c.recordLocked()
	c.mu.Unlock()
	if d := c.o.Databases; d != nil {
		if rec.Seen = d.Seen(); !toPeers {
			rec.Seen.Positions = nil
		}
	}
	b, err := rec.MarshalVT()
	im.Assert(err == nil, "a node's record does not encode")
	return b
}

// beacons sends the record of this node to the peers on the bus, after changes and on a timer,
// until ctx ends.
func (c *Cluster) beacons(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		b := c.record(true)
		for _, n := range c.bus.Peers() {
			_ = c.bus.Send(n, beacon, b) // the next one replaces a lost one
		}
		select {
		case <-tick.C:
		case <-c.tell:
			select { // a start or a drain changes many feeds at once
			case <-time.After(gather):
			case <-ctx.Done():
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// beats writes the own row until ctx ends, and ends the settle time of a
// new node. A row of another process under the same id ends the run.
func (c *Cluster) beats(ctx context.Context) {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-c.note:
			select { // a node that is apart gives many feeds up at once
			case <-time.After(gather):
			case <-ctx.Done():
				return
			}
		case <-ctx.Done():
			return
		}
		c.mu.Lock()
		w := c.work
		if !c.taking && c.o.Roles&Conv != 0 {
			c.taking = true // the settle time is over
			wake.Set(c.tell)
		}
		c.decideLocked()
		c.mu.Unlock()
		if err := c.beat(ctx); errors.Is(err, ErrTwin) {
			if w != nil {
				w.stop(err)
			}
			return
		} else if ctx.Err() == nil {
			c.noteStore(&c.deaf.write, err)
		}
	}
}

// beat writes the own row once, unless the row is of another process. After
// a write of unknown outcome it recognises the own row by its incarnation.
func (c *Cluster) beat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, storeWait)
	defer cancel()
	for {
		value := c.record(false)
		err := c.store.Update(ctx,
			[]store.RecordPut{{Table: store.Nodes, Key: []byte(c.self), Value: value, Check: true, Was: c.row}})
		if err == nil {
			c.row = value
			return nil
		}
		if !errors.Is(err, store.ErrChanged) {
			return fmt.Errorf("write heartbeat of %s: %w", c.self, err)
		}
		there, err := c.store.Record(ctx, store.Nodes, 0, []byte(c.self))
		if err != nil {
			return fmt.Errorf("read heartbeat of %s: %w", c.self, err)
		}
		var rec storepb.Node
		if there != nil && (rec.UnmarshalVT(there) != nil || rec.Incarnation != c.incarnation) {
			return c.twin(&rec)
		}
		c.row = there
	}
}

// twin returns the error of a node that finds another process under its id.
func (c *Cluster) twin(rec *storepb.Node) error {
	return fmt.Errorf(
		"%w: %q is used by process %x, started %s, at %v: stop that process, or give this node another id",
		ErrTwin, c.self, rec.Incarnation, time.UnixMilli(int64(rec.StartedMs)).UTC().Format(time.RFC3339),
		rec.Addresses)
}

// noteStore logs once when the rows cannot be read or written, and once
// when both works again. which is one of the two fields of Cluster.deaf.
func (c *Cluster) noteStore(which *bool, err error) {
	c.mu.Lock()
	was := c.deaf.read || c.deaf.write
	*which = err != nil
	is := c.deaf.read || c.deaf.write
	c.mu.Unlock()
	switch {
	case is && !was:
		c.log.Warn("heartbeats cannot be read or written: until they can, no node counts as gone", "err", err)
	case was && !is:
		c.log.Info("heartbeats can be read and written again")
	}
}

// looks reads the rows of the others, twice a second and whenever there may be free feeds, until ctx ends. It
// also removes the rows of nodes that have been gone for long.
func (c *Cluster) looks(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		c.look(ctx)
		c.forget(ctx)
		select {
		case <-tick.C:
		case <-c.seek:
		case <-ctx.Done():
			return
		}
	}
}

// look reads the rows and judges by them which nodes are alive, and whether this one is slow. If there are
// feeds that this node should own and that have no known owner, it asks the store for their holders and opens
// the free ones.
//
// The rows are read after the holders: a node writes its row before it takes anything over, so a holder without
// a row is gone.
func (c *Cluster) look(ctx context.Context) {
	c.mu.Lock()
	wanted := c.wantedLocked()
	heard := make([]*route, len(wanted))
	for i, id := range wanted {
		heard[i] = c.routes[id].Load()
	}
	c.mu.Unlock()
	var holders map[store.Feed]store.Holder
	var err error
	if len(wanted) > 0 {
		if holders, err = c.holders(ctx, wanted); err != nil {
			holders = nil
		}
	}
	now := time.Now()
	rows, rowsErr := c.rows(ctx)
	took := time.Since(now)
	if ctx.Err() != nil {
		return
	}
	c.noteStore(&c.deaf.read, errors.Join(err, rowsErr))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.work == nil { // Run ended meanwhile
		return
	}
	if rowsErr == nil {
		c.absorbLocked(rows, now, false)
		c.unreachableLocked(now)
		c.noteSlowLocked(took, now.Add(took))
	}
	should := c.shouldLocked(now)
	for i, id := range wanted {
		f := c.own[id]
		f.looked = true // not again before a change, or the next tick
		if h, ok := holders[id]; ok && h.Epoch < heard[i].epoch && heard[i] == c.routes[id].Load() {
			c.routeLocked(id, &route{epoch: h.Epoch}) // the store has lost the commits of earlier announcements
		}
		if h, ok := holders[id]; ok && rowsErr == nil && f.phase == none && c.freeLocked(id, h) &&
			c.wantsLocked(f, should, time.Now()) {
			c.openLocked(f)
		}
	}
	c.decideLocked()
}

// forget removes the rows of nodes that have been gone for forgetAfter, unless a row has changed meanwhile.
func (c *Cluster) forget(ctx context.Context) {
	var old []store.RecordPut
	c.mu.Lock()
	for _, p := range c.peers {
		if p.expired && p.silent >= forgetAfter {
			old = append(old, store.RecordPut{Table: store.Nodes, Key: []byte(p.node), Check: true, Was: p.row})
			p.silent = expiry // the next try is an hour away
		}
	}
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, storeWait)
	defer cancel()
	for _, put := range old {
		if err := c.store.Update(ctx, []store.RecordPut{put}); err == nil {
			c.log.Info("row of a node that is gone was removed", "node", string(put.Key))
		}
	}
}

// wantedLocked returns the feeds that this node should own and that have no known owner.
func (c *Cluster) wantedLocked() []store.Feed {
	if c.work == nil {
		return nil
	}
	now := time.Now()
	should := c.shouldLocked(now)
	var wanted []store.Feed
	for _, id := range c.feeds {
		if f := c.own[id]; f.phase == none && c.wantsLocked(f, should, now) {
			wanted = append(wanted, id)
		}
	}
	return wanted
}

// freeLocked tells whether a feed with this holder in the store may be taken over. A live
// holder has to have released the epoch: otherwise it serves the feed, or is just opening it.
func (c *Cluster) freeLocked(f store.Feed, h store.Holder) bool {
	if !h.State.Takes() {
		return false
	}
	p := c.peers[h.Holder]
	return p == nil || !p.alive() || p.released[f] >= h.Epoch
}
