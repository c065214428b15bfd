package cluster

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/wake"
)

const (
	// apartAfter is how long a node has to be outside of the majority before it
	// counts as apart. A node whose beacons stop is outside after presentFor.
	apartAfter = 2 * time.Second

	// freshFor is the greatest age of the records by which nodes are judged. While
	// one node is silent, or the store is out of reach, no node becomes apart.
	freshFor = 2500 * time.Millisecond
)

// Nodes that reach the store but not each other would each serve only their own feeds to
// their own clients. So if most of the nodes hear each other, the others are apart: they
// give their feeds up, and send their clients away. All nodes decide by the same records,
// which the store carries where the bus does not. The majority takes the feeds of a node
// when that node's own record says that it takes none. Without a majority nothing moves.

// hearingLocked returns the nodes that this one hears on the bus.
func (c *Cluster) hearingLocked(now time.Time) *storepb.Hearing {
	h := &storepb.Hearing{}
	for _, p := range c.peers {
		if p.present(now) {
			h.Nodes = append(h.Nodes, string(p.node))
		}
	}
	slices.Sort(h.Nodes)
	return h
}

// hears tells whether the node with a record hears node n. A record of an older
// release, without this field, counts as one of a node that hears everybody.
func hears(rec *storepb.Node, n im.Node) bool {
	return rec.Hearing == nil || slices.Contains(rec.Hearing.Nodes, string(n))
}

// noteApartLocked decides which nodes are apart now.
func (c *Cluster) noteApartLocked(now time.Time) {
	all := map[im.Node]*storepb.Node{c.self: {Taking: c.takingLocked(now), Draining: c.draining,
		Hearing: c.hearingLocked(now)}}
	fresh := !c.deaf.write && now.Sub(c.lastLook) < freshFor
	for _, p := range c.peers {
		if p.alive() && p.node != c.self {
			all[p.node] = p.rec
			fresh = fresh && now.Sub(p.said) < freshFor
		}
	}
	if !fresh {
		return
	}
	if now.Sub(c.judged) > freshFor { // the time between is unknown
		maps.DeleteFunc(c.outside, func(n im.Node, _ time.Time) bool { return !c.apart[n] })
	}
	c.judged = now
	group := majority(all)
	for n := range c.outside {
		if all[n] == nil || group == nil || group[n] {
			c.togetherLocked(n, now, group[n])
		}
	}
	for n := range all {
		if group == nil || group[n] {
			continue
		}
		since, ok := c.outside[n]
		if !ok {
			c.outside[n] = now
		} else if !c.apart[n] && now.Sub(since) >= apartAfter {
			c.apart[n] = true
			if n == c.self {
				wake.Set(c.note)
			}
			c.log.Warn("node is apart: it does not hear all of the majority; it owns no feeds until it does", "node", n)
		}
	}
}

// togetherLocked ends the state apart of a node. If it is this node, it waits
// before it takes feeds: the longer, the more often it was apart lately.
func (c *Cluster) togetherLocked(n im.Node, now time.Time, heard bool) {
	was := c.apart[n]
	delete(c.outside, n)
	delete(c.apart, n)
	if was && heard {
		c.log.Info("node is not apart any more", "node", n)
	}
	if was && n == c.self {
		c.restLocked(now)
	}
}

// takingLocked tells whether this node takes feeds.
func (c *Cluster) takingLocked(now time.Time) bool {
	return c.taking && !c.apart[c.self] && !c.slow && !now.Before(c.from)
}

// majority returns a group of more than half of the nodes that all hear each other, of which one takes feeds
// and is not draining; nil: there is no such group. The same records give the same group on all nodes.
func majority(all map[im.Node]*storepb.Node) map[im.Node]bool {
	both := func(a, b im.Node) bool { return hears(all[a], b) && hears(all[b], a) }
	nodes, others := make([]im.Node, 0, len(all)), map[im.Node]int{}
	for a := range all {
		nodes = append(nodes, a)
		for b := range all {
			if a != b && both(a, b) {
				others[a]++
			}
		}
	}
	first := func(n im.Node) int { // prefer nodes that take feeds
		if all[n].Taking {
			return 0
		}
		return 1
	}
	slices.SortFunc(nodes, func(a, b im.Node) int {
		return cmp.Or(others[b]-others[a], first(a)-first(b), cmp.Compare(a, b))
	})
	group, takes := map[im.Node]bool{}, false
next:
	for _, n := range nodes {
		for m := range group {
			if !both(n, m) {
				continue next
			}
		}
		group[n] = true
		takes = takes || all[n].Taking && !all[n].Draining
	}
	if 2*len(group) <= len(all) || !takes {
		return nil
	}
	return group
}
