// Package wire encodes and decodes the frames between clients and server, in two codecs (JSON and protobuf) and
// two framings (WebSocket and TCP).
//
// Begin with encoding.go. decode.go decodes the frames of clients, after valuelimit.go has counted their values.
// frameid.go finds the id of a frame that is refused, and surrogate.go finds lone halves of surrogate pairs.
// events.go, errorframes.go and largeframe.go encode the frames of the server; serverframe.go reads them back.
// querysecret.go finds secrets in URLs. reader.go and writer.go read and write the JSON of protojson without
// reflection.
//
// The package knows only the bytes of a frame. It may not know connections, sessions or what a frame means. The
// generated schema is in sdk/go/petrelv1. Spec: P-1, P-2.
package wire

import (
	"encoding/binary"
	"slices"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Codec is how the content of a frame is encoded. The first frame of a connection
// decides which codec the connection has. Spec: P-1.3.
type Codec uint8

// The codecs.
const (
	JSON Codec = iota
	Proto
)

func (c Codec) String() string { return [...]string{"json", "protobuf"}[c] }

// Framing is how a reader finds the end of a frame.
type Framing uint8

// The framings. On TCP a JSON frame ends with a newline, and a protobuf frame
// begins with its length in 4 bytes, big-endian. The first of these bytes is
// always 0, so it cannot be mistaken for the { of a JSON frame.
const (
	WebSocket Framing = iota
	TCP
)

// Encoding is a codec and a framing. Connections of one encoding get the same
// bytes for the same frame.
type Encoding struct {
	Codec   Codec
	Framing Framing
}

// Encodings is the number of different encodings.
const Encodings = 4

// Index numbers the encodings: 0..Encodings-1.
func (e Encoding) Index() int { return int(e.Codec)<<1 | int(e.Framing) }

// EncodingAt returns the encoding that has index i.
func EncodingAt(i int) Encoding { return Encoding{Codec(i >> 1), Framing(i & 1)} }

// MaxHeader is the largest number of bytes that a framing writes before a frame.
const MaxHeader = 10

// AppendFrame appends f in the codec and framing of e.
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
	w := jsonWriter{b: dst}
	w.writeServerFrame(f)
	if !w.refused {
		return frameText(w.b, fr, len(dst))
	}
	out, err := protojson.MarshalOptions{}.MarshalAppend(dst, f)
	if err != nil { // a text that is not UTF-8: Decode should have refused it
		out = append(dst, `{"error":{"code":"internal"}}`...)
	}
	return frameText(out, fr, len(dst))
}

// frameText adds the framing to the JSON text that begins at b[from].
func frameText(b []byte, fr Framing, from int) []byte {
	if fr == TCP {
		return append(b, '\n')
	}
	var header [MaxHeader]byte
	return slices.Insert(b, from, appendHeader(header[:0], Encoding{JSON, fr}, len(b)-from)...)
}

// appendHeader appends the bytes that the framing writes before a frame of n
// bytes.
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

// grow makes b longer by n bytes, whose content is undefined.
func grow(b []byte, n int) []byte {
	for cap(b)-len(b) < n {
		b = append(b[:cap(b)], 0)[:len(b)]
	}
	return b[:len(b)+n]
}
