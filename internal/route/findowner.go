package route

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/petrel-im/petrel/internal/cluster"
	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
)

const (
	callTime   = 2 * time.Second       // for one request to one node
	askAgain   = 50 * time.Millisecond // between two requests of one question
	retryAfter = time.Second           // after which a client may try again
)

// owners finds the owner of a feed: the Owner on this node, or another node.
type owners struct {
	convs   *conv.Convs
	cluster *cluster.Cluster // nil: there are no other nodes
	log     *slog.Logger
}

// here returns the Owner of a feed on this node, after the store has confirmed it: otherwise a node that was cut
// off would answer from outdated memory. ErrNotOwner: the feed is not here. Other errors: the store has not
// answered.
func (o *owners) here(ctx context.Context, f store.Feed) (*conv.Owner, error) {
	ow := o.convs.Owner(f)
	if ow == nil {
		return nil, conv.ErrNotOwner
	}
	return ow, o.confirm(ctx, ow)
}

// confirm asks the store whether ow still is the owner of its feed. ErrNotOwner: it is not. Without other nodes
// it does not ask.
func (o *owners) confirm(ctx context.Context, ow *conv.Owner) error {
	if o.cluster == nil {
		return nil
	}
	if owning, err := o.owning(ctx, []*conv.Owner{ow}); err != nil || len(owning) == 1 {
		return err
	}
	return conv.ErrNotOwner
}

// owning returns those of some Owners that still own their feeds, and
// throws the others away (Lose). It asks the store once about all of them.
func (o *owners) owning(ctx context.Context, all []*conv.Owner) ([]*conv.Owner, error) {
	all = slices.DeleteFunc(all, (*conv.Owner).Lost)
	if o.cluster == nil || len(all) == 0 {
		return all, nil
	}
	feeds := make([]store.Feed, len(all))
	for i, ow := range all {
		feeds[i] = ow.Feed()
	}
	epochs, err := o.cluster.Mine(ctx, feeds)
	if err != nil {
		return nil, err
	}
	owning := all[:0]
	for i, ow := range all {
		if ow.Epoch() == epochs[i] {
			owning = append(owning, ow)
		} else {
			ow.Lose(store.ErrStale)
		}
	}
	return owning, nil
}

// confirmOne is conv.Elsewhere.Confirm. A batch with answers but without rows has no append that
// would show whether this node still owns the feed, so the store is asked: otherwise a node that
// was cut off would answer from outdated memory.
func (o *owners) confirmOne(ow *conv.Owner) error {
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

// confirmFeeds returns the confirmed Owners here of some feeds. It asks the store once about all of
// them.
func (o *owners) confirmFeeds(ctx context.Context, asked map[store.Feed]bool) (map[store.Feed]*conv.Owner, error) {
	var here []*conv.Owner
	for f := range asked {
		if ow := o.convs.Owner(f); ow != nil {
			here = append(here, ow)
		}
	}
	owning, err := o.owning(ctx, here)
	if err != nil {
		return nil, err
	}
	mine := make(map[store.Feed]*conv.Owner, len(owning))
	for _, ow := range owning {
		mine[ow.Feed()] = ow
	}
	return mine, nil
}

// confirmAll is conv.Elsewhere.ConfirmAll.
func (o *owners) confirmAll(feeds map[store.Feed]bool) (map[store.Feed]im.Epoch, error) {
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	mine, err := o.confirmFeeds(ctx, feeds)
	epochs := make(map[store.Feed]im.Epoch, len(mine))
	for f, ow := range mine {
		epochs[f] = ow.Epoch()
	}
	return epochs, err
}

// elsewhere returns the other node that owns a feed, as far as this one
// knows; false: no other node is known to own it.
func (o *owners) elsewhere(f store.Feed) (im.Node, im.Epoch, bool) {
	if o.cluster == nil {
		return "", 0, false
	}
	node, epoch, ok := o.cluster.Route(f)
	return node, epoch, ok && node != o.cluster.Self()
}

// wait waits a moment for another owner of a feed. Codes: draining if there are no other nodes,
// store_stalled when ctx has ended.
func (o *owners) wait(ctx context.Context, f store.Feed) error {
	if o.cluster == nil {
		return &im.Error{Code: im.CodeDraining, RetryAfter: retryAfter}
	}
	_, epoch, _ := o.cluster.Route(f)
	moment, cancel := context.WithTimeout(ctx, askAgain)
	defer cancel()
	_, _, _ = o.cluster.Wait(moment, f, epoch) // the caller looks again in any case
	if ctx.Err() != nil {
		return &im.Error{Code: im.CodeStoreStalled, RetryAfter: retryAfter}
	}
	return nil
}
