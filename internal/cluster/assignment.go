package cluster

import (
	"cmp"
	"slices"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
)

// share returns the node that should own each feed. The same nodes, in any order, give the same answer on
// every node.
//
// It is rendezvous hashing with a bound. Each pair of a feed and a node has a score. Pairs are taken from
// the highest score down, and a node that has its even part, rounded up, gets no more. So a node that
// joins or leaves moves little more than its own part.
func share(feeds []store.Feed, nodes []im.Node) map[store.Feed]im.Node {
	out := make(map[store.Feed]im.Node, len(feeds))
	if len(nodes) == 0 {
		return out
	}
	type pair struct {
		score uint64
		feed  store.Feed
		node  im.Node
	}
	pairs := make([]pair, 0, len(feeds)*len(nodes))
	for _, n := range nodes {
		h := hash(string(n))
		for _, f := range feeds {
			pairs = append(pairs, pair{mix(h + uint64(f)*golden), f, n})
		}
	}
	slices.SortFunc(pairs, func(a, b pair) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.node, b.node), cmp.Compare(a.feed, b.feed))
	})
	part := (len(feeds) + len(nodes) - 1) / len(nodes)
	has := make(map[im.Node]int, len(nodes))
	for _, p := range pairs {
		if _, taken := out[p.feed]; !taken && has[p.node] < part {
			out[p.feed] = p.node
			has[p.node]++
		}
	}
	return out
}

const golden = 0x9e3779b97f4a7c15

// hash spreads a string over 64 bits, the same way in every process: FNV-1a, and mix for its high bits.
func hash(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return mix(h)
}

// mix is the finalizer of SplitMix64.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
