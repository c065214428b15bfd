package conv

import (
	"context"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// CursorOf returns a user's durable cursor. The store is read before the
// memory: what is on its way into the store is in memory until it is durable.
func (ow *Owner) CursorOf(ctx context.Context, key im.Key, u im.User) (Cursor, error) {
	if c, ok := ow.placeOf(key, u); ok {
		return c, nil
	}
	rec, err := ow.store.Cursor(ctx, key, u)
	if err != nil {
		return Cursor{}, err
	}
	if c, ok := ow.placeOf(key, u); ok {
		return c, nil
	}
	return cursorOf(rec), nil
}

func (ow *Owner) placeOf(key im.Key, u im.User) (Cursor, bool) {
	ow.mu.Lock()
	defer ow.mu.Unlock()
	if c := ow.convs[key]; c != nil && c.cursors != nil {
		if p := c.cursors.places[u]; p != nil {
			return p.stored, true
		}
	}
	return Cursor{}, false
}

// ReadCounted is counted at a user's read cursor, and what came to be counted
// above it outside of the user's stays: unread is about what they may read.
// Codes: no_conversation, not_member. Spec: P-8.7.
func (ow *Owner) ReadCounted(ctx context.Context, key im.Key, u im.User, at Cursor) (uint64, error) {
	c, err := ow.acquire(ctx, key)
	if err != nil {
		return 0, err
	}
	defer ow.releaseOne(c)
	now, in := c.readable()
	if in.record == nil {
		return 0, &im.Error{Code: im.CodeNoConversation}
	}
	i, ok := in.members.find(u)
	if !ok {
		return 0, &im.Error{Code: im.CodeNotMember}
	}
	n, reached := at.Counted, at.Read
	for _, w := range in.members.all[i].windows {
		if w.from > reached+1 {
			before, err := ow.counted(ctx, c, now, in, reached)
			if err != nil {
				return 0, err
			}
			behind, err := ow.counted(ctx, c, now, in, w.from-1)
			if err != nil {
				return 0, err
			}
			n += behind - before
		}
		reached = max(reached, w.to)
	}
	return n, nil
}

// Receipts lists how far the members of a conversation are, ascending by user;
// those who never moved are left out. Of one with more than MaxReceipts it
// tells only read. user "" is the operator. Codes: no_conversation, not_member.
// Spec: P-8.6.
func (ow *Owner) Receipts(ctx context.Context, key im.Key, user im.User) ([]*petrelv1.Receipt, error) {
	c, err := ow.acquire(ctx, key)
	if err != nil {
		return nil, err
	}
	defer ow.releaseOne(c)
	_, in := c.readable()
	if in.record == nil {
		return nil, &im.Error{Code: im.CodeNoConversation}
	}
	if user != "" && in.members.Role(user) == 0 {
		return nil, &im.Error{Code: im.CodeNotMember}
	}
	all := map[im.User]Cursor{}
	err = ow.store.Cursors(ctx, key, func(u im.User, r *storepb.Cursor) bool {
		all[u] = cursorOf(r)
		return true
	})
	if err != nil {
		return nil, err
	}
	ow.mu.Lock() // behind the store, see CursorOf
	if c.cursors != nil {
		for u, p := range c.cursors.places {
			all[u] = p.stored
		}
	}
	ow.mu.Unlock()
	var list []*petrelv1.Receipt
	for _, u := range in.members.current {
		at := all[u]
		if len(in.members.current) > MaxReceipts {
			at.Delivered = 0
		}
		if at.Delivered > 0 || at.Read > 0 {
			list = append(list, &petrelv1.Receipt{Conv: c.id, User: string(u), Delivered: uint64(at.Delivered), Read: uint64(at.Read)})
		}
	}
	return list, nil
}
