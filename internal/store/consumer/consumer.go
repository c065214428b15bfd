// Package consumer keeps how far the consumers of a feed are, so that the feed forgets
// only what all of them have read. A consumer is registered by its place, which it stores
// together with what it made of the feed up to there. A new kind of consumer needs no more
// than that: who trims the feed finds it.
package consumer

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

// MaxBehind is for how long a consumer that reads nothing holds up a feed. After that
// its next read is ErrTrimmed, and it has to find a place to go on from by itself.
const MaxBehind = 7 * 24 * time.Hour

func prefix(f store.Feed) []byte { return fmt.Appendf(nil, "at/%d/", f) }

// Place is what a consumer writes when it has read a feed up to and including pos. With
// the first place the consumer is registered.
func Place(f store.Feed, name string, pos im.Pos) store.RecordPut {
	return store.RecordPut{Table: store.Consumers, Key: append(prefix(f), name...), Value: binary.BigEndian.AppendUint64(nil, uint64(pos))}
}

// Forget ends the registration of a consumer: the feed is not kept for it any more.
func Forget(f store.Feed, name string) store.RecordPut {
	return store.RecordPut{Table: store.Consumers, Key: append(prefix(f), name...)}
}

// Trim has the feed forget what all registered consumers have read, but for the newest
// keep commits before the place of the slowest.
func Trim(ctx context.Context, st store.Store, f store.Feed, now time.Time, keep im.Pos) error {
	slowest, err := slowest(ctx, st, f, now)
	if err != nil || slowest <= keep {
		return err
	}
	return st.TrimFeed(ctx, f, slowest-keep)
}

// slowest is the place of the consumer that is the furthest behind, of those for which the
// feed is kept; 0: there is none.
func slowest(ctx context.Context, st store.Store, f store.Feed, now time.Time) (im.Pos, error) {
	var places []im.Pos
	err := st.Records(ctx, store.Consumers, 0, prefix(f), func(_, value []byte) bool {
		if len(value) == 8 {
			places = append(places, im.Pos(binary.BigEndian.Uint64(value)))
		}
		return true
	})
	if err != nil {
		return 0, fmt.Errorf("read places of the consumers of feed %d: %w", f, err)
	}
	last := im.Pos(0)
	for _, at := range places {
		last = max(last, at)
	}
	low := last
	for _, at := range places {
		if at >= low {
			continue
		}
		late, err := tooLate(ctx, st, f, at, now)
		if err != nil {
			return 0, err
		}
		if !late {
			low = at
		}
	}
	return low, nil
}

// tooLate tells whether the commit that a consumer has to read next is too old for the
// feed to wait, or is not there any more.
func tooLate(ctx context.Context, st store.Store, f store.Feed, at im.Pos, now time.Time) (late bool, err error) {
	err = st.ScanFeed(ctx, f, at, at+1, func(_ im.Pos, e *storepb.FeedEntry) bool {
		late = e.TimeMs < uint64(now.Add(-MaxBehind).UnixMilli())
		return false
	})
	if errors.Is(err, store.ErrTrimmed) || errors.Is(err, store.ErrCorrupt) {
		return true, nil
	}
	return late, err
}
