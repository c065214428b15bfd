package cluster

import (
	"slices"
	"time"

	"github.com/petrel-im/petrel/internal/wake"
)

const (
	slowRead  = 200 * time.Millisecond // a read of the rows that takes longer is late
	slowAfter = 2 * time.Second        // all reads for this long must be late, and there must be at least two
	slowTimes = 4
	keptReads = 4
)

// A node that the store answers late, because its network or its processors are slow, delays all
// writers to its feeds: the first message of each conversation costs several reads one after the
// other, and all feeds share the connections. A node is slow if all its reads of the last
// slowAfter were late, and the quickest of them took slowTimes as long as the usual reads of
// most of the others. It gives its feeds up. If the store is late for all nodes, nothing moves.

// late is an unbroken series of late reads.
type late struct {
	since time.Time // when the first began
	reads int
	least time.Duration
}

// usual returns the second longest of some reads, or the only one. While one node
// is slow, another node may have one late read, but with a slow store it has more.
func usual(reads []time.Duration) time.Duration {
	all := slices.Sorted(slices.Values(reads))
	return all[max(0, len(all)-2)]
}

// noteSlowLocked decides whether this node is slow, after a read of the
// rows that took so long and ended at now.
func (c *Cluster) noteSlowLocked(took time.Duration, now time.Time) {
	c.took = append(c.took, max(took, time.Millisecond))
	c.took = c.took[max(0, len(c.took)-keptReads):]
	limit := slowRead
	if c.slow {
		limit /= 2
	}
	l := &c.late
	switch {
	case took < limit:
		*l = late{}
	case l.reads == 0:
		*l = late{since: now.Add(-took), reads: 1, least: took}
	default:
		l.reads, l.least = l.reads+1, min(l.least, took)
	}
	takers, quick := 0, 0
	for _, p := range c.peers {
		if p.alive() && p.node != c.self && p.rec.Taking && !p.rec.Draining {
			takers++
			if p.rec.StoreMs > 0 && slowTimes*time.Duration(p.rec.StoreMs)*time.Millisecond <= l.least {
				quick++
			}
		}
	}
	slow := l.reads >= 2 && now.Sub(l.since) >= slowAfter && 2*quick > takers
	if slow == c.slow {
		return
	}
	c.slow = slow
	if slow {
		c.log.Warn("node is slow: the database answers it slowly and other nodes quickly; it owns no feeds until that is over",
			"took", l.least)
	} else {
		c.log.Info("node is not slow any more", "took", took)
		c.restLocked(now)
	}
	wake.Set(c.tell)
}

// restLocked has this node wait before it takes feeds again: the longer, the more often it gave them up lately.
func (c *Cluster) restLocked(now time.Time) {
	c.lostLocked(c.self, now)
	c.from = now.Add(c.flaps[c.self].wait(now))
}
