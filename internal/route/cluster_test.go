package route_test

import (
	"context"
	"flag"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"github.com/petrel-im/petrel/internal/bus/bustest"
	"github.com/petrel-im/petrel/internal/bus/localbus"
	"github.com/petrel-im/petrel/internal/bus/stream"
	"github.com/petrel-im/petrel/internal/cluster"
	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/conv/convtest"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/route"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/pebblestore"
)

func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "8") // the parallel tests mostly wait; 16 on a busy machine are too late for their own heartbeats
	goleak.VerifyTestMain(m)
}

// testCluster is some nodes on one store with one feed, which one of them owns.
type testCluster struct {
	t     testing.TB
	store *pebblestore.Store
	net   *localbus.Net
	nodes map[im.Node]*node
}

// node is one of them.
type node struct {
	*convtest.Node
	id      im.Node
	bus     *bustest.LossyBus
	cluster *cluster.Cluster
	streams *stream.Streams
	router  *route.Router
	end     func()
}

// startPair starts two nodes, the owner of the feed and another.
func startPair(t testing.TB) (c *testCluster, one, two *node) {
	c = startCluster(t, "b", "a")
	return c, c.owner(), c.other()
}

// startCluster starts nodes in this order. Among "a", "b" and "c" the feed belongs to "b",
// and the first node to start gets it. Tests with several nodes start "b" first: otherwise
// the cluster would move the feed to "b" after a second, in the middle of the test.
func startCluster(t testing.TB, ids ...im.Node) *testCluster {
	t.Helper()
	c := &testCluster{t: t, store: convtest.OpenStore(t, vfs.NewMem()), net: localbus.New(), nodes: map[im.Node]*node{}}
	t.Cleanup(func() {
		for _, n := range c.nodes {
			n.end()
		}
		if err := c.store.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, id := range ids {
		c.join(id, cluster.AllRoles)
	}
	c.meet()
	return c
}

// meet waits until all nodes told each other who is online. Who comes online before that
// is told to sync, because a node that does not know them may have sent entries already.
func (c *testCluster) meet() {
	c.t.Helper()
	const parts = 64 // frames in which a node tells it
	for end := time.Now().Add(convtest.Deadline); time.Now().Before(end); pause() {
		met := true
		for _, n := range c.nodes {
			peers := n.streams.Peers()
			met = met && len(peers) == len(c.nodes)-1 && !slices.ContainsFunc(peers, func(p stream.Peer) bool { return p.AppliedByIt < parts })
		}
		if met {
			return
		}
	}
	c.t.Fatal("the nodes do not know each other")
}

// join starts a node and waits until somebody owns the feed.
func (c *testCluster) join(id im.Node, roles cluster.Roles) *node {
	c.t.Helper()
	joined, err := c.net.Join(id)
	if err != nil {
		c.t.Fatal(err)
	}
	b := bustest.Lossy(joined, bustest.Rules{})
	n := &node{Node: convtest.NewNode(c.t, c.store), id: id, bus: b}
	n.cluster = cluster.New(cluster.Options{Roles: roles}, n.Gate, b)
	streams := stream.New(b, n.cluster.Incarnation(), stream.Options{})
	n.streams = streams
	nodes := fanout.NewNodes(n.Table, streams, c.store.Info().Secret, nil)
	n.Open(conv.Options{Holder: n.cluster.Incarnation(), Nodes: nodes})
	n.router = route.New(route.Options{Cluster: n.cluster, Bus: b, Streams: streams, Nodes: nodes}, n.Convs, n.Gate)
	below, stopBelow := context.WithCancel(context.Background())
	work, stopWork := context.WithCancel(below)
	var running, working sync.WaitGroup
	start := func(wg *sync.WaitGroup, ctx context.Context, run func(context.Context) error) {
		wg.Go(func() {
			if err := run(ctx); err != nil {
				c.t.Errorf("node %s: %v", id, err)
			}
		})
	}
	start(&running, below, b.Run)
	start(&running, below, streams.Run)
	start(&running, below, nodes.Run)
	if err := n.cluster.Join(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
	start(&working, work, n.Convs.Run)
	start(&working, work, n.router.Run)
	start(&working, work, func(ctx context.Context) error {
		return n.cluster.Run(ctx, cluster.Owners{Open: n.router.Open, Close: n.Convs.Close})
	})
	n.end = sync.OnceFunc(func() {
		stopWork()
		working.Wait()
		stopBelow()
		running.Wait()
	})
	c.nodes[id] = n
	c.owner()
	return n
}

// takeOver opens the feed at another node without telling the cluster. All nodes learn of
// the new owner only after the former owner has noticed by itself.
func (c *testCluster) takeOver(former, by *node) {
	c.t.Helper()
	epoch, err := by.Convs.Open(c.t.Context(), 0)
	if err != nil {
		c.t.Fatal(err)
	}
	go func() { // ends with the test
		for ; len(former.Convs.Owners()) > 0; pause() {
			if c.t.Context().Err() != nil {
				return
			}
		}
		for _, n := range c.nodes {
			n.cluster.Learn(0, by.id, epoch)
		}
	}()
}

// owner is the node that owns the feed, once all nodes agree.
func (c *testCluster) owner() *node {
	c.t.Helper()
	for end := time.Now().Add(convtest.Deadline); time.Now().Before(end); pause() {
		var owner im.Node
		agreed := true
		for _, n := range c.nodes {
			id, _, ok := n.cluster.Route(0)
			if agreed = agreed && ok && (owner == "" || owner == id); !agreed {
				break
			}
			owner = id
		}
		if n := c.nodes[owner]; agreed && n != nil && len(n.Convs.Owners()) == 1 {
			return n
		}
	}
	c.t.Fatal("the nodes do not agree who owns the feed")
	return nil
}

// other is a node that does not own the feed.
func (c *testCluster) other() *node {
	c.t.Helper()
	owner := c.owner()
	for _, n := range c.nodes {
		if n != owner {
			return n
		}
	}
	c.t.Fatal("there is no other node")
	return nil
}

// look is how a conversation stands for a user.
func (n *node) look(ctx context.Context, key im.Key, u im.User) (*convpb.State, error) {
	return route.Ask(ctx, n.router, conv.Query{Conv: key, User: u}, (*conv.Owner).State, &convpb.GetState{})
}

// history reads all that a user may read of a conversation, as "seq:body".
func (n *node) history(key im.Key, u im.User) []string {
	n.T.Helper()
	return convtest.History(n.T, func(q *convpb.GetHistory) (*convpb.History, error) {
		return route.Ask(n.T.Context(), n.router, conv.Query{Conv: key, User: u}, (*conv.Owner).History, q)
	})
}

// sees waits until a screen was told all of want, in this order and once.
func sees(t *testing.T, s *convtest.Screen, want ...string) {
	t.Helper()
	var got []string
	for end := time.Now().Add(convtest.Deadline); time.Now().Before(end) && len(got) <= len(want); pause() {
		got = append(got, s.Got()...)
		if slices.Equal(got, want) {
			return
		}
	}
	t.Errorf("told %v, want %v", got, want)
}

// waitOnline waits until all nodes know each other's users.
func waitOnline(t *testing.T, c *testCluster) {
	t.Helper()
	// A call to the owner is served behind the announcements made before it.
	for _, n := range c.nodes {
		if _, err := n.look(t.Context(), convtest.NewGroup(), "alice"); im.CodeOf(err) != im.CodeNoConversation {
			t.Fatal(err)
		}
	}
}

// waitRow waits until the store has a row.
func waitRow(t *testing.T, st store.Store, key im.Key, seq im.Seq) {
	t.Helper()
	for end := time.Now().Add(convtest.Deadline); time.Now().Before(end); pause() {
		if row, err := st.LastRow(t.Context(), key); err == nil && row != nil && row.Seq == seq {
			return
		}
	}
	t.Fatalf("seq %d is not stored", seq)
}

// pause is between two looks at what other goroutines do.
func pause() { <-time.After(time.Millisecond) }
