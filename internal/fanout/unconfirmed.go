package fanout

import (
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// withholdLocked removes the frames that are meant for the user from those that wait for
// an unconfirmed session. They were queued while the session was valid: since then the
// process stood still, or the client read slowly. If events are removed, the client has
// to sync. Removed answers become errors, so that no request stays without an answer. A
// send whose answer was removed may be stored; its repeat gets the answer. Spec: P-11.5.
//
// It decodes the encoded frames, so that the path of an event needs no other record of them.
func (o *Outbox) withholdLocked() {
	waits, owned := o.pending, !o.borrowed
	o.pending, o.borrowed = *bufPool.Get().(*[]byte), false
	lost := false
	for b := waits; len(b) > 0; {
		f, frame, rest, err := wire.ReadServerFrame(b, o.enc)
		b = rest
		switch {
		case err == nil && !meantForTheUser(f):
			o.pending = append(o.pending, frame...)
		case f.Id != 0:
			o.pending = wire.AppendFrame(o.pending, o.enc, &petrelv1.ServerFrame{Id: f.Id,
				Body: &petrelv1.ServerFrame_Error{
					Error: wire.ErrorFrame(&im.Error{Code: im.CodeStoreStalled, RetryAfter: time.Second}),
				}})
		default:
			lost = lost || f.GetLarge() == nil // Take announces large frames again
		}
	}
	if owned {
		release(waits)
	}
	if lost && !o.lagged && o.end == nil {
		o.lagged = true
		if o.focus != nil {
			o.focus.owed = nil
		}
		o.appendLocked(laggedFrame)
	}
}

// meantForTheUser returns whether a frame may have content that only a user with a valid session may
// read. That is every kind except those listed. An ack has such content if it carries a message.
func meantForTheUser(f *petrelv1.ServerFrame) bool {
	switch b := f.Body.(type) {
	case *petrelv1.ServerFrame_Ack:
		return b.Ack.Message != nil
	case *petrelv1.ServerFrame_Welcome, *petrelv1.ServerFrame_Error, *petrelv1.ServerFrame_Kick,
		*petrelv1.ServerFrame_Lagged,
		*petrelv1.ServerFrame_Ping, *petrelv1.ServerFrame_Pong, *petrelv1.ServerFrame_Signal,
		*petrelv1.ServerFrame_Watch:
		return false
	}
	return true
}
