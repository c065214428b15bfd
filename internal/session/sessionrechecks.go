package session

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/user"
	"github.com/petrel-im/petrel/internal/wake"
)

const (
	// recheckDelay delays the recheck of an account: the recheck begins after one to two times this delay, when
	// the rechecks under way have ended. CloseUser or CloseDevice usually ends the sessions before that, which
	// costs less.
	recheckDelay = 300 * time.Millisecond

	// The newest maxEnded sessions that rechecks have ended are remembered for endedFor, because CloseUser and
	// CloseDevice count them too.
	maxEnded = 1024
	endedFor = 10 * time.Second

	maxNotedAccounts = 1 << 16     // if more accounts are noted, all sessions are rechecked
	recheckers       = 8           // rechecks that read the store at the same time
	recheckTimeout   = time.Second // for one recheck

	// sweepPause is the least time from the beginning of one sweep to that of the next.
	sweepPause = 2 * time.Second

	// sweepSlice is the least time of one slice of a sweep. A slice has as
	// many sessions as Options.RechecksPerSecond allows in that time.
	sweepSlice = 20 * time.Millisecond
)

// rechecker asks the store again whether the tokens of sessions on this node are
// still valid, and ends the sessions whose tokens are not. It rechecks the sessions
// of accounts that changed, and in a sweep those of all accounts.
type rechecker struct {
	users       *user.Users
	table       *fanout.Table
	revocations *fanout.Revocations
	perSecond   int // rechecks of a sweep in a second

	due   chan struct{} // capacity 1; a token: there are accounts to recheck
	sweep chan struct{} // capacity 1; a token: all sessions are to be rechecked

	// Times of revocations.Now.
	storeAnswered atomic.Int64 // when the last recheck began that the store has answered
	sweepWanted   atomic.Int64 // a sweep is wanted that begins at this moment or later; 0: none is

	mu             sync.Mutex          // tier 0; guards the fields below
	noted, waiting map[im.Account]bool // noted after the last call of take, and before it
	ended          []endedSession      // by a recheck, oldest first
}

type endedSession struct {
	o  *fanout.Outbox
	at time.Time
}

func newRechecker(us *user.Users, t *fanout.Table, r *fanout.Revocations, perSecond int) *rechecker {
	return &rechecker{users: us, table: t, revocations: r, perSecond: perSecond,
		due: make(chan struct{}, 1), sweep: make(chan struct{}, 1)}
}

// account puts the sessions of an account in doubt, and has them rechecked soon. If too many accounts wait for
// that, it does so with all sessions. A session that is not in the online table yet checks its token itself,
// after it has entered the table.
func (r *rechecker) account(a im.Account) {
	list := r.table.Of(a)
	if len(list) == 0 {
		return
	}
	for _, o := range list {
		o.Doubt(r.revocations.Now())
	}
	if !r.note(a) {
		r.everybody()
	}
}

// announced has the sessions of an account, of which there are n, rechecked soon, but does not put them in doubt. What
// was announced may be older than what the store says: the node that announced it may have stood still.
func (r *rechecker) announced(a im.Account, n int) {
	if n > 0 && !r.note(a) {
		r.sweepSoon()
	}
}

// everybody puts all sessions in doubt and has them rechecked soon. It
// is for the case that nobody knows which tokens were revoked.
func (r *rechecker) everybody() {
	r.table.Each(func(o *fanout.Outbox) bool {
		o.Doubt(r.revocations.Now())
		return true
	})
	r.sweepSoon()
}

// sweepSoon has all sessions rechecked soon, but does not put them in doubt.
func (r *rechecker) sweepSoon() {
	r.wantSweep()
	wake.Set(r.sweep)
}

// wantSweep notes that a sweep is wanted that begins now or later.
func (r *rechecker) wantSweep() {
	now := int64(r.revocations.Now())
	for {
		wanted := r.sweepWanted.Load()
		if wanted >= now || r.sweepWanted.CompareAndSwap(wanted, now) {
			return
		}
	}
}

// note adds an account to recheck. It returns false if there are too many.
func (r *rechecker) note(a im.Account) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.noted) >= maxNotedAccounts {
		return false
	}
	if r.noted == nil {
		r.noted = map[im.Account]bool{}
	}
	r.noted[a] = true
	wake.Set(r.due)
	return true
}

// take returns the accounts that were noted before the previous call of
// take. So each account waits for at least one recheckDelay.
func (r *rechecker) take() map[im.Account]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.waiting
	r.waiting, r.noted = r.noted, nil
	if len(r.waiting) > 0 {
		wake.Set(r.due)
	}
	return all
}

// runAccounts rechecks the sessions of the accounts that were noted, until ctx ends.
func (r *rechecker) runAccounts(ctx context.Context) {
	for {
		select {
		case <-r.due:
		case <-ctx.Done():
			return
		}
		if !pause(ctx, recheckDelay) {
			return
		}
		var list []*fanout.Outbox
		for a := range r.take() {
			list = append(list, r.table.Of(a)...)
		}
		r.recheck(ctx, list)
	}
}

// runSweeps runs a sweep over all sessions whenever one is wanted, until ctx ends.
func (r *rechecker) runSweeps(ctx context.Context) {
	for {
		select {
		case <-r.sweep:
		case <-ctx.Done():
			return
		}
		began := r.revocations.Now()
		r.recheckAll(ctx)
		if wanted := r.sweepWanted.Load(); wanted <= int64(began) {
			r.sweepWanted.CompareAndSwap(wanted, 0) // fails if a later sweep is wanted by now
		}
		if !pause(ctx, sweepPause-(r.revocations.Now()-began)) {
			return
		}
	}
}

func (r *rechecker) recheckAll(ctx context.Context) {
	var list []*fanout.Outbox
	recheckSlice := func() bool {
		began := r.revocations.Now()
		r.recheck(ctx, list)
		list = list[:0]
		return pause(ctx, sweepSlice-(r.revocations.Now()-began))
	}
	perSlice := max(1, int(time.Duration(r.perSecond)*sweepSlice/time.Second))
	r.table.Each(func(o *fanout.Outbox) bool {
		list = append(list, o)
		return len(list) < perSlice || recheckSlice()
	})
	recheckSlice()
}

// recheck asks the store about sessions. If the store does not answer
// about one of them, all sessions of its account are rechecked later.
func (r *rechecker) recheck(ctx context.Context, list []*fanout.Outbox) {
	var wg sync.WaitGroup
	var mu sync.Mutex // tier 0; guards next and unanswered
	next := 0
	var unanswered []*fanout.Outbox
	take := func(last *fanout.Outbox) *fanout.Outbox {
		mu.Lock()
		defer mu.Unlock()
		if last != nil {
			unanswered = append(unanswered, last)
		}
		if next == len(list) {
			return nil
		}
		next++
		return list[next-1]
	}
	for range min(recheckers, len(list)) {
		wg.Go(func() {
			for o := take(nil); o != nil; {
				if r.recheckOne(ctx, o) {
					o = take(nil)
				} else {
					o = take(o)
				}
			}
		})
	}
	wg.Wait()
	for _, o := range unanswered {
		r.account(o.Account)
	}
}

// recheckOne asks the store about one session, and ends it if its token is not valid any more. It
// returns false if the store does not answer.
func (r *rechecker) recheckOne(ctx context.Context, o *fanout.Outbox) bool {
	ctx, cancel := context.WithTimeout(ctx, recheckTimeout)
	defer cancel()
	at := r.revocations.Now() // before the read: the answer may be older than its arrival
	learn := o.Asks()
	is, err := r.users.Standing(ctx, identityOf(o))
	switch code := im.CodeOf(err); {
	case err == nil:
		learn(is)
		o.Confirm(at)
	case code == im.CodeReplaced || code == im.CodeRevoked || code == im.CodeUserDisabled:
		var k fanout.WakeUps
		if o.End(&im.Error{Code: code}, &k) {
			r.remember(o)
		}
		k.Flush()
	default:
		return false
	}
	r.storeAnswered.Store(int64(at))
	return true
}

// remember notes a session that a recheck has ended.
func (r *rechecker) remember(o *fanout.Outbox) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.ended = slices.DeleteFunc(r.ended, func(e endedSession) bool { return now.Sub(e.at) >= endedFor })
	if len(r.ended) == maxEnded {
		r.ended = slices.Delete(r.ended, 0, 1)
	}
	r.ended = append(r.ended, endedSession{o, now})
}

// endedBefore counts, and forgets, the sessions of an account that match and that a recheck
// ended within endedFor. Otherwise the answer to the revocation would count too few.
func (r *rechecker) endedBefore(a im.Account, match func(*fanout.Outbox) bool) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.ended = slices.DeleteFunc(r.ended, func(e endedSession) bool {
		theirs := e.o.Account == a && match(e.o)
		if theirs && now.Sub(e.at) < endedFor {
			n++
		}
		return theirs || now.Sub(e.at) >= endedFor
	})
	return n
}

// pause waits for d. It returns false if ctx has ended.
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
