package presence

import (
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/user"
	"github.com/petrel-im/petrel/internal/wake"
)

// recheckAtOnce is how many targets one job asks the store about.
const recheckAtOnce = 64

// UserChanged has every node read anew who may see a user, and the version of the user's profile. The change must
// be durable.
func (p *Presence) UserChanged(a im.Account) {
	p.tellChange(a, "", false)
}

// BlockChanged has every node read anew whether a user blocks a watcher.
// The change must be durable. Spec: P-5.4.
func (p *Presence) BlockChanged(a im.Account, watcher im.User) { p.tellChange(a, watcher, false) }

// Wrote has every node read anew whether a watcher may see a user who
// has written to the watcher. The message must be durable. Spec: P-13.6.
func (p *Presence) Wrote(a im.Account, watcher im.User) { p.tellChange(a, watcher, true) }

// ContactChanged has every node read anew whether a user has a watcher as a contact. The change must be durable. Spec:
// P-14.5.
func (p *Presence) ContactChanged(a im.Account, watcher im.User) { p.tellChange(a, watcher, true) }

func (p *Presence) tellChange(a im.Account, watcher im.User, peer bool) {
	p.policyChanged(a, watcher, peer)
	if p.o.Nodes != nil {
		p.o.Nodes.TellPresencePolicy(a, watcher, peer)
	}
}

// pairChange is a change between a user and a watcher: a message of the user, a contact that the user has made or
// removed, or a block that may have begun or ended.
type pairChange struct {
	account im.Account
	watcher im.User
	peer    bool // no block
}

// policyChanged has this node read again whether a watcher may see a user; an empty watcher stands for all. If
// too many such pairs wait, it has the user's policy read again instead.
func (p *Presence) policyChanged(a im.Account, watcher im.User, peer bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.targets[p.o.Table.Hash(a)]
	switch {
	case t == nil:
		return
	case watcher == "" || len(p.pairs) >= maxAsked:
		p.staleLocked(t)
	default:
		p.pairs = append(p.pairs, pairChange{a, watcher, peer})
	}
	wake.Set(p.wake)
}

// takePairs takes the noted changes between a user and one watcher, and asks the store
// again whether the watcher may see the user. Results of earlier reads do not count.
func (p *Presence) takePairs(now time.Time) {
	p.mu.Lock()
	changed := p.pairs
	p.pairs = nil
	var targets []*target
	for _, x := range changed {
		targets = append(targets, p.targets[p.o.Table.Hash(x.account)])
	}
	p.mu.Unlock()
	for i, t := range targets {
		switch u := changed[i].watcher; {
		case t == nil:
		case changed[i].peer:
			p.recheckPeer(t, u)
		default:
			p.recheckBlocks(t, blockedOf([]im.User{u}, false), now)
		}
	}
}

// policiesMayHaveChanged has the policies of all targets read again, because messages of another node may have
// been lost. A target waits once however often that happens.
func (p *Presence) policiesMayHaveChanged() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range p.targets {
		p.staleLocked(t)
	}
	wake.Set(p.wake)
}

// staleLocked has the policy of t read again, once however often it is called until then.
func (p *Presence) staleLocked(t *target) {
	if !t.stale {
		t.stale = true
		p.stale = append(p.stale, t)
	}
}

// recheckJob takes the next targets with a stale policy, and returns the job that reads them again; false:
// there are none.
func (p *Presence) recheckJob() (j job, ok bool) {
	p.mu.Lock()
	n := min(len(p.stale), recheckAtOnce)
	for _, t := range p.stale[:n] {
		t.stale = false
		if p.targets[t.hash] == t { // it is still watched
			j.reads = append(j.reads, reading{t: t})
		}
	}
	p.stale = p.stale[n:]
	p.mu.Unlock()
	for i := range j.reads {
		r := &j.reads[i]
		r.t.rechecks++
		r.version = r.t.rechecks
	}
	return j, n > 0
}

// takeRecheck applies the policies and the blocked users that a job has read again.
func (p *Presence) takeRecheck(s *step, j job, now time.Time) {
	for i := range j.reads {
		r := &j.reads[i]
		t := r.t
		if more := r.blocked.without(t.blocked); t.known && more != nil {
			p.recheckBlocks(t, more, now)
		}
		if r.version != t.rechecks {
			continue
		}
		s.setProfile(t, r.profile)
		if !t.known || t.policy != r.policy {
			p.setPolicy(s, t, r.policy)
		}
	}
}

// setPolicy shows t to its watchers as the new policy allows. If the policy is ToPeers, a
// watcher sees nothing until the store has said whether t has written to them. A watcher
// who saw nothing before, and whom t may block, sees nothing until the block is read.
func (p *Presence) setPolicy(s *step, t *target, policy user.PresencePolicy) {
	t.version++ // jobs under way have read an old state of t
	t.policy = policy
	for _, x := range t.watchers {
		own, open := x.w.out.Account == t.account, policy == user.ToEverybody && t.known
		switch {
		case x.view == untold, open && x.view == hidden && t.blocked.has(x.w.out.Account.User) && !own:
			p.askFor(question{x.w, x})
		case (own || open) && x.view == hidden:
			x.view = visible
			s.tell(x)
		case own, open: // it stays as it is
		default:
			if x.view != hidden {
				x.view = hidden
				s.tell(x)
			}
			if policy == user.ToPeers || !t.known {
				p.askFor(question{x.w, x})
			}
		}
	}
}
