package presence

import (
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/signal"
	"github.com/petrel-im/petrel/internal/user"
)

// recheckAtOnce is how many targets one job asks the store about.
const recheckAtOnce = 64

// PolicyChanged has every node ask the store anew who may see a user. The change is
// durable.
func (p *Presence) PolicyChanged(a im.Account) {
	p.tellChange(a, "")
}

// BlockChanged has every node look anew whether a user blocks a watcher. The change is
// durable. Spec: P-5.4.
func (p *Presence) BlockChanged(a im.Account, watcher im.User) { p.tellChange(a, watcher) }

func (p *Presence) tellChange(a im.Account, watcher im.User) {
	p.policyChanged(a, watcher)
	if p.o.Nodes != nil {
		p.o.Nodes.TellPresencePolicy(a, watcher)
	}
}

// blockChange is a user who may have blocked a watcher, or may not block them any more.
type blockChange struct {
	account im.Account
	watcher im.User
}

// policyChanged notes a change of who may see a user on this node: one watcher, or, without
// one, all.
func (p *Presence) policyChanged(a im.Account, watcher im.User) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.targets[p.o.Table.Hash(a)] == nil:
		return
	case watcher == "" || len(p.blocks) >= maxAsked:
		p.stale = append(p.stale, a)
	default:
		p.blocks = append(p.blocks, blockChange{a, watcher})
	}
	signal.Set(p.wake)
}

// hideBlocked hides users from watchers whom they may block since a change, and has it read
// whether they do. What was read before does not count. Spec: P-5.4.
func (p *Presence) hideBlocked(s *step) {
	p.mu.Lock()
	changed := p.blocks
	p.blocks = nil
	var targets []*target
	for _, x := range changed {
		targets = append(targets, p.targets[p.o.Table.Hash(x.account)])
	}
	p.mu.Unlock()
	for i, t := range targets {
		if t == nil {
			continue
		}
		p.mayBlock(s, t, blockedOf([]im.User{changed[i].watcher}, false))
	}
}

// policiesMayHaveChanged is for when another node may have told something that did not
// arrive. There are never more stale ones than targets, and those that came since.
func (p *Presence) policiesMayHaveChanged() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stale = p.stale[:0]
	for _, t := range p.targets {
		p.stale = append(p.stale, t.account)
	}
	signal.Set(p.wake)
}

// recheckJob is the next job that reads policies again; false: there is none.
func (p *Presence) recheckJob() (j job, ok bool) {
	p.mu.Lock()
	n := min(len(p.stale), recheckAtOnce)
	for _, a := range p.stale[:n] {
		if t := p.targets[p.o.Table.Hash(a)]; t != nil {
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

// takeRecheck takes over policies that were read again, and whom the users may block.
func (p *Presence) takeRecheck(s *step, j job) {
	for i := range j.reads {
		r := &j.reads[i]
		t := r.t
		if more := r.blocked.without(t.blocked); t.known && more != nil {
			p.mayBlock(s, t, more)
		}
		if r.version == t.rechecks && (!t.known || t.policy != r.policy) {
			p.setPolicy(s, t, r.policy)
		}
	}
}

// setPolicy tells those who watch t what they may see now. Those who may see it only if
// they have a direct conversation with t, or whom t may block, see nothing until that is
// looked up.
func (p *Presence) setPolicy(s *step, t *target, policy user.PresencePolicy) {
	t.version++ // what jobs read of t does not count
	t.policy = policy
	for _, x := range t.watchers {
		was := x.view
		own, blocked := x.w.out.Account == t.account, t.blocked.has(x.w.out.Account.User)
		if v := viewOf(own || policy == user.ToEverybody && t.known && !blocked); was != untold && v != was {
			x.view = v
			s.tell(x.w, t.as(v))
		}
		if policy == user.ToPeers || !t.known || was == untold || blocked {
			p.askFor(question{x.w, x})
		}
	}
}
