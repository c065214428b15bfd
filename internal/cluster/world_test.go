package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/petrel-im/petrel/internal/bus"
	"github.com/petrel-im/petrel/internal/bus/bustest"
	"github.com/petrel-im/petrel/internal/bus/localbus"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
)

// world is a cluster with a database, inside a synctest bubble.
type world struct {
	t   *testing.T
	db  *database
	net *localbus.Net
	log *lines

	planned atomic.Bool                     // nobody takes over what another one has open
	doomed  func(store.Feed, im.Epoch) bool // owners that are lost before their Open has returned; nil: none

	mu     sync.Mutex
	nodes  map[im.Node]*node // that run; of two with one id, the younger
	all    []*node
	opened map[opened]im.Node // by whom
}

type opened struct {
	feed  store.Feed
	epoch im.Epoch
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, db: newDatabase(im.Partitions), net: localbus.New(), log: &lines{}, nodes: map[im.Node]*node{}, opened: map[opened]im.Node{}}
	t.Cleanup(func() {
		for _, n := range w.all {
			n.kill()
		}
	})
	return w
}

func (w *world) running() []*node {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []*node
	for _, id := range slices.Sorted(maps.Keys(w.nodes)) {
		list = append(list, w.nodes[id])
	}
	return list
}

// node is a process of the world: a Cluster, and the owners of feeds that a
// conversation package would have.
type node struct {
	w    *world
	id   im.Node
	c    *Cluster
	conn *connection
	bus  *gatedBus

	started atomic.Bool

	stop  context.CancelFunc
	end   func() // lets Run end, with the bus and the database still there
	done  sync.WaitGroup
	left  chan struct{} // closed when it is off the bus
	ended chan error    // capacity 1; of Run

	mu    sync.Mutex
	busy  map[store.Feed]bool // Open or Close runs
	open  map[store.Feed]im.Epoch
	quiet bool // nobody writes

	refuse func(store.Feed) bool // takeovers that fail
	blind  func(store.Feed) bool // takeovers of which nothing is heard
	hang   func(store.Feed) bool // takeovers that do not end
	flush  time.Duration         // how long Close takes; 0: 2 ms
}

// make makes a node whose bus runs.
func (w *world) make(id im.Node, change func(*Options)) *node {
	w.t.Helper()
	b, err := w.net.Join(id)
	if err != nil {
		w.t.Fatal(err)
	}
	o := Options{Log: slog.New(slog.NewTextHandler(w.log, nil)), Addresses: []string{"ws://" + string(id)}, Release: "v1"}
	if change != nil {
		change(&o)
	}
	n := &node{w: w, id: id, left: make(chan struct{}), ended: make(chan error, 1), busy: map[store.Feed]bool{}, open: map[store.Feed]im.Epoch{}}
	n.conn = &connection{database: w.db, gate: newGate()}
	n.bus = &gatedBus{LossyBus: bustest.Lossy(b, bustest.Rules{}), gate: n.conn.gate}
	n.c = New(o, n.conn, n.bus)
	ctx, stop := context.WithCancel(context.Background())
	n.stop = stop
	n.done.Go(func() {
		defer close(n.left)
		_ = n.bus.Run(ctx)
	})
	w.mu.Lock()
	w.nodes[id] = n
	w.all = append(w.all, n)
	w.mu.Unlock()
	return n
}

// run lets a node that has joined take part.
func (n *node) run() {
	ctx, stop := context.WithCancel(context.Background())
	var ran sync.WaitGroup
	ran.Go(func() { n.ended <- n.c.Run(ctx, Owners{Open: n.takeover, Close: n.close}) })
	ran.Go(func() { n.commits(ctx) })
	n.end = func() { stop(); ran.Wait() }
	n.started.Store(true)
}

// start makes a node, joins and runs it.
func (w *world) start(id im.Node, change func(*Options)) *node {
	w.t.Helper()
	n := w.make(id, change)
	if err := n.c.Join(context.Background()); err != nil {
		w.t.Fatalf("join %s: %v", id, err)
	}
	n.run()
	return n
}

// kill ends a node as kill -9 does: it does and says nothing more.
func (n *node) kill() {
	n.conn.set(func(c *connection) { c.dead = true })
	n.conn.gate.open()
	if n.end != nil {
		n.end()
	}
	n.stop()
	n.done.Wait()
	n.w.mu.Lock()
	if n.w.nodes[n.id] == n {
		delete(n.w.nodes, n.id)
	}
	n.w.mu.Unlock()
}

func (n *node) enter(f store.Feed) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.busy[f] {
		n.w.t.Errorf("%s: two calls for feed %d at once", n.id, f)
	}
	n.busy[f] = true
}

func (n *node) exit(f store.Feed) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.busy, f)
}

func (n *node) takeover(ctx context.Context, f store.Feed) (im.Epoch, error) {
	n.enter(f)
	defer n.exit(f)
	n.mu.Lock()
	refuse, blind, hang := n.refuse, n.blind, n.hang
	n.mu.Unlock()
	if refuse != nil && refuse(f) {
		return 0, errRefused
	}
	if hang != nil && hang(f) {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	if n.w.planned.Load() {
		for _, other := range n.w.running() {
			other.mu.Lock()
			if e, ok := other.open[f]; ok {
				n.w.t.Errorf("%s takes over feed %d, which %s has open in epoch %d", n.id, f, other.id, e)
			}
			other.mu.Unlock()
		}
	}
	e, _, err := n.conn.Takeover(ctx, f, n.c.Incarnation())
	if err == nil && blind != nil && blind(f) {
		err = errRefused
	}
	if err != nil {
		return 0, err
	}
	n.w.mu.Lock()
	if by, ok := n.w.opened[opened{f, e}]; ok {
		n.w.t.Errorf("feed %d epoch %d: opened by %s and %s", f, e, by, n.id)
	}
	n.w.opened[opened{f, e}] = n.id
	n.w.mu.Unlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	if e, ok := n.open[f]; ok {
		n.w.t.Errorf("%s: feed %d opened while open in epoch %d", n.id, f, e)
	}
	if doomed := n.w.doomed; doomed != nil && doomed(f, e) {
		n.c.Lost(f, e)
		n.c.Lost(f, e-1) // the owner before is late to say so
	} else {
		n.open[f] = e
	}
	return e, nil
}

func (n *node) close(ctx context.Context, f store.Feed) {
	n.enter(f)
	defer n.exit(f)
	n.mu.Lock()
	flush := max(n.flush, 2*time.Millisecond)
	n.mu.Unlock()
	select {
	case <-time.After(flush): // the numbered frames are flushed
	case <-ctx.Done():
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.open, f)
}

// commits writes to every feed that is open, ten times a second, as an owner
// would: one that is refused, or of which nothing is known, throws the owner away.
func (n *node) commits(ctx context.Context) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		n.mu.Lock()
		open, quiet := maps.Clone(n.open), n.quiet
		n.mu.Unlock()
		if quiet {
			continue
		}
		feeds := slices.Sorted(maps.Keys(open))
		try, cancel := context.WithTimeout(ctx, time.Second)
		holders, err := n.conn.Holders(try, feeds)
		cancel()
		for i, f := range feeds {
			if err == nil && holders[i].Holder == n.c.Incarnation() && holders[i].Epoch == open[f] {
				continue
			}
			n.mu.Lock()
			thrown := n.open[f] == open[f]
			if thrown {
				delete(n.open, f)
			}
			n.mu.Unlock()
			if thrown && ctx.Err() == nil {
				n.c.Lost(f, open[f])
			}
		}
	}
}

func (n *node) set(f func(n *node)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f(n)
}

func (n *node) has() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.open)
}

func (n *node) moving() int {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	return n.c.moving
}

// problem says why the world is not at rest: every feed has one owner, which
// the store takes for its holder, and all nodes know it.
func (w *world) problem() string {
	nodes := w.running()
	w.db.mu.Lock()
	defer w.db.mu.Unlock()
	var owners [im.Partitions]im.Node
	for _, n := range nodes {
		if p := n.problem(&owners, w.db.feeds); p != "" {
			return p
		}
	}
	for _, f := range w.db.ids {
		if owners[f] == "" {
			return fmt.Sprintf("feed %d has no owner; the store has %+v", f, w.db.feeds[f])
		}
	}
	for _, f := range w.db.ids {
		for _, n := range nodes {
			if at, e, ok := n.c.Route(f); !ok || at != owners[f] || e != w.db.feeds[f].Epoch {
				return fmt.Sprintf("feed %d is at %s in epoch %d, and %s looks for it at %q in epoch %d (%v)", f, owners[f], w.db.feeds[f].Epoch, n.id, at, e, ok)
			}
		}
	}
	return ""
}

// problem says which feed of n is open elsewhere too, or is another one's in the store. It
// notes who has the feeds.
func (n *node) problem(owners *[im.Partitions]im.Node, holders map[store.Feed]store.Holder) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	for f, e := range n.open {
		if by := owners[f]; by != "" {
			return fmt.Sprintf("feed %d is open at %s and %s", f, by, n.id)
		}
		if h := holders[f]; h.Holder != n.c.Incarnation() || h.Epoch != e {
			return fmt.Sprintf("feed %d is open at %s in epoch %d, and the store has %+v", f, n.id, e, h)
		}
		owners[f] = n.id
	}
	return ""
}

// settled waits until the world is at rest, and tells how long that took.
func (w *world) settled(within time.Duration) time.Duration {
	w.t.Helper()
	began := time.Now()
	for {
		synctest.Wait()
		p := w.problem()
		took := time.Since(began)
		if p == "" {
			return took
		}
		if took >= within {
			w.t.Fatalf("not at rest after %v: %s\n%s", took, p, w.log)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// even waits until the feeds are shared as they should be.
func (w *world) even(within time.Duration) {
	w.t.Helper()
	began := time.Now()
	for epochs := -1; ; {
		w.settled(within)
		synctest.Wait()
		low, high, misplaced := im.Partitions, 0, 0
		for _, n := range w.running() {
			low, high, misplaced = min(low, n.has()), max(high, n.has()), max(misplaced, n.c.Status().Misplaced)
		}
		if high-low <= len(w.running()) && misplaced == 0 && epochs == w.db.epochs() {
			return
		}
		epochs = w.db.epochs()
		if time.Since(began) >= within {
			w.t.Fatalf("parts of %d to %d feeds after %v", low, high, within)
		}
		time.Sleep(lookEvery + gather) // a node that looks may find another feed to move
	}
}

// three starts nodes a, b and c, and waits until they share the feeds.
func (w *world) three() (a, b, c *node) {
	a, b, c = w.start("a", nil), w.start("b", nil), w.start("c", nil)
	w.even(5 * time.Second)
	return a, b, c
}

func (w *world) cut(a, b *node, cut bool) {
	a.bus.Cut(b.id, cut)
	b.bus.Cut(a.id, cut)
	a.bus.hide(b.id, cut)
	b.bus.hide(a.id, cut)
}

// gate holds a process that is stopped by a signal.
type gate struct {
	mu   sync.Mutex
	shut chan struct{} // closed: it goes on
}

func newGate() *gate {
	g := &gate{shut: make(chan struct{})}
	close(g.shut)
	return g
}

func (g *gate) pass() {
	g.mu.Lock()
	ch := g.shut
	g.mu.Unlock()
	<-ch
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.shut:
		g.shut = make(chan struct{})
	default:
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.shut:
	default:
		close(g.shut)
	}
}

// gatedBus is the bus of a node that may be stopped.
type gatedBus struct {
	*bustest.LossyBus
	gate *gate

	mu     sync.Mutex
	hidden map[im.Node]bool
}

func (b *gatedBus) hide(n im.Node, hidden bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.hidden == nil {
		b.hidden = map[im.Node]bool{}
	}
	b.hidden[n] = hidden
}

func (b *gatedBus) Peers() []im.Node {
	peers := b.LossyBus.Peers()
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.DeleteFunc(peers, func(n im.Node) bool { return b.hidden[n] })
}

func (b *gatedBus) Send(to im.Node, s bus.Subject, payload []byte) error {
	b.gate.pass()
	return b.LossyBus.Send(to, s, payload)
}

func (b *gatedBus) Request(ctx context.Context, to im.Node, s bus.Subject, payload []byte) ([]byte, error) {
	b.gate.pass()
	answer, err := b.LossyBus.Request(ctx, to, s, payload)
	b.gate.pass()
	return answer, err
}

func (b *gatedBus) Handle(s bus.Subject, h bus.Handler) {
	b.LossyBus.Handle(s, func(from im.Node, payload []byte, reply func([]byte)) {
		b.gate.pass()
		h(from, payload, reply)
	})
}

// database is what the nodes of a world share: heartbeats and fences.
type database struct {
	store.Store // nil: what a Cluster does not call

	ids []store.Feed // sorted

	mu      sync.Mutex
	feeds   map[store.Feed]store.Holder
	records map[string][]byte
	down    bool // nothing is answered
	stalled bool // everything is refused at once, as by a store that does not answer
	frozen  bool // nothing is written
	calls   map[string]int

	answered func() // called behind a read of holders
}

func newDatabase(feeds int) *database {
	d := &database{feeds: map[store.Feed]store.Holder{}, records: map[string][]byte{}, calls: map[string]int{}}
	for f := range feeds {
		d.feeds[store.Feed(f)] = store.Holder{}
		d.ids = append(d.ids, store.Feed(f))
	}
	return d
}

func (d *database) set(f func(d *database)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f(d)
}

func (d *database) all() map[store.Feed]store.Holder {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.feeds)
}

func (d *database) called(what string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls[what]
}

// epochs sums up the epochs of all feeds: how often they were taken over.
func (d *database) epochs() int {
	n := 0
	d.set(func(d *database) {
		for _, h := range d.feeds {
			n += int(h.Epoch)
		}
	})
	return n
}

func (d *database) Feeds() []store.Feed { return d.ids }

// connection is a node's end of a database.
type connection struct {
	*database
	gate *gate

	mu   sync.Mutex
	cut  bool // this node cannot reach the database
	dead bool
	far  time.Duration // each call takes longer by that
}

func (c *connection) set(f func(c *connection)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(c)
}

var errRefused = errors.New("database refuses")

// begin is the way to the database: 2 ms, or as long as the caller waits.
func (c *connection) begin(ctx context.Context, what string, write bool) error {
	c.gate.pass()
	c.database.set(func(d *database) { d.calls[what]++ })
	c.mu.Lock()
	took := 2*time.Millisecond + c.far
	c.mu.Unlock()
	select {
	case <-time.After(took):
	case <-ctx.Done():
		return ctx.Err()
	}
	c.gate.pass()
	c.mu.Lock()
	lost, dead := c.cut, c.dead
	c.mu.Unlock()
	c.database.mu.Lock()
	lost = lost || c.down
	stalled, frozen := c.stalled, c.frozen && write
	c.database.mu.Unlock()
	switch {
	case dead:
		return errRefused
	case lost:
		<-ctx.Done()
		return ctx.Err()
	case stalled:
		return store.ErrStalled
	case frozen:
		return errRefused
	}
	return nil
}

func (c *connection) Takeover(ctx context.Context, f store.Feed, holder uint64) (im.Epoch, im.Pos, error) {
	if err := c.begin(ctx, "takeover", true); err != nil {
		return 0, 0, err
	}
	c.database.mu.Lock()
	defer c.database.mu.Unlock()
	h := c.feeds[f]
	h.Epoch, h.Holder = h.Epoch+1, holder
	c.feeds[f] = h
	return h.Epoch, h.Pos, nil
}

func (c *connection) Holders(ctx context.Context, feeds []store.Feed) ([]store.Holder, error) {
	if err := c.begin(ctx, "holders", false); err != nil {
		return nil, err
	}
	c.database.mu.Lock()
	defer c.database.mu.Unlock()
	out := make([]store.Holder, len(feeds))
	for i, f := range feeds {
		out[i] = c.feeds[f]
	}
	if c.answered != nil {
		c.answered()
	}
	return out, nil
}

func (c *connection) Record(ctx context.Context, t store.Table, _ im.Tenant, key []byte) ([]byte, error) {
	if err := c.begin(ctx, "record", false); err != nil {
		return nil, err
	}
	c.database.mu.Lock()
	defer c.database.mu.Unlock()
	return c.records[string(t)+string(key)], nil
}

func (c *connection) Records(ctx context.Context, t store.Table, _ im.Tenant, prefix []byte, fn func(key, value []byte) bool) error {
	if err := c.begin(ctx, "records", false); err != nil {
		return err
	}
	c.database.mu.Lock()
	rows := maps.Clone(c.records)
	c.database.mu.Unlock()
	from := string(t) + string(prefix)
	for _, k := range slices.Sorted(maps.Keys(rows)) {
		if strings.HasPrefix(k, from) && !fn([]byte(k[len(string(t)):]), rows[k]) {
			break
		}
	}
	return nil
}

func (c *connection) Update(ctx context.Context, puts []store.RecordPut) error {
	if err := c.begin(ctx, "update", true); err != nil {
		return err
	}
	c.database.mu.Lock()
	defer c.database.mu.Unlock()
	for _, p := range puts {
		was, ok := c.records[string(p.Table)+string(p.Key)]
		if p.Check && (ok != (p.Was != nil) || !bytes.Equal(was, p.Was)) {
			return store.ErrChanged
		}
	}
	for _, p := range puts {
		if p.Value == nil {
			delete(c.records, string(p.Table)+string(p.Key))
		} else {
			c.records[string(p.Table)+string(p.Key)] = p.Value
		}
	}
	return nil
}

// lines are what was logged.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *lines) count(s string) int { return strings.Count(l.String(), s) }
