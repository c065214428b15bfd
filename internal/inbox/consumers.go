package inbox

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/store"
)

// Consumers carry changes of membership to the inboxes, one of them for each
// feed that this node owns. Follow is for conv.Convs, Await for route.Options.
type Consumers struct {
	Log   *slog.Logger
	Convs *conv.Convs
	Store store.Store

	Hooks // of each of them

	of     sync.Map      // *conv.Owner → *Consumer
	resets atomic.Uint64 // of those that have ended
}

// Resets counts how often changes of membership were trimmed before the inboxes
// had them.
func (all *Consumers) Resets() uint64 {
	n := all.resets.Load()
	all.of.Range(func(_, c any) bool {
		n += c.(*Consumer).Resets.Load()
		return true
	})
	return n
}

// startAgain is how long a consumer waits that could not read its place.
const startAgain = time.Second

// Follow runs the consumer of a feed until ctx ends.
func (all *Consumers) Follow(ctx context.Context, ow *conv.Owner) {
	for {
		c, err := NewConsumer(ctx, all.Log, all.Convs, ow, all.Store)
		if err == nil {
			c.Hooks = all.Hooks
			c.fill()
			all.of.Store(ow, c)
			_ = c.Run(ctx) // it ends with ctx, or with the store
			all.of.Delete(ow)
			all.resets.Add(c.Resets.Load())
			return
		}
		if ctx.Err() != nil {
			return
		}
		all.Log.Error("start inbox consumer failed", "feed", ow.Feed(), "err", err)
		select {
		case <-time.After(startAgain):
		case <-ctx.Done():
			return
		}
	}
}

// Await returns when the inboxes have every change of membership of a feed that
// was published before the call, or when ctx ends.
func (all *Consumers) Await(ctx context.Context, ow *conv.Owner) error {
	for {
		if c, ok := all.of.Load(ow); ok {
			return c.(*Consumer).Await(ctx)
		}
		select {
		case <-time.After(10 * time.Millisecond): // it begins
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
