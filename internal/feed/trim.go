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

// MaxBehind is for how long a feed waits for a consumer that reads nothing. The next read of
// such a consumer is ErrTrimmed, and it is reset.
const MaxBehind = 7 * 24 * time.Hour

// Trim has the feed forget what all registered consumers have read, but for the newest
// keep commits before the position of the slowest.
func Trim(ctx context.Context, st store.Store, f store.Feed, now time.Time, keep im.Pos) error {
	slowest, err := slowest(ctx, st, f, now)
	if err != nil || slowest <= keep {
		return err
	}
	return st.TrimFeed(ctx, f, slowest-keep)
}

// slowest is the lowest position of the consumers for which the feed is kept; 0: there is none.
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

// tooLate tells whether the commit that a consumer has to read next is too old for the
// feed to wait, or is not there any more.
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
