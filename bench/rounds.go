package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A counted run ends when every sender has sent its messages, and all are answered and have
// reached those who are online. The scenario Cluster does so once to warm up and once more
// for the figures. Receivers who are offline come then, and read every message.

const (
	// afterwards is when the servers must have nothing left to do: WildfireChat's criterion.
	afterwards = 5 * time.Second
	idleCPU    = 0.1 // cores of each server and the database that count as nothing to do

	calmFor   = 3 * time.Second
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
	first := measuring
	if r.p.Scenario == Cluster {
		first = warmingUp
	} else if err := r.enter(ctx, measuring); err != nil {
		return err
	}
	quota := uint64(r.p.quota())
	g.quota.Store(quota) // before it runs: without a quota it would send without bound
	r.ended = make(chan error, 1)
	go func() { r.ended <- g.run(ctx) }() // waited for below
	var err error
	for p := first; p < draining && err == nil; p++ {
		if p == measuring && p > first {
			if err = r.enter(ctx, p); err == nil {
				g.quota.Store(2 * quota)
			}
		}
		if err == nil {
			err = r.round(ctx)
		}
	}
	if err == nil {
		r.memory = r.serverMemory()
		if err = r.enter(ctx, draining); err == nil {
			err = <-r.ended
		}
	}
	if err != nil {
		cancel()
		return err
	}
	r.watched = r.gen.conns[:0]
	if r.p.watchers() > 0 {
		r.watched = r.gen.conns[r.p.Senders : r.p.Senders+r.p.watchers()]
	}
	if r.p.traffic() == mesh {
		return r.readersCome(ctx)
	}
	return nil
}

// enter moves the generator to the measured window, or behind it.
func (r *run) enter(ctx context.Context, p phase) (err error) {
	r.gen.enter(p)
	r.marks[p-measuring].stats, err = r.stats(ctx)
	return err
}

// round waits until what the quota allows is sent.
func (r *run) round(ctx context.Context) error {
	g := r.gen
	began := time.Now()
	var k killer
	defer k.end()
	k.begin(ctx, r)
	for sent := false; !sent; {
		select {
		case err := <-r.ended:
			return errors.Join(err, errors.New("the generator has ended before all was sent"))
		case <-k.due:
			if err := k.kill(ctx); err != nil {
				return err
			}
		case <-k.ended:
			return k.died()
		case note := <-g.progress:
			note.Total = seconds(r.p.lasts())
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

// calm waits until nobody has anything to do, and notes who still works a while after the end.
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
	wait := func(d time.Duration) error {
		for end := time.After(d); ; {
			select {
			case <-end:
				return nil
			case note := <-r.gen.progress: // the seconds after the end are a part of the run
				r.tell(note)
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	if r.own() && r.p.pause == 0 && r.p.Scenario != Cluster && !r.p.inTasks() {
		if err := wait(afterwards); err != nil {
			return err
		}
		before := used()
		if err := wait(time.Second); err != nil {
			return err
		}
		r.stillBusy = used() - before
	}
	before := used()
	for since := time.Now(); time.Since(since) < calmLimit; {
		if err := wait(pause); err != nil {
			return err
		}
		now := used()
		if now-before < idleCPU*pause.Seconds()*float64(max(1, len(r.nodes))) {
			return nil
		}
		before = now
	}
	return fmt.Errorf("the servers still work %s after the last message", calmLimit)
}

// readersCome connects the receivers, who sync and read every conversation. Those who were
// online have everything: what they read is compared.
func (r *run) readersCome(ctx context.Context) error {
	sent := r.gen
	from := r.p.Senders + r.p.watchers()
	all, err := r.connect(ctx, from, len(r.tokens))
	if err != nil {
		return err
	}
	g := newGenerator(sent.enc, sent.corpus, sent.audit)
	g.net, g.compares = sent.net, !r.p.offline()
	g.quiet, g.limit, g.lost, g.errors = sent.quiet, readLimit, sent.lost, sent.errors
	for i := range sent.conns {
		g.conns = append(g.conns, &conn{index: i, fd: -1})
	}
	for _, v := range g.audit.convs {
		v.streams[1].Gone = false
	}
	g.enter(draining)
	for i := range all {
		c := &conn{index: from + i, fd: all[i].fd, in: all[i].early, token: all[i].token}
		g.conns[c.index] = c
		for _, state := range all[i].convs {
			if v := g.audit.named([]byte(state.Conv)); v != nil && v.stream(c.index) != nil {
				v.Head = max(v.Head, state.Head)
				c.unread = append(c.unread, state.Conv)
			}
		}
		g.toRead += len(c.unread)
		g.readSome(c)
	}
	r.say("%d receivers read %s conversations", len(all), count(float64(g.toRead)))
	began := time.Now()
	ended := make(chan error, 1)
	go func() { ended <- g.run(ctx) }() // waited for below
	for reading := true; reading; {
		select {
		case err = <-ended:
			reading = false
		case note := <-g.progress:
			note.Phase = "read"
			r.p.Progress(note)
		}
	}
	if err != nil {
		return err
	}
	r.say("they have read %s messages in %.1f s", count(float64(g.read)), time.Since(began).Seconds())
	r.compared += g.read
	sent.tally.delivered += g.tally.delivered
	sent.lost = g.lost
	sent.lagged += g.lagged
	return nil
}

// readLimit bounds the time in which receivers who come later read everything.
const readLimit = 30 * time.Minute
