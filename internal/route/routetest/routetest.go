// Package routetest is a cluster for tests: several nodes on one store and one local bus, each with the
// conversations, the streams and the router that a server has, and with the timeouts that a server has.
// Each node sends through a LossyBus, whose rules a test sets.
//
// A test uses it in a bubble of testing/synctest: there all waits are in fake time, and the cluster ends
// with the test.
package routetest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/petrel-im/petrel/internal/bus/bustest"
	"github.com/petrel-im/petrel/internal/bus/localbus"
	"github.com/petrel-im/petrel/internal/bus/stream"
	"github.com/petrel-im/petrel/internal/cluster"
	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/conv/convtest"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/route"
	"github.com/petrel-im/petrel/internal/store"
)

// Cluster is some nodes on one store with one feed, which one of them owns.
type Cluster struct {
	T     testing.TB
	Store store.Store
	Net   *localbus.Net
	Nodes map[im.Node]*Node // those that run

	wg sync.WaitGroup // the goroutines of TakeOver
}

// Node is a node of a Cluster.
type Node struct {
	*convtest.Node
	ID      im.Node
	Bus     *bustest.LossyBus
	Cluster *cluster.Cluster
	Streams *stream.Streams
	Router  *route.Router

	LookUps int // that the router has counted here

	end func()
}

// StartPair starts two nodes, the owner of the feed and another.
func StartPair(t testing.TB) (c *Cluster, owner, other *Node) {
	t.Helper()
	c = Start(t, "b", "a")
	return c, c.Owner(), c.Other()
}

// Start starts nodes in this order, on a new store in memory. Among "a", "b" and "c" the
// feed belongs to "b", and the first node to start gets it. Tests with several nodes start
// "b" first: otherwise the cluster would move the feed to "b" after a second, in the middle
// of the test.
func Start(t testing.TB, ids ...im.Node) *Cluster {
	t.Helper()
	st := convtest.OpenStore(t, vfs.NewMem())
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	c := New(t, st)
	for _, id := range ids {
		c.Join(id, cluster.AllRoles)
	}
	c.Meet()
	return c
}

// New makes a cluster without nodes on a store, which the caller closes. The nodes end with the test, before the
// functions that the caller gave to t.Cleanup earlier.
func New(t testing.TB, st store.Store) *Cluster {
	c := &Cluster{T: t, Store: st, Net: localbus.New(), Nodes: map[im.Node]*Node{}}
	t.Cleanup(func() {
		c.wg.Wait()
		for _, n := range c.Nodes {
			n.end()
		}
	})
	return c
}

// Join starts a node and waits until all nodes agree who owns the feed.
func (c *Cluster) Join(id im.Node, roles cluster.Roles) *Node {
	c.T.Helper()
	n, err := c.Begin(id, roles)
	if err != nil {
		c.T.Fatal(err)
	}
	c.Owner()
	return n
}

// Begin starts a node, and returns after it has joined the cluster. It does not wait until
// the node owns anything. An error says why it did not join, and the node has ended.
func (c *Cluster) Begin(id im.Node, roles cluster.Roles) (*Node, error) {
	c.T.Helper()
	joined, err := c.Net.Join(id)
	if err != nil {
		c.T.Fatal(err)
	}
	b := bustest.Lossy(joined, bustest.Rules{})
	n := &Node{Node: convtest.NewNode(c.T, c.Store), ID: id, Bus: b}
	n.Cluster = cluster.New(cluster.Options{Roles: roles}, n.Gate, b)
	n.Streams = stream.New(b, n.Cluster.Incarnation(), stream.Options{})
	nodes := fanout.NewNodes(n.Table, n.Streams, c.Store.Info().Secret, nil)
	n.Open(conv.Options{Holder: n.Cluster.Incarnation(), Nodes: nodes})
	n.Router = route.New(route.Options{Cluster: n.Cluster, Bus: b, Streams: n.Streams, Nodes: nodes,
		LookUps: func(_ im.Account, users []im.User) ([]int, time.Duration) {
			n.LookUps += len(users)
			return []int{1}, time.Second
		}}, n.Convs, n.Gate)
	below, stopBelow := context.WithCancel(context.Background())
	work, stopWork := context.WithCancel(below)
	var running, working sync.WaitGroup
	n.end = sync.OnceFunc(func() {
		stopWork()
		working.Wait()
		stopBelow()
		running.Wait()
	})
	start := func(wg *sync.WaitGroup, ctx context.Context, run func(context.Context) error) {
		wg.Go(func() {
			if err := run(ctx); err != nil {
				c.T.Errorf("node %s: %v", id, err)
			}
		})
	}
	start(&running, below, b.Run)
	start(&running, below, n.Streams.Run)
	start(&running, below, nodes.Run)
	if err := n.Cluster.Join(c.T.Context()); err != nil {
		n.end()
		return nil, err
	}
	start(&working, work, n.Convs.Run)
	start(&working, work, n.Router.Run)
	start(&working, work, func(ctx context.Context) error {
		return n.Cluster.Run(ctx, cluster.Owners{Open: n.Router.Open, Close: n.Convs.Close})
	})
	c.Nodes[id] = n
	return n, nil
}

// Kill ends a node. Like a process that dies, it hands nothing over, and its row stays in
// the store. A new node may have its id.
func (c *Cluster) Kill(n *Node) {
	n.end()
	delete(c.Nodes, n.ID)
}

// Meet waits until all nodes have told each other who is online. A user who comes online before
// that is told to sync, because a node that does not know the user may have sent entries already.
func (c *Cluster) Meet() {
	c.T.Helper()
	const parts = 64 // frames in which a node tells it
	eventually.True(c.T, "the nodes know each other", func() bool {
		for _, n := range c.Nodes {
			peers := n.Streams.Peers()
			if len(peers) != len(c.Nodes)-1 || slices.ContainsFunc(peers,
				func(p stream.Peer) bool { return p.AppliedByIt < parts }) {
				return false
			}
		}
		return true
	})
}

// TakeOver opens the feed at another node without telling the cluster. All nodes learn of
// the new owner only after the former owner has noticed by itself.
func (c *Cluster) TakeOver(former, by *Node) {
	c.T.Helper()
	epoch, err := by.Convs.Open(c.T.Context(), 0)
	if err != nil {
		c.T.Fatal(err)
	}
	c.wg.Go(func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for len(former.Convs.Owners()) > 0 {
			select {
			case <-tick.C:
			case <-c.T.Context().Done():
				return
			}
		}
		for _, n := range c.Nodes {
			n.Cluster.Learn(0, by.ID, epoch)
		}
	})
}

// Owner returns the node that owns the feed, once all nodes agree.
func (c *Cluster) Owner() *Node {
	c.T.Helper()
	var owner *Node
	eventually.True(c.T, "the nodes agree who owns the feed", func() bool {
		var found im.Node
		for _, n := range c.Nodes {
			id, _, ok := n.Cluster.Route(0)
			if !ok || found != "" && found != id {
				return false
			}
			found = id
		}
		owner = c.Nodes[found]
		return owner != nil && len(owner.Convs.Owners()) == 1
	})
	return owner
}

// Other returns a node that does not own the feed.
func (c *Cluster) Other() *Node {
	c.T.Helper()
	owner := c.Owner()
	for _, n := range c.Nodes {
		if n != owner {
			return n
		}
	}
	c.T.Fatal("there is no other node")
	return nil
}

// WaitOnline waits until the owner knows the users who are online at all nodes.
func (c *Cluster) WaitOnline() {
	c.T.Helper()
	// A call to the owner is served after the announcements that were made before it.
	for _, n := range c.Nodes {
		if _, err := n.State(c.T.Context(), convtest.NewGroup(), "alice"); im.CodeOf(err) != im.CodeNoConversation {
			c.T.Fatal(err)
		}
	}
}

// WaitRow waits until a row is the newest of a conversation in the store.
func (c *Cluster) WaitRow(key im.Key, seq im.Seq) {
	c.T.Helper()
	eventually.True(c.T, "the row is stored", func() bool {
		row, err := c.Store.LastRow(c.T.Context(), key)
		return err == nil && row != nil && row.Seq == seq
	})
}

// State returns the state of a conversation for a user, as its owner tells this node.
func (n *Node) State(ctx context.Context, key im.Key, u im.User) (*convpb.State, error) {
	return route.Ask(ctx, n.Router, conv.Query{Conv: key, User: u}, (*conv.Owner).State, &convpb.GetState{})
}

// History reads all that a user may read of a conversation, as "seq:body".
func (n *Node) History(key im.Key, u im.User) []string {
	n.T.Helper()
	return convtest.History(n.T, func(q *convpb.GetHistory) (*convpb.History, error) {
		return route.Ask(n.T.Context(), n.Router, conv.Query{Conv: key, User: u}, (*conv.Owner).History, q)
	})
}

// Sees waits in a bubble until a screen was told all of want, in this order and once, and
// nothing more.
func Sees(t testing.TB, s *convtest.Screen, want ...string) {
	t.Helper()
	var got []string
	eventually.Holds(func() bool {
		synctest.Wait()
		got = append(got, s.Got()...)
		return len(got) >= len(want)
	})
	if !slices.Equal(got, want) {
		t.Errorf("told %v, want %v", got, want)
	}
}
