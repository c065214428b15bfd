package petrel

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// Subscription gathers changes for one reader. A slow reader gets fewer, larger changes and misses nothing:
// at most one name for each conversation is held.
type Subscription struct {
	c     *Client
	ready chan struct{} // capacity 1; a token means that Take has something

	mu      sync.Mutex // tier 0; guards pending
	pending Change
}

// Subscribe begins to gather changes. The first Take names everything present. Close ends it.
func (c *Client) Subscribe() *Subscription {
	s := &Subscription{c: c, ready: make(chan struct{}, 1)}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.subs[s] = struct{}{}
	all := Change{List: true, Status: true, Account: true, Unread: true, Signals: true, Presence: true,
		Profiles: true, Pending: true}
	for id := range c.core.convs {
		all.touch(id)
	}
	s.add(&all)
	return s
}

func (s *Subscription) add(ch *Change) {
	s.mu.Lock()
	s.pending.merge(ch)
	s.mu.Unlock()
	signal(s.ready)
}

// Ready has a token when Take has something to return.
func (s *Subscription) Ready() <-chan struct{} { return s.ready }

// Take returns the changes since the last Take; it does not wait.
func (s *Subscription) Take() Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	ch := s.pending
	s.pending = Change{}
	ch.Conversations = slices.Sorted(maps.Keys(ch.convs))
	ch.convs = nil
	return ch
}

// Next waits until something has changed, and takes it. The error is that of ctx.
func (s *Subscription) Next(ctx context.Context) (Change, error) {
	for {
		select {
		case <-ctx.Done():
			return Change{}, ctx.Err()
		case <-s.ready:
		}
		if ch := s.Take(); !ch.Empty() {
			return ch, nil
		}
	}
}

// Close ends the subscription.
func (s *Subscription) Close() {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	delete(s.c.subs, s)
}
