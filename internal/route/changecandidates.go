package route

import (
	"context"
	"sync"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// Candidates returns the indexes in convs of the conversations that may have changed since a position. The
// function since gives this position for each feed. Candidates asks the owners' indexes of changes, and reads no
// conversation. A conversation whose owner does not answer may have changed. Places has the position of each feed
// from before its index was read, without the feeds of owners who did not answer. The caller has put the session
// into the online table before. Spec: P-6.2.
func (c *caller) Candidates(ctx context.Context, a im.Account, convs []im.ConvID,
	since func(store.Feed) im.Pos) ([]int, Places, error) {
	if len(convs) == 0 {
		return nil, nil, nil
	}
	here, err := candidatesHere(ctx, &c.owners, a.Tenant, convs, since)
	if err != nil {
		return nil, nil, conv.Shown(err)
	}
	s := &search{c: c, account: a, convs: convs, since: since, maybe: here.maybe, places: here.places}
	elsewhere := map[im.Node][]int{} // indexes of convs
	for _, i := range here.others {
		if node, _, ok := c.elsewhere(c.convs.FeedOf(convs[i])); ok {
			elsewhere[node] = append(elsewhere[node], i)
		}
	}
	var wg sync.WaitGroup
	for _, list := range elsewhere {
		wg.Go(func() { s.ask(ctx, list) })
	}
	wg.Wait()
	var left []int
	for i, maybe := range s.maybe {
		if maybe {
			left = append(left, i)
		}
	}
	return left, s.places, nil
}

// search is one call of Candidates.
type search struct {
	c       *caller
	account im.Account
	convs   []im.ConvID
	since   func(store.Feed) im.Pos
	maybe   []bool // maybe[i] is about convs[i]; each goroutine writes the elements that it asks about

	mu     sync.Mutex // tier 0; guards places
	places Places
}

// ask asks one node, the owner of all conversations in list.
func (s *search) ask(ctx context.Context, list []int) {
	by := conv.Query{Conv: im.Key{Tenant: s.account.Tenant, Conv: s.convs[list[0]]}, User: s.account.User}
	q := &convpb.FindCandidates{Convs: make([]byte, 0, len(list)*len(im.ConvID{}))}
	asked := map[store.Feed]bool{}
	for _, i := range list {
		q.Convs = append(q.Convs, s.convs[i][:]...)
		if f := s.c.convs.FeedOf(s.convs[i]); !asked[f] {
			asked[f] = true
			q.Since = append(q.Since, &storepb.FeedPos{Feed: uint32(f), Pos: uint64(s.since(f))})
		}
	}
	a, err := request[convpb.FindCandidates, convpb.Candidates](ctx, s.c, s.c.convs.FeedOf(s.convs[list[0]]), by, q)
	answered := err == nil && len(a.Maybe) == (len(list)+7)/8
	for at, i := range list {
		s.maybe[i] = !answered || a.Maybe[at/8]&(1<<(at%8)) != 0
	}
	if !answered {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range a.Feeds {
		s.places.note(store.Feed(f.Feed), im.Pos(f.Pos))
	}
}

// serveCandidates answers FindCandidates of another node.
func serveCandidates(ctx context.Context, o *owners, by conv.Query,
	q *convpb.FindCandidates) (*convpb.Candidates, error) {
	const size = len(im.ConvID{})
	if len(q.Convs)%size != 0 {
		return nil, im.Errorf(im.CodeInvalid, "a conversation's id has %d bytes", size)
	}
	convs := make([]im.ConvID, len(q.Convs)/size)
	for i := range convs {
		copy(convs[i][:], q.Convs[i*size:])
	}
	since := map[store.Feed]im.Pos{}
	for _, f := range q.Since {
		since[store.Feed(f.Feed)] = im.Pos(f.Pos)
	}
	here, err := candidatesHere(ctx, o, by.Conv.Tenant, convs, func(f store.Feed) im.Pos { return since[f] })
	if err != nil {
		return nil, err
	}
	a := &convpb.Candidates{Maybe: make([]byte, (len(convs)+7)/8)}
	for i, maybe := range here.maybe {
		if maybe {
			a.Maybe[i/8] |= 1 << (i % 8)
		}
	}
	for f, pos := range here.places {
		a.Feeds = append(a.Feeds, &storepb.FeedPos{Feed: uint32(f), Pos: uint64(pos)})
	}
	return a, nil
}

// foundHere is this node's part of an answer: which conversations may have changed,
// which of them it does not own, and the positions of the feeds that it owns.
type foundHere struct {
	maybe  []bool
	others []int // indexes of the conversations that it does not own
	places Places
}

func candidatesHere(ctx context.Context, o *owners, t im.Tenant, convs []im.ConvID,
	since func(store.Feed) im.Pos) (*foundHere, error) {
	var asked [im.Partitions]bool
	feeds := map[store.Feed]bool{}
	for i := range convs {
		if p := im.PartitionOf(convs[i]); !asked[p] {
			asked[p] = true
			feeds[o.convs.FeedOf(convs[i])] = true
		}
	}
	mine, err := o.confirmFeeds(ctx, feeds)
	if err != nil {
		return nil, err
	}
	s := &foundHere{maybe: make([]bool, len(convs)), places: Places{}}
	for f, ow := range mine { // positions are read before the indexes
		s.places[f] = ow.Published()
	}
	var of [im.Partitions]struct {
		index *conv.ChangeIndex
		since im.Pos
	}
	for i, id := range convs {
		p := im.PartitionOf(id)
		x := &of[p]
		if asked[p] { // the first one of this partition
			asked[p] = false
			if f := o.convs.FeedOf(id); mine[f] != nil {
				x.index, x.since = mine[f].Changes(), since(f)
			}
		}
		s.maybe[i] = x.index == nil || x.index.MayHaveChanged(im.Key{Tenant: t, Conv: id}, x.since)
		if x.index == nil {
			s.others = append(s.others, i)
		}
	}
	return s, nil
}
