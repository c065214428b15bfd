package conv

import (
	"slices"

	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/wake"
)

// queues are the sends of one feed that wait for its committer, each in the queue of its
// conversation. ring lists the conversations with queued sends.
type queues struct {
	mem        *memory
	node       *node
	queueBytes int           // of sends in the queue of one conversation, at most
	wake       chan struct{} // capacity 1; a token: the committer has something to do

	// Guarded by memory.mu.
	ring             []*conv                 // with queued sends; take removes the first, activateLocked adds the last
	underExamination map[im.Key]*examination // the sends whose senders are not known as members
	waiting          int                     // sends not answered
}

// examination has the sends to a conversation whose senders may be outsiders. A loader checks their
// membership (membershipcheck.go).
type examination struct {
	sends []*Send
	bytes int
}

// enqueueLocked adds a send to the queue of its conversation. It reports false when a
// bound is reached.
func (qs *queues) enqueueLocked(c *conv, s *Send) bool {
	if c.queueBytes+s.bytes > qs.queueBytes || !qs.node.reserve(s.bytes) {
		return false
	}
	qs.waiting++
	c.queueBytes += s.bytes
	c.queue = append(c.queue, s)
	qs.activateLocked(c)
	return true
}

// reserve takes bytes from the budget of sends; false: they would exceed it. Concurrent callers may exceed it
// by what they take.
func (n *node) reserve(bytes int) bool {
	if n.inFlight.Load()+int64(bytes) > n.sendBudget {
		return false
	}
	n.inFlight.Add(int64(bytes))
	return true
}

// wakeCommitter wakes the committer.
func (qs *queues) wakeCommitter() {
	wake.Set(qs.wake)
}

// activateLocked puts an idle conversation with work into the ring.
func (qs *queues) activateLocked(c *conv) {
	if c.state == idle && len(c.queue) > 0 {
		c.state = ready
		qs.ring = append(qs.ring, c)
	}
}

// work has the sends of one conversation in one batch.
type work struct {
	c     *conv
	sends []*Send
	rest  []*Send // that stay in the queue
}

// maxRows is the most sends of one conversation in a batch, and so the most rows.
const maxRows = 256

// take moves queued sends into a batch: of each conversation at most maxRows sends and 64 KiB, but at least one
// send, and about 1 MiB in all. It goes round the ring, so that a hot conversation cannot hold up the others. It
// appends one work for each conversation to into.
func (qs *queues) take(into []work) []work {
	const maxConvBytes, maxBytes = 64 << 10, 1 << 20
	qs.mem.mu.Lock()
	defer qs.mem.mu.Unlock()
	total := 0
	n := len(qs.ring)
	taken := 0
	for taken < n && total < maxBytes {
		c := qs.ring[taken]
		taken++
		if c.read != nil { // a loader has read these threads for the committer
			c.log.threads.add(c.read, c.point.Load().pos)
			c.read = nil
		}
		i, bytes := 0, 0
		for i < len(c.queue) && i < maxRows && (i == 0 || bytes+c.queue[i].bytes <= maxConvBytes) {
			bytes += c.queue[i].bytes
			i++
		}
		into = append(into, work{c, c.queue[:i:i], c.queue[i:]})
		if c.queue = c.queue[i:]; len(c.queue) == 0 {
			c.queue = nil // or the sends would live as long as the conversation is in memory
		}
		c.queueBytes -= bytes
		c.uses++ // until release
		total += bytes
	}
	// The taken conversations stay in the state ready, so only the committer touches their logs.
	// fetcher.letGo puts those with more sends at the end of the ring.
	qs.ring = qs.ring[:copy(qs.ring, qs.ring[taken:])]
	return into
}

// scan is work for a loader: the sends wait until the tail of c reaches down to after, or until the threads
// of roots are read.
type scan struct {
	c     *conv
	sends []*Send
	after im.Seq
	roots []im.Seq // if any, their threads are read, and not the tail
}

// unknownRoots returns the roots that the sends name and whose threads the committer does not have in memory, at
// most maxThreads. It leaves out roots that do not exist.
func (c *conv) unknownRoots(sends []*Send) []im.Seq {
	at, in := c.published()
	var roots []im.Seq
	for _, s := range sends {
		q := im.Seq(s.Entry.Rel.GetThread())
		_, known := c.log.threads[q]
		if q != 0 && !known && in.mayRead("", q, at.head) && len(roots) < maxThreads && !slices.Contains(roots, q) {
			roots = append(roots, q)
		}
	}
	return roots
}

// giveBackLocked puts sends in front of the queue again.
func giveBackLocked(c *conv, sends []*Send) {
	for _, s := range sends {
		c.queueBytes += s.bytes
	}
	c.queue = append(slices.Clone(sends), c.queue...)
}

// restoreLocked puts the sends of a batch that was not answered back into their queues, in their original
// form.
func (qs *queues) restoreLocked(lost []work) {
	for _, w := range lost {
		for _, s := range w.sends {
			s.restore()
		}
		giveBackLocked(w.c, w.sends)
	}
}

// refuse answers sends that were taken out of their queue, all of them with the error e.
func (qs *queues) refuse(sends []*Send, e *im.Error) {
	bytes := 0
	for _, s := range sends {
		bytes += s.bytes
	}
	var k fanout.WakeUps
	qs.node.refuseAll(sends, e, &k)
	qs.release(nil, len(sends), bytes)
	k.Flush()
}

// release ends a batch's use of the conversations in done, counts sends as answered, and gives bytes back to the
// budget.
func (qs *queues) release(done []work, sends, bytes int) {
	qs.mem.mu.Lock()
	defer qs.mem.mu.Unlock()
	for _, w := range done {
		w.c.uses--
	}
	qs.node.inFlight.Add(-int64(bytes))
	qs.waiting -= sends
}

// orphans takes all sends out of the queues. The sends of one conversation keep their order.
func (qs *queues) orphans() []*Send {
	qs.mem.mu.Lock()
	defer qs.mem.mu.Unlock()
	qs.ring = nil
	var all []*Send
	bytes := 0
	for _, c := range qs.mem.convs {
		all = append(all, c.queue...)
		c.queue, c.queueBytes = nil, 0
	}
	for _, x := range qs.underExamination {
		all = append(all, x.sends...)
		x.sends, x.bytes = nil, 0
	}
	for _, s := range all {
		bytes += s.bytes
	}
	qs.node.inFlight.Add(-int64(bytes))
	qs.waiting -= len(all)
	return all
}

// Waiting returns how many sends have no answer yet.
func (qs *queues) Waiting() int {
	qs.mem.mu.Lock()
	defer qs.mem.mu.Unlock()
	return qs.waiting
}
