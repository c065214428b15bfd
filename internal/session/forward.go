package session

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
)

// forwards holds forwards until their source is read, and the later sends of the same session to the same
// conversation, which must not pass them. The windows of the sessions bound their number. Spec: P-4.3, P-5.10.
type forwards struct {
	n atomic.Int64 // number of lines; 0: only a forward needs a line

	mu    sync.Mutex // tier 0; guards the field below
	lines map[lineKey][]*conv.Send
}

// lineKey names the line of waiting sends of one session to one conversation.
// As long as the line exists, one worker of the queue of reads serves it.
type lineKey struct {
	s    *Session
	conv im.Key
}

// join puts a send into its line. first is true if it made the line.
// joined is false for a send that need not wait.
func (f *forwards) join(k lineKey, send *conv.Send) (first, joined bool) {
	if !send.Forwards() && f.n.Load() == 0 {
		return false, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	line, there := f.lines[k]
	if !there && !send.Forwards() {
		return false, false
	}
	if !there {
		if f.lines == nil {
			f.lines = map[lineKey][]*conv.Send{}
		}
		f.n.Add(1)
	}
	f.lines[k] = append(line, send)
	return !there, true
}

// take returns the sends of a line, and empties it. If the line is empty already, take removes it.
func (f *forwards) take(k lineKey) []*conv.Send {
	f.mu.Lock()
	defer f.mu.Unlock()
	sends := f.lines[k]
	if len(sends) > 0 {
		f.lines[k] = nil
	} else {
		f.endLocked(k)
	}
	return sends
}

// end ends a line, and returns the sends that were left in it.
func (f *forwards) end(k lineKey) []*conv.Send {
	f.mu.Lock()
	defer f.mu.Unlock()
	sends := f.lines[k]
	f.endLocked(k)
	return sends
}

func (f *forwards) endLocked(k lineKey) {
	if _, there := f.lines[k]; there {
		delete(f.lines, k)
		f.n.Add(-1)
	}
}

// lineUp queues the sends that have to wait, and returns the others. If no worker can serve a line, its sends are
// answered with overloaded.
func (s *Session) lineUp(sends []*conv.Send, k *fanout.WakeUps) []*conv.Send {
	f := &s.hub.forwards
	rest := sends[:0]
	for _, send := range sends {
		key := lineKey{s, send.Conv}
		first, joined := f.join(key, send)
		if !joined {
			rest = append(rest, send)
			continue
		}
		if first && !s.hub.asyncOn(s.queueRead, &s.Out, func(ctx context.Context, k *fanout.WakeUps) {
			s.serveLine(ctx, key, k)
		}) {
			for _, send := range f.end(key) {
				send.Answer(conv.Result{Err: &im.Error{Code: im.CodeOverloaded, RetryAfter: 200 * time.Millisecond}}, k)
			}
		}
	}
	return rest
}

// serveLine reads the source of each forward in a line, and submits the
// sends of the line in their order, until the line is empty.
func (s *Session) serveLine(ctx context.Context, key lineKey, k *fanout.WakeUps) {
	f := &s.hub.forwards
	defer f.end(key) // after a panic, which ends the session
	for sends := f.take(key); len(sends) > 0; sends = f.take(key) {
		ready := sends[:0]
		for _, send := range sends {
			err := s.hub.route.FetchSource(ctx, send)
			if err == nil && send.Source != nil && s.Out.Unconfirmed() { // the ack of a forward has its text
				err = errUnconfirmed
			}
			if err == nil {
				if wait := s.takeStored(len(send.Source.GetText()) + len(send.Source.GetData())); wait > 0 {
					err = &im.Error{Code: im.CodeRateLimited, RetryAfter: wait}
				}
			}
			if err != nil {
				send.Answer(conv.Result{Err: s.hub.clientError(s.Out.Account.User, "forward", err)}, k)
				continue
			}
			ready = append(ready, send)
		}
		s.hub.convs.Submit(ready, k)
		k.Flush()
	}
}
