package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	// afterwards is how long after the last message the servers must be idle: a criterion of WildfireChat.
	afterwards = 5 * time.Second
	idleCPU    = 0.1 // cores; servers and database together count as idle if they use less than this for each server

	calmFor   = 3 * time.Second
	calmLimit = time.Minute
)

// drive runs the generator and, at the same time, the steps of the scenario.
func (r *run) drive(ctx context.Context) error {
	g := r.gen
	g.atMark = func(p phase) { r.takeCPU(&r.marks[p-measuring]) }
	g.quota.Store(uint64(r.p.quota())) // before it runs: without a quota it would send without bound
	if r.p.counted() && !r.p.inTasks() && r.p.Scenario != Cluster {
		if err := r.enter(ctx, measuring); err != nil { // before it runs: the first messages count too
			return err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := func() {}
	if r.p.comeBack() {
		r.storm, stop = r.bringBack(ctx)
	}
	r.ended = make(chan error, 1)
	go func() { r.ended <- g.run(ctx) }() // waited for below
	err := r.steps(ctx)
	stop()
	if err == nil && r.marks[1].stats == nil {
		err = r.enter(ctx, draining)
	}
	if g.enter(draining); err != nil {
		cancel()
	}
	return errors.Join(err, <-r.ended)
}

// enter sets the phase p that the generator adopts next, and reads the statistics of the servers for the mark of p. At
// the end of the measured window it first reads their memory.
func (r *run) enter(ctx context.Context, p phase) (err error) {
	if p > measuring {
		r.memory, r.allocated = r.serverMemory() // the connections are still there
	}
	r.gen.enter(p)
	r.marks[min(p, measured)-measuring].stats, err = r.stats(ctx)
	return err
}

// until waits for a value while the generator runs. It kills the server when that is due, and passes on the progress.
// It returns an error if the generator ends, the server ends by itself, or ctx ends.
func until[T any](ctx context.Context, r *run, what <-chan T) (v T, err error) {
	for {
		select {
		case v = <-what:
			return v, nil
		case err := <-r.ended:
			r.ended <- nil // for drive
			first := strings.Join(r.gen.lost[:min(1, len(r.gen.lost))], "")
			return v, errors.Join(err, fmt.Errorf("every connection has ended, the first: %s", first))
		case <-r.killer.due:
			if err := r.kill(ctx); err != nil {
				return v, err
			}
		case <-r.killer.ended:
			c := r.nodes[0]
			return v, fmt.Errorf("the server has ended by itself: %w\n%s", c.err, c.log.String())
		case note := <-r.gen.progress:
			r.tell(note)
		case <-ctx.Done():
			return v, context.Cause(ctx)
		}
	}
}

// pause lets the generator run for some seconds.
func (r *run) pause(ctx context.Context, s float64) error {
	_, err := until(ctx, r, time.After(seconds(s)))
	return err
}

// sendMessages runs the steps of the scenarios that only send. A counted run sends its quota, any other one sends
// for a time. In the pattern mesh the receivers then read their conversations: for receivers who were offline,
// messages count as delivered when they are read; for the others the run only compares them with the audit.
func (r *run) sendMessages(ctx context.Context) error {
	if !r.p.counted() {
		err := r.pause(ctx, r.p.WarmUp)
		if err == nil {
			err = r.enter(ctx, measuring)
		}
		if err == nil {
			r.nextKill(time.Now())
			err = r.pause(ctx, r.p.Seconds)
		}
		for err == nil && r.killer.due != nil && len(r.killed) == 0 && r.p.KillS < r.p.Seconds {
			err = r.pause(ctx, shortestSilence.Seconds()) // a kill that is due may be late
		}
		r.killer = killer{}
		return err
	}
	if r.p.Scenario == Cluster { // sends the quota once to warm up
		err := r.sendQuota(ctx)
		if err == nil {
			err = r.enter(ctx, measuring)
		}
		if err != nil {
			return err
		}
		r.gen.quota.Add(uint64(r.p.quota()))
	}
	r.nextKill(time.Now())
	if err := r.sendQuota(ctx); err != nil {
		return err
	}
	if err := r.enter(ctx, measured); err != nil || r.p.traffic() != mesh {
		return err
	}
	conns := r.gen.conns[r.p.Senders:]
	var err error
	if r.p.offline() {
		conns = conns[r.p.watchers():]
		_, err = r.receiversCome(ctx, r.p.Senders+r.p.watchers())
	}
	if err != nil {
		return err
	}
	task, err := r.send(ctx, r.reading(conns, !r.p.offline()))
	r.say("%d receivers have read all their conversations in %.1f s", len(conns), task.Seconds)
	return err
}

// sendQuota waits until all senders have used their quota, and then until the servers are idle: the CPU time of
// the run includes their work after the last message.
func (r *run) sendQuota(ctx context.Context) (err error) {
	began := time.Now()
	r.sent, err = until(ctx, r, r.gen.spent)
	r.killer = killer{}
	if err != nil {
		return err
	}
	r.say("sent in %.1f s; waiting until the servers have nothing to do", time.Since(began).Seconds())
	return r.calm(ctx)
}

// calm waits until the servers and the database are idle, and returns an error if they are not after calmLimit. In a
// counted run with servers of its own, except in the scenario Cluster, it first waits for afterwards and measures
// stillBusy. It does not read the CPU time of a running server, and takes it as idle.
func (r *run) calm(ctx context.Context) error {
	used := func() float64 {
		var m mark
		r.takeCPU(&m)
		sum := m.pgCPU
		for _, c := range m.serverCPU {
			sum += c.all()
		}
		return sum
	}
	usedIn := func(d time.Duration) (cores float64, err error) {
		before := used()
		err = r.pause(ctx, d.Seconds())
		return (used() - before) / d.Seconds(), err
	}
	if r.own() && r.p.pause == 0 && r.p.Scenario != Cluster && !r.p.inTasks() {
		err := r.pause(ctx, afterwards.Seconds())
		if err == nil {
			r.stillBusy, err = usedIn(time.Second)
		}
		if err != nil {
			return err
		}
	}
	pause := r.p.pause
	if pause == 0 {
		pause = calmFor
	}
	for since := time.Now(); time.Since(since) < calmLimit; {
		cores, err := usedIn(pause)
		if err != nil || cores < idleCPU*float64(max(1, len(r.nodes))) {
			return err
		}
	}
	return fmt.Errorf("the servers still work %s after the last message", calmLimit)
}

// action performs n pieces of work. times has the duration of each; nil: these were not measured.
type action = func() (n int, times *hdrhistogram.Histogram, err error)

// measure runs an action, and returns it as a task with the CPU time that the servers used meanwhile.
func (r *run) measure(ctx context.Context, name string, do action) (t Task, err error) {
	var from, to mark
	if err = r.note(ctx, &from); err != nil {
		return t, err
	}
	began := time.Now()
	n, times, err := do()
	took := time.Since(began).Seconds()
	if err == nil {
		err = r.note(ctx, &to)
	}
	if err != nil {
		return t, err
	}
	return newTask(name, uint64(n), took, r.cpuBetween(&from, &to), times), nil
}

// note reads the CPU times into m, and the statistics of a running server.
func (r *run) note(ctx context.Context, m *mark) (err error) {
	r.takeCPU(m)
	if !r.own() {
		m.stats, err = r.stats(ctx)
	}
	return err
}

// add puts a task into the report, unless err is set. It returns err.
func (r *run) add(t Task, err error) error {
	if err == nil {
		r.report.Tasks = append(r.report.Tasks, t)
	}
	return err
}

// come makes the connections of users[from:to] while the generator runs, and measures that as a task.
func (r *run) come(ctx context.Context, from, to int) (all []greeted, t Task, err error) {
	t, err = r.measure(ctx, taskConnect, func() (int, *hdrhistogram.Histogram, error) {
		done := make(chan error, 1)
		go func() { // ends with ctx
			var err error
			all, err = r.dial(ctx, from, to, func(n int) { r.gen.coming.Store(int64(n)) })
			done <- err
		}()
		dialed, err := until(ctx, r, done)
		if err = errors.Join(dialed, err); err != nil {
			return 0, nil, err
		}
		times := newTimes(3)
		for i := range all {
			observe(times, int64(all[i].took))
		}
		return len(all), times, nil
	})
	return all, t, err
}

// hand passes connections to the generator: all[i] as that of user number from+i.
func (r *run) hand(ctx context.Context, all []greeted, from int) error {
	for i := range all {
		r.gen.coming.Store(int64(len(all) - i - 1))
		select {
		case r.gen.back <- newConn{from + i, all[i]}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// receiversCome connects users[first:], who were offline while the others sent, and passes their connections to the
// generator. A scenario with tasks reports the connecting as one.
func (r *run) receiversCome(ctx context.Context, first int) ([]*conn, error) {
	all, task, err := r.come(ctx, first, len(r.users))
	if err == nil && r.p.inTasks() {
		err = r.add(task, nil)
	}
	if err == nil {
		err = r.hand(ctx, all, first)
	}
	return r.gen.conns[first:], err
}

// send gives the generator a request series, waits for its end, and returns it as a task.
func (r *run) send(ctx context.Context, e *requestSeries) (Task, error) {
	return r.measure(ctx, e.name, func() (int, *hdrhistogram.Histogram, error) {
		r.gen.orders <- e // the one before is done
		_, err := until(ctx, r, r.gen.done)
		return int(e.count), e.times, err
	})
}

// reading returns a request series in which connections read all conversations of their lists, page by page. With
// compares they have everything already, and the pages are only compared with the audit.
func (r *run) reading(conns []*conn, compares bool) *requestSeries {
	g := r.gen
	e := g.ask(taskHistory, conns, cmp.Or(r.p.AtOnce, dialers), 1, nil, isHistory)
	e.compares = compares
	e.next = func(c *conn) bool {
		for _, v := range g.audit.convs {
			if st := v.stream(c.index); st == nil || v.id == "" {
				continue
			} else if st.Gone = false; compares {
				c.unread = append(c.unread, v.id)
			}
		}
		g.readPromptly(c)
		g.readNext(c) // historyPage reads the further pages
		return c.askID != 0
	}
	return e
}

// steps runs the steps of the scenario beside the generator.
func (r *run) steps(ctx context.Context) error {
	do := map[string]func(context.Context) error{
		Connections: r.connectInSteps, Login: r.comeAgainAndAgain, Presence: r.watchOthers, Storm: r.storms,
		Mixed: r.mixed, Soak: r.mixed, Sync: r.syncs, History: r.histories,
	}[r.p.Scenario]
	if do == nil {
		do = r.sendMessages
	}
	return do(ctx)
}
