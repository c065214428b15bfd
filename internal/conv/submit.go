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

	bytes int
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

// Submit queues sends; those of one caller to one conversation keep their
// order. What cannot be queued is answered at once. k gathers the wake-ups.
//
// Codes, all unsettled: overloaded, disk_full, store_stalled, draining.
func (cs *Convs) Submit(sends []*Send, k *fanout.Kicks) {
	refusal := refusalOf(cs.store.Writable())
	cs.mu.Lock()
	rest := sends[:0]
	for _, s := range sends {
		s.bytes = overhead + bodySize(&s.Entry)
		if refusal == nil && !cs.enqueueLocked(s) {
			rest = append(rest, s)
		}
	}
	if refusal != nil {
		rest = sends
	}
	cs.mu.Unlock()
	cs.signal()
	for _, s := range rest {
		err := refusal
		if err == nil {
			err = &im.Error{Code: im.CodeOverloaded, RetryAfter: 200 * time.Millisecond}
		}
		s.answer(Result{Err: err}, k)
	}
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
func (cs *Convs) enqueueLocked(s *Send) bool {
	c := cs.getLocked(s.Conv)
	if c.queueBytes+s.bytes > cs.o.QueueBytes || cs.inFlight+s.bytes > cs.o.InFlightBytes {
		return false
	}
	cs.inFlight += s.bytes
	cs.waiting++
	c.queueBytes += s.bytes
	c.queue = append(c.queue, s)
	cs.activateLocked(c)
	return true
}

// activateLocked puts an idle conversation with work into the ring.
func (cs *Convs) activateLocked(c *conv) {
	if c.state == idle && len(c.queue) > 0 {
		c.state = ready
		cs.ring = append(cs.ring, c)
	}
}

func (s *Send) answer(r Result, k *fanout.Kicks) {
	switch {
	case s.Origin.Out != nil:
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
func (cs *Convs) take(into []work) []work {
	const maxRows, maxConvBytes, maxBytes = 256, 64 << 10, 1 << 20
	cs.mu.Lock()
	defer cs.mu.Unlock()
	total := 0
	n := len(cs.ring)
	taken := 0
	for taken < n && total < maxBytes {
		c := cs.ring[taken]
		taken++
		i, bytes := 0, 0
		for i < len(c.queue) && i < maxRows && (i == 0 || bytes+c.queue[i].bytes <= maxConvBytes) {
			bytes += c.queue[i].bytes
			i++
		}
		into = append(into, work{c, c.queue[:i:i]})
		c.queue = c.queue[i:]
		c.queueBytes -= bytes
		c.users++ // until published
		total += bytes
	}
	// The taken ones stay ready, so that the committer alone holds them; settle
	// puts those that have more at the end of the ring.
	cs.ring = cs.ring[:copy(cs.ring, cs.ring[taken:])]
	return into
}

// work is what the committer does for one conversation in one batch.
type work struct {
	c     *conv
	sends []*Send
}

// settle ends the committer's hold on the conversations of a batch. Those whose
// tail is too short get their sends back and go to a loader first.
func (cs *Convs) settle(cm *commit) {
	now := cs.o.Now().Unix()
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, sc := range cm.scans {
		for _, s := range sc.sends {
			sc.c.queueBytes += s.bytes
		}
		sc.c.queue = append(slices.Clone(sc.sends), sc.c.queue...)
		sc.c.state = scanning
		cs.addJobLocked(func() { cs.scan(sc.c, sc.after) })
	}
	for _, w := range cm.work {
		w.c.lastUse = now
		if w.c.state == ready {
			w.c.state = idle
			cs.activateLocked(w.c)
		}
	}
	if len(cs.ring) > 0 {
		cs.signal()
	}
}

// release gives back what the answered sends and the published batch held.
func (cs *Convs) release(done []work, sends, bytes int) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, w := range done {
		w.c.users--
	}
	cs.inFlight -= bytes
	cs.waiting -= sends
}
