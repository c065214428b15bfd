package maintenance

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/petrel-im/petrel/internal/cluster"
	"github.com/petrel-im/petrel/internal/conv/convtest"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/route/routetest"
)

// TestF28LevelIsNotRaisedWhileAnOlderNodeMayRun judges what the rows of the
// nodes say.
func TestF28LevelIsNotRaisedWhileAnOlderNodeMayRun(t *testing.T) {
	node := func(id string, level uint32, alive bool) cluster.NodeStatus {
		return cluster.NodeStatus{Node: im.Node(id), Level: level, Alive: alive, Release: "0.9"}
	}
	for _, c := range []struct {
		nodes []cluster.NodeStatus
		want  []string // nil: it may be raised
	}{
		{[]cluster.NodeStatus{node("a", 2, true), node("b", 2, true)}, nil},
		{[]cluster.NodeStatus{node("a", 3, true)}, nil},
		{[]cluster.NodeStatus{node("a", 2, true), node("b", 1, true)}, []string{"cannot read level 2", "b (0.9, level 1)"}},
		{[]cluster.NodeStatus{node("a", 2, true), node("b", 1, false)}, []string{"b (0.9, level 1, gone: start it with this release"}},
	} {
		err := tooOld(c.nodes, 2)
		if (err == nil) != (c.want == nil) {
			t.Errorf("%+v: %v", c.nodes, err)
		}
		for _, w := range c.want {
			if err == nil || err.Code != im.CodeNotNow || !strings.Contains(err.Message, w) {
				t.Errorf("%+v: %v, want %s with %q", c.nodes, err, im.CodeNotNow, w)
			}
		}
	}
}

// A node has just begun to take partitions, and the node that is asked to rebalance has not
// heard of it: its first beacon is lost. The answer is given after the partition has moved.
func TestRebalanceWaitsForANodeThatHasJustResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := routetest.Start(t, "b", "a")
		asked, resumed := nodes.Nodes["a"], nodes.Nodes["b"]
		time.Sleep(5 * time.Second) // each knows that the other takes partitions
		if err := resumed.Cluster.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second) // and what is drained
		if st := asked.Cluster.Status(); nodes.Owner() != asked || st.Misplaced > 0 {
			t.Fatalf("%d partitions are misplaced before, node %s owns the one; want 0, node a", st.Misplaced, nodes.Owner().ID)
		}
		resumed.Bus.Cut(asked.ID, true)
		resumed.Cluster.Resume()
		time.AfterFunc(100*time.Millisecond, func() { resumed.Bus.Cut(asked.ID, false) })
		begun := time.Now()
		st := balance(t.Context(), asked.Cluster, asked.Bus)
		if took := time.Since(begun); took != lookTime {
			t.Errorf("the answer comes after %v, want %v", took, lookTime)
		}
		if owner, _, _ := asked.Cluster.Route(0); owner != resumed.ID || st.Misplaced+len(st.Unowned) != 0 {
			t.Errorf("%d are misplaced, %d without an owner, node %s owns the partition; want 0, 0, node b", st.Misplaced, len(st.Unowned), owner)
		}
	})
}

// The answer after 30 s says which partitions have no owner.
func TestRebalanceEndsAfterHalfAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := convtest.OpenStore(t, vfs.NewMem())
		t.Cleanup(func() {
			if err := st.Close(); err != nil {
				t.Error(err)
			}
		})
		n, err := routetest.New(t, st).Begin("a", cluster.Gateway) // nobody serves the partition
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		left := balance(t.Context(), n.Cluster, n.Bus)
		if took := time.Since(begun); took != rebalanceTime || len(left.Unowned) != 1 {
			t.Errorf("the answer comes after %v with %d partitions without an owner, want %v, 1", took, len(left.Unowned), rebalanceTime)
		}
	})
}
