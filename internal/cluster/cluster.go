// Package cluster knows the nodes, and which of them owns which feed.
//
// Three questions have separate answers. Which node should own a feed? A hash over the live nodes says so
// (assignment.go). Which node owns it? The store's fence says so: the holder and the epoch of the last
// takeover. Where do other nodes look for the owner? Where the nodes have announced it (route.go), which
// may be wrong for a moment. Only the fence decides about commits: a takeover that comes too early, or by
// two nodes at once, costs only time.
//
// Every node writes a heartbeat row into the store once a second, and reads those of the others twice a second.
// It also sends its record over the bus to its peers. A node is gone when its row has not changed for a while,
// by the reader's own clock and only while the reader's own row moves.
//
// In a hand-over the owner seals a feed, flushes the entries that have seqs, and tells the next owner,
// which takes the feed over in the store. A node that the others do not hear gives its feeds up by its
// row (netsplit.go).
package cluster

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/petrel-im/petrel/internal/bus"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// Roles are the tasks of a node.
type Roles uint32

// The roles, as bits of a node's stored record: never renumber them.
const (
	Gateway Roles = 1 << iota // takes connections of clients
	Conv                      // owns feeds
	API                       // serves the API over HTTP

	AllRoles = Gateway | Conv | API
)

var roleNames = []string{"gateway", "conv", "api"}

// String lists the roles as ParseRoles reads them.
func (r Roles) String() string {
	var names []string
	for i, name := range roleNames {
		if r&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

// ParseRoles reads names of roles, with commas between them.
func ParseRoles(s string) (Roles, error) {
	var r Roles
next:
	for name := range strings.SplitSeq(s, ",") {
		for i, known := range roleNames {
			if strings.TrimSpace(name) == known {
				r |= 1 << i
				continue next
			}
		}
		return 0, fmt.Errorf("there is no role %q; the roles are %s", name, strings.Join(roleNames, ", "))
	}
	return r, nil
}

// NewID makes a random id for a node that was given none. The caller keeps
// the id: a node that returns under its id has its part of the feeds again.
func NewID() im.Node { return im.Node("node-" + strings.ToLower(rand.Text()[:10])) }

// Errors of Join and Run that end a node. Their text has the remedy.
var (
	ErrTwin        = errors.New("node id is in use")
	ErrUnreachable = errors.New("the other nodes cannot be reached")
)

// ErrNobody is returned by Drain when no other node would take the feeds.
var ErrNobody = errors.New("no other node takes feeds")

// Options describe this node. The zero value is a node with all roles and without an address for
// clients.
type Options struct {
	Log         *slog.Logger
	Now         func() time.Time // the wall clock, only to compare it with those of others; nil: time.Now
	Incarnation uint64           // of this process, the holder of its feeds; 0: New draws one
	Roles       Roles            // 0: all
	Addresses   []string         // where clients reach it, for Gateways
	Release     string           // version of the program

	// Alone says that no other process can have the store open. Then there are no heartbeats and no
	// timers, and feeds are owned for ever.
	Alone bool
	// Patient makes Join wait, instead of giving up after 5 s, for peers that
	// have heartbeats and are not on the bus, and for databases that are behind.
	Patient bool

	// Databases is what this node knows of the databases; nil: there are none.
	Databases *Databases
}

// Databases is a node's knowledge of the databases that the nodes share. Its functions may be
// called from any goroutine.
type Databases struct {
	Seen   func() *storepb.Seen                  // their newest positions
	Hear   func(from string, seen *storepb.Seen) // takes the knowledge of a peer
	Behind func() error                          // why not to use them: a node knows of later commits; nil: none does
}

// Owners opens and closes the feeds that a node owns. Calls for one feed never
// overlap. Their contexts end after 5 s at most, unless the node is Alone.
type Owners struct {
	// Open takes a feed over in the store, for Incarnation, and serves it. It returns the
	// epoch. After an error it is called again, but on a node that is Alone the error ends Run.
	Open func(ctx context.Context, f store.Feed) (im.Epoch, error)
	// Close refuses new requests for a feed, and returns when none is under way, or when ctx ends: then the
	// next takeover settles the rest. A feed that another node has taken over is closed in the same way.
	Close func(ctx context.Context, f store.Feed)
}

// Cluster is one node's view of the cluster, and its part in it. All methods
// may be called from any goroutine.
type Cluster struct {
	o           Options
	log         *slog.Logger
	store       store.Store
	bus         bus.Bus
	self        im.Node
	incarnation uint64
	began       time.Time // by the wall clock
	feeds       []store.Feed
	routes      []atomic.Pointer[route] // by feed

	opening chan struct{} // capacity maxOpening; holds one for each takeover that runs
	tell    chan struct{} // capacity 1; a token: the record for peers has changed
	seek    chan struct{} // capacity 1; a token: there are feeds to look after
	note    chan struct{} // capacity 1; a token: the own row is to be written now, since this node is apart
	reads   reads

	Takeovers atomic.Uint64 // feeds that were opened here
	Losses    atomic.Uint64 // feeds whose owner here was thrown away: a stale commit, or one of unknown outcome

	row []byte // the own heartbeat row as it was last written; only Join uses it, then only beats

	mu       sync.Mutex // tier 0; guards the fields below
	work     *work      // nil: Run does not run
	version  uint64     // of the last record of this node
	taking   bool
	draining bool
	moving   int // feeds on their way to other nodes
	own      map[store.Feed]*feed
	changed  chan struct{}    // closed, and made anew, when the phase of a feed changes
	peers    map[uint64]*peer // by incarnation
	flaps    map[im.Node]flap
	outside  map[im.Node]time.Time // since when nodes are outside of the majority
	apart    map[im.Node]bool      // nodes that have been outside for apartAfter
	judged   time.Time             // time of the last noteApartLocked
	took     []time.Duration       // of the last keptReads reads of the rows
	late     late
	slow     bool      // the store answers this node late, and the others soon
	from     time.Time // this node takes no feeds before
	lastLook time.Time // when the rows were read last
	ownRow   []byte    // as it was read last
	ownSeen  time.Time // when it was seen to move
	shares   map[store.Feed]im.Node
	sharers  []im.Node                  // the nodes of shares, sorted
	deaf     struct{ read, write bool } // the last read of the rows, or write of the own row, failed
}

// work is a run of a Cluster.
type work struct {
	ctx    context.Context // ends with Run
	stop   context.CancelCauseFunc
	wg     sync.WaitGroup // the goroutines of Run; more are added under Cluster.mu
	owners Owners
}

// Subjects of the bus.
const (
	beacon  bus.Subject = "cluster.beacon"  // storepb.Node; Send
	release bus.Subject = "cluster.release" // storepb.FeedEpoch; Request, answered with the new epoch, or 0
	seen    bus.Subject = "cluster.seen"    // empty; Request, answered with storepb.Seen
)

const (
	lookEvery  = 500 * time.Millisecond // between two reads of the rows, and between two beacons
	beatEvery  = time.Second            // between two writes of the own row
	settleTime = time.Second            // wait of a new node before it takes feeds
	storeWait  = 2 * time.Second        // longest time of a call of the store
	gather     = 10 * time.Millisecond  // wait for further changes before a beacon or a row
	maxOpening = 32                     // takeovers at a time
	// maxMoving is how many feeds this node hands over at a time. They have no owner meanwhile, and
	// their sends wait. If the database is slow, all feeds that move at the same time are slow.
	maxMoving = 8
)

// New makes a node and sets its handlers on the bus, which must not run yet.
func New(o Options, st store.Store, b bus.Bus) *Cluster {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Roles == 0 {
		o.Roles = AllRoles
	}
	for o.Incarnation == 0 {
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails
		o.Incarnation = binary.BigEndian.Uint64(b[:])
	}
	c := &Cluster{
		o: o, log: o.Log, store: st, bus: b, self: b.Self(), incarnation: o.Incarnation, began: o.Now(),
		feeds:   st.Feeds(),
		opening: make(chan struct{}, maxOpening), tell: make(chan struct{}, 1), seek: make(chan struct{}, 1),
		note: make(chan struct{}, 1),
		own:  map[store.Feed]*feed{}, changed: make(chan struct{}), peers: map[uint64]*peer{},
		flaps:   map[im.Node]flap{},
		outside: map[im.Node]time.Time{}, apart: map[im.Node]bool{},
	}
	c.reads.asked = make(chan struct{}, 1)
	last := store.Feed(0)
	for _, f := range c.feeds {
		c.own[f] = &feed{id: f}
		last = max(last, f)
	}
	c.routes = make([]atomic.Pointer[route], int(last)+1)
	for i := range c.routes {
		c.routes[i].Store(&route{changed: make(chan struct{})})
	}
	b.Handle(beacon, c.handleBeacon)
	releases.ServeLater(b, c.handleRelease)
	b.Handle(seen, bus.Answering(func(im.Node, []byte) []byte { return c.seen() }))
	return c
}

// Self is this node.
func (c *Cluster) Self() im.Node { return c.self }

// Roles are what this node does.
func (c *Cluster) Roles() Roles { return c.o.Roles }

// Incarnation returns the number of this process, which is the holder of its feeds in the store.
func (c *Cluster) Incarnation() uint64 { return c.incarnation }

// Run takes part in the cluster until ctx ends. It is called after Join, while the bus runs.
// Feeds that are open at its end stay open: the caller ends them. An error means that the
// node must stop: another process has its id, or a node that is Alone could not open a feed.
func (c *Cluster) Run(ctx context.Context, owners Owners) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	w := &work{ctx: ctx, stop: stop, owners: owners}
	c.mu.Lock()
	c.work = w
	c.ownSeen = time.Now()
	c.taking = c.taking || c.o.Alone
	c.decideLocked()
	c.mu.Unlock()
	if !c.o.Alone {
		w.wg.Go(func() { c.beats(ctx) })
		w.wg.Go(func() { c.looks(ctx) })
		w.wg.Go(func() { c.beacons(ctx) })
		w.wg.Go(func() { c.answers(ctx) })
	}
	<-ctx.Done()
	c.mu.Lock()
	c.work = nil // nothing is started from here on
	c.mu.Unlock()
	w.wg.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}
