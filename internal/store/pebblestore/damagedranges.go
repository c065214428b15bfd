package pebblestore

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/petrel-im/petrel/internal/store"
)

// keyRange is the range of keys with From <= key < To.
type keyRange struct{ From, To []byte }

func (r keyRange) has(key []byte) bool {
	return bytes.Compare(r.From, key) <= 0 && bytes.Compare(key, r.To) < 0
}

func (r keyRange) overlaps(lower, upper []byte) bool {
	return bytes.Compare(r.From, upper) < 0 && bytes.Compare(lower, r.To) < 0
}

// damagedRange is a range of keys of which some were lost, because a table was rewritten without its unreadable
// blocks. The version of a key that is left may be older than the lost one: a revoked token, a recalled message.
// So reads of one key and of rows refuse each key in the range, found or not, unless it has a mark. Reads of dedupe
// entries, and of several members, cursors, marks beside rows or records are refused if a damaged range overlaps them.
// A mark is a record which says that the key was written after the loss, or is known to be newer than everything lost.
// Its value is the number of the newest range for which it holds. It is not one of the marks beside rows.
//
// A range becomes durable before the table is replaced. It is stored twice: in the database, so that backups
// have it, and in the file damaged-ranges, because later damage may take the record. Repair ends it.
type damagedRange struct {
	keyRange
	N       uint64 // from 1, in the order of their discovery
	File    string // name of the table
	MaxSeq  uint64 // Pebble's newest sequence number in the table
	Entries uint64 // how many entries of the table are lost; 0: not known
}

// keyRanges is the key of the damaged ranges, as JSON. The key of a mark is keyMarks and the marked key.
var (
	keyRanges = []byte("sdamaged")
	keyMarks  = []byte("sok")
)

// damagedRanges are ordered by their numbers.
type damagedRanges []damagedRange

func (all damagedRanges) encode() []byte {
	b, err := json.Marshal(all)
	if err != nil {
		panic(err) // its fields are strings and numbers
	}
	return b
}

func parseRanges(b []byte) (all damagedRanges, err error) {
	if b == nil {
		return nil, nil
	}
	if err := json.Unmarshal(b, &all); err != nil {
		return nil, fmt.Errorf("read the damaged ranges: %w: %w", store.ErrCorrupt, err)
	}
	return all, nil
}

// over returns a range that has keys with lower <= key < upper; nil: there is none.
func (all damagedRanges) over(lower, upper []byte) *damagedRange {
	if i := slices.IndexFunc(all, func(r damagedRange) bool { return r.overlaps(lower, upper) }); i >= 0 {
		return &all[i]
	}
	return nil
}

// having returns the newest range that has key; nil: there is none.
func (all damagedRanges) having(key []byte) *damagedRange {
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].has(key) {
			return &all[i]
		}
	}
	return nil
}

// last returns the number of the newest range, 0 if there is none.
func (all damagedRanges) last() uint64 {
	if len(all) == 0 {
		return 0
	}
	return all[len(all)-1].N
}

// with returns the ranges in all, followed by those in more that have higher numbers. The two are copies of one list,
// and either may lack the last ranges.
func (all damagedRanges) with(more damagedRanges) damagedRanges {
	i := slices.IndexFunc(more, func(r damagedRange) bool { return r.N > all.last() })
	if i < 0 {
		return all
	}
	return slices.Concat(all, more[i:])
}

// mark adds marks to b for the keys in damaged ranges that b sets or deletes.
func (all damagedRanges) mark(b *pebble.Batch) error {
	var keys [][]byte
	for r := b.Reader(); ; {
		kind, key, _, ok, err := r.Next()
		if err != nil {
			return err
		}
		if !ok {
			return setMarks(b, keys, all.last())
		}
		if (kind == pebble.InternalKeyKindSet || kind == pebble.InternalKeyKindDelete) && all.having(key) != nil {
			keys = append(keys, bytes.Clone(key)) // the marks may move the memory of the batch
		}
	}
}

// setMarks writes marks for keys that hold for the ranges up to n.
func setMarks(b *pebble.Batch, keys [][]byte, n uint64) error {
	for _, k := range keys {
		if err := b.Set(slices.Concat(keyMarks, k), binary.AppendUvarint(nil, n), nil); err != nil {
			return err
		}
	}
	return nil
}

// markOf returns the number of the newest range for which the mark of key holds, 0 without a mark.
func (s *Store) markOf(key []byte) (uint64, error) {
	v, err := s.lookup(slices.Concat(keyMarks, key))
	n, _ := binary.Uvarint(v)
	return n, err
}

// doubted returns the newest range in some that has key; nil: there is none, or a mark of key holds for it.
func (s *Store) doubted(key []byte, some damagedRanges) (*damagedRange, error) {
	r := some.having(key)
	if r == nil {
		return nil, nil
	}
	if n, err := s.markOf(key); err != nil || n >= r.N {
		return nil, err
	}
	return r, nil
}

// damaged returns all damaged ranges, nil if there are none.
func (s *Store) damaged() damagedRanges {
	if p := s.ranges.Load(); p != nil {
		return *p
	}
	return nil
}

// sound returns ErrCorrupt if key is in a damaged range and has no mark for it.
func (s *Store) sound(key []byte) error {
	r, err := s.doubted(key, s.damaged())
	if r != nil {
		return s.refuse(r)
	}
	return err
}

// soundRange returns ErrCorrupt if a damaged range has keys with lower <= key < upper.
func (s *Store) soundRange(lower, upper []byte) error {
	if r := s.damaged().over(lower, upper); r != nil {
		return s.refuse(r)
	}
	return nil
}

func (s *Store) refuse(r *damagedRange) error {
	s.damage.met.Add(1)
	return fmt.Errorf("%w: table %s had a block that cannot be read", store.ErrCorrupt, r.File)
}

// writeRanges replaces the file of damaged ranges: a checksum and their JSON.
func (p place) writeRanges(all damagedRanges) error {
	b := all.encode()
	sum := sha256.Sum256(b)
	if err := writeSynced(p.fs, p.ranges+".new", append(sum[:], b...)); err != nil {
		return err
	}
	return p.rename(p.ranges+".new", p.ranges)
}

// readRanges reads the file of damaged ranges. If the file is missing or damaged, it returns none: the database has
// the ranges too.
func (p place) readRanges() (damagedRanges, error) {
	b, err := readFile(p.fs, p.ranges)
	if isNotExist(err) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	if len(b) < sha256.Size || sha256.Sum256(b[sha256.Size:]) != [sha256.Size]byte(b) {
		return nil, nil
	}
	all, err := parseRanges(b[sha256.Size:])
	if errors.Is(err, store.ErrCorrupt) {
		return nil, nil
	}
	return all, err
}

// rename renames a file of the data folder, durably.
func (p place) rename(from, to string) error {
	if err := p.fs.Rename(from, to); err != nil {
		return err
	}
	return syncDir(p.fs, p.dir)
}

// removeFile removes a file of the data folder, if it is there, durably.
func (p place) removeFile(path string) error {
	if err := p.fs.Remove(path); err != nil && !isNotExist(err) {
		return err
	}
	return syncDir(p.fs, p.dir)
}
