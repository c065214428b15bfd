package presence

import (
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// A user who blocks another one looks to them like somebody who has gone: online for as long
// as somebody is told so whose last session has ended, and then offline, with the time of the
// block as the time of being online last. So it stays while the block lasts. Spec: P-5.4.

// away is how a target looks to a watcher whom it blocks, or may block.
type away struct {
	goneAt time.Time // when the block began, while the watcher is told that the target is online; zero: is told as offline
	lastMs uint64
}

// depart begins to show t as away to who watches by x, and has seen t so far.
func (p *Presence) depart(t *target, x *watching, now time.Time) {
	u := x.w.out.Account.User
	a := t.away[u]
	if a == nil { // else another session of u was first
		if a = (&away{lastMs: t.lastMs}); t.online {
			a.goneAt, a.lastMs = now, coarse(p.o.Now())
			p.fading = append(p.fading, fading{t, now, u})
		}
		t.setAway(u, a)
	}
	x.view = a.view()
}

func (t *target) setAway(u im.User, a *away) {
	if t.away == nil {
		t.away = map[im.User]*away{}
	}
	t.away[u] = a
}

func (a *away) view() view {
	if a.goneAt.IsZero() {
		return awayOffline
	}
	return awayOnline
}

// as is what is told of t to a watcher to whom t is away.
func (a *away) as(t *target) *petrelv1.Presence {
	if a.view() == awayOnline {
		return &petrelv1.Presence{User: string(t.account.User), Online: true}
	}
	return &petrelv1.Presence{User: string(t.account.User), LastMs: a.lastMs}
}

// leave tells a watcher that a target has gone, which blocks them.
func (s *step) leave(f fading) {
	t := f.t
	a := t.away[f.watcher]
	if a == nil || !a.goneAt.Equal(f.goneAt) {
		return
	}
	a.goneAt = time.Time{}
	for _, x := range t.watchers {
		if x.view == awayOnline && x.w.out.Account.User == f.watcher {
			x.view = awayOffline
			s.tell(x.w, a.as(t))
		}
	}
}

// stay ends that t is away from who watches by x, and tells it if it is news.
func (s *step) stay(t *target, x *watching) {
	u, was := x.w.out.Account.User, x.view
	a := t.away[u]
	delete(t.away, u)
	x.view = visible
	same := was == visible || was == awayOnline && t.online || was == awayOffline && a != nil && !t.online && a.lastMs == t.lastMs
	if !same {
		s.tell(x.w, t.as(visible))
	}
}
