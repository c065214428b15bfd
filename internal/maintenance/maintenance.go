// Package maintenance has the operators' actions on the nodes of a cluster: drain and resume nodes,
// rebalance and move partitions, and raise the level of the stored format after an upgrade.
package maintenance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/petrel-im/petrel/internal/bus"
	"github.com/petrel-im/petrel/internal/cluster"
	"github.com/petrel-im/petrel/internal/cluster/clusterpb"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/pgstore"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// AnswerTime is how long a draining node waits for the answers to sends before it sends its clients away.
const AnswerTime = time.Second

const (
	rebalanceTime = 30 * time.Second
	handOverTime  = 30 * time.Second // for all partitions of a node that is drained
	drainTime     = handOverTime + AnswerTime + 2*time.Second
	pollEvery     = 20 * time.Millisecond   // how often a status is read whose changes cause no event
	lookTime      = 1200 * time.Millisecond // long enough for every node to read the heartbeats again
)

// Requests of an operator to another node.
var (
	drains  = bus.Request[*clusterpb.Drain, *clusterpb.Drained]{Subject: "node.drain", Timeout: drainTime}
	resumes = bus.Request[*clusterpb.Resume, *emptypb.Empty]{Subject: "node.resume", Timeout: drainTime}
)

// lookSubject makes a node compute at once which node should own which partition. It has no payload and no
// answer.
const lookSubject bus.Subject = "node.look"

// Options are the parts that maintenance works on.
type Options struct {
	Log       *slog.Logger
	Cluster   *cluster.Cluster
	Bus       bus.Bus
	Databases *pgstore.Store

	// Drain hands the partitions of this node over, and sends its clients away
	Drain  func(context.Context) (*clusterpb.Drained, error)
	Resume func() error // makes this node take partitions and clients again
}

// Maintenance carries out the requests of operators for this node, and passes those for other nodes on to them.
type Maintenance struct {
	o    Options
	jobs chan func(context.Context) // capacity 1; full: a job waits for Run
}

// New makes a Maintenance, and registers its handlers on the bus for requests of all nodes. It is called before
// the bus runs.
func New(o Options) *Maintenance {
	m := &Maintenance{o: o, jobs: make(chan func(context.Context), 1)}
	drains.ServeLater(o.Bus, func(_ im.Node, q *clusterpb.Drain, reply func(*clusterpb.Drained, error)) {
		m.enqueue(func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, time.Duration(q.TimeoutMs)*time.Millisecond)
			defer cancel()
			reply(o.Drain(ctx))
		}, func(err error) { reply(nil, err) })
	})
	resumes.ServeLater(o.Bus, func(_ im.Node, _ *clusterpb.Resume, reply func(*emptypb.Empty, error)) {
		m.enqueue(func(context.Context) { reply(&emptypb.Empty{}, o.Resume()) }, func(err error) { reply(nil, err) })
	})
	o.Bus.Handle(lookSubject, bus.Answering(func(im.Node, []byte) []byte {
		o.Cluster.Reconsider()
		return nil
	}))
	return m
}

// enqueue gives Run a job. While Run does one, one more can wait. For a further one it calls refuse with not_now.
func (m *Maintenance) enqueue(job func(context.Context), refuse func(error)) {
	select {
	case m.jobs <- job:
	default:
		refuse(im.Errorf(im.CodeNotNow, "node %s is being drained", m.o.Cluster.Self()))
	}
}

// Run does the jobs for this node, one after the other, until ctx ends.
func (m *Maintenance) Run(ctx context.Context) error {
	for {
		select {
		case job := <-m.jobs:
			job(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// State returns what this node knows of all nodes.
func (m *Maintenance) State(ctx context.Context) *petrelv1.ClusterState {
	st := m.o.Cluster.Status()
	return m.stateOf(ctx, &st)
}

// stateOf returns the state as of st. The format level is read from the databases. If they do not answer, it is
// the level that this node read at its start.
func (m *Maintenance) stateOf(ctx context.Context, st *cluster.Status) *petrelv1.ClusterState {
	level, err := m.o.Databases.Level(ctx)
	if err != nil {
		level = m.o.Databases.Info().Level
	}
	s := &petrelv1.ClusterState{
		AnsweredBy: string(m.o.Cluster.Self()), Partitions: uint32(st.Feeds), Misplaced: uint32(st.Misplaced),
		StoreGone: st.StoreGone, Level: level,
		Databases: spread(m.o.Databases.Spread(ctx)),
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
			Node: string(n.Node), Roles: strings.Split(n.Roles.String(), ","), Addresses: n.Addresses,
			Version: n.Release, Level: n.Level,
			StartedMs: uint64(n.Started.UnixMilli()), Alive: n.Alive, Reachable: n.Reachable, Draining: n.Draining,
			Owned: uint32(len(n.Feeds)), Partitions: owned, Share: uint32(n.Share),
			SilentMs: uint32(n.Silent.Milliseconds()), SkewMs: n.Skew.Milliseconds(),
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

// Drain empties a node, this one or another. Codes: no_node, not_now.
func (m *Maintenance) Drain(ctx context.Context, n im.Node) (*petrelv1.DrainNodeResponse, error) {
	began := time.Now()
	a, err := ask(ctx, m, n, drains, &clusterpb.Drain{TimeoutMs: uint32(handOverTime.Milliseconds())})
	if err != nil {
		return nil, err
	}
	return &petrelv1.DrainNodeResponse{Partitions: a.Partitions, Sessions: a.Sessions,
		TookMs: uint32(time.Since(began).Milliseconds())}, nil
}

// Resume lets a drained node, this one or another, take partitions and clients again. Codes: no_node, not_now.
func (m *Maintenance) Resume(ctx context.Context, n im.Node) error {
	_, err := ask(ctx, m, n, resumes, &clusterpb.Resume{})
	return err
}

// ask sends a request to a node, which must be known and alive. Codes: no_node, not_now.
func ask[Q, A proto.Message](ctx context.Context, m *Maintenance, n im.Node, r bus.Request[Q, A],
	q Q) (none A, err error) {
	names := []string{}
	var found *cluster.NodeStatus
	st := m.o.Cluster.Status()
	for i := range st.Nodes {
		names = append(names, string(st.Nodes[i].Node))
		if x := &st.Nodes[i]; x.Node == n && (found == nil || x.Alive) {
			found = x
		}
	}
	switch {
	case found == nil:
		return none, im.Errorf(im.CodeNoNode, "there is no node %q; the nodes are %s", n, strings.Join(names, ", "))
	case !found.Alive:
		return none, im.Errorf(im.CodeNotNow, "node %s is gone, and other nodes serve its partitions", n)
	}
	answer, err := r.Ask(ctx, m.o.Bus, n, q)
	if _, answered := errors.AsType[*im.Error](err); err != nil && !answered {
		return none, im.Errorf(im.CodeNotNow, "node %s does not answer %s on the bus: %v", n, m.o.Cluster.Self(), err)
	}
	return answer, err
}

// Rebalance makes all nodes compute at once which partitions they should own. It returns the state as soon as
// this node sees no partition that is misplaced or without an owner, but not before lookTime. After 30 s, or when
// ctx ends, it returns the state that there is.
func (m *Maintenance) Rebalance(ctx context.Context) (*petrelv1.ClusterState, error) {
	st := balance(ctx, m.o.Cluster, m.o.Bus)
	return m.stateOf(ctx, &st), nil
}

// balance makes the nodes on b compute at once which partitions they should own. It returns the first status in
// which no partition is misplaced or without an owner, or the one after 30 s or at the end of ctx. It waits for
// lookTime before it judges a status: another node may have begun to take partitions, and this one does not know
// it yet.
func balance(ctx context.Context, c *cluster.Cluster, b bus.Bus) cluster.Status {
	ctx, cancel := context.WithTimeout(ctx, rebalanceTime)
	defer cancel()
	c.Reconsider()
	for _, n := range b.Peers() {
		_ = b.Send(n, lookSubject, nil) // a node that does not get it looks by itself, later
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
			return c.Status() // the status says what is left
		}
	}
}

// Move moves a partition to another database. Codes: invalid, not_now.
func (m *Maintenance) Move(ctx context.Context, p im.Partition, to int) (*petrelv1.MovePartitionResponse, error) {
	if n := len(m.o.Databases.Spread(ctx)); to > n {
		return nil, im.Errorf(im.CodeInvalid, "there is no database %d: store.postgres names %d databases", to, n)
	}
	began := time.Now()
	if err := m.o.Databases.MovePartition(ctx, p, to); err != nil {
		return nil, im.Errorf(im.CodeNotNow, "%v", err)
	}
	return &petrelv1.MovePartitionResponse{Databases: spread(m.o.Databases.Spread(ctx)),
		TookMs: uint32(time.Since(began).Milliseconds())}, nil
}

// Finalize raises the level of the stored format to that of this program, if all nodes can read it.
// Codes: not_now.
//
// A node that starts checks the level, writes its row, and checks the level again. Finalize raises the level,
// waits, and then reads the rows again. So one of the two sees the other. If Finalize sees an older node then, it
// returns an error, and the level stays raised.
func (m *Maintenance) Finalize(ctx context.Context) (*petrelv1.FinalizeClusterResponse, error) {
	from, err := m.o.Databases.Level(ctx)
	if err != nil {
		return nil, err
	}
	const to = store.FormatLevel
	if err := tooOld(m.o.Cluster.Status().Nodes, to); err != nil {
		return nil, err
	}
	if from < to {
		if err := m.o.Databases.Raise(ctx, to); err != nil {
			return nil, err
		}
		select {
		case <-time.After(lookTime):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if err := tooOld(m.o.Cluster.Status().Nodes, to); err != nil {
			return nil, im.Errorf(im.CodeNotNow, "the level was raised, but an older node has started: %s", err.Message)
		}
		m.o.Log.Info("stored format raised", "from", from, "to", to)
	}
	return &petrelv1.FinalizeClusterResponse{From: from, To: to}, nil
}

// tooOld returns an error that names the nodes that cannot read level to; nil: all can. A node that is gone
// counts, because it may only have been stopped for a while.
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
	return im.Errorf(im.CodeNotNow, "these nodes cannot read level %d; stop or upgrade them first: %s", to,
		strings.Join(list, ", "))
}
