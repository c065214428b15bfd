package conv

import (
	"errors"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
)

// ErrNotOwner says that this node does not own the feed, or not any more.
var ErrNotOwner = errors.New("feed is owned by another node")

// Refusal turns an error of the store into the error that the client gets; nil into nil. Codes: disk_full,
// damaged; store_stalled for every other error.
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

// Shown returns err for a caller outside the package. A failure of the store becomes an error with a code, if
// such a caller may see it (mayShow).
func Shown(err error) error {
	if _, ok := errors.AsType[*im.Error](err); !ok && mayShow(err) {
		return Refusal(err)
	}
	return err
}

// unread returns the error for senders after the read of the store has failed with err.
func unread(err error) *im.Error {
	if mayShow(err) {
		return Refusal(err)
	}
	return &im.Error{Code: im.CodeInternal}
}

// noConversation returns the answer about a conversation that does not exist, or that the caller may not know
// of.
func noConversation() *im.Error { return &im.Error{Code: im.CodeNoConversation} }

// noTarget refuses a message, edit, recall, reaction or pin that refers to the entry q, because the user may not
// read q, or q does not allow it.
func noTarget(q im.Seq) error {
	return im.Errorf(im.CodeNoTarget, "entry %d does not exist for you, or does not allow this", q)
}

// NoSource returns the one answer to a forward of a message that does not exist, or that its sender may not
// copy.
func NoSource() *im.Error {
	return im.Errorf(im.CodeNoTarget, "there is no message to forward that you may read")
}

// errBusy returns the refusal for a bound that is reached.
func errBusy() *im.Error {
	return &im.Error{Code: im.CodeOverloaded, RetryAfter: 200 * time.Millisecond}
}

func asError(err error) *im.Error {
	return &im.Error{Code: im.CodeOf(err), Message: err.Error()}
}
