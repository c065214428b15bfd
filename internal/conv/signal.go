package conv

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/rate"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/wake"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Typing is the kind of the signals by which clients show that a person writes.
const Typing = "typing"

const (
	// LargeSignals is how many members a conversation may have before its signals go
	// only to sessions that have it in their focus.
	LargeSignals = 100

	maxSignalsLoading = 16   // of one conversation, until it is loaded
	maxSignals        = 1024 // of all conversations, until they are delivered
)

// Signal is news of the moment in a conversation, such as typing. It is not stored, and nobody
// waits for an answer.
type Signal struct {
	Key im.Key
	// the sender's node sets its time; the owner's node sets its id, and the Owner its head
	Signal *petrelv1.Signal
	Sender fanout.Asker
}

// matter identifies signals that replace each other: a later one of the same matter takes the place
// of an undelivered one.
type matter struct {
	conv       im.Key
	from, kind string
}

func (s *Signal) matter() matter { return matter{s.Key, s.Signal.From, s.Signal.Kind} }

// signalRates limits the rate of the signals of a conversation.
type signalRates struct{ typing, others rate.Bucket }

// outgoing is a signal that waits for delivery. Its recipients are chosen at the delivery.
type outgoing struct {
	feed       store.Feed
	epoch      im.Epoch // of the Owner that has taken it
	recipients func() (*fanout.Signal, []im.User)
}

// signals queues the signals of all Owners of a node. One goroutine delivers them: the walk through
// the members of a large group must hold up neither a committer nor an event loop.
type signals struct {
	ready   chan struct{} // capacity 1; a token: there is something to deliver
	dropped atomic.Uint64 // not delivered: there were too many, or the feed may be elsewhere

	mu     sync.Mutex // tier 0; guards the fields below
	queued map[matter]outgoing
	order  []matter // of queued, the oldest first
}

// add queues a signal, in the place of an earlier one of the same matter. If there are too many, it
// drops the new one.
func (g *signals) add(m matter, s outgoing) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, replaces := g.queued[m]; !replaces {
		if len(g.order) >= maxSignals {
			g.dropped.Add(1)
			return
		}
		g.order = append(g.order, m)
	}
	if g.queued == nil {
		g.queued = map[matter]outgoing{}
	}
	g.queued[m] = s
	wake.Set(g.ready)
}

// take returns the queued signals, the oldest first.
func (g *signals) take() []outgoing {
	g.mu.Lock()
	defer g.mu.Unlock()
	list := make([]outgoing, len(g.order))
	for i, m := range g.order {
		list[i] = g.queued[m]
	}
	g.queued, g.order = nil, nil
	return list
}

// run delivers the queued signals until ctx ends. owned is Convs.confirmAll.
//
// A node that stood still may have lost a feed meanwhile, and the next owner may have removed members. So run
// asks the store, once for all waiting signals, before it chooses the recipients. While the store does not
// answer, signals reach nobody. Spec: P-8.3.
func (g *signals) run(ctx context.Context, by *fanout.Signals,
	owned func(map[store.Feed]bool) (map[store.Feed]im.Epoch, error)) {
	for {
		list := g.take()
		if len(list) == 0 {
			select {
			case <-g.ready:
				continue
			case <-ctx.Done():
				return
			}
		}
		feeds := map[store.Feed]bool{}
		for _, s := range list {
			feeds[s.feed] = true
		}
		epochs, err := owned(feeds)
		for _, s := range list {
			if err != nil || epochs[s.feed] != s.epoch {
				g.dropped.Add(1)
				continue
			}
			by.Deliver(s.recipients())
			runtime.Gosched() // messages first
		}
	}
}
