package conv

import (
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
)

// intake takes the sends of one feed, and queues them for its committer.
type intake struct {
	mem       *memory
	fetch     *fetcher
	queues    *queues
	outsiders *outsiders
	store     store.Store
}

// Submit queues sends, all of them for the feed. What cannot be queued is
// answered at once. It reports false, and takes none, when the feed is given
// away or lost.
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
	in.queues.signal()
	if refusal == nil && len(rest) > 0 {
		refusal = errBusy()
	}
	AnswerAll(rest, refusal, k)
	return true
}

// enqueueLocked reports false when a bound is reached.
func (in *intake) enqueueLocked(s *Send) bool {
	c := in.fetch.getLocked(s.Conv)
	if c == nil {
		return false
	}
	s.bytes = s.Size()
	if c.mustExamineLocked(s) {
		return in.outsiders.examineLocked(c, s)
	}
	return in.queues.enqueueLocked(c, s)
}
