// Package bench is the load generator of `petrel bench`: it drives a server,
// keeps books of every message in both directions, and reports what the server
// did with a second of its CPU.
//
// A run (Run) prepares a server (server.go, operator.go), dials the connections
// (dial.go), drives them from one thread (generator.go, conn.go, repair.go) and
// audits everything they see (audit.go, body.go); the report is report.go.
package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// run is one run between its parts.
type run struct {
	p      Params
	report *Report

	child   *child // nil: a running server
	key     string // of the admin, with child
	op      *operator
	addr    string // of the transport
	restore func(context.Context) error

	users  []string
	tokens []string
	group  string
	gen    *generator

	memoryBefore uint64 // bytes, before the connections
	memory       uint64 // at the end of the measured window
	diskBefore   uint64
	marks        [2]mark // at both ends of the measured window
}

// mark is what was read at one end of the measured window.
type mark struct {
	serverCPU, ownCPU cpuTime
	stats             *petrelv1.Stats
}

// diskProbe is how long the disk is measured before a run.
const diskProbe = time.Second

// Run does what p says and reports. It returns a report also of a run with
// findings; an error means that there is none.
func Run(ctx context.Context, p Params) (*Report, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	if p.Progress == nil {
		p.Progress = func(Progress) {}
	}
	r := &run{p: p, report: &Report{
		Scenario: p.Scenario, At: time.Now().UTC().Truncate(time.Second), Params: p, Machine: describeMachine(p.URL == ""),
	}}
	if p.URL == "" {
		dir, err := os.MkdirTemp(p.Dir, "petrel-bench-")
		if err != nil {
			return nil, fmt.Errorf("make a folder for the server: %w", err)
		}
		defer os.RemoveAll(dir)
		if err := r.startOwn(ctx, dir); err != nil {
			return nil, err
		}
		defer func() { r.child.stop() }()
	} else if err := r.attach(); err != nil {
		return nil, err
	}
	defer func() { r.op.close() }()
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	err := r.drive(ctx)
	if err == nil {
		err = r.conclude(ctx)
	}
	if p.URL != "" {
		// Also when the run was broken off: the server is somebody's.
		after, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		err = errors.Join(err, r.restore(after))
		cancel()
	}
	if err != nil {
		return nil, err
	}
	return r.report, nil
}

func (r *run) say(format string, args ...any) {
	r.p.Progress(Progress{Phase: "prepare", Note: fmt.Sprintf(format, args...)})
}

// startOwn measures the disk and starts a server on it.
func (r *run) startOwn(ctx context.Context, dir string) (err error) {
	r.say("measuring the disk of %s", filepath.Dir(dir))
	if r.report.Disk, err = measureDisk(dir, diskProbe); err != nil {
		return err
	}
	executable := r.p.Executable
	if executable == "" {
		if executable, err = os.Executable(); err != nil {
			return fmt.Errorf("find this program: %w", err)
		}
	}
	r.say("starting a server in %s", dir)
	if r.child, err = startChild(ctx, executable, dir, r.p.ServeArgs); err != nil {
		return err
	}
	code, err := r.child.setupCode(ctx)
	if err == nil {
		r.key, err = redeem(ctx, "http://"+r.child.HTTP, code)
	}
	if err != nil {
		r.child.stop()
		return err
	}
	r.reach()
	return nil
}

// reach takes the addresses of the run's own server.
func (r *run) reach() {
	r.op = newOperator("http://"+r.child.HTTP, r.key)
	r.addr = r.child.HTTP
	if r.p.Transport == "tcp" {
		r.addr = r.child.TCP
	}
}

// freshStart starts the run's own server again when it has written all that
// making the users' lists entails, so that none of it is in its memory.
func (r *run) freshStart(ctx context.Context) error {
	if r.child == nil {
		return nil
	}
	r.say("waiting until the lists are written, then starting the server again")
	for written := uint64(0); ; {
		s, err := r.op.stats(ctx)
		if err != nil {
			return err
		}
		if s.Accepted == written {
			break
		}
		written = s.Accepted
		select {
		case <-time.After(settled):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	r.op.close()
	r.child.stop()
	again, err := startChild(ctx, r.child.executable, filepath.Dir(r.child.dir), r.p.ServeArgs)
	if err != nil {
		return err
	}
	r.child = again
	r.reach()
	return nil
}

// settled is how long nothing is written before the server's own work counts
// as done.
const settled = 2 * time.Second

// attach takes the addresses of a running server.
func (r *run) attach() error {
	u, err := url.Parse(r.p.URL)
	if err != nil || u.Scheme != "http" || u.Host == "" {
		return fmt.Errorf("%q is not the address of a server without TLS, like http://127.0.0.1:8080; the load generator speaks no TLS", r.p.URL)
	}
	r.op = newOperator("http://"+u.Host, r.p.AdminKey)
	r.addr = u.Host
	if u.Port() == "" {
		r.addr = net.JoinHostPort(u.Hostname(), "80")
	}
	if r.p.Transport == "tcp" {
		if r.addr = r.p.TCPAddr; r.addr == "" {
			r.addr = net.JoinHostPort(u.Hostname(), "8081")
		}
	}
	return nil
}

// prepare raises limits, makes users and the group, and connects.
func (r *run) prepare(ctx context.Context) (err error) {
	name := fmt.Sprintf("bench-%06x-", rand.Uint32()>>8)
	r.users = make([]string, r.p.connections())
	for i := range r.users {
		r.users[i] = fmt.Sprintf("%s%d", name, i)
	}
	r.say("making %s users", count(float64(len(r.users))))
	if r.tokens, err = r.op.createUsers(ctx, r.users); err != nil {
		return err
	}
	if r.p.Lists > 0 {
		r.say("logging %s devices in, each with %d conversations", count(float64(len(r.users))), r.p.Lists)
		if err = r.op.fillLists(ctx, name, r.users, r.p.Lists); err != nil {
			return err
		}
		if r.tokens, err = r.op.logInDevices(ctx, r.users); err != nil {
			return err
		}
		if err = r.freshStart(ctx); err != nil {
			return err
		}
	}
	r.report.Raised, r.restore, err = r.op.raise(ctx, r.p.needs())
	if err != nil {
		return err
	}
	for _, l := range r.report.Raised {
		r.say("raised %s from %d to %s", l.Limit, l.From, unlimited(l.To))
	}
	if r.p.Scenario == Group {
		if r.group, err = r.op.createGroup(ctx, name+"group", r.users); err != nil {
			return err
		}
	}
	if err := r.before(ctx); err != nil {
		return err
	}
	told := time.Now()
	all, err := dialAll(ctx, r.addr, r.p.encoding(), r.tokens, r.p.capabilities(), func(n int) {
		if time.Since(told) > time.Second {
			told = time.Now()
			r.say("connected %s of %s", count(float64(n)), count(float64(len(r.tokens))))
		}
	})
	if err != nil {
		return err
	}
	r.say("connected %s", count(float64(len(all))))
	return r.assemble(all)
}

// before reads what is compared with the end of the run. Memory is compared at
// two moments that are alike: behind an idle time of the same length, in which
// a server gives back what making the users has left.
func (r *run) before(ctx context.Context) error {
	if r.p.Scenario == Connect {
		r.say("leaving the server idle for %g s, to know its memory without connections", r.p.Seconds)
		select {
		case <-time.After(seconds(r.p.Seconds)):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	s, err := r.op.stats(ctx)
	if err != nil {
		return err
	}
	r.memoryBefore = s.RssBytes
	if r.child != nil {
		r.memoryBefore = processMemory(r.child.PID)
	}
	if r.child != nil && r.p.Scenario != Connect { // which stores nothing
		r.diskBefore, err = r.op.compact(ctx)
	}
	return err
}

// assemble opens the books and makes the generator of the connections.
func (r *run) assemble(all []greeted) error {
	size := max(r.p.Size, MinSize)
	c := newCorpus(r.p.Seed, size)
	g := newGenerator(r.p.encoding(), c, newAudit(c))
	g.rate, g.cursors = r.p.Rate, r.p.Receipts
	if g.quiet = r.p.quiet; g.quiet == 0 {
		g.quiet = drainQuiet
	}
	r.gen = g
	for i := range all {
		g.conns = append(g.conns, &conn{index: i, fd: all[i].fd, in: all[i].early, token: all[i].token})
	}
	if r.p.Scenario == Group {
		g.group = g.audit.addGroup(r.group, len(all))
		g.script = newScript()
	}
	for i := range r.p.senders() {
		v := g.group
		peer := ""
		if v == nil {
			to := r.p.Senders + i%r.p.Receivers
			v, peer = g.audit.addDirect(i, to), r.users[to]
		}
		if err := g.addSender(i, r.users[i], peer, v, &r.p, all[i].welcome); err != nil {
			return err
		}
	}
	if g.group != nil {
		return g.joinGroup(all)
	}
	return nil
}

// addSender makes connection i a sender.
func (g *generator) addSender(i int, user, peer string, v *convBook, p *Params, w *petrelv1.Welcome) error {
	s := &sender{
		conn: g.conns[i], peer: peer, book: v, window: p.Window,
		windowBytes: int(w.GetWindow().GetBytes()), largest: p.Size + sendOverhead,
	}
	if announced := int(w.GetWindow().GetSends()); p.Rate > 0 {
		s.window = min(announced, maxWindow)
	} else if announced < p.Window {
		return fmt.Errorf("the server announces a window of %d sends, this run needs %d", announced, p.Window)
	}
	if s.windowBytes < s.largest {
		return fmt.Errorf("the server announces a window of %d bytes, one send of this run takes up to %d", s.windowBytes, s.largest)
	}
	slots := 1
	for slots < 2*s.window {
		slots *= 2
	}
	s.slots = make([]slot, slots)
	s.ordinal = g.audit.addSender(user, i, v)
	g.conns[i].sender = s
	return nil
}

// joinGroup begins every member's stream at the head that its sync told.
func (g *generator) joinGroup(all []greeted) error {
	for i := range all {
		head, found := uint64(0), false
		for _, c := range all[i].convs {
			if c.Conv == g.group.id {
				head, found = c.Head, true
			}
		}
		if !found {
			return fmt.Errorf("the sync of member %d does not list the group %s", i, g.group.id)
		}
		g.group.streams[i] = newStream(head)
		g.group.head = max(g.group.head, head)
		if s := g.conns[i].sender; s != nil {
			s.head = head
		} else {
			g.conns[i].place.part = g.script.last
		}
	}
	return nil
}

// drive runs the load through its phases.
func (r *run) drive(ctx context.Context) error {
	g := r.gen
	g.atMark = func(p phase) {
		m := &r.marks[p-measuring]
		m.ownCPU = ownCPU()
		if r.child != nil {
			m.serverCPU, _ = processCPU(r.child.PID) // a server that is gone shows by its connections
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- g.run(ctx) }() // waited for below
	total := seconds(r.p.WarmUp) + seconds(r.p.Seconds)
	next := time.NewTimer(seconds(r.p.WarmUp))
	defer next.Stop()
	for p := measuring; ; {
		select {
		case err := <-ended:
			if err == nil && g.at != draining {
				err = fmt.Errorf("every connection has ended, the first: %s", g.lost[0])
			}
			return err
		case note := <-g.progress:
			note.Total = total
			r.p.Progress(note)
		case <-next.C:
			if p > draining {
				continue
			}
			if p == draining && r.p.enough != nil && !r.p.enough() {
				next.Reset(5 * time.Millisecond)
				continue
			}
			if p == draining { // the connections are still there
				r.memory = r.serverMemory()
			}
			g.enter(p)
			s, err := r.op.stats(ctx)
			if err != nil {
				cancel()
				return errors.Join(err, <-ended)
			}
			r.marks[p-measuring].stats = s
			next.Reset(seconds(r.p.Seconds))
			p++
		}
	}
}

func (r *run) serverMemory() uint64 {
	if r.child != nil {
		return processMemory(r.child.PID)
	}
	return 0 // the statistics tell
}
