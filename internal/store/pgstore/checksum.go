package pgstore

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
)

// Every value is stored with a CRC-32C of its key and itself in the 4 bytes after it, and is checked at each
// read. PostgreSQL checks its pages only if the cluster was made with checksums, and it never checks that a row
// is where it was written.

// sumLen is the length of the checksum after a value.
const sumLen = crc32.Size

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// kind is the table of a value, so that equal keys of different tables have different checksums.
type kind byte

const (
	kindRow          kind = 'm' // of a conversation; n is the seq
	kindConversation kind = 'c'
	kindMember       kind = 'b' // name is the user
	kindCursor       kind = 'u' // name is the user
	kindDedupe       kind = 'd' // n is the hash
	kindFeed         kind = 'f' // n is the position; the tenant stands for the feed
	kindRecord       kind = 'r' // n is the table, name the key
	kindMark         kind = 'n' // n is the seq, name the kind and the name
)

// address is where a value is stored.
type address struct {
	kind kind
	conv im.Key
	n    uint64
	name string
}

// sums computes checksums in buffers that it reuses. One goroutine at a time may use it.
type sums struct{ key, value []byte }

// of returns the checksum of a value at its address.
func (s *sums) of(a address, value []byte) uint32 {
	b := append(s.key[:0], byte(a.kind))
	b = binary.BigEndian.AppendUint32(b, uint32(a.conv.Tenant))
	b = append(b, a.conv.Conv[:]...)
	b = binary.BigEndian.AppendUint64(b, a.n)
	b = binary.AppendUvarint(b, uint64(len(a.name)))
	s.key = append(b, a.name...)
	return crc32.Update(crc32.Update(0, castagnoli, s.key), castagnoli, value)
}

// ofDedupe returns the checksum of a row of the table dedupe: the seq of a stored send.
func (s *sums) ofDedupe(c im.Key, hash uint64, slot uint32, seq uint64) uint32 {
	s.value = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(s.value[:0], slot), seq)
	return s.of(address{kind: kindDedupe, conv: c, n: hash}, s.value)
}

// seal appends the checksum to a copy of a value.
func seal(a address, value []byte) []byte {
	var s sums
	b := make([]byte, 0, len(value)+sumLen)
	return binary.BigEndian.AppendUint32(append(b, value...), s.of(a, value))
}

// sound checks a stored value and returns the part of stored before the checksum. Errors: ErrCorrupt.
func (d *database) sound(s *sums, a address, stored []byte) ([]byte, error) {
	n := len(stored) - sumLen
	if n < 0 || s.of(a, stored[:n]) != binary.BigEndian.Uint32(stored[n:]) {
		return nil, d.corrupt("the value")
	}
	return stored[:n:n], nil
}

// corrupt counts a value with a wrong checksum and returns its error.
func (d *database) corrupt(what string) error {
	d.damaged.Add(1)
	return fmt.Errorf("%s in database %s is not what was stored there: %w", what, d.name, store.ErrCorrupt)
}

// feedAddress returns the address of a commit.
func feedAddress(f store.Feed, pos im.Pos) address {
	return address{kind: kindFeed, conv: im.Key{Tenant: im.Tenant(f)}, n: uint64(pos)}
}

// markAddress returns the address of a mark.
func markAddress(c im.Key, k store.MarkKind, q im.Seq, name string) address {
	return address{kind: kindMark, conv: c, n: uint64(q), name: string(rune(k)) + name}
}

// recordAddress returns the address of a record.
func recordAddress[K ~string | ~[]byte](t store.Table, tenant im.Tenant, key K) address {
	return address{kind: kindRecord, conv: im.Key{Tenant: tenant}, n: uint64(t), name: string(key)}
}
