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
// Its methods are those of the types that it is made of: Submit and Waiting
// (intake.go); History (history.go); State, Record, Members and Leavers (state.go);
// Move, MoveCursor and MovesWaiting (cursor.go); CursorOf, ReadCounted, Receipts and
// ChangedAt (receipts.go); Published, MembershipSince and MembershipMoved
// (publish.go); Changes (changes.go); Sealed and Lost (tenure.go); Loaded (memory.go);
// InboxesLack and InboxLag (inboxlag.go). Its own are Changed (sync.go) and those below.
type Owner struct {
	*memory
	*intake
	*reader
	*cursors
	*publisher
	*tenure
	*inboxLag
	committer committer
}

// newOwner takes a feed over; from here on no other Owner of it writes.
func newOwner(ctx context.Context, o *Options, n *node, st store.Store, ids *im.IDs, fan *fanout.Fan, f store.Feed, holder uint64, confirm func(*Owner) error) (*Owner, error) {
	hash := hasher{st.Info().Secret}
	mem := &memory{o: o, node: n, store: st, hash: hash, convs: map[im.Key]*conv{}}
	in := &intake{mem: mem, wake: make(chan struct{}, 1)}
	mem.loaded, mem.refuse = in.loaded, in.refuse
	old := &formers{}
	rd := &reader{mem: mem, formers: old}
	cu := &cursors{mem: mem, reader: rd, fan: fan, wake: in.signal, cooled: time.NewTimer(flushEvery)}
	pub := &publisher{
		o: o, node: n, intake: in, cursors: cu, formers: old, fan: fan,
		free: make(chan *batch, commitsInFlight), membershipChanged: make(chan struct{}, 1),
	}
	for range commitsInFlight {
		pub.free <- &batch{}
	}
	ow := &Owner{memory: mem, intake: in, reader: rd, cursors: cu, publisher: pub, tenure: newTenure(mem), inboxLag: &inboxLag{now: o.Now, limit: o.InboxLag}}
	pub.lose = ow.lose
	mem.confirm = func() error { return confirm(ow) }
	cm := &ow.committer
	*cm = committer{
		o: o, store: st, hash: hash, ids: ids, intake: in, cursors: cu, formers: old, publisher: pub, tenure: ow.tenure, inboxLag: ow.inboxLag,
		confirm: mem.confirm, feed: f, holder: holder,
	}
	var err error
	if cm.epoch, cm.pos, err = st.Takeover(ctx, f, holder); err != nil {
		return nil, fmt.Errorf("take over feed %d: %w", f, err)
	}
	pub.changes = NewChangeIndex(len(st.Feeds()), cm.pos)
	pub.published.Store(uint64(cm.pos))
	pub.lastMembership.Store(uint64(cm.pos))
	return ow, nil
}

// Changes is the index of the conversations of the feed that changed last.
func (ow *Owner) Changes() *ChangeIndex { return ow.changes }

// Feed is the feed that this Owner holds.
func (ow *Owner) Feed() store.Feed { return ow.committer.feed }

// Epoch is the number of this Owner's takeover.
func (ow *Owner) Epoch() im.Epoch { return ow.committer.epoch }

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

// Lose ends the Owner at once: the caller has found out that the store has another
// Owner of the feed. err is the reason.
func (ow *Owner) Lose(err error) { ow.lose(nil, err) }

// lose ends the Owner. b may be nil. Its sends were not answered, so they are put
// back at the head of their queues: nobody knows what became of them, or the store
// wrote nothing of them (ErrStale). When no commit is under way, the committer leaves
// with all sends that are queued.
func (ow *Owner) lose(b *batch, err error) {
	var writes []cursorWrite
	ow.memory.mu.Lock()
	if b != nil {
		ow.restoreLocked(b.work)
		writes = b.cursors
	}
	first := ow.loseLocked()
	moves, sends := ow.abandonLocked(writes), ow.intake.waiting
	ow.memory.mu.Unlock()
	if b != nil {
		ow.free <- b
	}
	var k fanout.WakeUps
	for _, m := range moves {
		m.Done(Cursor{}, Refusal(err), &k)
	}
	k.Flush()
	if first {
		ow.committer.o.Log.Warn("feed is lost", "feed", ow.Feed(), "epoch", ow.Epoch(), "err", err, "sends", sends)
	}
}
