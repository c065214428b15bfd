package chaos

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/imtest/proctest"
	"github.com/petrel-im/petrel/internal/store/pgtest"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/test/crowd"
)

// world is a cluster of three nodes, its databases, and its users.
type world struct {
	t       *testing.T
	seed    uint64
	primary *pgtest.Server
	promote func() error // makes the standby the primary
	nodes   []*node      // the first ones are there from the beginning
	ports   [2]int       // of both

	databases string               // their address for the nodes
	cluster   func(n *node) string // what its file says of the bus
	net       *network             // nil: all are on one host, and nothing can be cut
	nats      *nats                // nil: the nodes have their own
	crowd     *crowd.Crowd

	dials atomic.Uint64
	downs []time.Duration // without service, of each fault
	stale float64         // appends of owners that had been replaced, refused

	avoided atomic.Pointer[node] // nobody connects to it; nil: all are good
}

const secret = "0123456789abcdef0123"

// newWorld starts PostgreSQL with a synchronous standby and three nodes; bus
// says how they reach each other.
func newWorld(t *testing.T, seed uint64, bus func(w *world)) *world {
	w := &world{t: t, seed: seed}
	for i := range 3 {
		w.nodes = append(w.nodes, newNode(t, fmt.Sprintf("n%d", i+1)))
	}
	w.cluster = w.embedded
	if bus != nil {
		bus(w)
	}
	proctest.Program(t)
	w.primary = pgtest.Own(t, pgtest.Options{Host: w.databases})
	if _, err := w.primary.Create(); err != nil {
		t.Fatal(err)
	}
	standby, err := w.primary.Standby()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(standby.Remove)
	w.promote = standby.Promote
	w.ports = [2]int{w.primary.Port, standby.Port}
	t.Cleanup(w.bury)
	for i, n := range w.nodes {
		w.configure(n)
		n.start()
		if i == 0 {
			w.populate()
		}
	}
	w.awaitFeeds()
	w.crowd.Start(t.Context())
	eventually.True(t, "the crowd gets going", func() bool { return w.crowd.Ledger.Acked() > 200 })
	return w
}

// bury ends what runs still, and keeps the logs in PETREL_CHAOS_LOGS, a folder; without it the
// last lines of a run that failed are printed.
func (w *world) bury() {
	for _, n := range w.nodes {
		if l := n.running(); l != nil {
			n.pause(false)
			_ = l.cmd.Process.Kill() // ended: nothing to kill
			<-l.done
		}
		if dir := os.Getenv("PETREL_CHAOS_LOGS"); dir != "" {
			b, _ := os.ReadFile(filepath.Join(n.dir, "log"))              // none: it printed nothing
			_ = os.WriteFile(filepath.Join(dir, n.name+".log"), b, 0o600) // best effort
		} else if w.t.Failed() {
			w.t.Logf("last lines of %s:\n%s", n.name, n.tail(25))
		}
	}
}

func (w *world) configure(n *node) {
	patience := 10 // s, for a database on a busy machine
	if *repeat != 0 {
		patience = 2 // clients wait for the next one
	}
	n.configure(fmt.Sprintf("postgres://petrel@%[1]s:%[2]d,%[1]s:%[3]d/petrel1?sslmode=disable&target_session_attrs=read-write&connect_timeout=%[4]d",
		cmp.Or(w.databases, "127.0.0.1"), w.ports[0], w.ports[1], patience), w.cluster(n))
}

// embedded: each node has a NATS server, with routes to the others.
func (w *world) embedded(n *node) string {
	join := ""
	for _, o := range w.nodes {
		join += fmt.Sprintf("%q,", o.bus)
	}
	return fmt.Sprintf("listen = %q\njoin = [%s]\nsecret = %q\ninsecure = true", n.bus, join, secret) // in namespaces of its own
}

// populate makes the crowd: 24 senders, further devices, groups of all sizes
// and direct conversations, so that each node owns some and nobody's
// conversations are all in one place.
func (w *world) populate() {
	w.t.Helper()
	o := crowd.Options{
		Seed: w.seed, Pace: 250 * time.Millisecond, ReadEvery: 50 * time.Millisecond, Patience: 4 * time.Second,
		Outsider: crowd.Role{User: "zoe", Framing: wire.WebSocket, Codec: wire.Proto},
		URL:      w.place,
	}
	if areTimesJudged() { // under load
		o.Pace, o.ReadEvery = 100*time.Millisecond, 0
	}
	var users []string
	for i := range 24 {
		r := crowd.Role{User: fmt.Sprintf("u%02d", i), Framing: wire.WebSocket, Codec: wire.Proto}
		if i%3 == 1 {
			r.Framing = wire.TCP
		}
		if i%4 == 3 {
			r.Codec = wire.JSON
		}
		users = append(users, r.User)
		o.Senders = append(o.Senders, r)
		switch {
		case i < 6:
			o.Receivers = append(o.Receivers, r)
		case i < 9:
			o.Readers = append(o.Readers, r)
		}
	}
	o.Groups = append(o.Groups, users)
	for i := range 8 {
		o.Groups = append(o.Groups, []string{users[i*3], users[i*3+1], users[i*3+2], users[(i*3+5)%24], users[(i*3+10)%24]})
	}
	for i := range 12 {
		o.Directs = append(o.Directs, [2]string{users[i], users[23-i]})
	}
	w.crowd = crowd.New(w.t, o)
	link, err := os.ReadFile(filepath.Join(w.nodes[0].dir, "setup-link"))
	if err != nil {
		w.t.Fatal(err)
	}
	w.crowd.Populate(w.nodes[0].operators(), string(link))
}

// place spreads devices over the nodes; one that comes again goes to another
// node.
func (w *world) place(f wire.Framing, _, _ string) string {
	at := int(w.dials.Add(1))
	for range w.nodes {
		at++
		n := w.nodes[at%len(w.nodes)]
		if n.pid() != 0 && n != w.avoided.Load() {
			return n.url(f)
		}
	}
	return w.nodes[at%len(w.nodes)].url(f)
}

// awaitFeeds waits until each node that runs owns some feeds.
func (w *world) awaitFeeds() {
	w.t.Helper()
	if !eventually.Holds(func() bool {
		crowd.Wait(w.t.Context(), 50*time.Millisecond) // a node that counts its metrics all the time has no time for the crowd
		sum := 0.0
		for _, n := range w.nodes {
			if n.pid() == 0 {
				continue
			}
			owned := n.metric(ownedMetric)
			if owned < 16 {
				return false
			}
			sum += owned
		}
		return sum == 256
	}) {
		var owned []float64
		for _, n := range w.nodes {
			owned = append(owned, n.metric(ownedMetric))
		}
		w.t.Errorf("the nodes own %v feeds after %v", owned, eventually.Limit)
	}
}

const (
	ownedMetric   = "petrel_feeds_owned"
	refusedMetric = "petrel_commits_stale_total"
)

// fault measures what inject costs: until every conversation takes a message
// again that was written behind it. The time without service may be limit, where it is judged.
func (w *world) fault(name string, limit time.Duration, inject func()) {
	w.t.Helper()
	l := w.crowd.Ledger
	l.Watch()
	begun := time.Now()
	inject()
	over := time.Now()
	ok := eventually.Holds(func() bool { return l.Served(over) })
	out := l.Outage()
	w.t.Logf("%s (%v): without service for %v; all conversations served %v later, longest time without an ack in one %v, longest wait for one %v", name,
		over.Sub(begun).Round(time.Millisecond), out.Down().Round(time.Millisecond), time.Since(over).Round(time.Millisecond), out.Gap.Round(time.Millisecond), out.Wait.Round(time.Millisecond))
	w.downs = append(w.downs, out.Down())
	if !ok {
		w.t.Errorf("%s: %v later some conversations take nothing: %v", name, time.Since(over), l.Stuck(over))
	} else if out.Down() > limit && areTimesJudged() {
		w.t.Errorf("%s: without service for %v, want at most %v", name, out.Down(), limit)
	}
}

// breathe lets the cluster run for up to d.
func (w *world) breathe(rng *rand.Rand, d time.Duration) {
	crowd.Wait(w.t.Context(), time.Duration(rng.Int64N(int64(d))))
}

// judge lets the crowd settle and audits.
func (w *world) judge() {
	w.t.Helper()
	w.crowd.Settle()
	w.crowd.End()
	for _, n := range w.nodes {
		if n.pid() != 0 {
			w.crowd.Audit(n.base())
			break
		}
	}
	for _, n := range w.nodes {
		n.check()
	}
	slices.Sort(w.downs)
	w.t.Logf("faults=%d without_service p50=%v p95=%v max=%v appends_refused=%v %s", len(w.downs), share(w.downs, 0.5), share(w.downs, 0.95), share(w.downs, 1), w.stale, w.crowd.Ledger.Counts())
	w.crowd.Ledger.Report(w.t)
}
