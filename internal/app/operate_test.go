package app

import (
	"strings"
	"testing"

	"github.com/petrel-im/petrel/internal/cluster"
	"github.com/petrel-im/petrel/internal/im"
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
		{[]cluster.NodeStatus{node("a", 2, true), node("b", 1, true)}, []string{"less than level 2", "b (0.9, level 1)"}},
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
