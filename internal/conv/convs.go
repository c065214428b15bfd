// Package conv owns the conversations: it is the only writer of seqs. One
// committer takes what is queued for all conversations, settles repeats, admits
// and numbers the rest, and appends it in one batch; when that is durable it
// publishes the heads and hands the entries to fan-out. Readers are bounded by
// the published heads.
//
// The way of a send: submit.go → commit.go (dedupe.go, admit.go) → store →
// publish.go. Spec: P-4, P-5.
package conv

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
)

// Options tune Convs; zero values are the defaults.
type Options struct {
	Log *slog.Logger
	Now func() time.Time // wall clock of message times

	// UserExists tells whether a user may be written to, or be added to a
	// group, for the first time. nil: everybody.
	UserExists func(ctx context.Context, a im.Account) (bool, error)

	// How long after its time a message may be edited and recalled by its
	// sender. 24 hours; below 0: for ever.
	EditWindow, RecallWindow time.Duration

	QueueBytes    int           // of sends waiting in one conversation; 1 MiB
	InFlightBytes int           // of sends admitted and not answered, in all; 64 MiB
	IdleAfter     time.Duration // an unused conversation leaves memory after this; 1 minute
	Loaders       int           // goroutines that read conversations from the store; 4
	WaitingMoves  int           // of cursors, not durable yet, in all; 262,144
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.EditWindow == 0 {
		o.EditWindow = 24 * time.Hour
	}
	if o.RecallWindow == 0 {
		o.RecallWindow = 24 * time.Hour
	}
	if o.QueueBytes == 0 {
		o.QueueBytes = 1 << 20
	}
	if o.InFlightBytes == 0 {
		o.InFlightBytes = 64 << 20
	}
	if o.IdleAfter == 0 {
		o.IdleAfter = time.Minute
	}
	if o.Loaders == 0 {
		o.Loaders = 4
	}
	if o.WaitingMoves == 0 {
		o.WaitingMoves = 1 << 18
	}
	return o
}

// Convs are the conversations of the partitions that this node owns.
type Convs struct {
	o     Options
	store store.Store
	fan   *fanout.Fan
	hash  hasher

	// The log's side: only the committer.
	feed   store.Feed
	epoch  im.Epoch
	holder uint64
	pos    im.Pos

	published atomic.Uint64 // im.Pos: commits up to here are durable and their heads are out
	members   atomic.Uint64 // im.Pos: no published commit above it, and above the one at the start, changed a membership
	moved     chan struct{} // capacity 1; a token: a commit changed a membership

	mu       sync.Mutex // tier 2; guards the fields below and the queues of the conversations
	convs    map[im.Key]*conv
	ring     []*conv // conversations with queued sends, in turn
	jobs     []func()
	inFlight int // bytes of sends not answered
	waiting  int // their number
	closing  bool
	refused  []*conv       // their newest batches were refused; the committer rolls them back
	stale    bool          // a commit without rows was refused; the same
	due      []*conv       // with cursors to write at once
	cooling  []*conv       // whose cursors were written less than flushEvery ago, oldest first
	moves    int           // of cursors without an answer
	hurry    bool          // the end is near: cursors are written at once
	wake     chan struct{} // capacity 1; a token: ring has work
	jobReady *sync.Cond

	free chan *commit // capacity commitsInFlight; commits to use again

	cooled *time.Timer // the committer comes for the cursors of the first of cooling

	formers formers

	refusals fanout.Kicks // only publish
	answered fanout.Kicks // of moves of cursors; only publish

	Accepted atomic.Uint64 // entries made durable
	Repeats  atomic.Uint64 // sends answered from dedupe
}

// commitsInFlight is one: the next batch is built when the last one is
// published, from all that came meanwhile. More would overlap, and make more
// and smaller batches of the same load (docs/decisions/003).
const commitsInFlight = 1

// New takes the feeds of st over; from here on this process is the only writer.
func New(ctx context.Context, o Options, st store.Store, fan *fanout.Fan) (*Convs, error) {
	cs := &Convs{
		o: o.withDefaults(), store: st, fan: fan, hash: hasher{st.Info().Secret},
		convs: map[im.Key]*conv{}, wake: make(chan struct{}, 1), moved: make(chan struct{}, 1),
		free: make(chan *commit, commitsInFlight), cooled: time.NewTimer(flushEvery),
	}
	cs.jobReady = sync.NewCond(&cs.mu)
	feeds := st.Feeds()
	if len(feeds) != 1 {
		return nil, fmt.Errorf("open conversations: %d feeds in the store, this version writes one", len(feeds))
	}
	cs.feed, cs.holder = feeds[0], rand.Uint64()
	var err error
	if cs.epoch, cs.pos, err = st.Takeover(ctx, cs.feed, cs.holder); err != nil {
		return nil, fmt.Errorf("take over feed %d: %w", cs.feed, err)
	}
	cs.published.Store(uint64(cs.pos))
	cs.members.Store(uint64(cs.pos))
	for range commitsInFlight {
		cs.free <- &commit{}
	}
	return cs, nil
}

// Run commits until ctx ends, then commits what is queued still, and returns
// when every send has its answer. A store that fails ends it with an error;
// the process must exit then.
func (cs *Convs) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for range cs.o.Loaders {
		wg.Go(cs.runJobs)
	}
	defer wg.Wait()
	defer cs.stopJobs()
	sweep := time.NewTicker(time.Second)
	defer sweep.Stop()
	for {
		select {
		case <-cs.wake:
		case <-cs.cooled.C:
		case <-sweep.C:
			cs.evictIdle()
			continue
		case <-cs.store.Failed():
			return errors.New("store has failed")
		case <-ctx.Done():
			return cs.drain()
		}
		if err := cs.commitQueued(); err != nil {
			return err
		}
	}
}

// drain commits what is queued and waits until all of it is published.
func (cs *Convs) drain() error {
	cs.mu.Lock()
	cs.hurry = true
	cs.mu.Unlock()
	for cs.Waiting() > 0 || cs.MovesWaiting() > 0 {
		if err := cs.commitQueued(); err != nil {
			return err
		}
		select {
		case <-cs.wake:
		case <-cs.store.Failed():
			return errors.New("store has failed")
		case <-time.After(10 * time.Millisecond): // answers, loads and scans under way signal only when they queue work
		}
	}
	return nil
}

// Waiting is how many sends have no answer yet.
func (cs *Convs) Waiting() int {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.waiting
}

// Loaded is how many conversations are in memory.
func (cs *Convs) Loaded() int {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return len(cs.convs)
}

// Published is the position up to which commits are durable and readable.
func (cs *Convs) Published() (store.Feed, im.Pos) {
	return cs.feed, im.Pos(cs.published.Load())
}

// MembershipSince tells whether a commit with after < Pos <= upTo may have
// changed a membership; upTo is a published position.
func (cs *Convs) MembershipSince(after, upTo im.Pos) bool {
	return after < upTo && uint64(after) < cs.members.Load()
}

// MembershipMoved carries a token when a commit changed who is a member of
// what since the last token was taken.
func (cs *Convs) MembershipMoved() <-chan struct{} { return cs.moved }

func (cs *Convs) signal() {
	select {
	case cs.wake <- struct{}{}:
	default:
	}
}

// addJobLocked runs f on a loader.
func (cs *Convs) addJobLocked(f func()) {
	cs.jobs = append(cs.jobs, f)
	cs.jobReady.Signal()
}

func (cs *Convs) runJobs() {
	for {
		cs.mu.Lock()
		for len(cs.jobs) == 0 && !cs.closing {
			cs.jobReady.Wait()
		}
		if len(cs.jobs) == 0 {
			cs.mu.Unlock()
			return
		}
		f := cs.jobs[0]
		cs.jobs = cs.jobs[1:]
		cs.mu.Unlock()
		f()
	}
}

func (cs *Convs) stopJobs() {
	cs.mu.Lock()
	cs.closing = true
	cs.jobReady.Broadcast()
	cs.mu.Unlock()
}
