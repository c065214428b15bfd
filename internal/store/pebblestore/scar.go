package pebblestore

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/petrel-im/petrel/internal/store"
)

// scar is a range of keys of which some were lost, because a table was rewritten
// without the blocks that could not be read. What stands there now may be older
// than what was lost: a token that was revoked, a message that was recalled. So a
// key in the range is damaged, whether it is found or not, unless it has a mark: it
// was written after the scar, or is known to be newer than what was lost. A mark names
// the newest scar that it tells this of: a later one may have taken what it vouched for.
//
// Scars are durable before the table is replaced, in the store and in the file scars: what
// damages the store may take them too, and then a repair has to know of them. Repair ends
// them.
type scar struct {
	hole
	n      uint64 // from 1, in the order in which they came
	file   string // name of the table
	timeMs uint64
	maxSeq uint64 // Pebble's newest sequence number in the table
}

// keyScars is the prefix of the scars: number of the scar(8).
var keyScars = []byte("sscar")

// keyMarks is the prefix of the marks, whose value is the number of a scar: the key behind
// it is sound, as far as this scar and those before it go.
var keyMarks = []byte("sok")

func (s scar) key() []byte { return binary.BigEndian.AppendUint64(bytes.Clone(keyScars), s.n) }

func (s scar) encode() []byte {
	n, _ := tableNumber(s.file)
	b := binary.AppendUvarint(binary.AppendUvarint(binary.AppendUvarint(nil, n), s.timeMs), s.maxSeq)
	for _, p := range [][]byte{s.from, s.to} {
		b = append(binary.AppendUvarint(b, uint64(len(p))), p...)
	}
	return b
}

func parseScar(key, b []byte) (scar, error) {
	bad := fmt.Errorf("read scar %x: %w", key, store.ErrCorrupt)
	if len(key) != len(keyScars)+8 {
		return scar{}, bad
	}
	s := scar{n: binary.BigEndian.Uint64(key[len(keyScars):])}
	var table uint64
	for _, p := range []*uint64{&table, &s.timeMs, &s.maxSeq} {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			return scar{}, bad
		}
		*p, b = v, b[n:]
	}
	s.file = tableName(table)
	for _, p := range []*[]byte{&s.from, &s.to} {
		size, n := binary.Uvarint(b)
		if n <= 0 || uint64(len(b)-n) < size {
			return scar{}, bad
		}
		*p, b = bytes.Clone(b[n:n+int(size)]), b[n+int(size):]
	}
	return s, nil
}

// scars are those of a store, in their order; none costs a reader one look at a pointer.
type scars []scar

// over is a scar that overlaps lower <= key < upper; nil: there is none.
func (all scars) over(lower, upper []byte) *scar {
	for i := range all {
		if s := &all[i]; bytes.Compare(s.from, upper) < 0 && bytes.Compare(lower, s.to) < 0 {
			return s
		}
	}
	return nil
}

// has is the newest scar in which key stands; nil: it stands in none.
func (all scars) has(key []byte) *scar {
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].hole.has(key) {
			return &all[i]
		}
	}
	return nil
}

// last is the number of the newest scar, 0 if there is none.
func (all scars) last() uint64 {
	if len(all) == 0 {
		return 0
	}
	return all[len(all)-1].n
}

// put writes them to b.
func (all scars) put(b *pebble.Batch) error {
	for i := range all {
		if err := b.Set(all[i].key(), all[i].encode(), nil); err != nil {
			return err
		}
	}
	return nil
}

// with are all of two, each once, in their order.
func (all scars) with(more scars) scars {
	all = append(slices.Clone(all), more...)
	slices.SortStableFunc(all, func(a, b scar) int { return cmp.Compare(a.n, b.n) })
	return slices.CompactFunc(all, func(a, b scar) bool { return a.n == b.n })
}

// setMarks marks keys up to the scar n.
func setMarks(b *pebble.Batch, keys [][]byte, n uint64) error {
	for _, k := range keys {
		if err := b.Set(slices.Concat(keyMarks, k), binary.AppendUvarint(nil, n), nil); err != nil {
			return err
		}
	}
	return nil
}

// markOf is the number of the newest scar as far as which key is sound, 0 without a mark.
func (s *Store) markOf(key []byte) (uint64, error) {
	v, err := s.lookup(slices.Concat(keyMarks, key))
	n, _ := binary.Uvarint(v)
	return n, err
}

// doubted tells whether key stands in one of some scars of which no mark says that it is
// sound; so it is after an error.
func (s *Store) doubted(key []byte, some scars) (bool, error) {
	sc := some.has(key)
	if sc == nil {
		return false, nil
	}
	n, err := s.markOf(key)
	return n < sc.n, err
}

// mark adds marks for the keys that b writes in scars.
func (all scars) mark(b *pebble.Batch) error {
	var keys [][]byte
	for r := b.Reader(); ; {
		kind, key, _, ok, err := r.Next()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if (kind == pebble.InternalKeyKindSet || kind == pebble.InternalKeyKindDelete) && all.has(key) != nil {
			keys = append(keys, bytes.Clone(key)) // the batch grows by the marks
		}
	}
	return setMarks(b, keys, all.last())
}

// scarred is all scars, nil if there are none.
func (s *Store) scarred() scars {
	if p := s.scars.Load(); p != nil {
		return *p
	}
	return nil
}

// sound is nil unless key stands in a scar of which no mark says that it is sound.
func (s *Store) sound(key []byte) error {
	all := s.scarred()
	if bad, err := s.doubted(key, all); err != nil || !bad {
		return err
	}
	return s.scarMet(all.has(key))
}

// soundRange is nil unless a part of lower <= key < upper stands in a scar.
func (s *Store) soundRange(lower, upper []byte) error {
	if sc := s.scarred().over(lower, upper); sc != nil {
		return s.scarMet(sc)
	}
	return nil
}

func (s *Store) scarMet(sc *scar) error {
	s.damage.met.Add(1)
	return fmt.Errorf("%w: table %s had a block that cannot be read", store.ErrCorrupt, sc.file)
}
