package fanout

import (
	"sync/atomic"
	"time"
)

// maxTrust is how long a session gets events after the last moment at which it
// is known to have been valid. With what lies between that moment and a socket,
// nothing more reaches a user 5 s after their tokens have ended.
const maxTrust = 4 * time.Second

// Trust is how much a node knows of whose tokens have ended at others: up to
// which moment it has been told of all of them. Moments are durations since
// NewTrust, so that they may travel to another node and back.
type Trust struct {
	began time.Time
	told  atomic.Int64 // a moment
}

// NewTrust makes one that has been told of everything until now.
func NewTrust() *Trust { return &Trust{began: time.Now()} }

// Now is this moment.
func (t *Trust) Now() time.Duration { return time.Since(t.began) }

// Told is the moment up to which the node has been told.
func (t *Trust) Told() time.Duration { return time.Duration(t.told.Load()) }

// Tell says that the node has been told of everything up to a moment. Only one
// goroutine at a time may call it.
func (t *Trust) Tell(at time.Duration) {
	if at > t.Told() {
		t.told.Store(int64(at))
	}
}

// standing is up to when the session of an outbox is known to be valid.
type standing struct {
	trust *Trust
	valid time.Duration // the store said so of this moment
	doubt time.Duration // it may have become void at this moment; 0: that is not said
}

// Watch makes an outbox hold back events while it is not known whether its
// session is valid; it was at a moment. It is called before the outbox enters
// the online table.
func (o *Outbox) Watch(t *Trust, valid time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.standing = &standing{trust: t, valid: valid}
}

// Doubt notes that the session may not be valid any more. Until the store says
// that it is, no other word counts.
func (o *Outbox) Doubt(at time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s := o.standing; s != nil && at > s.valid {
		s.valid = s.known()
		s.doubt = max(s.doubt, at, 1)
	}
}

// Confirm notes that the session was valid at a moment, as the store says.
func (o *Outbox) Confirm(at time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s := o.standing; s != nil {
		s.valid = max(s.valid, at)
		if at >= s.doubt {
			s.doubt = 0
		}
	}
}

// known is the last moment at which the session is known to have been valid.
func (s *standing) known() time.Duration {
	if s.doubt != 0 {
		return s.valid
	}
	return max(s.valid, s.trust.Told())
}

// Held tells whether nothing of what is meant for the user may be written: it
// has not been known for too long whether the session is valid.
func (o *Outbox) Held() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.heldLocked()
}

func (o *Outbox) heldLocked() bool {
	return o.standing != nil && o.standing.trust.Now()-o.standing.known() > maxTrust
}

// deafLocked tells whether the outbox takes no events now. One that is held has
// its client sync, which is answered when it is known who that is.
func (o *Outbox) deafLocked(k *Kicks) bool {
	if o.closed || o.end != nil || o.lagged || o.quiet {
		return true
	}
	if o.heldLocked() {
		o.lagLocked(k)
		return true
	}
	return false
}
