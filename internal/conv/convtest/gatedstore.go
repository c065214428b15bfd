package convtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
)

// Gate wraps a store, so that a test can hold, refuse or break its commits. While the gate is open,
// it passes all on.
type Gate struct {
	store.Store
	failed  chan struct{}
	durable atomic.Uint64 // the highest seq in the commits that are durable
	stalled atomic.Bool
	reads   reads

	mu       sync.Mutex    // tier 0; guards the fields below
	held     chan struct{} // closed when the gate opens; nil: it is open
	at       point         // where commits wait while the gate is held
	breaks   bool          // the next commit breaks the store
	poisoned bool          // the feed takes nothing until it is taken over
	full     bool          // commits are refused
	doubtful *bool         // the outcome of the next commit is unknown; the value says whether it is stored
	stopped  int           // see Stopped

	damaged func(c im.Key, from, to im.Seq) bool // whether a read meets damage; from is 0 if it reads no rows

	onWritable func()
	onRow      func(store.Row)
}

// point is where a commit waits for the gate.
type point int

const (
	atSync   point = iota // written, and readable, but not durable
	atStore               // before the store gets it
	atAnswer              // durable, but not answered
)

// newestRow stands for the last row in the ranges of Damage.
const newestRow = im.Seq(1<<64 - 1)

var errBroken = errors.New("broken disk")

// Shut holds commits between write and sync: the store shows their rows, but they become durable only when
// open is called.
func (g *Gate) Shut() (open func()) { return g.shut(atSync) }

// ShutStore holds commits before the store gets them.
func (g *Gate) ShutStore() (open func()) { return g.shut(atStore) }

// ShutAnswers lets commits become durable, but holds their callbacks until open is called.
func (g *Gate) ShutAnswers() (open func()) { return g.shut(atAnswer) }

func (g *Gate) shut(at point) (open func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	ch := make(chan struct{})
	g.held, g.at = ch, at
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.held == ch {
			g.held = nil
			close(ch)
		}
	}
}

// Open lets all waiting commits go. A test that ends while the gate holds commits must call it: conv.Convs
// ends only when all its commits are stored.
func (g *Gate) Open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.held != nil {
		close(g.held)
		g.held = nil
	}
}

// Refuse makes the store refuse commits as on a full disk, or take them again.
func (g *Gate) Refuse(full bool) {
	g.mu.Lock()
	g.full = full
	g.mu.Unlock()
}

// Break makes the next commit, and then the store, fail with an unknown outcome.
func (g *Gate) Break() {
	g.mu.Lock()
	g.breaks = true
	g.mu.Unlock()
}

// Poison makes the store take no commit of the feed until it is taken over.
func (g *Gate) Poison() {
	g.mu.Lock()
	g.poisoned = true
	g.mu.Unlock()
}

// Doubt makes the outcome of the next commit unknown. stored says whether it is stored.
func (g *Gate) Doubt(stored bool) {
	g.mu.Lock()
	g.doubtful = &stored
	g.mu.Unlock()
}

// Stall makes Writable return ErrStalled, while the store still takes commits.
func (g *Gate) Stall() { g.stalled.Store(true) }

// Stopped counts the commits that Refuse and ShutStore have kept from the store.
func (g *Gate) Stopped() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.stopped
}

// Durable returns the highest seq in the commits that are durable.
func (g *Gate) Durable() im.Seq { return im.Seq(g.durable.Load()) }

// OnWritable has f called whenever the store is asked whether it takes commits.
func (g *Gate) OnWritable(f func()) {
	g.mu.Lock()
	g.onWritable = f
	g.mu.Unlock()
}

// OnRow has f called for each row that is read. nil ends it.
func (g *Gate) OnRow(f func(store.Row)) {
	g.mu.Lock()
	g.onRow = f
	g.mu.Unlock()
}

// Damage makes those reads fail for which f returns true. f gets the range of the read rows; for a read of
// other records of a conversation, from is 0.
func (g *Gate) Damage(f func(c im.Key, from, to im.Seq) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.damaged = f
}

func (g *Gate) damage(c im.Key, from, to im.Seq) error {
	g.mu.Lock()
	f := g.damaged
	g.mu.Unlock()
	if f != nil && f(c, from, to) {
		return fmt.Errorf("read %s: %w", c, store.ErrCorrupt)
	}
	return nil
}

// Dedupe is of store.Store.
func (g *Gate) Dedupe(ctx context.Context, c im.Key, hash uint64) ([]im.Seq, error) {
	if err := g.damage(c, 0, 0); err != nil {
		return nil, err
	}
	return g.Store.Dedupe(ctx, c, hash)
}

// Marks is of store.Store.
func (g *Gate) Marks(ctx context.Context, c im.Key, k store.MarkKind, from, to im.Seq, after string,
	fn func(im.Seq, string, []byte) bool) error {
	if err := g.damage(c, 0, 0); err != nil {
		return err
	}
	return g.Store.Marks(ctx, c, k, from, to, after, fn)
}

// MarksBy is of store.Store.
func (g *Gate) MarksBy(ctx context.Context, c im.Key, k store.MarkKind, name string, from, to im.Seq,
	fn func(im.Seq, []byte) bool) error {
	g.reads.named.Add(1)
	if err := g.damage(c, 0, 0); err != nil {
		return err
	}
	return g.Store.MarksBy(ctx, c, k, name, from, to, fn)
}

// Failed is of store.Store.
func (g *Gate) Failed() <-chan struct{} { return g.failed }

// Writable is of store.Store.
func (g *Gate) Writable() error {
	g.mu.Lock()
	f := g.onWritable
	g.mu.Unlock()
	if f != nil {
		f()
	}
	if g.stalled.Load() {
		return store.ErrStalled
	}
	return g.Store.Writable()
}

// Takeover is of store.Store.
func (g *Gate) Takeover(ctx context.Context, f store.Feed, holder uint64) (im.Epoch, im.Pos, error) {
	g.mu.Lock()
	g.poisoned = false
	g.mu.Unlock()
	return g.Store.Takeover(ctx, f, holder)
}

// Rows is of store.Store.
func (g *Gate) Rows(ctx context.Context, c im.Key, from, to im.Seq, fn func(store.Row) bool) error {
	if err := g.damage(c, from, to); err != nil {
		return err
	}
	return g.Store.Rows(ctx, c, from, to, g.watch(fn))
}

// RowsDown is of store.Store.
func (g *Gate) RowsDown(ctx context.Context, c im.Key, from, to im.Seq, fn func(store.Row) bool) error {
	if err := g.damage(c, from, to); err != nil {
		return err
	}
	return g.Store.RowsDown(ctx, c, from, to, g.watch(fn))
}

func (g *Gate) watch(fn func(store.Row) bool) func(store.Row) bool {
	return func(r store.Row) bool {
		g.mu.Lock()
		onRow := g.onRow
		g.mu.Unlock()
		if onRow != nil {
			onRow(r)
		}
		return fn(r)
	}
}

// Append is of store.Store.
func (g *Gate) Append(b *store.Batch, done func(error)) {
	g.mu.Lock()
	held, at, breaks, poisoned, full, doubtful := g.held, g.at, g.breaks, g.poisoned, g.full, g.doubtful
	waits := held != nil && at == atStore
	if !poisoned {
		g.doubtful = nil
		if full || waits {
			g.stopped++
		}
	}
	g.mu.Unlock()
	switch {
	case poisoned:
		done(store.ErrFailed)
	case doubtful != nil && *doubtful:
		g.Store.Append(b, func(error) { done(store.ErrUnknown) })
	case doubtful != nil:
		done(store.ErrUnknown)
	case full && held == nil:
		done(store.ErrFull)
	case full:
		go func() { // ends with the gate
			<-held
			done(store.ErrFull)
		}()
	case breaks:
		done(errBroken)
		close(g.failed)
	case waits:
		go func() { // ends with the gate
			<-held
			g.Store.Append(b, done)
		}()
	default:
		g.append(b, held, at, done)
	}
}

// append gives a commit to the store. held is nil, or at is atSync or atAnswer.
func (g *Gate) append(b *store.Batch, held chan struct{}, at point, done func(error)) {
	g.noteWritten(b)
	g.Store.Append(b, func(err error) {
		if held != nil && at == atSync {
			<-held
		}
		if err == nil {
			for _, row := range b.Rows {
				g.durable.Store(max(g.durable.Load(), uint64(row.Seq)))
			}
		}
		if held == nil || at == atSync {
			done(err)
			return
		}
		go func() { // ends with the gate
			<-held
			done(err)
		}()
	})
}
