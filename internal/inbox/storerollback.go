package inbox

import (
	"context"
	"fmt"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/route"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// A sync token that open has accepted was made by this server, in this history, and names only durable
// positions. A token that is ahead of the store proves that the store was put back to an earlier state. Then
// the server stops before it answers. A number that the client chose itself, such as after, is no proof.

// checkInbox compares t with the head of the user's inbox. If the head is lower, it reads the inbox once more
// before that counts.
func (y *Syncer) checkInbox(ctx context.Context, a im.Account, t *storepb.SyncToken, head im.Seq) error {
	seen := im.Seq(max(t.Known.GetInbox(), t.Next.GetInbox()))
	if seen <= head {
		return nil
	}
	head, err := eachEntry(ctx, y.Router, a, 0, func(*petrelv1.InboxEntry, im.Seq, int) {})
	if err != nil || seen <= head {
		return err
	}
	return y.refute(a, fmt.Sprintf("entry %d of their inbox, and the store has %d", seen, head))
}

// checkFeeds compares t with the positions of feeds that were just read. Another node may own a feed by now,
// so it asks the store before a lower position counts.
func (y *Syncer) checkFeeds(ctx context.Context, a im.Account, t *storepb.SyncToken, places route.Places) error {
	seen := map[store.Feed]im.Pos{}
	var feeds []store.Feed
	for f, pos := range places {
		if saw := max(posOf(t.Known, f), posOf(t.Next, f)); saw > pos {
			seen[f] = saw
			feeds = append(feeds, f)
		}
	}
	if len(feeds) == 0 {
		return nil
	}
	holders, err := y.Store.Holders(ctx, feeds)
	if err != nil {
		return err
	}
	for i, f := range feeds {
		if holders[i].Pos < seen[f] {
			return y.refute(a, fmt.Sprintf("commit %d of feed %d, and the store has %d", seen[f], f, holders[i].Pos))
		}
	}
	return nil
}

// refute ends the service: the store is refuted. It returns the error for the client, store_stalled.
func (y *Syncer) refute(a im.Account, saw string) error {
	proof := fmt.Sprintf("a sync token of user %s names %s", a.User, saw)
	if y.Refute != nil {
		y.Refute(proof)
	} else {
		y.Store.Refute(proof)
	}
	return &im.Error{Code: im.CodeStoreStalled, RetryAfter: time.Second}
}
