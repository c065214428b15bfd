package simulation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/petrel-im/petrel/internal/bus/bustest"
	"github.com/petrel-im/petrel/internal/bus/localbus"
	"github.com/petrel-im/petrel/internal/bus/stream"
	"github.com/petrel-im/petrel/internal/cluster"
	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convtest"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/route"
	"github.com/petrel-im/petrel/internal/store/pebblestore"
)

// ids are the nodes. The feed belongs to "b" while it is there.
var ids = []im.Node{"a", "b", "c"}

// world is the nodes on one store and one bus, their clients, and what these have seen.
type world struct {
	t    *testing.T
	o    options
	log  *opLog
	net  *localbus.Net
	keys *im.IDs

	ctx  context.Context // ends with the seed
	stop context.CancelFunc
	wg   sync.WaitGroup // of all goroutines

	stops sync.WaitGroup // of those that stop nodes; only the goroutine of the plan adds to it

	takeovers atomic.Int64 // of the feed

	devices []*device
	groups  []im.Key

	mu     sync.Mutex // tier 1; guards the fields below
	disk   *disk
	store  *pebblestore.Store
	dark   bool // the power is off
	nodes  map[im.Node]*node
	story  []string
	undo   map[int]func() // of faults that are under way
	faults int
	sends  []*send  // all, oldest first
	wrong  []string // what the world itself has found
}

// node is one of the nodes.
type node struct {
	*convtest.Node
	id      im.Node
	w       *world
	door    door
	dead    atomic.Bool
	link    *link
	bus     *nodeBus
	cluster *cluster.Cluster
	streams *stream.Streams
	router  *route.Router
	joined  atomic.Bool
	leaving atomic.Bool // it takes no connections any more

	ended    chan struct{} // closed when everything of it has ended
	stopWork context.CancelFunc
	stop     context.CancelFunc
}

func newWorld(t *testing.T, o options) *world {
	w := &world{t: t, o: o, net: localbus.New(), nodes: map[im.Node]*node{}, undo: map[int]func(){}}
	w.log = &opLog{began: time.Now()}
	w.ctx, w.stop = context.WithCancel(context.Background())
	w.disk = &disk{mem: vfs.NewCrashableMem(), dice: o.rand(1), slow: o.sync}
	w.store = w.openStore(w.disk)
	w.keys = im.NewIDs(w.store.Info().Secret)
	for range o.groups {
		w.groups = append(w.groups, convtest.NewGroup())
	}
	return w
}

func (w *world) openStore(d *disk) *pebblestore.Store {
	st, err := pebblestore.Open(pebblestore.Options{Dir: "data", FS: d.fs(), CacheBytes: 1 << 20, MemTableBytes: 256 << 10, BallastBytes: -1})
	if err != nil {
		w.t.Fatalf("the store does not open: %v", err)
	}
	return st
}

// say notes what happens, for the reader of a failure.
func (w *world) say(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.story = append(w.story, fmt.Sprintf("%7.3f ", time.Since(w.log.began).Seconds())+fmt.Sprintf(format, args...))
}

// convict notes what the world has found.
func (w *world) convict(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.wrong) < 20 {
		w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
	}
}

// up are the nodes that take part, sorted.
func (w *world) up() []*node {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []*node
	for _, n := range w.nodes {
		if n.joined.Load() && !n.leaving.Load() {
			list = append(list, n)
		}
	}
	slices.SortFunc(list, func(a, b *node) int { return strings.Compare(string(a.id), string(b.id)) })
	return list
}

// start starts a node, unless it runs. It joins in the background.
func (w *world) start(id im.Node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.nodes[id] != nil || w.dark || w.ctx.Err() != nil {
		return
	}
	joined, err := w.net.Join(id)
	if err != nil {
		w.t.Errorf("start %s: %v", id, err)
		return
	}
	n := &node{id: id, w: w, ended: make(chan struct{})}
	w.nodes[id] = n
	n.link = newLink(w.store, &w.takeovers, &n.door, &n.dead, rand.New(rand.NewPCG(w.disk.draw(), 3)), w.o.lag)
	n.link.say = func(format string, args ...any) { w.say(string(id)+" "+format, args...) }
	n.bus = &nodeBus{LossyBus: bustest.Lossy(joined, w.o.calm(w.disk.draw())), node: &n.door, dead: &n.dead}
	n.Node = convtest.NewNode(w.t, n.link)
	n.cluster = cluster.New(cluster.Options{Patient: true}, n.Gate, n.bus)
	n.streams = stream.New(n.bus, n.cluster.Incarnation(), w.o.streams)
	nodes := fanout.NewNodes(n.Table, n.streams, w.store.Info().Secret, nil)
	n.Open(conv.Options{Holder: n.cluster.Incarnation(), Nodes: nodes})
	n.router = route.New(route.Options{Cluster: n.cluster, Bus: n.bus, Streams: n.streams, Nodes: nodes, Log: slog.New(slog.DiscardHandler)}, n.Convs, n.Gate)
	below, stop := context.WithCancel(context.Background())
	work, stopWork := context.WithCancel(below)
	n.stop, n.stopWork = stop, stopWork
	w.wg.Go(func() {
		defer close(n.ended)
		var running, working sync.WaitGroup
		start := func(wg *sync.WaitGroup, ctx context.Context, what string, run func(context.Context) error) {
			wg.Go(func() {
				if err := run(ctx); err != nil && !n.dead.Load() && ctx.Err() == nil {
					n.fail(what, err)
				}
			})
		}
		start(&running, below, "the link", n.link.run)
		start(&running, below, "the bus", n.bus.Run)
		start(&running, below, "the streams", n.streams.Run)
		start(&running, below, "the table", nodes.Run)
		for work.Err() == nil {
			err := n.cluster.Join(work)
			if err == nil {
				break
			}
			if errors.Is(err, cluster.ErrTwin) {
				n.fail("join", err)
				break
			}
			sleep(100 * time.Millisecond)
		}
		if work.Err() == nil {
			start(&working, work, "conv", n.Convs.Run)
			start(&working, work, "the router", n.router.Run)
			start(&working, work, "the cluster", func(ctx context.Context) error {
				return n.cluster.Run(ctx, cluster.Owners{Open: n.router.Open, Close: n.Convs.Close})
			})
			n.joined.Store(true)
		}
		<-work.Done()
		working.Wait()
		if n.joined.Load() && !n.dead.Load() {
			ctx, cancel := context.WithTimeout(below, 2*time.Second)
			_ = n.cluster.Leave(ctx) // the others find out otherwise
			cancel()
		}
		stop()
		running.Wait()
	})
}

// fail ends a node that cannot go on. A process that was killed may have a heartbeat on its
// way to the store, which looks like that of a twin. Then the node is started again, as by an operator.
func (n *node) fail(what string, err error) {
	if !errors.Is(err, cluster.ErrTwin) {
		n.w.convict("node %s: %s ended: %v", n.id, what, err)
		return
	}
	n.w.say("%s: %s ended: %v", n.id, what, err)
	n.w.wg.Go(func() {
		n.end(true)
		sleep(500 * time.Millisecond)
		n.w.start(n.id)
	})
}

// end ends a node at its leisure, or at once and without a word, and waits for that.
func (n *node) end(kill bool) {
	n.leaving.Store(true)
	if kill {
		n.dead.Store(true)
	}
	n.w.disconnect(n)
	n.thaw()
	n.link.in.set(false)
	n.link.out.set(false)
	n.stopWork()
	<-n.ended
	n.w.mu.Lock()
	if n.w.nodes[n.id] == n {
		delete(n.w.nodes, n.id)
	}
	n.w.mu.Unlock()
}

// freeze stops a node: nobody sees its actions, and it sees nothing.
func (n *node) freeze() { n.door.set(true) }

func (n *node) thaw() {
	n.door.set(false)
	n.bus.thaw()
}

// disconnect ends the connections to a node. nil: to all of them.
func (w *world) disconnect(n *node) {
	for _, d := range w.devices {
		d.mu.Lock()
		if c := d.conn; c != nil && (n == nil || c.at == n) {
			c.abandonLocked("its node ends")
		}
		d.mu.Unlock()
	}
}

// powerCut takes the power from all nodes and their disk, and starts them on what is left.
func (w *world) powerCut(percent int) {
	w.disconnect(nil) // nobody sees anything from here on
	w.mu.Lock()
	w.dark = true
	oldStore, fresh := w.store, w.disk.clone(percent)
	var all []*node
	for _, n := range w.nodes {
		n.leaving.Store(true)
		n.dead.Store(true)
		all = append(all, n)
	}
	w.mu.Unlock()
	for _, n := range all {
		n.end(true)
	}
	w.wg.Go(func() { _ = oldStore.Close() }) // of a disk that is gone
	st := w.openStore(fresh)
	w.mu.Lock()
	w.store, w.disk, w.dark = st, fresh, false
	w.mu.Unlock()
	for _, id := range ids {
		w.start(id)
	}
}

// during begins a fault that ends after some time, or when the world heals.
func (w *world) during(d time.Duration, undo func()) {
	w.mu.Lock()
	w.faults++
	n := w.faults
	once := sync.OnceFunc(undo)
	w.undo[n] = once
	w.mu.Unlock()
	w.wg.Go(func() {
		select {
		case <-time.After(d):
		case <-w.ctx.Done():
		}
		w.mu.Lock()
		delete(w.undo, n)
		w.mu.Unlock()
		once()
	})
}

// heal ends all faults, and starts the nodes that are gone.
func (w *world) heal() {
	w.mu.Lock()
	var all []func()
	for _, f := range w.undo {
		all = append(all, f)
	}
	w.mu.Unlock()
	for _, f := range all {
		f()
	}
	w.stops.Wait()
	w.disk.setSlow(w.o.sync)
	for _, id := range ids {
		w.start(id)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.nodes {
		n.bus.SetRules(w.o.calm(uint64(len(w.story))))
		n.cluster.Resume()
	}
}

// close ends everything.
func (w *world) close() {
	w.stop()
	w.disconnect(nil)
	w.mu.Lock()
	var all []*node
	for _, n := range w.nodes {
		all = append(all, n)
	}
	st := w.store
	w.mu.Unlock()
	for _, n := range all {
		n.end(false)
	}
	w.wg.Wait()
	if err := st.Close(); err != nil {
		w.convict("close the store: %v", err)
	}
}
