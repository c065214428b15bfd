package conv

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/petrel-im/petrel/internal/bus/stream"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Ask names a conversation of a user's list, of which a sync wants to know what
// is new.
type Ask struct {
	Conv   im.ConvID
	Kind   petrelv1.ConvKind
	Peer   string // of a direct one
	Title  string // told to a user who has left
	Left   bool
	Always bool   // it is told whether or not something is new
	Since  im.Pos // of its feed, up to which the user knows everything
}

// News is what is new of one Ask; nil: nothing.
type News = *petrelv1.ConvState

// Places are positions of feeds.
type Places map[store.Feed]im.Pos

// FeedOf is the feed of a conversation, for Places.
func (cs *Convs) FeedOf(c im.ConvID) store.Feed { return cs.store.FeedOf(im.PartitionOf(c)) }

// News tells a user what is new in some conversations, with the newest so many
// messages of each; and where the feeds of these conversations were before:
// what moves meanwhile is told again. Each node is asked once. The caller has
// put the session into the online table before. Spec: P-6.2, P-6.3.
func (cs *Convs) News(ctx context.Context, a im.Account, asks []Ask, newest int) ([]News, Places, error) {
	news, places := make([]News, len(asks)), Places{}
	left := make([]int, len(asks)) // indexes of asks that nobody has answered
	for i := range left {
		left[i] = i
	}
	for {
		next, err := cs.newsOnce(ctx, a, asks, left, newest, news, places)
		if err != nil || len(next) == 0 {
			return news, places, told(err)
		}
		left = next
		if err := cs.await(ctx, cs.FeedOf(asks[left[0]].Conv)); err != nil {
			return nil, nil, err
		}
	}
}

// newsOnce asks the owners that are known for what is left, and returns what is
// left then.
func (cs *Convs) newsOnce(ctx context.Context, a im.Account, asks []Ask, left []int, newest int, news []News, places Places) (still []int, err error) {
	var here []int
	elsewhere := map[im.Node][]int{}
	mine, err := cs.confirmAll(ctx, asks, left, places)
	if err != nil {
		return nil, err
	}
	for _, i := range left {
		f := cs.FeedOf(asks[i].Conv)
		ow := mine[f]
		if ow == nil {
			node := im.Node("")
			if cs.o.Cluster != nil {
				if n, _, ok := cs.o.Cluster.Route(f); ok {
					node = n
				}
			}
			elsewhere[node] = append(elsewhere[node], i)
			continue
		}
		here = append(here, i)
	}
	err = eachAtOnce(here, func(i int) (err error) {
		news[i], err = mine[cs.FeedOf(asks[i].Conv)].news(ctx, a, &asks[i], newest)
		return err
	})
	if err != nil {
		return nil, err
	}
	if cs.o.Cluster == nil && len(elsewhere) > 0 {
		return nil, &im.Error{Code: im.CodeDraining}
	}
	var wg sync.WaitGroup
	var mu sync.Mutex // tier 0; guards places, still and err
	for node, list := range elsewhere {
		if node == "" || node == cs.o.Cluster.Self() {
			still = append(still, list...)
			continue
		}
		wg.Go(func() {
			r, failed := cs.askNews(ctx, node, a, asks, list, newest)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.Is(failed, errNotOwner):
				still = append(still, list...)
			case failed != nil:
				err = failed
			default:
				still = append(still, take(r, list, news, places)...)
			}
		})
	}
	wg.Wait()
	return still, err
}

// newsAtOnce is how many conversations of one question are read at once. Those
// that are not in memory wait for the store, most of the time for its network.
const newsAtOnce = 16

// eachAtOnce calls f for every element of list, newsAtOnce at a time, until one
// fails.
func eachAtOnce(list []int, f func(i int) error) error {
	var g errgroup.Group
	var next atomic.Int64
	for range min(newsAtOnce, len(list)) {
		g.Go(func() error {
			for {
				n := int(next.Add(1)) - 1
				if n >= len(list) {
					return nil
				}
				if err := f(list[n]); err != nil {
					next.Store(int64(len(list)))
					return err
				}
			}
		})
	}
	return g.Wait()
}

// confirmAll returns the Owners here of the conversations left, and notes where
// their feeds are. The positions are read before the heads.
func (cs *Convs) confirmAll(ctx context.Context, asks []Ask, left []int, places Places) (map[store.Feed]*Owner, error) {
	mine := map[store.Feed]*Owner{}
	var feeds []store.Feed
	for _, i := range left {
		f := cs.FeedOf(asks[i].Conv)
		if _, seen := mine[f]; seen {
			continue
		}
		ow := cs.owners[f].Load()
		if ow != nil && ow.isLost() {
			ow = nil
		}
		if mine[f] = ow; ow != nil {
			feeds = append(feeds, f)
		}
	}
	if cs.o.Cluster != nil && len(feeds) > 0 {
		epochs, err := cs.o.Cluster.Mine(ctx, feeds)
		if err != nil {
			return nil, err
		}
		for i, f := range feeds {
			if mine[f].epoch != epochs[i] {
				mine[f].loseAll(nil, store.ErrStale)
				mine[f] = nil
			}
		}
	}
	for f, ow := range mine {
		if ow != nil {
			places.note(f, ow.Published())
		}
	}
	return mine, nil
}

// note keeps the lowest position of a feed.
func (p Places) note(f store.Feed, pos im.Pos) {
	if was, ok := p[f]; !ok || pos < was {
		p[f] = pos
	}
}

// askNews asks one node.
func (cs *Convs) askNews(ctx context.Context, node im.Node, a im.Account, asks []Ask, list []int, newest int) (*convpb.NewsResult, error) {
	n := &convpb.News{Newest: uint32(newest), Asks: make([]*convpb.Ask, len(list))}
	for i, at := range list {
		k := &asks[at]
		n.Asks[i] = &convpb.Ask{Conv: k.Conv[:], Kind: uint32(k.Kind), Peer: k.Peer, Title: k.Title, Left: k.Left, Always: k.Always, Since: uint64(k.Since)}
	}
	first := asks[list[0]].Conv
	r, err := cs.request(ctx, cs.FeedOf(first), &convpb.Call{Tenant: uint32(a.Tenant), Conv: first[:], User: string(a.User), Op: &convpb.Call_News{News: n}})
	if err != nil {
		return nil, err
	}
	if len(r.GetNews().GetItems()) != len(list) {
		return nil, errNotOwner
	}
	return r.GetNews(), nil
}

// take puts a node's answers in their places, and returns what it left.
func take(r *convpb.NewsResult, list []int, news []News, places Places) (still []int) {
	for i, at := range list {
		if r.Items[i].NotOwner {
			still = append(still, at)
			continue
		}
		news[at] = r.Items[i].State
	}
	for _, f := range r.Feeds {
		places.note(store.Feed(f.Feed), im.Pos(f.Pos))
	}
	return still
}

// serveNews answers askNews.
func (cs *Convs) serveNews(ctx context.Context, c *convpb.Call, n *convpb.News) (*convpb.Reply, error) {
	a := im.Account{Tenant: im.Tenant(c.Tenant), User: im.User(c.User)}
	asks, all := make([]Ask, len(n.Asks)), make([]int, len(n.Asks))
	for i, k := range n.Asks {
		if len(k.Conv) != len(im.ConvID{}) {
			return nil, im.Errorf(im.CodeInvalid, "a conversation's id has 16 bytes")
		}
		asks[i] = Ask{Conv: im.ConvID(k.Conv), Kind: petrelv1.ConvKind(k.Kind), Peer: k.Peer, Title: k.Title, Left: k.Left, Always: k.Always, Since: im.Pos(k.Since)}
		all[i] = i
	}
	places := Places{}
	mine, err := cs.confirmAll(ctx, asks, all, places)
	if err != nil {
		return nil, err
	}
	r := &convpb.NewsResult{Items: make([]*convpb.Item, len(asks))}
	err = eachAtOnce(all, func(i int) error {
		ow := mine[cs.FeedOf(asks[i].Conv)]
		if ow == nil {
			r.Items[i] = &convpb.Item{NotOwner: true}
			return nil
		}
		state, err := ow.news(ctx, a, &asks[i], int(n.Newest))
		r.Items[i] = &convpb.Item{State: state}
		return err
	})
	if err != nil {
		return nil, err
	}
	for f, pos := range places {
		r.Feeds = append(r.Feeds, &storepb.FeedPos{Feed: uint32(f), Pos: uint64(pos)})
	}
	return &convpb.Reply{Result: &convpb.Reply_News{News: r}}, nil
}

func markOf(m *convpb.Mark) stream.Mark { return stream.Mark{Stream: m.Stream, Num: m.Num} }

// news answers one Ask; nil: nothing is new.
func (ow *Owner) news(ctx context.Context, a im.Account, k *Ask, newest int) (News, error) {
	changed, err := ow.changedSince(ctx, a, k)
	if err != nil || !changed {
		return nil, err
	}
	state, err := ow.stateOf(ctx, a, k)
	if err != nil {
		if im.CodeOf(err) == im.CodeNotMember {
			return nil, nil // the conversation decides; the list runs behind it
		}
		return nil, err
	}
	if newest > 0 {
		h, err := historyPage(a, &petrelv1.GetHistory{Conv: k.Conv.String(), Before: math.MaxUint64}, newest, func(key im.Key, r Range) (*Page, error) {
			return ow.History(ctx, key, a.User, r)
		})
		if err != nil {
			return nil, err
		}
		state.Newest = h.Messages
	}
	return state, nil
}

// changedSince tells whether there is news behind the place asked for.
func (ow *Owner) changedSince(ctx context.Context, a im.Account, k *Ask) (bool, error) {
	if k.Always {
		return true, nil
	}
	key := im.Key{Tenant: a.Tenant, Conv: k.Conv}
	if k.Left { // nothing of what comes later is theirs to know
		own, err := ow.CursorOf(ctx, key, a.User)
		return own.Pos > k.Since, err
	}
	pos, err := ow.ChangedAt(ctx, key, a.User, k.other(a.User))
	return pos > k.Since, err
}

// other is the user whose cursors a sync tells beside u's own; empty: nobody's.
func (k *Ask) other(u im.User) im.User {
	if k.Kind != petrelv1.ConvKind_CONV_KIND_DIRECT || k.Peer == string(u) {
		return ""
	}
	return im.User(k.Peer)
}

// stateOf is what a sync says of a conversation.
func (ow *Owner) stateOf(ctx context.Context, a im.Account, k *Ask) (*petrelv1.ConvState, error) {
	key := im.Key{Tenant: a.Tenant, Conv: k.Conv}
	// The cursors before the head: none of them is above it then.
	own, err := ow.CursorOf(ctx, key, a.User)
	if err != nil {
		return nil, err
	}
	other := k.other(a.User)
	var peer Cursor
	if other != "" {
		if peer, err = ow.CursorOf(ctx, key, other); err != nil {
			return nil, err
		}
	}
	st, err := ow.Look(ctx, key, a.User)
	if err != nil {
		return nil, err
	}
	if st.Role == 0 {
		st.Title = k.Title // as it was when they went
	}
	read, err := ow.ReadCounted(ctx, key, a.User, own)
	if err != nil {
		return nil, err
	}
	id := k.Conv.String()
	c := &petrelv1.ConvState{
		Conv: id, Kind: k.Kind, Title: st.Title, Peer: k.Peer, Head: uint64(st.Head), Counted: st.Counted,
		FirstSeq: uint64(st.FirstSeq), Role: st.Role, Left: st.Role == 0, Joined: uint64(st.Joined),
		Delivered: uint64(own.Delivered), Read: uint64(own.Read), ReadCounted: read,
	}
	if peer.Delivered > 0 {
		c.PeerReceipt = &petrelv1.Receipt{Conv: id, User: k.Peer, Delivered: uint64(peer.Delivered), Read: uint64(peer.Read)}
	}
	return c, nil
}
