package conv

import (
	"context"
	"fmt"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
)

// ChangedAt is the position of the newest change of a conversation that a sync
// of u tells of: its newest row, u's own cursor or, unless it is empty, peer's.
// It may be one that is not durable yet. It loads nothing: of a conversation
// that is not in memory only the end is read, which is what makes a sync of
// thousands of them cheap.
//
// Every change that was published before the call is in the answer: it is in
// the store by then.
func (ow *Owner) ChangedAt(ctx context.Context, key im.Key, u, peer im.User) (im.Pos, error) {
	pos, known := ow.newestPos(key)
	if !known {
		row, err := ow.store.LastRow(ctx, key)
		if err != nil {
			return 0, err
		}
		if row != nil {
			head, _, err := store.SplitRow(row.Value)
			if err != nil {
				return 0, fmt.Errorf("read head of %s: %w", key, err)
			}
			pos = head.Pos
		}
	}
	own, err := ow.CursorOf(ctx, key, u)
	if err != nil || peer == "" {
		return max(pos, own.Pos), err
	}
	other, err := ow.CursorOf(ctx, key, peer)
	return max(pos, own.Pos, other.Pos), err
}

// newestPos is the position of the newest published row of a conversation in
// memory.
func (ow *Owner) newestPos(key im.Key) (im.Pos, bool) {
	ow.mu.Lock()
	defer ow.mu.Unlock()
	c := ow.convs[key]
	if c == nil || c.state == loading {
		return 0, false
	}
	return c.point.Load().pos, true
}
