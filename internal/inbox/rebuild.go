package inbox

import (
	"cmp"
	"context"
	"math"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/policy"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// rebuild makes the newest inbox entry about joining or leaving of each member and former member of a
// conversation again, with the same ids, so that dedupe drops those that are stored. Of a direct conversation
// it makes the entries about contacts again, too, and of an inbox the blocks.
func (c *Consumer) rebuild(ctx context.Context, key im.Key) ([]*conv.Send, error) {
	if policy.Of(key.Conv.Kind()).List {
		return c.blocks(ctx, key, 1, math.MaxUint64)
	}
	var contacts []*conv.Send
	if policy.Of(key.Conv.Kind()).Pair { // there may be contacts without a message
		var err error
		if contacts, err = c.contacts(ctx, key, 0, 0); err != nil {
			return nil, err
		}
	}
	rec, err := c.owner.Record(ctx, conv.Query{Conv: key}, nil)
	if err != nil && im.CodeOf(err) == im.CodeNoConversation {
		return contacts, nil
	}
	if err != nil {
		return nil, err
	}
	if policy.OfRecord(rec.Kind).Pair {
		joins, err := c.changes(ctx, key, 1, 1)
		return append(contacts, joins...), err
	}
	// Only the head is wanted, so the page is empty. For entries above the head, the feed has later commits.
	page, err := c.owner.History(ctx, conv.Query{Conv: key}, &convpb.GetHistory{After: math.MaxUint64})
	if err != nil {
		return nil, err
	}
	var sends []*conv.Send
	var failed error
	err = c.store.Members(ctx, key, func(u im.User, m *storepb.Member) bool {
		for i := len(m.Stays) - 1; i >= 0; i-- {
			from, to := im.Seq(m.Stays[i].From), im.Seq(m.Stays[i].To)
			if uint64(from) > page.Head {
				continue
			}
			if to == 0 || uint64(to) > page.Head {
				sends = append(sends, c.entry(key, u,
					joined(&petrelv1.InboxJoined{Conv: key.Conv.String(), Kind: rec.Kind, Seq: uint64(from),
						Title: rec.Title}), from))
			} else {
				var title string
				if title, failed = c.owner.TitleAt(ctx, key, to); failed != nil {
					return false
				}
				sends = append(sends, c.entry(key, u, left(key, title, to), to))
			}
			break
		}
		return true
	})
	return sends, cmp.Or(err, failed)
}
