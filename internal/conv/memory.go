package conv

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/petrel-im/petrel/internal/im"
)

// Conversations leave memory when nobody has used them for Options.IdleAfter, and earlier when all of them take
// more than Options.MemoryBytes. A conversation in use never leaves. While all of them take more than twice
// MemoryBytes, no further one is loaded, and its users get overloaded.
//
// The clock algorithm chooses the one that leaves: a hand goes round all of them, and takes a conversation that
// was not used since its last visit. So a use of a conversation costs only a note of its time.

// sweepSize is how many conversations are looked at under one lock: few enough to hold
// it for about a millisecond.
const sweepSize = 10_000

// roomLooks is the most conversations of a feed at which one call of evictUnused looks.
const roomLooks = 1000

// roomFeeds is about how many feeds one call of makeRoom goes through.
const roomFeeds = 16

// memory holds the conversations of one feed that are in memory, and forgets those that
// nobody uses.
type memory struct {
	node      *node
	now       func() time.Time
	idleAfter time.Duration

	mu     sync.Mutex // tier 2; guards the fields below, and in every conv the fields that say so
	convs  map[im.Key]*conv
	clock  []*conv // all of convs; hand goes round in it
	hand   int     // the place of the last look
	gone   bool    // the owner is out of service: nothing is counted any more
	sealed bool    // the feed was given away or lost: no send, signal or move of a cursor is taken any more
}

func newMemory(n *node, now func() time.Time, idleAfter time.Duration) *memory {
	return &memory{node: n, now: now, idleAfter: idleAfter, convs: map[im.Key]*conv{}}
}

// addLocked puts a new conversation into memory.
func (m *memory) addLocked(c *conv) {
	m.convs[c.key] = c
	c.place = len(m.clock)
	m.clock = append(m.clock, c)
	m.growLocked(c, convBytes)
}

// removeLocked takes a conversation out of memory.
func (m *memory) removeLocked(c *conv) {
	delete(m.convs, c.key)
	if c.place == m.hand {
		m.hand-- // the one that moves to its index is looked at next
	}
	last := len(m.clock) - 1
	m.clock[c.place], m.clock[last].place = m.clock[last], c.place
	m.clock[last] = nil
	m.clock = m.clock[:last]
	m.growLocked(c, -c.bytes)
}

// find returns a conversation that is in memory and loaded; nil: it is not.
func (m *memory) find(key im.Key) *conv {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c := m.convs[key]; c != nil && c.state != loading {
		return c
	}
	return nil
}

// Loaded returns how many conversations are in memory.
func (m *memory) Loaded() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.convs)
}

// growLocked adds bytes to the size of a conversation, and to the sum of the node.
func (m *memory) growLocked(c *conv, bytes int) {
	c.bytes += bytes
	if !m.gone {
		m.node.convBytes.Add(int64(bytes))
	}
}

// leave takes all conversations out of the sum of the node: their Owner is out of service.
func (m *memory) leave() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gone = true
	for _, c := range m.clock {
		m.node.convBytes.Add(-int64(c.bytes))
	}
}

// resizeLocked measures the size of c anew. The caller may touch the log of c (type state).
func (m *memory) resizeLocked(c *conv) {
	if n := c.size(); n != c.bytes {
		m.growLocked(c, n-c.bytes)
	}
}

// nextLocked moves the hand to the next conversation and returns it. memory must not be empty.
func (m *memory) nextLocked() *conv {
	if m.hand++; m.hand >= len(m.clock) {
		m.hand = 0
	}
	return m.clock[m.hand]
}

// evictIdle forgets conversations that nobody has used for idleAfter. A call looks at a sixteenth of those in
// memory, or at 10,000 if that is more.
func (m *memory) evictIdle() {
	limit := m.now().Add(-m.idleAfter).Unix()
	m.mu.Lock()
	defer m.mu.Unlock()
	for left := max(sweepSize, len(m.clock)/16); left > 0; left -= sweepSize {
		for n := min(sweepSize, left, len(m.clock)); n > 0; n-- {
			if c := m.nextLocked(); c.unusedLocked() && c.lastUse < limit {
				m.removeLocked(c)
			}
		}
		m.mu.Unlock() // let others have it
		m.mu.Lock()
	}
}

// evictUnused forgets conversations that were not used since the last visit of the hand, until the conversations
// of all feeds fit into the budget of the node. It looks at no more than roomLooks of this feed.
func (m *memory) evictUnused() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for n := min(roomLooks, len(m.clock)); n > 0 && m.node.convBytes.Load() > m.node.convBudget; n-- {
		c := m.nextLocked()
		if c.unusedLocked() && c.lastUse <= c.seen {
			m.removeLocked(c)
			m.node.evicted.Add(1)
		}
		c.seen = c.lastUse
	}
}

// memories has the memory of each feed that this node owns.
type memories struct {
	node *node
	of   []atomic.Pointer[memory] // by feed; nil: not here
	at   atomic.Uint64            // where makeRoom goes on
}

// makeRoom forgets conversations, one feed after the other, until the rest fits into the budget. It stops
// after at most roomFeeds feeds, and the next call goes on with the next feed.
func (ms *memories) makeRoom() {
	for range ms.of {
		if ms.node.convBytes.Load() <= ms.node.convBudget {
			return
		}
		next := ms.at.Add(1)
		if m := ms.of[next%uint64(len(ms.of))].Load(); m != nil {
			m.evictUnused()
		}
		if next%roomFeeds == 0 {
			return
		}
	}
}
