package inbox

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// partConvs is the most conversations of one part of a list. A page of a sync of a stored list mostly reads
// one part.
const partConvs = 4096

// items are conversations of a list, ascending by id. They are packed, in some 45 bytes for each. A search
// for news among 10,000 of them reads only ids and at.
type items struct {
	ids   []im.ConvID
	at    []im.Seq
	ends  []uint32 // in texts
	texts []byte   // kind, 1 if the user has left, uvarint since, uvarint length of peer, peer, title
}

func compare(a, b im.ConvID) int { return bytes.Compare(a[:], b[:]) }

// find returns the index of a conversation, or the one at which it would be.
func (s *items) find(id im.ConvID) (int, bool) { return slices.BinarySearchFunc(s.ids, id, compare) }

// text returns the packed part of an item beside its id and at.
func (s *items) text(i int) []byte {
	from := uint32(0)
	if i > 0 {
		from = s.ends[i-1]
	}
	return s.texts[from:s.ends[i]]
}

// item unpacks one item.
func (s *items) item(i int) item {
	b := s.text(i)
	it := item{id: s.ids[i], at: s.at[i], kind: petrelv1.ConvKind(b[0]), left: b[1] != 0}
	since, n := binary.Uvarint(b[2:])
	peer, m := binary.Uvarint(b[2+n:])
	rest := b[2+n+m:]
	it.since, it.peer, it.title = im.Seq(since), string(rest[:peer]), string(rest[peer:])
	return it
}

// add packs an item that comes after all others.
func (s *items) add(it *item) {
	left := byte(0)
	if it.left {
		left = 1
	}
	s.texts = append(s.texts, byte(it.kind), left)
	s.texts = binary.AppendUvarint(s.texts, uint64(it.since))
	s.texts = binary.AppendUvarint(s.texts, uint64(len(it.peer)))
	s.texts = append(append(s.texts, it.peer...), it.title...)
	s.end(it.id, it.at)
}

// copy packs an item of another list that comes after all others.
func (s *items) copy(from *items, i int) {
	s.texts = append(s.texts, from.text(i)...)
	s.end(from.ids[i], from.at[i])
}

func (s *items) end(id im.ConvID, at im.Seq) {
	s.ids, s.at, s.ends = append(s.ids, id), append(s.at, at), append(s.ends, uint32(len(s.texts)))
}

// clip frees the spare capacity of add.
func (s *items) clip() {
	s.ids, s.at, s.ends, s.texts = slices.Clip(s.ids), slices.Clip(s.at), slices.Clip(s.ends), slices.Clip(s.texts)
}

const itemBytes = 16 + 8 + 4 // of an item, beside its text

func (s *items) bytes() int { return len(s.ids)*itemBytes + cap(s.texts) }

// encode returns the stored form of s: all ids, then at of all of them with 8 bytes each, then ends
// with 4 bytes each, then the texts.
func (s *items) encode() []byte {
	b := make([]byte, 0, s.bytes())
	for i := range s.ids {
		b = append(b, s.ids[i][:]...)
	}
	for _, q := range s.at {
		b = binary.BigEndian.AppendUint64(b, uint64(q))
	}
	for _, n := range s.ends {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	return append(b, s.texts...)
}

// decodeItems reads n items. They share the memory of b. Errors: ErrCorrupt.
func decodeItems(b []byte, n int) (*items, error) {
	bad := fmt.Errorf("read %d conversations of a list: %w", n, store.ErrCorrupt)
	if n < 0 || n > partConvs || len(b) < n*itemBytes {
		return nil, bad
	}
	s := &items{ids: make([]im.ConvID, n), at: make([]im.Seq, n), ends: make([]uint32, n), texts: b[n*itemBytes:]}
	for i := range n {
		copy(s.ids[i][:], b[16*i:])
	}
	b = b[16*n:]
	for i := range n {
		s.at[i] = im.Seq(binary.BigEndian.Uint64(b[8*i:]))
	}
	b = b[8*n:]
	from := uint32(0)
	for i := range n {
		to := binary.BigEndian.Uint32(b[4*i:])
		if to < from || int(to) > len(s.texts) || !soundText(s.texts[from:to]) {
			return nil, bad
		}
		s.ends[i], from = to, to
	}
	return s, nil
}

// soundText tells whether item can unpack b.
func soundText(b []byte) bool {
	if len(b) < 4 {
		return false
	}
	_, n := binary.Uvarint(b[2:])
	if n <= 0 {
		return false
	}
	peer, m := binary.Uvarint(b[2+n:])
	return m > 0 && peer <= uint64(len(b)-2-n-m)
}
