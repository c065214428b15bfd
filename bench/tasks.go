package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// The scenarios that go task by task: Connections, Login, Storm, Sync, History, Mixed and Soak.

// driveTasks runs the generator, and the steps beside it.
func (r *run) driveTasks(ctx context.Context) error {
	g := r.gen
	g.comers = true
	g.atMark = func(p phase) { r.takeCPU(&r.marks[p-measuring]) }
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.ended = make(chan error, 1)
	if r.p.offline() {
		g.quota.Store(uint64(r.p.quota())) // before it runs: without a quota it would send without bound
	}
	go func() { r.ended <- g.run(ctx) }() // waited for below
	err := r.tasks(ctx)
	if err == nil {
		r.memory = r.serverMemory()
		if err = r.enter(ctx, draining); err == nil {
			err = <-r.ended
		}
	}
	if err != nil {
		cancel()
		return errors.Join(err, <-r.ended)
	}
	return nil
}

func (r *run) tasks(ctx context.Context) error {
	if r.p.offline() {
		r.say("sending %s messages", count(float64(r.p.planned())))
		if _, err := until(ctx, r, r.gen.spent); err != nil {
			return err
		}
		if err := r.calm(ctx); err != nil {
			return err
		}
	}
	if r.p.offline() || r.p.traffic() == idle {
		if err := r.enter(ctx, measuring); err != nil {
			return err
		}
	}
	switch r.p.Scenario {
	case Connections:
		return r.connectInSteps(ctx)
	case Login:
		return r.comeAgainAndAgain(ctx)
	case Storm:
		return r.storms(ctx)
	case Mixed, Soak:
		return r.mixed(ctx)
	case Sync:
		return r.syncs(ctx)
	}
	return r.histories(ctx)
}

// until waits for something while the generator runs, and passes on what that tells.
func until[T any](ctx context.Context, r *run, what <-chan T) (v T, err error) {
	for {
		select {
		case v = <-what:
			return v, nil
		case err := <-r.ended:
			r.ended <- nil // for driveTasks
			return v, errors.Join(err, errors.New("the generator has ended before the run"))
		case note := <-r.gen.progress:
			r.tell(note)
		case <-ctx.Done():
			return v, context.Cause(ctx)
		}
	}
}

// comeAgainAndAgain is the scenario Login.
func (r *run) comeAgainAndAgain(ctx context.Context) error {
	for n := range r.p.Times {
		all, task, err := r.come(ctx, 0, len(r.users))
		if err != nil {
			return err
		}
		task.Size = n + 1
		r.report.Tasks = append(r.report.Tasks, task)
		for i := range all {
			r.gen.net.close(all[i].fd)
		}
		r.gen.coming.Store(0)
		if err := r.calm(ctx); err != nil {
			return err
		}
	}
	return nil
}

// come makes the connections of users from..to-1, and measures that.
func (r *run) come(ctx context.Context, from, to int) ([]greeted, Task, error) {
	var before, after mark
	if err := r.note(ctx, &before); err != nil {
		return nil, Task{}, err
	}
	began := time.Now()
	all, err := r.connectMeanwhile(ctx, from, to)
	if err != nil {
		return nil, Task{}, err
	}
	took := time.Since(began)
	if err := r.note(ctx, &after); err != nil {
		return nil, Task{}, err
	}
	return all, r.newTask(taskConnect, uint64(len(all)), took.Seconds(), &before, &after, timesOf(all)), nil
}

// connectMeanwhile makes the connections of users from..to-1 while the generator runs, and
// passes on what that tells.
func (r *run) connectMeanwhile(ctx context.Context, from, to int) ([]greeted, error) {
	type made struct {
		all []greeted
		err error
	}
	done := make(chan made, 1)
	go func() { // ends with ctx
		all, err := r.dial(ctx, from, to, func(n int) { r.gen.coming.Store(int64(n)) })
		done <- made{all, err}
	}()
	m, err := until(ctx, r, done)
	if err == nil {
		err = m.err
	}
	return m.all, err
}

// timesOf are how long connections took to come.
func timesOf(all []greeted) *hdrhistogram.Histogram {
	times := hdrhistogram.New(shortest, longest, 3)
	for i := range all {
		_ = times.RecordValue(min(int64(all[i].took), longest)) // within the bounds
	}
	return times
}

// note takes a mark.
func (r *run) note(ctx context.Context, m *mark) (err error) {
	r.takeCPU(m)
	if !r.own() {
		m.stats, err = r.stats(ctx)
	}
	return err
}

// hand gives connections of users from from on to the generator.
func (r *run) hand(ctx context.Context, all []greeted, from int) error {
	for i := range all {
		r.gen.coming.Store(int64(len(all) - i - 1))
		select {
		case r.gen.back <- comer{from + i, all[i]}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// connectInSteps is the scenario Connections.
func (r *run) connectInSteps(ctx context.Context) error {
	for n := range r.p.Levels {
		from, to := r.p.Connections*n/r.p.Levels, r.p.Connections*(n+1)/r.p.Levels
		all, task, err := r.come(ctx, from, to)
		if err == nil {
			err = r.hand(ctx, all, from)
		}
		if err != nil {
			return err
		}
		task.Size = to
		var before, after mark
		pauses, beats := r.pauses(ctx), r.gen.beats.Load()
		if err := r.note(ctx, &before); err != nil {
			return err
		}
		if _, err := until(ctx, r, time.After(seconds(r.p.Seconds))); err != nil {
			return err
		}
		if err := r.note(ctx, &after); err != nil {
			return err
		}
		memory, kernel := r.serverMemory(), kernelMemory()
		if memory == 0 {
			s, err := r.stats(ctx)
			if err != nil {
				return err
			}
			memory = s[0].RssBytes
		}
		task.IdleCPU = round(r.cpuBetween(&before, &after)/r.p.Seconds, 10_000)
		task.Beats = r.gen.beats.Load() - beats
		task.Pauses = round(1e3*(r.pauses(ctx)-pauses), 1000)
		task.UserBytes = round(float64(int64(memory-r.memoryBefore))/float64(to), 10)
		task.KernelBytes = round(float64(int64(kernel-r.kernelBefore))/float64(to), 10)
		sample := make([]*conn, 0, pingSample)
		for i := range min(pingSample, to) {
			sample = append(sample, r.gen.conns[i*to/min(pingSample, to)])
		}
		e, _, err := r.send(ctx, r.gen.ask(taskAnswer, sample, 1, 1, func(*conn) *petrelv1.ClientFrame {
			return &petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_Ping{Ping: &petrelv1.Ping{}}}
		}, isPing))
		if err != nil {
			return err
		}
		p := percentiles(e.times)
		task.Answer, task.AnswerP99 = p.P50, p.P99
		r.report.Tasks = append(r.report.Tasks, task)
		r.say("%s", strings.Join(tabulate(r.report.Tasks[len(r.report.Tasks)-1:]), "\n"))
	}
	return nil
}

// pingSample is how many connections ping to know how long an answer takes.
const pingSample = 1000

// pauses is for how long garbage collection has stopped all servers, in seconds.
func (r *run) pauses(ctx context.Context) (sum float64) {
	for _, op := range r.ops {
		if figures, err := op.metrics(ctx); err == nil { // what is not known is 0
			sum += figures.sum("go_gc_duration_seconds")
		}
	}
	return sum
}

// kernelMemory is what the kernel has for objects like sockets, and for what is in their queues, in
// bytes.
func kernelMemory() uint64 {
	all := kilobytes(procLine("/proc/meminfo", "Slab"))
	b, _ := os.ReadFile("/proc/net/sockstat") // without one, queues do not count
	for line := range strings.Lines(string(b)) {
		if words := strings.Fields(line); len(words) > 2 && words[0] == "TCP:" {
			pages, _ := strconv.ParseUint(words[len(words)-1], 10, 64) // 0 if it is none
			all += pages * uint64(os.Getpagesize())
		}
	}
	return all
}

// send has the generator do an errand, and measures it.
func (r *run) send(ctx context.Context, e *errand) (*errand, Task, error) {
	var before, after mark
	if err := r.note(ctx, &before); err != nil {
		return nil, Task{}, err
	}
	began := time.Now()
	r.gen.orders <- e // the one before is done
	if _, err := until(ctx, r, r.gen.done); err != nil {
		return nil, Task{}, err
	}
	took := time.Since(began)
	if err := r.note(ctx, &after); err != nil {
		return nil, Task{}, err
	}
	return e, r.newTask(e.name, e.count, took.Seconds(), &before, &after, e.times), nil
}

// receiversCome connects the receivers, whom the senders have written.
func (r *run) receiversCome(ctx context.Context) ([]*conn, error) {
	all, task, err := r.come(ctx, r.p.Senders, len(r.users))
	if err != nil {
		return nil, err
	}
	r.report.Tasks = append(r.report.Tasks, task)
	return r.gen.conns[r.p.Senders:], r.hand(ctx, all, r.p.Senders)
}

// syncs is the scenario Sync: the receivers have a conversation with each sender in their lists.
func (r *run) syncs(ctx context.Context) error {
	g := r.gen
	conns, err := r.receiversCome(ctx)
	if err != nil {
		return err
	}
	sync := func(token func(c *conn) []byte) func(c *conn) *petrelv1.ClientFrame {
		return func(c *conn) *petrelv1.ClientFrame {
			return &petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_Sync{Sync: &petrelv1.Sync{Token: token(c)}}}
		}
	}
	old := make([][]byte, len(g.conns))
	kinds := []*errand{
		g.ask(taskSyncAll, conns, r.p.AtOnce, r.p.Times, sync(func(*conn) []byte { return nil }), isSync),
		g.ask(taskSyncNone, conns, r.p.AtOnce, r.p.Times, sync(func(c *conn) []byte { old[c.index] = c.token; return c.token }), isSync),
		g.ask(taskSyncSome, conns, r.p.AtOnce, r.p.Times, sync(func(c *conn) []byte { return old[c.index] }), isSync),
	}
	for _, e := range kinds {
		if e.name == taskSyncSome {
			g.quota.Add(uint64(r.news())) // each of so many receivers gets one from each sender
			if _, err := until(ctx, r, g.spent); err != nil {
				return err
			}
		}
		_, task, err := r.send(ctx, e)
		if err != nil {
			return err
		}
		r.report.Tasks = append(r.report.Tasks, task)
	}
	return r.readAll(ctx, conns)
}

// news is how many messages each sender sends between two syncs: one to a tenth of the receivers, so
// that a tenth of each list is new.
func (r *run) news() int { return max(1, r.p.Receivers/10) }

// readAll has connections read all that they have missed.
func (r *run) readAll(ctx context.Context, conns []*conn) error {
	_, task, err := r.send(ctx, r.reading(conns))
	if err == nil {
		r.report.Tasks = append(r.report.Tasks, task)
	}
	return err
}

// reading is the errand of connections that read all conversations of their lists, page by page.
func (r *run) reading(conns []*conn) *errand {
	g := r.gen
	e := g.ask(taskHistory, conns, cmp.Or(r.p.AtOnce, dialers), 1, nil, isHistory)
	e.next = func(c *conn) bool {
		for _, v := range g.audit.convs {
			if st := v.stream(c.index); st != nil && v.id != "" {
				st.Gone = false
			}
		}
		g.readNext(c) // and so on, by itself
		return c.askID != 0
	}
	return e
}

// histories is the scenario History.
func (r *run) histories(ctx context.Context) error {
	conns, err := r.receiversCome(ctx)
	if err != nil {
		return err
	}
	return r.readAll(ctx, conns)
}

const (
	// returnLimit is how long it may take until all are back after a storm.
	returnLimit = 2 * time.Minute
	// A try to come back that fails is made again after a random time up to firstPatience, and twice
	// as much after each further one, up to lastPatience.
	firstPatience = 200 * time.Millisecond
	lastPatience  = 3200 * time.Millisecond
)

// storms is the scenario Storm.
func (r *run) storms(ctx context.Context) error {
	s, stop := r.bringBack(ctx)
	defer stop()
	if _, err := until(ctx, r, time.After(seconds(r.p.WarmUp))); err != nil {
		return err
	}
	if err := r.enter(ctx, measuring); err != nil {
		return err
	}
	for n := range r.p.Times {
		if _, err := until(ctx, r, time.After(seconds(r.p.Seconds))); err != nil {
			return err
		}
		task, err := s.once(ctx, n+1)
		if err != nil {
			return err
		}
		r.report.Tasks = append(r.report.Tasks, task)
		r.say("storm %d: all back after %.2f s", n+1, task.Seconds)
	}
	_, err := until(ctx, r, time.After(seconds(r.p.Seconds)))
	return err
}

// bringBack has connections that end come back, until stop is called.
func (r *run) bringBack(ctx context.Context) (s *storm, stop func()) {
	s = &storm{run: r, all: make(chan struct{}, 1), times: hdrhistogram.New(shortest, longest, 3)}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { s.serve(ctx, &wg) })
	return s, func() { cancel(); wg.Wait() }
}

// storm brings connections back that have ended.
type storm struct {
	*run
	back  atomic.Int64  // connections, since then
	again atomic.Uint64 // tries that failed, since then
	all   chan struct{} // capacity 1: all are back

	mu    sync.Mutex // tier 0; guards times
	times *hdrhistogram.Histogram
}

// once is one storm.
func (s *storm) once(ctx context.Context, n int) (Task, error) {
	var before, after mark
	if err := s.note(ctx, &before); err != nil {
		return Task{}, err
	}
	s.mu.Lock()
	s.times = hdrhistogram.New(shortest, longest, 3)
	s.mu.Unlock()
	s.back.Store(0)
	s.again.Store(0)
	began := time.Now()
	s.gen.storming.Store(true)
	if s.p.Kill || s.p.KillS > 0 {
		if err := s.killNode(ctx, 0); err != nil {
			return Task{}, err
		}
	} else {
		s.gen.dropAll.Store(true)
	}
	within, cancel := context.WithTimeoutCause(ctx, returnLimit, fmt.Errorf("not all connections were back after %s", returnLimit))
	defer cancel()
	if _, err := until(within, s.run, s.all); err != nil {
		return Task{}, fmt.Errorf("storm %d: %d of %d connections are back: %w", n, s.back.Load(), len(s.users), err)
	}
	s.gen.storming.Store(false)
	took := time.Since(began)
	if err := s.note(ctx, &after); err != nil {
		return Task{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	task := s.newTask(taskReturn, uint64(len(s.users)), took.Seconds(), &before, &after, s.times)
	task.Size, task.Again = n, s.again.Load()
	return task, nil
}

// serve has each connection that has ended come back, all at the same time.
func (s *storm) serve(ctx context.Context, wg *sync.WaitGroup) {
	for {
		select {
		case g := <-s.gen.gone:
			wg.Go(func() { s.comeBack(ctx, g) })
		case <-ctx.Done():
			return
		}
	}
}

// comeBack tries until it has a connection.
func (s *storm) comeBack(ctx context.Context, g goner) {
	way := s.dialer()
	for patience := firstPatience; ; patience = min(2*patience, lastPatience) {
		c, err := way.dial(ctx, s.addrs[s.p.node(g.index)], s.tokens[g.index], fmt.Sprintf("bench-%d", g.index), g.token)
		if err == nil {
			select {
			case s.gen.back <- comer{g.index, c}:
			case <-ctx.Done():
				s.gen.net.close(c.fd)
				return
			}
			break
		}
		s.again.Add(1)
		select {
		case <-time.After(rand.N(patience)):
		case <-ctx.Done():
			return
		}
	}
	s.mu.Lock()
	_ = s.times.RecordValue(min(max(int64(time.Since(g.at)), shortest), longest)) // within the bounds
	s.mu.Unlock()
	if s.back.Add(1) == int64(len(s.users)) {
		s.all <- struct{}{} // the one before was taken
	}
}
