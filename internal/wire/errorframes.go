package wire

import (
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// ErrorFrame returns e as the content of an Error frame, with the hint and the flags that proto/errors.yaml has
// for its code.
func ErrorFrame(e *im.Error) *petrelv1.Error {
	info := e.Code.Info()
	return &petrelv1.Error{
		Code: string(e.Code), Message: e.Error(), Hint: info.Hint,
		Settled: info.Settled, Retryable: info.Retryable,
		RetryAfterMs: uint32(e.RetryAfter.Milliseconds()), Head: uint64(e.Head), DamagedFrom: uint64(e.From),
		DamagedTo: uint64(e.To), User: string(e.User), RequestId: e.Request,
	}
}

// ErrorOf returns the error from which ErrorFrame made f.
func ErrorOf(f *petrelv1.Error) *im.Error {
	return &im.Error{
		Code: im.Code(f.Code), Message: f.Message, RetryAfter: time.Duration(f.RetryAfterMs) * time.Millisecond,
		Head: im.Seq(f.Head), From: im.Seq(f.DamagedFrom), To: im.Seq(f.DamagedTo), User: im.User(f.User),
		Request: f.RequestId,
	}
}

// KickFrame returns the frame that tells a client that the server closes the
// connection because of e.
func KickFrame(e *im.Error) *petrelv1.ServerFrame {
	return &petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Kick{Kick: &petrelv1.Kick{
		Code: string(e.Code), Message: e.Error(),
		Reconnect: e.Code.Info().Reconnect, ReconnectAfterMs: uint32(e.RetryAfter.Milliseconds()),
	}}}
}
