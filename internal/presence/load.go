package presence

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/user"
	"github.com/petrel-im/petrel/internal/wake"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// job is what a worker reads for one watch, or, without a watch, only who may see the
// targets.
type job struct {
	w       *Watch
	list    []watching // of w: what is read; the workers do not look into it
	again   bool       // the session was told of the targets before, maybe
	reads   []reading  // one for each target
	watcher im.Account
}

// reading is what is known of a target, or was read of it. The workers look at the account
// of the target and at nothing else.
type reading struct {
	t       *target
	lastMs  uint64
	blocked *blocked
	version uint32
	blocks  uint32 // of the target, before it was read
	policy  user.PresencePolicy
	known   bool // the loop knew it before
	sees    bool
}

// result is what a job has come to.
type result struct {
	job
	err error
}

func jobFor(w *Watch, list []watching) job {
	j := job{w: w, list: list, watcher: w.out.Account, reads: make([]reading, len(list))}
	for i := range list {
		t := list[i].t
		j.reads[i] = reading{t: t, version: t.version, blocks: t.blocks, known: t.known, policy: t.policy, blocked: t.blocked, lastMs: t.lastMs}
	}
	return j
}

// work does jobs until ctx ends.
func (p *Presence) work(ctx context.Context) {
	for {
		select {
		case j := <-p.jobs:
			err := p.read(ctx, &j)
			p.mu.Lock()
			p.done = append(p.done, result{j, err})
			p.mu.Unlock()
			wake.Set(p.wake)
		case <-ctx.Done():
			return
		}
	}
}

// read reads who of the targets may be seen. Whether there is no such user, or one who may
// not be seen, it reads the same: the user's record, whom they may block, when they were
// online last, and whether they have a direct conversation with the watcher. Spec: P-13.6.
func (p *Presence) read(ctx context.Context, j *job) error {
	var g errgroup.Group
	g.SetLimit(atOnce)
	for i := range j.reads {
		if r := &j.reads[i]; !r.known {
			g.Go(func() error { return p.readTarget(ctx, r) })
		}
	}
	if err := g.Wait(); err != nil || j.w == nil {
		return err
	}
	asks, ids := make([]*reading, 0, len(j.reads)), make([]im.ConvID, 0, len(j.reads))
	for i := range j.reads {
		r := &j.reads[i]
		switch {
		case r.t.account == j.watcher, r.policy == user.ToEverybody:
			r.sees = true
		default:
			asks, ids = append(asks, r), append(ids, p.o.IDs.Direct(j.watcher.Tenant, r.t.account.User, j.watcher.User))
		}
	}
	if len(ids) > 0 {
		listed, err := p.o.Listed(ctx, j.watcher, ids)
		if errors.Is(err, store.ErrCorrupt) || im.CodeOf(err) == im.CodeDamaged { // no reason to try it again and again
			listed, err = make([]bool, len(ids)), nil
		}
		if err != nil {
			return err
		}
		for i, r := range asks {
			r.sees = listed[i] && r.policy == user.ToPeers
		}
	}
	return p.dropBlocked(ctx, j)
}

// readTarget reads what is the same for all who watch a user.
func (p *Presence) readTarget(ctx context.Context, r *reading) (err error) {
	r.policy, err = p.o.Policy(ctx, r.t.account)
	if errors.Is(err, store.ErrCorrupt) { // nobody knows who may see it
		r.policy, err = user.ToNobody, nil
	}
	if err == nil {
		r.blocked, err = p.readBlocked(ctx, r.t.account)
	}
	if err == nil {
		r.lastMs, err = p.readLastSeen(ctx, r.t.account)
	}
	if errors.Is(err, store.ErrCorrupt) {
		r.lastMs, err = 0, nil
	}
	return err
}

// dropBlocked takes from the watcher of j what users do not want it to see who block it.
func (p *Presence) dropBlocked(ctx context.Context, j *job) error {
	for i := range j.reads {
		r := &j.reads[i]
		if !r.blocked.has(j.watcher.User) || r.t.account == j.watcher {
			continue
		}
		blocks, err := p.isBlocked(ctx, r.t.account, j.watcher.User)
		if err != nil {
			return err
		}
		r.sees = r.sees && !blocks
	}
	return nil
}

// takeResults takes over what the workers have read, and tells it to the sessions.
func (p *Presence) takeResults(s *step) {
	p.mu.Lock()
	done := p.done
	p.done = nil
	p.mu.Unlock()
	for _, r := range done {
		switch {
		case r.err != nil:
			p.o.Log.Warn("read presence failed: it is tried again", "user", string(r.watcher.User), "err", r.err)
			p.again(r.job)
		case r.w == nil:
			p.takeRecheck(s, r.job)
		default:
			p.take(s, r.job)
		}
	}
}

func (p *Presence) take(s *step, j job) {
	if j.w.owed == nil && len(j.list) > 1 {
		j.w.owed = make([]*petrelv1.Presence, 0, len(j.list))
	}
	for i := range j.list {
		x, r := &j.list[i], &j.reads[i]
		t := x.t
		if r.version != t.version {
			continue // the policy has changed since, and is asked for again
		}
		if !t.known {
			t.known, t.policy, t.blocked = true, r.policy, t.blocked.with(r.blocked)
			if t.lastMs == 0 { // or it has gone offline while it was read
				t.lastMs = r.lastMs
			}
		}
		if x.at < 0 {
			continue
		}
		if r.blocks != t.blocks {
			p.askFor(question{j.w, x})
			continue
		}
		if v := viewOf(r.sees); v != x.view || !j.again {
			x.view = v
			s.tell(j.w, t.as(v))
		}
	}
}

// again repeats a job that has failed, after a pause.
func (p *Presence) again(j job) {
	p.pause = time.Now().Add(retryPause)
	for i := range j.reads {
		switch {
		case j.w == nil:
			p.policyChanged(j.reads[i].t.account, "")
		case j.list[i].at >= 0:
			p.askFor(question{j.w, &j.list[i]})
		}
	}
}

// askFor asks about one user on behalf of a session. If too many wait, or a whole list of
// the session waits, it does nothing.
func (p *Presence) askFor(q question) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.asked) < maxAsked && !q.w.over && !q.w.asked {
		p.asked = append(p.asked, q)
		wake.Set(p.wake)
	}
}
