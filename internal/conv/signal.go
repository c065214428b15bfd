package conv

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/rate"
	"github.com/petrel-im/petrel/internal/signal"
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

// Signal is what a user tells the others in a conversation. Nothing of it is stored, and
// nobody waits for an answer.
type Signal struct {
	Key    im.Key
	Signal *petrelv1.Signal // its head, id and time are set by the Owner
	Sender fanout.Asker
}

// matter is what a signal is about: a later one of the same matter replaces an earlier
// one that is not delivered yet.
type matter struct {
	conv       im.Key
	from, kind string
}

func (s *Signal) matter() matter { return matter{s.Key, s.Signal.From, s.Signal.Kind} }

// signalRates are how many signals a conversation takes.
type signalRates struct{ typing, others rate.Bucket }

// outgoing is a signal that is to be delivered.
type outgoing struct {
	fanout.Signal
	to []im.User
}

// signals are those of all Owners of a node that are to be delivered. One goroutine does
// it: the walk through the members of a large group must hold up neither a committer nor
// an event loop.
type signals struct {
	ready   chan struct{} // capacity 1; a token: there is something to deliver
	dropped atomic.Uint64 // that reached nobody, because there were too many

	mu     sync.Mutex // tier 0; guards the fields below
	queued map[matter]outgoing
	order  []matter // of queued, the oldest first
}

// add queues a signal. An earlier one of the same matter keeps its place, and goes. When
// there are too many, the new one is dropped.
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
	signal.Set(g.ready)
}

// take returns the oldest one.
func (g *signals) take() (s outgoing, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.order) == 0 {
		g.order = nil
		return outgoing{}, false
	}
	m := g.order[0]
	g.order = g.order[1:]
	s = g.queued[m]
	delete(g.queued, m)
	return s, true
}

// run delivers until ctx ends.
func (g *signals) run(ctx context.Context, by *fanout.Signals) {
	for {
		s, ok := g.take()
		if ok {
			by.Deliver(&s.Signal, s.recipients())
			runtime.Gosched() // messages first
			continue
		}
		select {
		case <-g.ready:
		case <-ctx.Done():
			return
		}
	}
}

// recipients are who may get the signal. That somebody is typing is nothing to tell to
// their own devices.
func (s *outgoing) recipients() []im.User {
	if s.Signal.Signal.Kind != Typing {
		return s.to
	}
	return slices.DeleteFunc(slices.Clone(s.to), func(u im.User) bool { return string(u) == s.Signal.Signal.From })
}
