package inbox

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/dchest/siphash"

	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/route"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Syncer answers "what changed since this token".
type Syncer struct {
	Router *route.Router
	Store  store.Store
	Refute func(proof string) // ends the service on all nodes; nil: Store.Refute

	lists lists
}

// pageConvs is how many conversations one page of a sync names.
const pageConvs = 200

// askConvs is how many conversations of a list are asked about at once.
const askConvs = 256

// pageBytes is about how much of newest messages one page holds.
const pageBytes = 256 << 10

// Sync lists the conversations of a user that changed since token, each with
// the newest so many of its messages. The caller has put the session into the
// online table before. Codes: bad_token. Spec: P-6.2, P-6.3.
func (y *Syncer) Sync(ctx context.Context, a im.Account, token []byte, newest int) (*petrelv1.SyncPage, error) {
	t, err := y.open(a, token)
	if err != nil {
		return nil, err
	}
	l, err := y.list(ctx, a)
	if err != nil {
		return nil, err
	}
	if err := y.checkInbox(ctx, a, t, l.head); err != nil {
		return nil, err
	}
	if t.Next == nil {
		t.Next = &storepb.SyncPlace{Inbox: uint64(l.head)}
	}
	page, bytes := &petrelv1.SyncPage{}, 0
	items := l.items
	if t.Resume != "" {
		i, found := slices.BinarySearchFunc(items, t.Resume, func(it item, conv string) int { return strings.Compare(it.conv, conv) })
		if found {
			i++
		}
		items = items[i:]
	}
	for len(items) > 0 && !page.More {
		n := min(len(items), askConvs)
		asks := make([]*convpb.Ask, n)
		for i := range asks {
			asks[i] = items[i].ask(t.Known, y.Router)
		}
		changes, places, err := y.Router.Changes(ctx, a, asks, newest)
		if err != nil {
			return nil, err
		}
		if err := y.checkFeeds(ctx, a, t, places); err != nil {
			return nil, err
		}
		t.Next.Feeds = addPlaces(t.Next.Feeds, places)
		for _, state := range changes {
			if state == nil {
				continue
			}
			if len(page.Convs) == pageConvs || bytes > pageBytes {
				page.More = true
				break
			}
			for _, m := range state.Newest {
				bytes += m.SizeVT()
			}
			page.Convs = append(page.Convs, state)
		}
		items = items[n:]
	}
	if page.More {
		t.Resume = page.Convs[len(page.Convs)-1].Conv
	} else {
		t = &storepb.SyncToken{Known: t.Next}
	}
	page.Token, err = y.seal(a, t)
	return page, err
}

// addPlaces adds the places of feeds that were not asked before.
func addPlaces(feeds []*storepb.FeedPos, places route.Places) []*storepb.FeedPos {
	for f, pos := range places {
		if !slices.ContainsFunc(feeds, func(have *storepb.FeedPos) bool { return have.Feed == uint32(f) }) {
			feeds = append(feeds, &storepb.FeedPos{Feed: uint32(f), Pos: uint64(pos)})
		}
	}
	slices.SortFunc(feeds, func(a, b *storepb.FeedPos) int { return cmp.Compare(a.Feed, b.Feed) })
	return feeds
}

func posOf(p *storepb.SyncPlace, feed store.Feed) im.Pos {
	for _, f := range p.GetFeeds() {
		if f.Feed == uint32(feed) {
			return im.Pos(f.Pos)
		}
	}
	return 0
}

// ask asks what is new of a conversation after a place; nil: everything is.
func (it *item) ask(known *storepb.SyncPlace, r *route.Router) *convpb.Ask {
	return &convpb.Ask{
		Conv: it.id[:], Kind: it.kind, Peer: it.peer, Title: it.title, Left: it.left,
		Always: known == nil || uint64(it.at) > known.Inbox, Since: uint64(posOf(known, r.FeedOf(it.id))),
	}
}

// open reads a token of a. One of another history, from before a repair or a
// restore, counts as none.
func (y *Syncer) open(a im.Account, token []byte) (*storepb.SyncToken, error) {
	t := &storepb.SyncToken{}
	if len(token) == 0 {
		return t, nil
	}
	if err := t.UnmarshalVT(token); err != nil {
		return nil, &im.Error{Code: im.CodeBadToken}
	}
	check := t.Check
	if again, err := y.seal(a, t); err != nil || t.Check != check || !bytes.Equal(again, token) {
		return nil, &im.Error{Code: im.CodeBadToken}
	}
	if t.HistoryId != y.Store.Info().HistoryID {
		return &storepb.SyncToken{}, nil
	}
	return t, nil
}

// seal signs a token for a. All positions in it are published, which means
// durable, so that checkInbox and checkFeeds can take it for proof.
//
// The account is signed too: the inbox of one user is longer than that of
// another, and a token in the wrong hands must prove nothing. SipHash is a keyed
// hash made for signing; 64 bits are enough here, because a forger has to try
// online: at 100,000 tries a second one succeeds once in three million years.
func (y *Syncer) seal(a im.Account, t *storepb.SyncToken) ([]byte, error) {
	info := y.Store.Info()
	if t.HistoryId == 0 {
		t.HistoryId = info.HistoryID
	}
	t.Check = 0
	m, err := t.MarshalVT()
	if err != nil {
		return nil, err
	}
	b := binary.BigEndian.AppendUint32(nil, uint32(a.Tenant))
	b = binary.BigEndian.AppendUint32(b, uint32(len(a.User)))
	b = append(append(b, a.User...), m...)
	s := info.Secret
	t.Check = siphash.Hash(binary.LittleEndian.Uint64(s[:8]), binary.LittleEndian.Uint64(s[8:]), b)
	return t.MarshalVT()
}
