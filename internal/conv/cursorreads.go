package conv

import (
	"context"
	"fmt"

	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// CursorOf returns a user's durable cursor. It looks into memory before and after the read of the store: a
// move that became durable during the read is in memory.
func (cu *cursors) CursorOf(ctx context.Context, key im.Key, u im.User) (Cursor, error) {
	if c, ok := cu.inMemory(key, u); ok {
		return c, nil
	}
	rec, err := cu.store.Cursor(ctx, key, u)
	if err != nil {
		return Cursor{}, err
	}
	if c, ok := cu.inMemory(key, u); ok {
		return c, nil
	}
	return cursorOf(rec), nil
}

func (cu *cursors) inMemory(key im.Key, u im.User) (Cursor, bool) {
	cu.mem.mu.Lock()
	defer cu.mem.mu.Unlock()
	if c := cu.mem.convs[key]; c != nil && c.cursors != nil {
		if p := c.cursors.of[u]; p != nil {
			return p.stored, true
		}
	}
	return Cursor{}, false
}

// ReadCounted returns how many entries count as unread up to the read cursor at, or up to the entry before
// the user's newest stay if that is higher. So entries before that stay are not unread. Codes:
// no_conversation. Spec: P-8.7.
func (cu *cursors) ReadCounted(ctx context.Context, key im.Key, u im.User, at Cursor) (uint64, error) {
	c, now, in, end, err := cu.reader.enterKnown(ctx, key, u)
	if err != nil {
		return 0, err
	}
	defer end()
	if stays := in.members.staysOf(u); len(stays) > 0 {
		if first := stays[len(stays)-1].from; first > at.Read+1 {
			return cu.reader.counted(ctx, c, now, in, in.viewer(u), first-1)
		}
	}
	return at.Counted, nil
}

// MaxReceiptPage is the most members of one page of receipts.
const MaxReceiptPage = 500

// Receipts lists the cursors of the members after the user q.After, ascending by user, without those who never
// moved or whose cursors the asking user may not see. A page covers q.Limit members, or fewer if there are former
// members among them. A q.Limit of 0 or above MaxReceiptPage means MaxReceiptPage. Next is the last member that
// the page covers; it is empty on the last page. In a conversation with more than MaxReceipts members it has only
// read cursors. With q.Own it has the cursors of the asking user alone. Codes: no_conversation, not_member (of a
// former member). Spec: P-8.6, P-14.14.
func (cu *cursors) Receipts(ctx context.Context, by Query, q *convpb.ListReceipts) (*convpb.Receipts, error) {
	c, _, in, end, err := cu.reader.enterAsMember(ctx, by)
	if err != nil {
		return nil, err
	}
	defer end()
	limit := int(q.Limit)
	if limit == 0 || limit > MaxReceiptPage {
		limit = MaxReceiptPage
	}
	if q.Own {
		at, err := cu.CursorOf(ctx, by.Conv, by.User)
		if len(in.members.current) > MaxReceipts {
			at.Delivered = 0
		}
		if err != nil || max(at.Delivered, at.Read) == 0 || by.User <= im.User(q.After) {
			return &convpb.Receipts{}, err
		}
		return &convpb.Receipts{Receipts: []*petrelv1.Receipt{at.receipt(c.id, by.User)}}, nil
	}
	before, page, more := in.members.page(im.User(q.After), limit)
	places, err := cu.placesOf(ctx, c, before, page)
	if err != nil {
		return nil, err
	}
	list := &convpb.Receipts{}
	for i, x := range page {
		at := places[i]
		if x.role == 0 {
			continue
		}
		if x.user != by.User {
			at, _ = in.receipt(by.User, at)
		}
		if len(in.members.current) > MaxReceipts {
			at.Delivered = 0
		}
		if at.Delivered > 0 || at.Read > 0 {
			list.Receipts = append(list.Receipts, at.receipt(c.id, x.user))
		}
	}
	if more {
		list.Next = string(page[len(page)-1].user)
	}
	return list, nil
}

// placesOf returns the durable cursors of consecutive members and former members of c; before is
// the user before the first of them.
func (cu *cursors) placesOf(ctx context.Context, c *conv, before im.User, users []member) ([]Cursor, error) {
	if len(users) == 0 {
		return nil, nil
	}
	places := make([]Cursor, len(users))
	i, last := 0, users[len(users)-1].user
	err := cu.store.Cursors(ctx, c.key, before, func(u im.User, r *storepb.Cursor) bool {
		for i < len(users)-1 && users[i].user < u {
			i++
		}
		if users[i].user == u {
			places[i] = cursorOf(r)
		}
		return u < last
	})
	if err != nil {
		return nil, err
	}
	cu.mem.mu.Lock() // after the store, see CursorOf
	defer cu.mem.mu.Unlock()
	if c.cursors == nil {
		return places, nil
	}
	for i, x := range users {
		if p := c.cursors.of[x.user]; p != nil {
			places[i] = p.stored
		}
	}
	return places, nil
}

// ChangedAt returns two positions. pos is that of the newest row, or of the newest move of u's own cursor if
// that is later. theirs is that of the newest move of peer's cursor that others see, 0 without a peer. Both may be
// of commits that are not durable yet. It loads nothing: of a conversation that is not in memory it reads only
// the newest row, so a sync of thousands is cheap.
//
// The answer has every change that was published before the call, because such changes are in the store.
func (cu *cursors) ChangedAt(ctx context.Context, key im.Key, u, peer im.User) (pos, theirs im.Pos, err error) {
	if c := cu.mem.find(key); c != nil {
		pos = c.point.Load().pos
	} else {
		row, err := cu.store.LastRow(ctx, key)
		if err != nil {
			return 0, 0, err
		}
		if row != nil {
			head, _, err := store.SplitRow(row.Value)
			if err != nil {
				return 0, 0, fmt.Errorf("read head of %s: %w", key, err)
			}
			pos = head.Pos
		}
	}
	own, err := cu.CursorOf(ctx, key, u)
	if err != nil || peer == "" {
		return max(pos, own.Pos), 0, err
	}
	at, err := cu.CursorOf(ctx, key, peer)
	return max(pos, own.Pos), at.shown().Pos, err
}
