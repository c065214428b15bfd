package pebblestore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// asRead wraps an error of Pebble about damage in ErrCorrupt, and returns any other error as it is.
func asRead(err error) error {
	if err != nil && pebble.IsCorruptionError(err) {
		return fmt.Errorf("%w: %w", store.ErrCorrupt, plain{err})
	}
	return err
}

// plain is an error of Pebble without the part of its text that only helps Pebble's developers.
type plain struct{ error }

// Error implements error.
func (p plain) Error() string {
	return strings.ReplaceAll(p.error.Error(), "\n<corruption detail carrier>", "")
}

// Unwrap returns the error itself.
func (p plain) Unwrap() error { return p.error }

// get returns a copy of the value of key, nil if there is none; an empty value is not nil. A key in a damaged
// range is ErrCorrupt.
func (s *Store) get(key []byte) ([]byte, error) {
	if err := s.sound(key); err != nil {
		return nil, err
	}
	return s.lookup(key)
}

// lookup returns a copy of the value of key like get, without the check for damaged ranges.
func (s *Store) lookup(key []byte) ([]byte, error) {
	v, closer, err := s.db.Get(key)
	switch {
	case errors.Is(err, pebble.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, asRead(err)
	}
	v = append([]byte{}, v...)
	return v, asRead(closer.Close())
}

// read runs f between enter and leave. If the store fails meanwhile, read returns that error, so that callers drop
// what f has read: it may not be durable.
func (s *Store) read(ctx context.Context, f func() error) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := f(); err != nil {
		return err
	}
	if s.out.err() != nil {
		return s.out.err()
	}
	return nil
}

// scan calls fn for the keys with lower <= key < upper, ascending, until fn returns false or an error. key and
// value are valid during the call.
func (s *Store) scan(ctx context.Context, lower, upper []byte, fn func(key, value []byte) (bool, error)) error {
	return s.walk(ctx, lower, upper, (*pebble.Iterator).First, (*pebble.Iterator).Next, fn)
}

// scanDown calls fn like scan, in descending order.
func (s *Store) scanDown(ctx context.Context, lower, upper []byte, fn func(key, value []byte) (bool, error)) error {
	return s.walk(ctx, lower, upper, (*pebble.Iterator).Last, (*pebble.Iterator).Prev, fn)
}

func (s *Store) walk(ctx context.Context, lower, upper []byte, first, next func(*pebble.Iterator) bool,
	fn func(key, value []byte) (bool, error)) (err error) {
	it, err := s.db.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return asRead(err)
	}
	defer func() {
		if e := it.Close(); err == nil {
			err = asRead(e)
		}
	}()
	n := 0
	for ok := first(it); ok; ok = next(it) {
		v, err := it.ValueAndErr()
		if err != nil {
			return asRead(err)
		}
		if more, err := fn(it.Key(), v); err != nil || !more {
			return err
		}
		if n++; n%256 == 0 {
			if s.out.err() != nil {
				return s.out.err()
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		}
	}
	return asRead(it.Error())
}

// LastRow implements store.Store.
func (s *Store) LastRow(ctx context.Context, c im.Key) (row *store.Row, err error) {
	rows := convRange(kindRow, c)
	err = s.read(ctx, func() error {
		err := s.scanDown(ctx, rows.From, rows.To, func(k, v []byte) (bool, error) {
			row = &store.Row{Seq: seqOf(k), Value: bytes.Clone(v)}
			return false, nil
		})
		if err != nil {
			return err
		}
		return s.lastSound(c, row)
	})
	if err != nil {
		return nil, fmt.Errorf("read last row of %s: %w", c, err)
	}
	return row, nil
}

// lastSound returns ErrCorrupt if rows above row may have been lost. row is the last row of c that is there, nil if
// none is. If row was appended after the loss, none is lost above it: its writer knew the head of c. A rewritten row
// proves nothing about the rows above it, so then the row below it is judged in the same way.
func (s *Store) lastSound(c im.Key, row *store.Row) error {
	rows := convRange(kindRow, c)
	from := rows.From
	if row != nil {
		from = rowKey(c, row.Seq)
	}
	for _, r := range s.damaged() {
		if !r.overlaps(from, rows.To) {
			continue
		}
		if err := s.endSound(&r, slices.MaxFunc([][]byte{r.From, rows.From}, bytes.Compare), rows.To); err != nil {
			return err
		}
	}
	return nil
}

// endSound is lastSound for one damaged range r, among the keys with from <= key < to.
func (s *Store) endSound(r *damagedRange, from, to []byte) error {
	appended := false
	err := s.scanDown(context.Background(), from, to, func(k, v []byte) (bool, error) {
		if n, err := s.markOf(k); n < r.N {
			return false, err
		}
		h, _, err := store.SplitRow(v)
		appended = err == nil && h.Flags&store.RowRewritten == 0
		return !appended, nil
	})
	if err != nil || appended {
		return err
	}
	return s.refuse(r)
}

// seqOf returns the seq in a row's key.
func seqOf(key []byte) im.Seq {
	if len(key) != rowKeyLen {
		return 0 // no row has this seq, so it counts as a hole
	}
	return im.Seq(binary.BigEndian.Uint64(key[convKeyLen:]))
}

// Rows implements store.Store.
func (s *Store) Rows(ctx context.Context, c im.Key, from, to im.Seq, fn func(store.Row) bool) error {
	return s.rows(ctx, c, from, to, false, fn)
}

// RowsDown implements store.Store.
func (s *Store) RowsDown(ctx context.Context, c im.Key, from, to im.Seq, fn func(store.Row) bool) error {
	return s.rows(ctx, c, from, to, true, fn)
}

func (s *Store) rows(ctx context.Context, c im.Key, from, to im.Seq, down bool, fn func(store.Row) bool) error {
	if from > to {
		return nil
	}
	scan, next, last, step := s.scan, from, to, im.Seq(1)
	if down {
		scan, next, last, step = s.scanDown, to, from, ^im.Seq(0) // -1
	}
	err := s.read(ctx, func() error {
		stopped := false
		lower, upper := rowKey(c, from), after(rowKey(c, to))
		damaged := s.damaged().over(lower, upper) != nil
		err := scan(ctx, lower, upper, func(k, v []byte) (bool, error) {
			if seq := seqOf(k); seq != next {
				return false, fmt.Errorf("row %d is missing: %w", next, store.ErrCorrupt)
			}
			if damaged {
				if err := s.sound(k); err != nil { // a newer version of it may have been lost
					return false, err
				}
			}
			stopped = !fn(store.Row{Seq: next, Value: v})
			next += step
			return !stopped, nil
		})
		if err == nil && !stopped && next != last+step {
			return fmt.Errorf("row %d is missing: %w", next, store.ErrCorrupt)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("read rows %d to %d of %s: %w", from, to, c, err)
	}
	return nil
}

// Dedupe implements store.Store. Nearly every hash is new, so it asks the filters of all levels before it reads
// a block.
func (s *Store) Dedupe(ctx context.Context, c im.Key, hash uint64) (seqs []im.Seq, err error) {
	err = s.read(ctx, func() error {
		var lower, upper [dedupeKeyLen]byte
		putDedupeKey(lower[:], c, hash, 0)
		putDedupeKey(upper[:], c, hash, 255)
		if err := s.soundRange(lower[:], upper[:]); err != nil {
			return err
		}
		it, err := s.db.NewIterWithContext(ctx, &pebble.IterOptions{
			LowerBound: lower[:], UpperBound: after(upper[:]), UseL6Filters: true,
		})
		if err != nil {
			return asRead(err)
		}
		key := lower
		for slot := 0; slot < 256; slot++ {
			key[dedupeKeyLen-1] = byte(slot)
			if !it.SeekPrefixGE(key[:]) {
				break
			}
			v, err := it.ValueAndErr()
			seq, n := binary.Uvarint(v)
			if err == nil && n <= 0 {
				err = fmt.Errorf("slot %d: %w", slot, store.ErrCorrupt)
			}
			if err != nil {
				_ = it.Close() // the first error says more
				return asRead(err)
			}
			seqs = append(seqs, im.Seq(seq))
		}
		return asRead(it.Close())
	})
	if err != nil {
		return nil, fmt.Errorf("look up hash %x in %s: %w", hash, c, err)
	}
	return seqs, nil
}

// Conversation implements store.Store.
func (s *Store) Conversation(ctx context.Context, c im.Key) (rec *storepb.Conversation, err error) {
	err = s.read(ctx, func() error {
		v, err := s.get(convKey(kindConversation, c))
		if err != nil || v == nil {
			return err
		}
		rec = new(storepb.Conversation)
		return asRecord(rec.UnmarshalVT(v))
	})
	if err != nil {
		return nil, fmt.Errorf("read conversation %s: %w", c, err)
	}
	return rec, nil
}

// asRecord wraps the error of a record that cannot be decoded in ErrCorrupt.
func asRecord(err error) error {
	if err != nil {
		return fmt.Errorf("%w: %w", store.ErrCorrupt, err)
	}
	return nil
}

// Members implements store.Store.
func (s *Store) Members(ctx context.Context, c im.Key, fn func(im.User, *storepb.Member) bool) error {
	err := s.users(ctx, kindMember, c, "", func(u im.User, v []byte) (bool, error) {
		m := new(storepb.Member)
		if err := asRecord(m.UnmarshalVT(v)); err != nil {
			return false, err
		}
		return fn(u, m), nil
	})
	if err != nil {
		return fmt.Errorf("read members of %s: %w", c, err)
	}
	return nil
}

// Member implements store.Store.
func (s *Store) Member(ctx context.Context, c im.Key, u im.User) (rec *storepb.Member, err error) {
	err = s.read(ctx, func() error {
		v, err := s.get(append(convKey(kindMember, c), u...))
		if err != nil || v == nil {
			return err
		}
		rec = new(storepb.Member)
		return asRecord(rec.UnmarshalVT(v))
	})
	if err != nil {
		return nil, fmt.Errorf("read member %s of %s: %w", u, c, err)
	}
	return rec, nil
}

// Cursors implements store.Store.
func (s *Store) Cursors(ctx context.Context, c im.Key, after im.User, fn func(im.User, *storepb.Cursor) bool) error {
	err := s.users(ctx, kindCursor, c, after, func(u im.User, v []byte) (bool, error) {
		r := new(storepb.Cursor)
		if err := asRecord(r.UnmarshalVT(v)); err != nil {
			return false, err
		}
		return fn(u, r), nil
	})
	if err != nil {
		return fmt.Errorf("read cursors of %s: %w", c, err)
	}
	return nil
}

// Cursor implements store.Store.
func (s *Store) Cursor(ctx context.Context, c im.Key, u im.User) (rec *storepb.Cursor, err error) {
	err = s.read(ctx, func() error {
		v, err := s.get(append(convKey(kindCursor, c), u...))
		if err != nil || v == nil {
			return err
		}
		rec = new(storepb.Cursor)
		return asRecord(rec.UnmarshalVT(v))
	})
	if err != nil {
		return nil, fmt.Errorf("read cursor of %s in %s: %w", u, c, err)
	}
	return rec, nil
}

// users calls fn for the records of the users of c with ids greater than from; an empty from means all users.
func (s *Store) users(ctx context.Context, kind byte, c im.Key, from im.User,
	fn func(im.User, []byte) (bool, error)) error {
	lower, upper := convKey(kind, c), after(convKey(kind, c))
	if from != "" {
		lower = append(append(lower, from...), 0) // the least key above it
	}
	return s.read(ctx, func() error {
		if err := s.soundRange(lower, upper); err != nil {
			return err
		}
		return s.scan(ctx, lower, upper, func(k, v []byte) (bool, error) {
			return fn(im.User(k[convKeyLen:]), v)
		})
	})
}

// Marks implements store.Store.
func (s *Store) Marks(ctx context.Context, c im.Key, k store.MarkKind, from, to im.Seq, name string,
	fn func(im.Seq, string, []byte) bool) error {
	im.Assert(!k.ByName(), "marks of kind %d are ordered by name", k)
	lower := markKey(c, k, from, name)
	if name != "" {
		lower = append(lower, 0) // the least key above it
	}
	return s.marks(ctx, c, k, from, to, lower, after(markKey(c, k, to, "")), func(q im.Seq, key, v []byte) bool {
		return fn(q, string(key[markKeyLen:]), v)
	})
}

// MarksBy implements store.Store.
func (s *Store) MarksBy(ctx context.Context, c im.Key, k store.MarkKind, name string, from, to im.Seq,
	fn func(im.Seq, []byte) bool) error {
	im.Assert(k.ByName(), "marks of kind %d are not ordered by name", k)
	return s.marks(ctx, c, k, from, to, markKey(c, k, from, name), after(markKey(c, k, to, name)),
		func(q im.Seq, _, v []byte) bool {
			return fn(q, v)
		})
}

// marks calls fn for the marks of a kind with lower <= key < upper. from and to are the lowest and the highest
// seq in this range.
func (s *Store) marks(ctx context.Context, c im.Key, k store.MarkKind, from, to im.Seq, lower, upper []byte,
	fn func(q im.Seq, key, v []byte) bool) error {
	if from > to {
		return nil
	}
	err := s.read(ctx, func() error {
		if err := s.soundRange(lower, upper); err != nil {
			return err
		}
		return s.scan(ctx, lower, upper, func(key, v []byte) (bool, error) {
			q, err := markSeq(key, k)
			return err == nil && fn(q, key, v), err
		})
	})
	if err != nil {
		return fmt.Errorf("read marks %d of %s from %d to %d: %w", k, c, from, to, err)
	}
	return nil
}

// MarksOf implements store.Store.
func (s *Store) MarksOf(ctx context.Context, c im.Key, k store.MarkKind, name string, seqs []im.Seq) ([][]byte, error) {
	all := make([][]byte, len(seqs))
	err := s.read(ctx, func() (err error) {
		for i, q := range seqs {
			if all[i], err = s.get(markKey(c, k, q, name)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read marks %d of %s: %w", k, c, err)
	}
	return all, nil
}

// ScanFeed implements store.Store.
func (s *Store) ScanFeed(ctx context.Context, f store.Feed, from, upTo im.Pos,
	fn func(im.Pos, *storepb.FeedEntry) bool) error {
	if from >= upTo {
		return nil
	}
	err := s.read(ctx, func() error {
		next, stopped := from+1, false
		err := s.scan(ctx, feedKey(f, next), after(feedKey(f, upTo)), func(k, v []byte) (bool, error) {
			if pos := im.Pos(binary.BigEndian.Uint64(k[3:])); len(k) != feedKeyLen || pos != next {
				return false, s.missing(next)
			}
			e := new(storepb.FeedEntry)
			if err := asRecord(e.UnmarshalVT(v)); err != nil {
				return false, err
			}
			if err := store.CheckFeedEntry(e); err != nil {
				return false, fmt.Errorf("commit %d: %w", next, err)
			}
			stopped = !fn(next, e)
			next++
			return !stopped, nil
		})
		if err == nil && !stopped && next <= upTo {
			return s.missing(next)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("read feed %d from %d to %d: %w", f, from, upTo, err)
	}
	return nil
}

// missing returns the error for a feed entry that is not there. It reads the trim position after the entries,
// so it sees a trim that came during the read.
func (s *Store) missing(pos im.Pos) error {
	v, err := s.get(keyTrim)
	if err != nil {
		return err
	}
	if len(v) == 8 && pos <= im.Pos(binary.BigEndian.Uint64(v)) {
		return fmt.Errorf("commit %d: %w", pos, store.ErrTrimmed)
	}
	return fmt.Errorf("commit %d is missing: %w", pos, store.ErrCorrupt)
}

// Record implements store.Store.
func (s *Store) Record(ctx context.Context, t store.Table, tenant im.Tenant, key []byte) (v []byte, err error) {
	err = s.read(ctx, func() error {
		v, err = s.get(recordKey(t, tenant, key))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read table %d key %q: %w", t, key, err)
	}
	return v, nil
}

// Records implements store.Store. key and value are valid during the call.
func (s *Store) Records(ctx context.Context, t store.Table, tenant im.Tenant, prefix []byte,
	fn func(key, value []byte) bool) error {
	lower := recordKey(t, tenant, prefix)
	if err := s.records(ctx, lower, after(bytes.Clone(lower)), s.scan, fn); err != nil {
		return fmt.Errorf("read table %d prefix %q: %w", t, prefix, err)
	}
	return nil
}

// RecordsFrom implements store.Store. key and value are valid during the call.
func (s *Store) RecordsFrom(ctx context.Context, t store.Table, tenant im.Tenant, from []byte,
	fn func(key, value []byte) bool) error {
	if err := s.records(ctx, recordKey(t, tenant, from), after(recordKey(t, tenant, nil)), s.scan, fn); err != nil {
		return fmt.Errorf("read table %d from %q: %w", t, from, err)
	}
	return nil
}

// RecordsDown implements store.Store. key and value are valid during the call.
func (s *Store) RecordsDown(ctx context.Context, t store.Table, tenant im.Tenant, prefix, below []byte,
	fn func(key, value []byte) bool) error {
	lower := recordKey(t, tenant, prefix)
	upper := after(bytes.Clone(lower))
	if end := recordKey(t, tenant, below); len(below) > 0 && bytes.Compare(end, upper) < 0 {
		upper = end
	}
	if bytes.Compare(lower, upper) >= 0 {
		return nil
	}
	if err := s.records(ctx, lower, upper, s.scanDown, fn); err != nil {
		return fmt.Errorf("read table %d prefix %q down: %w", t, prefix, err)
	}
	return nil
}

// scanning is the type of scan and scanDown.
type scanning func(ctx context.Context, lower, upper []byte, fn func(key, value []byte) (bool, error)) error

func (s *Store) records(ctx context.Context, lower, upper []byte, scan scanning,
	fn func(key, value []byte) bool) error {
	return s.read(ctx, func() error {
		if err := s.soundRange(lower, upper); err != nil {
			return err
		}
		return scan(ctx, lower, upper, func(k, v []byte) (bool, error) {
			return fn(k[tableKeyLen:], v), nil
		})
	})
}
