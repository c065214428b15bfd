package route

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Places are positions of feeds.
type Places map[store.Feed]im.Pos

// note keeps the lowest position of a feed.
func (p Places) note(f store.Feed, pos im.Pos) {
	if was, ok := p[f]; !ok || pos < was {
		p[f] = pos
	}
}

// Changes returns the changed states of some conversations for a user; nil for an unchanged one. The
// Places are positions of their feeds from before the read: the next sync repeats changes that came
// during the read.
//
// In each round it asks every node once, until all conversations have an answer. The caller has put the
// session into the online table before. Spec: P-6.2, P-6.3.
func (c *caller) Changes(ctx context.Context, a im.Account, asks []*convpb.Ask,
	newest conv.Newest) ([]*petrelv1.ConvState, Places, error) {
	s := &changesCall{c: c, account: a, asks: asks, newest: newest, changes: make([]*petrelv1.ConvState, len(asks)),
		places: Places{}}
	left := make([]int, len(asks)) // indexes of asks that nobody has answered
	for i := range left {
		left[i] = i
	}
	for {
		next, err := s.once(ctx, left)
		if err != nil || len(next) == 0 {
			return s.changes, s.places, conv.Shown(err)
		}
		left = next
		if err := c.wait(ctx, c.convs.FeedOf(im.ConvID(asks[left[0]].Conv))); err != nil {
			return nil, nil, err
		}
	}
}

// changesCall is one call of Changes.
type changesCall struct {
	c       *caller
	account im.Account
	asks    []*convpb.Ask
	newest  conv.Newest

	mu      sync.Mutex // tier 0; guards the fields below
	changes []*petrelv1.ConvState
	places  Places
	left    []int
	err     error
}

// once asks the known owners about the conversations with the indexes
// left, and returns the indexes without an answer.
func (s *changesCall) once(ctx context.Context, left []int) ([]int, error) {
	asks := pick(s.asks, left)
	a, err := changesHere(ctx, &s.c.owners, s.account, asks, s.newest)
	if err != nil {
		return nil, err
	}
	s.left = nil
	s.take(a, left)
	elsewhere := map[im.Node][]int{}
	var still []int
	for _, i := range s.left {
		if node, _, ok := s.c.elsewhere(s.feedOf(i)); ok {
			elsewhere[node] = append(elsewhere[node], i)
		} else {
			still = append(still, i)
		}
	}
	s.left = still
	var wg sync.WaitGroup
	for _, list := range elsewhere {
		wg.Go(func() { s.ask(ctx, list) })
	}
	wg.Wait()
	return s.left, s.err
}

func (s *changesCall) feedOf(i int) store.Feed { return s.c.convs.FeedOf(im.ConvID(s.asks[i].Conv)) }

func pick(asks []*convpb.Ask, list []int) []*convpb.Ask {
	picked := make([]*convpb.Ask, len(list))
	for i, at := range list {
		picked[i] = asks[at]
	}
	return picked
}

// ask asks one node, the owner of all conversations in list.
func (s *changesCall) ask(ctx context.Context, list []int) {
	by := conv.Query{Conv: im.Key{Tenant: s.account.Tenant, Conv: im.ConvID(s.asks[list[0]].Conv)},
		User: s.account.User}
	q := &convpb.ListChanges{Newest: uint32(s.newest.Messages), Refs: s.newest.Refs, Notes: s.newest.Notes,
		Mentions: s.newest.Mentions, Asks: pick(s.asks, list)}
	a, err := request[convpb.ListChanges, convpb.Changes](ctx, s.c, s.feedOf(list[0]), by, q)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case errors.Is(err, conv.ErrNotOwner), err == nil && len(a.Changes) != len(list):
		s.left = append(s.left, list...)
	case err != nil:
		s.err = err
	default:
		s.take(a, list)
	}
}

// take stores the answers of one node, and adds the indexes of conversations that it does not own to s.left.
func (s *changesCall) take(a *convpb.Changes, list []int) {
	for i, at := range list {
		if a.Changes[i].NotOwner {
			s.left = append(s.left, at)
			continue
		}
		s.changes[at] = a.Changes[i].State
	}
	for _, f := range a.Feeds {
		s.places.note(store.Feed(f.Feed), im.Pos(f.Pos))
	}
}

// serveChanges answers ListChanges of another node.
func serveChanges(ctx context.Context, o *owners, by conv.Query, q *convpb.ListChanges) (*convpb.Changes, error) {
	for _, ask := range q.Asks {
		if len(ask.Conv) != len(im.ConvID{}) {
			return nil, im.Errorf(im.CodeInvalid, "a conversation's id has 16 bytes")
		}
	}
	return changesHere(ctx, o, im.Account{Tenant: by.Conv.Tenant, User: by.User}, q.Asks,
		conv.Newest{Messages: int(q.Newest), Refs: q.Refs, Notes: q.Notes, Mentions: q.Mentions})
}

// changesHere answers for the conversations that this node owns.
func changesHere(ctx context.Context, o *owners, a im.Account, asks []*convpb.Ask,
	newest conv.Newest) (*convpb.Changes, error) {
	r := &convpb.Changes{Changes: make([]*convpb.Change, len(asks))}
	mine, err := o.confirmAsked(ctx, asks)
	if err != nil {
		return nil, err
	}
	for f, ow := range mine { // positions are read before the heads
		r.Feeds = append(r.Feeds, &storepb.FeedPos{Feed: uint32(f), Pos: uint64(ow.Published())})
	}
	err = eachAtOnce(len(asks), o.readAtOnce(), func(i int) error {
		ow := mine[o.convs.FeedOf(im.ConvID(asks[i].Conv))]
		if ow == nil {
			r.Changes[i] = &convpb.Change{NotOwner: true}
			return nil
		}
		state, err := ow.Changed(ctx, a, asks[i], newest)
		r.Changes[i] = &convpb.Change{State: state}
		return err
	})
	return r, err
}

// confirmAsked returns the confirmed Owners here of some conversations, by feed.
func (o *owners) confirmAsked(ctx context.Context, asks []*convpb.Ask) (map[store.Feed]*conv.Owner, error) {
	feeds := map[store.Feed]bool{}
	for _, ask := range asks {
		feeds[o.convs.FeedOf(im.ConvID(ask.Conv))] = true
	}
	return o.confirmFeeds(ctx, feeds)
}

// readAtOnce returns how many conversations of one question are read at once. In a cluster, reads wait for the
// network of the store. An embedded store needs the processor, which more reads at once would take from messages.
func (o *owners) readAtOnce() int {
	if o.cluster == nil {
		return 2
	}
	return 16
}

// eachAtOnce calls f for 0 to n−1, with atOnce calls at a time, until one fails. After each call it
// yields the processor, so that a question about thousands of conversations does not delay messages.
func eachAtOnce(n, atOnce int, f func(i int) error) error {
	var g errgroup.Group
	var next atomic.Int64
	for range min(atOnce, n) {
		g.Go(func() error {
			for ; ; runtime.Gosched() {
				i := int(next.Add(1)) - 1
				if i >= n {
					return nil
				}
				if err := f(i); err != nil {
					next.Store(int64(n))
					return err
				}
			}
		})
	}
	return g.Wait()
}
