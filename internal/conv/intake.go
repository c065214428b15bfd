package conv

import (
	"slices"

	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/signal"
)

// intake queues the sends of one feed for its committer: each in the queue of
// its conversation, and the conversations with something queued in a ring.
type intake struct {
	mem  *memory
	wake chan struct{} // capacity 1; a token: the committer has something to do

	// Guarded by memory.mu.
	ring    []*conv // conversations with queued sends, in turn
	waiting int     // sends not answered
}

// Submit queues sends, all of them for the feed. What cannot be queued is
// answered at once. It reports false, and takes none, when the feed is given
// away or lost.
func (in *intake) Submit(sends []*Send, k *fanout.WakeUps) bool {
	refusal := Refusal(in.mem.store.Writable())
	in.mem.mu.Lock()
	if in.mem.sealed {
		in.mem.mu.Unlock()
		return false
	}
	rest := sends
	if refusal == nil {
		rest = sends[:0]
		for _, s := range sends {
			if !in.enqueueLocked(s) {
				rest = append(rest, s)
			}
		}
	}
	in.mem.mu.Unlock()
	in.signal()
	if refusal == nil && len(rest) > 0 {
		refusal = errBusy()
	}
	AnswerAll(rest, refusal, k)
	return true
}

// enqueueLocked reports false when a bound is reached.
func (in *intake) enqueueLocked(s *Send) bool {
	m := in.mem
	c := m.getLocked(s.Conv)
	if c == nil {
		return false
	}
	s.bytes = s.Size()
	if c.mustExamineLocked(s) {
		return in.examineLocked(c, s)
	}
	if c.queueBytes+s.bytes > m.o.QueueBytes || !m.node.reserve(s.bytes, m.o.InFlightBytes) {
		return false
	}
	in.waiting++
	c.queueBytes += s.bytes
	c.queue = append(c.queue, s)
	in.activateLocked(c)
	return true
}

// refuse answers sends that are in no queue any more.
func (in *intake) refuse(sends []*Send, e *im.Error) {
	bytes := 0
	for _, s := range sends {
		bytes += s.bytes
	}
	var k fanout.WakeUps
	AnswerAll(sends, e, &k)
	in.release(nil, len(sends), bytes)
	k.Flush()
}

// reserve takes bytes from a budget; false: they would exceed it. Callers at the same
// time may exceed it by what one of them takes.
func (n *node) reserve(bytes, budget int) bool {
	if n.inFlight.Load()+int64(bytes) > int64(budget) {
		return false
	}
	n.inFlight.Add(int64(bytes))
	return true
}

// activateLocked puts an idle conversation with work into the ring.
func (in *intake) activateLocked(c *conv) {
	if c.state == idle && len(c.queue) > 0 {
		c.state = ready
		in.ring = append(in.ring, c)
	}
}

// signal has the committer come.
func (in *intake) signal() {
	signal.Set(in.wake)
}

// loaded is called by the memory when c can be used, or when the store could not be
// read. In the latter case the sends that are queued for c are answered with an
// error.
func (in *intake) loaded(c *conv, err error) {
	var failed []*Send
	in.mem.mu.Lock()
	if err != nil {
		failed, c.queue, c.queueBytes = c.queue, nil, 0
	}
	if c.err == nil {
		in.mem.resizeLocked(c)
		c.state = idle
		in.activateLocked(c)
	}
	in.mem.mu.Unlock()
	in.signal()
	if len(failed) > 0 {
		in.refuse(failed, unread(err))
	}
}

// work is what the committer does for one conversation in one batch.
type work struct {
	c     *conv
	sends []*Send
}

// take moves the next sends of up to 256 rows or 64 KiB for each conversation,
// 1 MiB in all, round-robin, so that a hot conversation cannot hold up the
// others. It returns one piece of work for each conversation.
func (in *intake) take(into []work) []work {
	const maxRows, maxConvBytes, maxBytes = 256, 64 << 10, 1 << 20
	in.mem.mu.Lock()
	defer in.mem.mu.Unlock()
	total := 0
	n := len(in.ring)
	taken := 0
	for taken < n && total < maxBytes {
		c := in.ring[taken]
		taken++
		i, bytes := 0, 0
		for i < len(c.queue) && i < maxRows && (i == 0 || bytes+c.queue[i].bytes <= maxConvBytes) {
			bytes += c.queue[i].bytes
			i++
		}
		into = append(into, work{c, c.queue[:i:i]})
		if c.queue = c.queue[i:]; len(c.queue) == 0 {
			c.queue = nil // or the sends would live as long as the conversation is in memory
		}
		c.queueBytes -= bytes
		c.uses++ // until published
		total += bytes
	}
	// The taken ones stay ready, so that the committer alone holds them; letGo
	// puts those that have more at the end of the ring.
	in.ring = in.ring[:copy(in.ring, in.ring[taken:])]
	return into
}

// scan is work for a loader: the sends wait until the tail of c reaches after.
type scan struct {
	c     *conv
	sends []*Send
	after im.Seq
}

// letGo ends the committer's hold on the conversations of a batch. Those whose
// tail is too short get their sends back and go to a loader first.
func (in *intake) letGo(done []work, scans []scan) {
	m := in.mem
	now := m.o.Now().Unix()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, sc := range scans {
		giveBackLocked(sc.c, sc.sends)
		sc.c.state = scanning
		m.node.loaders.add(func() { m.scan(sc.c, sc.after) })
	}
	for _, w := range done {
		w.c.lastUse = now
		if w.c.state == ready {
			m.resizeLocked(w.c)
			w.c.state = idle
			in.activateLocked(w.c)
		}
	}
	if len(in.ring) > 0 {
		in.signal()
	}
}

// giveBackLocked puts sends in front of the queue again.
func giveBackLocked(c *conv, sends []*Send) {
	for _, s := range sends {
		c.queueBytes += s.bytes
	}
	c.queue = append(slices.Clone(sends), c.queue...)
}

// restoreLocked puts the sends of a batch back into their queues, as they were asked
// for: nobody knows what became of them.
func (in *intake) restoreLocked(lost []work) {
	for _, w := range lost {
		for _, s := range w.sends {
			s.restore()
		}
		giveBackLocked(w.c, w.sends)
	}
}

// release gives back what the answered sends and the published batch held.
func (in *intake) release(done []work, sends, bytes int) {
	in.mem.mu.Lock()
	defer in.mem.mu.Unlock()
	for _, w := range done {
		w.c.uses--
	}
	in.mem.node.inFlight.Add(-int64(bytes))
	in.waiting -= sends
}

// orphans takes the sends out of all queues, those of a conversation in their
// order.
func (in *intake) orphans() []*Send {
	in.mem.mu.Lock()
	defer in.mem.mu.Unlock()
	in.ring = nil
	var all []*Send
	bytes := 0
	for _, c := range in.mem.convs {
		all = append(all, c.queue...)
		c.queue, c.queueBytes = nil, 0
		if c.examined != nil {
			all = append(all, c.examined.sends...)
			c.examined.sends = nil
		}
	}
	for _, s := range all {
		bytes += s.bytes
	}
	in.mem.node.inFlight.Add(-int64(bytes))
	in.waiting -= len(all)
	return all
}

// Waiting is how many sends have no answer yet.
func (in *intake) Waiting() int {
	in.mem.mu.Lock()
	defer in.mem.mu.Unlock()
	return in.waiting
}
