package conv

import (
	"encoding/binary"

	"github.com/dchest/siphash"
	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// hasher makes the keyed hashes of dedupe. The key is the store's secret, so
// that no client can construct two messages with the same hash.
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

// first hashes the parts in which a repeat of s must be equal: its first type, body and rel, and
// the title of a group that it makes.
func (h hasher) first(s *Send) uint64 {
	mac := h.body(&s.Entry)
	if s.Create == nil {
		return mac
	}
	return h.sum(append(binary.BigEndian.AppendUint64(nil, mac), s.Create.Title...))
}

// body hashes the normal form of a type, a body and a rel: a client that leaves the type
// out in one attempt and writes "text" in the next one means the same. Spec: P-4.2, P-4.4.
func (h hasher) body(m *petrelv1.Message) uint64 {
	var buf [512]byte
	b := buf[:0]
	if m.Rel != nil {
		b = appendRelations(b, m.Rel)
	}
	typ := normalType(m.Type)
	b = append(b, byte(len(typ)))
	b = append(b, typ...)
	switch body := m.Body.(type) {
	case *petrelv1.Message_Text:
		b = append(append(b, 't'), body.Text...)
	case *petrelv1.Message_Data:
		b = append(append(b, 'd'), body.Data...)
	case nil: // a forward, whose rel names what it copies
	default:
		only := petrelv1.Message{Body: m.Body}
		if e := m.GetEdit(); e.GetType() != normalType(e.GetType()) {
			normal := proto.CloneOf(e)
			normal.Type = normalType(e.Type)
			only.Body = &petrelv1.Message_Edit{Edit: normal}
		}
		// Maps are written in one order: the same settings are the same body.
		enc, err := proto.MarshalOptions{Deterministic: true}.Marshal(&only)
		im.Assert(err == nil, "encode an entry's body: %v", err)
		b = append(append(b, 'e'), enc...)
	}
	return h.sum(b)
}

// appendRelations appends a rel. Its first byte is larger than any length of a type. So messages with a rel
// and those without one are never hashed from the same bytes.
func appendRelations(b []byte, rel *petrelv1.Relations) []byte {
	const mark = 0xFF
	enc, err := rel.MarshalVT()
	im.Assert(err == nil, "encode a rel: %v", err)
	b = binary.AppendUvarint(append(b, mark), uint64(len(enc)))
	return append(b, enc...)
}

// normalType returns a type as it is hashed. A type that is left out means text.
func normalType(t string) string {
	if t == "text" {
		return ""
	}
	return t
}

// MaxScan is how many rows below the head are searched for a repeat. A client whose after is older has to
// catch up first. Spec: P-4.7.
const MaxScan = 10_000

// minTail is how many hashes a busy conversation keeps at least.
const minTail = 1024

// tail holds the hashes of (sender, client message id) of the newest rows, so
// that a repeat is found without a second index. It covers the seqs above from.
type tail struct {
	from   im.Seq
	hashes []uint64 // of from+1, from+2, ...
	keep   int      // how many hashes stay after a trim; a scan for an old after raises it
}

func (t *tail) add(h uint64) {
	keep := max(t.keep, minTail)
	if len(t.hashes) >= 2*keep {
		n := copy(t.hashes, t.hashes[len(t.hashes)-keep:])
		t.from += im.Seq(len(t.hashes) - n)
		t.hashes = t.hashes[:n]
	}
	t.hashes = append(t.hashes, h)
}

// extend puts the hashes of older rows, from+1 up to the former t.from, in front.
func (t *tail) extend(from im.Seq, older []uint64) {
	t.hashes = append(older, t.hashes...)
	t.from = from
	t.keep = max(t.keep, len(t.hashes))
}

// cut forgets the rows above head.
func (t *tail) cut(head im.Seq) {
	if t.from > head {
		*t = tail{from: head}
		return
	}
	t.hashes = t.hashes[:head-t.from]
}

// find calls match for each seq above after whose hash is h, newest first, until match returns
// true.
func (t *tail) find(after im.Seq, h uint64, match func(im.Seq) bool) bool {
	low := 0
	if after > t.from {
		low = int(after - t.from)
	}
	for i := len(t.hashes) - 1; i >= low; i-- {
		if t.hashes[i] == h && match(t.from+1+im.Seq(i)) {
			return true
		}
	}
	return false
}
