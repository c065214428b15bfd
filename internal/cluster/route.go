package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
)

// route is where a feed is, as far as it is known here. It is never changed,
// but replaced.
type route struct {
	node    im.Node
	epoch   im.Epoch // the highest that was heard of
	ok      bool     // node serves it
	since   time.Time
	changed chan struct{} // closed when this is not the route any more
}

// regress is how long a feed has nobody in the highest epoch that was heard of
// before somebody in a lower one is believed: a database that lost its newest
// commits counts epochs again.
const regress = 5 * time.Second

// Route tells which node owns a feed, as far as it is known: of those who said
// so, the one with the highest epoch. ok is false while the feed is on its way
// to another node, or its owner is gone. It costs no lock.
func (c *Cluster) Route(f store.Feed) (n im.Node, e im.Epoch, ok bool) {
	r := c.routes[f].Load()
	return r.node, r.epoch, r.ok
}

// Wait returns the owner of a feed as soon as one in a higher epoch than seen
// is known. seen is the epoch that Route returned, when what it said turned out to be
// wrong, or when it knew nobody. The error is ctx's.
func (c *Cluster) Wait(ctx context.Context, f store.Feed, seen im.Epoch) (im.Node, im.Epoch, error) {
	for {
		r := c.routes[f].Load()
		if r.ok && r.epoch > seen {
			return r.node, r.epoch, nil
		}
		select {
		case <-r.changed:
		case <-ctx.Done():
			return "", 0, fmt.Errorf("wait for an owner of feed %d above epoch %d: %w", f, seen, context.Cause(ctx))
		}
	}
}

// Learn is told who owns a feed by somebody who had to know: an owner that
// refused. It counts if the epoch is higher than what is known.
func (c *Cluster) Learn(f store.Feed, n im.Node, e im.Epoch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.claimLocked(f, n, e) {
		c.decideLocked()
	}
}

// claimLocked notes that n owns f in epoch e, unless more is known, and tells
// whether that is news.
func (c *Cluster) claimLocked(f store.Feed, n im.Node, e im.Epoch) bool {
	if int(f) >= len(c.routes) {
		return false // of a store with more feeds
	}
	r := c.routes[f].Load()
	switch {
	case e > r.epoch, e == r.epoch && !r.ok:
	case r.ok || time.Since(r.since) < regress:
		return false
	}
	c.routeLocked(f, &route{node: n, epoch: e, ok: true})
	return true
}

// unclaimLocked notes that n does not serve f in epoch e any more.
func (c *Cluster) unclaimLocked(f store.Feed, n im.Node, e im.Epoch) {
	if int(f) >= len(c.routes) {
		return
	}
	if r := c.routes[f].Load(); r.ok && r.node == n && r.epoch == e {
		c.routeLocked(f, &route{node: n, epoch: e})
	}
}

func (c *Cluster) routeLocked(f store.Feed, r *route) {
	r.changed, r.since = make(chan struct{}), time.Now()
	close(c.routes[f].Swap(r).changed)
}
