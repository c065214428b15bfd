package fanout

import (
	"math/bits"
	"slices"
	"sync"
)

// nodeTable has the other nodes at which each user is online. Only the node of a session knows the session.
type nodeTable struct {
	parts [tableParts]nodeTablePart
}

type nodeTablePart struct {
	mu    sync.RWMutex      // tier 0; guards the field below
	nodes map[uint64]uint64 // hash of a user → bits of nodes
}

func (t *nodeTable) init() {
	for i := range t.parts {
		t.parts[i].nodes = map[uint64]uint64{}
	}
}

// nodesOf returns the bits of the nodes where users with a hash are online.
func (t *nodeTable) nodesOf(hash uint64) uint64 {
	p := &t.parts[hash%tableParts]
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.nodes[hash]
}

// add notes that users with a hash are online at a node.
func (t *nodeTable) add(hash, node uint64) {
	p := &t.parts[hash%tableParts]
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nodes[hash] |= node
}

// remove notes that no user with a hash is online at a node.
func (t *nodeTable) remove(hash, node uint64) {
	p := &t.parts[hash%tableParts]
	p.mu.Lock()
	defer p.mu.Unlock()
	p.removeLocked(hash, node)
}

func (p *nodeTablePart) removeLocked(hash, node uint64) {
	if rest := p.nodes[hash] &^ node; rest != 0 {
		p.nodes[hash] = rest
	} else {
		delete(p.nodes, hash)
	}
}

// replace notes that, of the users in a part, exactly these are online at a node. It returns
// the users who were not known to be online there, and those who are not online there any more.
func (t *nodeTable) replace(part int, users []uint64, node uint64) (added, gone []uint64) {
	slices.Sort(users)
	p := &t.parts[part]
	p.mu.Lock()
	defer p.mu.Unlock()
	for h, nodes := range p.nodes {
		if _, online := slices.BinarySearch(users, h); nodes&node != 0 && !online {
			p.removeLocked(h, node)
			gone = append(gone, h)
		}
	}
	for _, h := range users {
		if h%tableParts == uint64(part) && p.nodes[h]&node == 0 {
			p.nodes[h] |= node
			added = append(added, h)
		}
	}
	return added, gone
}

// removeNode forgets the online users of a node, and returns them.
func (t *nodeTable) removeNode(node uint64) (gone []uint64) {
	for part := range t.parts {
		_, g := t.replace(part, nil, node)
		gone = append(gone, g...)
	}
	return gone
}

// takeLowestBit clears the lowest bit that is set, and returns its index.
func takeLowestBit(set *uint64) int {
	i := bits.TrailingZeros64(*set)
	*set &= *set - 1
	return i
}
