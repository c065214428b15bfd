package wire

import (
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// ErrorFrame is e as an Error frame's content, with what the catalogue adds.
func ErrorFrame(e *im.Error) *petrelv1.Error {
	info := e.Code.Info()
	return &petrelv1.Error{
		Code: string(e.Code), Message: e.Error(), Hint: info.Hint,
		Settled: info.Settled, Retryable: info.Retryable,
		RetryAfterMs: uint32(e.RetryAfter.Milliseconds()), Head: uint64(e.Head), RequestId: e.Request,
	}
}

// ErrorOf is what ErrorFrame wrote.
func ErrorOf(f *petrelv1.Error) *im.Error {
	return &im.Error{
		Code: im.Code(f.Code), Message: f.Message, RetryAfter: time.Duration(f.RetryAfterMs) * time.Millisecond,
		Head: im.Seq(f.Head), Request: f.RequestId,
	}
}

// KickFrame is e as the announcement that the connection ends with it.
func KickFrame(e *im.Error) *petrelv1.ServerFrame {
	return &petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Kick{Kick: &petrelv1.Kick{
		Code: string(e.Code), Message: e.Error(),
		Reconnect: e.Code.Info().Reconnect, ReconnectAfterMs: uint32(e.RetryAfter.Milliseconds()),
	}}}
}
