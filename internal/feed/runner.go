package feed

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Runner runs the consumers of one name: one for each feed that this node owns. The zero value
// runs none yet.
type Runner struct {
	of     sync.Map      // tenure → *Consumer
	resets atomic.Uint64 // of those that have ended
}

// Resets counts how often commits were trimmed, or damaged, before they were taken.
func (r *Runner) Resets() uint64 {
	n := r.resets.Load()
	r.of.Range(func(_, c any) bool {
		n += c.(*Consumer).Resets()
		return true
	})
	return n
}

const (
	startAgain = time.Second           // from a failed start of a consumer to the next try
	askAgain   = 10 * time.Millisecond // from one look of Await for a consumer to the next
)

// Follow runs the consumer that start makes, until ctx ends. tenure identifies the time in which this node
// owns the feed; Await names it.
func (r *Runner) Follow(ctx context.Context, log *slog.Logger, tenure any,
	start func(context.Context) (*Consumer, error)) {
	for ctx.Err() == nil {
		c, err := start(ctx)
		if err == nil {
			r.of.Store(tenure, c)
			_ = c.Run(ctx) // it ends with ctx, or with the store
			r.of.Delete(tenure)
			r.resets.Add(c.Resets())
			return
		}
		if ctx.Err() != nil {
			return
		}
		log.Error("start consumer failed", "err", err)
		pause(ctx, startAgain)
	}
}

// Await returns when the consumer of a tenure has taken everything that was published before
// the call, or when ctx ends.
func (r *Runner) Await(ctx context.Context, tenure any) error {
	for {
		if c, ok := r.of.Load(tenure); ok {
			return c.(*Consumer).Await(ctx)
		}
		if pause(ctx, askAgain); ctx.Err() != nil { // the consumer has not begun yet
			return ctx.Err()
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
