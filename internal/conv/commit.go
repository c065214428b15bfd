package conv

import (
	"context"
	"errors"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/measure"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// commitsInFlight is one: the next batch is built when the last one is
// published, from all that came meanwhile. More would overlap, and make more
// and smaller batches of the same load. docs/decisions/003 says what relies on it.
const commitsInFlight = 1

// These do not compile if the answers of a batch without rows could rest on a commit that is
// under way, or if fetcher.scan could read rows that are not durable.
const (
	_ = uint(1 - commitsInFlight)
	_ = uint(minTail - commitsInFlight*maxRows)
)

// Why a committer ends, beside the end of its context.
var (
	errFailed = errors.New("store has failed")
	errLost   = errors.New("feed is lost")
)

// committer is the only writer of the seqs of one feed. It takes what is queued,
// decides it send by send, and appends it as one batch.
type committer struct {
	o         *Options
	store     store.Store
	hash      hasher
	ids       *im.IDs
	node      *node
	queues    *queues
	fetch     *fetcher
	cursors   *cursors
	tallies   *tallies
	teller    *teller
	formers   *formers
	publisher *publisher
	tenure    *tenure
	inboxLag  *inboxLag

	// confirm asks whether this node still owns the feed: nil, store.ErrStale or
	// store.ErrStalled.
	confirm func() error

	holder uint64
	pos    im.Pos // of the last batch appended
}

// run commits until ctx ends or the feed is given away, then commits what is
// still queued, and returns when every send has its answer. It returns errLost at
// once when the feed is lost. A store that fails ends it with errFailed; the
// process must exit then.
func (cm *committer) run(ctx context.Context) error {
	sweep := time.NewTicker(time.Second)
	defer sweep.Stop()
	for {
		select {
		case <-cm.queues.wake:
		case <-cm.cursors.cooled.C:
		case <-cm.teller.due.C:
			if err := cm.alone(commitsInFlight, cm.teller.tell); err != nil {
				return err
			}
			continue
		case <-sweep.C:
			cm.fetch.sweep()
			continue
		case <-cm.tenure.lost:
			return errLost
		case <-cm.store.Failed():
			return errFailed
		case <-cm.tenure.sealed:
			return cm.drain()
		case <-ctx.Done():
			return cm.drain()
		}
		if err := cm.commit(); err != nil {
			return err
		}
	}
}

// drain commits what is queued and waits until all of it is published.
func (cm *committer) drain() error {
	cm.cursors.rush()
	for cm.queues.Waiting() > 0 || cm.cursors.MovesWaiting() > 0 || cm.tallies.TalliesWaiting() > 0 {
		if err := cm.commit(); err != nil {
			return err
		}
		select {
		case <-cm.queues.wake:
		case <-cm.tenure.lost:
			return errLost
		case <-cm.store.Failed():
			return errFailed
		case <-time.After(10 * time.Millisecond): // answers wake nobody
		}
	}
	return nil
}

// commit takes what is queued, within bounds, and commits it once.
func (cm *committer) commit() error {
	b, err := cm.next()
	if err != nil {
		return err
	}
	b.reset()
	b.work = cm.queues.take(b.work)
	if cm.cursors.queued.Load() > 0 {
		b.cursors = cm.cursors.take(b.cursors)
	}
	if cm.tallies.queued.Load() > 0 {
		b.tallies = cm.tallies.take(b.tallies)
	}
	if len(b.work) == 0 && len(b.cursors) == 0 && len(b.tallies) == 0 {
		cm.publisher.free <- b
		return nil
	}
	cm.build(b)
	cm.fetch.letGo(b.work, b.scans, b.later)
	if cm.tenure.Lost() { // the batch may have been left unfinished
		cm.publisher.lose(b, errLost)
		return errLost
	}
	if !b.writes() {
		if len(b.items) == 0 { // all sends wait for a loader: no commit under way holds them up
			cm.queues.release(b.work, 0, 0)
			clear(b.work)
			cm.publisher.free <- b
			return nil
		}
		// No append tells whether this node still owns the feed, so the store is asked: a
		// refusal of what another owner has stored would never be taken back.
		cm.publisher.finish(b, cm.confirm())
		return nil
	}
	cm.pos++
	b.appended = measure.Now()
	cm.store.Append(&b.commit, func(err error) { cm.publisher.finish(b, err) })
	return nil
}

// next waits for a batch to use, and rolls back first what the store has refused.
func (cm *committer) next() (*batch, error) {
	for {
		if cm.publisher.mustRollBack() {
			if err := cm.rollBack(); err != nil {
				return nil, err
			}
		}
		var b *batch
		select {
		case b = <-cm.publisher.free:
		case <-cm.store.Failed():
			return nil, errFailed
		}
		lost := cm.tenure.Lost() // the last commit may have found that the feed is lost
		if !lost && !cm.publisher.mustRollBack() {
			return b, nil
		}
		cm.publisher.free <- b
		if lost {
			return nil, errLost
		}
	}
}

// rollBack forgets batches that the store refused. Batches built on top of a
// refused one are refused as well, for their position.
func (cm *committer) rollBack() error {
	return cm.alone(commitsInFlight, func() {
		cm.publisher.rollBack()
		cm.pos = cm.publisher.Published()
	})
}

// alone runs f while n batches are held back, so that no commit of theirs is
// under way.
func (cm *committer) alone(n int, f func()) error {
	held := make([]*batch, 0, n)
	for len(held) < n {
		select {
		case b := <-cm.publisher.free:
			held = append(held, b)
		case <-cm.store.Failed():
			return errFailed
		}
	}
	f()
	for _, b := range held {
		cm.publisher.free <- b
	}
	return nil
}

// build makes the commit of what b has taken.
func (cm *committer) build(b *batch) {
	bu := &builder{hash: cm.hash, ids: cm.ids, node: cm.node, log: cm.o.Log, b: b, lost: cm.tenure.Lost, now: uint64(cm.o.Now().UnixMilli())}
	bu.cursors, bu.dedupe = cm.cursors, deduper{store: cm.store, batch: b}
	bu.rewriter = rewriter{
		editWindow: cm.o.EditWindow, recallWindow: cm.o.RecallWindow, store: cm.store, formers: cm.formers, batch: b, now: bu.now,
	}
	bu.admission = admission{find: cm.o.LookUp, ids: cm.ids, now: bu.now, rewriter: &bu.rewriter, inboxLag: cm.inboxLag}
	b.commit.Feed, b.commit.Epoch, b.commit.Holder, b.commit.From = cm.tenure.feed, cm.tenure.epoch, cm.holder, cm.pos
	for i := range b.work {
		bu.conversation(&b.work[i])
	}
	for i := range b.cursors {
		f := &b.cursors[i]
		b.commit.Cursors = append(b.commit.Cursors, f.put(b.pos()))
		if i == 0 || b.cursors[i-1].c != f.c {
			b.feedItems = append(b.feedItems, storepb.FeedItem{Tenant: uint32(f.c.key.Tenant), Conv: f.c.key.Conv[:], Kinds: FeedCursors})
		}
	}
	for i := range b.tallies {
		w := &b.tallies[i]
		b.commit.Marks = w.puts(b.commit.Marks)
		if i == 0 || b.tallies[i-1].c != w.c {
			b.feedItems = append(b.feedItems, storepb.FeedItem{Tenant: uint32(w.c.key.Tenant), Conv: w.c.key.Conv[:], Kinds: FeedMarks})
		}
	}
	b.feedEntry.TimeMs = bu.now
	b.feedEntry.Items = make([]*storepb.FeedItem, len(b.feedItems))
	for i := range b.feedItems {
		b.feedEntry.Items[i] = &b.feedItems[i]
	}
	b.commit.Entry = &b.feedEntry
}
