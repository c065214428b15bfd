package wire

import (
	"encoding/binary"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

// Ack is the answer to a send whose message is stored.
type Ack struct {
	ID     uint64 // of the send's frame
	Conv   string // set if the send named a user and no conversation
	Seq    uint64
	TimeMs uint64
}

// AppendAck appends a as a frame. It writes the same bytes as AppendFrame, but
// does not build a ServerFrame first: every message has an ack, and building it
// costs an allocation each time.
func AppendAck(dst []byte, e Encoding, a Ack) []byte {
	if e.Codec == JSON {
		var text [192]byte
		return appendText(dst, e.Framing, a.appendJSON(text[:0]))
	}
	n := varintField(a.Seq) + varintField(a.TimeMs)
	if a.Conv != "" {
		n += 1 + protowire.SizeBytes(len(a.Conv))
	}
	dst = appendHeader(dst, e, varintField(a.ID)+1+protowire.SizeBytes(n))
	dst = appendVarintField(dst, 1, a.ID)
	dst = append(dst, 3<<3|2)
	dst = binary.AppendUvarint(dst, uint64(n))
	if a.Conv != "" {
		dst = append(dst, 1<<3|2)
		dst = protowire.AppendString(dst, a.Conv)
	}
	dst = appendVarintField(dst, 2, a.Seq)
	return appendVarintField(dst, 3, a.TimeMs)
}

// varintField returns how many bytes a field with a varint takes.
func varintField(v uint64) int {
	if v == 0 {
		return 0
	}
	return 1 + protowire.SizeVarint(v)
}

func appendVarintField(dst []byte, field byte, v uint64) []byte {
	if v == 0 {
		return dst
	}
	return binary.AppendUvarint(append(dst, field<<3), v)
}

func (a Ack) appendJSON(b []byte) []byte {
	b = append(b, '{')
	if a.ID != 0 {
		b = appendNumberJSON(b, `"id":"`, a.ID)
		b = append(b, ',')
	}
	b = append(b, `"ack":{`...)
	empty := len(b)
	if a.Conv != "" { // a conversation id: no character of it needs escaping
		b = append(b, `"conv":"`...)
		b = append(b, a.Conv...)
		b = append(b, '"')
	}
	for _, f := range [...]struct {
		name  string
		value uint64
	}{{`"seq":"`, a.Seq}, {`"timeMs":"`, a.TimeMs}} {
		if f.value == 0 {
			continue
		}
		if len(b) > empty {
			b = append(b, ',')
		}
		b = appendNumberJSON(b, f.name, f.value)
	}
	return append(b, "}}"...)
}

// appendNumberJSON appends a 64-bit number. In the JSON of protobuf it is a text:
// a number in JavaScript has only 53 exact bits.
func appendNumberJSON(b []byte, name string, v uint64) []byte {
	b = append(b, name...)
	b = strconv.AppendUint(b, v, 10)
	return append(b, '"')
}
