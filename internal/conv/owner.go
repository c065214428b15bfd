package conv

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/note"
	"github.com/petrel-im/petrel/internal/store"
)

// Owner is the service of one feed by this node: the conversations of the feed that are in memory, and the
// committer, which alone gives out their seqs. When the feed is lost, the Owner ends with all of its memory,
// and its unanswered sends go to the next Owner.
//
// The Owner embeds the five parts whose methods its callers use. intake takes sends and signals (intake.go).
// reader answers questions about entries and members (history.go, pagequotes.go, convqueries.go). cursors and reactions
// take and list moves of cursors, reactions and pins (cursor.go, cursorreads.go, reactions.go). tenure tells
// whether the Owner still serves the feed (tenure.go). The other parts serve these. The methods for syncs and
// operators are in sync.go and inspect.go.
type Owner struct {
	*intake
	*reader
	*cursors
	*reactions
	*tenure
	memory    *memory
	publisher *publisher
	inboxLag  *inboxLag
	committer *committer
}

// newOwner takes a feed over; from here on no other Owner of it writes. confirm is Convs.confirm.
func newOwner(ctx context.Context, o *Options, n *node, ms *memories, st store.Store, ids *im.IDs, fan *fanout.Fan,
	f store.Feed, confirm func(*Owner) error) (*Owner, error) {
	holder := max(o.Holder, 1)
	epoch, pos, err := st.Takeover(ctx, f, holder)
	if err != nil {
		return nil, fmt.Errorf("take over feed %d: %w", f, err)
	}
	ow := &Owner{}
	owns := func() error { return confirm(ow) }
	hash, old := hasher{st.Info().Secret}, &formers{}

	mem := newMemory(n, o.Now, o.IdleAfter)
	qs := &queues{mem: mem, node: n, queueBytes: o.QueueBytes, wake: make(chan struct{}, 1),
		underExamination: map[im.Key]*examination{}}
	outs := &outsiders{mem: mem, queues: qs, store: st, confirm: owns}
	si := &signaller{mem: mem, node: n, now: o.Now, feed: f, epoch: epoch}
	fe := &fetcher{mem: mem, memories: ms, queues: qs, outsiders: outs, signaller: si, node: n, store: st, hash: hash,
		log: o.Log}
	in := &intake{mem: mem, fetch: fe, queues: qs, examiner: &examiner{outsiders: outs, fetch: fe, queues: qs, node: n},
		signaller: si, node: n, store: st}
	notes := note.New(&n.notes, st, fan, qs.wake)
	rd := &reader{fetch: fe, outsiders: outs, store: st, formers: old, notes: notes}
	cu := &cursors{mem: mem, reader: rd, node: n, store: st, fan: fan, wake: qs.wake, cooled: time.NewTimer(flushEvery)}
	re := &reactions{notes: notes, reader: rd, now: o.Now}
	te := newTenure(mem, notes, f, epoch)
	pub := &publisher{
		now: o.Now, log: o.Log, shared: o.shared(), node: n, mem: mem, tenure: te, queues: qs, cursors: cu,
		notes: notes, formers: old, fan: fan,
		changes: NewChangeIndex(len(st.Feeds()), pos), commitLock: make(chan struct{}, 1),
		carriedMoved: make(chan struct{}, 1),
	}
	pub.commitLock <- struct{}{}
	pub.published.Store(uint64(pos))
	pub.lastCarried.Store(uint64(pos))
	lag := &inboxLag{now: o.Now, limit: o.InboxLag}
	com := &committer{
		o: o, store: st, hash: hash, ids: ids, node: n, queues: qs, fetch: fe, cursors: cu, notes: notes, formers: old,
		publisher: pub, tenure: te, inboxLag: lag,
		confirm: owns, holder: holder, pos: pos,
	}
	*ow = Owner{
		intake: in, reader: rd, cursors: cu, reactions: re, tenure: te, memory: mem, publisher: pub, inboxLag: lag,
		committer: com,
	}
	return ow, nil
}

// Changes returns the index of the conversations of the feed that changed last.
func (ow *Owner) Changes() *ChangeIndex { return ow.publisher.changes }

// Loaded returns how many conversations are in memory.
func (ow *Owner) Loaded() int { return ow.memory.Loaded() }

// Published returns the position up to which commits are durable and readable.
func (ow *Owner) Published() im.Pos { return ow.publisher.Published() }

// CarriedSince tells whether one of the commits with after < Pos <= upTo may concern the inbox consumer
// (FeedCarried). upTo is a published position.
func (ow *Owner) CarriedSince(after, upTo im.Pos) bool {
	return after < upTo && uint64(after) < ow.publisher.lastCarried.Load()
}

// CarriedMoved returns a channel. It has a token if there was a commit for the inbox
// consumer since the last token was taken.
func (ow *Owner) CarriedMoved() <-chan struct{} { return ow.publisher.carriedMoved }

// SetInboxBacklog sets the time of the oldest commit that the inbox consumer still has to carry, in
// Unix milliseconds. 0: there is none.
func (ow *Owner) SetInboxBacklog(timeMs uint64) { ow.inboxLag.oldest.Store(int64(timeMs)) }

// InboxLag returns the age of the oldest commit that the inbox consumer still has to carry; 0: there is none.
func (ow *Owner) InboxLag() time.Duration { return ow.inboxLag.lag() }

// leave ends the Owner when its committer has ended with err. If the tenure has ended, it calls left while no
// commit is under way. It returns an error if the store has failed: the process must exit then.
func (ow *Owner) leave(err error, left func(*Owner)) error {
	defer close(ow.ended)
	if err != nil && !errors.Is(err, errLost) {
		return err
	}
	if !ow.Sealed() {
		return nil
	}
	return ow.committer.alone(func() { left(ow) })
}

// errLate is the reason for the loss of a feed that could not be given away in time.
var errLate = errors.New("its last commits took longer than the time allowed to give it away")

// giveAway seals the feed, and waits until the Owner is out of service; false: ctx ended first.
func (ow *Owner) giveAway(ctx context.Context) bool {
	ow.seal()
	select {
	case <-ow.ended:
	case <-ctx.Done():
	}
	return isClosed(ow.ended)
}

// Lose ends the Owner at once: the store has another owner of the feed, or the feed could not be given away
// in time. err is the reason.
func (ow *Owner) Lose(err error) { ow.publisher.lose(nil, err) }
