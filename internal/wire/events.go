package wire

import (
	"encoding/binary"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// messageTag is the first byte of every message in an Events frame: field 1,
// length-delimited. Rows keep messages in this form, so it is also the first byte
// of the wire part of every row.
const messageTag = 0x0A

// AppendMessage appends m as one message of an Events frame. The store keeps messages in this form, so an Events
// frame in protobuf is a copy of stored bytes. Frames in JSON and pages of history have to decode them.
func AppendMessage(dst []byte, m *petrelv1.Message) []byte {
	n := m.SizeVT()
	dst = append(dst, messageTag)
	dst = binary.AppendUvarint(dst, uint64(n))
	dst = grow(dst, n)
	_, _ = m.MarshalToSizedBufferVT(dst[len(dst)-n:]) // cannot fail: the size is right
	return dst
}

// ParseMessage reads what AppendMessage wrote. The strings and bytes of m share
// the memory of b.
func ParseMessage(b []byte, m *petrelv1.Message) error {
	if len(b) == 0 || b[0] != messageTag {
		return fmt.Errorf("read message: wrong tag")
	}
	v, n := protowire.ConsumeBytes(b[1:])
	if n < 0 || 1+n != len(b) {
		return fmt.Errorf("read message: wrong length")
	}
	return m.UnmarshalVTUnsafe(v)
}

// Sender returns the user who sent the message in b, which AppendMessage wrote; empty if the server sent it, or
// if b cannot be read.
func Sender(b []byte) im.User {
	var m petrelv1.Message
	if ParseMessage(b, &m) != nil {
		return ""
	}
	return im.User(strings.Clone(m.From))
}

// maxEventsBytes is the largest size of the messages in one Events frame. It is far below the frame limit of any
// client, and large enough that hundreds of messages share one header. A single message may be larger.
const maxEventsBytes = 32 << 10

// AppendEvents appends messages, in their order, as one or more Events frames.
// Each message is in the form of AppendMessage.
func AppendEvents(dst []byte, e Encoding, messages [][]byte) []byte {
	for len(messages) > 0 {
		n, size := 0, 0
		for n < len(messages) && (n == 0 || size+len(messages[n]) <= maxEventsBytes) {
			size += len(messages[n])
			n++
		}
		if e.Codec == JSON {
			from := len(dst)
			dst = frameText(appendEventsJSON(dst, messages[:n]), e.Framing, from)
		} else {
			const eventsTag = 5<<3 | 2
			dst = appendHeader(dst, e, 1+protowire.SizeBytes(size))
			dst = append(dst, eventsTag)
			dst = binary.AppendUvarint(dst, uint64(size))
			for _, m := range messages[:n] {
				dst = append(dst, m...)
			}
		}
		messages = messages[n:]
	}
	return dst
}

func appendEventsJSON(dst []byte, messages [][]byte) []byte {
	w := jsonWriter{b: append(dst, `{"events":{"messages":[`...)}
	for _, stored := range messages {
		w.element()
		w.storedMessage(stored)
	}
	return append(w.b, "]}}"...)
}

// storedMessage writes one stored message.
func (w *jsonWriter) storedMessage(stored []byte) {
	var m petrelv1.Message
	before := len(w.b)
	if ParseMessage(stored, &m) == nil {
		w.writeMessage(&m)
		if !w.refused {
			return
		}
	}
	*w = jsonWriter{b: appendMessageSlowly(w.b[:before], stored)}
}

// appendMessageSlowly appends a stored message that jsonWriter refuses. It is a
// function of its own so that the message of storedMessage stays on the stack.
func appendMessageSlowly(dst, stored []byte) []byte {
	var m petrelv1.Message
	if ParseMessage(stored, &m) == nil {
		if out, err := (protojson.MarshalOptions{}).MarshalAppend(dst, &m); err == nil {
			return out
		}
	}
	// The stored bytes are damaged. The client gets an empty message, so it asks for the history, and that
	// reports the damage.
	return append(dst, "{}"...)
}

// Ack is the answer to a send whose message is stored.
type Ack struct {
	ID     uint64 // of the send's frame
	Conv   string // set if the send named a user and no conversation
	Seq    uint64
	TimeMs uint64

	Counted uint64
	ThreadN uint64
	Message []byte // nil, or the entry, as AppendMessage writes it
}

// AppendAck appends a as a frame. It writes the same bytes as AppendFrame, but
// allocates no ServerFrame: every message has an ack.
func AppendAck(dst []byte, e Encoding, a Ack) []byte {
	if e.Codec == JSON {
		ack := petrelv1.Ack{Conv: a.Conv, Seq: a.Seq, TimeMs: a.TimeMs, Counted: a.Counted, ThreadN: a.ThreadN}
		if len(a.Message) > 0 {
			ack.Message = &petrelv1.Message{}
			// of damaged bytes the client gets a part, and asks for the history: that reports the damage
			_ = ParseMessage(a.Message, ack.Message)
		}
		w := jsonWriter{b: dst}
		w.writeServerFrame(&petrelv1.ServerFrame{Id: a.ID, Body: &petrelv1.ServerFrame_Ack{Ack: &ack}})
		return frameText(w.b, e.Framing, len(dst))
	}
	n := varintField(a.Seq) + varintField(a.TimeMs) + varintField(a.Counted) + varintField(a.ThreadN) + len(a.Message)
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
	dst = appendVarintField(dst, 3, a.TimeMs)
	dst = appendVarintField(dst, 4, a.Counted)
	if len(a.Message) > 0 { // it has the tag of a field 1
		dst = append(append(dst, 5<<3|2), a.Message[1:]...)
	}
	return appendVarintField(dst, 6, a.ThreadN)
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
