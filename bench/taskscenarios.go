package bench

import (
	"context"
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

// comeAgainAndAgain runs the steps of Login.
func (r *run) comeAgainAndAgain(ctx context.Context) error {
	err := r.enter(ctx, measuring)
	for n := 0; n < r.p.Times && err == nil; n++ {
		all, task, failed := r.come(ctx, 0, len(r.users))
		task.Size = n + 1
		if err = r.add(task, failed); err == nil {
			err = r.hangUpAll(ctx, all)
		}
	}
	return err
}

// hangUpAll ends connections, and waits until the servers have nothing to do.
func (r *run) hangUpAll(ctx context.Context, all []greeted) error {
	for i := range all {
		r.gen.net.close(all[i].fd)
	}
	r.gen.coming.Store(0)
	return r.calm(ctx)
}

// pingSample is the most connections that ping to measure how long an answer takes.
const pingSample = 1000

// connectInSteps runs the steps of Connections.
func (r *run) connectInSteps(ctx context.Context) error {
	if err := r.enter(ctx, measuring); err != nil {
		return err
	}
	for n := range r.p.Levels {
		from, to := r.p.Connections*n/r.p.Levels, r.p.Connections*(n+1)/r.p.Levels
		all, task, err := r.come(ctx, from, to)
		if err == nil {
			err = r.hand(ctx, all, from)
		}
		if err != nil {
			return err
		}
		pauses, beats := r.pauses(ctx), r.gen.beats.Load()
		idle, err := r.measure(ctx, taskIdle, func() (int, *hdrhistogram.Histogram, error) {
			return to, nil, r.pause(ctx, r.p.Seconds)
		})
		if err != nil {
			return err
		}
		_, memory := r.serverMemory()
		kernel := kernelMemory()
		if memory == 0 {
			s, err := r.stats(ctx)
			if err != nil {
				return err
			}
			memory = s[0].RssBytes
		}
		task.Size, task.IdleCPU, task.Beats = to, round(idle.CPU/r.p.Seconds, 10_000), r.gen.beats.Load()-beats
		task.Pauses = round(1e3*(r.pauses(ctx)-pauses), 1000)
		task.UserBytes = round(float64(int64(memory-r.memoryBefore))/float64(to), 10)
		task.KernelBytes = round(float64(int64(kernel-r.kernelBefore))/float64(to), 10)
		sample := make([]*conn, 0, pingSample)
		for i := range min(pingSample, to) {
			sample = append(sample, r.gen.conns[i*to/min(pingSample, to)])
		}
		answers, err := r.send(ctx, r.gen.ask(taskAnswer, sample, 1, 1, func(*conn) *petrelv1.ClientFrame {
			return &petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_Ping{Ping: &petrelv1.Ping{}}}
		}, isPing))
		task.Answer, task.AnswerP99 = answers.Latency.P50, answers.Latency.P99
		if err = r.add(task, err); err != nil {
			return err
		}
		r.say("%s", strings.Join(tabulate([]Task{task}), "\n"))
	}
	return nil
}

// pauses returns the time for which garbage collection has stopped all servers, in seconds.
func (r *run) pauses(ctx context.Context) (sum float64) {
	for _, op := range r.ops {
		if figures, err := op.metrics(ctx); err == nil { // a server without metrics counts as 0
			sum += figures.sum("go_gc_duration_seconds")
		}
	}
	return sum
}

// kernelMemory returns the memory of this machine's kernel for objects like sockets, and for the queues of TCP, in
// bytes.
func kernelMemory() uint64 {
	all := kilobytes(procLine("/proc/meminfo", "Slab"))
	b, _ := os.ReadFile("/proc/net/sockstat") // without that file, queues do not count
	for line := range strings.Lines(string(b)) {
		if words := strings.Fields(line); len(words) > 2 && words[0] == "TCP:" {
			pages, _ := strconv.ParseUint(words[len(words)-1], 10, 64) // 0 if it is no number
			all += pages * uint64(os.Getpagesize())
		}
	}
	return all
}

// fill waits until the senders have sent everything and the servers are idle. Then it begins the measured window,
// connects the receivers, and returns their connections.
func (r *run) fill(ctx context.Context) ([]*conn, error) {
	r.say("sending %s messages", count(float64(r.p.planned())))
	_, err := until(ctx, r, r.gen.spent)
	if err == nil {
		err = r.calm(ctx)
	}
	if err == nil {
		err = r.enter(ctx, measuring)
	}
	if err != nil {
		return nil, err
	}
	return r.receiversCome(ctx, r.p.Senders)
}

// syncs runs the steps of Sync: each receiver has a conversation with each sender in its list.
func (r *run) syncs(ctx context.Context) error {
	conns, err := r.fill(ctx)
	if err != nil {
		return err
	}
	g, old := r.gen, make([][]byte, len(r.users))
	for _, kind := range []struct {
		name  string
		token func(c *conn) []byte
	}{
		{taskSyncAll, func(*conn) []byte { return nil }},
		{taskSyncNone, func(c *conn) []byte { old[c.index] = c.token; return c.token }},
		{taskSyncSome, func(c *conn) []byte { return old[c.index] }},
	} {
		// each sender writes to a tenth of the receivers, so that a tenth of each list is new
		if kind.name == taskSyncSome {
			g.quota.Add(uint64(max(1, r.p.Receivers/10)))
			if _, err := until(ctx, r, g.spent); err != nil {
				return err
			}
		}
		request := func(c *conn) *petrelv1.ClientFrame { return syncRequest(kind.token(c)) }
		if err := r.add(r.send(ctx, g.ask(kind.name, conns, r.p.AtOnce, r.p.Times, request, isSync))); err != nil {
			return err
		}
	}
	return r.add(r.send(ctx, r.reading(conns, false)))
}

// histories runs the steps of History.
func (r *run) histories(ctx context.Context) error {
	conns, err := r.fill(ctx)
	if err != nil {
		return err
	}
	return r.add(r.send(ctx, r.reading(conns, false)))
}

const (
	// returnLimit bounds the time until all connections are back after a storm.
	returnLimit = 2 * time.Minute
	// After a failed try to come back, a connection waits for a random time up to firstPatience. Each further try
	// doubles that bound, up to lastPatience.
	firstPatience = 200 * time.Millisecond
	lastPatience  = 3200 * time.Millisecond
)

// storms runs the steps of Storm.
func (r *run) storms(ctx context.Context) error {
	err := r.pause(ctx, r.p.WarmUp)
	if err == nil {
		err = r.enter(ctx, measuring)
	}
	for n := 1; n <= r.p.Times && err == nil; n++ {
		if err = r.pause(ctx, r.p.Seconds); err == nil {
			err = r.add(r.storm.once(ctx, n))
		}
	}
	if err != nil {
		return err
	}
	return r.pause(ctx, r.p.Seconds)
}

// bringBack starts a goroutine that brings ended connections back until stop is called. stop breaks off the tries under
// way and waits for their goroutines.
func (r *run) bringBack(ctx context.Context) (s *storm, stop func()) {
	s = &storm{run: r, all: make(chan struct{}, 1), times: newTimes(3)}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { s.serve(ctx, &wg) })
	return s, func() { cancel(); wg.Wait() }
}

// storm brings ended connections back.
type storm struct {
	*run
	back  atomic.Int64  // connections that came back since the start of the run, or of the last storm
	again atomic.Uint64 // tries that failed since then
	all   chan struct{} // capacity 1; gets a value when back reaches the number of users

	mu    sync.Mutex // tier 0; guards times
	times *hdrhistogram.Histogram
}

// once makes one storm, the nth, and returns it as a task: it kills the server or ends all connections, and waits
// until all are back.
func (s *storm) once(ctx context.Context, n int) (Task, error) {
	task, err := s.measure(ctx, taskReturn, func() (int, *hdrhistogram.Histogram, error) {
		s.mu.Lock()
		s.times = newTimes(3)
		s.mu.Unlock()
		s.back.Store(0)
		s.again.Store(0)
		s.gen.storming.Store(true)
		if s.p.Kill || s.p.KillS > 0 {
			if err := s.killNode(ctx, 0); err != nil {
				return 0, nil, err
			}
		} else {
			s.gen.dropAll.Store(true)
		}
		within, cancel := context.WithTimeoutCause(ctx, returnLimit,
			fmt.Errorf("not all connections were back after %s", returnLimit))
		defer cancel()
		if _, err := until(within, s.run, s.all); err != nil {
			return 0, nil, fmt.Errorf("storm %d: %d of %d connections are back: %w", n, s.back.Load(), len(s.users),
				err)
		}
		s.gen.storming.Store(false)
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.users), s.times, nil
	})
	task.Size, task.Again = n, s.again.Load()
	if err == nil {
		s.say("storm %d: all back after %.2f s", n, task.Seconds)
	}
	return task, err
}

// serve runs comeBack for each connection that ends, for all at the same time.
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

// comeBack dials until it has a connection, hands it to the generator, and records the time since the old one ended.
func (s *storm) comeBack(ctx context.Context, g lostConn) {
	way := s.dialer()
	for patience := firstPatience; ; patience = min(2*patience, lastPatience) {
		c, err := way.dial(ctx, s.addrs[s.p.node(g.index)], s.tokens[g.index], fmt.Sprintf("bench-%d", g.index),
			g.token)
		if err == nil {
			select {
			case s.gen.back <- newConn{g.index, c}:
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
	observe(s.times, int64(time.Since(g.at)))
	s.mu.Unlock()
	if s.back.Add(1) == int64(len(s.users)) {
		s.all <- struct{}{} // the one before was taken
	}
}
