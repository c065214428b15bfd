package petrel

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// Change names what changed since it was last asked for. It holds no
// contents: read those from the client, which has the newest.
type Change struct {
	Conversations []string // ids, sorted; their messages, cursors, titles, or who is typing
	List          bool     // conversations came or went
	Status        bool     // see Client.Status
	Account       bool     // settings or devices of the user: an entry of the inbox
	Unread        bool     // see Client.Unread
	Signals       bool     // see Client.Signals
	Presence      bool     // see Client.Presence

	convs map[string]struct{}
}

// Empty tells whether nothing changed.
func (ch *Change) Empty() bool {
	return len(ch.Conversations)+len(ch.convs) == 0 && !ch.List && !ch.Status && !ch.Account && !ch.Unread && !ch.Signals && !ch.Presence
}

func (ch *Change) touch(conv string) {
	if ch.convs == nil {
		ch.convs = map[string]struct{}{}
	}
	ch.convs[conv] = struct{}{}
}

// merge adds what other says.
func (ch *Change) merge(other *Change) {
	for conv := range other.convs {
		ch.touch(conv)
	}
	ch.List = ch.List || other.List
	ch.Status = ch.Status || other.Status
	ch.Account = ch.Account || other.Account
	ch.Unread = ch.Unread || other.Unread
	ch.Signals = ch.Signals || other.Signals
	ch.Presence = ch.Presence || other.Presence
}

// Subscription gathers what changes for one reader. A reader that is slow gets
// fewer, larger changes and misses nothing: at most one name for each
// conversation is held.
type Subscription struct {
	c     *Client
	ready chan struct{} // capacity 1; a token means that Take has something

	mu      sync.Mutex // tier 0; guards pending
	pending Change
}

// Subscribe begins to gather changes. The first Take names everything that is
// there. Close ends it.
func (c *Client) Subscribe() *Subscription {
	s := &Subscription{c: c, ready: make(chan struct{}, 1)}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.subs[s] = struct{}{}
	all := Change{List: true, Status: true, Account: true, Unread: true, Signals: true, Presence: true}
	for id := range c.convs {
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

// Take is what has changed since the last Take; it does not wait.
func (s *Subscription) Take() Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	ch := s.pending
	s.pending = Change{}
	ch.Conversations = slices.Sorted(maps.Keys(ch.convs))
	ch.convs = nil
	return ch
}

// Next waits until something has changed and takes it. The error is that of
// ctx.
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
