package conv

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Messages of a user who is blocked by the other user of a direct conversation are stored as always, but
// shown to their sender alone. The conversation's record has the blocks, so the committer need not read them.
// Package inbox carries them there from the blocker's inbox. Spec: P-5.4.

// hidden counts, for each of the two users of a direct conversation, the messages that are withheld from this
// user and would count as unread. It never changes; nil: there are none.
type hidden struct{ from [2]uint64 }

// of returns the number for the user of a side; 0 for side -1.
func (h *hidden) of(side int) uint64 {
	if h == nil || side < 0 {
		return 0
	}
	return h.from[side]
}

// with returns h plus one message for the user of a side.
func (h *hidden) with(side int) *hidden {
	n := &hidden{}
	if h != nil {
		*n = *h
	}
	n.from[side]++
	return n
}

// hiddenOf returns the counts up to a row, which the head h of the row has.
func hiddenOf(h *store.RowHead) *hidden {
	if h.Flags&store.RowHides == 0 {
		return nil
	}
	return &hidden{h.Hidden}
}

// setHidden puts h into the head of a row.
func setHidden(head *store.RowHead, h *hidden) {
	if h != nil {
		head.Flags |= store.RowHides
		head.Hidden = h.from
	}
}

// sideOf returns the index of u among the two users of a direct conversation; -1: u is neither.
func sideOf(rec *storepb.Conversation, u im.User) int {
	if rec == nil || rec.Kind != uint32(petrelv1.ConvKind_CONV_KIND_DIRECT) {
		return -1
	}
	return slices.Index(rec.Participants, string(u))
}

// withBlock returns the record of a direct conversation with b in it; false: it has b already, or a newer
// one. rec may be nil. newest is the newest cursor of the blocker; zero: it has not moved lately, so b has
// it.
func withBlock(rec *storepb.Conversation, users []string, b *storepb.Block,
	newest Cursor, now uint64) (*storepb.Conversation, bool) {
	i := slices.IndexFunc(rec.GetBlocks(), func(x *storepb.Block) bool { return x.User == b.User })
	if i >= 0 && rec.Blocks[i].Version >= b.Version {
		return nil, false
	}
	rec = cloneOfPair(rec, users)
	b = proto.CloneOf(b)
	is := newest.shown() // the blocked user never saw how far a private reader was. Spec: P-14.14
	b.Delivered, b.Read = max(b.Delivered, uint64(is.Delivered)), max(b.Read, uint64(is.Read))
	switch {
	case i < 0:
		rec.Blocks = append(rec.Blocks, b)
	case rec.Blocks[i].Blocked && b.Blocked: // it began earlier
		rec.Blocks[i].Version = b.Version
	default:
		rec.Blocks[i] = b
	}
	if b.Blocked {
		endRequests(rec, b.User, now)
	}
	return rec, true
}

// viewer is a reader of the rows of a conversation. The users of a direct conversation see
// different rows if one blocks the other.
type viewer struct {
	user    im.User  // "": the operator, who sees all that is stored
	side    int      // in a direct conversation (sideOf); -1: in any other
	members *Members // of the conversation
}

// perViewerFlags are the flags of rows that some viewers do not see as they are stored.
const perViewerFlags = store.RowWithheld | store.RowHides | store.RowEditWithheld

// see returns the wire part of a row as v may see it. For nearly all rows that is stored itself.
func (v viewer) see(head *store.RowHead, stored []byte) ([]byte, error) {
	switch {
	case v.user == "" || head.Flags&(perViewerFlags|store.RowEdit) == 0:
		return stored, nil
	case v.side >= 0 && head.Flags&(store.RowWithheld|store.RowEditWithheld) == 0 && hiddenOf(head).of(v.side) == 0:
		return stored, nil
	case v.side >= 0 && head.Flags&perViewerFlags != 0: // see below
	case v.side < 0 && head.Flags&store.RowEdit != 0:
		return v.members.seeEdit(v.user, stored)
	default:
		return stored, nil
	}
	var m petrelv1.Message
	if err := wire.ParseMessage(stored, &m); err != nil {
		return nil, err
	}
	m.Counted -= min(m.Counted, hiddenOf(head).of(v.side))
	switch own := m.From == string(v.user); {
	case head.Flags&store.RowWithheld != 0 && !own:
		m = petrelv1.Message{Conv: m.Conv, Seq: m.Seq, TimeMs: m.TimeMs, Counted: m.Counted, Withheld: true}
	case head.Flags&store.RowEditWithheld != 0 && !own:
		m.Type, m.Body, m.Rel = "", nil, nil
	}
	return wire.AppendMessage(nil, &m), nil
}
