package feed

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// The position of a consumer is a record: 8 bytes, big endian, and after them the state of the consumer. The
// first write of the record registers the consumer: from then on the feed waits for it.

func prefix(f store.Feed) []byte { return fmt.Appendf(nil, "at/%d/", f) }

func key(f store.Feed, name string) []byte { return append(prefix(f), name...) }

func encode(pos im.Pos, state []byte) []byte {
	return append(binary.BigEndian.AppendUint64(nil, uint64(pos)), state...)
}

// decode returns the position and the state in a record; false: the record has none.
func decode(record []byte) (pos im.Pos, state []byte, ok bool) {
	if len(record) < 8 {
		return 0, nil, false
	}
	return im.Pos(binary.BigEndian.Uint64(record)), record[8:], true
}

// Pos returns the position that this consumer has stored or read last.
func (c *Consumer) Pos() im.Pos { return c.stored }

// reread reads the record of the position again, and goes on from there if another consumer
// has come further.
func (c *Consumer) reread(ctx context.Context) (further bool, err error) {
	record, err := c.o.Store.Record(ctx, store.Consumers, 0, key(c.o.Feed, c.o.Name))
	if err != nil {
		return false, fmt.Errorf("read position of consumer %s in feed %d: %w", c.o.Name, c.o.Feed, err)
	}
	pos, state, _ := decode(record)
	c.was = record
	c.o.StateRead(state)
	if further = pos > c.done; further {
		c.done, c.stored = pos, pos
	}
	return further, nil
}

// Reread goes on from the position that is stored, if another consumer has come further.
func (c *Consumer) Reread(ctx context.Context) error {
	_, err := c.reread(ctx)
	return err
}

// trySave stores the position. It logs a failure; the next call may succeed.
func (c *Consumer) trySave(ctx context.Context) {
	if err := c.Save(ctx); err != nil && ctx.Err() == nil {
		c.o.Log.Warn("store position of a consumer failed", "consumer", c.o.Name, "feed", c.o.Feed, "err", err)
	}
}

// Save stores the position and the state, and has the feed forget what all its consumers have read. If a
// consumer on another node has stored a position meanwhile, that one stays, and this consumer goes on from it
// if it is higher.
func (c *Consumer) Save(ctx context.Context) error {
	if c.done == c.stored {
		return nil
	}
	state, puts := c.o.State()
	record := encode(c.done, state)
	puts = append(puts, store.RecordPut{Table: store.Consumers, Key: key(c.o.Feed, c.o.Name), Value: record,
		Check: true, Was: c.was})
	err := c.o.Store.Update(ctx, puts)
	if errors.Is(err, store.ErrChanged) {
		return c.Reread(ctx)
	}
	if err != nil {
		return err
	}
	c.stored, c.was = c.done, record
	c.o.Stored()
	return Trim(ctx, c.o.Store, c.o.Feed, time.Now(), c.o.Keep)
}

// reset finds a position to go on from when the next commits were trimmed or are damaged.
//
// The former consumer of the feed, on another node, may have come further than was known here, so its
// position is read again. If it has not, the commits are lost for this consumer. Then it takes all items that
// are left anew, whatever has happened in their conversations. If no item names a conversation, the consumer
// does not learn what it has missed there until something happens in it.
func (c *Consumer) reset(ctx context.Context, upTo im.Pos) error {
	if further, err := c.reread(ctx); further || err != nil {
		return err
	}
	first, err := c.firstKept(ctx, upTo)
	if err != nil {
		return err
	}
	c.resets.Add(1)
	c.o.Log.ErrorContext(ctx,
		"feed was trimmed or damaged before a consumer had read it: the consumer misses changes in conversations without later activity",
		"consumer", c.o.Name, "feed", c.o.Feed, "from", uint64(c.done), "to", uint64(first), "rebuild", uint64(upTo))
	c.done, c.rebuild = first, upTo
	return nil
}

// firstKept returns the lowest position from which the feed can be read.
func (c *Consumer) firstKept(ctx context.Context, upTo im.Pos) (im.Pos, error) {
	trimmed, kept := c.done, upTo
	for trimmed+1 < kept {
		p := trimmed + (kept-trimmed)/2
		err := c.o.Store.ScanFeed(ctx, c.o.Feed, p, p+1, func(im.Pos, *storepb.FeedEntry) bool { return false })
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
