package session

import (
	"context"
	"sync"
	"time"

	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/user"
)

const (
	// settle is how long, and up to twice as long, a change of tokens is left to
	// who made it, who ends the sessions by CloseUser or CloseDevice and learns
	// how many there were. What that did not reach ends behind it.
	settle = 300 * time.Millisecond

	maxChanged = 1 << 16     // accounts; with more, all sessions are looked at
	checkers   = 8           // looks at the store at a time
	checkTime  = time.Second // for one of them
)

// again are the accounts whose sessions here are to be looked at.
type again struct {
	due chan struct{} // capacity 1; a token: there are some

	mu       sync.Mutex // tier 0; guards the fields below
	new, old map[im.Account]bool
}

// add notes an account. False: there are too many.
func (g *again) add(a im.Account) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.new) >= maxChanged {
		return false
	}
	if g.new == nil {
		g.new = map[im.Account]bool{}
	}
	g.new[a] = true
	signal(g.due)
	return true
}

// take returns those that were noted before the last call.
func (g *again) take() map[im.Account]bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := g.old
	g.old, g.new = g.new, nil
	if len(g.old) > 0 {
		signal(g.due)
	}
	return all
}

// signal leaves a token in a channel of capacity 1.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// pause waits; false: ctx has ended.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// lookAgain has the sessions of an account here look whether they may stay. One
// that is not in the online table yet looks behind entering it.
func (h *Hub) lookAgain(a im.Account) {
	list := h.table.Of(a)
	if len(list) == 0 {
		return
	}
	for _, o := range list {
		o.Doubt(h.trust.Now())
	}
	if !h.again.add(a) {
		h.doubtAll()
	}
}

// runAgain looks at the sessions of accounts that were noted, until ctx ends.
func (h *Hub) runAgain(ctx context.Context) {
	for {
		select {
		case <-h.again.due:
		case <-ctx.Done():
			return
		}
		if !pause(ctx, settle) {
			return
		}
		var list []*fanout.Outbox
		for a := range h.again.take() {
			list = append(list, h.table.Of(a)...)
		}
		for _, o := range h.check(ctx, list) {
			h.lookAgain(o.Account)
		}
	}
}

// check asks the store whether sessions may stay, and ends those that may not.
// It returns those of which the store did not say.
func (h *Hub) check(ctx context.Context, list []*fanout.Outbox) (open []*fanout.Outbox) {
	var wg sync.WaitGroup
	var mu sync.Mutex // tier 0; guards next and open
	next := 0
	take := func(last *fanout.Outbox) *fanout.Outbox {
		mu.Lock()
		defer mu.Unlock()
		if last != nil {
			open = append(open, last)
		}
		if next == len(list) {
			return nil
		}
		next++
		return list[next-1]
	}
	for range min(checkers, len(list)) {
		wg.Go(func() {
			for o := take(nil); o != nil; {
				if h.checkOne(ctx, o) {
					o = take(nil)
				} else {
					o = take(o)
				}
			}
		})
	}
	wg.Wait()
	return open
}

// checkOne asks the store about one session. False: it did not say.
func (h *Hub) checkOne(ctx context.Context, o *fanout.Outbox) bool {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	id := user.Identity{Account: o.Account, Device: o.Device, Login: o.Login}
	if o.Device == "" {
		id.Login, id.Epoch = 0, o.Login
	}
	at := h.trust.Now()
	err := h.users.Standing(ctx, id)
	switch code := im.CodeOf(err); {
	case err == nil:
		o.Confirm(at)
	case code == im.CodeReplaced || code == im.CodeRevoked:
		var k fanout.Kicks
		o.End(&im.Error{Code: code}, &k)
		k.Flush()
	default:
		return false
	}
	h.said.Store(int64(at))
	return true
}
