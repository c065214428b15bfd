package console

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/petrel-im/petrel/internal/cluster"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// overviewHere returns the overview of this node alone.
func (c *Console) overviewHere(q *petrelv1.GetOverviewRequest) *petrelv1.Overview {
	now := time.Now()
	r := &petrelv1.NodeReport{
		Node: string(c.o.Bus.Self()), Answered: true, Alive: true, Version: c.o.Version,
		StartedMs: uint64(c.o.Begun.UnixMilli()),
		Draining:  c.o.Draining(), Partitions: uint32(c.o.Partitions()), Now: c.Samples.Last(),
		RssBytes: c.o.RSSBytes(), Storage: c.storageHere(), Accepted: c.o.Counters().Accepted,
		Online: uint32(c.o.Table.Users()), Past: c.own.Past(q.AfterMs),
	}
	if c.o.Cluster == nil {
		r.Partitions = im.Partitions
	}
	r.Cpu = float64(r.Now.GetCpu())
	r.Queues, r.Budgets, r.Refused = c.o.Queues(), c.o.Budgets(), c.refusedByCode()
	for _, l := range c.Refusals.Loudest(now, 5) {
		x := &petrelv1.Loud{Tenant: c.tenantName(l.Account.Tenant), User: string(l.Account.User), Code: string(l.Code),
			Count: l.Count}
		if x.User == "" {
			x.Address = address(l.Address)
		}
		r.Loud = append(r.Loud, x)
	}
	c.mu.Lock()
	r.Incidents = c.mine
	c.mu.Unlock()
	return &petrelv1.Overview{Nodes: []*petrelv1.NodeReport{r}, Samples: c.Samples.Since(q.AfterMs, int(q.StepS)),
		TimeMs: uint64(now.UnixMilli())}
}

// refusedByCode returns the number of refusals since the start, by code.
func (c *Console) refusedByCode() (list []*petrelv1.Refused) {
	by := map[string]*petrelv1.Refused{}
	of := func(code string) *petrelv1.Refused {
		if by[code] == nil {
			by[code] = &petrelv1.Refused{Code: code}
			list = append(list, by[code])
		}
		return by[code]
	}
	c.o.CallRefusals().Each(func(code string, n uint64) { of(code).Calls = n })
	c.o.FrameRefusals.Each(func(code string, n uint64) { of(code).Frames = n })
	slices.SortFunc(list, func(x, y *petrelv1.Refused) int { return strings.Compare(x.Code, y.Code) })
	return list
}

// storageHere describes the store as this node knows it.
func (c *Console) storageHere() *petrelv1.Storage {
	st := c.o.Store.Stats()
	s := &petrelv1.Storage{
		Kind: c.o.Kind, Writable: true, DiskBytes: st.DiskBytes, FreeBytes: c.o.FreeBytes(),
		SyncMs: c.Samples.CommitMean(10),
		Damage: st.Damage, DamageMet: st.DamageMet, ScrubMs: st.ScrubMs,
	}
	if err := c.o.Store.Writable(); err != nil {
		s.Writable, s.Why = false, err.Error()
	}
	s.MinFreeBytes, s.Databases = uint64(max(0, c.o.MinFreeBytes)), c.o.Databases()
	return s
}

// Overview returns the overview of all nodes.
func (c *Console) Overview(ctx context.Context, q *petrelv1.GetOverviewRequest) *petrelv1.Overview {
	if c.o.Cluster == nil { // there is nobody else to ask
		o := c.overviewHere(q)
		o.AnsweredBy, o.Partitions = o.Nodes[0].Node, im.Partitions
		o.Incidents, o.Past, o.Totals = o.Nodes[0].Incidents, o.Nodes[0].Past, c.wantTotals(time.Now())
		return conclude(o, q)
	}
	answers, silent := askNodes(ctx, c, overviews, q)
	st := c.o.Cluster.Status()
	now := time.Now()
	o := &petrelv1.Overview{AnsweredBy: string(c.o.Cluster.Self()), Partitions: uint32(st.Feeds),
		Misplaced: uint32(st.Misplaced), Totals: c.wantTotals(now)}
	for _, f := range st.Unowned {
		o.Unowned = append(o.Unowned, uint32(f))
	}
	var samples [][]*petrelv1.Sample
	waiting := false // a node's next sample is due: without it the sum would seem to fall
	for _, reply := range answers {
		x := reply.Answer
		if len(x.Nodes) != 1 {
			continue
		}
		// The samples of a node whose clock differs by 2 s or more are moved to the clock of this node.
		ahead := (int64(x.TimeMs) - now.UnixMilli() + 500) / 1000 * 1000
		if ahead > -2000 && ahead < 2000 {
			ahead = 0
		}
		for _, s := range x.Samples {
			s.TimeMs = uint64(int64(s.TimeMs) - ahead)
		}
		samples = append(samples, x.Samples)
		waiting = waiting || len(x.Samples) == 0 && isDue(q.AfterMs, x.Nodes[0].Now)
		o.Nodes = append(o.Nodes, x.Nodes[0])
		o.Incidents = append(o.Incidents, x.Nodes[0].Incidents...)
		o.Past = append(o.Past, x.Nodes[0].Past...)
	}
	if !waiting {
		o.Samples = Together(samples)
	}
	common := c.clusterIncidents(now, &st, silent)
	c.all.Note(now, common)
	o.Incidents = append(o.Incidents, common...)
	o.Past = append(o.Past, c.all.Past(q.AfterMs)...)
	c.mu.Lock()
	for _, n := range silent {
		r := &petrelv1.NodeReport{Node: n, Alive: slices.ContainsFunc(st.Nodes,
			func(x cluster.NodeStatus) bool { return string(x.Node) == n && x.Alive })}
		if at := c.answered[im.Node(n)]; !at.IsZero() {
			r.SilentSinceMs = uint64(at.UnixMilli())
		}
		o.Nodes = append(o.Nodes, r)
	}
	c.mu.Unlock()
	for i := range st.Nodes {
		n := &st.Nodes[i]
		if !n.Alive && !slices.ContainsFunc(o.Nodes,
			func(r *petrelv1.NodeReport) bool { return r.Node == string(n.Node) }) {
			o.Nodes = append(o.Nodes, &petrelv1.NodeReport{Node: string(n.Node), Version: n.Release,
				StartedMs: uint64(n.Started.UnixMilli()), SilentSinceMs: uint64(now.Add(-n.Silent).UnixMilli())})
		}
	}
	slices.SortFunc(o.Nodes, func(x, y *petrelv1.NodeReport) int { return strings.Compare(x.Node, y.Node) })
	return conclude(o, q)
}

// conclude sets the verdict of an overview, and the time up to which its samples are complete.
func conclude(o *petrelv1.Overview, q *petrelv1.GetOverviewRequest) *petrelv1.Overview {
	o.Incidents = slices.Clone(o.Incidents)
	o.Verdict = Worst(o.Incidents)
	o.TimeMs = q.AfterMs
	if n := len(o.Samples); n > 0 {
		o.TimeMs = o.Samples[n-1].TimeMs
	}
	return o
}

// isDue reports whether a node that has no sample after afterMs will have one soon. It is false for a node whose
// clock is behind, or that has stopped taking samples.
func isDue(afterMs uint64, newest *petrelv1.Sample) bool {
	return afterMs > 0 && newest != nil && newest.TimeMs+2000 > afterMs
}
