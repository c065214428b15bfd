package conv

import (
	"context"
	"errors"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/measure"
	"github.com/petrel-im/petrel/internal/note"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// The next line compiles only if minTail >= maxRows. Otherwise fetcher.scan could read rows of the commit
// under way, which are not durable.
const _ = uint(minTail - maxRows)

// The errors with which a committer ends.
var (
	errFailed = errors.New("store has failed")
	errLost   = errors.New("feed is lost")
)

// committer is the only writer of the seqs of one feed. It takes the queued sends, decides each in turn, and
// appends them as one batch. When that batch is published, it builds the next one, of all sends that have
// come meanwhile. With two batches under way, the same load would make more and smaller ones
// (docs/decisions/003).
type committer struct {
	o         *Options
	store     store.Store
	hash      hasher
	ids       *im.IDs
	node      *node
	queues    *queues
	fetch     *fetcher
	cursors   *cursors
	notes     *note.Notes
	formers   *formers
	publisher *publisher
	tenure    *tenure
	inboxLag  *inboxLag

	// confirm asks the store whether this node still owns the feed. nil: it does; store.ErrStale: it does
	// not; store.ErrStalled: the store has not answered.
	confirm func() error

	holder uint64

	// Guarded by publisher.commitLock.
	batch batch  // being built, or under way
	pos   im.Pos // of the last batch appended
}

// run commits until ctx ends or the feed is given away, then commits the sends that are still
// queued, and returns when every send has its answer. It returns errLost at once when the feed is
// lost. A store that fails ends it with errFailed; the process must exit then.
func (cm *committer) run(ctx context.Context) error {
	sweep := time.NewTicker(time.Second)
	defer sweep.Stop()
	for {
		select {
		case <-cm.queues.wake:
		case <-cm.cursors.cooled.C:
		case <-cm.notes.Due():
			if err := cm.alone(cm.notes.Announce); err != nil {
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

// drain commits the queued sends, cursors and notes, and returns when all of them have their answers.
func (cm *committer) drain() error {
	cm.cursors.rush()
	for cm.queues.Waiting() > 0 || cm.cursors.MovesWaiting() > 0 || cm.notes.Unanswered() > 0 {
		if err := cm.commit(); err != nil {
			return err
		}
		select {
		case <-cm.queues.wake:
		case <-cm.tenure.lost:
			return errLost
		case <-cm.store.Failed():
			return errFailed
		case <-time.After(10 * time.Millisecond): // an answer does not wake the committer
		}
	}
	return nil
}

// commit takes queued sends, cursors and notes into a batch, decides them, and appends the batch. It returns
// when the store can take another append. The outcome may come later, by publisher.finish, which the store
// calls as a rule on a goroutine of its own. begin waits for that before the next batch.
func (cm *committer) commit() error {
	if err := cm.begin(); err != nil {
		return err
	}
	b := &cm.batch
	b.reset()
	b.work = cm.queues.take(b.work)
	if cm.cursors.queued.Load() > 0 {
		b.cursors = cm.cursors.take(b.cursors)
	}
	if cm.notes.Queued() {
		b.notes = cm.notes.Take(b.notes)
	}
	if len(b.work) == 0 && len(b.cursors) == 0 && len(b.notes) == 0 {
		cm.publisher.release()
		return nil
	}
	cm.build(b)
	cm.fetch.letGo(b.work, b.scans, b.later)
	if cm.tenure.Lost() { // the batch may have been left unfinished
		cm.publisher.lose(b, errLost)
		return errLost
	}
	if !b.writes() {
		if len(b.items) == 0 { // all sends wait for a loader: there is nothing to commit or to answer
			cm.queues.release(b.work, 0, 0)
			clear(b.work)
			cm.publisher.release()
			return nil
		}
		// Without an append, only a question to the store tells whether this node still owns the feed.
		// Without the question, a former owner could refuse for good a send that the new owner has stored.
		cm.publisher.finish(b, cm.confirm())
		return nil
	}
	cm.pos++
	b.appended = measure.Now()
	cm.store.Append(&b.commit, func(err error) { cm.publisher.finish(b, err) })
	return nil
}

// begin waits until no commit is under way, and takes the token of publisher.commitLock, so that none begins.
// If the store has refused the last batch, begin rolls it back: the position of that batch was not reached,
// so the next batch begins at it again.
func (cm *committer) begin() error {
	if err := cm.wait(); err != nil {
		return err
	}
	if cm.tenure.Lost() { // the last commit may have found that the feed is lost
		cm.publisher.release()
		return errLost
	}
	if cm.publisher.rollBack() {
		cm.pos = cm.publisher.Published()
	}
	return nil
}

// wait takes the token of publisher.commitLock.
func (cm *committer) wait() error {
	select {
	case <-cm.publisher.commitLock:
		return nil
	case <-cm.store.Failed():
		return errFailed
	}
}

// alone runs f while no commit is under way.
func (cm *committer) alone(f func()) error {
	if err := cm.wait(); err != nil {
		return err
	}
	f()
	cm.publisher.release()
	return nil
}

// build makes the commit of the sends, cursors and notes that b has taken.
func (cm *committer) build(b *batch) {
	bu := &builder{hash: cm.hash, ids: cm.ids, node: cm.node, logger: cm.o.Log, b: b, lost: cm.tenure.Lost,
		now: uint64(cm.o.Now().UnixMilli())}
	bu.cursors, bu.dedupe = cm.cursors, deduper{store: cm.store, batch: b}
	bu.rewriter = rewriter{
		editWindow: cm.o.EditWindow, recallWindow: cm.o.RecallWindow, store: cm.store, formers: cm.formers, batch: b,
		now: bu.now,
	}
	bu.admission = admission{find: cm.o.LookUp, first: cm.o.FirstMessages,
		ids: cm.ids, now: bu.now, rewriter: &bu.rewriter, inboxLag: cm.inboxLag}
	b.commit.Feed, b.commit.Epoch, b.commit.Holder, b.commit.From = cm.tenure.feed, cm.tenure.epoch, cm.holder, cm.pos
	for i := range b.work {
		bu.conversation(&b.work[i])
	}
	for i := range b.cursors {
		f := &b.cursors[i]
		b.commit.Cursors = append(b.commit.Cursors, f.put(b.pos()))
		if i == 0 || b.cursors[i-1].c != f.c {
			b.feedItems = append(b.feedItems, storepb.FeedItem{Tenant: uint32(f.c.key.Tenant), Conv: f.c.key.Conv[:],
				Kinds: FeedCursors})
		}
	}
	for i := range b.notes {
		w := &b.notes[i]
		b.commit.Marks = w.Puts(b.commit.Marks)
		if key := w.Conv(); i == 0 || b.notes[i-1].Conv() != key {
			b.feedItems = append(b.feedItems, storepb.FeedItem{Tenant: uint32(key.Tenant), Conv: key.Conv[:],
				Kinds: FeedMarks})
		}
	}
	b.feedEntry.TimeMs = bu.now
	b.feedEntry.Items = make([]*storepb.FeedItem, len(b.feedItems))
	for i := range b.feedItems {
		b.feedEntry.Items[i] = &b.feedItems[i]
	}
	b.commit.Entry = &b.feedEntry
}
