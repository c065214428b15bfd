package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/petrel-im/petrel/internal/api"
	"github.com/petrel-im/petrel/internal/bus"
	"github.com/petrel-im/petrel/internal/cluster"
	"github.com/petrel-im/petrel/internal/cluster/clusterpb"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Subjects of the bus, for what an operator asks of another node.
const (
	drainSubject  bus.Subject = "node.drain"  // clusterpb.Drain, answered with clusterpb.Drained
	resumeSubject bus.Subject = "node.resume" // clusterpb.Resume, answered with clusterpb.Drained
	lookSubject   bus.Subject = "node.look"   // empty, answered with nothing
)

const (
	rebalanceTime = 30 * time.Second
	handOverTime  = 30 * time.Second        // for all partitions of a node that is emptied
	answerTime    = time.Second             // for the sends of a node that is emptied, before its clients go
	pollEvery     = 20 * time.Millisecond   // of what has no event
	lookTime      = 1200 * time.Millisecond // in which every node has read the heartbeats again
)

// attachOperator answers what is asked of this node. It is called once, before
// the bus runs.
func (a *App) attachOperator() {
	a.drains = make(chan func(context.Context), 1)
	a.node.bus.Handle(drainSubject, func(_ im.Node, payload []byte, reply func([]byte)) {
		q := &clusterpb.Drain{}
		if reply == nil || q.UnmarshalVT(payload) != nil {
			return
		}
		a.afterDrains(reply, func(ctx context.Context) []byte {
			ctx, cancel := context.WithTimeout(ctx, time.Duration(q.TimeoutMs)*time.Millisecond)
			defer cancel()
			return drained(a.drainHere(ctx))
		})
	})
	a.node.bus.Handle(resumeSubject, func(_ im.Node, payload []byte, reply func([]byte)) {
		q := &clusterpb.Resume{}
		if reply == nil || q.UnmarshalVT(payload) != nil {
			return
		}
		a.afterDrains(reply, func(context.Context) []byte { return drained(nil, a.resumeHere()) })
	})
	a.node.bus.Handle(lookSubject, bus.Answering(func(im.Node, []byte) []byte {
		a.node.cluster.Reconsider()
		return nil
	}))
}

// afterDrains has operate run a drain or its end, and replies with the result; a
// node that is busy with one refuses the next.
func (a *App) afterDrains(reply func([]byte), run func(context.Context) []byte) {
	select {
	case a.drains <- func(ctx context.Context) { reply(run(ctx)) }:
	default:
		reply(drained(nil, im.Errorf(im.CodeNotNow, "node %s is being drained", a.node.cluster.Self())))
	}
}

// operate runs what operators ask of this node, one after the other.
func (a *App) operate(ctx context.Context) error {
	for {
		select {
		case job := <-a.drains:
			job(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

func drained(r *petrelv1.DrainNodeResponse, err error) []byte {
	m := &clusterpb.Drained{Partitions: r.GetPartitions(), Sessions: r.GetSessions()}
	if err != nil {
		m.Code, m.Message = string(im.CodeInternal), err.Error()
		if e, ok := errors.AsType[*im.Error](err); ok {
			m.Code, m.Message = string(e.Code), e.Message
		}
	}
	b, err := m.MarshalVT()
	im.Assert(err == nil, "an answer does not encode")
	return b
}

// operations are those that the API offers; most need a cluster.
func (a *App) operations() api.Cluster {
	if a.node.cluster == nil {
		alone := im.Errorf(im.CodeNotNow, "this server has an embedded store, so it has no other nodes; set store.postgres for a cluster")
		return api.Cluster{
			State:     func(context.Context) *petrelv1.ClusterState { return a.stateAlone() },
			Drain:     func(context.Context, im.Node) (*petrelv1.DrainNodeResponse, error) { return nil, alone },
			Resume:    func(context.Context, im.Node) error { return alone },
			Rebalance: func(context.Context) (*petrelv1.ClusterState, error) { return nil, alone },
			Move:      func(context.Context, im.Partition, int) (*petrelv1.MovePartitionResponse, error) { return nil, alone },
			Finalize:  func(context.Context) (*petrelv1.FinalizeClusterResponse, error) { return nil, alone },
		}
	}
	return api.Cluster{State: a.clusterState, Drain: a.drainNode, Resume: a.resumeNode, Rebalance: a.rebalance, Move: a.movePartition, Finalize: a.finalize, Gateways: a.gateways}
}

// gateways lists where a user should connect, best first. Spec: P-3.7.
func (a *App) gateways(who im.Account) []string {
	if a.node.cluster == nil {
		return nil
	}
	var list []string
	for _, p := range a.node.cluster.Gateways(who) {
		list = append(list, p.Addresses...)
	}
	return list
}

func (a *App) stateAlone() *petrelv1.ClusterState {
	level := a.store.Info().Level
	return &petrelv1.ClusterState{AnsweredBy: string(a.node.bus.Self()), Partitions: im.Partitions, Level: level, Nodes: []*petrelv1.ClusterNode{{
		Node: string(a.node.bus.Self()), Roles: strings.Split(cluster.AllRoles.String(), ","), Version: a.o.Version, Level: store.FormatLevel,
		StartedMs: uint64(a.begun.UnixMilli()), Alive: true, Reachable: true, Owned: im.Partitions, Share: im.Partitions,
	}}}
}

func (a *App) clusterState(ctx context.Context) *petrelv1.ClusterState {
	st := a.node.cluster.Status()
	return a.stateOf(ctx, &st)
}

// stateOf is what this node knew when it made st. The level is what the databases say
// now, or said at the start if they do not answer.
func (a *App) stateOf(ctx context.Context, st *cluster.Status) *petrelv1.ClusterState {
	level, err := a.databases.Level(ctx)
	if err != nil {
		level = a.store.Info().Level
	}
	s := &petrelv1.ClusterState{
		AnsweredBy: string(a.node.cluster.Self()), Partitions: uint32(st.Feeds), Misplaced: uint32(st.Misplaced), StoreGone: st.StoreGone, Level: level,
		Databases: spread(a.databases.Spread(ctx)),
	}
	for _, f := range st.Unowned {
		s.Unowned = append(s.Unowned, uint32(f))
	}
	for _, n := range st.Unreachable {
		s.Unreachable = append(s.Unreachable, string(n))
	}
	for i := range st.Nodes {
		n := &st.Nodes[i]
		owned := make([]uint32, len(n.Feeds))
		for j, f := range n.Feeds {
			owned[j] = uint32(f)
		}
		s.Nodes = append(s.Nodes, &petrelv1.ClusterNode{
			Node: string(n.Node), Roles: strings.Split(n.Roles.String(), ","), Addresses: n.Addresses, Version: n.Release, Level: n.Level,
			StartedMs: uint64(n.Started.UnixMilli()), Alive: n.Alive, Reachable: n.Reachable, Draining: n.Draining,
			Owned: uint32(len(n.Feeds)), Partitions: owned, Share: uint32(n.Share), SilentMs: uint32(n.Silent.Milliseconds()), SkewMs: n.Skew.Milliseconds(),
		})
	}
	return s
}

func spread(parts []int) []uint32 {
	out := make([]uint32, len(parts))
	for i, n := range parts {
		out[i] = uint32(n)
	}
	return out
}

// drainNode empties a node, this one or another.
func (a *App) drainNode(ctx context.Context, n im.Node) (*petrelv1.DrainNodeResponse, error) {
	began := time.Now()
	q, err := (&clusterpb.Drain{TimeoutMs: uint32(handOverTime.Milliseconds())}).MarshalVT()
	im.Assert(err == nil, "a request does not encode")
	m, err := a.askNode(ctx, n, drainSubject, q)
	if err != nil {
		return nil, err
	}
	return &petrelv1.DrainNodeResponse{Partitions: m.Partitions, Sessions: m.Sessions, TookMs: uint32(time.Since(began).Milliseconds())}, nil
}

// resumeNode lets a drained node, this one or another, take partitions and
// clients again.
func (a *App) resumeNode(ctx context.Context, n im.Node) error {
	q, err := (&clusterpb.Resume{}).MarshalVT()
	im.Assert(err == nil, "a request does not encode")
	_, err = a.askNode(ctx, n, resumeSubject, q)
	return err
}

// askNode asks a node, this one or another, to drain or to resume. Codes:
// no_node, not_now.
func (a *App) askNode(ctx context.Context, n im.Node, subject bus.Subject, q []byte) (*clusterpb.Drained, error) {
	names := []string{}
	var found *cluster.NodeStatus
	st := a.node.cluster.Status()
	for i := range st.Nodes {
		names = append(names, string(st.Nodes[i].Node))
		if x := &st.Nodes[i]; x.Node == n && (found == nil || x.Alive) {
			found = x
		}
	}
	switch {
	case found == nil:
		return nil, im.Errorf(im.CodeNoNode, "there is no node %q; the nodes are %s", n, strings.Join(names, ", "))
	case !found.Alive:
		return nil, im.Errorf(im.CodeNotNow, "node %s is gone, and other nodes serve its partitions", n)
	}
	ctx, cancel := context.WithTimeout(ctx, handOverTime+answerTime+2*time.Second)
	defer cancel()
	answer, err := a.node.bus.Request(ctx, n, subject, q)
	if err != nil {
		return nil, im.Errorf(im.CodeNotNow, "node %s does not answer %s on the bus: %v", n, a.node.cluster.Self(), err)
	}
	m := &clusterpb.Drained{}
	if err := m.UnmarshalVT(answer); err != nil {
		return nil, fmt.Errorf("ask %s for %s: read its answer: %w", n, subject, err)
	}
	if m.Code != "" {
		return nil, &im.Error{Code: im.Code(m.Code), Message: m.Message}
	}
	return m, nil
}

// drainHere hands all partitions over, then sends the clients away, if they
// have another gateway to go to.
func (a *App) drainHere(ctx context.Context) (*petrelv1.DrainNodeResponse, error) {
	c := a.node.cluster
	owned := len(a.convs.Owners())
	a.away.Store(true)
	if err := c.Drain(ctx); err != nil {
		a.away.Store(false)
		a.takeClients()
		if errors.Is(err, cluster.ErrNobody) {
			return nil, im.Errorf(im.CodeNotNow, "no other node takes partitions: start one first; if you stop this one instead, sends wait until it is back")
		}
		return nil, im.Errorf(im.CodeNotNow, "%v; the node goes on as before", err)
	}
	r := &petrelv1.DrainNodeResponse{Partitions: uint32(owned)}
	if !a.otherGateway() {
		a.log.Warn("node is drained but keeps its clients: no other node is a gateway", "feeds", owned)
		return r, nil
	}
	a.hub.Drain()
	a.settle(ctx)
	r.Sessions = uint32(a.hub.SendAway())
	a.log.Info("node is drained", "feeds", owned, "sessions", r.Sessions)
	return r, nil
}

// resumeHere takes partitions and clients again.
func (a *App) resumeHere() error {
	c := a.node.cluster
	if a.draining.Load() {
		return im.Errorf(im.CodeNotNow, "node %s is stopping", c.Self())
	}
	a.away.Store(false)
	a.takeClients()
	c.Resume()
	a.log.Info("node takes partitions and clients again")
	return nil
}

// settle waits a little until what was sent here is answered: what is not is
// sent again by the clients, elsewhere.
func (a *App) settle(ctx context.Context) {
	limit := time.After(answerTime)
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for a.waiting() > 0 {
		select {
		case <-poll.C:
		case <-limit:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (a *App) otherGateway() bool {
	for _, n := range a.node.cluster.Status().Nodes {
		if n.Node != a.node.cluster.Self() && n.Alive && n.Reachable && !n.Draining && !n.Apart && n.Roles&cluster.Gateway != 0 {
			return true
		}
	}
	return false
}

// rebalance has all nodes look at once, and returns the state in which nothing is misplaced
// as this node sees it, or that after 30 s.
func (a *App) rebalance(ctx context.Context) (*petrelv1.ClusterState, error) {
	st := balance(ctx, a.node.cluster, a.node.bus)
	return a.stateOf(ctx, &st), nil
}

// balance has the nodes on b look at once, and returns the first status in which nothing is
// misplaced, or the one after 30 s. It judges no status before lookTime: another node may have
// begun to take partitions, and this one has not heard of it yet.
func balance(ctx context.Context, c *cluster.Cluster, b bus.Bus) cluster.Status {
	ctx, cancel := context.WithTimeout(ctx, rebalanceTime)
	defer cancel()
	c.Reconsider()
	for _, n := range b.Peers() {
		_ = b.Send(n, lookSubject, nil) // one that is lost looks by itself
	}
	select {
	case <-time.After(lookTime):
	case <-ctx.Done():
		return c.Status()
	}
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for {
		if st := c.Status(); st.Misplaced == 0 && len(st.Unowned) == 0 {
			return st
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return c.Status() // it says what is left
		}
	}
}

func (a *App) movePartition(ctx context.Context, p im.Partition, to int) (*petrelv1.MovePartitionResponse, error) {
	if n := len(a.databases.Spread(ctx)); to > n {
		return nil, im.Errorf(im.CodeInvalid, "there is no database %d: store.postgres names %d databases", to, n)
	}
	began := time.Now()
	if err := a.databases.MovePartition(ctx, p, to); err != nil {
		return nil, im.Errorf(im.CodeNotNow, "%v", err)
	}
	return &petrelv1.MovePartitionResponse{Databases: spread(a.databases.Spread(ctx)), TookMs: uint32(time.Since(began).Milliseconds())}, nil
}

// finalize raises the level of the stored format to that of this program, once
// no node is older.
//
// A node checks the level, writes its row and checks the level again; here the
// level is raised and the rows are read again. One of the two sees the other.
func (a *App) finalize(ctx context.Context) (*petrelv1.FinalizeClusterResponse, error) {
	from, err := a.databases.Level(ctx)
	if err != nil {
		return nil, err
	}
	const to = store.FormatLevel
	if err := tooOld(a.node.cluster.Status().Nodes, to); err != nil {
		return nil, err
	}
	if from < to {
		if err := a.databases.Raise(ctx, to); err != nil {
			return nil, err
		}
		select {
		case <-time.After(lookTime):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if err := tooOld(a.node.cluster.Status().Nodes, to); err != nil {
			return nil, im.Errorf(im.CodeNotNow, "the level was raised, but meanwhile: %s", err.Message)
		}
		a.log.Info("stored format raised", "from", from, "to", to)
	}
	return &petrelv1.FinalizeClusterResponse{From: from, To: to}, nil
}

// tooOld names the nodes that cannot read level to. One that is gone counts: it
// may only have been stopped for a while.
func tooOld(nodes []cluster.NodeStatus, to uint32) *im.Error {
	var list []string
	for i := range nodes {
		if n := &nodes[i]; n.Level < to {
			state := ""
			if !n.Alive {
				state = ", gone: start it with this release, or wait until it has been gone for an hour"
			}
			list = append(list, fmt.Sprintf("%s (%s, level %d%s)", n.Node, n.Release, n.Level, state))
		}
	}
	if len(list) == 0 {
		return nil
	}
	return im.Errorf(im.CodeNotNow, "these nodes cannot read level %d; stop or upgrade them first: %s", to, strings.Join(list, ", "))
}
