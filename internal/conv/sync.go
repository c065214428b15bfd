package conv

import (
	"context"
	"errors"
	"math"

	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/policy"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Newest says what a sync adds to the state of each conversation: the number of its newest messages, their
// quotes, their notes, and the unread mentions of the user.
type Newest struct {
	Messages int
	Refs     bool
	Notes    bool
	Mentions bool
}

// Changed returns the state of one conversation for a sync of a user. It returns nil if nothing that the user may
// notice has changed since q.Since, and if the conversation does not know the user. The caller has put the
// session into the online table before. Spec: P-6.2, P-6.3.
func (ow *Owner) Changed(ctx context.Context, a im.Account, q *convpb.Ask, newest Newest) (*petrelv1.ConvState, error) {
	key := im.Key{Tenant: a.Tenant, Conv: im.ConvID(q.Conv)}
	changed, peer, err := ow.changedSince(ctx, key, a.User, q)
	if err != nil {
		return damagedState(key, q, err)
	}
	if !changed && !peer {
		return nil, nil
	}
	state, hidden, err := ow.syncState(ctx, key, a.User, q)
	if err == nil && hidden && !changed {
		return nil, nil // the user must not notice an act of the other one
	}
	if err != nil {
		if im.CodeOf(err) == im.CodeNoConversation {
			return nil, nil // the conversation decides; the user's list follows later
		}
		return damagedState(key, q, err)
	}
	if newest.Mentions {
		if err := ow.addMentions(ctx, key, a.User, state); err != nil {
			return nil, err
		}
	}
	if newest.Messages > 0 {
		h, err := ow.History(ctx, Query{Conv: key, User: a.User},
			&convpb.GetHistory{Before: math.MaxUint64, Limit: uint32(newest.Messages), Refs: newest.Refs,
				Notes: newest.Notes})
		if errors.Is(err, store.ErrCorrupt) {
			return state, nil // a request for the history gets the error
		}
		if err != nil {
			return nil, err
		}
		page, err := HistoryPage(key.Conv, h)
		if err != nil {
			return nil, err
		}
		state.Newest, state.Refs, state.Notes, state.NotesMissing = page.Messages, page.Refs, page.Notes,
			page.NotesMissing
	}
	return state, nil
}

// addMentions adds the unread mentions to a state. They may be up to a later head than that of the
// state. Spec: P-5.13.
func (ow *Owner) addMentions(ctx context.Context, key im.Key, u im.User, state *petrelv1.ConvState) error {
	m, err := ow.mentionsOf(ctx, key, u, im.Seq(state.Read))
	if errors.Is(err, store.ErrCorrupt) {
		state.MentionsMissing = true
		return nil
	}
	state.Mentions = m.seqsAbove(0)
	return err
}

// damagedState returns the state of a conversation whose read has met damage, so that one damaged
// conversation does not keep a client from the others. If err is no damage, it returns err. Spec: P-9.5.
func damagedState(key im.Key, q *convpb.Ask, err error) (*petrelv1.ConvState, error) {
	if !errors.Is(err, store.ErrCorrupt) {
		return nil, err
	}
	return &petrelv1.ConvState{Conv: key.Conv.String(), Kind: q.Kind, Title: q.Title, Peer: q.Peer, Damaged: true}, nil
}

// changedSince tells what has changed after the position that q names: changed, the conversation or u's own
// cursor; peer, the cursors of the other user.
func (ow *Owner) changedSince(ctx context.Context, key im.Key, u im.User,
	q *convpb.Ask) (changed, peer bool, err error) {
	if q.Always {
		return true, false, nil
	}
	if q.Left { // a former member gets their own cursor only
		own, err := ow.CursorOf(ctx, key, u)
		return uint64(own.Pos) > q.Since, false, err
	}
	pos, theirs, err := ow.ChangedAt(ctx, key, u, peerOf(q, u))
	return uint64(pos) > q.Since, uint64(theirs) > q.Since, err
}

// peerOf returns the user whose cursors are in a sync beside u's own; "": there is none, or u reads privately.
func peerOf(q *convpb.Ask, u im.User) im.User {
	if q.Own || !policy.OfRecord(q.Kind).Pair || q.Peer == string(u) {
		return ""
	}
	return im.User(q.Peer)
}

// syncState returns the state of a conversation for u. hidden: u must not notice moves of the other user's
// cursors (info.receipt).
func (ow *Owner) syncState(ctx context.Context, key im.Key, u im.User,
	q *convpb.Ask) (state *petrelv1.ConvState, hidden bool, err error) {
	// It reads the cursors before the head, so that none of them is above the head.
	own, err := ow.CursorOf(ctx, key, u)
	if err != nil {
		return nil, false, err
	}
	var peer Cursor
	if p := peerOf(q, u); p != "" {
		if peer, err = ow.CursorOf(ctx, key, p); err != nil {
			return nil, false, err
		}
	}
	st, in, err := ow.listed(ctx, key, u)
	if err != nil {
		return nil, false, err
	}
	peer, hidden = in.receipt(u, peer)
	if st.Role == 0 {
		st.Title = q.Title // as it was when they left
	}
	read, err := ow.ReadCounted(ctx, key, u, own)
	if err != nil {
		return nil, false, err
	}
	id := key.Conv.String()
	c := &petrelv1.ConvState{
		Conv: id, Kind: q.Kind, Title: st.Title, Peer: q.Peer, Head: st.Head, Counted: st.Counted, Frozen: st.Frozen &&
			st.Role != 0,
		FirstSeq: st.FirstSeq, Role: st.Role, Left: st.Role == 0, Joined: st.Joined,
		Delivered: uint64(own.Delivered), Read: uint64(own.Read), ReadCounted: read,
	}
	if peer.Delivered > 0 {
		c.PeerReceipt = &petrelv1.Receipt{Conv: id, User: q.Peer, Delivered: uint64(peer.Delivered),
			Read: uint64(peer.Read)}
	}
	return c, hidden, nil
}
