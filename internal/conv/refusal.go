package conv

import (
	"errors"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
)

// ErrNotOwner says that this node does not own the feed, or not any more.
var ErrNotOwner = errors.New("feed is owned by another node")

// Refusal turns an error of the store into the error that the client gets; nil into nil.
func Refusal(err error) *im.Error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrFull):
		return &im.Error{Code: im.CodeDiskFull, RetryAfter: 5 * time.Second}
	case errors.Is(err, store.ErrCorrupt):
		return &im.Error{Code: im.CodeDamaged, RetryAfter: damagedRetry}
	default:
		return &im.Error{Code: im.CodeStoreStalled, RetryAfter: time.Second}
	}
}

// damagedRetry is how long a client waits before it asks again for damaged rows: an operator has to
// act first. Spec: P-9.5.
const damagedRetry = 30 * time.Second

// mayShow reports whether callers outside the package may see this error of the store.
func mayShow(err error) bool {
	return errors.Is(err, store.ErrStalled) || errors.Is(err, store.ErrCorrupt)
}

// Shown is err for a caller outside the package: failures of the store have a code.
func Shown(err error) error {
	if _, ok := errors.AsType[*im.Error](err); !ok && mayShow(err) {
		return Refusal(err)
	}
	return err
}

// unread is the error for senders when the store could not be read.
func unread(err error) *im.Error {
	if mayShow(err) {
		return Refusal(err)
	}
	return &im.Error{Code: im.CodeInternal}
}

// noConversation is the answer about a conversation that does not exist, or that the caller may not
// know of.
func noConversation() *im.Error { return &im.Error{Code: im.CodeNoConversation} }

// noTarget is the answer to an edit, recall, reaction or pin of an entry that the sender cannot
// see, or that is no message.
func noTarget(q im.Seq) error {
	return im.Errorf(im.CodeNoTarget, "entry %d is not a message that this can be done to", q)
}

// NoSource is the one answer to a forward of a message that does not exist or that its sender
// may not copy.
func NoSource() *im.Error {
	return im.Errorf(im.CodeNoTarget, "there is no message to forward that you may read")
}

// errBusy refuses a send that exceeds a bound.
func errBusy() *im.Error {
	return &im.Error{Code: im.CodeOverloaded, RetryAfter: 200 * time.Millisecond}
}

func asError(err error) *im.Error {
	return &im.Error{Code: im.CodeOf(err), Message: err.Error()}
}
