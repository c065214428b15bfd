package pebblestore

import (
	"encoding/binary"
	"fmt"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
)

// The keys of the store. They are part of the format level and never change meaning. A key is a kind byte, followed
// by the fields below. Numbers are big endian, so that keys sort by them. tenant has 4 bytes, conv 16, seq and pos 8.
//
//	m tenant conv seq          one row, as store.AppendRowHead and the wire message
//	c tenant conv              storepb.Conversation
//	p tenant conv user         storepb.Member
//	u tenant conv user         storepb.Cursor
//	n tenant conv kind(1) seq name   a mark beside a row, opaque
//	n tenant conv kind(1) name 0 seq   the same, of a kind that is ordered by name
//	d tenant conv hash(8) slot(1)   uvarint seq: the send with that hash of its message id
//	f feed(2) pos              storepb.FeedEntry
//	r table(1) tenant key      a record, opaque
//	s name                     a record of the store about itself, see below
//
// The names under s:
//
//	format      level(4) oldest reader(4)
//	identity    store id(8) history id(8) secret(16) partitions(4)
//	epoch       epoch(8)
//	commit      uvarint n, uvarint time_ms, uvarint pos; written by every batch
//	trim        pos(8): the feed entries up to this one are removed
//	scrub       time(8), Unix milliseconds: the last pass of the scrub ended
//	damaged     the damaged ranges, as JSON; damagedranges.go
//	ok key      uvarint number: key is sound in the damaged ranges up to that number
//
// n is the number of a commit: it counts the batches of all kinds since the store was made. The witness records the
// newest n. pos is the position of the only feed.
const (
	kindConversation = 'c'
	kindDedupe       = 'd'
	kindFeed         = 'f'
	kindRow          = 'm'
	kindMark         = 'n'
	kindMember       = 'p'
	kindRecord       = 'r'
	kindStore        = 's'
	kindCursor       = 'u'
)

const (
	convKeyLen   = 1 + 4 + 16
	rowKeyLen    = convKeyLen + 8
	markKeyLen   = convKeyLen + 1 + 8 // without the name, and the 0 after the name if there is one
	dedupeKeyLen = convKeyLen + 8 + 1
	feedKeyLen   = 1 + 2 + 8
	tableKeyLen  = 1 + 1 + 4
)

var (
	keyFormat   = []byte("sformat")
	keyIdentity = []byte("sidentity")
	keyEpoch    = []byte("sepoch")
	keyCommit   = []byte("scommit")
	keyTrim     = []byte("strim")
)

// putConvKey writes the first convKeyLen bytes of a key of c.
func putConvKey(b []byte, kind byte, c im.Key) {
	b[0] = kind
	binary.BigEndian.PutUint32(b[1:], uint32(c.Tenant))
	copy(b[5:], c.Conv[:])
}

func appendConvKey(b []byte, kind byte, c im.Key) []byte {
	b = binary.BigEndian.AppendUint32(append(b, kind), uint32(c.Tenant))
	return append(b, c.Conv[:]...)
}

func convKey(kind byte, c im.Key) []byte {
	b := make([]byte, convKeyLen, rowKeyLen+im.MaxUser)
	putConvKey(b, kind, c)
	return b
}

// convRange returns the range of a conversation's keys of one kind.
func convRange(kind byte, c im.Key) keyRange {
	return keyRange{convKey(kind, c), after(convKey(kind, c))}
}

// keyOf returns the conversation that the key k names in its first convKeyLen bytes.
func keyOf(k []byte) im.Key {
	return im.Key{Tenant: im.Tenant(binary.BigEndian.Uint32(k[1:])), Conv: im.ConvID(k[5:convKeyLen])}
}

func putRowKey(b []byte, c im.Key, seq im.Seq) {
	putConvKey(b, kindRow, c)
	binary.BigEndian.PutUint64(b[convKeyLen:], uint64(seq))
}

func rowKey(c im.Key, seq im.Seq) []byte {
	b := make([]byte, rowKeyLen)
	putRowKey(b, c, seq)
	return b
}

func markKey(c im.Key, k store.MarkKind, seq im.Seq, name string) []byte {
	return appendMarkKey(make([]byte, 0, markKeyLen+len(name)+1), c, k, seq, name)
}

func appendMarkKey(b []byte, c im.Key, k store.MarkKind, seq im.Seq, name string) []byte {
	b = append(appendConvKey(b, kindMark, c), byte(k))
	if k.ByName() {
		b = append(append(b, name...), 0)
		return binary.BigEndian.AppendUint64(b, uint64(seq))
	}
	return append(binary.BigEndian.AppendUint64(b, uint64(seq)), name...)
}

// markSeq returns the seq in the key of a mark.
func markSeq(key []byte, k store.MarkKind) (im.Seq, error) {
	if len(key) < markKeyLen {
		return 0, fmt.Errorf("a key has %d bytes: %w", len(key), store.ErrCorrupt)
	}
	from := convKeyLen + 1
	if k.ByName() {
		from = len(key) - 8
	}
	return im.Seq(binary.BigEndian.Uint64(key[from:])), nil
}

func putDedupeKey(b []byte, c im.Key, hash uint64, slot uint8) {
	putConvKey(b, kindDedupe, c)
	binary.BigEndian.PutUint64(b[convKeyLen:], hash)
	b[dedupeKeyLen-1] = slot
}

func putFeedKey(b []byte, f store.Feed, pos im.Pos) {
	b[0] = kindFeed
	binary.BigEndian.PutUint16(b[1:], uint16(f))
	binary.BigEndian.PutUint64(b[3:], uint64(pos))
}

func feedKey(f store.Feed, pos im.Pos) []byte {
	b := make([]byte, feedKeyLen)
	putFeedKey(b, f, pos)
	return b
}

func recordKey(t store.Table, tenant im.Tenant, key []byte) []byte {
	b := make([]byte, tableKeyLen, tableKeyLen+len(key))
	b[0], b[1] = kindRecord, byte(t)
	binary.BigEndian.PutUint32(b[2:], uint32(tenant))
	return append(b, key...)
}

// after returns the least key that is greater than every key with the prefix b; nil: there is none. It changes b.
func after(b []byte) []byte {
	for i := len(b) - 1; i >= 0; i-- {
		if b[i]++; b[i] != 0 {
			return b[:i+1]
		}
	}
	return nil // no key is greater: no bound
}

// last is the record under "commit": the newest commit.
type last struct {
	n      uint64
	timeMs uint64
	pos    im.Pos
}

func (l last) append(b []byte) []byte {
	b = binary.AppendUvarint(b, l.n)
	b = binary.AppendUvarint(b, l.timeMs)
	return binary.AppendUvarint(b, uint64(l.pos))
}

func parseLast(b []byte) (last, error) {
	var v [3]uint64
	for i := range v {
		x, n := binary.Uvarint(b)
		if n <= 0 {
			return last{}, fmt.Errorf("read the last commit's record: %w", store.ErrCorrupt)
		}
		v[i], b = x, b[n:]
	}
	return last{n: v[0], timeMs: v[1], pos: im.Pos(v[2])}, nil
}

// identity is the record under "identity".
type identity struct {
	store, history uint64
	secret         [16]byte
	partitions     uint32
}

func (d identity) encode() []byte {
	b := binary.BigEndian.AppendUint64(nil, d.store)
	b = binary.BigEndian.AppendUint64(b, d.history)
	b = append(b, d.secret[:]...)
	return binary.BigEndian.AppendUint32(b, d.partitions)
}

func parseIdentity(b []byte) (identity, error) {
	if len(b) != 36 {
		return identity{}, fmt.Errorf("read the store's identity: %d bytes: %w", len(b), store.ErrCorrupt)
	}
	d := identity{
		store:      binary.BigEndian.Uint64(b),
		history:    binary.BigEndian.Uint64(b[8:]),
		partitions: binary.BigEndian.Uint32(b[32:]),
	}
	copy(d.secret[:], b[16:32])
	return d, nil
}
