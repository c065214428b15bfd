package presence

import (
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/wake"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Watch is the list of users that one session watches.
type Watch struct {
	out *fanout.Outbox

	// Guarded by Presence.mu.
	next  []im.User // the list that the loop takes over next
	in    im.Key    // the conversation whose members the list may have; the zero key: none
	asked bool      // next stands in Presence.asked
	over  bool      // the session has ended

	// Only the loop uses these.
	list []watching
	conv im.Key               // in, of list
	owed []*petrelv1.Presence // not sent to the session yet; not empty: the watch is in Presence.owing
}

// watching is one user of a list. Only the loop uses it.
type watching struct {
	w    *Watch
	t    *target
	at   int32 // in t.watchers; -1: the session has set another list, or has ended
	i    uint8 // in w.list, which has at most MaxWatched
	view view
	told bool // of the profile: the watcher may ask for it without a look-up

	standing standing
}

// NewWatch makes the watch of a session, with nobody in its list yet.
func NewWatch(out *fanout.Outbox) *Watch { return &Watch{out: out} }

// question asks for the presence of users on behalf of one session.
type question struct {
	w    *Watch
	only *watching // nil: all users of the list that the session has set
}

// Set replaces the list of w. users are at most MaxWatched, ascending, each once. in is a conversation that some of
// them are in; the zero key: none. The loop sends their presences later. Set returns false if too many watches wait.
// Spec: P-13.5, P-14.5.
func (p *Presence) Set(w *Watch, users []im.User, in im.Key) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !w.asked {
		if len(p.asked) >= maxAsked {
			return false
		}
		p.asked = append(p.asked, question{w: w})
	}
	w.next, w.in, w.asked = users, in, true
	wake.Set(p.wake)
	return true
}

// End ends a watch when its session has ended.
func (p *Presence) End(w *Watch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !w.over {
		w.over = true
		p.ended = append(p.ended, w)
		wake.Set(p.wake)
	}
}

// takeList makes w watch the list that its session has set last. New targets enter the map before the
// online table is asked about them. So if a user comes online meanwhile, either the answer shows it, or
// the change is noted.
//
// All users of the list begin as untold, also those of the former list. If the policy of a user changes
// while the list is read, the result of the read does not count, and only untold users are read again.
func (p *Presence) takeList(w *Watch) {
	p.mu.Lock()
	users, old := w.next, w.list
	w.next, w.asked, w.list, w.conv = nil, false, nil, w.in
	if len(users) > 0 {
		w.list = make([]watching, len(users))
	}
	var added []*target
	for i, u := range users {
		a := im.Account{Tenant: w.out.Account.Tenant, User: u}
		hash := p.o.Table.Hash(a)
		t := p.targets[hash]
		if t == nil {
			t = &target{account: a, hash: hash}
			p.targets[hash] = t
			added = append(added, t)
		}
		x := &w.list[i]
		*x = watching{w: w, t: t, i: uint8(i), at: int32(len(t.watchers))}
		t.watchers = append(t.watchers, x)
	}
	p.mu.Unlock()
	p.drop(old) // before delayNewTargets, which takes over the times of targets without watchers
	for _, t := range added {
		t.online = p.o.Table.Online(t.hash)
	}
	p.delayNewTargets(added)
	w.owed = nil
	w.out.ForgetPresences()
}

// drop removes a list from the watchers of its targets, and forgets targets that nobody watches any more.
func (p *Presence) drop(list []watching) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range list {
		x := &list[i]
		t, last := x.t, len(x.t.watchers)-1
		t.watchers[x.at] = t.watchers[last]
		t.watchers[x.at].at = x.at
		t.watchers[last] = nil
		t.watchers = t.watchers[:last]
		x.at = -1
		if last == 0 && p.targets[t.hash] == t {
			delete(p.targets, t.hash)
		}
	}
	p.Watching.Store(int64(len(p.targets)))
}

// as returns the presence of t for watchers with a view, with a version of the profile; empty: with none. Only visible
// shows the presence: for all others it is that of a user who does not exist. Many sessions share the result. Spec:
// P-13.6.
func (t *target) as(v view, profile string) *petrelv1.Presence {
	of, last := &t.unseen, uint64(0)
	online := v == visible && t.online
	if v == visible {
		of = &t.seen
		if !online {
			last = t.lastMs
		}
	}
	x := &of[2]
	switch profile {
	case "":
		x = &of[0]
	case t.versions[other]:
		x = &of[1]
	}
	if *x == nil || (*x).Online != online || (*x).LastMs != last || (*x).Profile != profile {
		*x = &petrelv1.Presence{User: string(t.account.User), Online: online, LastMs: last, Profile: profile}
	}
	return *x
}

// presence returns the presence of its target for x.
func (x *watching) presence() *petrelv1.Presence {
	t := x.t
	if x.view == blockerOnline || x.view == blockerOffline {
		return t.away[x.w.out.Account.User].as(t, x.profile())
	}
	return t.as(x.view, x.profile())
}
