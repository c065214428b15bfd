package conv

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
)

// Owner is this node's hold on one feed: the conversations of the feed that are
// in memory, and the committer, which alone gives out their seqs. When the feed
// is lost, the Owner ends with all that it remembers, and the sends that it has
// not answered go to the next one.
//
// Its methods are those of the types that it is made of: Submit and Signal (intake.go);
// Waiting (queue.go); Source (quotes.go); History (history.go); State, Record, Members,
// Leavers and TitleAt (state.go); Move, MoveCursor and MovesWaiting (cursor.go); CursorOf, ReadCounted,
// Receipts and ChangedAt (receipts.go); React, PinEntry and TalliesWaiting (tally.go);
// Reactions and Pins (reactions.go); Published, CarriedSince and CarriedMoved
// (publish.go); Feed, Epoch, Sealed and Lost (tenure.go); Loaded (memory.go);
// InboxesLack and InboxLag (inboxlag.go). Its own are Changed (sync.go), Describe and Trace (trace.go) and those below.
type Owner struct {
	*memory
	*queues
	*intake
	*reader
	*cursors
	*tallies
	*publisher
	*tenure
	*inboxLag
	committer *committer
}

// newOwner takes a feed over; from here on no other Owner of it writes. confirm is that of
// Elsewhere.
func newOwner(ctx context.Context, o *Options, n *node, ms *memories, st store.Store, ids *im.IDs, fan *fanout.Fan, f store.Feed, confirm func(*Owner) error) (*Owner, error) {
	holder := max(o.Holder, 1)
	epoch, pos, err := st.Takeover(ctx, f, holder)
	if err != nil {
		return nil, fmt.Errorf("take over feed %d: %w", f, err)
	}
	ow := &Owner{inboxLag: &inboxLag{now: o.Now, limit: o.InboxLag}}
	owns := func() error { return confirm(ow) }
	hash, old := hasher{st.Info().Secret}, &formers{}

	mem := newMemory(n, o.Now, o.IdleAfter)
	qs := &queues{mem: mem, node: n, queueBytes: o.QueueBytes, wake: make(chan struct{}, 1), underExamination: map[im.Key]*examination{}}
	outs := &outsiders{mem: mem, queues: qs, store: st, confirm: owns}
	si := &signaller{mem: mem, node: n, now: o.Now, feed: f, epoch: epoch}
	fe := &fetcher{mem: mem, memories: ms, queues: qs, outsiders: outs, signaller: si, node: n, store: st, hash: hash, log: o.Log}
	in := &intake{mem: mem, fetch: fe, queues: qs, examiner: &examiner{outsiders: outs, fetch: fe, queues: qs, node: n}, signaller: si, node: n, store: st}
	rd := &reader{fetch: fe, outsiders: outs, store: st, formers: old}
	cu := &cursors{mem: mem, reader: rd, node: n, store: st, fan: fan, wake: qs.wake, cooled: time.NewTimer(flushEvery)}
	tl := newTeller(mem, fan)
	ta := &tallies{mem: mem, reader: rd, node: n, store: st, teller: tl, now: o.Now, wake: qs.wake}
	te := newTenure(mem, f, epoch)
	pub := &publisher{
		now: o.Now, log: o.Log, shared: o.shared(), node: n, mem: mem, tenure: te, queues: qs, cursors: cu, tallies: ta, formers: old, fan: fan,
		changes: NewChangeIndex(len(st.Feeds()), pos), free: make(chan *batch, commitsInFlight), carriedMoved: make(chan struct{}, 1),
	}
	for range commitsInFlight {
		pub.free <- &batch{}
	}
	pub.published.Store(uint64(pos))
	pub.lastCarried.Store(uint64(pos))
	ow.memory, ow.queues, ow.intake, ow.reader, ow.cursors, ow.tallies, ow.publisher, ow.tenure = mem, qs, in, rd, cu, ta, pub, te
	ow.committer = &committer{
		o: o, store: st, hash: hash, ids: ids, node: n, queues: qs, fetch: fe, cursors: cu, tallies: ta, teller: tl, formers: old, publisher: pub, tenure: te, inboxLag: ow.inboxLag,
		confirm: owns, holder: holder, pos: pos,
	}
	return ow, nil
}

// Changes is the index of the conversations of the feed that changed last.
func (ow *Owner) Changes() *ChangeIndex { return ow.changes }

// leave ends the Owner when its committer has ended with err. If the tenure has
// ended, it calls left with no commit under way. What it returns is the failure of
// the store; the process must exit then.
func (ow *Owner) leave(err error, left func(*Owner)) error {
	defer close(ow.ended)
	if err != nil && !errors.Is(err, errLost) {
		return err
	}
	if !ow.Sealed() {
		return nil
	}
	return ow.committer.alone(commitsInFlight, func() { left(ow) })
}

// errLate is why a feed is lost that could not be given away in time.
var errLate = errors.New("its commits have taken too long for the time in which it is given away")

// giveAway ends the tenure, and returns when the Owner is out of service, or when ctx
// ends; false: it is not out of service then.
func (ow *Owner) giveAway(ctx context.Context) bool {
	ow.seal()
	select {
	case <-ow.ended:
	case <-ctx.Done():
	}
	return isClosed(ow.ended)
}

// Lose ends the Owner at once: the caller has found out that the store has another
// Owner of the feed. err is the reason.
func (ow *Owner) Lose(err error) { ow.lose(nil, err) }
