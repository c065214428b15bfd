package inbox

import (
	"context"
	"errors"
	"time"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// A user blocks another one by a setting in their own inbox. The consumer of the inbox's feed carries each
// block, at least once, into the record of the direct conversation. By this record, the owner of the
// conversation withholds messages. The version of a block is the seq of its entry, so a late one changes
// nothing. Spec: P-5.4.

// blocks returns the changes of blocks in the entries from..end-1 of an inbox. If entries were compacted
// meanwhile, their blocks were carried before. After the last part of a snapshot, it drops old rows of the
// inbox.
func (c *Consumer) blocks(ctx context.Context, key im.Key, from, end im.Seq) ([]*conv.Send, error) {
	rec, err := c.owner.Record(ctx, conv.Query{Conv: key}, nil)
	if err != nil && im.CodeOf(err) == im.CodeNoConversation {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var sends []*conv.Send
	add := func(user, value string, q im.Seq, m *petrelv1.Message) error {
		one, other := im.User(rec.Users[0]), im.User(user)
		if one == other || other.Check() != nil {
			return nil
		}
		b := &storepb.Block{User: string(one), Blocked: value != "", Version: uint64(q)}
		direct := im.Key{Tenant: key.Tenant, Conv: c.convs.IDs().Direct(key.Tenant, one, other)}
		if b.Blocked {
			at, err := c.store.Cursor(ctx, direct, one)
			if err != nil && !errors.Is(err, store.ErrCorrupt) { // without the cursor, the other user gets no receipts
				return err
			}
			delivered, read := conv.ShownCursors(at)
			b.Delivered, b.Read = uint64(delivered), uint64(read)
			if b.LastMs, b.OnlineMs, err = c.LastSeen(ctx, im.Account{Tenant: key.Tenant, User: one},
				time.UnixMilli(int64(m.TimeMs))); err != nil {
				return err
			}
		}
		sends = append(sends, &conv.Send{Conv: direct, Peer: other, Block: b})
		return nil
	}
	err = c.eachRow(ctx, key, from, end, func(m *petrelv1.Message) error {
		if s := m.GetInbox().GetSettings(); s.GetUser() != "" {
			if v, ok := s.Values[conv.Blocked]; ok {
				return add(s.User, v, im.Seq(m.Seq), m)
			}
		}
		sn := m.GetInbox().GetSnapshot()
		for _, s := range sn.GetPersonal() {
			if s.User != "" && s.Name == conv.Blocked {
				if err := add(s.User, s.Value, im.Seq(s.Seq), m); err != nil {
					return err
				}
			}
		}
		if sn.GetLast() {
			c.dropCompacted(ctx, key, im.Seq(sn.First))
		}
		return nil
	})
	return sends, err
}

// noteBlocks stores the pairs of blockers and blocked users, so that one read finds all users whom a user may
// be blocking. A pair stays after the end of its block, because a late removal could hit a newer block. The
// record of the conversation decides.
func (c *Consumer) noteBlocks(ctx context.Context, blocks []*conv.Send) error {
	var puts []store.RecordPut
	for _, s := range blocks {
		if s.Block.Blocked {
			puts = append(puts, store.RecordPut{Table: store.Blocks, Tenant: s.Conv.Tenant,
				Key: im.PairKey(im.User(s.Block.User), s.Peer), Value: []byte{1}})
		}
	}
	if len(puts) == 0 {
		return nil
	}
	return c.store.Update(ctx, puts)
}
