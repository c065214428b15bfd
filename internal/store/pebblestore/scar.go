package pebblestore

import (
	"bytes"
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
// was written after the scar, or is known to be newer than what was lost.
//
// Scars are durable before the table is replaced. Repair ends them.
type scar struct {
	hole
	file   string // name of the table
	timeMs uint64
}

// keyScars is the prefix of the scars: number of the table(8) index(4).
var keyScars = []byte("sscar")

// keyMarks is the prefix of the marks: a key that stands in a scar, and is sound.
var keyMarks = []byte("sok")

func (s scar) key(i int) []byte {
	n, _ := tableNumber(s.file)
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(bytes.Clone(keyScars), n), uint32(i))
}

func (s scar) encode() []byte {
	b := binary.AppendUvarint(nil, s.timeMs)
	for _, p := range [][]byte{s.from, s.to} {
		b = append(binary.AppendUvarint(b, uint64(len(p))), p...)
	}
	return b
}

func parseScar(key, b []byte) (scar, error) {
	bad := fmt.Errorf("read scar %x: %w", key, store.ErrCorrupt)
	if len(key) != len(keyScars)+12 {
		return scar{}, bad
	}
	s := scar{file: tableName(binary.BigEndian.Uint64(key[len(keyScars):]))}
	t, n := binary.Uvarint(b)
	if n <= 0 {
		return scar{}, bad
	}
	s.timeMs, b = t, b[n:]
	for _, p := range []*[]byte{&s.from, &s.to} {
		size, n := binary.Uvarint(b)
		if n <= 0 || uint64(len(b)-n) < size {
			return scar{}, bad
		}
		*p, b = bytes.Clone(b[n:n+int(size)]), b[n+int(size):]
	}
	return s, nil
}

// scars are those of a store; none costs a reader one look at a pointer.
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

// has is the scar in which key stands; nil: it stands in none.
func (all scars) has(key []byte) *scar {
	for i := range all {
		if s := &all[i]; bytes.Compare(s.from, key) <= 0 && bytes.Compare(key, s.to) < 0 {
			return s
		}
	}
	return nil
}

func soundKey(key []byte) []byte { return slices.Concat(keyMarks, key) }

// mark adds marks for the keys that b writes in scars.
func (all scars) mark(b *pebble.Batch) error {
	var marks [][]byte
	for r := b.Reader(); ; {
		kind, key, _, ok, err := r.Next()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if (kind == pebble.InternalKeyKindSet || kind == pebble.InternalKeyKindDelete) && all.has(key) != nil {
			marks = append(marks, soundKey(key))
		}
	}
	for _, m := range marks {
		if err := b.Set(m, nil, nil); err != nil {
			return err
		}
	}
	return nil
}

// scarred is all scars, nil if there are none.
func (s *Store) scarred() scars {
	if p := s.scars.Load(); p != nil {
		return *p
	}
	return nil
}

// sound is nil unless key stands in a scar and has no mark.
func (s *Store) sound(key []byte) error {
	sc := s.scarred().has(key)
	if sc == nil {
		return nil
	}
	_, closer, err := s.db.Get(soundKey(key))
	if err == nil {
		return asRead(closer.Close())
	}
	if err != pebble.ErrNotFound {
		return asRead(err)
	}
	return s.scarMet(sc)
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
