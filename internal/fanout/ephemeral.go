package fanout

import (
	"slices"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/measure"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

const (
	// maxOwedSignals is how many signals wait for one connection, one of each
	// conversation, sender and kind. Further ones are dropped.
	maxOwedSignals = 32

	// maxSignalAge is the age at which a waiting signal is dropped: a client that reads so slowly
	// would show it too late. It is also less than the 5 s after which nothing of a conversation
	// reaches a removed user.
	maxSignalAge = 4 * time.Second
)

// ephemeral has the waiting events of a client that may be lost: signals and presences. It is not
// encoded yet, so that a later one replaces an earlier one. An outbox has none before the first
// one. Guarded by Outbox.mu.
type ephemeral struct {
	signals   []owedSignal
	presences []*petrelv1.Presence // of as many users as the session watches
}

type owedSignal struct {
	*petrelv1.Signal
	at time.Duration // of measure.Now, when it came
}

// sameMatter tells whether the later one of two signals replaces the earlier one.
func sameMatter(a, b *petrelv1.Signal) bool {
	return a.Conv == b.Conv && a.From == b.From && a.Kind == b.Kind
}

// pushSignal owes the client a signal, which nobody may change any more. focused
// means that only a client that has the conversation in its focus gets it. It returns
// whether the client will get it, unless it reads too slowly.
func (o *Outbox) pushSignal(id im.ConvID, s *petrelv1.Signal, focused bool, k *WakeUps) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.Signals || o.refusesEphemeralLocked() || o.lagged || focused && !o.focus.has(id) || !o.oweSignalLocked(s) {
		return false
	}
	o.markLocked(k)
	return true
}

func (o *Outbox) oweSignalLocked(s *petrelv1.Signal) bool {
	if o.ephemeral == nil {
		o.ephemeral = &ephemeral{}
	}
	owed := owedSignal{s, measure.Now()}
	for i, old := range o.ephemeral.signals {
		if sameMatter(old.Signal, s) {
			o.ephemeral.signals[i] = owed
			return true
		}
	}
	if len(o.ephemeral.signals) >= maxOwedSignals {
		return false
	}
	o.ephemeral.signals = append(o.ephemeral.signals, owed)
	return true
}

// Presence owes the client the presences of list, which must not be changed any more. A later one
// of a user replaces an earlier one. The caller bounds how many users there are. Spec: P-13.5.
func (o *Outbox) Presence(list []*petrelv1.Presence, k *WakeUps) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(list) == 0 || o.closed || o.end != nil {
		return
	}
	if o.ephemeral == nil {
		o.ephemeral = &ephemeral{}
	}
	o.ephemeral.presences = newest(o.ephemeral.presences, list)
	o.markLocked(k)
}

// newest adds the presences of list to the owed ones, mostly none: a client that reads gets one
// list after the other.
func newest(owed, list []*petrelv1.Presence) []*petrelv1.Presence {
	if len(owed) == 0 {
		return list
	}
	n := len(owed)
	for _, p := range list {
		if i := slices.IndexFunc(owed[:n], func(old *petrelv1.Presence) bool { return old.User == p.User }); i >= 0 {
			owed[i] = p
		} else {
			owed = append(owed, p)
		}
	}
	return owed
}

// ForgetPresences drops the presences that the client is still owed: it watches others
// now.
func (o *Outbox) ForgetPresences() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ephemeral != nil {
		o.ephemeral.presences = nil
	}
}

// refusesEphemeralLocked returns whether ephemeral events are dropped now. A client does not lag
// because of it.
func (o *Outbox) refusesEphemeralLocked() bool {
	return o.closed || o.end != nil || o.unwelcomed || o.unconfirmedLocked()
}

// ephemeralDueLocked returns whether ephemeral events can be written now: not while the client
// lags, or more than half of its limit waits. They come after everything else.
func (o *Outbox) ephemeralDueLocked() bool {
	l := o.ephemeral
	return len(l.signals)+len(l.presences) > 0 && !o.lagged && !o.refusesEphemeralLocked() &&
		(o.limit < 0 || o.waitingLocked() <= int(o.limit/2))
}

// writeEphemeralLocked writes the owed events, without signals that have waited for too long.
func (o *Outbox) writeEphemeralLocked() {
	l, e := o.ephemeral, &petrelv1.Events{}
	for _, s := range l.signals {
		if measure.Now()-s.at <= maxSignalAge {
			e.Signals = append(e.Signals, s.Signal)
		}
	}
	e.Presences = l.presences
	clear(l.signals)
	l.signals, l.presences = l.signals[:0], nil
	if len(e.Signals)+len(e.Presences) > 0 {
		o.appendLocked(&petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Events{Events: e}})
	}
}
