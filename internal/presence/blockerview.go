package presence

import (
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// A blocked user sees the blocker as if the blocker's last session had ended
// when the block began: online for holdOnline, and then offline. While the block
// lasts, the time of being online last does not change any more. Spec: P-5.4.

// blockerView is the view of a target by a watcher whom it blocks, or may block.
type blockerView struct {
	goneAt time.Time // when the block began, while the target is shown as online; zero: it is shown as offline
	lastMs uint64
}

// showAsBlocker shows t as a blocker to the watcher of x, to whom t was visible.
func (p *Presence) showAsBlocker(t *target, x *watching, now time.Time) {
	u := x.w.out.Account.User
	a := t.away[u]
	if a == nil { // otherwise another session of u has made it
		if a = (&blockerView{lastMs: t.lastMs}); t.online {
			a.goneAt, a.lastMs = now, coarse(p.o.Now())
			p.pending = append(p.pending, pendingOffline{t, now, u})
		}
		t.setAway(u, a)
	}
	x.view = a.view()
}

func (t *target) setAway(u im.User, a *blockerView) {
	if t.away == nil {
		t.away = map[im.User]*blockerView{}
	}
	t.away[u] = a
}

func (a *blockerView) view() view {
	if a.goneAt.IsZero() {
		return blockerOffline
	}
	return blockerOnline
}

// as returns the presence of t for a watcher whom t blocks, with a version of the profile, which a block does not hide:
// it would show the block.
func (a *blockerView) as(t *target, profile string) *petrelv1.Presence {
	p := &petrelv1.Presence{User: string(t.account.User), Online: a.view() == blockerOnline, Profile: profile}
	if !p.Online {
		p.LastMs = a.lastMs
	}
	return p
}

// leave shows a blocker as offline to the watcher of f, when holdOnline has passed.
func (s *step) leave(f pendingOffline) {
	t := f.t
	a := t.away[f.watcher]
	if a == nil || !a.goneAt.Equal(f.goneAt) {
		return
	}
	a.goneAt = time.Time{}
	for _, x := range t.watchers {
		if x.view == blockerOnline && x.w.out.Account.User == f.watcher {
			x.view = blockerOffline
			s.tell(x)
		}
	}
}

// showUnblocked shows t to the watcher of x, whom t does not block (any more). It
// sends a presence if that differs from the last one.
func (s *step) showUnblocked(t *target, x *watching) {
	u, was := x.w.out.Account.User, x.view
	a := t.away[u]
	delete(t.away, u)
	x.view = visible
	same := was == visible || was == blockerOnline && t.online ||
		was == blockerOffline && a != nil && !t.online && a.lastMs == t.lastMs
	if !same {
		s.tell(x)
	}
}
