package pebblestore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
)

func be64(v uint64) []byte { return binary.BigEndian.AppendUint64(nil, v) }

// Update implements store.Store. On a full disk it returns ErrFull like an append, except to operators while
// the reserve lasts.
func (s *Store) Update(ctx context.Context, puts []store.RecordPut) error {
	size := 128
	for i := range puts {
		size += tableKeyLen + len(puts[i].Key) + len(puts[i].Value) + 8
	}
	err := s.write(ctx, size, func(b *pebble.Batch) error {
		if s.space.refuses(ctx) {
			return store.ErrFull
		}
		for i := range puts {
			if err := s.put(b, &puts[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("update %d records: %w", len(puts), err)
	}
	return nil
}

func (s *Store) put(b *pebble.Batch, p *store.RecordPut) error {
	key := recordKey(p.Table, p.Tenant, p.Key)
	if p.Check {
		if v, err := s.get(key); err != nil {
			return err
		} else if (v == nil) != (p.Was == nil) || !bytes.Equal(v, p.Was) {
			return fmt.Errorf("table %d key %q: %w", p.Table, p.Key, store.ErrChanged)
		}
	}
	if p.Value == nil {
		return b.Delete(key, nil)
	}
	return b.Set(key, p.Value, nil)
}

// dropChunk is about how many keys one write deletes at most: few enough that no append waits long for it.
const dropChunk = 1000

// DropRows implements store.Store.
func (s *Store) DropRows(ctx context.Context, c im.Key, below im.Seq) error {
	err := s.write(ctx, 128, func(b *pebble.Batch) error { return b.DeleteRange(rowKey(c, 0), rowKey(c, below), nil) })
	if err == nil {
		err = s.dropKeys(ctx, convKey(kindDedupe, c), func(from []byte) ([][]byte, []byte,
			error) {
			return s.dedupeBelow(c, from, below)
		})
	}
	// Marks are deleted one by one. If the end of a table is damaged, a deletion of a range is lost without a trace,
	// and the marks would be back (tables.go, deletions).
	for _, k := range store.MarkKinds() {
		if err == nil {
			err = s.dropKeys(ctx, kindOfMarks(c, k), func(from []byte) ([][]byte, []byte,
				error) {
				return s.marksBelow(c, k, from, below)
			})
		}
	}
	if err != nil {
		return fmt.Errorf("drop rows of %s below %d: %w", c, below, err)
	}
	return nil
}

// dropKeys deletes the keys that next returns, one chunk at a time. next returns the chunk that begins at the
// key from, and the key at which the next chunk begins; nil: this chunk is the last.
func (s *Store) dropKeys(ctx context.Context, from []byte, next func(from []byte) (keys [][]byte, then []byte,
	err error)) error {
	for from != nil {
		keys, then, err := next(from)
		if err != nil {
			return err
		}
		from = then
		if len(keys) == 0 {
			continue
		}
		err = s.write(ctx, len(keys)*(rowKeyLen+im.MaxUser), func(b *pebble.Batch) error {
			for _, k := range keys {
				if err := b.Delete(k, nil); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// marksBelow reads at most dropChunk marks of a kind, beginning at the key from. It returns the keys of those whose
// seqs are less than below, and the key from which to continue; nil: there are no more marks.
func (s *Store) marksBelow(c im.Key, k store.MarkKind, from []byte,
	below im.Seq) (keys [][]byte, next []byte, err error) {
	upper := markKey(c, k, below, "")
	if k.ByName() {
		upper = after(kindOfMarks(c, k)) // the seqs of each name begin anew
	}
	seen := 0
	err = s.readRange(from, upper, func(key, _ []byte) (bool, error) {
		if seen == dropChunk {
			next = bytes.Clone(key)
			return false, nil
		}
		seen++
		q, err := markSeq(key, k)
		if err == nil && q < below {
			keys = append(keys, bytes.Clone(key))
		}
		return err == nil, err
	})
	return keys, next, err
}

// readRange calls scan between enter and leave, without a limit of time.
func (s *Store) readRange(lower, upper []byte, fn func(key, value []byte) (bool, error)) error {
	ctx := context.Background()
	return s.read(ctx, func() error { return s.scan(ctx, lower, upper, fn) })
}

// kindOfMarks returns the prefix of the keys of a kind of marks.
func kindOfMarks(c im.Key, k store.MarkKind) []byte { return append(convKey(kindMark, c), byte(k)) }

// dedupeBelow reads about dropChunk dedupe keys of c, beginning at the key from. It returns those whose seqs
// are less than below, and the key from which to continue; nil: there are no more keys. If one seq of a hash
// stays, all its seqs stay, because their slots must have no gap.
func (s *Store) dedupeBelow(c im.Key, from []byte, below im.Seq) (keys [][]byte, next []byte, err error) {
	var group [][]byte // the keys of one hash
	stays := false
	seen := 0
	err = s.readRange(from, after(convKey(kindDedupe, c)), func(k, v []byte) (bool, error) {
		if len(group) > 0 && !bytes.Equal(k[:dedupeKeyLen-1], group[0][:dedupeKeyLen-1]) {
			if !stays {
				keys = append(keys, group...)
			}
			if group, stays = nil, false; seen >= dropChunk {
				next = bytes.Clone(k)
				return false, nil
			}
		}
		seq, n := binary.Uvarint(v)
		seen++
		stays = stays || n <= 0 || im.Seq(seq) >= below
		group = append(group, bytes.Clone(k))
		return true, nil
	})
	if !stays {
		keys = append(keys, group...)
	}
	return keys, next, err
}

// TrimFeed implements store.Store.
func (s *Store) TrimFeed(ctx context.Context, f store.Feed, upTo im.Pos) error {
	if f != feed {
		return fmt.Errorf("trim feed %d: there is only feed %d", f, feed)
	}
	err := s.write(ctx, 128, func(b *pebble.Batch) error {
		if upTo > s.last.pos {
			return fmt.Errorf("the feed is at commit %d", s.last.pos)
		}
		if upTo <= s.trim {
			return errTrimmed
		}
		s.trim = upTo
		if err := b.DeleteRange(feedKey(f, 0), feedKey(f, upTo+1), nil); err != nil {
			return err
		}
		return b.Set(keyTrim, be64(uint64(upTo)), nil)
	})
	if err != nil && !errors.Is(err, errTrimmed) {
		return fmt.Errorf("trim feed %d up to %d: %w", f, upTo, err)
	}
	return nil
}

// errTrimmed ends a TrimFeed that has nothing to do.
var errTrimmed = errors.New("already trimmed")
