package conv

import (
	"errors"
	"slices"
	"time"

	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// MaxClientMsgID is the longest client message id, in bytes. Spec: P-4.2.
const MaxClientMsgID = 64

// Send asks for one entry. It belongs to Convs from Submit until its answer.
type Send struct {
	Conv  im.Key
	Peer  im.User // with a direct conversation: the other user, who makes it come to be
	After im.Seq
	Keyed bool // sent without after: looked up by a dedupe key

	// Entry is the message with From, ClientMsgId, Type and Body; Convs sets
	// the rest. An empty From is the server itself.
	Entry petrelv1.Message

	// Create makes the group that Entry, its first one, belongs to. A group
	// that is there already answers with its first entry.
	Create *storepb.Conversation

	Origin fanout.Origin // who waits for the answer on a connection
	Done   func(Result)  // or whom to call; it must not block

	asked  *petrelv1.MemberChange // nil, or what was asked before it was cut to what takes effect
	bytes  int
	ticket uint64 // under way to another node; 0: none
}

// cut leaves of a change of members what takes effect.
func (s *Send) cut(done *petrelv1.MemberChange) {
	if s.asked == nil {
		s.asked = s.Entry.GetMembers()
	}
	s.Entry.Body = &petrelv1.Message_Members{Members: done}
}

// restore makes s what it was when it was submitted.
func (s *Send) restore() {
	if s.asked != nil {
		s.Entry.Body = &petrelv1.Message_Members{Members: s.asked}
	}
}

// Result is the answer to a Send. Err nil: the entry is durable at Seq.
type Result struct {
	Seq    im.Seq
	TimeMs uint64
	Repeat bool // it was stored before
	Err    *im.Error
}

// overhead is what a send costs in memory beside its body, in bytes.
const overhead = 256

// submit queues sends, all of them for the feed. What cannot be queued is
// answered at once. It reports false, and takes none, when the feed is given
// away or lost.
func (ow *Owner) submit(sends []*Send, k *fanout.Kicks) bool {
	refusal := refusalOf(ow.store.Writable())
	ow.mu.Lock()
	if ow.sealed {
		ow.mu.Unlock()
		return false
	}
	rest := sends[:0]
	for _, s := range sends {
		s.bytes = overhead + bodySize(&s.Entry)
		if refusal == nil && !ow.enqueueLocked(s) {
			rest = append(rest, s)
		}
	}
	if refusal != nil {
		rest = sends
	}
	ow.mu.Unlock()
	ow.signal()
	for _, s := range rest {
		err := refusal
		if err == nil {
			err = &im.Error{Code: im.CodeOverloaded, RetryAfter: 200 * time.Millisecond}
		}
		s.answer(Result{Err: err}, k)
	}
	return true
}

// bodySize is what a user's body takes, in bytes.
func bodySize(m *petrelv1.Message) int {
	switch body := m.Body.(type) {
	case *petrelv1.Message_Text:
		return len(body.Text)
	case *petrelv1.Message_Data:
		return len(body.Data)
	}
	return len(m.GetEdit().GetText()) + len(m.GetEdit().GetData())
}

func refusalOf(err error) *im.Error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrFull):
		return &im.Error{Code: im.CodeDiskFull, RetryAfter: 5 * time.Second}
	default:
		return &im.Error{Code: im.CodeStoreStalled, RetryAfter: time.Second}
	}
}

// enqueueLocked reports false when a bound is reached.
func (ow *Owner) enqueueLocked(s *Send) bool {
	c := ow.getLocked(s.Conv)
	if c.queueBytes+s.bytes > ow.o.QueueBytes || ow.node.inFlight.Load()+int64(s.bytes) > int64(ow.o.InFlightBytes) {
		return false
	}
	ow.node.inFlight.Add(int64(s.bytes))
	ow.waiting++
	c.queueBytes += s.bytes
	c.queue = append(c.queue, s)
	ow.activateLocked(c)
	return true
}

// activateLocked puts an idle conversation with work into the ring.
func (ow *Owner) activateLocked(c *conv) {
	if c.state == idle && len(c.queue) > 0 {
		c.state = ready
		ow.ring = append(ow.ring, c)
	}
}

func (s *Send) answer(r Result, k *fanout.Kicks) {
	switch {
	case s.Origin.Waits():
		s.Origin.Reply(s.ack(r), r.Err, k)
	case s.Done != nil:
		s.Done(r)
	}
}

// ack names the conversation to a sender who named a user.
func (s *Send) ack(r Result) wire.Ack {
	a := wire.Ack{ID: s.Origin.ID, Seq: uint64(r.Seq), TimeMs: r.TimeMs}
	if s.Peer != "" {
		a.Conv = s.Entry.Conv
	}
	return a
}

// take moves the next sends of up to 256 rows or 64 KiB for each conversation,
// 1 MiB in all, round-robin, so that a hot conversation cannot hold up the
// others. It returns one piece of work for each conversation.
func (ow *Owner) take(into []work) []work {
	const maxRows, maxConvBytes, maxBytes = 256, 64 << 10, 1 << 20
	ow.mu.Lock()
	defer ow.mu.Unlock()
	total := 0
	n := len(ow.ring)
	taken := 0
	for taken < n && total < maxBytes {
		c := ow.ring[taken]
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
		c.users++ // until published
		total += bytes
	}
	// The taken ones stay ready, so that the committer alone holds them; settle
	// puts those that have more at the end of the ring.
	ow.ring = ow.ring[:copy(ow.ring, ow.ring[taken:])]
	return into
}

// work is what the committer does for one conversation in one batch.
type work struct {
	c     *conv
	sends []*Send
}

// settle ends the committer's hold on the conversations of a batch. Those whose
// tail is too short get their sends back and go to a loader first.
func (ow *Owner) settle(cm *commit) {
	now := ow.o.Now().Unix()
	ow.mu.Lock()
	defer ow.mu.Unlock()
	for _, sc := range cm.scans {
		for _, s := range sc.sends {
			sc.c.queueBytes += s.bytes
		}
		sc.c.queue = append(slices.Clone(sc.sends), sc.c.queue...)
		sc.c.state = scanning
		ow.node.loaders.add(func() { ow.scan(sc.c, sc.after) })
	}
	for _, w := range cm.work {
		w.c.lastUse = now
		if w.c.state == ready {
			w.c.state = idle
			ow.activateLocked(w.c)
		}
	}
	if len(ow.ring) > 0 {
		ow.signal()
	}
}

// release gives back what the answered sends and the published batch held.
func (ow *Owner) release(done []work, sends, bytes int) {
	ow.mu.Lock()
	defer ow.mu.Unlock()
	for _, w := range done {
		w.c.users--
	}
	ow.node.inFlight.Add(-int64(bytes))
	ow.waiting -= sends
}
