package wire

import (
	"encoding/binary"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// messageTag begins every message of an Events frame, and so the wire part of
// every row: field 1, length-delimited.
const messageTag = 0x0A

// AppendMessage appends m as one message of an Events frame: the form in which
// rows keep it, so that history and fan-out copy bytes.
func AppendMessage(dst []byte, m *petrelv1.Message) []byte {
	n := m.SizeVT()
	dst = append(dst, messageTag)
	dst = binary.AppendUvarint(dst, uint64(n))
	dst = grow(dst, n)
	_, _ = m.MarshalToSizedBufferVT(dst[len(dst)-n:]) // cannot fail: the size is right
	return dst
}

// ParseMessage reads what AppendMessage wrote. The strings and bytes of m
// share b.
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

// maxEventsBytes is about how large an Events frame gets before the next one
// begins: far below the frame limit of any client, large enough to share the
// framing among hundreds of messages.
const maxEventsBytes = 32 << 10

// AppendEvents appends Events frames with messages in the form of
// AppendMessage, in their order.
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

// appendMessageJSON writes one stored message in the canonical JSON mapping.
func appendMessageJSON(dst, stored []byte) []byte {
	var m petrelv1.Message
	err := ParseMessage(stored, &m)
	if err == nil {
		if out, err := (protojson.MarshalOptions{}).MarshalAppend(dst, &m); err == nil {
			return out
		}
	}
	return append(dst, "{}"...) // what we stored does not parse: the reader sees an empty message and asks the history, which reports the damage
}
