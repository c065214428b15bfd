// Package pebblestore is the embedded store: Pebble behind the contract of
// package store, with one feed for all partitions. The keys are in keys.go.
//
// A commit goes by append.go into the queue; commit.go writes it to Pebble's log
// and waits for one sync for all that was queued, writes the witness, and calls
// done. The witness (witness.go) is a file of its own that says how far the log
// and the manifest reach, because Pebble takes a shortened one for a whole one.
// rollback.go refuses an earlier state of the folder, datafolder.go a folder that is
// not the one that is meant. guardfs.go is the file system that keeps the witness
// ahead of Pebble, open.go compares witness and Pebble at a start, repair.go accepts a loss.
//
// # What a start notices
//
// The end of the log is lost: the number of the newest commit is below the
// witness. A file of the log is missing, cut, or ends early in the middle; the
// manifest is missing, cut, damaged, or another one; a marker or the witness is
// gone; a table is missing or has another size. The start is refused, and
// nothing is changed. A damaged block of a table is noticed by whatever reads
// it, which fails alone. mendtable.go then rewrites the table without the block, and
// damagedranges.go keeps the keys damaged that it may have had. scrub.go reads all tables once a
// week. repairranges.go is what Repair does with damaged ranges.
//
// # Files
//
//   - The store while it runs: append.go, commit.go, read.go, convsizes.go, update.go, keys.go, options.go,
//     failure.go (its end, after the first error), diskspace.go (a disk that gets full), compactionscheduler.go
//     (when Pebble may merge tables), compact.go (the operator wants it now).
//   - What says how far it came: witness.go, inventory.go (which files there have to be),
//     guardfs.go, storemark.go, folderseal.go, fileid.go.
//   - A start: open.go, datafolder.go, metadata.go (what a start looks for in the log before it
//     writes), logfiles.go (reads log files), rollback.go, damagederror.go (what a start says that lacks
//     something).
//   - Damaged tables: damagedtables.go (what is known of them), tables.go (reads and rewrites one),
//     mendtable.go, damagedranges.go, scrub.go.
//   - Repair: repair.go, repairranges.go, lostrow.go, examine.go (looks and changes nothing).
//   - Backups: backup.go, checkpoint.go, filecopier.go, backupmanifest.go (what is in a backup),
//     restore.go.
//
// # What nobody notices
//
//   - The disk is set back to an earlier snapshot of itself, with the store mark,
//     or without one. rollback.go notices copies, a mark that is ahead, and what
//     a client proves. Restore draws a new history id.
//   - Two faults at once: the newer commit slot of the witness is damaged, and
//     of the log just the commits that it alone spoke of are lost. These are
//     the ones that the last sync covered.
//   - A file is replaced by another that is right in itself, or is damaged in a
//     way that CRC-32C does not show (one in four billion at random).
//   - Damage where nothing is read: the rest of a reused log file, the manifest before the current one.
package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/markfile"
)

// errClosed is returned by every method after Close.
var errClosed = errors.New("store is closed")

// feed is the only feed of an embedded store.
const feed store.Feed = 0

// Store implements store.Store. See Open.
type Store struct {
	o     Options
	log   *slog.Logger
	place place
	db    *pebble.DB
	lock  io.Closer
	info  store.Info

	// Only writeLog uses these, and open before it starts.
	last   last // of the newest commit, not necessarily durable
	epoch  im.Epoch
	holder uint64 // in epoch; not on the disk, since every start takes the feed over again
	trim   im.Pos

	queue   queue
	logged  chan struct{} // closed when writeLog has returned
	witness *witness
	out     *failure
	guard   *guard
	damage  damage
	ranges  atomic.Pointer[damagedRanges] // nil: none

	scrubBytes, scrubFound atomic.Uint64 // of all passes since the start
	scrubAt                atomic.Int64  // when the last pass ended, Unix milliseconds; 0: never

	checkpointing atomic.Bool // one is being made
	checkpoints   atomic.Uint64
	commits       atomic.Uint64
	space         space
	mark          *markfile.Keeper
	sealing       sealing
	stalled       atomic.Bool   // a commit hangs in the disk
	stop          chan struct{} // closed by Close: ends the goroutines in tasks
	tasks         sync.WaitGroup

	mu      sync.Mutex // tier 0; guards the fields below
	uses    int        // calls inside Pebble, which may not be closed under them
	closing bool
	idle    chan struct{} // closed when closing and uses is 0
	gate    chan struct{} // closed when exclusive has ended; nil: it does not run
}

var _ store.Store = (*Store)(nil)

// enter is called before Pebble is used and leave after it.
func (s *Store) enter() error {
	if err := s.out.err(); err != nil {
		return err
	}
	s.mu.Lock()
	for s.gate != nil && !s.closing {
		gate := s.gate
		s.mu.Unlock()
		select {
		case <-gate:
		case <-s.out.ch:
			return s.out.err()
		}
		s.mu.Lock()
	}
	defer s.mu.Unlock()
	if s.closing {
		return errClosed
	}
	s.uses++
	return nil
}

func (s *Store) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.uses--; s.uses == 0 && s.closing {
		close(s.idle)
	}
}

// Info implements store.Store.
func (s *Store) Info() store.Info { return s.info }

// Feeds implements store.Store.
func (s *Store) Feeds() []store.Feed { return []store.Feed{feed} }

// FeedOf implements store.Store.
func (s *Store) FeedOf(im.Partition) store.Feed { return feed }

// Failed implements store.Store.
func (s *Store) Failed() <-chan struct{} { return s.out.ch }

// Writable implements store.Store.
func (s *Store) Writable() error {
	if err := s.out.err(); err != nil {
		return err
	}
	switch {
	case s.space.full.Load():
		return store.ErrFull
	case s.stalled.Load():
		return store.ErrStalled
	}
	return nil
}

// Stats implements store.Store. DiskBytes leaves the ballast out.
func (s *Store) Stats() store.Stats {
	t := store.Stats{
		Commits: s.commits.Load(), Checkpoints: s.checkpoints.Load(), DamageMet: s.damage.met.Load(),
		Damage: s.damage.places(s.damaged()),
	}
	t.ScrubMs, t.ScrubBytes, t.ScrubFound = uint64(s.scrubAt.Load()), s.scrubBytes.Load(), s.scrubFound.Load()
	if s.enter() == nil {
		m := s.db.Metrics()
		t.DiskBytes, t.TableBytes = m.DiskSpaceUsage(), uint64(max(0, m.Total().TablesSize))
		t.MemoryBytes = uint64(max(0, m.BlockCache.Size)) + m.MemTable.Size + m.MemTable.ZombieSize
		s.leave()
	}
	return t
}

// Close waits for the calls that are under way and closes the store. Appends
// that have returned get their done before it returns. A store that has failed
// is abandoned instead: Pebble may wait for the disk for ever.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		return nil
	}
	s.closing = true
	if s.uses == 0 {
		close(s.idle)
	}
	s.mu.Unlock()
	select {
	case <-s.idle:
	case <-s.out.ch:
	}
	close(s.stop)
	s.tasks.Wait()
	s.mark.Stop()
	select {
	case <-s.logged:
	case <-s.out.ch:
	}
	var err error
	if s.out.err() == nil {
		err = s.reseal(s.queue.synced().n)
	}
	if s.out.err() == nil {
		err = closePebble(s.db, s.guard)
	}
	for _, f := range []func() error{s.witness.close, s.lock.Close} {
		if e := f(); err == nil {
			err = e
		}
	}
	if err != nil {
		return fmt.Errorf("close %s: %w", s.o.Dir, err)
	}
	return nil
}

// Takeover implements store.Store.
func (s *Store) Takeover(ctx context.Context, f store.Feed, holder uint64) (im.Epoch, im.Pos, error) {
	if f != feed {
		return 0, 0, fmt.Errorf("take over feed %d: there is only feed %d", f, feed)
	}
	var epoch im.Epoch
	var pos im.Pos
	err := s.write(ctx, 64, func(b *pebble.Batch) error {
		epoch, pos = s.epoch+1, s.last.pos
		s.epoch, s.holder = epoch, holder
		return b.Set(keyEpoch, be64(uint64(epoch)), nil)
	})
	if err != nil {
		return 0, 0, fmt.Errorf("take over feed %d: %w", f, err)
	}
	return epoch, pos, nil
}

// stands returns the holder and position of the feed after the newest commit.
func (s *Store) stands() store.Holder {
	return store.Holder{Epoch: s.epoch, Holder: s.holder, Pos: s.last.pos}
}

// Holders implements store.Store; it asks the memory.
func (s *Store) Holders(_ context.Context, feeds []store.Feed) ([]store.Holder, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	all := make([]store.Holder, len(feeds))
	for i, f := range feeds {
		if f != feed {
			return nil, fmt.Errorf("ask who holds feed %d: there is only feed %d", f, feed)
		}
		all[i] = s.queue.stands
	}
	return all, nil
}

// watch checks free space and hung syncs until Close.
func (s *Store) watch() {
	tick := time.NewTicker(s.o.CheckEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-tick.C:
			s.space.check()
			s.checkStall()
		}
	}
}

func (s *Store) checkStall() {
	at := s.queue.oldest()
	stalled := !at.IsZero() && time.Since(at) > s.o.StallAfter
	if s.stalled.Swap(stalled) != stalled {
		if stalled {
			s.log.Warn("disk does not answer: commits wait", "took", time.Since(at))
		} else {
			s.log.Info("disk answers again")
		}
	}
}
