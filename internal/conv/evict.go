package conv

// Conversations leave memory when nobody has used them for Options.IdleAfter, and
// earlier when all of them take more than Options.MemoryBytes. One in use never
// leaves. If those in use alone take more than twice that, no other one is loaded:
// who asks for it is answered overloaded.
//
// Which one leaves is found by a hand that goes round all of them. It takes a
// conversation that was not used since it was there last. So using a conversation
// costs nothing but a note of the time.

// sweepSize is how many conversations are looked at under one lock: few enough to hold
// it for about a millisecond.
const sweepSize = 10_000

// roomLooks is how many conversations of one feed are looked at to make room for one.
const roomLooks = 1000

// roomFeeds is about how many feeds are looked through for that.
const roomFeeds = 16

// crowded tells whether no other conversation may be loaded.
func (n *node) crowded(o *Options) bool { return n.convBytes.Load() > 2*int64(o.MemoryBytes) }

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
		m.hand-- // the one that takes its place is looked at next
	}
	last := len(m.clock) - 1
	m.clock[c.place], m.clock[last].place = m.clock[last], c.place
	m.clock[last] = nil
	m.clock = m.clock[:last]
	m.growLocked(c, -c.bytes)
}

// growLocked counts bytes more for a conversation.
func (m *memory) growLocked(c *conv, bytes int) {
	c.bytes += bytes
	if !m.gone {
		m.node.convBytes.Add(int64(bytes))
	}
}

// leave ends the count of all conversations: their owner is out of service.
func (m *memory) leave() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gone = true
	for _, c := range m.clock {
		m.node.convBytes.Add(-int64(c.bytes))
	}
}

// resizeLocked counts a conversation anew. Only who may touch its log calls it.
func (m *memory) resizeLocked(c *conv) {
	if n := c.size(); n != c.bytes {
		m.growLocked(c, n-c.bytes)
	}
}

// nextLocked moves the hand to the next conversation. There is one.
func (m *memory) nextLocked() *conv {
	if m.hand++; m.hand >= len(m.clock) {
		m.hand = 0
	}
	return m.clock[m.hand]
}

// evictIdle forgets conversations that nobody used for a while. It looks at a sixteenth
// of them.
func (m *memory) evictIdle() {
	limit := m.o.Now().Add(-m.o.IdleAfter).Unix()
	m.mu.Lock()
	defer m.mu.Unlock()
	for left := max(sweepSize, len(m.clock)/16); left > 0; left -= sweepSize {
		for n := min(sweepSize, left, len(m.clock)); n > 0; n-- {
			if c := m.nextLocked(); c.unusedLocked() && c.lastUse < limit {
				m.removeLocked(c)
			}
		}
		m.mu.Unlock() // others wait
		m.mu.Lock()
	}
}

// evictUnused forgets conversations until all take no more than budget, and looks at
// no more than roomLooks of this feed.
func (m *memory) evictUnused(budget int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for n := min(roomLooks, len(m.clock)); n > 0 && m.node.convBytes.Load() > budget; n-- {
		c := m.nextLocked()
		if c.unusedLocked() && c.lastUse <= c.seen {
			m.removeLocked(c)
			m.node.evicted.Add(1)
		}
		c.seen = c.lastUse
	}
}

// makeRoom forgets conversations, of all feeds in turn, until the others fit into the
// budget. It gives up after roomFeeds of them: the next call goes on there.
func (cs *Convs) makeRoom() {
	budget := int64(cs.o.MemoryBytes)
	for range cs.owners {
		if cs.node.convBytes.Load() <= budget {
			return
		}
		next := cs.roomAt.Add(1)
		if ow := cs.owners[next%uint64(len(cs.owners))].Load(); ow != nil {
			ow.memory.evictUnused(budget)
		}
		if next%roomFeeds == 0 {
			return
		}
	}
}
