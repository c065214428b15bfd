package cluster

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
)

func allFeeds() []store.Feed {
	var feeds []store.Feed
	for f := range im.Partitions {
		feeds = append(feeds, store.Feed(f))
	}
	return feeds
}

func TestNoNodeExceedsItsPart(t *testing.T) {
	for n := 1; n <= 20; n++ {
		var nodes []im.Node
		for i := range n {
			nodes = append(nodes, im.Node(fmt.Sprintf("node-%d", i)))
		}
		owners := share(allFeeds(), nodes)
		slices.Reverse(nodes)
		if again := share(allFeeds(), nodes); !maps.Equal(owners, again) {
			t.Errorf("%d nodes: another order of nodes gives other parts", n)
		}
		has := map[im.Node]int{}
		for _, f := range allFeeds() {
			if owners[f] == "" {
				t.Fatalf("%d nodes: feed %d has no owner", n, f)
			}
			has[owners[f]]++
		}
		part := (im.Partitions + n - 1) / n
		for _, id := range nodes {
			if has[id] > part || has[id] == 0 {
				t.Errorf("%d nodes: %s has %d feeds, at most %d", n, id, has[id], part)
			}
		}
	}
	if got := share(allFeeds(), nil); len(got) != 0 {
		t.Errorf("nobody got %d feeds", len(got))
	}
}

// Only the part of the node that joins or leaves must move. The other moves are the price
// of even parts.
func TestJoiningAndLeavingMoveLittle(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4, 8, 16} {
		must, moved := 0, 0
		for trial := range 20 {
			var nodes []im.Node
			for i := range n + 1 {
				nodes = append(nodes, im.Node(fmt.Sprintf("t%d-n%d", trial, i)))
			}
			before, after := share(allFeeds(), nodes[:n]), share(allFeeds(), nodes)
			for _, f := range allFeeds() {
				if after[f] == nodes[n] {
					must++
				}
				if after[f] != before[f] {
					moved++
				}
			}
		}
		t.Logf("%d nodes and one more: %.1f feeds move, %.1f must", n, float64(moved)/20, float64(must)/20)
		if extra := float64(moved-must) / 20; extra > 0.05*im.Partitions {
			t.Errorf("%d nodes and one more: %.1f feeds move for nothing", n, extra)
		}
	}
}
