package conv

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
)

// Owner is this node's hold on one feed: the conversations in memory and the
// committer, the only writer of their seqs. When the feed is lost, or the
// outcome of a commit is unknown, the Owner ends with all that it remembers,
// and what was not answered is asked of the next one.
type Owner struct {
	o     Options
	node  *shared
	store store.Store
	fan   *fanout.Fan
	hash  hasher

	// leave is called when nothing is under way any more, once the feed was
	// given away or lost. It calls orphans, which takes the sends that are for
	// the next Owner, while nothing can pass them by.
	leave func(ow *Owner, orphans func() []*Send)

	// confirm asks the store whether this is the owner still: nil, ErrStale, or
	// ErrStalled.
	confirm func() error

	// The log's side: only the committer.
	feed   store.Feed
	holder uint64
	epoch  im.Epoch
	pos    im.Pos

	published atomic.Uint64 // im.Pos: commits up to here are durable and their heads are out
	members   atomic.Uint64 // im.Pos: no published commit above it, and above the one at the start, changed a membership
	moved     chan struct{} // capacity 1; a token: a commit changed a membership

	mu      sync.Mutex // tier 2; guards the fields below and the queues of the conversations
	convs   map[im.Key]*conv
	ring    []*conv       // conversations with queued sends, in turn
	waiting int           // sends not answered
	sealed  bool          // nothing more is taken
	lost    bool          // the committer stops as it is
	refused []*conv       // their newest batches were refused; the committer rolls them back
	stale   bool          // a commit without rows was refused; the same
	due     []*conv       // with cursors to write at once
	cooling []*conv       // whose cursors were written less than flushEvery ago, oldest first
	moves   int           // of cursors without an answer
	hurry   bool          // the end is near: cursors are written at once
	wake    chan struct{} // capacity 1; a token: ring has work
	gone    chan struct{} // closed when lost is set
	seals   chan struct{} // closed when sealed is set
	ended   chan struct{} // closed when the committer has stopped

	free chan *commit // capacity commitsInFlight; commits to use again

	cooled *time.Timer // the committer comes for the cursors of the first of cooling

	formers formers

	refusals fanout.Kicks // only publish
	answered fanout.Kicks // of moves of cursors; only publish
}

// shared is what the Owners of a node have together.
type shared struct {
	loaders  loaders
	inFlight atomic.Int64  // bytes of sends not answered
	moves    atomic.Int64  // of cursors, not answered
	accepted atomic.Uint64 // entries made durable
	repeats  atomic.Uint64 // sends answered from dedupe
	stale    atomic.Uint64 // commits that the store refused: another node has the feed
}

// commitsInFlight is one: the next batch is built when the last one is
// published, from all that came meanwhile. More would overlap, and make more
// and smaller batches of the same load (docs/decisions/003).
const commitsInFlight = 1

// newOwner takes a feed over; from here on no other Owner of it writes.
func newOwner(ctx context.Context, o Options, node *shared, st store.Store, fan *fanout.Fan, f store.Feed, holder uint64) (*Owner, error) {
	ow := &Owner{
		o: o, node: node, store: st, fan: fan, hash: hasher{st.Info().Secret}, feed: f, holder: holder,
		convs: map[im.Key]*conv{}, wake: make(chan struct{}, 1), moved: make(chan struct{}, 1),
		gone: make(chan struct{}), seals: make(chan struct{}), ended: make(chan struct{}),
		free: make(chan *commit, commitsInFlight), cooled: time.NewTimer(flushEvery),
	}
	var err error
	if ow.epoch, ow.pos, err = st.Takeover(ctx, f, holder); err != nil {
		return nil, fmt.Errorf("take over feed %d: %w", f, err)
	}
	ow.published.Store(uint64(ow.pos))
	ow.members.Store(uint64(ow.pos))
	for range commitsInFlight {
		ow.free <- &commit{}
	}
	return ow, nil
}

// run commits until ctx ends or the feed is given away, then commits what is
// queued still, and returns when every send has its answer. It returns at once
// when the feed is lost. A store that fails ends it with an error; the process
// must exit then.
func (ow *Owner) run(ctx context.Context) error {
	defer close(ow.ended)
	sweep := time.NewTicker(time.Second)
	defer sweep.Stop()
	for {
		select {
		case <-ow.wake:
		case <-ow.cooled.C:
		case <-sweep.C:
			ow.evictIdle()
			continue
		case <-ow.gone:
			return ow.end(errGone)
		case <-ow.store.Failed():
			return errFailed
		case <-ow.seals:
			return ow.end(ow.drain())
		case <-ctx.Done():
			return ow.end(ow.drain())
		}
		if err := ow.commitQueued(); err != nil {
			return ow.end(err)
		}
	}
}

var (
	errFailed = errors.New("store has failed")
	errGone   = errors.New("feed is lost")
)

// end leaves the feed, if it was given away or is lost. err is of the
// committer; what it returns is for the process.
func (ow *Owner) end(err error) error {
	if err != nil && !errors.Is(err, errGone) {
		return err
	}
	if ow.Sealed() {
		return ow.alone(commitsInFlight, func() { ow.leave(ow, ow.orphans) })
	}
	return nil
}

// drain commits what is queued and waits until all of it is published.
func (ow *Owner) drain() error {
	ow.mu.Lock()
	ow.hurry = true
	ow.mu.Unlock()
	for ow.Waiting() > 0 || ow.MovesWaiting() > 0 {
		if err := ow.commitQueued(); err != nil {
			return err
		}
		select {
		case <-ow.wake:
		case <-ow.gone:
			return errGone
		case <-ow.store.Failed():
			return errFailed
		case <-time.After(10 * time.Millisecond): // answers, loads and scans under way signal only when they queue work
		}
	}
	return nil
}

// seal ends the taking of sends and cursors. The committer ends when those that
// were taken are answered.
func (ow *Owner) seal() {
	ow.mu.Lock()
	defer ow.mu.Unlock()
	ow.sealLocked()
}

func (ow *Owner) sealLocked() {
	if !ow.sealed {
		ow.sealed = true
		close(ow.seals)
	}
}

// Sealed tells whether the feed was given away or is lost.
func (ow *Owner) Sealed() bool {
	ow.mu.Lock()
	defer ow.mu.Unlock()
	return ow.sealed
}

// isLost tells whether nothing may rest any more on what is in memory.
func (ow *Owner) isLost() bool {
	select {
	case <-ow.gone:
		return true
	default:
		return false
	}
}

// loseAll ends the Owner: the feed has another one, or nobody knows what became
// of cm, if there is one. Its sends are back at the head of their queues then;
// the committer leaves with all of them when no commit is under way.
func (ow *Owner) loseAll(cm *commit, err error) {
	ow.mu.Lock()
	if cm != nil {
		for _, w := range cm.work {
			for _, s := range w.sends {
				s.restore()
			}
			w.c.queue = append(slices.Clone(w.sends), w.c.queue...)
		}
	}
	first := !ow.lost
	if first {
		ow.lost = true
		close(ow.gone)
	}
	ow.sealLocked()
	dropped, sends := ow.dropMovesLocked(cm), ow.waiting
	ow.mu.Unlock()
	if cm != nil {
		ow.free <- cm
	}
	var k fanout.Kicks
	for _, m := range dropped {
		m.Done(Cursor{}, refusalOf(err), &k)
	}
	k.Flush()
	if first {
		ow.o.Log.Warn("feed is lost", "feed", ow.feed, "epoch", ow.epoch, "err", err, "sends", sends)
	}
}

// orphans takes the sends out of all queues, those of a conversation in their
// order.
func (ow *Owner) orphans() []*Send {
	ow.mu.Lock()
	defer ow.mu.Unlock()
	ow.ring = nil
	var all []*Send
	bytes := 0
	for _, c := range ow.convs {
		all = append(all, c.queue...)
		c.queue, c.queueBytes = nil, 0
	}
	for _, s := range all {
		bytes += s.bytes
	}
	ow.node.inFlight.Add(-int64(bytes))
	ow.waiting -= len(all)
	return all
}

// Feed is the feed that this Owner holds.
func (ow *Owner) Feed() store.Feed { return ow.feed }

// Waiting is how many sends have no answer yet.
func (ow *Owner) Waiting() int {
	ow.mu.Lock()
	defer ow.mu.Unlock()
	return ow.waiting
}

// Loaded is how many conversations are in memory.
func (ow *Owner) Loaded() int {
	ow.mu.Lock()
	defer ow.mu.Unlock()
	return len(ow.convs)
}

// Published is the position up to which commits are durable and readable.
func (ow *Owner) Published() im.Pos { return im.Pos(ow.published.Load()) }

// MembershipSince tells whether a commit with after < Pos <= upTo may have
// changed a membership; upTo is a published position.
func (ow *Owner) MembershipSince(after, upTo im.Pos) bool {
	return after < upTo && uint64(after) < ow.members.Load()
}

// MembershipMoved carries a token when a commit changed who is a member of
// what since the last token was taken.
func (ow *Owner) MembershipMoved() <-chan struct{} { return ow.moved }

func (ow *Owner) signal() {
	select {
	case ow.wake <- struct{}{}:
	default:
	}
}

// loaders read conversations from the store.
type loaders struct {
	mu      sync.Mutex // tier 1; guards the fields below
	jobs    []func()
	closing bool
	ready   *sync.Cond
}

// add has f run on a loader.
func (l *loaders) add(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.jobs = append(l.jobs, f)
	l.ready.Signal()
}

func (l *loaders) run() {
	for {
		l.mu.Lock()
		for len(l.jobs) == 0 && !l.closing {
			l.ready.Wait()
		}
		if len(l.jobs) == 0 {
			l.mu.Unlock()
			return
		}
		f := l.jobs[0]
		l.jobs = l.jobs[1:]
		l.mu.Unlock()
		f()
	}
}

func (l *loaders) stop() {
	l.mu.Lock()
	l.closing = true
	l.ready.Broadcast()
	l.mu.Unlock()
}
