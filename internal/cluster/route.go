package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
)

// route names the owner of a feed, as far as it is known here. A route never changes; a new one replaces it.
type route struct {
	node    im.Node
	epoch   im.Epoch // the highest known one
	ok      bool     // node serves it
	since   time.Time
	changed chan struct{} // closed when this is not the route any more
}

// regress is how long a feed must have no owner in the highest known epoch before a claim in
// a lower epoch counts. A database that lost its newest commits gives lower epochs again.
const regress = 5 * time.Second

// Route returns the owner of a feed, as far as it is known: of the nodes that claim it, the one
// with the highest epoch. ok is false while the feed moves to another node, or its owner is gone.
// It takes no lock.
func (c *Cluster) Route(f store.Feed) (n im.Node, e im.Epoch, ok bool) {
	r := c.routes[f].Load()
	return r.node, r.epoch, r.ok
}

// Wait waits until an owner of a feed in a higher epoch than seen is known, and returns it. seen is
// the epoch of Route's last answer, which was wrong or without a node. The error is that of ctx.
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

// Learn notes that n owns f in epoch e, as a former owner has said in a refusal. It counts like a claim of n
// itself (claimLocked).
func (c *Cluster) Learn(f store.Feed, n im.Node, e im.Epoch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.claimLocked(f, n, e) {
		c.decideLocked()
	}
}

// claimLocked notes that n owns f in epoch e, if e is above the known epoch, or equal to it while no owner is
// known. A lower epoch counts only after the feed has had no known owner for regress. It tells whether that
// changes the route.
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
