package route

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/petrel-im/petrel/internal/cluster"
	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
)

const (
	callTime  = 2 * time.Second       // for one request to one node
	askAgain  = 50 * time.Millisecond // between two requests of one question
	errorTime = time.Second           // after which a client may try again
)

// owners finds the owner of a feed: on this node, or the node where it is.
type owners struct {
	convs   *conv.Convs
	cluster *cluster.Cluster // nil: there are no other nodes
	log     *slog.Logger
}

// here is the Owner of a feed on this node. The store is asked whether it still
// is one: without that, a node that was cut off would answer from outdated memory.
// ErrNotOwner: the feed is not here.
func (o *owners) here(ctx context.Context, f store.Feed) (*conv.Owner, error) {
	ow := o.convs.Owner(f)
	if ow == nil {
		return nil, conv.ErrNotOwner
	}
	return ow, o.confirm(ctx, ow)
}

// confirm asks the store whether ow still is the feed's owner.
func (o *owners) confirm(ctx context.Context, ow *conv.Owner) error {
	if o.cluster == nil {
		return nil
	}
	if ow.Lost() {
		return conv.ErrNotOwner
	}
	epochs, err := o.cluster.Mine(ctx, []store.Feed{ow.Feed()})
	if err != nil {
		return err
	}
	if epochs[0] != ow.Epoch() {
		ow.Lose(store.ErrStale)
		return conv.ErrNotOwner
	}
	return nil
}

// stillOwns is conv.Elsewhere.Confirm. When a batch has only answers and no rows, no
// append tells whether this node still owns the feed. Without the question a node
// that was cut off would answer from outdated memory.
func (o *owners) stillOwns(ow *conv.Owner) error {
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	switch err := o.confirm(ctx, ow); {
	case err == nil:
		return nil
	case errors.Is(err, conv.ErrNotOwner):
		return store.ErrStale
	default:
		return fmt.Errorf("confirm feed %d: %w: %w", ow.Feed(), store.ErrStalled, err)
	}
}

// confirmFeeds returns the Owners here of some feeds. The store is asked once about
// all of them.
func (o *owners) confirmFeeds(ctx context.Context, asked map[store.Feed]bool) (map[store.Feed]*conv.Owner, error) {
	mine := map[store.Feed]*conv.Owner{}
	var feeds []store.Feed
	for f := range asked {
		if ow := o.convs.Owner(f); ow != nil && !ow.Lost() {
			mine[f] = ow
			feeds = append(feeds, f)
		}
	}
	if o.cluster == nil || len(feeds) == 0 {
		return mine, nil
	}
	epochs, err := o.cluster.Mine(ctx, feeds)
	if err != nil {
		return nil, err
	}
	for i, f := range feeds {
		if mine[f].Epoch() != epochs[i] {
			mine[f].Lose(store.ErrStale)
			delete(mine, f)
		}
	}
	return mine, nil
}

// stillOwn is conv.Elsewhere.ConfirmAll.
func (o *owners) stillOwn(feeds map[store.Feed]bool) (map[store.Feed]im.Epoch, error) {
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	mine, err := o.confirmFeeds(ctx, feeds)
	epochs := make(map[store.Feed]im.Epoch, len(mine))
	for f, ow := range mine {
		epochs[f] = ow.Epoch()
	}
	return epochs, err
}

// elsewhere is the other node that is said to own a feed; false: nobody knows of
// one.
func (o *owners) elsewhere(f store.Feed) (im.Node, im.Epoch, bool) {
	if o.cluster == nil {
		return "", 0, false
	}
	node, epoch, ok := o.cluster.Route(f)
	return node, epoch, ok && node != o.cluster.Self()
}

// wait waits a moment for another owner of a feed. Codes: draining where there
// are no other nodes, store_stalled when ctx has ended.
func (o *owners) wait(ctx context.Context, f store.Feed) error {
	if o.cluster == nil {
		return &im.Error{Code: im.CodeDraining, RetryAfter: errorTime}
	}
	_, epoch, _ := o.cluster.Route(f)
	moment, cancel := context.WithTimeout(ctx, askAgain)
	defer cancel()
	_, _, _ = o.cluster.Wait(moment, f, epoch) // the caller looks again, whatever came of it
	if ctx.Err() != nil {
		return &im.Error{Code: im.CodeStoreStalled, RetryAfter: errorTime}
	}
	return nil
}
