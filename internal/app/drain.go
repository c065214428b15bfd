package app

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/petrel-im/petrel/internal/api"
	"github.com/petrel-im/petrel/internal/cluster"
	"github.com/petrel-im/petrel/internal/cluster/clusterpb"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/maintenance"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// operations returns the functions of the API for operators of a cluster; without one, most of them refuse.
func (a *App) operations() api.Cluster {
	if a.node.cluster == nil {
		alone := im.Errorf(im.CodeNotNow,
			"this server has an embedded store, so it has no other nodes; set store.postgres for a cluster")
		return api.Cluster{
			State:     func(context.Context) *petrelv1.ClusterState { return a.stateAlone() },
			Drain:     func(context.Context, im.Node) (*petrelv1.DrainNodeResponse, error) { return nil, alone },
			Resume:    func(context.Context, im.Node) error { return alone },
			Rebalance: func(context.Context) (*petrelv1.ClusterState, error) { return nil, alone },
			Move: func(context.Context, im.Partition, int) (*petrelv1.MovePartitionResponse, error) {
				return nil,
					alone
			},
			Finalize: func(context.Context) (*petrelv1.FinalizeClusterResponse, error) { return nil, alone },
		}
	}
	m := a.maintenance
	return api.Cluster{State: m.State, Drain: m.Drain, Resume: m.Resume, Rebalance: m.Rebalance, Move: m.Move,
		Finalize: m.Finalize, Gateways: a.gateways}
}

// gateways lists the addresses for a user to connect to, best first. Spec: P-3.7.
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
	return &petrelv1.ClusterState{AnsweredBy: string(a.node.bus.Self()), Partitions: im.Partitions, Level: level,
		Nodes: []*petrelv1.ClusterNode{{
			Node: string(a.node.bus.Self()), Roles: strings.Split(cluster.AllRoles.String(), ","), Version: a.o.Version,
			Level:     store.FormatLevel,
			StartedMs: uint64(a.begun.UnixMilli()), Alive: true, Reachable: true, Owned: im.Partitions,
			Share: im.Partitions,
		}}}
}

// drainHere hands all partitions of this node over. Then it sends the clients away, if there is another gateway
// for them. If the hand-over fails, the node goes on as before. Codes: not_now.
func (a *App) drainHere(ctx context.Context) (*clusterpb.Drained, error) {
	c := a.node.cluster
	owned := len(a.convs.Owners())
	a.away.Store(true)
	if err := c.Drain(ctx); err != nil {
		a.away.Store(false)
		a.takeClients()
		if errors.Is(err, cluster.ErrNobody) {
			return nil, im.Errorf(im.CodeNotNow,
				"no other node takes partitions: start one first; if you stop this one instead, sends wait until it is back")
		}
		return nil, im.Errorf(im.CodeNotNow, "%v; the node goes on as before", err)
	}
	r := &clusterpb.Drained{Partitions: uint32(owned)}
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

// resumeHere has this node take partitions and clients again.
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

// settle waits, for maintenance.AnswerTime at most, for the answers to
// sends of this node: clients would send those without an answer again.
func (a *App) settle(ctx context.Context) {
	limit := time.After(maintenance.AnswerTime)
	poll := time.NewTicker(20 * time.Millisecond)
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
		if n.Node != a.node.cluster.Self() && n.Alive && n.Reachable && !n.Draining && !n.Apart &&
			n.Roles&cluster.Gateway != 0 {
			return true
		}
	}
	return false
}
