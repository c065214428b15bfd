package inbox

import (
	"context"
	"log/slog"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/feed"
	"github.com/petrel-im/petrel/internal/store"
)

// Consumers carry changes of membership to the inboxes, one of them for each
// feed that this node owns. Follow is for conv.Convs, Await for route.Options.
type Consumers struct {
	Log   *slog.Logger
	Convs *conv.Convs
	Store store.Store

	Hooks // of each of them

	runner feed.Runner
}

// Resets counts how often changes of membership were trimmed before the inboxes
// had them.
func (all *Consumers) Resets() uint64 { return all.runner.Resets() }

// Follow runs the consumer of a feed until ctx ends.
func (all *Consumers) Follow(ctx context.Context, ow *conv.Owner) {
	all.runner.Follow(ctx, all.Log, ow, func(ctx context.Context) (*feed.Consumer, error) {
		c, err := NewConsumer(ctx, all.Log, all.Convs, ow, all.Store)
		if err != nil {
			return nil, err
		}
		c.Hooks = all.Hooks
		c.fill()
		return c.Consumer, nil
	})
}

// Await returns when the inboxes have every change of membership of a feed that
// was published before the call, or when ctx ends.
func (all *Consumers) Await(ctx context.Context, ow *conv.Owner) error {
	return all.runner.Await(ctx, ow)
}
