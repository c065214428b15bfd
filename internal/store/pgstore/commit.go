package pgstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/wake"
)

// errUnfit is the error of a batch that cannot be encoded, before anything is sent.
var errUnfit = errors.New("batch cannot be encoded")

// maxGroupBytes is the size of the rows of a statement, in bytes, above which no further batch joins it. More rows
// would not make a row cheaper, and PostgreSQL takes far more.
const maxGroupBytes = 8 << 20

// appended is a batch between Append and its answer.
type appended struct {
	in   *store.Batch
	done func(error)
	err  error // set before it is answered
}

// committer writes the appends of all feeds of a database: it takes the queued batches, at most one of each
// feed, and commits them with one statement.
type committer struct {
	wake     chan struct{}    // capacity 1; a token: something is queued
	lost     chan struct{}    // capacity 1; a token: the committer needs a new connection
	raised   chan struct{}    // capacity 1; a token: a higher generation is known
	mended   chan *pgx.Conn   // capacity 1; the new connection
	finished chan []*appended // capacity 1: the next statement runs during the callbacks of the last one
	ended    chan struct{}    // closed when callBack has ended

	down  atomic.Bool  // there is no connection
	begun atomic.Int64 // Unix nanoseconds; start of the statement under way, 0: there is none

	commits    atomic.Uint64
	statements atomic.Uint64              // statements that made these commits
	busy       atomic.Int64               // nanoseconds in statements, also in failed ones
	poisoned   [im.Partitions]atomic.Bool // feeds that take nothing until a takeover

	mu     sync.Mutex // tier 0; guards the fields below
	queue  []*appended
	closed bool

	// Only commitQueued uses these fields, and Open before it.
	pace     pace
	conn     *pgx.Conn
	used     time.Time // when conn answered last
	prepared [1 << blocks]*pgconn.StatementDescription
	stmt     *statement
}

func (c *committer) init() {
	c.wake, c.lost, c.raised = make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{}, 1)
	c.mended, c.finished = make(chan *pgx.Conn, 1), make(chan []*appended, 1)
	c.ended, c.stmt = make(chan struct{}), newStatement()
}

// push queues a batch; false means that the store is closed.
func (c *committer) push(a *appended) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.queue = append(c.queue, a)
	wake.Set(c.wake)
	return true
}

// take removes from the queue the batches of one statement, in their order. It takes at most one of each feed,
// since the position of the next one depends on the outcome of the first.
func (c *committer) take() []*appended {
	c.mu.Lock()
	defer c.mu.Unlock()
	var group []*appended
	var has [im.Partitions]bool
	size := 0
	rest := c.queue[:0]
	for _, a := range c.queue {
		if has[a.in.Feed] || len(group) > 0 && size > maxGroupBytes {
			rest = append(rest, a)
		} else {
			group = append(group, a)
			for i := range a.in.Rows {
				size += len(a.in.Rows[i].Value)
			}
		}
		has[a.in.Feed] = true
	}
	clear(c.queue[len(rest):])
	c.queue = rest
	return group
}

// close stops the intake and reports whether no batch is left in the queue.
func (c *committer) close() (empty bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	return len(c.queue) == 0
}

// stalled tells whether the committer has no connection, or the statement under way has taken longer than StallAfter.
func (d *database) stalled() bool {
	at := d.begun.Load()
	return d.down.Load() || at != 0 && time.Since(time.Unix(0, at)) > d.o.StallAfter
}

// commitQueued commits queued batches until ctx ends, and then the remaining ones.
func (d *database) commitQueued(ctx context.Context) {
	defer close(d.finished)
	tick := time.NewTicker(d.o.CheckEvery)
	defer tick.Stop()
	for {
		select {
		case <-d.wake:
		case c := <-d.mended:
			d.use(c)
		case <-tick.C:
			d.probe()
			continue
		case <-d.raised:
			if d.conn != nil && d.stale(d.conn.PgConn()) != nil {
				d.lose(errBehind)
			}
			continue
		case <-ctx.Done():
			for !d.close() {
				d.commitOnce()
			}
			d.drop()
			return
		}
		for d.gather(); d.commitOnce(); d.gather() {
		}
	}
}

// commitOnce commits one group; false: nothing is queued.
func (d *database) commitOnce() bool {
	select {
	case c := <-d.mended:
		d.use(c)
	default:
	}
	group := d.take()
	if len(group) == 0 {
		return false
	}
	d.pace.last = time.Now()
	d.commit(group)
	d.finished <- group
	return true
}

// waiting counts the queued batches.
func (c *committer) waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.queue)
}

// gather delays a small group so that others can join it, if pace expects others.
func (d *database) gather() {
	if n := d.waiting(); d.pace.waits(n, time.Now()) {
		time.Sleep(paceOf)
		d.pace.learn(d.waiting() - n)
	}
}

// callBack reports the outcome of each append, in the order of the statements.
func (d *database) callBack() {
	defer close(d.ended)
	for group := range d.finished {
		for _, a := range group {
			a.done(a.err)
		}
	}
}

// commit sets the outcome of each batch of a group.
func (d *database) commit(group []*appended) {
	open := make([]*appended, 0, len(group))
	for _, a := range group {
		switch {
		case d.out.err() != nil:
			a.err = d.out.err()
		case d.poisoned[a.in.Feed].Load():
			a.err = fmt.Errorf("append to feed %d: %w: take it over", a.in.Feed, store.ErrFailed)
		case d.conn == nil:
			a.err = d.outOfReach(a)
		default:
			open = append(open, a)
		}
	}
	if len(open) > 0 {
		begun := time.Now()
		d.begun.Store(begun.UnixNano())
		d.commitOpen(open)
		d.begun.Store(0)
		d.busy.Add(int64(time.Since(begun)))
	}
}

func (d *database) outOfReach(a *appended) error {
	return fmt.Errorf("append to feed %d: %w: database %s is out of reach", a.in.Feed, store.ErrStalled, d.name)
}

// commitOpen runs the statement of a group, up to four times while the server asks for a retry, and sets the outcome
// of each batch. If the server refuses the statement for its content, each batch is tried alone, so that one bad batch
// does not fail the others. The feed of the bad batch takes nothing until a takeover.
func (d *database) commitOpen(group []*appended) {
	if d.conn == nil { // an earlier batch of the group has lost it
		for _, a := range group {
			a.err = d.outOfReach(a)
		}
		return
	}
	err := d.tryAppend(group)
	for try := 0; try < 3 && err != nil && judge(err) == again; try++ {
		err = d.tryAppend(group)
	}
	if err == nil {
		return
	}
	outcome := store.ErrUnknown
	switch v := judge(err); {
	case errors.Is(err, store.ErrUnknown), v == unknown:
		d.unknowns.Add(1)
		d.log.Warn("outcome of commit unknown", "database", d.name, "feeds", len(group), "err", err)
	case v == full:
		outcome = store.ErrFull
	case v == away, v == again:
		outcome = store.ErrStalled
	case len(group) > 1:
		for _, a := range group {
			d.commitOpen([]*appended{a})
		}
		return
	default:
		in := group[0].in
		d.poisoned[in.Feed].Store(true)
		d.log.Error("commit broke a constraint: the feed takes no commits until it is taken over",
			"database", d.name, "feed", in.Feed, "epoch", in.Epoch, "pos", in.From, "err", err)
		outcome = store.ErrFailed
	}
	for _, a := range group {
		a.err = fmt.Errorf("append to feed %d from %d in epoch %d: %w: %w", a.in.Feed, a.in.From, a.in.Epoch, outcome,
			err)
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); d.conn.IsClosed() || ok && e.Code == "25006" ||
		errors.Is(err, errBehind) {
		d.lose(err)
	}
}

// tryAppend runs the statement once. If the server answers without error and warning, it sets the outcome of each
// batch: durable, or ErrStale. Otherwise it returns an error, which holds for all batches; judge derives the outcome
// from it. An answer from a lower generation than is known is ErrUnknown.
func (d *database) tryAppend(group []*appended) error {
	ctx, cancel := context.WithTimeout(context.Background(), d.o.Timeout)
	defer cancel()
	s := d.stmt
	s.reset()
	for _, a := range group {
		if err := s.add(a.in); err != nil {
			return fmt.Errorf("%w: %w", errUnfit, err)
		}
	}
	c := d.conn.PgConn()
	if d.prepared[s.mask] == nil {
		sd, err := c.Prepare(ctx, fmt.Sprintf("append%d", s.mask), appendSQL(s.mask), nil)
		if err != nil {
			return err
		}
		d.prepared[s.mask] = sd
	}
	forgetWarning(c)
	r := c.ExecStatement(ctx, d.prepared[s.mask], s.encode(), []int16{pgx.BinaryFormatCode},
		[]int16{pgx.BinaryFormatCode}).Read()
	if r.Err != nil {
		return r.Err
	}
	if err := warned(c); err != nil {
		return err
	}
	d.used = time.Now()
	d.statements.Add(1)
	var taken [im.Partitions]bool
	for _, row := range r.Rows {
		taken[binary.BigEndian.Uint32(row[0])] = true
	}
	for _, a := range group {
		if a.err = nil; !taken[a.in.Feed] {
			a.err = fmt.Errorf("append to feed %d from %d in epoch %d: %w", a.in.Feed, a.in.From, a.in.Epoch,
				store.ErrStale)
		} else {
			d.commits.Add(1)
			d.seen.raise(a.in.Feed, a.in.From+1)
		}
	}
	// seen.raise comes before stale. If another connection adopts a higher generation meanwhile, either it
	// compares with this commit, or stale sees the generation and the commit is not acked.
	if err := d.stale(c); err != nil {
		return fmt.Errorf("%w: %w", store.ErrUnknown, err)
	}
	return nil
}

// probe tests an idle connection, so that its loss is known before the next append.
func (d *database) probe() {
	if d.conn == nil || time.Since(d.used) < d.o.CheckEvery {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), d.o.StallAfter)
	defer cancel()
	if err := d.conn.Ping(ctx); err != nil {
		d.lose(err)
		return
	}
	d.used = time.Now()
}

// use makes c the connection that commits.
func (d *database) use(c *pgx.Conn) {
	d.conn, d.used = c, time.Now()
	clear(d.prepared[:])
	if d.down.Swap(false) {
		d.log.Info("database can be reached again", "database", d.name)
	}
}

// lose gives the connection up and asks for a new one.
func (d *database) lose(err error) {
	if !d.down.Swap(true) {
		d.log.Warn("database cannot be reached", "database", d.name, "err", err)
	}
	d.drop()
	d.pool.Reset()
	wake.Set(d.lost)
}

func (d *database) drop() {
	if d.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = d.conn.Close(ctx) // it is given up
	d.conn = nil
}

// mend makes a new connection for the committer each time that it has lost its own, until ctx ends.
func (d *database) mend(ctx context.Context) {
	for {
		select {
		case <-d.lost:
		case <-ctx.Done():
			return
		}
		for wait := 20 * time.Millisecond; ; wait = min(2*wait, 500*time.Millisecond) {
			if c, err := d.dial(ctx); err == nil {
				d.mended <- c // never blocks: the committer takes c before it asks for another one
				break
			}
			select {
			case <-ctx.Done():
				return
			case <-d.out.ch:
				return
			case <-time.After(wait):
			}
		}
	}
}
