package presence

import (
	"context"
	"sync"
	"time"

	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/rate"
)

// pendingOffline is a user who is shown as offline when holdOnline has passed since goneAt. It is one of two: a
// user without a session, unless a session begins before then; or, if watcher is set, a user who blocks the
// watcher and is shown as offline to this watcher alone.
type pendingOffline struct {
	t       *target
	goneAt  time.Time // as goneAt of t, or of t.away[watcher]; void if that has changed since
	watcher im.User
}

// Run sends presences until ctx ends. Then it stores the times of users whose sessions have ended lately.
//
// One goroutine, the loop, keeps the state of the targets and sends it, so no older state is sent after a newer
// one. Workers read the store for the loop.
func (p *Presence) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() { p.work(ctx) })
	}
	wg.Go(func() { p.writeLastSeen(ctx) })
	p.loop(ctx)
	wg.Wait()
	p.writeAtTheEnd()
	return nil
}

func (p *Presence) loop(ctx context.Context) {
	t := time.NewTimer(time.Hour)
	defer t.Stop()
	for {
		next := p.step()
		t.Reset(next)
		select {
		case <-p.wake:
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}

// step is one turn of the loop. It finds at most about tellAtOnce presences to send.
type step struct {
	p    *Presence
	room int
}

// tell queues the presence of its target for x.
func (s *step) tell(x *watching) {
	w := x.w
	if len(w.owed) == 0 {
		s.p.owing = append(s.p.owing, w)
	}
	w.owed = append(w.owed, x.presence())
	s.room--
}

// tellAll queues the presence of t for those of its watchers who may see it.
func (s *step) tellAll(t *target) {
	for _, x := range t.watchers {
		if x.view == visible {
			s.tell(x)
		}
	}
	s.room--
}

// step does the work that is due, and returns how long to wait for the next step.
func (p *Presence) step() time.Duration {
	s := &step{p: p, room: tellAtOnce}
	now := time.Now()
	p.endWatches()
	p.takePairs(now)
	p.takeResults(s, now)
	next := min(p.tellChanges(s, now), p.tellFaded(s, now))
	return min(next, p.handOut(now, next == tellPause), p.ask(now), p.settleLeaving(now))
}

// handOut sends up to sessionsAtOnce sessions the presences that they are owed. more means that the loop is
// about to find further ones: then handOut waits, for gatherAtMost at most. After the death of a node, a
// session that watches one of its users often watches others of them, and one write for all costs less. It
// returns how long to wait for the next call.
func (p *Presence) handOut(now time.Time, more bool) time.Duration {
	if len(p.owing) == 0 {
		p.owing, p.gathering = nil, time.Time{}
		return never
	}
	if p.gathering.IsZero() {
		p.gathering = now
	}
	if more && now.Sub(p.gathering) < gatherAtMost {
		return tellPause
	}
	var k fanout.WakeUps
	n := min(len(p.owing), sessionsAtOnce)
	for i, w := range p.owing[:n] {
		w.out.Presence(w.owed, &k)
		p.Sent.Add(uint64(len(w.owed)))
		w.owed, p.owing[i] = nil, nil
	}
	p.owing = p.owing[n:]
	k.Flush()
	return tellPause
}

// never is longer than any wait.
const never = time.Hour

// endWatches forgets the watches whose sessions have ended.
func (p *Presence) endWatches() {
	p.mu.Lock()
	ended := p.ended
	p.ended = nil
	p.mu.Unlock()
	for _, w := range ended {
		p.drop(w.list)
		w.list, w.owed = nil, nil
	}
}

// tellChanges queues the presences of users who came online, and puts users who went offline into pending. It
// returns how long to wait for the next call.
func (p *Presence) tellChanges(s *step, now time.Time) time.Duration {
	for s.room > 0 {
		p.mu.Lock()
		if len(p.changed) == 0 {
			p.changed = nil
			p.mu.Unlock()
			return never
		}
		t := p.changed[0]
		p.changed = p.changed[1:]
		t.noted = false // before the table is asked: a later change is noted again
		p.mu.Unlock()
		online := p.o.Table.Online(t.hash)
		switch {
		case online && t.online:
			t.goneAt = time.Time{}
		case online:
			t.online = true
			s.tellAll(t)
		case t.online && t.goneAt.IsZero():
			t.goneAt, t.goneMs = now, coarse(p.o.Now())
			p.pending = append(p.pending, pendingOffline{t: t, goneAt: now})
		}
		s.room--
	}
	return tellPause
}

// tellFaded queues the presences of users who have been gone for holdOnline and are offline now. It returns how
// long to wait for the next call.
func (p *Presence) tellFaded(s *step, now time.Time) time.Duration {
	for s.room > 0 {
		if len(p.pending) == 0 {
			p.pending = nil
			return never
		}
		f := p.pending[0]
		if wait := f.goneAt.Add(holdOnline).Sub(now); wait > 0 {
			return wait
		}
		p.pending = p.pending[1:]
		s.room--
		if f.watcher != "" {
			s.leave(f)
			continue
		}
		if t := f.t; t.goneAt.Equal(f.goneAt) && !p.o.Table.Online(t.hash) {
			t.online, t.goneAt, t.lastMs = false, time.Time{}, t.goneMs
			s.tellAll(t)
		}
	}
	return tellPause
}

// ask gives the workers jobs: first policies to read again, then the watches, at
// most watchesPerSecond of them. It returns how long to wait for the next call.
func (p *Presence) ask(now time.Time) time.Duration {
	for {
		if wait := p.pause.Sub(now); wait > 0 {
			return wait
		}
		if len(p.jobs) == cap(p.jobs) {
			return never // a result wakes the loop
		}
		if j, ok := p.recheckJob(); ok {
			p.jobs <- j
			continue
		}
		p.mu.Lock()
		waits := len(p.asked)
		p.mu.Unlock()
		if waits == 0 {
			return never
		}
		if wait := p.pace.Take(now, rate.Per(watchesPerSecond, time.Second, watchBurst)); wait > 0 {
			return max(wait, askPause)
		}
		p.mu.Lock()
		q := p.asked[0]
		if p.asked = p.asked[1:]; len(p.asked) == 0 {
			p.asked = nil
		}
		over := q.w.over
		p.mu.Unlock()
		switch {
		case over:
			continue
		case q.only == nil:
			p.takeList(q.w)
			p.jobs <- jobFor(q.w, q.w.list)
		case q.only.at < 0:
			continue
		default:
			p.jobs <- jobFor(q.w, q.w.list[q.only.i:][:1])
		}
	}
}
