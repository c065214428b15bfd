package app

import (
	"testing"

	"github.com/petrel-im/petrel/internal/cluster"
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
