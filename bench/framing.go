package bench

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/gobwas/ws"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// maxServerFrame is the longest frame that a client has to take. P-2.5
const maxServerFrame = 16<<20 - 1 // bytes

var (
	errFrameTooLong = errors.New("server frame is longer than 16 MiB")
	errFraming      = errors.New("broken framing of the server")
)

// split finds the first frame in b: its content and its length with the framing. n is 0 while the frame is
// not complete. op is the opcode of a WebSocket frame. TCP has none: there op is the one for the codec.
func split(e wire.Encoding, b []byte) (content []byte, n int, op ws.OpCode, err error) {
	switch {
	case e.Framing == wire.WebSocket:
		return splitWebSocket(b)
	case e.Codec == wire.JSON:
		for i, c := range b {
			if c == '\n' {
				return b[:i], i + 1, ws.OpText, nil
			}
		}
		if len(b) > maxServerFrame {
			return nil, 0, 0, errFrameTooLong
		}
		return nil, 0, 0, nil
	case len(b) < 4:
		return nil, 0, 0, nil
	}
	size := int(binary.BigEndian.Uint32(b))
	if size > maxServerFrame {
		return nil, 0, 0, errFrameTooLong
	}
	if len(b) < 4+size {
		return nil, 0, 0, nil
	}
	return b[4 : 4+size], 4 + size, ws.OpBinary, nil
}

// This file reads and writes headers of WebSocket itself. gobwas/ws, which makes the connections and masks, reads
// a header from an io.Reader and allocates for each one. Measured: with it the generator needs 2.8 instead of 2.1
// µs for a direct message. In a group it needs 54 instead of 49 % of the CPU time that the server needs, and a
// report complains of more than half.

func splitWebSocket(b []byte) (content []byte, n int, op ws.OpCode, err error) {
	if len(b) < 2 {
		return nil, 0, 0, nil
	}
	// FIN set, no reserved bit, not masked; this server never fragments.
	if b[0]&0xF0 != 0x80 || b[1]&0x80 != 0 {
		return nil, 0, 0, errFraming
	}
	size, head := int(b[1]), 2
	switch size {
	case 126:
		if len(b) < 4 {
			return nil, 0, 0, nil
		}
		size, head = int(binary.BigEndian.Uint16(b[2:])), 4
	case 127:
		if len(b) < 10 {
			return nil, 0, 0, nil
		}
		long := binary.BigEndian.Uint64(b[2:])
		if long > maxServerFrame {
			return nil, 0, 0, errFrameTooLong
		}
		size, head = int(long), 10
	}
	if len(b) < head+size {
		return nil, 0, 0, nil
	}
	return b[head : head+size], head + size, ws.OpCode(b[0] & 15), nil
}

// beginFrame appends the header of a client frame with n bytes of content; JSON over TCP has none. The caller appends
// the content and calls endFrame.
func beginFrame(dst []byte, e wire.Encoding, op ws.OpCode, n int, mask [4]byte) []byte {
	if e.Framing == wire.TCP {
		if e.Codec == wire.JSON {
			return dst
		}
		return binary.BigEndian.AppendUint32(dst, uint32(n))
	}
	dst = append(dst, 0x80|byte(op))
	switch {
	case n < 126:
		dst = append(dst, 0x80|byte(n))
	case n < 1<<16:
		dst = append(dst, 0x80|126, byte(n>>8), byte(n))
	default:
		dst = binary.BigEndian.AppendUint64(append(dst, 0x80|127), uint64(n))
	}
	return append(dst, mask[:]...)
}

// endFrame finishes a frame whose content begins at dst[from]: it masks the content for WebSocket, and appends a line
// feed to JSON over TCP.
func endFrame(dst []byte, e wire.Encoding, from int, mask [4]byte) []byte {
	if e.Framing == wire.WebSocket {
		ws.Cipher(dst[from:], mask, 0)
	} else if e.Codec == wire.JSON {
		dst = append(dst, '\n')
	}
	return dst
}

// dataOp returns the WebSocket opcode of a codec's frames.
func dataOp(c wire.Codec) ws.OpCode {
	if c == wire.JSON {
		return ws.OpText
	}
	return ws.OpBinary
}

// appendClientFrame appends any frame of a client; the sends of a run go through appendSend instead.
func appendClientFrame(dst []byte, e wire.Encoding, f *petrelv1.ClientFrame, mask [4]byte) ([]byte, error) {
	var b []byte
	var err error
	if e.Codec == wire.JSON {
		b, err = protojson.Marshal(f)
	} else {
		b, err = f.MarshalVT()
	}
	if err != nil {
		return dst, fmt.Errorf("write client frame %d: %w", f.Id, err)
	}
	dst = beginFrame(dst, e, dataOp(e.Codec), len(b), mask)
	from := len(dst)
	return endFrame(append(dst, b...), e, from, mask), nil
}

// decodeServerFrame decodes a frame of any kind. It is slower than scan, which reads most frames.
func decodeServerFrame(c wire.Codec, b []byte) (*petrelv1.ServerFrame, error) {
	f := &petrelv1.ServerFrame{}
	var err error
	if c == wire.JSON {
		err = protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(b, f)
	} else {
		err = f.UnmarshalVT(b)
	}
	if err != nil {
		return nil, fmt.Errorf("read server frame: %w", err)
	}
	return f, nil
}

// outgoing is a send in its wire form.
type outgoing struct {
	id     uint64 // of the frame
	conv   string // one of conv and user
	user   string
	after  uint64
	msg    proof
	corpus *corpus
}

// appendSend appends the frame of a send and returns its size without the framing, which is what counts against
// the window of P-4.6.
func appendSend(dst []byte, e wire.Encoding, o *outgoing, mask [4]byte) (frame []byte, size int) {
	if e.Codec == wire.JSON {
		return appendSendJSON(dst, e, o, mask)
	}
	target, tag := o.conv, byte(1<<3|2)
	if target == "" {
		target, tag = o.user, 2<<3|2
	}
	body := o.corpus.size
	n := 1 + protowire.SizeBytes(len(target)) + 1 + protowire.SizeBytes(idBytes) +
		1 + protowire.SizeVarint(o.after) + 1 + protowire.SizeBytes(body)
	size = 1 + protowire.SizeVarint(o.id) + 1 + protowire.SizeBytes(n)
	dst = beginFrame(dst, e, ws.OpBinary, size, mask)
	from := len(dst)
	dst = binary.AppendUvarint(append(dst, 1<<3), o.id)
	dst = binary.AppendUvarint(append(dst, 3<<3|2), uint64(n))
	dst = binary.AppendUvarint(append(dst, tag), uint64(len(target)))
	dst = append(dst, target...)
	dst = append(dst, 3<<3|2, idBytes)
	dst = o.corpus.appendID(dst, o.msg.sender, o.msg.number)
	dst = binary.AppendUvarint(append(dst, 4<<3), o.after)
	dst = binary.AppendUvarint(append(dst, 6<<3|2), uint64(body))
	dst = o.corpus.appendBody(dst, o.msg)
	return endFrame(dst, e, from, mask), size
}

// appendSendJSON is appendSend in JSON. Ids, user ids and bodies of a run hold nothing that JSON escapes.
func appendSendJSON(dst []byte, e wire.Encoding, o *outgoing, mask [4]byte) (frame []byte, size int) {
	var head [256]byte
	b := appendQuotedNumber(append(head[:0], `{"id":`...), o.id)
	if o.conv != "" {
		b = append(append(b, `,"send":{"conv":"`...), o.conv...)
	} else {
		b = append(append(b, `,"send":{"user":"`...), o.user...)
	}
	b = append(b, `","clientMsgId":"`...)
	b = o.corpus.appendID(b, o.msg.sender, o.msg.number)
	b = appendQuotedNumber(append(b, `","after":`...), o.after)
	b = append(b, `,"text":"`...)
	const tail = `"}}`
	size = len(b) + o.corpus.size + len(tail)
	dst = beginFrame(dst, e, ws.OpText, size, mask)
	from := len(dst)
	dst = o.corpus.appendBody(append(dst, b...), o.msg)
	return endFrame(append(dst, tail...), e, from, mask), size
}

// appendQuotedNumber appends v as a JSON string, as proto3 JSON wants 64-bit numbers.
func appendQuotedNumber(dst []byte, v uint64) []byte {
	var b [20]byte
	i := len(b)
	for {
		i--
		b[i] = byte('0' + v%10)
		if v /= 10; v == 0 {
			break
		}
	}
	dst = append(append(dst, '"'), b[i:]...)
	return append(dst, '"')
}
