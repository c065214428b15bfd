package simulation

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/petrel-im/petrel/internal/bus"
	"github.com/petrel-im/petrel/internal/bus/bustest"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
)

// door is what a node passes before anything outside of it sees what it does. While it is
// shut, everybody waits in front of it.
type door struct {
	mu   sync.Mutex    // tier 0; guards the field below
	shut chan struct{} // closed when the door opens; nil: it is open
}

// set shuts or opens the door.
func (d *door) set(shut bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if shut && d.shut == nil {
		d.shut = make(chan struct{})
	} else if !shut && d.shut != nil {
		close(d.shut)
		d.shut = nil
	}
}

// waiting is closed when the door opens; nil: it is open.
func (d *door) waiting() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.shut
}

// pass waits until the door is open, or ctx ends.
func (d *door) pass(ctx context.Context) error {
	for {
		ch := d.waiting()
		if ch == nil {
			return ctx.Err()
		}
		select {
		case <-ch:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// link is the way of one node to the store that all share: calls take a moment, and may be
// held, refused, or be of unknown outcome.
type link struct {
	store.Store
	node      *door // shut while the node is frozen
	in        door  // of appends, on their way to the store
	out       door  // of what became of them
	dead      *atomic.Bool
	takeovers *atomic.Int64
	say       func(format string, args ...any)

	full, stalled atomic.Bool

	mu       sync.Mutex // tier 0; guards the fields below
	dice     *rand.Rand
	lag      time.Duration // of a call, at most
	poisoned bool          // nothing of the feed is taken until it is taken over
	doubt    *bool         // the outcome of the next commit is unknown; whether it is stored
	answers  []*answer     // in the order of the appends
	answered chan struct{} // capacity 1; a token: the first answer may be known
}

// answer is what is told of an append.
type answer struct {
	known bool
	err   error
	done  func(error)
}

func newLink(st store.Store, takeovers *atomic.Int64, n *door, dead *atomic.Bool, dice *rand.Rand, lag time.Duration) *link {
	return &link{Store: st, takeovers: takeovers, node: n, dead: dead, dice: dice, lag: lag, answered: make(chan struct{}, 1)}
}

// run tells what became of appends, in their order, until ctx ends.
func (l *link) run(ctx context.Context) error {
	for {
		l.mu.Lock()
		var a *answer
		if len(l.answers) > 0 && l.answers[0].known {
			a, l.answers = l.answers[0], l.answers[1:]
		}
		l.mu.Unlock()
		if a != nil {
			_ = l.node.pass(context.Background()) // a dead node's doors are open
			_ = l.out.pass(context.Background())
			a.done(a.err)
			continue
		}
		select {
		case <-l.answered:
		case <-ctx.Done():
			return nil
		}
	}
}

func (l *link) answer(a *answer, err error) {
	l.mu.Lock()
	a.known, a.err = true, err
	l.mu.Unlock()
	select {
	case l.answered <- struct{}{}:
	default:
	}
}

// travel is the time of a call on its way.
func (l *link) travel(ctx context.Context) error {
	l.mu.Lock()
	d := time.Duration(l.dice.Int64N(int64(l.lag) + 1))
	if l.dice.IntN(3) > 0 {
		d = 0
	}
	l.mu.Unlock()
	if d > 0 {
		sleep(d)
	}
	if err := l.node.pass(ctx); err != nil {
		return err
	}
	if l.dead.Load() {
		return store.ErrFailed
	}
	return nil
}

// Append is of store.Store.
func (l *link) Append(b *store.Batch, done func(error)) {
	a := &answer{done: done}
	l.mu.Lock()
	l.answers = append(l.answers, a)
	l.mu.Unlock()
	_ = l.in.pass(context.Background())
	err := l.travel(context.Background())
	l.mu.Lock()
	doubt, poisoned := l.doubt, l.poisoned
	if err == nil && !poisoned {
		l.doubt = nil
	}
	l.mu.Unlock()
	switch {
	case err != nil:
		l.answer(a, store.ErrStale) // nobody hears of it
	case poisoned:
		l.answer(a, store.ErrFailed)
	case l.full.Load():
		l.answer(a, store.ErrFull)
	case doubt != nil && *doubt:
		l.Store.Append(b, func(error) { l.answer(a, store.ErrUnknown) })
	case doubt != nil:
		l.answer(a, store.ErrUnknown)
	default:
		l.Store.Append(b, func(err error) { l.answer(a, err) })
	}
}

// set changes what happens to later commits.
func (l *link) set(f func(l *link)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(l)
}

// Takeover is of store.Store.
func (l *link) Takeover(ctx context.Context, f store.Feed, holder uint64) (im.Epoch, im.Pos, error) {
	if err := l.travel(ctx); err != nil {
		return 0, 0, err
	}
	l.takeovers.Add(1)
	l.set(func(l *link) { l.poisoned = false })
	e, pos, err := l.Store.Takeover(ctx, f, holder)
	l.say("takes the feed over in epoch %d: %v", e, err)
	return e, pos, err
}

// Holders is of store.Store.
func (l *link) Holders(ctx context.Context, feeds []store.Feed) ([]store.Holder, error) {
	if err := l.travel(ctx); err != nil {
		return nil, err
	}
	h, err := l.Store.Holders(ctx, feeds)
	if e := l.node.pass(ctx); err == nil {
		err = e
	}
	return h, err
}

// Update is of store.Store.
func (l *link) Update(ctx context.Context, puts []store.RecordPut) error {
	if err := l.travel(ctx); err != nil {
		return err
	}
	return l.Store.Update(ctx, puts)
}

// Records is of store.Store.
func (l *link) Records(ctx context.Context, t store.Table, tenant im.Tenant, prefix []byte, fn func(key, value []byte) bool) error {
	if err := l.travel(ctx); err != nil {
		return err
	}
	return l.Store.Records(ctx, t, tenant, prefix, fn)
}

// Writable is of store.Store.
func (l *link) Writable() error {
	switch {
	case l.full.Load():
		return store.ErrFull
	case l.stalled.Load():
		return store.ErrStalled
	}
	return l.Store.Writable()
}

// nodeBus is the bus of a node that can be frozen and killed.
type nodeBus struct {
	*bustest.LossyBus
	node *door
	dead *atomic.Bool

	mu   sync.Mutex // tier 0; guards the field below
	held []func()   // sends of the node while it was frozen
}

// thaw sends what was held. The door is open again.
func (b *nodeBus) thaw() {
	b.mu.Lock()
	held := b.held
	b.held = nil
	b.mu.Unlock()
	for _, send := range held {
		send()
	}
}

// Send implements bus.Bus. It never waits: its caller may hold a lock.
func (b *nodeBus) Send(to im.Node, s bus.Subject, payload []byte) error {
	if b.dead.Load() {
		return nil
	}
	if b.node.waiting() == nil {
		return b.LossyBus.Send(to, s, payload)
	}
	p := append([]byte(nil), payload...)
	b.mu.Lock()
	b.held = append(b.held, func() { _ = b.Send(to, s, p) })
	b.mu.Unlock()
	return nil
}

// Request implements bus.Bus.
func (b *nodeBus) Request(ctx context.Context, to im.Node, s bus.Subject, payload []byte) ([]byte, error) {
	if err := b.node.pass(ctx); err != nil {
		return nil, err
	}
	if b.dead.Load() {
		return nil, bus.ErrNoNode
	}
	r, err := b.LossyBus.Request(ctx, to, s, payload)
	if e := b.node.pass(ctx); err == nil {
		err = e
	}
	return r, err
}

// Handle implements bus.Bus.
func (b *nodeBus) Handle(s bus.Subject, h bus.Handler) {
	b.LossyBus.Handle(s, func(from im.Node, payload []byte, reply func([]byte)) {
		_ = b.node.pass(context.Background())
		if b.dead.Load() {
			return
		}
		if reply == nil {
			h(from, payload, nil)
			return
		}
		h(from, payload, func(r []byte) {
			if !b.dead.Load() {
				reply(r)
			}
		})
	})
}

// disk is the memory under the store. A sync takes time, so that commits are under way when
// something happens.
type disk struct {
	mem *vfs.MemFS

	mu   sync.Mutex // tier 0; guards the fields below
	dice *rand.Rand
	slow time.Duration // of a sync, at most
}

// fs is the disk as the store sees it. The operations for which each commit waits take time:
// the sync of the log, and the write of the witness. Other writes may hold a lock of the
// store.
func (d *disk) fs() vfs.FS {
	const commitSlots = 8192 // bytes at the beginning of the witness
	return errorfs.Wrap(d.mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		switch op.Kind {
		case errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
			if !strings.HasSuffix(op.Path, ".log") {
				return nil
			}
		case errorfs.OpFileWriteAt:
			if !strings.HasSuffix(op.Path, "witness") || op.Offset >= commitSlots {
				return nil
			}
		default:
			return nil
		}
		d.mu.Lock()
		t := time.Duration(d.dice.Int64N(int64(d.slow) + 1))
		d.mu.Unlock()
		sleep(t)
		return nil
	}))
}

// draw throws the dice.
func (d *disk) draw() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.dice.Uint64()
}

func (d *disk) setSlow(t time.Duration) {
	d.mu.Lock()
	d.slow = t
	d.mu.Unlock()
}

// clone is the disk after a loss of power: percent of what was not synced is there.
func (d *disk) clone(percent int) *disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := rand.New(rand.NewPCG(d.dice.Uint64(), 1))
	return &disk{mem: d.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: n}), dice: rand.New(rand.NewPCG(d.dice.Uint64(), 2)), slow: d.slow}
}
