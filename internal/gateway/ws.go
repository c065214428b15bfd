package gateway

import (
	"cmp"
	"encoding/binary"
	"unicode/utf8"

	"github.com/gobwas/ws"

	"github.com/petrel-im/petrel/internal/im"
)

// Opcodes of RFC 6455. On TCP a JSON frame counts as text, a protobuf frame as
// binary.
const (
	opContinuation byte = 0x0
	opText         byte = 0x1
	opBinary       byte = 0x2
	opClose        byte = 0x8
	opPing         byte = 0x9
	opPong         byte = 0xA
)

const (
	maxFragments  = 16  // of one message; clients need only one
	maxControl    = 125 // bytes of a control frame's payload, RFC 6455 5.5
	closeProtocol = 1002
	closeBadText  = 1007
)

// header is the header of a client's WebSocket frame.
type header struct {
	op     byte
	fin    bool
	rsv    bool
	masked bool
	mask   [4]byte
	size   int    // bytes of the header itself
	length uint64 // bytes of the payload
	padded bool   // the length is not in its shortest form
}

// readHeader reads a header from the beginning of b. It returns false if the header is incomplete. Then only the
// fields in its first two bytes are set, if b has these.
func readHeader(b []byte, h *header) bool {
	if len(b) < 2 {
		return false
	}
	h.op, h.fin, h.rsv = b[0]&0x0F, b[0]&0x80 != 0, b[0]&0x70 != 0
	h.masked, h.length, h.size, h.padded = b[1]&0x80 != 0, uint64(b[1]&0x7F), 2, false
	short := h.length
	switch short {
	case 126:
		h.size += 2
	case 127:
		h.size += 8
	}
	if h.masked {
		h.size += 4
	}
	if len(b) < h.size {
		return false
	}
	switch short {
	case 126:
		h.length = uint64(binary.BigEndian.Uint16(b[2:]))
		h.padded = h.length < 126
	case 127:
		h.length = binary.BigEndian.Uint64(b[2:])
		h.padded = h.length < 1<<16
	}
	if h.masked {
		copy(h.mask[:], b[h.size-4:])
	}
	return true
}

// complete returns how many bytes of b are complete frames.
func complete(b []byte) int {
	var h header
	n := 0
	for readHeader(b[n:], &h) && h.length <= uint64(len(b)-n-h.size) {
		n += h.size + int(h.length)
	}
	return n
}

func (f *framer) cutWebSocket(b []byte, emit func(frame) *fault) (n int, ft *fault) {
	end := complete(b)
	if end > 0 {
		whole := append([]byte(nil), b[:end]...) // one buffer, which the session keeps slices of
		for n < end {
			var h header
			readHeader(whole[n:], &h)
			if ft := f.check(&h, true); ft != nil {
				return n, ft
			}
			payload := whole[n+h.size : n+h.size+int(h.length) : n+h.size+int(h.length)]
			ws.Cipher(payload, h.mask, 0)
			n += h.size + int(h.length)
			if ft := f.accept(&h, payload, emit); ft != nil {
				return n, ft
			}
		}
	}
	var h header
	all := readHeader(b[n:], &h)
	if len(b)-n >= 2 {
		ft = f.check(&h, all)
	}
	return n, ft
}

// check checks a header. The payload need not have come. all is false while only the first two bytes of the header
// are known. The first message decides the codec. Spec: P-1.5, P-2.5.
func (f *framer) check(h *header, all bool) *fault {
	switch {
	case h.rsv:
		return brokenFrame("a reserved bit of a WebSocket frame is set")
	case !h.masked && h.op != opClose: // Caddy up to 2.6.2 sends the close of its own without a mask
		return &fault{err: &im.Error{Code: im.CodeUnmasked}}
	case h.op >= opClose && (h.op > opPong || !h.fin || h.length > maxControl || h.padded):
		return brokenFrame("a WebSocket control frame is unknown, fragmented or too long")
	case h.op > opBinary && h.op < opClose:
		return brokenFrame("a WebSocket frame has an unknown opcode")
	case h.op >= opClose:
		return nil
	}
	frags, before := 0, 0
	if f.part != nil {
		frags, before = f.part.frags, len(f.part.msg)
	}
	if (h.op == opContinuation) != (frags > 0) {
		return brokenFrame("the fragments of WebSocket messages are mixed up")
	}
	if frags >= cmp.Or(int(f.frags), maxFragments) {
		return brokenFrame("a WebSocket message has too many fragments")
	}
	if h.op != opContinuation {
		if ft := f.choose(h.op); ft != nil {
			return ft
		}
	}
	if !all { // the result must not depend on how the bytes were divided into reads
		return nil
	}
	if h.padded {
		return brokenFrame("the length of a WebSocket frame is not in its shortest form")
	}
	if ft := f.tooLarge(h.length); ft != nil {
		return ft
	}
	return f.tooLarge(uint64(before) + h.length)
}

// choose compares a message's opcode with the codec of the connection, which the first message
// decides.
func (f *framer) choose(op byte) *fault {
	c := protoCodec
	if op == opText {
		c = jsonCodec
	}
	if f.codec == noCodec {
		f.codec = c
	}
	if f.codec != c {
		return badFrame("the frame is in the other codec than the first one")
	}
	return nil
}

// accept takes one complete frame, and passes on the message that it completes.
func (f *framer) accept(h *header, payload []byte, emit func(frame) *fault) *fault {
	switch {
	case h.op >= opClose:
		return emit(frame{h.op, payload})
	case h.fin && h.op != opContinuation:
		return emit(frame{h.op, payload})
	}
	if f.part == nil {
		f.part = &partial{}
	}
	p := f.part
	p.msg = append(p.msg, payload...)
	p.frags++
	if !h.fin {
		return nil
	}
	op := opBinary
	if f.codec == jsonCodec {
		op = opText
	}
	msg := p.msg
	p.msg, p.frags = nil, 0
	return emit(frame{op, msg})
}

// appendClose appends a close frame of the server; reason has at most 123 bytes.
func appendClose(dst []byte, code int, reason string) []byte {
	dst = append(dst, 0x80|opClose, byte(2+len(reason)), byte(code>>8), byte(code))
	return append(dst, reason...)
}

// appendPong appends the answer to a ping.
func appendPong(dst, payload []byte) []byte {
	return append(append(dst, 0x80|opPong, byte(len(payload))), payload...)
}

// closeAnswer returns the code with which the server answers a close frame: the peer's own code, or the code of a
// fault in the frame; 0: the peer gave none.
func closeAnswer(payload []byte) int {
	switch {
	case len(payload) == 0:
		return 0
	case len(payload) == 1:
		return closeProtocol
	case !utf8.Valid(payload[2:]):
		return closeBadText
	}
	code := int(binary.BigEndian.Uint16(payload))
	switch {
	case code >= 1000 && code <= 1003, code >= 1007 && code <= 1014, code >= 3000 && code <= 4999:
		return code
	}
	return closeProtocol
}
