package app

import (
	"strings"
	"testing"

	"github.com/petrel-im/petrel/internal/cluster"
	"github.com/petrel-im/petrel/internal/im"
)

func TestANodeIsCutOffWhenItReachesNobody(t *testing.T) {
	self := cluster.NodeStatus{Node: "a", Alive: true, Reachable: true, Roles: cluster.AllRoles}
	node := func(alive, reachable bool, roles cluster.Roles) cluster.NodeStatus {
		return cluster.NodeStatus{Node: "b", Alive: alive, Reachable: reachable, Roles: roles}
	}
	for _, c := range []struct {
		what      string
		others    []cluster.NodeStatus
		storeGone bool
		apart     bool
		want      bool
	}{
		{"alone", nil, true, false, false},
		{"from the store only", []cluster.NodeStatus{node(true, true, cluster.AllRoles)}, true, false, false},
		{"from the others only, who do not hear each other", []cluster.NodeStatus{node(true, false, cluster.AllRoles)}, false, false, false},
		{"apart", []cluster.NodeStatus{node(true, false, cluster.AllRoles)}, false, true, true},
		{"apart, and heard by some", []cluster.NodeStatus{node(true, true, cluster.AllRoles)}, false, true, true},
		{"apart, with nowhere to go", []cluster.NodeStatus{node(true, false, cluster.Conv)}, false, true, false},
		{"from all", []cluster.NodeStatus{node(true, false, cluster.AllRoles)}, true, false, true},
		{"from all but one", []cluster.NodeStatus{node(true, false, cluster.AllRoles), node(true, true, cluster.Conv)}, true, false, false},
		{"with nowhere to go", []cluster.NodeStatus{node(true, false, cluster.Conv), node(false, false, cluster.AllRoles)}, true, false, false},
	} {
		if got := cutOff("a", cluster.Status{Nodes: append(c.others, self), StoreGone: c.storeGone, Apart: c.apart}); got != c.want {
			t.Errorf("%s: %t", c.what, got)
		}
	}
}

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
