package presence

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/user"
	"github.com/petrel-im/petrel/internal/wake"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// job is the work of a worker: reads for one watch, or, without a watch, the policies of some targets.
type job struct {
	w       *Watch
	list    []watching // of w: its targets; the workers do not look into it
	reads   []reading  // one for each target
	watcher im.Account
	in      im.Key // the conversation of the watch
}

// reading holds the facts about a target that are known or were read. Of
// t itself the workers use only the account.
type reading struct {
	t       *target
	lastMs  uint64
	blocked *blocked
	version uint32
	pairs   uint32 // of the target, before it was read
	policy  user.PresencePolicy
	block   *storepb.Block // of the watcher by the target; nil: none
	known   bool           // the loop knew policy, blocked and lastMs before
	sees    bool           // the watcher may see the target, apart from a block
	profile user.ProfileVersions
	differ  bool // contacts of the target see more of its profile than others
	told    bool // the watcher is told of the target's profile

	standing standing
}

// result is the outcome of a job.
type result struct {
	job
	err error
}

func jobFor(w *Watch, list []watching) job {
	j := job{w: w, list: list, watcher: w.out.Account, in: w.conv, reads: make([]reading, len(list))}
	for i := range list {
		t := list[i].t
		j.reads[i] = reading{t: t, version: t.version, pairs: t.pairs, known: t.known, policy: t.policy,
			blocked: t.blocked, lastMs: t.lastMs, differ: t.versions.differ()}
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

// read reads which targets of a job may be seen. For a user who does not exist it reads
// the same as for one who may not be seen: the record, the blocked users, the time of
// being online last, and whether the user has written to the watcher. Spec: P-13.6.
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
	asks := make([]*reading, 0, len(j.reads))
	for i := range j.reads {
		r := &j.reads[i]
		switch {
		case r.t.account == j.watcher, r.policy == user.ToEverybody:
			r.sees = true
		default:
			asks = append(asks, r)
		}
	}
	if err := p.readPeers(ctx, j.watcher, asks); err != nil {
		return err
	}
	if err := p.readKnown(ctx, j); err != nil {
		return err
	}
	return p.readBlocks(ctx, j)
}

// readTarget reads the facts that are the same for all watchers of a user.
func (p *Presence) readTarget(ctx context.Context, r *reading) (err error) {
	r.policy, r.profile, err = p.o.Facts(ctx, r.t.account)
	r.differ = r.profile.ForContacts != r.profile.ForOthers
	if errors.Is(err, store.ErrCorrupt) { // the policy is unknown
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

// readBlocks reads the blocks of the watcher of j, by those targets that may block this user.
func (p *Presence) readBlocks(ctx context.Context, j *job) (err error) {
	for i := range j.reads {
		r := &j.reads[i]
		if !r.blocked.has(j.watcher.User) || r.t.account == j.watcher {
			continue
		}
		if r.block, err = user.ReadBlock(ctx, p.o.Store, p.o.IDs, r.t.account, j.watcher.User); err != nil {
			return err
		}
	}
	return nil
}

// takeResults takes the results of the workers, and queues presences for the sessions. A job that has failed is
// done again.
func (p *Presence) takeResults(s *step, now time.Time) {
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
			p.takeRecheck(s, r.job, now)
		default:
			p.take(s, r.job, now)
		}
	}
}

func (p *Presence) take(s *step, j job, now time.Time) {
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
			t.versions = versionsAfter(t.versions, r.profile)
			if t.lastMs == 0 { // or it has gone offline while it was read
				t.lastMs = r.lastMs
			}
		}
		if x.at < 0 {
			continue
		}
		if r.pairs != t.pairs {
			p.askFor(question{j.w, x})
			continue
		}
		was, before := x.profile(), len(j.w.owed)
		late := r.told && r.standing == unread && t.versions.differ() // contacts see more since it was read
		if x.told = r.told; !late {
			x.standing = r.standing
		}
		if s.settle(x, r, now); x.told && x.profile() != was && len(j.w.owed) == before && x.view != untold {
			s.tell(x)
		}
		if late {
			p.askFor(question{j.w, x})
		}
	}
}

// settle queues for a session the presence that was read for it, if it differs from the last one.
func (s *step) settle(x *watching, r *reading, now time.Time) {
	t, u := x.t, x.w.out.Account.User
	switch {
	case !r.sees:
		if x.view != hidden {
			x.view = hidden
			s.tell(x)
		}
	case r.block == nil:
		s.showUnblocked(t, x)
	case x.view == visible: // no event of the block has come yet
		s.p.showAsBlocker(t, x, now)
	case x.view == untold, x.view == hidden:
		a := t.away[u]
		if a == nil {
			if a = (&blockerView{goneAt: s.p.blockerOnlineSince(r.block, now),
				lastMs: r.block.LastMs}); !a.goneAt.IsZero() {
				s.p.delayOffline(pendingOffline{t, a.goneAt, u})
			}
			t.setAway(u, a)
		}
		x.view = a.view()
		s.tell(x)
	default:
		if a := t.away[u]; a != nil && x.view == blockerOnline && r.block.LastMs != 0 { // as a later watch shows it
			a.lastMs = r.block.LastMs
		}
	}
}

// again queues questions about the targets of a job that has failed. No job begins for retryPause.
func (p *Presence) again(j job) {
	p.pause = time.Now().Add(retryPause)
	for i := range j.reads {
		switch {
		case j.w == nil:
			p.policyChanged(j.reads[i].t.account, "", false)
		case j.list[i].at >= 0:
			p.askFor(question{j.w, &j.list[i]})
		}
	}
}

// askFor queues a question about one user on behalf of a session. It does nothing if too many wait, a whole
// list of the session waits, or the session has ended.
func (p *Presence) askFor(q question) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.asked) < maxAsked && !q.w.over && !q.w.asked {
		p.asked = append(p.asked, q)
		wake.Set(p.wake)
	}
}
