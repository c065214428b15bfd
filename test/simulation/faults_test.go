package simulation

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/petrel-im/petrel/internal/bus/bustest"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// faults is what breaks. Each ends by itself, or when the world heals.
var faults = []step{
	{"bad bus", 10, (*world).badBus},
	{"cut", 10, (*world).cut},
	{"freeze", 8, (*world).freeze},
	{"hold commits", 6, onNode(func(n *node, shut bool) { n.link.in.set(shut) })},
	{"hold answers of the store", 8, onNode(func(n *node, shut bool) { n.link.out.set(shut) })},
	{"full disk", 3, onNode(func(n *node, full bool) { n.link.full.Store(full) })},
	{"store says that it stalls", 3, onNode(func(n *node, is bool) { n.link.stalled.Store(is) })},
	{"commit of unknown outcome", 6, (*world).doubt},
	{"broken feed", 4, (*world).poison},
	{"slow disk", 4, (*world).slowDisk},
	{"drain", 4, (*world).drain},
	{"stop", 4, func(w *world, r *rand.Rand) string { return w.restart(r, false) }},
	{"kill", 8, func(w *world, r *rand.Rand) string { return w.restart(r, true) }},
	{"take-over", 10, (*world).takeOver},
	{"power cut", 5, (*world).cutPower},
}

func seconds(r *rand.Rand, from, to int) time.Duration {
	return time.Duration(from*1000+r.IntN((to-from)*1000)) * time.Millisecond
}

// node draws a node that takes part, the owner of the feed more often than others.
func (w *world) node(r *rand.Rand) *node {
	up := w.up()
	if len(up) == 0 {
		return nil
	}
	n := up[r.IntN(len(up))]
	if r.IntN(2) == 0 {
		for _, x := range up {
			if len(x.Convs.Owners()) > 0 {
				return x
			}
		}
	}
	return n
}

// onNode is a fault of one node that lasts a while.
func onNode(set func(n *node, on bool)) func(w *world, r *rand.Rand) string {
	return func(w *world, r *rand.Rand) string {
		n, d := w.node(r), w.while(r)
		if n == nil {
			return ""
		}
		set(n, true)
		w.during(d, func() { set(n, false) })
		return words(n.id, "for", d)
	}
}

// while draws how long a fault lasts.
func (w *world) while(r *rand.Rand) time.Duration {
	if r.IntN(2) == 0 {
		return time.Duration(1+r.IntN(300)) * time.Millisecond
	}
	return seconds(r, 0, 9)
}

func (w *world) badBus(r *rand.Rand) string {
	n, d := w.node(r), w.while(r)
	if n == nil {
		return ""
	}
	rules := bustest.Rules{Seed: r.Uint64(), Lose: r.Float64() / 3, Duplicate: r.Float64() / 4, Delay: r.Float64(), MaxDelay: 1 + time.Duration(r.IntN(2000))*time.Millisecond}
	n.bus.SetRules(rules)
	w.during(d, func() { n.bus.SetRules(w.o.calm(rules.Seed)) })
	return words("of", n.id, "for", d, "loses", rules.Lose, "doubles", rules.Duplicate, "delays up to", rules.MaxDelay)
}

func (w *world) cut(r *rand.Rand) string {
	n, d := w.node(r), w.while(r)
	if n == nil {
		return ""
	}
	other, both := ids[r.IntN(len(ids))], r.IntN(2) == 0
	set := func(cut bool) {
		n.bus.Cut(other, cut)
		w.mu.Lock()
		o := w.nodes[other]
		w.mu.Unlock()
		if o != nil && (both || !cut) {
			o.bus.Cut(n.id, cut)
		}
	}
	set(true)
	w.during(d, func() { set(false) })
	return words("from", n.id, "to", other, "for", d, "both ways", both)
}

func (w *world) freeze(r *rand.Rand) string {
	n, d := w.node(r), w.while(r)
	if n == nil {
		return ""
	}
	n.freeze()
	w.during(d, n.thaw)
	return words(n.id, "for", d)
}

func (w *world) doubt(r *rand.Rand) string {
	n, stored := w.node(r), r.IntN(2) == 0
	if n == nil {
		return ""
	}
	n.link.set(func(l *link) { l.doubt = &stored })
	w.during(time.Minute, func() { n.link.set(func(l *link) { l.doubt = nil }) })
	return words("at", n.id, "stored", stored)
}

func (w *world) poison(r *rand.Rand) string {
	n := w.node(r)
	if n == nil {
		return ""
	}
	n.link.set(func(l *link) { l.poisoned = true })
	return words("at", n.id)
}

func (w *world) slowDisk(r *rand.Rand) string {
	d, slow := w.while(r), time.Duration(100+r.IntN(2000))*time.Millisecond
	w.mu.Lock()
	disk := w.disk
	w.mu.Unlock()
	disk.setSlow(slow)
	w.during(d, func() { disk.setSlow(w.o.sync) })
	return words("for", d, "a sync takes up to", slow)
}

func (w *world) drain(r *rand.Rand) string {
	n, d := w.node(r), w.while(r)
	if n == nil {
		return ""
	}
	w.wg.Go(func() {
		ctx, cancel := context.WithTimeout(w.ctx, 5*time.Second)
		defer cancel()
		_ = n.cluster.Drain(ctx) // there may be nobody who takes the feed
	})
	w.during(d, n.cluster.Resume)
	return words(n.id, "for", d)
}

// restart ends a node, and starts another process in its place.
func (w *world) restart(r *rand.Rand, kill bool) string {
	n, d := w.node(r), w.while(r)
	if n == nil || len(w.up()) == 1 {
		return ""
	}
	drained := !kill && r.IntN(2) == 0
	w.stops.Go(func() {
		if drained {
			ctx, cancel := context.WithTimeout(w.ctx, 5*time.Second)
			_ = n.cluster.Drain(ctx)
			cancel()
		}
		n.end(kill)
		w.during(d, func() { w.start(n.id) })
	})
	return words(n.id, "for", d, "drained", drained)
}

// takeOver has a node believe that the owner has released the feed.
func (w *world) takeOver(r *rand.Rand) string {
	n, up := w.node(r), w.up()
	if n == nil {
		return ""
	}
	by := up[r.IntN(len(up))]
	w.wg.Go(func() {
		_, epoch, _ := by.cluster.Route(0)
		b, err := (&storepb.FeedEpoch{Epoch: uint64(epoch)}).MarshalVT()
		if err != nil {
			w.t.Error(err)
		}
		ctx, cancel := context.WithTimeout(w.ctx, 3*time.Second)
		defer cancel()
		_, _ = n.bus.Bus.Request(ctx, by.id, "cluster.release", b) // as if the owner had said so
	})
	return words("by", by.id)
}

func (w *world) cutPower(r *rand.Rand) string {
	percent := []int{0, 0, r.IntN(101), 100}[r.IntN(4)]
	w.powerCut(percent)
	return words(percent, "% of what was not synced is there")
}
