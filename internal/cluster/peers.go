package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

const (
	expiry      = 5 * time.Second         // if a row is unchanged for so long, its node is gone
	expirySoon  = 2 * time.Second         // the same, if the node is not on the bus either
	missedSoon  = 2                       // own beats that have to be read in that time, for expirySoon
	presentFor  = 1500 * time.Millisecond // after a beacon, its node counts as on the bus for so long
	steadyGap   = 1500 * time.Millisecond // longest time between two reads of the rows that counts
	steadyOwn   = 2 * time.Second         // longest time in which the own row has not moved, for reads to count
	unheardFor  = 10 * time.Second        // time alive by its row and not on the bus, before a warning
	skewLimit   = time.Minute
	forgetAfter = time.Hour // rows of nodes that are gone are removed
	maxFlapWait = 30 * time.Second
	flapMemory  = time.Minute
)

// peer is another process, alive or gone.
type peer struct {
	node     im.Node
	rec      *storepb.Node // the newest one, from the bus or its row
	said     time.Time     // when it came
	held     map[store.Feed]im.Epoch
	released map[store.Feed]im.Epoch

	row     []byte        // its heartbeat row; nil: it has none
	beat    uint64        // version of its row
	missed  int           // how often the own row has moved since this one did
	silent  time.Duration // how long the row has not changed, as far as it counts
	moved   bool          // the row was seen to change
	expired bool          // it is gone by its row, until the row changes
	heard   time.Time     // its last beacon
	from    time.Time     // it gets no feeds before
	met     time.Time     // when it was first known, or last on the bus; for the warning
	skew    time.Duration // its clock ahead of ours, when its row moved last
	warned  struct{ skew, unheard bool }
}

// alive tells whether p is a node of the cluster: it has a row, and is not gone.
func (p *peer) alive() bool { return p.row != nil && !p.expired }

// present tells whether p is on the bus.
func (p *peer) present(now time.Time) bool { return !p.heard.IsZero() && now.Sub(p.heard) < presentFor }

// flap counts how often a node was lost lately.
type flap struct {
	count int
	last  time.Time
}

// wait returns how long a node that was lost so often gets no feeds. The time doubles with every loss, up to
// maxFlapWait, so that feeds do not move with a node that comes and goes. It is 0 if the last loss was more
// than flapMemory ago.
func (f flap) wait(now time.Time) time.Duration {
	if f.count == 0 || now.Sub(f.last) > flapMemory {
		return 0
	}
	return min(settleTime<<min(f.count-1, 10), maxFlapWait)
}

// lostLocked counts the loss of a node that went without notice.
func (c *Cluster) lostLocked(n im.Node, now time.Time) {
	f := c.flaps[n]
	if now.Sub(f.last) > flapMemory {
		f.count = 0
	}
	c.flaps[n] = flap{f.count + 1, now}
}

// peerLocked returns a process, and adds one that was not known. If an older process
// with the same node id is alive, the node was restarted, and counts as lost.
func (c *Cluster) peerLocked(n im.Node, incarnation uint64, now time.Time) *peer {
	if p := c.peers[incarnation]; p != nil {
		return p
	}
	for _, old := range c.peers {
		if old.node == n && old.alive() {
			c.lostLocked(n, now)
		}
	}
	p := &peer{node: n, rec: &storepb.Node{}, from: now.Add(c.flaps[n].wait(now)), met: now}
	c.peers[incarnation] = p
	return p
}

// handleBeacon merges the record in a peer's beacon.
func (c *Cluster) handleBeacon(from im.Node, payload []byte, _ func([]byte)) {
	rec := &storepb.Node{}
	if err := rec.UnmarshalVT(payload); err != nil || rec.Incarnation == 0 {
		c.log.Warn("read beacon failed", "node", from, "err", err)
		return
	}
	if from == c.self {
		return
	}
	c.hear(from, rec.Seen)
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	p := c.peerLocked(from, rec.Incarnation, now)
	p.heard, p.met = now, now
	c.mergeLocked(p, rec)
	c.decideLocked()
}

// mergeLocked makes rec the record of p, if it is newer.
func (c *Cluster) mergeLocked(p *peer, rec *storepb.Node) {
	if rec.Version <= p.rec.Version {
		return
	}
	was := *p
	p.said = time.Now()
	p.rec, p.held, p.released = rec, epochs(rec.Held), epochs(rec.Released)
	for _, f := range c.feeds {
		if was.held[f] != p.held[f] || was.released[f] != p.released[f] {
			c.own[f].looked = false
		}
		if e, ok := was.held[f]; ok && p.held[f] != e {
			c.unclaimLocked(f, p.node, e)
		}
	}
	c.claimsLocked(p)
}

func epochs(list []*storepb.FeedEpoch) map[store.Feed]im.Epoch {
	out := make(map[store.Feed]im.Epoch, len(list))
	for _, x := range list {
		out[store.Feed(x.Feed)] = im.Epoch(x.Epoch)
	}
	return out
}

// claimsLocked notes the feeds that p claims, unless p is gone.
func (c *Cluster) claimsLocked(p *peer) {
	if p.expired {
		return
	}
	for f, e := range p.held {
		if e != 0 {
			c.claimLocked(f, p.node, e)
		}
	}
}

// goneLocked ends the claims of p.
func (c *Cluster) goneLocked(p *peer) {
	for f, e := range p.held {
		c.unclaimLocked(f, p.node, e)
		if o := c.own[f]; o != nil {
			o.looked = false
		}
	}
}

// rows reads the heartbeat rows, by node.
func (c *Cluster) rows(ctx context.Context) (map[im.Node][]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, storeWait)
	defer cancel()
	rows := map[im.Node][]byte{}
	err := c.store.Records(ctx, store.Nodes, 0, nil, func(key, value []byte) bool {
		rows[im.Node(key)] = slices.Clone(value)
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("read heartbeats: %w", err)
	}
	return rows, nil
}

// absorbLocked merges the rows, whose read began at now.
//
// The silence of a row counts only between two reads that follow each other closely,
// and while the own row is seen to move: the time in which this process or the database
// stood still proves nothing about others. joining says that there is no own row yet.
func (c *Cluster) absorbLocked(rows map[im.Node][]byte, now time.Time, joining bool) {
	gap := now.Sub(c.lastLook)
	c.lastLook = now
	seen := map[uint64]bool{}
	beat := 0
	if own := rows[c.self]; !joining && own != nil && string(own) != string(c.ownRow) {
		c.ownRow, c.ownSeen, beat = own, now, 1
	}
	steady := gap <= steadyGap && (joining || now.Sub(c.ownSeen) <= steadyOwn)
	for n, value := range rows {
		rec := &storepb.Node{}
		if err := rec.UnmarshalVT(value); err != nil || rec.Incarnation == 0 {
			c.log.Error("heartbeat row is damaged", "node", n, "err", err)
			continue
		}
		if rec.Incarnation == c.incarnation {
			continue
		}
		seen[rec.Incarnation] = true
		p := c.peerLocked(n, rec.Incarnation, now)
		switch fresh := p.row == nil; {
		case fresh:
			p.beat = rec.Version
		case rec.Version != p.beat:
			p.beat, p.silent, p.missed, p.moved = rec.Version, 0, 0, true
			if p.expired {
				p.expired, p.from = false, now.Add(c.flaps[n].wait(now))
				c.claimsLocked(p)
				c.log.Info("node is back", "node", n)
			}
			c.checkClock(p, rec)
		case steady:
			p.silent += gap
			p.missed += beat
			if joining {
				p.missed = missedSoon
			}
		default:
			p.silent, p.missed = 0, 0
		}
		p.row = value
		c.mergeLocked(p, rec)
	}
	c.expireLocked(seen, now)
}

// expireLocked ends the claims of processes that are gone, and forgets those whose row was removed. seen has
// the incarnations that have rows.
func (c *Cluster) expireLocked(seen map[uint64]bool, now time.Time) {
	for incarnation, p := range c.peers {
		switch {
		case seen[incarnation]:
			if !p.expired && (p.silent >= expiry ||
				p.silent >= expirySoon && p.missed >= missedSoon && !p.present(now)) {
				p.expired = true
				c.lostLocked(p.node, now)
				c.goneLocked(p)
				c.log.Warn("node is gone", "node", p.node, "took", p.silent)
			}
		case p.row != nil: // it left, or its id has a new process
			c.goneLocked(p)
			delete(c.peers, incarnation)
			c.log.Info("node has left", "node", p.node)
		case now.Sub(p.met) > unheardFor: // it was on the bus, and never had a row
			c.goneLocked(p)
			delete(c.peers, incarnation)
		}
	}
}

// checkClock warns of a clock that differs from ours. Only times that
// people read depend on it. rec was written within the last two seconds.
func (c *Cluster) checkClock(p *peer, rec *storepb.Node) {
	off := time.UnixMilli(int64(rec.TimeMs)).Sub(c.o.Now()).Round(time.Second)
	p.skew = off
	if off.Abs() > skewLimit && !p.warned.skew {
		p.warned.skew = true
		c.log.Warn("clocks differ: run NTP on all nodes", "node", p.node, "took", off)
	}
}

// unreachableLocked returns the nodes that have been alive by their rows
// for unheardFor without being on the bus. It warns of each once.
func (c *Cluster) unreachableLocked(now time.Time) []im.Node {
	var list []im.Node
	for _, p := range c.peers {
		if p.alive() && now.Sub(p.met) > unheardFor {
			list = append(list, p.node)
			if !p.warned.unheard {
				p.warned.unheard = true
				c.log.Warn(
					"node is alive in the store but cannot be reached on the bus: check the network to it, and that both use the same bus", "node", p.node)
			}
		} else {
			p.warned.unheard = false
		}
	}
	slices.Sort(list)
	return list
}
