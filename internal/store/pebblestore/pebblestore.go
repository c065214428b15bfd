// Package pebblestore is the embedded store: it implements package store on Pebble, with one feed for all partitions.
// The keys are in keys.go.
//
// append.go puts a commit into the queue. commit.go writes the queued commits to Pebble's log, waits for one sync
// of all of them, writes the witness, and calls done. The witness (witness.go) is a second file that says how far
// the log and the manifest reach: Pebble does not notice that one of them has lost its end. guardfs.go is the file
// system of the database's folder; it keeps the witness ahead of Pebble. Pebble gets it inside of the file system of
// checkpoint.go, which leads the files of checkpoints around it. open.go compares the witness with Pebble's files at a
// start. rollback.go refuses an earlier state of the folder, and datafolder.go another folder
// than the expected one. repair.go accepts a loss.
//
// # What a start notices
//
// A start is refused, and changes neither the database nor the witness, if one of these is true:
//
//   - The log has lost its end: its newest commit is below the one in the witness.
//   - A log file is missing or damaged, or the log lacks commits between others that it has.
//   - The manifest is missing, cut, damaged, or another one.
//   - One of Pebble's marker files or the witness is missing.
//   - A table is missing or has another size.
//
// A damaged block of a table is noticed by the read that needs it, and only this read fails. mendtable.go then
// rewrites the table without the block, and damagedranges.go lists the keys that the block may have had as
// damaged. scrub.go reads all tables once a week. repairranges.go ends the damaged ranges in a repair.
//
// # Files
//
//   - The store while it runs: append.go, commit.go, read.go, convsizes.go, update.go, keys.go, options.go,
//     failure.go (its end, after the first error), diskspace.go (a disk that gets full), compactionscheduler.go
//     (when Pebble may merge tables), compact.go (merges them at the operator's request).
//   - Records of how far it has come: witness.go, inventory.go (which files must exist), guardfs.go, storemark.go,
//     folderseal.go, fileid.go.
//   - A start: open.go, datafolder.go, metadata.go (the records that a start reads before it writes), logfiles.go
//     (reads log files), rollback.go, damagederror.go (the error of a start that misses something).
//   - Damaged tables: damagedtables.go (what is known of them), tables.go (reads and rewrites one),
//     mendtable.go, damagedranges.go, scrub.go.
//   - Repair: repair.go, repairranges.go, lostrow.go, examine.go (looks and changes nothing).
//   - Backups: backup.go, checkpoint.go (also the file system that Pebble gets), filecopier.go,
//     backupmanifest.go (the content of a backup), restore.go.
//
// # What nobody notices
//
//   - The whole disk is set back to an earlier snapshot, and the store mark with it, or there is no store mark.
//     rollback.go notices only a copied folder, a store mark that is ahead of the store or of another history, and the
//     proof of a client. (A restored backup has a new history id.)
//   - Two faults at once: the newer commit slot of the witness is damaged, and the log has lost just the commits
//     that only this slot covered. These are the commits of the last write of the witness.
//   - A file is replaced by another valid one, or is damaged in a way that CRC-32C does not show (one in four
//     billion at random).
//   - Damage in bytes that nothing reads: the rest of a reused log file, the manifest before the current one.
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

// errClosed is the error of reads and writes after Close.
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

	// Only writeLog uses these fields, and Open before it starts writeLog.
	last   last // the newest commit, perhaps not durable yet
	epoch  im.Epoch
	holder uint64 // the writer in epoch; not on the disk, since every start takes the feed over again
	trim   im.Pos

	queue   queue
	logged  chan struct{} // closed when writeLog has returned
	witness *witness
	out     *failure
	guard   *guard
	damage  damage
	ranges  atomic.Pointer[damagedRanges] // nil: none

	scrubBytes, scrubFound atomic.Uint64 // by all passes since the start
	scrubAt                atomic.Int64  // when the last pass ended, Unix milliseconds; 0: never

	checkpointing atomic.Bool // a checkpoint is being made
	checkpoints   atomic.Uint64
	commits       atomic.Uint64
	space         space
	mark          *markfile.Keeper
	sealing       sealing
	stalled       atomic.Bool   // the oldest queued commit has waited longer than StallAfter
	stop          chan struct{} // closed by Close: ends the goroutines in tasks
	tasks         sync.WaitGroup

	mu      sync.Mutex // tier 0; guards the fields below
	uses    int        // calls that use Pebble; Close waits for them
	closing bool
	idle    chan struct{} // closed when closing is set and uses is 0
	gate    chan struct{} // closed when exclusive ends; nil: exclusive does not run
}

var _ store.Store = (*Store)(nil)

// enter is called before Pebble is used, and leave after it. enter waits while exclusive runs. Errors: that of
// a failed store, errClosed.
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

// Stats implements store.Store. DiskBytes leaves the ballast out. Sizes are 0 if the store is closed or has failed.
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

// Close waits for the calls that are under way, calls done for every append that has returned, and closes Pebble
// and the files. If the store has failed, Close does not wait for the calls and does not close Pebble, because that
// may wait for the disk for ever. A second call returns nil at once.
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

// stands returns the epoch, holder and position of the feed after the newest commit.
func (s *Store) stands() store.Holder {
	return store.Holder{Epoch: s.epoch, Holder: s.holder, Pos: s.last.pos}
}

// Holders implements store.Store. It reads memory only.
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
