package conv

import (
	"encoding/binary"

	"github.com/dchest/siphash"
	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// hasher makes the keyed hashes of dedupe. The key is the store's secret, so
// nobody outside can make hashes meet.
type hasher struct{ secret [16]byte }

func (h hasher) sum(b []byte) uint64 {
	return siphash.Hash(binary.LittleEndian.Uint64(h.secret[:8]), binary.LittleEndian.Uint64(h.secret[8:]), b)
}

// id hashes a sender and its client message id.
func (h hasher) id(u im.User, k string) uint64 {
	var buf [im.MaxUser + MaxClientMsgID + 1]byte
	b := append(buf[:0], byte(len(u)))
	b = append(b, u...)
	return h.sum(append(b, k...))
}

// first hashes what a repeat of s must bring again to count as one: its first
// type and body, and the title of a group that it makes.
func (h hasher) first(s *Send) uint64 {
	mac := h.body(&s.Entry)
	if s.Create == nil {
		return mac
	}
	return h.sum(append(binary.BigEndian.AppendUint64(nil, mac), s.Create.Title...))
}

func (h hasher) body(m *petrelv1.Message) uint64 {
	var buf [512]byte
	b := append(buf[:0], byte(len(m.Type)))
	b = append(b, m.Type...)
	switch body := m.Body.(type) {
	case *petrelv1.Message_Text:
		b = append(append(b, 't'), body.Text...)
	case *petrelv1.Message_Data:
		b = append(append(b, 'd'), body.Data...)
	default:
		only := petrelv1.Message{Body: m.Body}
		// Maps in one order: the same settings are the same body.
		enc, err := proto.MarshalOptions{Deterministic: true}.Marshal(&only)
		im.Assert(err == nil, "encode an entry's body: %v", err)
		b = append(append(b, 'e'), enc...)
	}
	return h.sum(b)
}
