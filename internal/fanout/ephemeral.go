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

// ephemeral holds the signals and presences that wait for a client. They may be lost. They are not encoded
// yet, so that a later one replaces an earlier one. It is nil until the first one comes. Guarded by Outbox.mu.
type ephemeral struct {
	signals   []owedSignal
	presences []*petrelv1.Presence // at most one of each user that the session watches
}

type owedSignal struct {
	*petrelv1.Signal
	at time.Duration // of measure.Now, when it came
}

// sameMatter tells whether the later of two signals replaces the earlier one.
func sameMatter(a, b *petrelv1.Signal) bool {
	return a.Conv == b.Conv && a.From == b.From && a.Kind == b.Kind
}

// pushSignal queues a signal for the client. Nobody may change the signal any more. With
// focused, only a client that has the conversation in its focus gets it. It returns false if
// the signal is dropped now. A queued signal is dropped later if the client reads too slowly.
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

// Presence queues presences for the client. Nobody may change those of list any more. A later
// presence of a user replaces an earlier one. The caller bounds the number of users. Spec: P-13.5.
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

// newest merges the presences of list into the owed ones, which it may change. Mostly none are owed: the writer
// of a client that reads has taken them.
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

// ForgetPresences drops the presences that wait for the client, because it watches other users now.
func (o *Outbox) ForgetPresences() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ephemeral != nil {
		o.ephemeral.presences = nil
	}
}

// refusesEphemeralLocked returns whether ephemeral events are dropped
// now. A dropped one does not make the client lag.
func (o *Outbox) refusesEphemeralLocked() bool {
	return o.closed || o.end != nil || o.unwelcomed || o.unconfirmedLocked()
}

// ephemeralDueLocked returns whether ephemeral events wait and may be written now. They wait while the client
// lags, has no welcome yet, or while more than half of its limit waits. They are written after everything else.
func (o *Outbox) ephemeralDueLocked() bool {
	l := o.ephemeral
	return len(l.signals)+len(l.presences) > 0 && !o.lagged && !o.refusesEphemeralLocked() &&
		(o.limit < 0 || o.waitingLocked() <= int(o.limit/2))
}

// writeEphemeralLocked adds the owed events to the pending bytes, without signals that have waited for too
// long.
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
