package wire

import (
	"encoding/binary"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// messageTag is the first byte of every message in an Events frame: field 1,
// length-delimited. Rows keep messages in this form, so it is also the first byte
// of the wire part of every row.
const messageTag = 0x0A

// AppendMessage appends m as one message of an Events frame. The store keeps
// messages in this form, so history and fan-out copy bytes and encode nothing.
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

// maxEventsBytes is the size at which AppendEvents begins a new frame. It is far
// below the frame limit of any client, and large enough that hundreds of messages
// share one header. A single message may be larger.
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
			dst = appendText(dst, e.Framing, eventsJSON(messages[:n]))
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

func eventsJSON(messages [][]byte) []byte {
	b := []byte(`{"events":{"messages":[`)
	for i, m := range messages {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendMessageJSON(b, m)
	}
	return append(b, "]}}"...)
}

// appendMessageJSON appends one stored message in the canonical JSON mapping of
// protobuf.
func appendMessageJSON(dst, stored []byte) []byte {
	var m petrelv1.Message
	err := ParseMessage(stored, &m)
	if err == nil {
		if out, err := (protojson.MarshalOptions{}).MarshalAppend(dst, &m); err == nil {
			return out
		}
	}
	// The stored bytes are damaged. The client gets an empty message, so it asks
	// for the history, and that reports the damage.
	return append(dst, "{}"...)
}
