package cluster

import (
	"cmp"
	"slices"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
)

// NodeStatus is the state of a node, as this one sees it.
type NodeStatus struct {
	Node        im.Node
	Incarnation uint64
	Roles       Roles
	Addresses   []string
	Release     string
	Level       uint32 // the format level it writes at most
	Started     time.Time
	Alive       bool
	Reachable   bool // on the bus
	Taking      bool // it takes feeds
	Draining    bool
	Apart       bool          // outside of the majority that hear each other
	Slow        bool          // the store answers it late
	Feeds       []store.Feed  // it owns, in order
	Share       int           // how many it should own
	Silent      time.Duration // how long its heartbeat has not moved, as far as that counts (peer.silent)
	Skew        time.Duration // its clock ahead of ours
}

// Status is the state of the cluster, as one node sees it.
type Status struct {
	Nodes       []NodeStatus // ordered by id
	Feeds       int
	Unowned     []store.Feed // without a known owner
	Moving      int          // feeds that this node is giving away
	Misplaced   int          // feeds that are not at the node that should own them
	Unreachable []im.Node    // alive for 10 s by their heartbeats, and not on the bus
	StoreGone   bool         // heartbeats cannot be read or written
	Apart       bool         // most of the nodes hear each other, and this one does not hear all of them
}

// Status returns the state of the cluster.
func (c *Cluster) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	s := Status{Feeds: len(c.feeds), Moving: c.moving, StoreGone: c.deaf.read || c.deaf.write, Apart: c.apart[c.self],
		Unreachable: c.unreachableLocked(now)}
	by := map[im.Node][]store.Feed{}
	should, shares := c.shouldLocked(now), map[im.Node]int{}
	for _, f := range c.feeds {
		shares[should[f]]++
		if r := c.routes[f].Load(); r.ok {
			by[r.node] = append(by[r.node], f)
			if to := should[f]; to != "" && to != r.node {
				s.Misplaced++
			}
		} else {
			s.Unowned = append(s.Unowned, f)
		}
	}
	s.Nodes = append(s.Nodes, NodeStatus{
		Node: c.self, Incarnation: c.incarnation, Roles: c.o.Roles, Addresses: c.o.Addresses, Release: c.o.Release,
		Level:   store.FormatLevel,
		Started: c.began, Alive: true, Reachable: true, Taking: c.taking, Draining: c.draining, Apart: c.apart[c.self],
		Slow: c.slow, Feeds: by[c.self], Share: shares[c.self],
	})
	for incarnation, p := range c.peers {
		if p.row == nil {
			continue
		}
		n := NodeStatus{
			Node: p.node, Incarnation: incarnation, Roles: Roles(p.rec.Roles), Addresses: p.rec.Addresses,
			Release: p.rec.Release, Level: p.rec.Level,
			Started: time.UnixMilli(int64(p.rec.StartedMs)), Alive: p.alive(), Reachable: p.present(now),
			Taking: p.rec.Taking, Draining: p.rec.Draining, Apart: c.apart[p.node], Slow: p.rec.Slow,
			Silent: p.silent, Skew: p.skew,
		}
		if n.Alive {
			n.Feeds, n.Share = by[p.node], shares[p.node]
		}
		s.Nodes = append(s.Nodes, n)
	}
	slices.SortFunc(s.Nodes, func(a, b NodeStatus) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Incarnation, b.Incarnation))
	})
	return s
}

// Reconsider reassigns the feeds at once, also to nodes that would have to wait because they were lost lately.
func (c *Cluster) Reconsider() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.flaps)
	for _, p := range c.peers {
		p.from = time.Time{}
	}
	for _, f := range c.own {
		f.looked, f.again, f.keep = false, time.Time{}, time.Time{}
	}
	c.decideLocked()
}

// Place has the addresses of a node for clients. Draining is also set while the node is apart or slow.
type Place struct {
	Node      im.Node
	Addresses []string
	Draining  bool
}

// Gateways lists the addresses for a user, best first. Each user has an order of their own, which stays while
// the nodes stay the same. Nodes that drain, are apart or are slow come last.
func (c *Cluster) Gateways(a im.Account) []Place {
	type scored struct {
		Place
		score uint64
	}
	user := hash(string(a.User)) + uint64(a.Tenant)
	var list []scored
	add := func(n im.Node, roles Roles, addresses []string, draining bool) {
		if roles&Gateway != 0 && len(addresses) > 0 {
			list = append(list, scored{Place{n, addresses, draining}, mix(user ^ hash(string(n)))})
		}
	}
	c.mu.Lock()
	add(c.self, c.o.Roles, c.o.Addresses, c.draining || c.apart[c.self] || c.slow)
	for _, p := range c.peers {
		if p.alive() && p.node != c.self {
			add(p.node, Roles(p.rec.Roles), p.rec.Addresses, p.rec.Draining || c.apart[p.node] || p.rec.Slow)
		}
	}
	c.mu.Unlock()
	slices.SortFunc(list, func(a, b scored) int {
		if a.Draining != b.Draining {
			if a.Draining {
				return 1
			}
			return -1
		}
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.Node, b.Node))
	})
	places := make([]Place, len(list))
	for i, s := range list {
		places[i] = s.Place
	}
	return places
}
