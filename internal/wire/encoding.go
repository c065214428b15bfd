// Package wire turns frames into bytes and back: two codecs, two framings. The
// generated schema is in petrelv1 below it. Spec: P-1, P-2.
package wire

import (
	"encoding/binary"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Codec is how a frame's content is written. A connection's first frame
// chooses it. Spec: P-1.3.
type Codec uint8

// The codecs.
const (
	JSON Codec = iota
	Proto
)

func (c Codec) String() string { return [...]string{"json", "protobuf"}[c] }

// Framing is how frames follow each other on a connection.
type Framing uint8

// The framings. On TCP, JSON frames end with a newline and protobuf frames
// stand behind a 4-byte big-endian length, whose first byte is always 0.
const (
	WebSocket Framing = iota
	TCP
)

// Encoding is what decides the bytes of a frame sent to a client.
type Encoding struct {
	Codec   Codec
	Framing Framing
}

// Encodings is the number of different encodings; Index is below it.
const Encodings = 4

// Index numbers the encodings, for tables.
func (e Encoding) Index() int { return int(e.Codec)<<1 | int(e.Framing) }

// EncodingAt is the encoding with an index.
func EncodingAt(i int) Encoding { return Encoding{Codec(i >> 1), Framing(i & 1)} }

// MaxHeader is the most bytes that framing adds to a frame.
const MaxHeader = 10

// AppendFrame appends f with its framing.
func AppendFrame(dst []byte, e Encoding, f *petrelv1.ServerFrame) []byte {
	if e.Codec == JSON {
		return appendJSON(dst, e.Framing, f)
	}
	n := f.SizeVT()
	dst = appendHeader(dst, e, n)
	dst = grow(dst, n)
	_, _ = f.MarshalToSizedBufferVT(dst[len(dst)-n:]) // cannot fail: the size is right
	return dst
}

func appendJSON(dst []byte, fr Framing, f *petrelv1.ServerFrame) []byte {
	b, err := protojson.MarshalOptions{}.Marshal(f)
	if err != nil { // a text that is not UTF-8 got past Decode: an error of ours
		b = []byte(`{"error":{"code":"internal"}}`)
	}
	return appendText(dst, fr, b)
}

// appendText frames a JSON text.
func appendText(dst []byte, fr Framing, b []byte) []byte {
	dst = appendHeader(dst, Encoding{JSON, fr}, len(b))
	dst = append(dst, b...)
	if fr == TCP {
		dst = append(dst, '\n')
	}
	return dst
}

// appendHeader appends what stands before a frame of n bytes.
func appendHeader(dst []byte, e Encoding, n int) []byte {
	if e.Framing == TCP {
		if e.Codec == JSON {
			return dst
		}
		return binary.BigEndian.AppendUint32(dst, uint32(n))
	}
	op := byte(0x82) // FIN, binary
	if e.Codec == JSON {
		op = 0x81 // FIN, text
	}
	switch {
	case n < 126:
		return append(dst, op, byte(n))
	case n < 1<<16:
		return append(dst, op, 126, byte(n>>8), byte(n))
	default:
		return binary.BigEndian.AppendUint64(append(dst, op, 127), uint64(n))
	}
}

func grow(b []byte, n int) []byte {
	for cap(b)-len(b) < n {
		b = append(b[:cap(b)], 0)[:len(b)]
	}
	return b[:len(b)+n]
}
