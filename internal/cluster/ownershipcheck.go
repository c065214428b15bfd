package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/wake"
)

// reads has the next read of the store, for the callers of Mine.
type reads struct {
	asked chan struct{} // capacity 1; a token: next is there

	mu   sync.Mutex // tier 0; guards the field below
	next *read      // nil: nobody waits
}

// read is one read of the store for all who wait for it.
type read struct {
	feeds   map[store.Feed]struct{}
	done    chan struct{} // closed when the fields below are set
	holders map[store.Feed]store.Holder
	err     error
}

// Mine returns, for each of the feeds, the epoch in which this process is its holder in the store,
// or 0. If it returns epoch e, an Owner of e has in memory all that any node acked before the call.
// Memory alone is not enough: a process that was stopped for a while cannot know of its successor.
//
// All calls during a read share the next read. Errors are those of the store and of ctx.
func (c *Cluster) Mine(ctx context.Context, feeds []store.Feed) ([]im.Epoch, error) {
	epochs := make([]im.Epoch, len(feeds))
	if c.o.Alone {
		for i, f := range feeds {
			if _, e, ok := c.Route(f); ok {
				epochs[i] = e
			}
		}
		return epochs, nil
	}
	r := c.reads.join(feeds)
	select {
	case <-r.done:
	case <-ctx.Done():
		err := context.Cause(ctx)
		if errors.Is(err, context.DeadlineExceeded) { // the store has not answered in time
			err = fmt.Errorf("%w: %w", store.ErrStalled, err)
		}
		return nil, fmt.Errorf("read holders of %d feeds: %w", len(feeds), err)
	}
	if r.err != nil {
		return nil, fmt.Errorf("read holders of %d feeds: %w", len(feeds), r.err)
	}
	for i, f := range feeds {
		if h := r.holders[f]; h.Holder == c.incarnation && h.State.Takes() {
			epochs[i] = h.Epoch
		}
	}
	return epochs, nil
}

// join adds feeds to the next read.
func (rs *reads) join(feeds []store.Feed) *read {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.next == nil {
		rs.next = &read{feeds: map[store.Feed]struct{}{}, done: make(chan struct{})}
		wake.Set(rs.asked)
	}
	for _, f := range feeds {
		rs.next.feeds[f] = struct{}{}
	}
	return rs.next
}

// take returns the next read, which no later call joins. So a read
// always begins after the questions that it answers.
func (rs *reads) take() *read {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r := rs.next
	rs.next = nil
	return r
}

// answers reads the holders for the callers of Mine, until ctx ends.
func (c *Cluster) answers(ctx context.Context) {
	for {
		select {
		case <-c.reads.asked:
		case <-ctx.Done():
			if r := c.reads.take(); r != nil {
				r.err = context.Cause(ctx)
				close(r.done)
			}
			return
		}
		r := c.reads.take()
		if r == nil {
			continue
		}
		feeds := make([]store.Feed, 0, len(r.feeds))
		for f := range r.feeds {
			feeds = append(feeds, f)
		}
		r.holders, r.err = c.holders(ctx, feeds)
		close(r.done)
	}
}

// holders asks the store for the holders of feeds, for storeWait at most.
func (c *Cluster) holders(ctx context.Context, feeds []store.Feed) (map[store.Feed]store.Holder, error) {
	ctx, cancel := context.WithTimeout(ctx, storeWait)
	defer cancel()
	list, err := c.store.Holders(ctx, feeds)
	if err != nil {
		return nil, err
	}
	out := make(map[store.Feed]store.Holder, len(feeds))
	for i, f := range feeds {
		out[f] = list[i]
	}
	return out, nil
}
