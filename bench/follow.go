package bench

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/petrel-im/petrel/internal/checker"
)

// Several processes make the load when one may not open enough files, or has not enough
// cores. The run deals its users to them, those who write to each other to the same one; it
// keeps the first part itself. A follower is this program once more: it gets its part on its
// standard input, follows the run through its phases, and ends with its books. Lines are JSON.

// assignment is the part of a follower.
type assignment struct {
	Params   Params
	Users    []string
	Tokens   []string
	Addrs    []string // of the transport of each server
	Operator string   // address of the API of the first server
	Key      string   // of an admin
	Roots    []byte
}

// order moves a follower on. Each has one of these.
type order struct {
	Start bool
	Phase *phase
	Quota uint64
	Level int // connections: come, up to this step
}

// heard is what a follower says. Each has one of these.
type heard struct {
	Ready    bool
	Progress *Progress
	Spent    bool
	Came     *hdrhistogram.Snapshot // how long each of those took that have come
	Books    *books
	Failed   string
}

// books are those of a follower at its end.
type books struct {
	Begin, End, All    []uint64 // tallies
	Ack, EndToEnd      recorded
	Unknown, Moved     uint64
	Lagged, Read, Mine uint64
	Errors             map[string]uint64
	Lost               []string
	Findings           []uint64 // by class
	Witnesses          []checker.Witness
	Seconds            []Second
	CPU, User          float64 // seconds, in the measured window
	Begun, Ended       [2]mean // of acks and of arrivals, in the first and the last quarter
}

// recorded are latencies.
type recorded struct {
	All   *hdrhistogram.Snapshot
	Steps []*hdrhistogram.Snapshot
}

func (l *latency) snapshot() recorded {
	s := recorded{All: l.all.Export()}
	for _, h := range l.steps.of {
		s.Steps = append(s.Steps, h.Export())
	}
	return s
}

func (l *latency) merge(s recorded, begin, end mean) {
	l.all.Merge(hdrhistogram.Import(s.All))
	for i := range s.Steps {
		l.steps.of[i].Merge(hdrhistogram.Import(s.Steps[i]))
	}
	l.begin.Sum, l.begin.Count = l.begin.Sum+begin.Sum, l.begin.Count+begin.Count
	l.end.Sum, l.end.Count = l.end.Sum+end.Sum, l.end.Count+end.Count
}

func (t *tally) list() []uint64 {
	return []uint64{t.offered, t.accepted, t.delivered, t.rejected, t.late}
}

func (t *tally) add(v []uint64) {
	for i, to := range []*uint64{&t.offered, &t.accepted, &t.delivered, &t.rejected, &t.late} {
		*to += v[i]
	}
}

// share is the part k of n of which there are all.
func share(n, k, all int) (from, to int) { return n * k / all, n * (k + 1) / all }

// part is what generator k does, and whose it is: users are senders and receivers of the run.
func (p Params) part(k int, users, tokens []string) (Params, []string, []string) {
	of := p.Generators
	from, to := share(p.Connections, k, of)
	pick := func(all []string) []string { return all[from:to:to] }
	if p.traffic() == pairs {
		s0, s1 := share(p.Senders, k, of)
		r0, r1 := share(p.Receivers, k, of)
		first := p.Senders
		pick = func(all []string) []string { return slices.Concat(all[s0:s1], all[first+r0:first+r1]) }
		p.Rate *= float64(s1-s0) / float64(p.Senders)
		p.Steps = slices.Clone(p.Steps)
		for i := range p.Steps {
			p.Steps[i] *= float64(s1-s0) / float64(p.Senders)
		}
		p.Senders, p.Receivers = s1-s0, r1-r0
	} else {
		if p.Messages > 0 {
			p.Messages = p.quota() * (to - from)
		}
		p.Connections = to - from
	}
	p.Seed += uint64(k) // or two users would make the same texts
	p.ConnectMS *= float64(of)
	return p, pick(users), pick(tokens)
}

// follower is another process of the run.
type follower struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	ready chan struct{}               // closed when it is connected, or has ended
	spent chan struct{}               // capacity 1
	came  chan *hdrhistogram.Snapshot // capacity 1: an order for each
	ended chan struct{}               // closed behind books and err
	books *books
	err   error
	last  atomic.Pointer[Progress]
	log   tail
}

// startFollowers deals the users, and starts the other processes with their parts.
func (r *run) startFollowers(ctx context.Context) error {
	if r.p.Generators == 1 {
		return nil
	}
	if r.p.Executable == "" { // with a running server
		var err error
		if r.p.Executable, err = os.Executable(); err != nil {
			return fmt.Errorf("find this program: %w", err)
		}
	}
	whole, users, tokens := r.p, r.users, r.tokens
	for k := 1; k < whole.Generators; k++ {
		a := assignment{Addrs: r.addrs, Operator: r.ops[0].url, Key: cmp.Or(r.key, r.p.AdminKey), Roots: r.roots}
		a.Params, a.Users, a.Tokens = whole.part(k, users, tokens)
		f, err := follow(ctx, r.p.Executable, &a)
		if err != nil {
			return err
		}
		r.others = append(r.others, f)
	}
	r.p, r.users, r.tokens = whole.part(0, users, tokens)
	return nil
}

// follow starts one.
func follow(ctx context.Context, executable string, a *assignment) (*follower, error) {
	f := &follower{ready: make(chan struct{}), spent: make(chan struct{}, 1), came: make(chan *hdrhistogram.Snapshot, 1), ended: make(chan struct{})}
	f.cmd = exec.CommandContext(ctx, executable, "bench", "follower")
	f.cmd.SysProcAttr = endWithParent()
	f.cmd.Stderr = &f.log
	var err error
	if f.in, err = f.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := f.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	started := make(chan error)
	go func() { // ended by stop, which waits for it
		runtime.LockOSThread() // the process ends with the thread that started it
		defer close(f.ended)
		if err := f.cmd.Start(); err != nil {
			started <- err
			return
		}
		started <- nil
		f.listen(out)
		if err := f.cmd.Wait(); f.books == nil && f.err == nil {
			f.err = fmt.Errorf("a load generator has ended: %v: %s", err, f.log.String())
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start another load generator: %w", err)
	}
	return f, f.tell(a)
}

// listen takes what it says until it has ended.
func (f *follower) listen(out io.Reader) {
	isReady := sync.OnceFunc(func() { close(f.ready) })
	defer isReady()
	for d := json.NewDecoder(bufio.NewReaderSize(out, 1<<20)); ; {
		var h heard
		if err := d.Decode(&h); err != nil {
			return
		}
		switch {
		case h.Ready:
			isReady()
		case h.Progress != nil:
			f.last.Store(h.Progress)
		case h.Spent:
			select {
			case f.spent <- struct{}{}:
			default:
			}
		case h.Came != nil:
			f.came <- h.Came
		case h.Books != nil:
			f.books = h.Books
		case h.Failed != "":
			f.err = errors.New("a load generator: " + h.Failed)
		}
	}
}

func (f *follower) tell(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if _, err := f.in.Write(append(b, '\n')); err != nil {
		return fmt.Errorf("tell a load generator: %w", err)
	}
	return nil
}

// tellAll tells every follower the same. One that has ended shows when its books are wanted.
func (r *run) tellAll(o order) {
	for _, f := range r.others {
		_ = f.tell(o)
	}
}

// turn moves all generators on.
func (r *run) turn(p phase) {
	r.gen.enter(p)
	r.tellAll(order{Phase: &p})
}

// allow sets the quota of all senders.
func (r *run) allow(q uint64) {
	r.gen.quota.Store(q)
	r.tellAll(order{Quota: q})
}

// await waits until every follower is connected.
func (r *run) await(ctx context.Context) error {
	for _, f := range r.others {
		select {
		case <-f.ready:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		select {
		case <-f.ended:
			return f.err
		default:
		}
	}
	return nil
}

// awaitSpent waits until every follower's quota is sent.
func (r *run) awaitSpent(ctx context.Context) error {
	for _, f := range r.others {
		select {
		case <-f.spent:
		case <-f.ended:
			return errors.Join(f.err, errors.New("a load generator has ended before all was sent"))
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// gather adds the followers' books to those of the run.
func (r *run) gather(ctx context.Context) error {
	for _, f := range r.others {
		select {
		case <-f.ended:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if f.books == nil {
			return f.err
		}
		r.add(f.books)
	}
	return nil
}

func (r *run) add(b *books) {
	g := r.gen
	g.begin.add(b.Begin)
	g.end.add(b.End)
	g.tally.add(b.All)
	g.ackTime.merge(b.Ack, b.Begun[0], b.Ended[0])
	g.endToEnd.merge(b.EndToEnd, b.Begun[1], b.Ended[1])
	g.moved += b.Moved
	g.lagged += b.Lagged
	for code, n := range b.Errors {
		g.errors[code] += n
	}
	g.lost = append(g.lost, b.Lost...)
	for class, n := range b.Findings {
		g.audit.Findings[class] += n
	}
	g.audit.Witnesses = append(g.audit.Witnesses, b.Witnesses...)
	for i := range b.Seconds[:min(len(b.Seconds), len(g.seconds))] {
		g.seconds[i].add(&b.Seconds[i])
	}
	r.elsewhere.unknown += b.Unknown
	r.elsewhere.read += b.Read
	r.elsewhere.mine += b.Mine
	r.marks[1].ownCPU.user += b.User
	r.marks[1].ownCPU.system += b.CPU - b.User
}

// add takes another generator's same second. Of percentiles it keeps the worse ones.
func (s *Second) add(o *Second) {
	s.Offered += o.Offered
	s.Accepted += o.Accepted
	s.Delivered += o.Delivered
	s.Unanswered += o.Unanswered
	s.Open += o.Open
	s.Ack.worse(&o.Ack)
	s.EndToEnd.worse(&o.EndToEnd)
	for i, n := range o.Rungs {
		if i == len(s.Rungs) {
			s.Rungs = append(s.Rungs, 0)
		}
		s.Rungs[i] += n
	}
}

func (p *Percentiles) worse(o *Percentiles) {
	*p = Percentiles{P50: max(p.P50, o.P50), P90: max(p.P90, o.P90), P99: max(p.P99, o.P99), P999: max(p.P999, o.P999), Max: max(p.Max, o.Max), Mean: max(p.Mean, o.Mean)}
}

// stopOthers ends those that have not ended by themselves.
func (r *run) stopOthers() {
	for _, f := range r.others {
		_ = f.in.Close() // its end
		select {
		case <-f.ended:
		default:
			_ = f.cmd.Process.Kill() // nobody wants its books any more
			<-f.ended
		}
	}
}

// Follow is what the program of a follower does: it takes its part from in and tells of it on out.
func Follow(ctx context.Context, in io.Reader, out io.Writer) error {
	e := json.NewEncoder(out)
	if err := followRun(ctx, json.NewDecoder(in), e.Encode); err != nil {
		return errors.Join(err, e.Encode(heard{Failed: err.Error()}))
	}
	return nil
}

func followRun(ctx context.Context, in *json.Decoder, tell func(any) error) error {
	var a assignment
	if err := in.Decode(&a); err != nil {
		return fmt.Errorf("read the part: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := &run{p: a.Params, report: &Report{Params: a.Params}, users: a.Users, tokens: a.Tokens, addrs: a.Addrs, roots: a.Roots, ops: []*operator{newOperator(system(), a.Operator, a.Key)}}
	r.p.Progress = func(Progress) {}
	defer r.bridges.all.Wait()
	defer r.hangUp()
	first := len(r.tokens)
	if r.p.Scenario == Connections {
		first = 0 // they come when they are told to
	}
	all, err := r.connect(ctx, 0, first)
	if err != nil {
		return err
	}
	if err := r.assemble(all); err != nil {
		return err
	}
	if err := tell(heard{Ready: true}); err != nil {
		return err
	}
	g := r.gen
	g.atMark = func(p phase) { r.marks[p-measuring].ownCPU = ownCPU() }
	g.comers = r.p.Scenario == Connections
	start, level := make(chan struct{}), make(chan int) // closed at the order; steps of Connections
	go func() {                                         // ends with the program
		for {
			var o order
			if err := in.Decode(&o); err != nil {
				cancel(errors.New("the run has ended"))
				return
			}
			switch {
			case o.Phase != nil:
				g.enter(*o.Phase)
			case o.Quota > 0:
				g.quota.Store(o.Quota)
			case o.Level > 0:
				select {
				case level <- o.Level:
				case <-ctx.Done():
				}
			case o.Start:
				close(start)
			}
		}
	}()
	select {
	case <-start:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	ended := make(chan error, 1)
	go func() { ended <- g.run(ctx) }() // waited for below
	for {
		select {
		case p := <-g.progress:
			err = tell(heard{Progress: &p})
		case <-g.spent:
			err = tell(heard{Spent: true})
		case n := <-level:
			from, to := r.level(n-1), r.level(n)
			var all []greeted
			if all, err = r.connect(ctx, from, to); err == nil {
				err = errors.Join(r.hand(ctx, all, from), tell(heard{Came: timesOf(all).Export()}))
			}
		case err = <-ended:
			if err != nil {
				return err
			}
			b, err := r.close(ctx)
			if err != nil {
				return err
			}
			return tell(heard{Books: b})
		}
		if err != nil {
			cancel(err)
			return errors.Join(err, <-ended)
		}
	}
}

// close reads back and closes the books of a follower.
func (r *run) close(ctx context.Context) (*books, error) {
	g := r.gen
	unknown := g.audit.unknown()
	read, mine, err := r.readBack(ctx)
	if err != nil {
		return nil, err
	}
	findings := g.audit.close()
	cpu, user := r.marks[1].ownCPU.all()-r.marks[0].ownCPU.all(), r.marks[1].ownCPU.user-r.marks[0].ownCPU.user
	return &books{
		Begin: g.begin.list(), End: g.end.list(), All: g.tally.list(), Ack: g.ackTime.snapshot(), EndToEnd: g.endToEnd.snapshot(),
		Unknown: unknown, Moved: g.moved, Lagged: g.lagged, Read: read, Mine: mine, Errors: maps.Clone(g.errors), Lost: g.lost, Findings: findings[:],
		Witnesses: g.audit.Witnesses, Seconds: g.seconds, CPU: cpu, User: user,
		Begun: [2]mean{g.ackTime.begin, g.endToEnd.begin}, Ended: [2]mean{g.ackTime.end, g.endToEnd.end},
	}, nil
}

// elsewhere is what followers found that has no place in the generator's books.
type elsewhere struct{ unknown, read, mine uint64 }
