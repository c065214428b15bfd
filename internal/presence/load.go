package presence

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/signal"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/user"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// job is what a worker reads for one watch, or, without a watch, only who may see the
// targets.
type job struct {
	w       *Watch
	version int  // of the list of w
	again   bool // the session was told of the targets before, maybe
	targets []*target
	reads   []reading // one for each target
	watcher im.Account
}

// reading is what is known of a target, or was read of it.
type reading struct {
	account im.Account
	version int
	blocks  int  // of the target, before it was read
	known   bool // the loop knew it before
	policy  user.PresencePolicy
	lastMs  uint64
	sees    bool
}

// result is what a job has come to.
type result struct {
	job
	err error
}

func (p *Presence) jobFor(w *Watch, targets []*target) job {
	j := job{w: w, version: w.version, targets: targets, watcher: w.out.Account, reads: make([]reading, len(targets))}
	for i, t := range targets {
		j.reads[i] = reading{account: t.account, version: t.version, blocks: t.blocks, known: t.known, policy: t.policy, lastMs: t.lastMs}
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
			signal.Set(p.wake)
		case <-ctx.Done():
			return
		}
	}
}

// read reads who of the targets may be seen. Whether there is no such user, or one who may
// not be seen, it reads the same: the user's record, when they were online last, and
// whether they have a direct conversation with the watcher. Spec: P-13.6.
func (p *Presence) read(ctx context.Context, j *job) error {
	var g errgroup.Group
	g.SetLimit(atOnce)
	for i := range j.reads {
		if r := &j.reads[i]; !r.known {
			g.Go(func() (err error) {
				r.policy, err = p.o.Policy(ctx, r.account)
				if errors.Is(err, store.ErrCorrupt) { // nobody knows who may see it
					r.policy, err = user.ToNobody, nil
				}
				if err == nil {
					r.lastMs, err = p.readLastSeen(ctx, r.account)
				}
				if errors.Is(err, store.ErrCorrupt) {
					r.lastMs, err = 0, nil
				}
				return err
			})
		}
	}
	if err := g.Wait(); err != nil || j.w == nil {
		return err
	}
	directs := make([]im.ConvID, len(j.reads)) // of the targets with the watcher
	var asks []*reading
	var ids []im.ConvID
	for i := range j.reads {
		r := &j.reads[i]
		directs[i] = p.o.IDs.Direct(r.account.Tenant, r.account.User, j.watcher.User)
		switch {
		case r.account == j.watcher, r.policy == user.ToEverybody:
			r.sees = true
		default:
			asks, ids = append(asks, r), append(ids, directs[i])
		}
	}
	if len(ids) == 0 {
		return p.dropBlocked(ctx, j, directs)
	}
	listed, err := p.o.Listed(ctx, j.watcher, ids)
	if errors.Is(err, store.ErrCorrupt) || im.CodeOf(err) == im.CodeDamaged { // no reason to try it again and again
		return nil
	}
	if err != nil {
		return err
	}
	for i, r := range asks {
		r.sees = listed[i] && r.policy == user.ToPeers
	}
	return p.dropBlocked(ctx, j, directs)
}

// dropBlocked takes from the watcher of j what users do not want it to see who block it. It
// reads the same of each user.
func (p *Presence) dropBlocked(ctx context.Context, j *job, directs []im.ConvID) error {
	var g errgroup.Group
	var next atomic.Int64
	for range min(atOnce, len(j.reads)) { // a goroutine for each user would cost more than what it reads
		g.Go(func() error {
			for i := int(next.Add(1)) - 1; i < len(j.reads); i = int(next.Add(1)) - 1 {
				r := &j.reads[i]
				if r.account == j.watcher {
					continue
				}
				rec, err := p.o.Store.Conversation(ctx, im.Key{Tenant: r.account.Tenant, Conv: directs[i]})
				if errors.Is(err, store.ErrCorrupt) { // nobody knows who may see it
					r.sees, err = false, nil
				}
				if err != nil {
					return err
				}
				r.sees = r.sees && !slices.ContainsFunc(rec.GetBlocks(), func(b *storepb.Block) bool { return b.Blocked && b.User == string(r.account.User) })
			}
			return nil
		})
	}
	return g.Wait()
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
	if p.owed[j.w.out] == nil && j.version == j.w.version {
		p.owed[j.w.out] = make([]*petrelv1.Presence, 0, len(j.targets))
	}
	for i, t := range j.targets {
		r := &j.reads[i]
		if r.version != t.version {
			continue // the policy has changed since, and is asked for again
		}
		if !t.known {
			t.known, t.policy = true, r.policy
			if t.lastMs == 0 { // or it has gone offline while it was read
				t.lastMs = r.lastMs
			}
		}
		was, watches := t.watchers[j.w]
		if watches && r.blocks != t.blocks {
			p.askFor(question{j.w, t})
			continue
		}
		if v := viewOf(r.sees); watches && j.version == j.w.version && (v != was || !j.again) {
			t.watchers[j.w] = v
			s.tell(j.w, t.as(v))
		}
	}
}

// again repeats a job that has failed, after a pause.
func (p *Presence) again(j job) {
	p.pause = time.Now().Add(retryPause)
	for _, t := range j.targets {
		switch {
		case j.w == nil:
			p.policyChanged(t.account, "")
		case j.version == j.w.version:
			p.askFor(question{j.w, t})
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
		signal.Set(p.wake)
	}
}
