package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// The scenario Cluster: senders write so many messages to receivers who are not
// there, once to warm up and once more for the figures. Then the receivers come,
// and read every message of both runs.

const (
	calmFor   = 3 * time.Second // also the least time before the counted run
	calmCPU   = 0.1             // CPU-seconds per second of all servers and the database that count as nothing to do
	calmLimit = time.Minute

	historiesAtOnce = 4 // pages that a receiver waits for at a time
)

// driveRounds runs the load to its end, and brings the receivers. The CPU of
// the counted run is that until the servers have nothing left to do.
func (r *run) driveRounds(ctx context.Context) error {
	g := r.gen
	g.atMark = func(p phase) { r.takeCPU(&r.marks[p-measuring]) }
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g.quota.Store(uint64(r.p.Rounds * r.p.Receivers)) // before it runs: without a quota it would send without bound
	ended := make(chan error, 1)
	go func() { ended <- g.run(ctx) }() // waited for below
	var err error
	for p := range draining {
		if err = r.round(ctx, p, ended); err != nil {
			break
		}
	}
	if err == nil {
		r.memory = r.serverMemory()
		if err = r.enter(ctx, draining); err == nil {
			err = <-ended
		}
	}
	if err != nil {
		cancel()
		return err
	}
	return r.readersCome(ctx)
}

// enter moves the generator to the measured window, or behind it.
func (r *run) enter(ctx context.Context, p phase) (err error) {
	r.gen.enter(p)
	r.marks[p-measuring].stats, err = r.stats(ctx)
	return err
}

// round is one of the two runs.
func (r *run) round(ctx context.Context, p phase, ended <-chan error) error {
	g := r.gen
	if p == measuring {
		if err := r.enter(ctx, p); err != nil {
			return err
		}
	}
	began := time.Now()
	g.quota.Store(uint64(p+1) * uint64(r.p.Rounds*r.p.Receivers))
	for sent := false; !sent; {
		select {
		case err := <-ended:
			return errors.Join(err, errors.New("the generator has ended before all was sent"))
		case note := <-g.progress:
			r.tell(note)
		case at := <-g.spent:
			r.sent, sent = at, true
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	r.say("sent in %.1f s; waiting until the servers have nothing to do", time.Since(began).Seconds())
	return r.calm(ctx)
}

// calm waits until nobody has anything to do.
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
	pause := r.p.pause
	if pause == 0 {
		pause = calmFor
	}
	before := used()
	for since := time.Now(); time.Since(since) < calmLimit; {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		now := used()
		if now-before < calmCPU*pause.Seconds()*float64(max(1, len(r.nodes))) {
			return nil
		}
		before = now
	}
	return fmt.Errorf("the servers still work %s after the last message", calmLimit)
}

// readersCome connects the receivers, who sync and read what they have missed.
func (r *run) readersCome(ctx context.Context) error {
	sent := r.gen
	all, err := r.connect(ctx, r.p.Senders, len(r.tokens))
	if err != nil {
		return err
	}
	g := newGenerator(sent.enc, sent.corpus, sent.audit)
	g.quiet, g.lost, g.errors = sent.quiet, sent.lost, sent.errors
	for i := range sent.conns {
		g.conns = append(g.conns, &conn{index: i, fd: -1})
	}
	for _, v := range g.audit.convs {
		v.streams[1].Gone = false
	}
	g.enter(draining)
	for i := range all {
		c := &conn{index: r.p.Senders + i, fd: all[i].fd, in: all[i].early, token: all[i].token}
		g.conns = append(g.conns, c)
		for _, state := range all[i].convs {
			if v := g.audit.named([]byte(state.Conv)); v != nil && v.stream(c.index) != nil {
				v.Head = max(v.Head, state.Head)
				c.unread = append(c.unread, state.Conv)
			}
		}
		for range historiesAtOnce {
			g.readNext(c)
		}
	}
	r.say("%d receivers read what they have missed", len(all))
	began := time.Now()
	if err := g.run(ctx); err != nil {
		return err
	}
	r.say("they have read %s messages in %.1f s", count(float64(g.tally.delivered)), time.Since(began).Seconds())
	sent.tally.delivered, sent.lost = g.tally.delivered, g.lost
	sent.lagged += g.lagged
	return nil
}

// Table is the runs of a cluster side by side, one for each number of nodes.
type Table struct {
	Runs []*Report `json:"runs"`
}

// WriteText writes the table for people. The share is that of the first run's
// messages per CPU-second of all Petrel nodes.
func (t *Table) WriteText(w io.Writer) error {
	var b strings.Builder
	b.WriteString("nodes  messages       s  per second  per CPU-s of the nodes   share  with PostgreSQL   share  per commit  audit\n")
	for _, r := range t.Runs {
		share := func(of func(*Report) float64) float64 {
			if first := of(t.Runs[0]); first > 0 {
				return 100 * of(r) / first
			}
			return 0
		}
		fmt.Fprintf(&b, "%5d %9s %7.1f %11s %23s %6.0f%% %16s %6.0f%% %11.1f  %s, %s read\n", r.Params.Nodes, count(float64(r.Accepted)), r.Seconds,
			count(r.AcceptedPerS), count(r.Server.AcceptedPerCPU), share(func(r *Report) float64 { return r.Server.AcceptedPerCPU }),
			count(r.Total.AcceptedPerCPU), share(func(r *Report) float64 { return r.Total.AcceptedPerCPU }), r.Server.MessagesPerCommit,
			r.Audit.Findings, count(float64(r.Audit.Deliveries)))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
