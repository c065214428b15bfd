package pebblestore

import (
	"fmt"
	"sync"
	"time"
)

// maxPending is how many commits may wait for their witness or for done to
// return; further ones wait before they begin.
const maxPending = 64

// commit is one durable write on its way.
type commit struct {
	last   last // n is 0 for a refusal, which waits only for its turn
	begun  time.Time
	placed bool // holds a token of acker.places
	done   func([]error)
	result []error
	one    [1]error
}

func newCommit(batches int, done func([]error)) *commit {
	c := &commit{done: done}
	if c.result = c.one[:]; batches != 1 {
		c.result = make([]error, batches)
	}
	return c
}

func (c *commit) fill(err error) {
	for i := range c.result {
		c.result[i] = err
	}
}

// acker holds the commits in their order until they are witnessed. One
// goroutine, Store.answer, takes all that are synced, writes one witness for
// the newest, and calls their done.
type acker struct {
	places chan struct{} // capacity maxPending; a token for every commit in queue or about to be
	ready  chan struct{} // capacity 1; a token: look again

	mu      sync.Mutex // tier 0; guards the fields below
	queue   []*commit  // oldest first
	durable uint64     // commits up to this number are synced
	closed  bool       // nobody answers any more
}

func (a *acker) init() {
	a.places = make(chan struct{}, maxPending)
	a.ready = make(chan struct{}, 1)
}

func (a *acker) wake() {
	select {
	case a.ready <- struct{}{}:
	default:
	}
}

// push puts c in the queue; false means that the store is closed.
func (a *acker) push(c *commit) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return false
	}
	a.queue = append(a.queue, c)
	if c.last.n == 0 {
		a.wake()
	}
	return true
}

// synced says that the log is synced up to commit n, which covers all earlier
// ones: there is one log, and a file of it is synced before the next begins.
func (a *acker) synced(n uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.durable = max(a.durable, n)
	a.wake()
}

// oldest is when the oldest pending commit began, zero if there is none.
func (a *acker) oldest() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.queue {
		if c.last.n > 0 {
			return c.begun
		}
	}
	return time.Time{}
}

// take moves the commits that can be answered to buf: the synced ones, and the
// refusals between them; all of them if the store has failed.
func (a *acker) take(buf []*commit, all bool) []*commit {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for n < len(a.queue) && (all || a.queue[n].last.n <= a.durable) {
		n++
	}
	buf = append(buf[:0], a.queue[:n]...)
	rest := copy(a.queue, a.queue[n:])
	clear(a.queue[rest:])
	a.queue = a.queue[:rest]
	return buf
}

// answer calls done for every append in their order. It ends when Close has
// seen the last call leave, after which nothing can be queued.
func (s *Store) answer() {
	var buf []*commit
	for stopping := false; !stopping; {
		select {
		case <-s.ack.ready:
		case <-s.stop:
			stopping = true
		}
		for {
			failed := s.out.err() != nil
			if buf = s.ack.take(buf, failed); len(buf) == 0 {
				break
			}
			if !failed {
				failed = s.testify(buf)
			}
			s.reply(buf, failed)
		}
	}
	s.ack.mu.Lock()
	defer s.ack.mu.Unlock()
	s.ack.closed = true
}

// testify writes the witness of the newest commit; true means that it could
// not.
func (s *Store) testify(cs []*commit) (failed bool) {
	var newest last
	for _, c := range cs {
		if c.last.n > newest.n {
			newest = c.last
		}
	}
	if newest.n == 0 {
		return false
	}
	if err := s.witness.commit(newest); err != nil {
		s.out.fail(fmt.Errorf("witness commit %d: %w", newest.n, err))
		return true
	}
	return false
}

func (s *Store) reply(cs []*commit, failed bool) {
	for _, c := range cs {
		if failed && c.last.n > 0 {
			c.fill(s.out.err())
		}
		c.done(c.result)
		if c.placed {
			<-s.ack.places
		}
	}
}
