package fanout

import (
	"slices"
	"sync"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

const (
	maxHeld     = 4096 // signals that a node holds; further ones reach only online users
	maxHeldFrom = 128  // of one sender; further ones reach only online users
	maxHeldUser = 16   // for one user; the oldest one goes
	maxHeldPair = 4    // for one user, of one sender; the oldest one goes
)

// held keeps signals for users whose devices may connect soon: a phone that a push notification wakes up
// has to ring. Every node keeps all of them, because the phone may connect to any node. Spec: P-13.4.
//
// The rule of Table holds for them too. A delivery first holds its signal, and then reads the table. A
// session enters the table, is welcomed, and then reads the held signals. So a session gets the signal by
// one of the two ways, or by both.
type held struct {
	mu   sync.Mutex // tier 0; guards the fields below
	of   map[im.Account][]heldSignal
	from map[im.Account]int // of each sender
	n    int                // of all users
}

type heldSignal struct {
	*petrelv1.Signal
	until time.Time
}

// replace holds s for a, in place of a held signal of the same conversation, sender and kind. If HoldMs of s is
// 0, it only removes that signal. If too many are held, it holds nothing in its place. It returns whether there
// was one.
func (h *held) replace(a im.Account, s *petrelv1.Signal, now time.Time) (was bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.HoldMs == 0 && h.n == 0 {
		return false
	}
	list := slices.DeleteFunc(slices.Clone(h.of[a]), func(x heldSignal) bool {
		was = was || sameMatter(x.Signal, s)
		return sameMatter(x.Signal, s) || !now.Before(x.until)
	})
	h.setLocked(a, list)
	if s.HoldMs == 0 {
		return was
	}
	from := im.Account{Tenant: a.Tenant, User: im.User(s.From)}
	full := func() bool { return h.n >= maxHeld || h.from[from] >= maxHeldFrom }
	if full() {
		h.sweepLocked(now)
	}
	if !full() {
		h.setLocked(a, append(roomFor(s, slices.Clone(list)),
			heldSignal{s, now.Add(time.Duration(s.HoldMs) * time.Millisecond)}))
	}
	return was
}

// roomFor makes room for s among the signals held for a user. If their sender has
// maxHeldPair of them, the oldest of that sender goes, so one sender does not end
// the calls of others. Otherwise, if there are maxHeldUser, the oldest of all goes.
func roomFor(s *petrelv1.Signal, list []heldSignal) []heldSignal {
	ofSender := func(x heldSignal) bool { return x.From == s.From }
	n := 0
	for _, x := range list {
		if ofSender(x) {
			n++
		}
	}
	switch oldest := slices.IndexFunc(list, ofSender); {
	case n >= maxHeldPair:
		return slices.Delete(list, oldest, oldest+1)
	case len(list) >= maxHeldUser:
		return slices.Delete(list, 0, 1)
	}
	return list
}

// setLocked makes list the held signals of a. The caller must not have changed the former list.
func (h *held) setLocked(a im.Account, list []heldSignal) {
	if h.of == nil {
		h.of, h.from = map[im.Account][]heldSignal{}, map[im.Account]int{}
	}
	h.countLocked(a, h.of[a], -1)
	h.countLocked(a, list, 1)
	h.of[a] = list
	if len(list) == 0 {
		delete(h.of, a)
	}
}

// countLocked adds list, the signals held for a, to the counters. by is 1, or -1 to subtract them.
func (h *held) countLocked(a im.Account, list []heldSignal, by int) {
	h.n += by * len(list)
	for _, x := range list {
		from := im.Account{Tenant: a.Tenant, User: im.User(x.From)}
		if h.from[from] += by; h.from[from] == 0 {
			delete(h.from, from)
		}
	}
}

// sweepLocked forgets signals that were held for long enough.
func (h *held) sweepLocked(now time.Time) {
	for a, list := range h.of {
		h.setLocked(a, slices.DeleteFunc(slices.Clone(list), func(x heldSignal) bool { return !now.Before(x.until) }))
	}
}

// forUser returns the signals held for a.
func (h *held) forUser(a im.Account, now time.Time) []*petrelv1.Signal {
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []*petrelv1.Signal
	for _, x := range h.of[a] {
		if now.Before(x.until) {
			list = append(list, x.Signal)
		}
	}
	return list
}

// Wake gives an outbox the signals that are held for its user. It is called when the
// session has entered the table and was welcomed.
func (t *Table) Wake(o *Outbox, k *WakeUps) {
	if !o.Signals {
		return
	}
	for _, s := range t.held.forUser(o.Account, time.Now()) {
		if id, err := im.ParseConvID(s.Conv); err == nil {
			o.pushSignal(id, s, false, k)
		}
	}
}
