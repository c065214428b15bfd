package inbox

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/consumer"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// The place of a consumer is stored with the feed's index of changes (conv.ChangeIndex),
// in one write: what is stored of the index has every change up to the place, and what
// came after is still in the feed. So a start, or another node that takes the feed over,
// has the index without reading any conversation.
//
// Each write has the news since the last one, and also one of the ranges into which the
// index is cut, the next one each time. When all ranges have been written once, the news
// from before that are deleted.

// place is how far the inboxes and the stored index are.
type place struct {
	done    im.Pos // everything up to here is in the inboxes, and in the index
	unknown im.Pos // the index may lack changes at or below this position
	step    uint64 // how many writes there were
}

func (p place) encode() []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(p.done))
	b = binary.BigEndian.AppendUint64(b, uint64(p.unknown))
	return binary.BigEndian.AppendUint64(b, p.step)
}

// place reads how far the inboxes were when somebody saved it last; nil: nobody has.
func (c *Consumer) place(ctx context.Context) (place, []byte, error) {
	b, err := c.store.Record(ctx, store.Consumers, 0, c.key())
	if err != nil {
		return place{}, nil, fmt.Errorf("read pos of the inbox consumer: %w", err)
	}
	if len(b) != 24 {
		return place{}, b, nil
	}
	return place{
		done:    im.Pos(binary.BigEndian.Uint64(b)),
		unknown: im.Pos(binary.BigEndian.Uint64(b[8:])),
		step:    binary.BigEndian.Uint64(b[16:]),
	}, b, nil
}

func (c *Consumer) key() []byte { return fmt.Appendf(nil, "inbox/%d", c.feed) }

// indexKey begins the keys of what is stored of the index.
func (c *Consumer) indexKey() []byte { return fmt.Appendf(nil, "changes/%d/", c.feed) }

func (c *Consumer) rangeKey(n int) []byte { return fmt.Appendf(c.indexKey(), "range/%d", n) }

func (c *Consumer) newsKey(step uint64) []byte { return fmt.Appendf(c.indexKey(), "news/%d", step) }

// loadIndex fills the feed's index of changes from what is stored, and from what the
// feed has after that. If it cannot, the index goes on knowing nothing of what was
// before the feed was taken over, and syncs read the conversations.
func (c *Consumer) loadIndex(ctx context.Context) {
	takenOver := c.index.Unknown()
	err := c.readIndex(ctx, takenOver)
	if errors.Is(err, store.ErrTrimmed) { // by the consumer before, on another node, after this one had read its place
		var other place
		var value []byte
		if other, value, err = c.place(ctx); err == nil {
			if other.done > c.done {
				c.done, c.saved, c.was = other.done, other, value
			}
			err = c.readIndex(ctx, takenOver)
		}
	}
	switch {
	case err == nil:
		c.index.Know(c.saved.unknown)
	case ctx.Err() == nil:
		c.log.Warn("load index of changes failed: syncs are slow for users who were away since", "feed", c.feed, "err", err)
	}
}

// readIndex reads what is stored of the index, and the feed after it.
func (c *Consumer) readIndex(ctx context.Context, upTo im.Pos) error {
	var bad error
	err := c.store.Records(ctx, store.Consumers, 0, c.indexKey(), func(_, b []byte) bool {
		bad = c.index.Load(b)
		return bad == nil
	})
	if err := errors.Join(err, bad); err != nil {
		return err
	}
	return c.store.ScanFeed(ctx, c.feed, c.saved.done, upTo, func(pos im.Pos, e *storepb.FeedEntry) bool {
		for _, it := range e.Items {
			c.index.Touch(im.Key{Tenant: im.Tenant(it.Tenant), Conv: im.ConvID(it.Conv)}, pos)
		}
		return true
	})
}

// save keeps the place and the index, and lets the feed forget what all its consumers
// have read.
// When another consumer has the feed by now, on another node, its place stays.
func (c *Consumer) save(ctx context.Context) error {
	if c.done == c.saved.done {
		return nil
	}
	p := place{done: c.done, unknown: c.index.Unknown(), step: c.saved.step + 1}
	after := c.saved.done
	if c.rewrite {
		after = 0
	}
	ranges := uint64(c.index.Ranges())
	record := func(key, value []byte) store.RecordPut {
		return store.RecordPut{Table: store.Consumers, Key: key, Value: value}
	}
	puts := []store.RecordPut{{Table: store.Consumers, Key: c.key(), Value: p.encode(), Check: true, Was: c.was}}
	puts = append(puts, consumer.Place(c.feed, "inbox", c.done))
	if news := c.index.News(after); len(news) > 0 {
		puts = append(puts, record(c.newsKey(p.step), news))
	}
	if b := c.index.Range(int(p.step % ranges)); len(b) > 0 {
		puts = append(puts, record(c.rangeKey(int(p.step%ranges)), b))
	}
	if p.step > ranges {
		puts = append(puts, record(c.newsKey(p.step-ranges), nil))
	}
	err := c.store.Update(ctx, puts)
	if errors.Is(err, store.ErrChanged) {
		// What is stored of the index is the other one's now, and has its place. If this
		// consumer goes on after all, it stores everything.
		c.rewrite = true
		var other place
		if other, c.was, err = c.place(ctx); err == nil {
			c.saved.step = max(c.saved.step, other.step)
		}
		return err
	}
	if err != nil {
		return err
	}
	c.saved, c.was, c.rewrite = p, puts[0].Value, false
	return consumer.Trim(ctx, c.store, c.feed, time.Now(), conv.RefanCommits)
}
