// Package bench is the load generator of `petrel bench`. It puts load on a server and audits it: every acked message
// must reach its recipients, and every message that arrives must have been sent. Its report has rates, latencies, and
// the messages that the server handles in a second of its CPU time.
//
// A run (Run) starts a server or takes a running one (ownservers.go, serverprocess.go, operator.go), dials the
// connections (dial.go), drives them from one thread (generator.go, conn.go, catchup.go) and audits all messages that
// they get (audit.go, messagebody.go). report.go has the report.
package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/petrel-im/petrel/internal/checker"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// run is the state of one run.
type run struct {
	p      Params
	report *Report

	mu      sync.Mutex  // tier 0; guards the elements of nodes
	nodes   []*child    // servers that the run started; empty: it measures a running server
	ports   []io.Closer // each reserves a port for the bus of one of nodes
	pg      *postgres
	key     string      // admin key of nodes
	roots   []byte      // PEM of the certificate of nodes; empty: clients trust the roots of the system
	bridges bridges     // carry the connections with TLS
	ops     []*operator // clients of the admin API, one for each server
	addrs   []string    // of each server: the address for the connections
	restore func(context.Context) error

	users  []string
	tokens []string
	groups []string
	gen    *generator
	watch  *watch

	memoryBefore uint64 // of the servers before the connections: allocated bytes; of a running server resident ones
	kernelBefore uint64 // at that moment: result of kernelMemory
	memory       uint64 // resident bytes at the end of the measured window
	allocated    uint64 // bytes that the servers had allocated at that moment
	diskBefore   uint64
	marks        [2]mark // at both ends of the measured window
	stillBusy    float64 // cores of the servers and the database in one second, 5 s after a counted run has sent all
	killed       []killed
	storm        *storm     // brings back connections that have ended; nil: they do not come back
	killer       killer     // zero: no further kill
	living       func()     // mixed, soak: adds the work of the clients to the report; nil in other scenarios
	ended        chan error // capacity 1; gets the result of the generator when it ends
	// of a counted run: time, in ns of the generator's clock, at which all its messages were answered and had reached
	// the receivers that were online, or at which checkQuota gave up waiting for that
	sent int64
}

// mark has the readings at one moment, such as an end of the measured window.
type mark struct {
	serverCPU []cpuTime // of each node
	ownCPU    cpuTime
	pgCPU     float64
	stats     []*petrelv1.Stats // of each server
}

// diskProbe is the longest time for which the disk is measured before a run. Params.probe shortens it.
const diskProbe = time.Second

// Run makes the run that p describes and returns its report. Findings of the audit are in the report; they are no
// error.
func Run(ctx context.Context, p Params) (*Report, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	if p.Progress == nil {
		p.Progress = func(Progress) {}
	}
	if err := p.fits(); err != nil {
		return nil, err
	}
	p.ServeArgs = append([]string{}, p.ServeArgs...) // an empty list in the report, not null
	r := &run{p: p, report: &Report{
		Scenario: p.Scenario, At: time.Now().UTC().Truncate(time.Second), Command: p.Command, Params: p,
		Machine: describeMachine(p.URL == ""), Ladder: Ladder,
	}}
	if p.Scenario == Limit {
		return r.report, r.limit(ctx)
	}
	if p.URL == "" {
		dir, err := os.MkdirTemp(p.Dir, "petrel-bench-")
		if err == nil {
			dir, err = filepath.Abs(dir) // a relative path would be another one in the working folders of the servers
		}
		if err != nil {
			return nil, fmt.Errorf("make a folder for the server: %w", err)
		}
		r.p.Dir = filepath.Dir(dir)
		defer os.RemoveAll(dir)
		if err := r.startOwn(ctx, dir); err != nil {
			return nil, err
		}
		defer r.stop()
	} else if err := r.attach(); err != nil {
		return nil, err
	}
	defer r.hangUp()
	if err := r.prepare(ctx); err != nil {
		return nil, errors.Join(err, r.putBack(ctx))
	}
	r.watch = newWatch(r)
	err := r.drive(ctx)
	r.watch.stop()
	if err == nil {
		err = r.conclude(ctx)
	}
	if r.gen != nil {
		err = errors.Join(err, r.gen.log.close())
	}
	r.bridges.all.Wait()
	if err = errors.Join(err, r.putBack(ctx)); err != nil { // also after drive has failed
		return nil, err
	}
	return r.report, nil
}

func (r *run) say(format string, args ...any) {
	r.p.Progress(Progress{Phase: "prepare", Note: fmt.Sprintf(format, args...)})
}

// attach checks that p.URL fits the transport, and sets ops and addrs for the running server there.
func (r *run) attach() error {
	u, err := url.Parse(r.p.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" ||
		(u.Scheme == "https") != r.p.secure() {
		return fmt.Errorf(
			"%q is not the address of a server, like http://127.0.0.1:8080; with the transports wss and tls it begins with https, with the others with http", r.p.URL)
	}
	addr := u.Host
	if u.Port() == "" {
		addr = net.JoinHostPort(u.Hostname(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	}
	if r.p.encoding().Framing == wire.TCP {
		if addr = r.p.TCPAddr; addr == "" {
			addr = net.JoinHostPort(u.Hostname(), "8081")
		}
	}
	r.ops, r.addrs = []*operator{newOperator(r.p.sockets(), cmp.Or(r.p.AdminURL, u.Scheme+"://"+u.Host), r.p.AdminKey)},
		[]string{addr}
	return nil
}

// prepare makes the users and, with Params.Lists, their devices and lists. It raises limits, makes the groups, takes
// the readings before the load, dials the connections with which the generator starts, and makes the generator.
func (r *run) prepare(ctx context.Context) (err error) {
	name := fmt.Sprintf("bench-%06x-", rand.Uint32()>>8)
	r.users = make([]string, r.p.connections())
	for i := range r.users {
		r.users[i] = fmt.Sprintf("%s%d", name, i)
	}
	if r.p.URL == "" {
		r.say("making %s users", count(float64(len(r.users))))
	} else {
		r.say("making %s users, %s0 and so on; no call removes users, so they and their messages stay on the server",
			count(float64(len(r.users))), name)
	}
	op := r.ops[0]
	if r.tokens, err = op.createUsers(ctx, r.users); err != nil {
		return err
	}
	if r.p.Lists > 0 {
		r.say("logging %s devices in, each with %d conversations", count(float64(len(r.users))), r.p.Lists)
		if err = op.fillLists(ctx, name, r.users, r.p.Lists); err != nil {
			return err
		}
		if r.tokens, err = op.logInDevices(ctx, r.users); err != nil {
			return err
		}
		if err = r.freshStart(ctx); err != nil {
			return err
		}
	}
	if err := r.raise(ctx); err != nil {
		return err
	}
	if r.p.traffic() == people {
		for i := range r.p.circles() {
			first, members := r.p.circle(i)
			id, err := r.ops[0].createGroup(ctx, fmt.Sprintf("%sgroup-%d", name, i), r.users[first:first+members])
			if err != nil {
				return err
			}
			r.groups = append(r.groups, id)
		}
	}
	if r.p.traffic() == groups {
		for n := range r.p.Groups {
			id, err := r.ops[0].createGroup(ctx, fmt.Sprintf("%sgroup-%d", name, n), r.users)
			if err != nil {
				return err
			}
			r.groups = append(r.groups, id)
		}
	}
	if err := r.before(ctx); err != nil {
		return err
	}
	first := len(r.tokens)
	if r.p.inTasks() && r.p.traffic() == idle {
		first = 0 // the steps of the scenario dial them
	} else if r.p.offline() {
		first = r.p.Senders + r.p.watchers() // the others connect after everything was sent
	}
	all, err := r.connect(ctx, 0, first)
	if err != nil {
		return err
	}
	return r.assemble(all)
}

// putBack restores the limits of a server that does not belong to the run.
func (r *run) putBack(ctx context.Context) error {
	if r.p.URL == "" || r.restore == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return r.restore(ctx)
}

// raise lifts the limits that are too low for the run, on all nodes.
func (r *run) raise(ctx context.Context) (err error) {
	if r.report.Raised, r.restore, err = r.ops[0].raise(ctx, r.p.needs()); err != nil {
		return err
	}
	for _, l := range r.report.Raised {
		r.say("raised %s from %d to %s", l.Limit, l.From, unlimited(l.To))
	}
	return nil
}

// connect makes the connections of users[from:to]. It reports their number at most once a second, and at the end.
func (r *run) connect(ctx context.Context, from, to int) ([]greeted, error) {
	told := time.Now()
	all, err := r.dial(ctx, from, to, func(n int) {
		if time.Since(told) > time.Second {
			told = time.Now()
			r.say("connected %s of %s", count(float64(n)), count(float64(to-from)))
		}
	})
	if err == nil {
		r.say("connected %s", count(float64(len(all))))
	}
	return all, err
}

// dial makes the connections of users[from:to]. After each it calls done with the number made so far.
func (r *run) dial(ctx context.Context, from, to int, done func(n int)) ([]greeted, error) {
	return r.dialer().dialAll(ctx, func(i int) string { return r.addrs[r.p.node(from+i)] }, r.tokens[from:to], done)
}

// dialer returns the dialer of the run.
func (r *run) dialer() *dialer {
	way := &dialer{e: r.p.encoding(), every: time.Duration(r.p.ConnectMS * 1e6), atOnce: cmp.Or(r.p.AtOnce, dialers),
		capabilities: r.p.capabilities(), net: r.p.sockets(),
		sources: 1 + uint64(r.p.connections())/portsOfSource}
	if r.p.secure() {
		way.tls, way.bridges = trust(r.roots), &r.bridges
	}
	return way
}

// before takes the readings of memory and disk before the load. In the scenario Connections it first waits for
// Params.Seconds, in which the server frees the memory that making the users took.
func (r *run) before(ctx context.Context) error {
	if r.p.Scenario == Connections {
		r.say("leaving the server idle for %g s, to know its memory without connections", r.p.Seconds)
		select {
		case <-time.After(seconds(r.p.Seconds)):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	s, err := r.stats(ctx)
	if err != nil {
		return err
	}
	r.memoryBefore = s[0].RssBytes
	if r.own() {
		_, r.memoryBefore = r.serverMemory()
	}
	r.kernelBefore = kernelMemory()
	if r.own() && r.p.traffic() != idle { // idle clients store no messages
		r.diskBefore, err = r.ops[0].compact(ctx)
	}
	return err
}

// assemble makes the generator with its connections, its audit, the groups and the senders.
func (r *run) assemble(all []greeted) error {
	size := max(r.p.Size, MinSize)
	c := newCorpus(r.p.Seed, size)
	g := newGenerator(r.p.encoding(), c, newAudit(c))
	g.net, g.quiet = r.p.sockets(), drainQuiet
	g.plan, g.cursors, g.planned = r.p.plan(), r.p.Receipts, seconds(r.p.lasts())
	r.gen = g
	if r.p.OpLog != "" {
		var err error
		if g.log, err = createOpLog(r.p.OpLog, r.users); err != nil {
			return err
		}
	}
	for i := range r.users {
		g.conns = append(g.conns, &conn{index: i, fd: -1})
		if i < len(all) {
			*g.conns[i] = conn{index: i, fd: all[i].fd, in: all[i].early, token: all[i].token}
		}
	}
	if r.p.Scenario == Presence {
		g.presences = &presences{online: map[string][]time.Time{}}
	}
	g.comers = r.p.inTasks() || r.p.comeBack()
	if r.p.comeBack() {
		g.gone, g.seldom = make(chan lostConn, len(g.conns)), r.p.KillS > 0
	}
	for i, id := range r.groups {
		first, members := 0, len(all)
		if r.p.traffic() == people {
			first, members = r.p.circle(i)
		}
		g.groups = append(g.groups, g.audit.addGroup(id, first, members))
	}
	if len(g.groups) == 1 && r.p.traffic() == groups { // with several groups, members get different bytes
		g.group, g.script = g.groups[0], newScript()
	}
	for i := range r.p.senders() {
		if err := g.addSender(i, r.users[i], r.peers(i), &r.p, all[i].welcome); err != nil {
			return err
		}
	}
	if h := r.p.Routine; h != nil {
		each := float64(r.p.Connections) / 3600 * r.p.Speed
		g.habits = &pastime{logins: h.Logins * each, opens: h.Opens * each}
		g.series = g.ask(taskHistory, nil, 0, 0, nil, isHistory)
		g.series.free = true
	}
	return g.joinGroups(all)
}

// peers opens the books of the direct conversations in which i is the sender. It returns the users and groups to which
// i writes, for each sender in another order.
func (r *run) peers(i int) (all []peer) {
	g := r.gen
	direct := func(to int) *convBook {
		v := g.audit.addDirect(i, to)
		all = append(all, peer{user: r.users[to], book: v})
		return v
	}
	switch r.p.traffic() {
	case groups:
		for n := range g.groups {
			all = append(all, peer{book: g.groups[(i+n)%len(g.groups)]})
		}
	case pairs:
		direct(r.p.Senders + i%r.p.Receivers)
	case mesh:
		for n := range r.p.Receivers {
			to := (i + n) % r.p.Receivers
			direct(r.p.Senders + to).streams[1].Gone = r.p.offline() && to >= r.p.watchers() // offline at first
		}
	case ring, people:
		for n := range r.p.Peers {
			direct((i + n + 1) % r.p.Connections)
		}
		if len(g.groups) > 0 && r.p.traffic() == people {
			all = append(all, peer{book: g.groups[i/r.p.Members]})
			// Each sender begins elsewhere in its list. Otherwise all would write to their groups at the same time.
			all = slices.Concat(all[i%len(all):], all[:i%len(all)])
		}
	}
	return all
}

// addSender makes connection i a sender. It returns an error if the window in the welcome w is too small for the run.
func (g *generator) addSender(i int, user string, peers []peer, p *Params, w *petrelv1.Welcome) error {
	s := &sender{
		conn: g.conns[i], peers: peers, window: p.Window,
		windowBytes: int(w.GetWindow().GetBytes()), largest: p.Size + sendOverhead,
	}
	if announced := int(w.GetWindow().GetSends()); p.open() {
		s.window = min(announced, maxWindow)
	} else if announced < p.Window {
		return fmt.Errorf("the server announces a window of %d sends, this run needs %d", announced, p.Window)
	}
	if s.windowBytes < s.largest {
		return fmt.Errorf("the server announces a window of %d bytes, one send of this run takes up to %d",
			s.windowBytes, s.largest)
	}
	slots := 1
	for slots < 2*s.window {
		slots *= 2
	}
	s.slots = make([]slot, slots)
	var books []*convBook
	for _, to := range peers {
		books = append(books, to.book)
	}
	s.ordinal = g.audit.addSender(user, i, books...)
	g.conns[i].sender = s
	return nil
}

// joinGroups starts the streams of each member at the heads in its sync. Senders get these heads; other members follow
// the script, if there is one and no op log. A sync without a group of the member is an error.
func (g *generator) joinGroups(all []greeted) error {
	if len(g.groups) == 0 {
		return nil
	}
	for i := range all {
		heads := map[string]uint64{}
		for _, c := range all[i].convs {
			heads[c.Conv] = c.Head
		}
		for _, v := range g.groups {
			st := v.stream(i)
			if st == nil {
				continue
			}
			head, found := heads[v.id]
			if !found {
				return fmt.Errorf("the sync of member %d does not list the group %s", i, v.id)
			}
			*st = checker.NewStream(head)
			v.Head = max(v.Head, head)
		}
		if s := g.conns[i].sender; s != nil {
			s.known = map[string]*peer{}
			for n := range s.peers {
				p := &s.peers[n]
				p.head = heads[p.book.id]
				s.known[p.book.id] = p
			}
		} else if g.script != nil && g.log == nil { // an op log needs each entry decoded
			g.conns[i].place.part = g.script.last
		}
	}
	return nil
}
