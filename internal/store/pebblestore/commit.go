package pebblestore

import (
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/wake"
)

// maxPending bounds the commits in the queue. Further ones wait before they enter it.
const maxPending = 64

// commit is one durable write: Store.writeLog stages and logs it, Store.callBack answers it.
type commit struct {
	stage  func() (*pebble.Batch, error) // called by writeLog, in order
	begun  time.Time
	placed bool          // holds a token of queue.places
	synced chan struct{} // closed when writeLog has synced or refused it; stays open if the store fails first

	batch   *pebble.Batch // from stage; only writeLog uses it
	last    last          // set, under queue.mu, before the batch is logged; n is 0 until then
	refusal error         // why stage refused it, so that nothing is written; guarded by queue.mu

	done   func(error)
	result error // the argument of done
}

func newCommit(done func(error)) *commit {
	return &commit{done: done, begun: time.Now(), synced: make(chan struct{})}
}

// queue holds the commits in their order until they have their answers.
type queue struct {
	places chan struct{} // capacity maxPending; a token for each commit in list, or about to enter it
	work   chan struct{} // capacity 1; a token: there is something to stage
	ready  chan struct{} // capacity 1; a token: there is something to answer

	mu      sync.Mutex   // tier 0; guards the fields below
	list    []*commit    // oldest first
	taken   int          // how many of list, from the first, writeLog has taken
	durable last         // the newest commit that is synced
	stands  store.Holder // of the feed, after the synced commits
	closed  bool         // callBack has ended: nobody answers
}

func (q *queue) init() {
	q.places = make(chan struct{}, maxPending)
	q.work = make(chan struct{}, 1)
	q.ready = make(chan struct{}, 1)
}

// push puts c in the queue; false means that the store is closed.
func (q *queue) push(c *commit) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.list = append(q.list, c)
	wake.Set(q.work)
	wake.Set(q.ready) // a failed store answers without staging
	return true
}

// take returns, in buf, the commits that writeLog has not taken yet. They stay in list until pop.
func (q *queue) take(buf []*commit) []*commit {
	q.mu.Lock()
	defer q.mu.Unlock()
	buf = append(buf[:0], q.list[q.taken:]...)
	q.taken = len(q.list)
	return buf
}

// oldest returns the time at which the oldest commit in the queue was begun, zero if there is none.
func (q *queue) oldest() time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.list) == 0 {
		return time.Time{}
	}
	return q.list[0].begun
}

// synced returns the newest synced commit. No acked commit is newer.
func (q *queue) synced() last {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.durable
}

// pop removes from list the commits that can be answered, sets their results, and returns them in buf. These
// are the oldest ones, up to the first that is neither synced nor refused. outage is the error of a failed store,
// else nil. If it is set, pop takes all commits, and outage is the result of each that was not refused.
func (q *queue) pop(buf []*commit, outage error) []*commit {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for ; n < len(q.list); n++ {
		if c := q.list[n]; c.refusal != nil {
			c.result = c.refusal
		} else if outage != nil {
			c.result = outage
		} else if c.last.n == 0 || c.last.n > q.durable.n {
			break
		}
	}
	buf = append(buf[:0], q.list[:n]...)
	rest := copy(q.list, q.list[n:])
	clear(q.list[rest:])
	q.list = q.list[:rest]
	q.taken = max(0, q.taken-n)
	return buf
}

// writeLog takes the queued commits, writes them to the log, and waits until one sync has made all of them
// durable. It alone uses last, epoch, holder and trim. A failing disk may block it for ever, so no goroutine
// waits for it after a failure.
func (s *Store) writeLog() {
	defer close(s.logged)
	var buf []*commit
	for {
		select {
		case <-s.queue.work:
		case <-s.out.ch:
			return
		case <-s.stop:
			return
		}
		buf = s.queue.take(buf)
		for _, c := range buf {
			if s.out.err() != nil {
				return
			}
			s.logOne(c)
		}
		for _, c := range buf {
			if !s.sync(c) {
				return
			}
		}
		s.queue.mu.Lock()
		s.queue.durable = s.last
		s.queue.stands = s.stands()
		s.queue.mu.Unlock()
		wake.Set(s.queue.ready)
		for _, c := range buf {
			close(c.synced)
		}
	}
}

// logOne stages one commit and writes it to the log without waiting for the disk. From then on reads see the
// commit. If stage refuses the commit, logOne sets refusal and writes nothing. A failed write ends the store.
func (s *Store) logOne(c *commit) {
	b, err := c.stage()
	if err != nil {
		s.queue.mu.Lock()
		c.refusal = err
		s.queue.mu.Unlock()
		return
	}
	s.last.n++
	s.last.timeMs = uint64(s.o.Now().UnixMilli())
	c.batch = b
	s.queue.mu.Lock()
	c.last = s.last
	s.queue.mu.Unlock()
	var buf [3 * binary.MaxVarintLen64]byte
	err = b.Set(keyCommit, s.last.append(buf[:0]), nil)
	if all := s.damaged(); all != nil && err == nil {
		err = all.mark(b)
	}
	if err == nil {
		err = caught(func() error { // Pebble panics when its log is broken
			return s.db.ApplyNoSyncWait(b, pebble.Sync)
		})
	}
	if err != nil {
		s.out.fail(fmt.Errorf("write commit %d: %w", s.last.n, err))
		return
	}
	s.commits.Add(1)
}

// sync waits until c is on the disk, unless c was refused; false means that the store has failed.
func (s *Store) sync(c *commit) bool {
	if c.batch == nil {
		return true
	}
	if err := c.batch.SyncWait(); err != nil {
		s.out.fail(fmt.Errorf("sync commit %d: %w", c.last.n, err))
	}
	if s.out.err() != nil {
		return false
	}
	_ = c.batch.Close() // is synced
	c.batch = nil
	return true
}

// callBack calls done for every commit, in order. It takes all commits that can be answered, writes the witness
// once, for the newest of them, and then answers. It ends after Close has closed stop, and then closes the queue.
func (s *Store) callBack() {
	var buf []*commit
	outage := s.out.ch
	for stopping := false; !stopping; {
		select {
		case <-s.queue.ready:
		case <-outage:
			outage = nil // it stays closed; later commits wake queue.ready
		case <-s.stop:
			stopping = true
		}
		for {
			buf = s.queue.pop(buf, s.out.err())
			if len(buf) == 0 {
				break
			}
			s.writeWitness(buf)
			for _, c := range buf {
				c.done(c.result)
				if c.placed {
					<-s.queue.places
				}
			}
		}
	}
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	s.queue.closed = true
}

// writeWitness writes the newest of the successful commits in cs into the witness. If that fails, the store
// fails and none of cs is acked.
func (s *Store) writeWitness(cs []*commit) {
	var newest last
	for _, c := range cs {
		if c.last.n > newest.n && c.result == nil {
			newest = c.last
		}
	}
	if newest.n == 0 {
		return
	}
	err := s.witness.commit(newest)
	if err == nil {
		return
	}
	s.out.fail(fmt.Errorf("witness commit %d: %w", newest.n, err))
	for _, c := range cs {
		if c.last.n > 0 {
			c.result = s.out.err()
		}
	}
}
