// Package pgstore is the store on PostgreSQL 15 and newer: a feed for each partition, the partitions in one
// database or spread over several. Any number of nodes use it at once; the database that holds the rows of a
// feed decides which of them may write it.
//
// An append goes by commit.go, which gathers the queued batches of all feeds of a database into one statement
// (appendstatement.go); that statement is the fence. update.go has the other writes, read.go the reads,
// movepartition.go takes a partition to another database, schema.go and open.go make and check the tables.
//
// # Requirements on the database
//
// The store uses plain SQL: single statements and short transactions at READ COMMITTED, without advisory locks,
// LISTEN, triggers and sequences. A pool between the store and the database must not change connections between
// statements. A substitute for PostgreSQL must have all of these, and some lack one:
//
//   - An append is one statement, in which an UPDATE … RETURNING in the WITH comes first and the INSERTs depend on it.
//     If another transaction has changed the row, the UPDATE must wait for its end, and then judge the new row.
//   - INSERT … ON CONFLICT DO UPDATE.
//   - Tables PARTITION BY HASH. Only the first schema makes them; plain tables of the same names do as well.
//
// # Durability
//
// A commit that returns without a warning is on the disk, and on the standby if synchronous_standby_names says so. A
// commit that returns no answer, or one with a warning, has an unknown outcome. A takeover settles the outcome: it
// waits for the row lock of the commit, and becomes durable after the commit. With an asynchronous standby, a failover
// loses the acked commits that have not reached the standby.
package pgstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/markfile"
)

// errClosed is the error of Append after Close.
var errClosed = errors.New("store is closed")

// Store implements store.Store. See Open.
type Store struct {
	o    Options
	log  *slog.Logger
	out  *outage
	dbs  []*database
	info atomic.Pointer[store.Info]
	at   atomic.Pointer[placement]
	seen *seen

	mark  *markfile.Keeper
	stop  context.CancelFunc
	tasks sync.WaitGroup // commitQueued, mend and callBack of each database

	size struct {
		mu    sync.Mutex // tier 0; guards the fields below
		bytes uint64
		asked time.Time
	}
}

var _ store.Store = (*Store)(nil)

// placement says which database holds a partition.
type placement [im.Partitions]int

// outage holds the reason for which the store has failed.
type outage struct {
	ch   chan struct{} // closed by end, when the store has failed and the process must exit
	once sync.Once
	log  *slog.Logger
	why  atomic.Pointer[error] // nil: the store has not failed
}

// fail ends the store and closes ch.
func (o *outage) fail(err error) {
	o.halt(err)
	o.end()
}

// halt ends all reads and writes, and returns true if err is the first reason. ch stays open until end, so the
// process goes on until then.
func (o *outage) halt(err error) bool {
	err = fmt.Errorf("%w: %w", store.ErrFailed, err)
	if !o.why.CompareAndSwap(nil, &err) {
		return false
	}
	o.log.Error("store has failed", "err", err)
	return true
}

func (o *outage) end() { o.once.Do(func() { close(o.ch) }) }

func (o *outage) err() error {
	if why := o.why.Load(); why != nil {
		return *why
	}
	return nil
}

// Info implements store.Store.
func (s *Store) Info() store.Info { return *s.info.Load() }

// Feeds implements store.Store: one for each partition.
func (s *Store) Feeds() []store.Feed {
	all := make([]store.Feed, im.Partitions)
	for i := range all {
		all[i] = store.Feed(i)
	}
	return all
}

// FeedOf implements store.Store.
func (s *Store) FeedOf(p im.Partition) store.Feed { return store.Feed(p) }

// of returns the database that holds a feed.
func (s *Store) of(f store.Feed) (*database, error) {
	if int(f) >= im.Partitions {
		return nil, fmt.Errorf("there is no feed %d", f)
	}
	return s.dbs[s.at.Load()[f]], nil
}

// holding returns the database that holds a conversation.
func (s *Store) holding(c im.Key) *database { return s.dbs[s.at.Load()[im.PartitionOf(c.Conv)]] }

// records returns the database that holds the records.
func (s *Store) records() *database { return s.dbs[0] }

// Append implements store.Store. It only queues the batch. callBack of the feed's database calls done in its
// goroutine; Append itself does so if the store is closed or has no such feed.
func (s *Store) Append(b *store.Batch, done func(error)) {
	d, err := s.of(b.Feed)
	if err == nil && !d.push(&appended{in: b, done: done}) {
		err = errClosed
	}
	if err != nil {
		done(fmt.Errorf("append to feed %d: %w", b.Feed, err))
	}
}

// Writable implements store.Store. It returns ErrStalled only if all databases are stalled. If one of several is out
// of reach, only the appends to it get ErrStalled. It never returns ErrFull.
func (s *Store) Writable() error {
	if err := s.out.err(); err != nil {
		return err
	}
	for _, d := range s.dbs {
		if !d.stalled() {
			return nil
		}
	}
	return store.ErrStalled
}

// Refute implements store.Store. It writes a note into every database. A node that is not told of it finds the
// note at its next commit, connection or start.
func (s *Store) Refute(proof string) {
	ctx, cancel := context.WithTimeout(context.Background(), refuteTime)
	defer cancel()
	var g errgroup.Group
	for _, d := range s.dbs {
		g.Go(func() error { return d.refute(ctx, proof) })
	}
	if err := g.Wait(); err != nil {
		s.log.Error("could not write the note that the store is an earlier state: the next start will not know", "err", err)
	}
	s.out.fail(fmt.Errorf("%w: %s", store.ErrRewound, proof))
}

// Failed implements store.Store.
func (s *Store) Failed() <-chan struct{} { return s.out.ch }

// Stats implements store.Store. It asks the databases for their size at most once a minute, and waits at most a second
// for the answers.
func (s *Store) Stats() store.Stats {
	var t store.Stats
	for _, d := range s.dbs {
		t.Commits += d.commits.Load()
	}
	z := &s.size
	z.mu.Lock()
	ask := time.Since(z.asked) > time.Minute
	if ask {
		z.asked = time.Now()
	}
	t.DiskBytes = z.bytes
	z.mu.Unlock()
	if !ask {
		return t
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	sum := uint64(0)
	for _, d := range s.dbs {
		n, err := collectOne(ctx, d, scanInt, `SELECT pg_database_size(current_database())`)
		if err != nil {
			return t // the last answer stands
		}
		sum += uint64(n)
	}
	z.mu.Lock()
	z.bytes = sum
	z.mu.Unlock()
	t.DiskBytes = sum
	return t
}

// Figures are the figures of one database, as this process sees it.
type Figures struct {
	Up         bool
	Partitions int           // that the database holds
	Commits    uint64        // of feeds
	Statements uint64        // statements that made these commits
	Busy       time.Duration // in statements
	Unknown    uint64        // statements of unknown outcome
	Damaged    uint64        // values that had a wrong checksum when they were read
	Refused    uint64        // refused connections to a lower generation than is known
	Generation uint64        // number of the generation in use
}

// Databases returns the number of databases of the store.
func (s *Store) Databases() int { return len(s.dbs) }

// Holds tells whether the n-th database, from 0, holds a feed.
func (s *Store) Holds(n int, f store.Feed) bool { return s.at.Load()[f] == n }

// Figures returns the figures of the n-th database, from 0.
func (s *Store) Figures(n int) Figures {
	d := s.dbs[n]
	f := Figures{Up: !d.stalled(), Commits: d.commits.Load(), Statements: d.statements.Load(),
		Busy: time.Duration(d.busy.Load()), Unknown: d.unknowns.Load(), Damaged: d.damaged.Load(),
		Refused: d.refusals.Load(), Generation: d.base.Load().generation().GetNumber()}
	for _, at := range s.at.Load() {
		if at == n {
			f.Partitions++
		}
	}
	return f
}

// Close implements store.Store. It returns after done was called for every append that has returned.
func (s *Store) Close() error {
	s.stop()
	s.tasks.Wait()
	s.mark.Stop()
	var g errgroup.Group
	for _, d := range s.dbs {
		g.Go(func() error {
			<-d.ended
			select {
			case c := <-d.mended:
				_ = c.Close(context.Background()) // was never used
			default:
			}
			d.pool.Close()
			d.lookups.wait()
			return nil
		})
	}
	return g.Wait()
}
