package fanout

import (
	"sync/atomic"
	"time"
)

// maxUnconfirmed is how long a session still counts as valid after the last moment at which it is known to have
// been valid. After that no new event is queued for the session, and queued events do not go to its connection
// any more (Outbox.Take). Nothing may reach a user 5 s after a revocation: the remaining second is for bytes on
// their way to the socket. If the client reads slowly, these take longer, because bytes in the transport cannot
// be taken back.
const maxUnconfirmed = 4 * time.Second

// Revocations holds the moment up to which this node knows every revocation of tokens that another node
// has announced. Package session advances it.
//
// Moments are durations since NewRevocations. So a moment of this node can travel to another node and
// back, whatever the clocks of the two say. The time in which the operating system was suspended does not
// count.
type Revocations struct {
	began time.Time
	known atomic.Int64 // a moment
}

// NewRevocations makes a Revocations that knows every revocation until now.
func NewRevocations() *Revocations { return &Revocations{began: time.Now()} }

// Now returns the present moment.
func (r *Revocations) Now() time.Duration { return time.Since(r.began) }

// KnownUntil returns the moment up to which every revocation is known.
func (r *Revocations) KnownUntil() time.Duration { return time.Duration(r.known.Load()) }

// Advance notes that every revocation up to a moment is known. Only one goroutine at a time may
// call it.
func (r *Revocations) Advance(to time.Duration) {
	if to > r.KnownUntil() {
		r.known.Store(int64(to))
	}
}

// validity has the moment up to which the session of one outbox is known to be valid. Outbox.mu is
// held at every call of its methods.
type validity struct {
	revocations *Revocations
	validAt     time.Duration // the session was valid at this moment
	doubtedAt   time.Duration // it may have become void at this moment; 0: no reason for doubt
}

// knownAt returns the last moment at which the session is known to have been valid. While
// the session is in doubt, only the store can move this moment: another node has announced
// the revocation that caused the doubt already, so its later answers prove nothing about it.
func (v *validity) knownAt() time.Duration {
	if v.doubtedAt != 0 {
		return v.validAt
	}
	return max(v.validAt, v.revocations.KnownUntil())
}

func (v *validity) expired() bool {
	return v.revocations.Now()-v.knownAt() > maxUnconfirmed
}

func (v *validity) doubt(at time.Duration) {
	if at > v.validAt {
		v.validAt = v.knownAt()
		v.doubtedAt = max(v.doubtedAt, at, 1)
	}
}

func (v *validity) confirm(at time.Duration) {
	v.validAt = max(v.validAt, at)
	if at >= v.doubtedAt {
		v.doubtedAt = 0
	}
}
