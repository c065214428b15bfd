package feed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// MaxBehind is how old the next commit of a consumer may be. If it is older, and another consumer of the feed
// is further, the feed does not wait for the consumer. After a trim, its next read fails with ErrTrimmed, and
// it is reset.
const MaxBehind = 7 * 24 * time.Hour

// Trim has the feed forget the commits up to the position of the slowest consumer that it waits for, except
// the last keep of them.
func Trim(ctx context.Context, st store.Store, f store.Feed, now time.Time, keep im.Pos) error {
	slowest, err := slowest(ctx, st, f, now)
	if err != nil || slowest <= keep {
		return err
	}
	return st.TrimFeed(ctx, f, slowest-keep)
}

// slowest returns the lowest position of the consumers that the feed waits for: those that are not tooLate,
// and the furthest one. 0: there is no consumer.
func slowest(ctx context.Context, st store.Store, f store.Feed, now time.Time) (im.Pos, error) {
	var all []im.Pos
	last := im.Pos(0)
	err := st.Records(ctx, store.Consumers, 0, prefix(f), func(_, record []byte) bool {
		if pos, _, ok := decode(record); ok {
			all, last = append(all, pos), max(last, pos)
		}
		return true
	})
	if err != nil {
		return 0, fmt.Errorf("read positions of the consumers of feed %d: %w", f, err)
	}
	low := last
	for _, pos := range all {
		if pos >= low {
			continue
		}
		late, err := tooLate(ctx, st, f, pos, now)
		if err != nil {
			return 0, err
		}
		if !late {
			low = pos
		}
	}
	return low, nil
}

// tooLate tells whether the next commit of a consumer at pos is older than MaxBehind, trimmed or damaged.
func tooLate(ctx context.Context, st store.Store, f store.Feed, pos im.Pos, now time.Time) (late bool, err error) {
	err = st.ScanFeed(ctx, f, pos, pos+1, func(_ im.Pos, e *storepb.FeedEntry) bool {
		late = e.TimeMs < uint64(now.Add(-MaxBehind).UnixMilli())
		return false
	})
	if errors.Is(err, store.ErrTrimmed) || errors.Is(err, store.ErrCorrupt) {
		return true, nil
	}
	return late, err
}
