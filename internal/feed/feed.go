// Package feed runs the consumers of the feeds. A consumer processes each commit, to keep the lists of users, for
// example. It has a name and a position of its own in each feed, and stores the position after its results are
// durable. So it processes each commit at least once. The feed forgets the commits that all consumers have
// read. It does not wait for a consumer whose next commit is older than MaxBehind.
//
//   - feed.go reads a feed for a consumer
//   - position.go stores the position, and finds one to go on from when commits are gone
//   - trim.go removes commits that no consumer needs
//   - runner.go runs the consumers of the feeds that this node owns
package feed

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/wake"
)

// Options configure a Consumer. New and Run call the functions, one at a time; Await calls Published, too.
type Options struct {
	Name  string // of the consumer: a part of its key in the store
	Feed  store.Feed
	Store store.Store
	Log   *slog.Logger
	Keep  im.Pos // how many commits before the position of the slowest consumer the feed keeps

	Published func() im.Pos                   // up to where the feed may be read
	Moved     <-chan struct{}                 // has a token after Published has moved over a commit for the consumer
	Concerns  func(after, upTo im.Pos) bool   // whether a commit of after+1..upTo may be for the consumer
	Takes     func(it *storepb.FeedItem) bool // whether an item is for the consumer
	Lacks     func(timeMs uint64)             // gets the time of the oldest commit to be taken; 0: there is none
	Begin     func(ctx context.Context)       // is called before the first read

	// Take processes items, and returns nil when the results are durable. anew: the consumer has missed
	// commits, which were trimmed or damaged. To make up for these, Take processes the whole conversations of
	// the items, whatever has happened in them.
	Take   func(ctx context.Context, items []*storepb.FeedItem, anew bool) error
	AtOnce int // about how many items Take gets

	// State returns the data that the consumer stores with its position, in one write: a value, and other
	// records. StateRead gets the stored value; nil: there is none. New calls StateRead, and so does each later
	// read of the record of the position.
	State     func() (value []byte, puts []store.RecordPut)
	StateRead func(value []byte)
	Stored    func() // is called when the result of State is stored
}

// Consumer reads one feed.
//
// It does not ask the store whether this node still owns the feed. A node that stood still may go on with a
// feed that another node owns by now. Then it reads old commits, but no wrong ones: all of them were
// published. The next owner's consumer takes the same items, and the position that it has stored stays
// (Save), so nothing is left out.
type Consumer struct {
	o Options

	done    im.Pos // everything up to here is taken
	stored  im.Pos // the position in the store
	was     []byte // the record of the position, as it was read or written last; nil: there is none
	rebuild im.Pos // up to here all items are taken anew

	resets atomic.Uint64

	asked chan struct{} // capacity 1; a token: somebody waits

	mu      sync.Mutex // tier 1; guards the fields below
	reached im.Pos     // done, as others see it
	waiters []waiter
}

// waiter waits until a consumer has reached a position.
type waiter struct {
	pos im.Pos
	ch  chan struct{} // closed then
}

const (
	// the position is stored at this interval while it moves; a crash repeats the commits since then
	saveEvery = 5 * time.Second
	tryAgain  = 200 * time.Millisecond // from an error to the next try
)

// New makes a consumer that continues where the last one of this feed and name stopped.
func New(ctx context.Context, o Options) (*Consumer, error) {
	c := &Consumer{o: o, asked: make(chan struct{}, 1)}
	_, err := c.reread(ctx)
	c.reached = c.done
	return c, err
}

// Resets counts how often commits were trimmed, or damaged, before they were taken.
func (c *Consumer) Resets() uint64 { return c.resets.Load() }

// Await returns when everything that was published before the call is taken, or when ctx ends.
func (c *Consumer) Await(ctx context.Context) error {
	pos := c.o.Published()
	c.mu.Lock()
	if c.reached >= pos {
		c.mu.Unlock()
		return nil
	}
	w := waiter{pos, make(chan struct{})}
	c.waiters = append(c.waiters, w)
	c.mu.Unlock()
	wake.Set(c.asked)
	select {
	case <-w.ch:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// wakeWaiters publishes done as reached, and wakes the callers of Await whose position is reached.
func (c *Consumer) wakeWaiters() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reached = c.done
	c.waiters = slices.DeleteFunc(c.waiters, func(w waiter) bool {
		if w.pos <= c.reached {
			close(w.ch)
		}
		return w.pos <= c.reached
	})
}

// Run follows the feed until ctx ends, or the store has failed.
func (c *Consumer) Run(ctx context.Context) error {
	c.o.Begin(ctx)
	tick := time.NewTicker(saveEvery)
	defer tick.Stop()
	for {
		var again <-chan time.Time // nil: nothing is left
		if err := c.CatchUp(ctx, tick.C); err != nil {
			if ctx.Err() != nil || errors.Is(err, store.ErrFailed) {
				return nil // the watcher of the store ends the process
			}
			// unsettled errors pass: consumers of many feeds write into one conversation
			if e, ok := errors.AsType[*im.Error](err); !ok || e.Code.Info().Settled {
				c.o.Log.Error("consume feed failed", "consumer", c.o.Name, "feed", c.o.Feed, "err", err)
			}
			again = time.After(tryAgain)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-again:
		case <-c.o.Moved:
		case <-c.asked:
		case <-tick.C:
			c.trySave(ctx)
		}
	}
}

// CatchUp takes the published commits. It does not return while commits come as quickly as it takes them, so
// it stores the position at each tick. Otherwise a server that is killed would take all of them again.
func (c *Consumer) CatchUp(ctx context.Context, tick <-chan time.Time) error {
	for {
		upTo := c.o.Published()
		anew := c.done < c.rebuild
		if !anew && !c.o.Concerns(c.done, upTo) {
			c.o.Lacks(0)
			c.done = max(c.done, upTo)
			c.wakeWaiters()
			return nil
		}
		if anew {
			upTo = c.rebuild
		}
		items, at, err := c.read(ctx, upTo, anew)
		if errors.Is(err, store.ErrTrimmed) || errors.Is(err, store.ErrCorrupt) {
			if err := c.reset(ctx, upTo); err != nil {
				return err
			}
			continue
		}
		if err == nil {
			err = c.o.Take(ctx, items, anew)
		}
		if err != nil {
			return err
		}
		c.done = at
		if anew && at >= c.rebuild {
			if err := c.Save(ctx); err != nil { // else the next start finds the gap again
				return err
			}
		}
		c.wakeWaiters()
		select {
		case <-tick:
			c.trySave(ctx)
		default:
		}
	}
}

// read reads the next items up to upTo. It returns them, and the position of the last commit that it has
// read.
func (c *Consumer) read(ctx context.Context, upTo im.Pos, anew bool) (items []*storepb.FeedItem, at im.Pos, err error) {
	at = c.done
	err = c.o.Store.ScanFeed(ctx, c.o.Feed, c.done, upTo, func(p im.Pos, e *storepb.FeedEntry) bool {
		for _, it := range e.Items {
			if anew || c.o.Takes(it) {
				if len(items) == 0 {
					c.o.Lacks(e.TimeMs)
				}
				items = append(items, it)
			}
		}
		at = p
		return len(items) < c.o.AtOnce
	})
	if at > c.done && errors.Is(err, store.ErrCorrupt) {
		err = nil // the items before the damage are taken first
	}
	return items, at, err
}
