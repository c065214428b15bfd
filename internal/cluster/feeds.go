package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/petrel-im/petrel/internal/bus"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/wake"
)

// phase is the state of a feed on this node.
type phase uint8

const (
	none    phase = iota
	opening       // Owners.Open runs, or is about to
	open
	closing // Owners.Close runs, or is about to
)

// feed is the state of a feed on this node.
type feed struct {
	id       store.Feed
	phase    phase
	epoch    im.Epoch         // of phases open and closing
	lostIn   im.Epoch         // of phase opening: the highest epoch that was lost meanwhile
	released im.Epoch         // of phase none: this process serves no epoch up to this one
	looked   bool             // the store was asked for its holder, and nothing has changed since
	again    time.Time        // not opened before this time
	keep     time.Time        // not handed over before this time: its former owner may know newer facts than this node
	asked    []func(im.Epoch) // to be answered when it is open
}

const (
	// everything is a value of feed.released: this process serves no epoch of the feed, whichever one the store
	// has noted for it.
	everything = ^im.Epoch(0)

	reopenWait = 500 * time.Millisecond // between two times that one feed is opened here
	callWait   = 5 * time.Second        // for a call of Owners
	// slowClose bounds Owners.Close on a slow node. It is short: the next owner is quicker, and the fence
	// refuses late commits.
	slowClose   = time.Second
	handOverTry = 300 * time.Millisecond
	handOvers   = 5 // tries to tell the next owner; later it finds out by the beacon
)

// releases tell a node that a feed is free for it. The answer has the epoch in which the node has opened the
// feed; 0: it has not.
var releases = bus.Request[*storepb.FeedEpoch, *storepb.FeedEpoch]{Subject: release, Timeout: handOverTry}

// decideLocked starts the work that follows from the present state: it opens, closes, hands over,
// or asks for a look at the store. It is called after every change, and at least twice a second.
func (c *Cluster) decideLocked() { c.decideOnLocked(c.feeds...) }

// decideOnLocked is decideLocked for some feeds, when the others have not changed:
// a node that opens hundreds of feeds need not check all of them for each one.
func (c *Cluster) decideOnLocked(feeds ...store.Feed) {
	if c.work == nil {
		return
	}
	now := time.Now()
	if !c.o.Alone {
		c.noteApartLocked(now)
	}
	should := c.shouldLocked(now)
	seek := false
	for _, id := range feeds {
		f := c.own[id]
		switch f.phase {
		case none:
			if !c.wantsLocked(f, should, now) {
				continue
			}
			if c.o.Alone {
				c.openLocked(f)
			} else if !f.looked {
				seek = true
			}
		case open:
			if c.routes[id].Load().epoch > f.epoch {
				c.closeLocked(f, false)
			} else if to := should[id]; to != c.self && (c.apart[c.self] || c.slow && to != "") {
				// There is no hand-over: if this node is apart, the others learn it only from
				// its row; if it is slow, each hand-over would wait for the earlier ones.
				c.closeLocked(f, false)
			} else if to != c.self && c.moving < maxMoving && (c.draining || !now.Before(f.keep)) &&
				c.presentLocked(to, now) {
				c.closeLocked(f, true)
			}
		}
	}
	if seek {
		wake.Set(c.seek)
	}
}

// shouldLocked returns the node that should own each feed. It stays the same while the nodes that
// take feeds stay the same. If all of them are draining, they keep their feeds.
func (c *Cluster) shouldLocked(now time.Time) map[store.Feed]im.Node {
	takers := c.takersLocked(now, false)
	if len(takers) == 0 {
		takers = c.takersLocked(now, true)
	}
	if c.shares == nil || !slices.Equal(takers, c.sharers) {
		c.shares, c.sharers = share(c.feeds, takers), takers
	}
	return c.shares
}

// takersLocked returns the nodes that take feeds: with draining only those that are draining, otherwise only
// those that are not.
func (c *Cluster) takersLocked(now time.Time, draining bool) []im.Node {
	var takers []im.Node
	if c.takingLocked(now) && c.draining == draining {
		takers = append(takers, c.self)
	}
	for _, p := range c.peers {
		if p.alive() && p.rec.Taking && p.rec.Draining == draining && !now.Before(p.from) && p.node != c.self {
			takers = append(takers, p.node)
		}
	}
	slices.Sort(takers)
	return slices.Compact(takers)
}

// wantsLocked tells whether this node should open a feed that is not open here: it should own the feed, no
// owner is known, and the last attempt is reopenWait ago. A live owner hands the feed over by itself.
func (c *Cluster) wantsLocked(f *feed, should map[store.Feed]im.Node, now time.Time) bool {
	if should[f.id] != c.self || now.Before(f.again) {
		return false
	}
	highest := c.routes[f.id].Load().epoch
	for _, p := range c.peers {
		// A claim in an epoch below the known one is outdated.
		if e, ok := p.held[f.id]; ok && p.alive() && (e == 0 || e >= highest) {
			return false
		}
	}
	return true
}

// presentLocked tells whether a node is on the bus and alive, so that a hand-over to it is
// possible.
func (c *Cluster) presentLocked(n im.Node, now time.Time) bool {
	for _, p := range c.peers {
		if p.node == n && p.alive() && p.present(now) {
			return true
		}
	}
	return false
}

func (c *Cluster) phaseLocked(f *feed, p phase) {
	f.phase = p
	close(c.changed)
	c.changed = make(chan struct{})
	wake.Set(c.tell)
}

// openLocked begins to open a feed.
func (c *Cluster) openLocked(f *feed) {
	w := c.work
	f.looked, f.again, f.lostIn = false, time.Now().Add(reopenWait), 0
	c.phaseLocked(f, opening)
	w.wg.Go(func() { c.open(w, f) })
}

func (c *Cluster) open(w *work, f *feed) {
	var e im.Epoch
	err := context.Cause(w.ctx)
	select {
	case c.opening <- struct{}{}:
		ctx, cancel := c.callTime(w.ctx, callWait)
		e, err = w.owners.Open(ctx, f.id)
		cancel()
		<-c.opening
	case <-w.ctx.Done():
	}
	c.mu.Lock()
	asked := f.asked
	f.asked = nil
	if err == nil {
		c.Takeovers.Add(1)
		if f.lostIn == e {
			c.Losses.Add(1)
			e, err = 0, errLostAtOnce
		}
	}
	if err != nil {
		f.released = everything
		c.phaseLocked(f, none)
	} else {
		f.epoch, f.keep = e, time.Now().Add(settleTime)
		c.claimLocked(f.id, c.self, e)
		c.phaseLocked(f, open)
	}
	c.decideOnLocked(f.id)
	c.mu.Unlock()
	for _, reply := range asked {
		reply(e)
	}
	switch {
	case err == nil:
		c.log.Debug("feed is open", "feed", f.id, "epoch", e)
	case w.ctx.Err() != nil:
	case c.o.Alone:
		w.stop(err)
	default:
		c.log.Warn("open feed failed", "feed", f.id, "err", err)
	}
}

var errLostAtOnce = errors.New("its owner was lost while the feed was being opened")

// callTime bounds calls of Owners: a connection that hangs must not keep a feed
// for ever. A node that is Alone waits, because no other node could take the feed.
func (c *Cluster) callTime(ctx context.Context, atMost time.Duration) (context.Context, context.CancelFunc) {
	if c.o.Alone {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, atMost)
}

// closeLocked begins to close a feed. With handOver, the next owner is told when the feed is closed.
func (c *Cluster) closeLocked(f *feed, handOver bool) {
	w := c.work
	c.unclaimLocked(f.id, c.self, f.epoch)
	c.phaseLocked(f, closing)
	if handOver {
		c.moving++
	}
	wait := callWait
	if c.slow {
		wait = slowClose
	}
	w.wg.Go(func() { c.close(w, f, handOver, wait) })
}

func (c *Cluster) close(w *work, f *feed, handOver bool, wait time.Duration) {
	ctx, cancel := c.callTime(w.ctx, wait)
	w.owners.Close(ctx, f.id)
	cancel()
	c.mu.Lock()
	e := f.epoch
	f.released, f.again = e, time.Time{}
	c.phaseLocked(f, none)
	if c.apart[c.self] {
		wake.Set(c.note)
	}
	c.decideOnLocked(f.id)
	c.mu.Unlock()
	c.log.Debug("feed is closed", "feed", f.id, "epoch", e)
	if !handOver {
		return
	}
	c.handOver(w, f.id, e)
	c.mu.Lock()
	c.moving--
	c.phaseLocked(f, f.phase) // wakes Drain, which counts moving feeds, too
	c.decideLocked()
	c.mu.Unlock()
}

// handOver tells the next owner of a feed that it is free, up to handOvers times, until a node
// has taken it. If all messages are lost, the next owner sees it in the record of this node.
func (c *Cluster) handOver(w *work, id store.Feed, e im.Epoch) {
	for range handOvers {
		c.mu.Lock()
		to := c.shouldLocked(time.Now())[id]
		taken := c.routes[id].Load().epoch > e
		c.mu.Unlock()
		if taken || to == "" || to == c.self || w.ctx.Err() != nil {
			return
		}
		try, cancel := context.WithTimeout(w.ctx, handOverTry)
		w.wg.Go(func() {
			defer cancel()
			_, _, _ = c.Wait(try, id, e) // a node has it, or the try is over
		})
		answer, err := releases.Ask(try, c.bus, to, &storepb.FeedEpoch{Feed: uint32(id), Epoch: uint64(e)})
		if now := im.Epoch(answer.GetEpoch()); err == nil && now > e {
			c.Learn(id, to, now)
		}
		<-try.Done() // the next try comes at its time, whatever the answer
	}
}

// handleRelease opens a feed that its owner has closed for this node, and answers with the epoch when the feed
// is open. If this node does not take the feed, it answers 0.
func (c *Cluster) handleRelease(from im.Node, q *storepb.FeedEpoch, answer func(*storepb.FeedEpoch, error)) {
	id, e := store.Feed(q.Feed), im.Epoch(q.Epoch)
	reply := func(now im.Epoch) { answer(&storepb.FeedEpoch{Feed: q.Feed, Epoch: uint64(now)}, nil) }
	c.mu.Lock()
	f := c.own[id]
	switch {
	case f == nil || c.work == nil || c.draining || c.apart[c.self] || c.slow || c.o.Roles&Conv == 0:
		c.mu.Unlock()
		reply(0)
	case f.phase == open:
		e = f.epoch
		c.mu.Unlock()
		reply(e)
	case f.phase == closing, c.routes[id].Load().epoch > e: // the feed has been elsewhere since
		c.mu.Unlock()
		reply(0)
	default:
		c.unclaimLocked(id, from, e)
		f.asked = append(f.asked, reply)
		if f.phase == none {
			c.openLocked(f)
		}
		c.mu.Unlock()
	}
}

// Lost is called by an Owner whose commit was refused as stale, or has an unknown outcome. The Owner has
// dropped its state of the feed in epoch e, and makes no more calls for it. If the feed should be here, it
// is opened again. An Owner commits as soon as it exists, so Lost may come before Owners.Open has returned.
func (c *Cluster) Lost(f store.Feed, e im.Epoch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.own[f]
	switch {
	case o == nil:
		return
	case o.phase == opening:
		o.lostIn = max(o.lostIn, e) // the loss of a former Owner may be reported late
		return
	case o.phase != open || o.epoch != e:
		return
	}
	c.Losses.Add(1)
	c.unclaimLocked(f, c.self, e)
	o.released = everything
	c.phaseLocked(o, none)
	c.decideLocked()
}

// Drain gives all feeds of this node to the others, and returns when none is left. Until
// Resume the node takes no feeds, and clients are sent to it last. Errors: ErrNobody,
// and that of ctx with the number of feeds left; then the node goes on as before.
func (c *Cluster) Drain(ctx context.Context) error {
	c.mu.Lock()
	c.draining = true
	if len(c.takersLocked(time.Now(), false)) > 0 {
		wake.Set(c.tell)
		c.decideLocked()
	}
	c.mu.Unlock()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		c.mu.Lock()
		left, changed := max(c.ownedLocked(), c.moving), c.changed
		nobody := len(c.takersLocked(time.Now(), false)) == 0
		c.mu.Unlock()
		switch {
		case left == 0:
			return nil
		case nobody: // also later: all nodes of a cluster may be told to stop at once
			c.Resume()
			return fmt.Errorf("drain %s: %w", c.self, ErrNobody)
		}
		select {
		case <-changed:
		case <-tick.C:
		case <-ctx.Done():
			c.Resume()
			return fmt.Errorf("drain %s: %d feeds left: %w", c.self, left, context.Cause(ctx))
		}
	}
}

// Resume ends the effect of Drain: the node takes feeds again.
func (c *Cluster) Resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.draining = false
	wake.Set(c.tell)
	c.decideLocked()
}

// ownedLocked counts the feeds that are open here, or on their way in or out.
func (c *Cluster) ownedLocked() int {
	n := 0
	for _, f := range c.own {
		if f.phase != none {
			n++
		}
	}
	return n
}
