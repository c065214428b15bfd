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
	p.policyChanged(a)
	if p.o.Nodes != nil {
		p.o.Nodes.TellPresencePolicy(a)
	}
}

// policyChanged notes it on this node.
func (p *Presence) policyChanged(a im.Account) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.targets[p.o.Table.Hash(a)] != nil {
		p.stale = append(p.stale, a)
		signal.Set(p.wake)
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
			j.targets = append(j.targets, t)
		}
	}
	p.stale = p.stale[n:]
	p.mu.Unlock()
	for _, t := range j.targets {
		t.rechecks++
		j.reads = append(j.reads, reading{account: t.account, version: t.rechecks})
	}
	return j, n > 0
}

// takeRecheck takes over policies that were read again.
func (p *Presence) takeRecheck(s *step, j job) {
	for i, t := range j.targets {
		if r := &j.reads[i]; r.version == t.rechecks && (!t.known || t.policy != r.policy) {
			p.setPolicy(s, t, r.policy)
		}
	}
}

// setPolicy tells those who watch t what they may see now. Those who may see it only if
// they have a direct conversation with t see nothing until that is looked up.
func (p *Presence) setPolicy(s *step, t *target, policy user.PresencePolicy) {
	t.version++ // what jobs read of t does not count
	t.policy = policy
	for w, was := range t.watchers {
		own := w.out.Account == t.account
		if v := viewOf(own || policy == user.ToEverybody && t.known); was != untold && v != was {
			t.watchers[w] = v
			s.tell(w, t.as(v))
		}
		if policy == user.ToPeers || !t.known || was == untold {
			p.askFor(question{w, t})
		}
	}
}
