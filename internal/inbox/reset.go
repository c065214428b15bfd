package inbox

import (
	"cmp"
	"context"
	"errors"
	"math"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/policy"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// reset finds a place to go on from when what comes next was trimmed.
//
// The consumer that had the feed before may have carried more than was known
// here: its place is read again. If nobody has, the changes of membership that
// were trimmed are gone from the feed. The conversations still know who their
// members are, but the store does not list them: those that what is left of the
// feed names, by whatever happened in them, are carried anew, each user's last
// joining or leaving. A conversation that is named there no more stays on the
// list of who joined or left it in what was trimmed as it was, until they do so
// again. Resets counts this, and the log says how much it was.
func (c *Consumer) reset(ctx context.Context, upTo im.Pos) error {
	other, value, err := c.place(ctx)
	if err != nil {
		return err
	}
	c.was = value
	if other.done > c.done {
		c.done, c.saved, c.rewrite = other.done, other, true
		return nil
	}
	first, err := c.firstKept(ctx, upTo)
	if err != nil {
		return err
	}
	c.Resets.Add(1)
	c.log.ErrorContext(ctx, "feed was trimmed or damaged before the inboxes had read it: lists may lack conversations that nobody has used since", "from", uint64(c.done), "to", uint64(first), "rebuild", uint64(upTo))
	c.done, c.rebuild = first, upTo
	return nil
}

// firstKept is the lowest place that the feed can be read from.
func (c *Consumer) firstKept(ctx context.Context, upTo im.Pos) (im.Pos, error) {
	trimmed, kept := c.done, upTo
	for trimmed+1 < kept {
		p := trimmed + (kept-trimmed)/2
		err := c.store.ScanFeed(ctx, c.feed, p, p+1, func(im.Pos, *storepb.FeedEntry) bool { return false })
		switch {
		case errors.Is(err, store.ErrTrimmed), errors.Is(err, store.ErrCorrupt):
			trimmed = p
		case err != nil:
			return 0, err
		default:
			kept = p
		}
	}
	return kept, nil
}

// anew is the entries of those who are or were in a conversation, each one's
// last: with the ids they were entered under if they were.
func (c *Consumer) anew(ctx context.Context, key im.Key) ([]*conv.Send, error) {
	if policy.Of(key.Conv.Kind()).List {
		return c.blocks(ctx, key, 1, math.MaxUint64)
	}
	rec, err := c.owner.Record(ctx, conv.Query{Conv: key}, nil)
	if err != nil && im.CodeOf(err) == im.CodeNoConversation {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if policy.OfRecord(rec.Kind).Pair {
		return c.changes(ctx, key, 1, 1)
	}
	// What comes after the head has its own entry in the feed, after this.
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
				sends = append(sends, c.entry(key, u, joined(&petrelv1.InboxJoined{Conv: key.Conv.String(), Kind: rec.Kind, Seq: uint64(from), Title: rec.Title}), from))
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
