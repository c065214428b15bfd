package gateway

import (
	"math"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/wire"
)

// framer cuts the bytes of a connection into frames. It has a buffer only for an incomplete frame. Only the
// connection's reading goroutine touches it.
type framer struct {
	framing wire.Framing
	codec   codec
	frags   uint16   // fragments of one message at most; 0: maxFragments
	limit   int32    // bytes of one message; negative: maxLength; conn.input sets it for each read
	part    *partial // nil while nothing is incomplete
}

// codec is the encoding of the frames, which the first frame decides. Spec: P-1.3.
type codec uint8

const (
	noCodec codec = iota
	jsonCodec
	protoCodec
)

// partial has the bytes so far of an incomplete frame or message.
type partial struct {
	rest  []byte // the beginning of a frame, as it came
	msg   []byte // the fragments so far of a message, unmasked
	frags int    // number of these fragments
}

// frame is one complete message of the peer, or a control frame of WebSocket.
// The payload of a message is never changed again; that of a control frame is
// only valid during the call.
type frame struct {
	op      byte
	payload []byte
}

// fault ends a connection. broken: the WebSocket framing itself violates RFC 6455. That has a close code of its
// own.
type fault struct {
	err    *im.Error
	broken bool
}

// stopped makes cut return although there is no fault: emit takes no further frames.
var stopped = &fault{}

func badFrame(format string, args ...any) *fault {
	return &fault{err: im.Errorf(im.CodeBadFrame, format, args...)}
}

func brokenFrame(text string) *fault {
	return &fault{err: im.Errorf(im.CodeBadFrame, "%s", text), broken: true}
}

// maxLength is the length of the largest frame, even without a limit: on TCP the first byte of a length is always
// zero. Spec: P-1.3.
const maxLength = 1<<24 - 1

// tooLarge returns the fault of a frame of n bytes; nil: it is within the limit. Spec: P-2.5.
func (f *framer) tooLarge(n uint64) *fault {
	limit := f.limit
	if limit < 0 {
		limit = maxLength
	}
	if n <= uint64(limit) {
		return nil
	}
	if n > math.MaxInt64 {
		n = math.MaxInt64
	}
	return &fault{err: im.Errorf(im.CodeFrameTooLarge, "a frame of at least %d bytes is larger than the limit of %d", n,
		limit)}
}

// cut passes every frame that b completes to emit, in order, and keeps a copy of an incomplete rest. It may
// change b and does not keep it. It returns the first fault, of the framing or of emit. After a fault the framer
// must not be used.
func (f *framer) cut(b []byte, emit func(frame) *fault) *fault {
	old := 0
	if f.part != nil && len(f.part.rest) > 0 {
		old = len(f.part.rest)
		b = append(f.part.rest, b...)
		f.part.rest = b
	}
	if len(b) == 0 {
		return nil
	}
	var n int
	var ft *fault
	if f.framing == wire.WebSocket {
		n, ft = f.cutWebSocket(b, emit)
	} else {
		n, ft = f.cutTCP(b, old, emit)
	}
	if ft != nil {
		f.part = nil
		return ft
	}
	f.keep(b[n:], old > 0)
	return nil
}

// keep stores the beginning of a frame, or frees the buffer if rest is empty. own means that rest is in the buffer
// of the framer.
func (f *framer) keep(rest []byte, own bool) {
	switch {
	case len(rest) > 0:
		if f.part == nil {
			f.part = &partial{}
		}
		if own && len(rest) == len(f.part.rest) { // no frame was complete: the buffer stays
			return
		}
		if own && cap(f.part.rest) <= 4*len(rest)+1024 { // else a small rest would hold a big read's buffer
			f.part.rest = f.part.rest[:copy(f.part.rest, rest)]
		} else {
			f.part.rest = append([]byte(nil), rest...)
		}
	case f.part != nil && f.part.frags == 0:
		f.part = nil
	case f.part != nil:
		f.part.rest = nil
	}
}
