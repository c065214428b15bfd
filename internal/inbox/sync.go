package inbox

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"

	"github.com/dchest/siphash"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Syncer answers "what changed since this token".
type Syncer struct {
	Convs *conv.Convs
	Store store.Info

	lists lists
}

// pageConvs is how many conversations one page of a sync names.
const pageConvs = 200

// pageBytes is about how much of newest messages one page holds.
const pageBytes = 256 << 10

// Sync lists the conversations of a user that changed since token, each with
// the newest so many of its messages. The caller has put the session into the
// online table before. Codes: bad_token. Spec: P-6.2, P-6.3.
func (y *Syncer) Sync(ctx context.Context, a im.Account, token []byte, newest int) (*petrelv1.SyncPage, error) {
	t, err := y.open(token)
	if err != nil {
		return nil, err
	}
	// The position is read before the heads: what moves meanwhile is told again.
	feed, pos := y.Convs.Published()
	l, err := y.list(ctx, a)
	if err != nil {
		return nil, err
	}
	if t.Next == nil {
		t.Next = &storepb.SyncPlace{Inbox: uint64(l.head), Feeds: []*storepb.FeedPos{{Feed: uint32(feed), Pos: uint64(pos)}}}
	}
	page := &petrelv1.SyncPage{}
	bytes := 0
	for _, it := range l.items {
		if t.Resume != "" && it.conv <= t.Resume {
			continue
		}
		if len(page.Convs) == pageConvs || bytes > pageBytes {
			page.More = true
			break
		}
		changed, err := y.changed(ctx, a, it, t.Known, feed)
		if err != nil {
			return nil, err
		}
		if !changed {
			continue
		}
		state, err := y.state(ctx, a, it)
		if err != nil && im.CodeOf(err) == im.CodeNotMember {
			continue // the conversation decides; the list runs behind it
		}
		if err != nil {
			return nil, err
		}
		if newest > 0 {
			h, err := y.Convs.HistoryPage(ctx, a, &petrelv1.GetHistory{Conv: it.conv, Before: math.MaxUint64}, newest)
			if err != nil {
				return nil, err
			}
			state.Newest = h.Messages
			for _, m := range h.Messages {
				bytes += m.SizeVT()
			}
		}
		page.Convs = append(page.Convs, state)
	}
	if page.More {
		t.Resume = page.Convs[len(page.Convs)-1].Conv
	} else {
		t = &storepb.SyncToken{Known: t.Next}
	}
	page.Token, err = y.seal(t)
	return page, err
}

func posOf(p *storepb.SyncPlace, feed store.Feed) uint64 {
	for _, f := range p.GetFeeds() {
		if f.Feed == uint32(feed) {
			return f.Pos
		}
	}
	return 0
}

// changed tells whether there is news of a conversation behind a place.
func (y *Syncer) changed(ctx context.Context, a im.Account, it item, known *storepb.SyncPlace, feed store.Feed) (bool, error) {
	if known == nil || uint64(it.at) > known.Inbox {
		return true, nil
	}
	if it.left { // nothing of what comes later is theirs to know
		own, err := y.Convs.CursorOf(ctx, im.Key{Tenant: a.Tenant, Conv: it.id}, a.User)
		return uint64(own.Pos) > posOf(known, feed), err
	}
	pos, err := y.Convs.ChangedAt(ctx, im.Key{Tenant: a.Tenant, Conv: it.id}, a.User, it.other(a.User))
	return uint64(pos) > posOf(known, feed), err
}

// other is the user whose cursors a sync tells beside u's own; empty: nobody's.
func (it *item) other(u im.User) im.User {
	if it.kind != petrelv1.ConvKind_CONV_KIND_DIRECT || it.peer == string(u) {
		return ""
	}
	return im.User(it.peer)
}

// state is what a sync says of a conversation.
func (y *Syncer) state(ctx context.Context, a im.Account, it item) (*petrelv1.ConvState, error) {
	key := im.Key{Tenant: a.Tenant, Conv: it.id}
	// The cursors before the head: none of them is above it then.
	own, err := y.Convs.CursorOf(ctx, key, a.User)
	if err != nil {
		return nil, err
	}
	other := it.other(a.User)
	var peer conv.Cursor
	if other != "" {
		if peer, err = y.Convs.CursorOf(ctx, key, other); err != nil {
			return nil, err
		}
	}
	st, err := y.Convs.Look(ctx, key, a.User)
	if err != nil {
		return nil, err
	}
	if st.Role == 0 {
		st.Title = it.title // as it was when they went
	}
	read, err := y.Convs.ReadCounted(ctx, key, a.User, own)
	if err != nil {
		return nil, err
	}
	c := &petrelv1.ConvState{
		Conv: it.conv, Kind: it.kind, Title: st.Title, Peer: it.peer, Head: uint64(st.Head), Counted: st.Counted,
		FirstSeq: uint64(st.FirstSeq), Role: st.Role, Left: st.Role == 0, Joined: uint64(st.Joined),
		Delivered: uint64(own.Delivered), Read: uint64(own.Read), ReadCounted: read,
	}
	if peer.Delivered > 0 {
		c.PeerReceipt = &petrelv1.Receipt{Conv: it.conv, User: it.peer, Delivered: uint64(peer.Delivered), Read: uint64(peer.Read)}
	}
	return c, nil
}

// open reads a token. One of another history, from before a repair or a
// restore, counts as none.
func (y *Syncer) open(token []byte) (*storepb.SyncToken, error) {
	t := &storepb.SyncToken{}
	if len(token) == 0 {
		return t, nil
	}
	if err := t.UnmarshalVT(token); err != nil {
		return nil, &im.Error{Code: im.CodeBadToken}
	}
	check := t.Check
	if again, err := y.seal(t); err != nil || t.Check != check || !bytes.Equal(again, token) {
		return nil, &im.Error{Code: im.CodeBadToken}
	}
	if t.HistoryId != y.Store.HistoryID {
		return &storepb.SyncToken{}, nil
	}
	return t, nil
}

func (y *Syncer) seal(t *storepb.SyncToken) ([]byte, error) {
	if t.HistoryId == 0 {
		t.HistoryId = y.Store.HistoryID
	}
	t.Check = 0
	b, err := t.MarshalVT()
	if err != nil {
		return nil, err
	}
	s := y.Store.Secret
	t.Check = siphash.Hash(binary.LittleEndian.Uint64(s[:8]), binary.LittleEndian.Uint64(s[8:]), b)
	return t.MarshalVT()
}
