package inbox

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// The position of a consumer is stored with the feed's index of changes (conv.ChangeIndex), in one write. The
// stored index has every change up to the position, and the feed still has the later ones. So a start, or
// another node that takes the feed over, gets the index without reading any conversation.
//
// Each write has the news, which are the changes since the last write, and one range of the index, the next one
// each time. When all ranges have been written since some news, these news are deleted.

// indexState is the progress of the stored index.
type indexState struct {
	unknown im.Pos // the index may lack changes at or below this position
	step    uint64 // how many writes there were
}

// readState takes the stored state. It may be that of another consumer, so the next write of this one stores
// all changes in the index as news.
func (c *Consumer) readState(b []byte) {
	c.stored, c.rewrite = indexState{}, true
	if len(b) == 16 {
		c.stored = indexState{im.Pos(binary.BigEndian.Uint64(b)), binary.BigEndian.Uint64(b[8:])}
	}
}

// indexKey returns the prefix of the keys of the stored index.
func (c *Consumer) indexKey() []byte { return fmt.Appendf(nil, "changes/%d/", c.owner.Feed()) }

func (c *Consumer) rangeKey(n int) []byte { return fmt.Appendf(c.indexKey(), "range/%d", n) }

func (c *Consumer) newsKey(step uint64) []byte { return fmt.Appendf(c.indexKey(), "news/%d", step) }

// loadIndex fills the feed's index of changes from the stored index and the later entries of the feed. If that
// fails, changes up to the takeover stay unknown to the index, and syncs read the conversations.
func (c *Consumer) loadIndex(ctx context.Context) {
	takenOver := c.index.Unknown()
	err := c.readIndex(ctx, takenOver)
	// the former consumer, on another node, has trimmed the feed after this one had read its position
	if errors.Is(err, store.ErrTrimmed) {
		if err = c.Reread(ctx); err == nil {
			err = c.readIndex(ctx, takenOver)
		}
	}
	switch {
	case err == nil:
		c.index.SetKnownAfter(c.stored.unknown)
	case ctx.Err() == nil:
		c.log.Warn("load index of changes failed: syncs are slow for users who were away since", "feed", c.owner.Feed(),
			"err", err)
	}
}

// readIndex reads the stored index, and the feed after it.
func (c *Consumer) readIndex(ctx context.Context, upTo im.Pos) error {
	var bad error
	err := c.store.Records(ctx, store.Consumers, 0, c.indexKey(), func(_, b []byte) bool {
		bad = c.index.Load(b)
		return bad == nil
	})
	if err := errors.Join(err, bad); err != nil {
		return err
	}
	return c.store.ScanFeed(ctx, c.owner.Feed(), c.Pos(), upTo, func(pos im.Pos, e *storepb.FeedEntry) bool {
		for _, it := range e.Items {
			c.index.Touch(im.Key{Tenant: im.Tenant(it.Tenant), Conv: im.ConvID(it.Conv)}, pos)
		}
		return true
	})
}

// indexChanges returns the parts of the index to store, and the encoded indexState.
func (c *Consumer) indexChanges() (state []byte, puts []store.RecordPut) {
	c.next = indexState{unknown: c.index.Unknown(), step: c.stored.step + 1}
	after := c.Pos()
	if c.rewrite {
		after = 0
	}
	step, ranges := c.next.step, uint64(c.index.Ranges())
	record := func(key, value []byte) {
		puts = append(puts, store.RecordPut{Table: store.Consumers, Key: key, Value: value})
	}
	if news := c.index.News(after); len(news) > 0 {
		record(c.newsKey(step), news)
	}
	if b := c.index.Range(int(step % ranges)); len(b) > 0 {
		record(c.rangeKey(int(step%ranges)), b)
	}
	if step > ranges {
		record(c.newsKey(step-ranges), nil)
	}
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(c.next.unknown)), step), puts
}

func (c *Consumer) indexStored() { c.stored, c.rewrite = c.next, false }
