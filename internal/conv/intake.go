package conv

import (
	"slices"

	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
)

// intake takes the sends of one feed, and queues them for its committer. It takes the
// signals too.
type intake struct {
	mem       *memory
	fetch     *fetcher
	queues    *queues
	examiner  *examiner
	signaller *signaller
	node      *node
	store     store.Store
}

// Submit queues sends, all of them for the feed, and answers at once those that it cannot queue. Submit returns
// false, and takes none, when the feed is given away or lost.
func (in *intake) Submit(sends []*Send, k *fanout.WakeUps) bool {
	var refusal *im.Error
	if err := in.store.Writable(); err != nil {
		refusal = Refusal(err)
	}
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
	in.queues.wakeCommitter()
	if refusal == nil && len(rest) > 0 {
		refusal = errBusy()
	}
	if refusal != nil {
		in.node.refuseAll(rest, refusal, k)
	}
	return true
}

// Waiting returns how many sends have no answer yet.
func (in *intake) Waiting() int { return in.queues.Waiting() }

// enqueueLocked queues s, or has its sender examined first. It reports false when a bound is reached.
func (in *intake) enqueueLocked(s *Send) bool {
	c := in.mem.convs[s.Conv]
	s.bytes = s.Size()
	if in.examiner.mustExamineLocked(c, s) {
		return in.examiner.examineLocked(s)
	}
	if c == nil {
		if c = in.fetch.getLocked(s.Conv); c == nil {
			return false
		}
	}
	return in.queues.enqueueLocked(c, s)
}

// Signal takes a signal for a conversation of this feed, gives it the published head, and queues it for
// delivery. It never waits: if the conversation is being loaded, the signal is kept until then. A signal of a
// user who may not signal is dropped without an answer. Signal returns false when the feed is given away or
// lost.
//
// The head is taken on the goroutine that has read the signal from its connection or from its node, or by the
// loader before it lets the queued sends go. So later sends of the same session get seqs above this head. If
// the head were taken at the delivery, a client could not recognize a typing signal that is older than a
// message which it already has. Spec: P-13.1, P-13.3.
func (in *intake) Signal(s *Signal) bool {
	in.mem.mu.Lock()
	defer in.mem.mu.Unlock()
	if in.mem.sealed {
		return false
	}
	c := in.fetch.getLocked(s.Key)
	switch {
	case c == nil: // memory has no room
		in.node.signals.dropped.Add(1)
	case c.state == loading:
		// The signal waits for the load; signaller.loadedLocked queues it before a waiting send can get a
		// seq.
		i := slices.IndexFunc(c.signals, func(x *Signal) bool { return x.matter() == s.matter() })
		switch {
		case i >= 0:
			c.signals[i] = s
		case len(c.signals) < maxSignalsLoading:
			c.signals = append(c.signals, s)
		default:
			in.node.signals.dropped.Add(1)
		}
	default:
		c.lastUse = in.mem.now().Unix()
		in.signaller.signalLocked(c, s)
	}
	return true
}
