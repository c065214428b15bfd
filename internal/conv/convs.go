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
	"sync"
	"sync/atomic"
	"time"

	"github.com/petrel-im/petrel/internal/bus"
	"github.com/petrel-im/petrel/internal/bus/stream"
	"github.com/petrel-im/petrel/internal/cluster"
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

	// Follow is run for each feed that this node owns, from when it has it
	// until ctx ends with it. nil: nothing.
	Follow func(ctx context.Context, ow *Owner)

	// Await returns when what Follow does for the commits of a feed that were
	// published before the call is done. nil: at once.
	Await func(ctx context.Context, ow *Owner) error

	// Cluster tells which feeds this node owns, and where the others are. nil:
	// this node owns all of them.
	Cluster *cluster.Cluster

	// Bus, Streams and Nodes lead to the other nodes of Cluster.
	Bus     bus.Bus
	Streams *stream.Streams
	Nodes   *fanout.Nodes
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
	if o.Await == nil {
		o.Await = func(context.Context, *Owner) error { return nil }
	}
	if o.WaitingMoves == 0 {
		o.WaitingMoves = 1 << 18
	}
	return o
}

// Convs are all conversations, wherever they are: those of the feeds that this
// node owns are decided here, the others by their owners.
type Convs struct {
	o      Options
	store  store.Store
	table  *fanout.Table
	node   shared
	holder uint64 // in whose name this process takes feeds

	owners []atomic.Pointer[Owner] // by feed; nil: not here
	lanes  []lane                  // by feed
	pumps  chan struct{}           // capacity 1; a token: a lane has something to do
	calls  chan struct{}           // capacity maxCalls; holds one for each call of another node

	mu     sync.Mutex      // tier 1; guards the fields below
	ctx    context.Context // of Run; nil: it does not run
	wg     *sync.WaitGroup // the committers and followers of Run
	failed chan error      // capacity 1: of a committer
	fans   []*fanout.Fan   // of the last Owner of each feed
	counts Fanned          // of those before
}

// errNotOwner says that a feed is not, or not any more, in the hands of this
// node.
var errNotOwner = errors.New("feed is owned by another node")

// New makes the front of the conversations of st. Without a cluster it takes
// all feeds over: from here on this process is the only writer.
func New(ctx context.Context, o Options, st store.Store, table *fanout.Table) (*Convs, error) {
	cs := &Convs{o: o.withDefaults(), store: st, table: table, failed: make(chan error, 1), holder: 1, pumps: make(chan struct{}, 1), calls: make(chan struct{}, maxCalls)}
	cs.node.loaders.ready = sync.NewCond(&cs.node.loaders.mu)
	feeds := st.Feeds()
	last := store.Feed(0)
	for _, f := range feeds {
		last = max(last, f)
	}
	cs.owners, cs.fans = make([]atomic.Pointer[Owner], int(last)+1), make([]*fanout.Fan, int(last)+1)
	cs.lanes = make([]lane, int(last)+1)
	for i := range cs.lanes {
		cs.lanes[i].queues, cs.lanes[i].tickets = map[im.Key]*queue{}, map[uint64]asked{}
	}
	if o.Cluster != nil {
		cs.holder = o.Cluster.Incarnation()
		cs.attach()
		return cs, nil
	}
	for _, f := range feeds {
		if _, err := cs.Open(ctx, f); err != nil {
			return nil, err
		}
	}
	return cs, nil
}

// attach handles what the other nodes send.
func (cs *Convs) attach() {
	cs.o.Streams.Handle(cluster.KindSends, cs.receiveSends)
	cs.o.Streams.Handle(cluster.KindNotOwner, cs.receiveNotOwner)
	cs.o.Bus.Handle(callSubject, cs.serveCall)
	cs.o.Nodes.Answered, cs.o.Nodes.Lost = cs.answered, cs.lostAnswers
}

// Run commits until ctx ends, then commits what is queued still, and returns
// when every send has its answer. A store that fails ends it with an error;
// the process must exit then.
func (cs *Convs) Run(ctx context.Context) error {
	var wg, loading sync.WaitGroup
	for range cs.o.Loaders {
		loading.Go(cs.node.loaders.run)
	}
	defer loading.Wait()
	defer cs.node.loaders.stop()
	if cs.o.Cluster != nil {
		wg.Go(func() { cs.runLanes(ctx) })
	}
	cs.mu.Lock()
	cs.ctx, cs.wg = ctx, &wg
	for i := range cs.owners {
		if ow := cs.owners[i].Load(); ow != nil {
			cs.startLocked(ow)
		}
	}
	cs.mu.Unlock()
	var err error
	select {
	case <-ctx.Done():
	case err = <-cs.failed:
	}
	cs.mu.Lock()
	cs.ctx = nil // no more of them start
	cs.mu.Unlock()
	wg.Wait()
	select {
	case err = <-cs.failed:
	default:
	}
	return err
}

// startLocked runs an Owner's committer and follower.
func (cs *Convs) startLocked(ow *Owner) {
	running := cs.ctx
	ctx, cancel := context.WithCancel(running)
	cs.wg.Go(func() {
		defer cancel()
		if err := ow.run(running); err != nil {
			select {
			case cs.failed <- err:
			default:
			}
		}
	})
	if cs.o.Follow != nil {
		cs.wg.Go(func() { cs.o.Follow(ctx, ow) })
	}
}

// Open takes a feed over and serves it, when the Owner before it, of this node,
// has left. It is called by the cluster.
func (cs *Convs) Open(ctx context.Context, f store.Feed) (im.Epoch, error) {
	if cs.Close(ctx, f); cs.owners[f].Load() != nil {
		return 0, fmt.Errorf("close feed %d: %w", f, context.Cause(ctx))
	}
	fan := fanout.New(cs.table)
	fan.Remote = cs.o.Nodes
	ow, err := newOwner(ctx, cs.o, &cs.node, cs.store, fan, f, cs.holder)
	if err != nil {
		return 0, err
	}
	ow.leave, ow.confirm = cs.leave, func() error { return cs.stillOwns(ow) }
	if cs.o.Nodes != nil && !sabotageForgetsFan {
		if err := ow.refan(ctx); err != nil {
			return 0, fmt.Errorf("fan out feed %d again: %w", f, err)
		}
	}
	cs.mu.Lock()
	cs.counts.add(cs.fans[f])
	cs.fans[f] = fan
	cs.owners[f].Store(ow)
	if cs.ctx != nil {
		cs.startLocked(ow)
	}
	cs.mu.Unlock()
	cs.pump()
	return ow.epoch, nil
}

// Close gives a feed away: what it has taken is committed. It returns when
// nothing of the feed is under way here, or when ctx ends. It is called by the
// cluster.
func (cs *Convs) Close(ctx context.Context, f store.Feed) {
	ow := cs.owners[f].Load()
	if ow == nil {
		return
	}
	ow.seal()
	select {
	case <-ow.ended:
	case <-ctx.Done():
	}
}

// leave takes an Owner out of service. Until then no send passes those that it
// has taken, whatever became of its last commit: the lane rests.
func (cs *Convs) leave(ow *Owner, orphans func() []*Send) {
	cs.forward(ow, orphans)
	if cs.o.Cluster != nil && ow.isLost() {
		cs.o.Cluster.Lost(ow.feed, ow.epoch)
	}
}

// feedOf is the feed that holds a conversation.
func (cs *Convs) feedOf(key im.Key) store.Feed { return cs.store.FeedOf(im.PartitionOf(key.Conv)) }

// Submit queues sends; those of one caller to one conversation keep their
// order. What cannot be queued is answered at once. k gathers the wake-ups.
//
// Codes, all unsettled: overloaded, disk_full, store_stalled, draining.
func (cs *Convs) Submit(sends []*Send, k *fanout.Kicks) {
	for len(sends) > 0 {
		f, n := cs.feedOf(sends[0].Conv), 1
		for n < len(sends) && cs.feedOf(sends[n].Conv) == f {
			n++
		}
		cs.submit(f, sends[:n], k)
		sends = sends[n:]
	}
}

// Waiting is how many sends have no answer yet.
func (cs *Convs) Waiting() int { return cs.sum((*Owner).Waiting) + cs.forwarding() }

// Forwarding is how many of those are with the owners of other nodes.
func (cs *Convs) Forwarding() int { return cs.forwarding() }

// Loaded is how many conversations are in memory.
func (cs *Convs) Loaded() int { return cs.sum((*Owner).Loaded) }

// MovesWaiting is how many moves of cursors have no answer yet.
func (cs *Convs) MovesWaiting() int { return int(cs.node.moves.Load()) }

// Accepted counts entries made durable here, Repeats sends answered from dedupe.
func (cs *Convs) Accepted() uint64 { return cs.node.accepted.Load() }

// Repeats counts sends that were answered from dedupe here.
func (cs *Convs) Repeats() uint64 { return cs.node.repeats.Load() }

// AppendsRefused counts commits that the store refused because another node had
// taken the feed over: those of an owner that did not know it yet.
func (cs *Convs) AppendsRefused() uint64 { return cs.node.stale.Load() }

// Owners are the feeds that this node owns now.
func (cs *Convs) Owners() []*Owner {
	var list []*Owner
	for i := range cs.owners {
		if ow := cs.owners[i].Load(); ow != nil {
			list = append(list, ow)
		}
	}
	return list
}

func (cs *Convs) sum(of func(*Owner) int) int {
	n := 0
	for _, ow := range cs.Owners() {
		n += of(ow)
	}
	return n
}

// Fanned counts events: put into outboxes here, told by a hint, and refused by
// an outbox.
type Fanned struct{ Delivered, Hinted, Lagged uint64 }

func (n *Fanned) add(f *fanout.Fan) {
	if f != nil {
		n.Delivered += f.Delivered.Load()
		n.Hinted += f.Hinted.Load()
		n.Lagged += f.Lagged.Load()
	}
}

// Fanned counts what became of the events of the feeds here.
func (cs *Convs) Fanned() Fanned {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	n := cs.counts
	if cs.o.Nodes != nil {
		delivered, hinted, lagged := cs.o.Nodes.Counts()
		n.Delivered, n.Hinted, n.Lagged = n.Delivered+delivered, n.Hinted+hinted, n.Lagged+lagged
	}
	for _, f := range cs.fans {
		n.add(f)
	}
	return n
}
