package bustest

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/petrel-im/petrel/internal/bus"
	"github.com/petrel-im/petrel/internal/im"
)

// Rules say what a LossyBus does to the messages, requests and answers that its node sends to others. An answer
// is not doubled. Messages to the node itself always arrive.
type Rules struct {
	Seed uint64 // of the dice; the same calls in the same order meet the same fate

	Lose      float64       // probability 0..1 of being lost
	Duplicate float64       // of arriving a second time, each with a delay of its own
	Delay     float64       // of arriving late, so behind what is sent next
	MaxDelay  time.Duration // of a late one, drawn evenly from 0; 0: 50 ms

	// Drop, if set, is asked about each message that the other rules do not lose; true loses it. It is for
	// tests that lose exactly one.
	Drop func(to im.Node, s bus.Subject, payload []byte) bool
}

// LossyBus is a bus that keeps no more than the contract: see Lossy.
type LossyBus struct {
	bus.Bus

	Lost atomic.Uint64 // messages, requests and answers

	ended context.Context // ends with Run
	end   context.CancelFunc

	mu    sync.Mutex // tier 0; guards the fields below
	rules Rules
	dice  *rand.Rand
	cut   map[im.Node]bool
	late  map[*time.Timer]bool // nil: Run has ended
	sends sync.WaitGroup       // late messages under way
}

// Lossy wraps the bus of one node. By the rules r, messages that the node sends are lost, doubled
// or late.
func Lossy(b bus.Bus, r Rules) *LossyBus {
	l := &LossyBus{Bus: b, cut: map[im.Node]bool{}, late: map[*time.Timer]bool{}}
	l.ended, l.end = context.WithCancel(context.Background())
	l.SetRules(r)
	return l
}

// SetRules changes the rules for what is sent from now on.
func (l *LossyBus) SetRules(r Rules) {
	if r.MaxDelay == 0 {
		r.MaxDelay = 50 * time.Millisecond
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rules, l.dice = r, rand.New(rand.NewPCG(r.Seed, r.Seed))
}

// Cut makes the bus lose everything that goes to a node, or ends that. It cuts one direction only.
func (l *LossyBus) Cut(to im.Node, cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut[to] = cut
}

// fate draws the delays of the copies of a message; no copies: it is lost.
func (l *LossyBus) fate(to im.Node, s bus.Subject, payload []byte) []time.Duration {
	if to == l.Self() {
		return []time.Duration{0}
	}
	l.mu.Lock()
	r, cut := l.rules, l.cut[to]
	lose, dup := l.dice.Float64() < r.Lose, l.dice.Float64() < r.Duplicate
	copies := make([]time.Duration, 1, 2)
	if dup {
		copies = copies[:2]
	}
	for i := range copies {
		if l.dice.Float64() < r.Delay {
			copies[i] = time.Duration(l.dice.Int64N(int64(r.MaxDelay)))
		}
	}
	l.mu.Unlock()
	if cut || lose || r.Drop != nil && r.Drop(to, s, payload) {
		l.Lost.Add(1)
		return nil
	}
	return copies
}

// after calls f at once if d is 0, otherwise after d, unless Run has ended by then.
func (l *LossyBus) after(d time.Duration, f func()) {
	if d == 0 {
		f()
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.late == nil {
		return
	}
	l.sends.Add(1)
	var t *time.Timer
	t = time.AfterFunc(d, func() {
		defer l.sends.Done()
		l.mu.Lock()
		delete(l.late, t)
		l.mu.Unlock()
		f()
	})
	l.late[t] = true
}

// Send implements bus.Bus.
func (l *LossyBus) Send(to im.Node, s bus.Subject, payload []byte) error {
	if len(payload) > bus.MaxMessage {
		return l.Bus.Send(to, s, payload)
	}
	var err error
	for _, d := range l.fate(to, s, payload) {
		if d == 0 {
			err = l.Bus.Send(to, s, payload)
			continue
		}
		p := append([]byte(nil), payload...)
		l.after(d, func() { _ = l.Bus.Send(to, s, p) }) // the sender has its result already
	}
	return err
}

// Request implements bus.Bus. A doubled one runs the handler twice.
func (l *LossyBus) Request(ctx context.Context, to im.Node, s bus.Subject, payload []byte) ([]byte, error) {
	if len(payload) > bus.MaxMessage {
		return l.Bus.Request(ctx, to, s, payload)
	}
	copies := l.fate(to, s, payload)
	switch {
	case len(copies) == 0:
		<-ctx.Done()
		return nil, ctx.Err()
	case len(copies) == 2:
		p := append([]byte(nil), payload...)
		l.after(max(copies[1], 1), func() {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(l.ended, cancel)()
			_, _ = l.Bus.Request(ctx, to, s, p) // the asker has the first answer
		})
	}
	select {
	case <-time.After(copies[0]):
	case <-ctx.Done():
	}
	return l.Bus.Request(ctx, to, s, payload)
}

// Handle implements bus.Bus.
func (l *LossyBus) Handle(s bus.Subject, h bus.Handler) {
	l.Bus.Handle(s, func(from im.Node, payload []byte, reply func([]byte)) {
		if reply == nil {
			h(from, payload, nil)
			return
		}
		h(from, payload, func(r []byte) {
			if copies := l.fate(from, s, r); len(copies) > 0 {
				l.after(copies[0], func() { reply(r) })
			}
		})
	})
}

// Run implements bus.Bus. Delayed messages that are still waiting when it ends are lost.
func (l *LossyBus) Run(ctx context.Context) error {
	err := l.Bus.Run(ctx)
	l.end()
	l.mu.Lock()
	for t := range l.late {
		if t.Stop() {
			l.sends.Done()
		}
	}
	l.late = nil
	l.mu.Unlock()
	l.sends.Wait()
	return err
}
