// Package conv keeps the conversations that this node owns. It is the only writer of their seqs. For each
// feed that the node owns there is an Owner. Its committer takes the sends that are queued for all
// conversations of the feed, answers repeats, admits and numbers the other sends, and appends them in one
// batch. When the batch is durable, the heads are published, and the entries go to fan-out. Readers see
// published entries only.
//
// The way of a batch, by its fields:
//
//	taken    work            the sends of each conversation
//	decided  staged          the rows of the conversation at hand: a later send may rewrite them
//	         items           for connections: an entry, the answer to its sender, or both
//	         spans           which members get which items
//	         answers         for callers without a connection
//	         heads           the new head of each conversation
//	         scans, later    sends that go back to their queues: those in scans until a loader has
//	                         read, those in later until the next batch
//	stored   commit          rows, records, cursors, marks and dedupe keys
//	ended    heads are published, spans of items go to fan-out, then answers to callers
//
// The files are listed from the top to the bottom: a file uses what is in files that come
// after it in this list, and nothing of those before it. A test in internal/lint finds cycles.
//
//   - The drivers: convs.go (all feeds of a node), inspect.go (questions of an operator), sync.go
//     (questions of a sync), owner.go (one feed), commit.go (its committer), refanout.go (a new
//     owner pushes the newest entries once more).
//   - The end of a commit: publish.go, tenure.go (how long this node owns the feed),
//     changeindex.go (the conversations that changed last).
//   - The making of a commit: build.go, admit.go, firstmessage.go (messages of strangers), rewrite.go
//     (edits and recalls), dedupe.go, batch.go.
//   - Requests that make no entry: cursorreads.go, cursor.go (moves of cursors), reactions.go
//     (package note changes and keeps the notes).
//   - Questions: mention.go (entries that mention a user, also for the committer), convqueries.go,
//     forwardsource.go (the message that a forward copies), history.go, pagenotes.go (the notes of
//     a page), pagequotes.go, grouptitles.go, damaged.go, reader.go (who may read a conversation, and the
//     reads of its rows), formerrow.go.
//   - Loading, and the queues: intake.go (sends and signals come in), membershipcheck.go (a
//     sender who may be an outsider), load.go, signaladmission.go, outsider.go (users who must
//     not learn that a conversation exists), queue.go (sends), memory.go.
//   - A conversation: conversation.go, withheld.go (the rows that a block hides), contact.go
//     (contacts and their requests), sides.go (what two users are to each other), usercursor.go,
//     members.go, thread.go, dedupehashes.go (the hashes that find repeats).
//   - The base of all others: inboxlag.go, sharedresources.go (the loaders, budgets and counters
//     of a node), options.go, send.go, relations.go (the entries and users to which a message
//     refers), signal.go (typing and calls, which are not stored), refusal.go (errors for callers).
//
// This package knows neither which node owns a feed nor how to reach other nodes. Package
// route does, and drives this one by Open, Close and Elsewhere. Spec: P-4, P-5.
package conv

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/measure"
	"github.com/petrel-im/petrel/internal/store"
)

// Elsewhere has the functions of package route that Convs needs where other nodes own feeds. With other nodes all
// of them are set, without other nodes none.
type Elsewhere struct {
	// Waits tells whether sends for a feed already wait for its owner. Later sends must not overtake them,
	// even if this node owns the feed by now.
	Waits func(f store.Feed) bool

	// Submit takes sends for a feed that has no Owner on this node, or for which earlier sends still wait
	// (Waits).
	Submit func(f store.Feed, sends []*Send, k *fanout.WakeUps)

	// Left takes over from an Owner whose tenure has ended. It calls retire, which
	// takes the Owner out of service and returns the sends that it has not
	// answered; no other send of the feed may be decided before these.
	Left func(ow *Owner, retire func() []*Send)

	// Confirm asks the store whether an Owner still owns its feed. nil: it does; store.ErrStale: it does not;
	// store.ErrStalled: the store has not answered.
	Confirm func(ow *Owner) error

	// ConfirmAll asks the store once which of some feeds this node still owns, and returns the epochs of
	// their Owners. The error is that of the store.
	ConfirmAll func(feeds map[store.Feed]bool) (map[store.Feed]im.Epoch, error)
}

// Convs are the conversations that this node owns.
type Convs struct {
	o         *Options
	store     store.Store
	ids       *im.IDs
	table     *fanout.Table
	node      node
	signals   *fanout.Signals
	elsewhere Elsewhere                              // set before Run
	follow    []func(ctx context.Context, ow *Owner) // set before Run
	owners    []atomic.Pointer[Owner]                // by feed; nil: not here
	memories  memories                               // of owners

	mu     sync.Mutex      // tier 1; guards the fields below
	ctx    context.Context // of Run; nil: it does not run
	wg     *sync.WaitGroup // the committers and followers of Run
	failed chan error      // capacity 1; the error of a committer
	fans   []*fanout.Fan   // by feed: that of its last Owner
	counts Fanned          // of earlier Owners
}

// New makes the Convs of st. If no other process shares st, New takes all its feeds over: from then on this
// process is their only writer.
func New(ctx context.Context, o Options, st store.Store, table *fanout.Table) (*Convs, error) {
	o = o.withDefaults()
	last := store.Feed(0)
	for _, f := range st.Feeds() {
		last = max(last, f)
	}
	cs := &Convs{
		o: &o, store: st, ids: im.NewIDs(st.Info().Secret), table: table, failed: make(chan error, 1),
		owners: make([]atomic.Pointer[Owner], int(last)+1), fans: make([]*fanout.Fan, int(last)+1),
	}
	cs.node.loaders.ready = sync.NewCond(&cs.node.loaders.mu)
	cs.node.sendBudget, cs.node.convBudget, cs.node.moveBudget = int64(o.InFlightBytes), int64(o.MemoryBytes),
		int64(o.WaitingMoves)
	cs.memories.node, cs.memories.of = &cs.node, make([]atomic.Pointer[memory], len(cs.owners))
	cs.node.signals.ready = make(chan struct{}, 1)
	cs.node.onRefused = o.Refused
	cs.node.notes.Bytes = &cs.node.convBytes
	cs.signals = fanout.NewSignals(table, o.Nodes)
	if o.shared() {
		return cs, nil
	}
	for _, f := range st.Feeds() {
		if _, err := cs.Open(ctx, f); err != nil {
			return nil, err
		}
	}
	return cs, nil
}

// Attach connects the conversations with the owners on other nodes. It is called
// once, before Run.
func (cs *Convs) Attach(e Elsewhere) { cs.elsewhere = e }

// Follow registers a function that runs for each Owner, in a goroutine of its own. ctx ends when the node
// loses the feed, gives it away, or stops. Follow is called before Run.
func (cs *Convs) Follow(f func(ctx context.Context, ow *Owner)) { cs.follow = append(cs.follow, f) }

// Submit queues sends; those of one caller to one conversation keep their order. It answers at once
// each send that it cannot queue. The caller must not use the slice again. k gathers the wake-ups.
//
// Codes, all unsettled: overloaded, disk_full, store_stalled, draining.
func (cs *Convs) Submit(sends []*Send, k *fanout.WakeUps) {
	for len(sends) > 0 {
		f, n := cs.FeedOf(sends[0].Conv.Conv), 1
		for n < len(sends) && cs.FeedOf(sends[n].Conv.Conv) == f {
			n++
		}
		cs.submit(f, sends[:n], k)
		sends = sends[n:]
	}
}

// submit queues sends for one feed: at the Owner on this node (intake.Submit), or by Elsewhere.Submit.
func (cs *Convs) submit(f store.Feed, sends []*Send, k *fanout.WakeUps) {
	e := &cs.elsewhere
	if e.Waits == nil || !e.Waits(f) {
		if ow := cs.owners[f].Load(); ow != nil && ow.Submit(sends, k) {
			return
		}
	}
	if e.Submit == nil {
		cs.Refuse(sends, &im.Error{Code: im.CodeDraining, RetryAfter: time.Second}, k)
		return
	}
	e.Submit(f, sends, k)
}

// Refuse answers sends that are in no queue, all of them with the error e.
func (cs *Convs) Refuse(sends []*Send, e *im.Error, k *fanout.WakeUps) {
	cs.node.refuseAll(sends, e, k)
}

// IDs returns the functions that derive this store's conversation ids.
func (cs *Convs) IDs() *im.IDs { return cs.ids }

// FeedOf returns the feed that holds a conversation.
func (cs *Convs) FeedOf(c im.ConvID) store.Feed { return cs.store.FeedOf(im.PartitionOf(c)) }

// Owner returns the Owner of a feed on this node; nil: this node does not own the feed.
func (cs *Convs) Owner(f store.Feed) *Owner { return cs.owners[f].Load() }

// Run runs the committers and followers of all Owners until ctx ends. Then it commits the sends that are
// still queued, and returns when every send has its answer. It returns an error when the store fails; the
// process must exit then.
func (cs *Convs) Run(ctx context.Context) error {
	var wg, loading sync.WaitGroup
	for range cs.o.Loaders {
		loading.Go(cs.node.loaders.run)
	}
	defer loading.Wait()
	defer cs.node.loaders.stop()
	delivering, stop := context.WithCancel(ctx)
	loading.Go(func() { cs.node.signals.run(delivering, cs.signals, cs.confirmAll) })
	defer stop()
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
	cs.ctx = nil // no more Owners start
	cs.mu.Unlock()
	wg.Wait()
	select {
	case err = <-cs.failed:
	default:
	}
	return err
}

// startLocked starts the committer and the followers of an Owner, each in a goroutine of its own.
func (cs *Convs) startLocked(ow *Owner) {
	running := cs.ctx
	ctx, cancel := context.WithCancel(running)
	cs.wg.Go(func() {
		defer cancel()
		err := ow.committer.run(running)
		if err := ow.leave(err, cs.left); err != nil {
			select {
			case cs.failed <- err:
			default:
			}
		}
	})
	for _, f := range cs.follow {
		cs.wg.Go(func() { f(ctx, ow) })
	}
}

// Open takes a feed over and serves it. If the feed still has a former Owner on this node, Open first closes it,
// as Close does. With other nodes it then fans out the newest commits once more. New and Router.Open call it.
func (cs *Convs) Open(ctx context.Context, f store.Feed) (im.Epoch, error) {
	if cs.Close(ctx, f); cs.owners[f].Load() != nil {
		return 0, fmt.Errorf("open feed %d: the owner before has not left yet: %w", f, context.Cause(ctx))
	}
	fan := fanout.New(cs.table)
	fan.Remote = cs.o.Nodes
	ow, err := newOwner(ctx, cs.o, &cs.node, &cs.memories, cs.store, cs.ids, fan, f, cs.confirm)
	if err != nil {
		return 0, err
	}
	if cs.o.Nodes != nil {
		cs.o.Nodes.BeginTenure() // before recipients are chosen: announcements may be late
		again := refanout{log: cs.o.Log, store: cs.store, fan: fan, feed: f, pos: ow.Published()}
		if err := again.run(ctx); err != nil {
			return 0, fmt.Errorf("fan out feed %d again: %w", f, err)
		}
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.counts.add(cs.fans[f])
	cs.fans[f] = fan
	cs.memories.of[f].Store(ow.memory)
	cs.owners[f].Store(ow)
	if cs.ctx != nil {
		cs.startLocked(ow)
	}
	return ow.Epoch(), nil
}

// confirm asks the store whether an Owner still owns its feed. Without other nodes it always does.
func (cs *Convs) confirm(ow *Owner) error {
	if cs.elsewhere.Confirm == nil {
		return nil
	}
	return cs.elsewhere.Confirm(ow)
}

// confirmAll returns the epochs of the Owners of some feeds, without those that do not own their feed any
// more.
func (cs *Convs) confirmAll(feeds map[store.Feed]bool) (map[store.Feed]im.Epoch, error) {
	if cs.elsewhere.ConfirmAll != nil {
		return cs.elsewhere.ConfirmAll(feeds)
	}
	epochs := map[store.Feed]im.Epoch{}
	for f := range feeds {
		if ow := cs.Owner(f); ow != nil {
			epochs[f] = ow.Epoch()
		}
	}
	return epochs, nil
}

// Close gives a feed away, after a commit of all sends that its Owner has taken. It returns when the Owner is out
// of service, or when ctx ends. At the deadline of ctx the feed is lost, and uncommitted sends go to the next
// Owner.
func (cs *Convs) Close(ctx context.Context, f store.Feed) {
	if ow := cs.owners[f].Load(); ow != nil && !ow.giveAway(ctx) && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		ow.Lose(errLate)
	}
}

// left takes out of service an Owner whose committer has stopped. Its unanswered sends go to Elsewhere.Left,
// or without other nodes are refused.
func (cs *Convs) left(ow *Owner) {
	retire := func() []*Send {
		sends := ow.queues.orphans()
		ow.memory.leave()
		cs.memories.of[ow.Feed()].CompareAndSwap(ow.memory, nil)
		cs.owners[ow.Feed()].CompareAndSwap(ow, nil)
		return sends
	}
	if cs.elsewhere.Left != nil {
		cs.elsewhere.Left(ow, retire)
		return
	}
	var k fanout.WakeUps
	cs.Refuse(retire(), &im.Error{Code: im.CodeDraining, RetryAfter: time.Second}, &k)
	k.Flush()
}

// Reserve takes bytes of the node's budget for unanswered sends; false: they would exceed it.
// Concurrent callers may exceed it a little. The caller gives the bytes back by Release.
func (cs *Convs) Reserve(bytes int) bool { return cs.node.reserve(bytes) }

// Hold takes bytes of the budget even beyond its bound, for sends that were taken before.
func (cs *Convs) Hold(bytes int) { cs.node.inFlight.Add(int64(bytes)) }

// Release gives bytes back.
func (cs *Convs) Release(bytes int) { cs.node.inFlight.Add(-int64(bytes)) }

// Waiting returns how many sends of the Owners on this node have no answer yet.
func (cs *Convs) Waiting() int { return cs.sum((*Owner).Waiting) }

// Loaded returns how many conversations are in memory.
func (cs *Convs) Loaded() int { return cs.sum((*Owner).Loaded) }

// MemoryBytes returns about how many bytes the conversations in memory take; budget is their bound.
func (cs *Convs) MemoryBytes() (bytes, budget int64) {
	return cs.node.convBytes.Load(), int64(cs.o.MemoryBytes)
}

// InboxLag returns the age of the oldest commit that the inbox consumers still have to carry. Above limit, new
// conversations and changes of members are refused.
func (cs *Convs) InboxLag() (lag, limit time.Duration) {
	for _, ow := range cs.Owners() {
		lag = max(lag, ow.InboxLag())
	}
	return lag, cs.o.InboxLag
}

// SignalsDropped counts the signals that reached nobody: there were too many, memory had no room for their
// conversation, or the store did not confirm that this node still owns the feed.
func (cs *Convs) SignalsDropped() uint64 { return cs.node.signals.dropped.Load() }

// Evicted counts the conversations that left memory to make room for others.
func (cs *Convs) Evicted() uint64 { return cs.node.evicted.Load() }

// AdmittedBytes returns the bytes of the sends without an answer; budget is their bound.
func (cs *Convs) AdmittedBytes() (bytes, budget int64) {
	return cs.node.inFlight.Load(), int64(cs.o.InFlightBytes)
}

// MovesWaiting returns how many moves of cursors have no answer yet.
func (cs *Convs) MovesWaiting() int { return int(cs.node.cursorMoves.Load()) }

// NoteChangesWaiting returns how many changes of notes have no answer yet.
func (cs *Convs) NoteChangesWaiting() int { return int(cs.node.notes.Waiting.Load()) }

// CommitTimes returns the durations of the durable commits of this node, from the append to the callback of
// the store.
func (cs *Convs) CommitTimes() *measure.Histogram { return &cs.node.commits }

// Accepted counts entries made durable here.
func (cs *Convs) Accepted() uint64 { return cs.node.accepted.Load() }

// Repeats counts sends that were answered from dedupe here.
func (cs *Convs) Repeats() uint64 { return cs.node.repeats.Load() }

// StaleBatches counts the batches that ended because another node had taken the feed over, and this one did
// not know it yet.
func (cs *Convs) StaleBatches() uint64 { return cs.node.stale.Load() }

// Commits counts the commits of this node. taken of them are durable. refused of them were not stored, or
// their outcome is unknown; those of StaleBatches are not among them.
func (cs *Convs) Commits() (taken, refused uint64) {
	return cs.node.taken.Load(), cs.node.refused.Load()
}

// Owners returns the Owners of the feeds that this node owns now.
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

// Fanned counts events on this node: put into outboxes, replaced by a hint, and refused
// by an outbox.
type Fanned struct{ Delivered, Hinted, Lagged uint64 }

func (n *Fanned) add(f *fanout.Fan) {
	if f != nil {
		n.Delivered += f.Delivered.Load()
		n.Hinted += f.Hinted.Load()
		n.Lagged += f.Lagged.Load()
	}
}

// Fanned counts the events for sessions on this node: those of its own feeds, and those that owners on other
// nodes have sent.
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
