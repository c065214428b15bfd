package pgstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// chunk is the number of rows of one read: few bytes wait in memory, and no connection is held while the caller
// looks at them.
const chunk = 256

func scanInt(r pgx.CollectableRow) (n int64, err error) { return n, r.Scan(&n) }

// scanBytes copies one column.
func scanBytes(r pgx.CollectableRow) ([]byte, error) {
	return append([]byte{}, r.RawValues()[0]...), nil
}

// collectOne reads at most one row, and returns the zero value if there is none.
func collectOne[T any](ctx context.Context, d *database, scan pgx.RowToFunc[T], sql string,
	args ...any) (one T, err error) {
	all, err := collect(ctx, d, scan, sql, args...)
	if err == nil && len(all) > 0 {
		one = all[0]
	}
	return one, err
}

// pair is a value and its number or name.
type pair struct {
	n     uint64
	name  []byte
	value []byte
}

// scanNumbered reads a bigint and a bytea.
func scanNumbered(r pgx.CollectableRow) (pair, error) {
	v := r.RawValues()
	return pair{n: binary.BigEndian.Uint64(v[0]), value: bytes.Clone(v[1])}, nil
}

// scanNamed reads a text or bytea, and a bytea.
func scanNamed(r pgx.CollectableRow) (pair, error) {
	v := r.RawValues()
	return pair{name: append([]byte{}, v[0]...), value: append([]byte{}, v[1]...)}, nil
}

// pages reads rows, limit at a time, and calls the function each for every row until that returns false. next
// returns the statement for the rows behind the row last; nil: for the first rows.
func pages[T any](ctx context.Context, d *database, limit int, scan pgx.RowToFunc[T],
	next func(last *T) (string, []any), each func(*T) (bool, error)) error {
	for last := (*T)(nil); ; {
		sql, args := next(last)
		rows, err := collect(ctx, d, scan, sql, args...)
		if err != nil {
			return err
		}
		for i := range rows {
			if more, err := each(&rows[i]); err != nil || !more {
				return err
			}
		}
		if len(rows) < limit {
			return nil
		}
		last = &rows[limit-1]
	}
}

// failed adds to an error what the method was to do; a nil error stays nil.
func failed(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err)
}

// key returns a conversation as the first three arguments of a statement.
func key(c im.Key) (part, tenant int32, conv [16]byte) {
	return int32(im.PartitionOf(c.Conv)), int32(c.Tenant), c.Conv
}

// LastRow implements store.Store.
func (s *Store) LastRow(ctx context.Context, c im.Key) (*store.Row, error) {
	part, tenant, conv := key(c)
	rows, err := collect(ctx, s.holding(c), scanNumbered,
		`SELECT seq, value FROM petrel.msg WHERE part = $1 AND tenant = $2 AND conv = $3 ORDER BY seq DESC LIMIT 1`,
		part, tenant, conv)
	if err != nil {
		return nil, fmt.Errorf("read last row of %s: %w", c, err)
	}
	if len(rows) == 0 {
		return nil, nil
	}
	v, err := s.holding(c).sound(&sums{}, address{kind: kindRow, conv: c, n: rows[0].n}, rows[0].value)
	if err != nil {
		return nil, fmt.Errorf("read last row %d of %s: %w", rows[0].n, c, err)
	}
	return &store.Row{Seq: im.Seq(rows[0].n), Value: v}, nil
}

// chunkBytes is the number of bytes after which a read takes no further rows. PostgreSQL knows the length of a
// value without reading it, so the rows that are left out cost nothing.
const chunkBytes = 48 << 10

// rowsUp and rowsDown read the rows between $4 and $5, until they have $6 bytes.
var rowsUp, rowsDown = rowsOf("ASC"), rowsOf("DESC")

func rowsOf(order string) string {
	return fmt.Sprintf(`SELECT seq, value FROM (
		SELECT seq, value, sum(octet_length(value)) OVER (ORDER BY seq %[1]s ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) - octet_length(value) AS before
		FROM petrel.msg WHERE part = $1 AND tenant = $2 AND conv = $3 AND seq BETWEEN $4 AND $5) AS sized
		WHERE before < $6 ORDER BY seq %[1]s`, order)
}

// Rows implements store.Store.
func (s *Store) Rows(ctx context.Context, c im.Key, from, to im.Seq, fn func(store.Row) bool) error {
	for from <= to {
		n, err := s.someRows(ctx, c, rowsUp, from, min(to, from+chunk-1), from, 1, fn)
		if err != nil || n == 0 {
			return err
		}
		from += n
	}
	return nil
}

// RowsDown implements store.Store.
func (s *Store) RowsDown(ctx context.Context, c im.Key, from, to im.Seq, fn func(store.Row) bool) error {
	for left := to - from + 1; from <= to && left > 0; {
		n, err := s.someRows(ctx, c, rowsDown, to-min(left, chunk)+1, to, to, ^im.Seq(0), fn) // -1
		if err != nil || n == 0 {
			return err
		}
		to, left = to-n, left-n
	}
	return nil
}

// someRows reads rows between from and to, and calls fn for each. The first one has the seq next, and each further
// one is step away. It returns their number, which chunkBytes limits; 0: fn has returned false. A missing row is
// ErrCorrupt.
func (s *Store) someRows(ctx context.Context, c im.Key, sql string, from, to, next, step im.Seq,
	fn func(store.Row) bool) (im.Seq, error) {
	part, tenant, conv := key(c)
	d, sum := s.holding(c), &sums{}
	rows, err := collect(ctx, d, scanNumbered, sql, part, tenant, conv, int64(from), int64(to), int64(chunkBytes))
	if err != nil {
		return 0, fmt.Errorf("read rows %d to %d of %s: %w", from, to, c, err)
	}
	n, size := im.Seq(0), 0
	for _, r := range rows {
		if im.Seq(r.n) != next {
			break
		}
		v, err := d.sound(sum, address{kind: kindRow, conv: c, n: r.n}, r.value)
		if err != nil {
			return 0, fmt.Errorf("read row %d of %s: %w", next, c, err)
		}
		if !fn(store.Row{Seq: next, Value: v}) {
			return 0, nil
		}
		size += len(r.value)
		next += step
		n++
	}
	if n <= to-from && size < chunkBytes { // there was room for the next row, and it was not there
		return 0, fmt.Errorf("read rows of %s: row %d is missing: %w", c, next, store.ErrCorrupt)
	}
	return n, nil
}

// Dedupe implements store.Store.
func (s *Store) Dedupe(ctx context.Context, c im.Key, hash uint64) ([]im.Seq, error) {
	part, tenant, conv := key(c)
	d, sum := s.holding(c), &sums{}
	seqs, err := collect(ctx, d, func(r pgx.CollectableRow) (im.Seq, error) {
		v := r.RawValues()
		seq := binary.BigEndian.Uint64(v[0])
		if sum.ofDedupe(c, hash, binary.BigEndian.Uint32(v[1]), seq) != binary.BigEndian.Uint32(v[2]) {
			return 0, d.corrupt("the seq")
		}
		return im.Seq(seq), nil
	}, `SELECT seq, slot, sum FROM petrel.dedupe WHERE part = $1 AND tenant = $2 AND conv = $3 AND hash = $4 ORDER BY slot`,
		part, tenant, conv, int64(hash))
	if err != nil {
		return nil, fmt.Errorf("look up hash %x in %s: %w", hash, c, err)
	}
	if len(seqs) == 0 {
		return nil, nil
	}
	return seqs, nil
}

// record is the interface of generated records.
type record[T any] interface {
	*T
	UnmarshalVT([]byte) error
}

// parse decodes the record that is stored at an address.
func parse[T any, M record[T]](d *database, s *sums, at address, stored []byte) (M, error) {
	m := M(new(T))
	v, err := d.sound(s, at, stored)
	if err != nil {
		return nil, err
	}
	if err := m.UnmarshalVT(v); err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrCorrupt, err)
	}
	return m, nil
}

// look reads the record of a key with the lookup l; nil: there is none.
func look[T any, M record[T], K any](ctx context.Context, d *database, l *lookup[K], k K, at address) (M, error) {
	v, err := l.get(ctx, k)
	if err != nil || v == nil {
		return nil, err
	}
	return parse[T, M](d, &sums{}, at, v)
}

// Conversation implements store.Store.
func (s *Store) Conversation(ctx context.Context, c im.Key) (*storepb.Conversation, error) {
	d := s.holding(c)
	rec, err := look[storepb.Conversation](ctx, d, &d.convs, c, address{kind: kindConversation, conv: c})
	return rec, failed(err, "read conversation %s", c)
}

// Member implements store.Store.
func (s *Store) Member(ctx context.Context, c im.Key, u im.User) (*storepb.Member, error) {
	d := s.holding(c)
	rec, err := look[storepb.Member](ctx, d, &d.members, userKey{c, u},
		address{kind: kindMember, conv: c, name: string(u)})
	return rec, failed(err, "read member %s of %s", u, c)
}

// Cursor implements store.Store.
func (s *Store) Cursor(ctx context.Context, c im.Key, u im.User) (*storepb.Cursor, error) {
	d := s.holding(c)
	rec, err := look[storepb.Cursor](ctx, d, &d.cursors, userKey{c, u},
		address{kind: kindCursor, conv: c, name: string(u)})
	return rec, failed(err, "read cursor of %s in %s", u, c)
}

// Members implements store.Store.
func (s *Store) Members(ctx context.Context, c im.Key, fn func(im.User, *storepb.Member) bool) error {
	return failed(users(ctx, s.holding(c), kindMember, c, "", "members", fn), "read members of %s", c)
}

// Cursors implements store.Store.
func (s *Store) Cursors(ctx context.Context, c im.Key, after im.User, fn func(im.User, *storepb.Cursor) bool) error {
	return failed(users(ctx, s.holding(c), kindCursor, c, after, "cursors", fn), "read cursors of %s", c)
}

// users calls fn for the records of a conversation's users with ids greater than after; an empty after means
// all users.
func users[T any, M record[T]](ctx context.Context, d *database, k kind, c im.Key, after im.User, table string,
	fn func(im.User, M) bool) error {
	const chunk = 4 * chunk // these rows are small
	sum := &sums{}
	part, tenant, conv := key(c)
	return pages(ctx, d, chunk, scanNamed, func(last *pair) (string, []any) {
		from := string(after)
		if last != nil {
			from = string(last.name)
		}
		return "SELECT member, record FROM petrel." + table +
				" WHERE part = $1 AND tenant = $2 AND conv = $3 AND member > $4 ORDER BY member LIMIT $5",
			[]any{part, tenant, conv, from, chunk}
	}, func(r *pair) (bool, error) {
		m, err := parse[T, M](d, sum, address{kind: k, conv: c, name: string(r.name)}, r.value)
		if err != nil {
			return false, fmt.Errorf("%s: %w", r.name, err)
		}
		return fn(im.User(r.name), m), nil
	})
}

// scanMark reads a bigint, a text and a bytea.
func scanMark(r pgx.CollectableRow) (pair, error) {
	v := r.RawValues()
	return pair{n: binary.BigEndian.Uint64(v[0]), name: append([]byte{}, v[1]...), value: append([]byte{}, v[2]...)},
		nil
}

const (
	marksBetween = `SELECT seq, name, value FROM petrel.marks WHERE part = $1 AND tenant = $2 AND conv = $3 AND kind = $4
		AND seq <= $5 AND (seq, name) > ($6, $7) ORDER BY seq, name LIMIT $8`
	marksAt = `SELECT k.i, m.value FROM unnest($5::bigint[]) WITH ORDINALITY AS k(seq, i), LATERAL (SELECT value FROM petrel.marks AS m
		WHERE m.part = $1 AND m.tenant = $2 AND m.conv = $3 AND m.kind = $4 AND m.seq = k.seq AND m.name = $6 OFFSET 0) AS m`
)

// Marks implements store.Store.
func (s *Store) Marks(ctx context.Context, c im.Key, k store.MarkKind, from, to im.Seq, after string,
	fn func(im.Seq, string, []byte) bool) error {
	im.Assert(!k.ByName(), "marks of kind %d are ordered by name", k)
	if from > to {
		return nil
	}
	d, sum := s.holding(c), &sums{}
	part, tenant, conv := key(c)
	behind := from
	if after == "" { // begin with the mark without a name, if there is one
		behind--
		after = lastName
	}
	err := pages(ctx, d, 4*chunk, scanMark, func(last *pair) (string, []any) {
		if last != nil {
			behind, after = im.Seq(last.n), string(last.name)
		}
		return marksBetween, []any{part, tenant, conv, int32(k), int64(to), int64(behind), after, 4 * chunk}
	}, func(r *pair) (bool, error) {
		v, err := d.sound(sum, markAddress(c, k, im.Seq(r.n), string(r.name)), r.value)
		return err == nil && (len(v) == 0 || fn(im.Seq(r.n), string(r.name), v)), failed(err, "mark at %d", r.n)
	})
	return failed(err, "read marks %d of %s from %d to %d", k, c, from, to)
}

// marksByName uses an index that has the rows of this kind only. So the kind is in the statement: a plan for
// any kind could not use the index.
var marksByName = fmt.Sprintf(`SELECT seq, value FROM petrel.marks WHERE part = $1 AND tenant = $2 AND conv = $3 AND kind = %d AND name = $4
		AND seq BETWEEN $5 AND $6 ORDER BY seq LIMIT $7`, store.MarkMention)

// MarksBy implements store.Store.
func (s *Store) MarksBy(ctx context.Context, c im.Key, k store.MarkKind, name string, from, to im.Seq,
	fn func(im.Seq, []byte) bool) error {
	im.Assert(k == store.MarkMention, "marks of kind %d are not ordered by name", k)
	d, sum := s.holding(c), &sums{}
	part, tenant, conv := key(c)
	if from > to {
		return nil
	}
	err := pages(ctx, d, chunk, scanNumbered, func(last *pair) (string, []any) {
		if last != nil {
			from = im.Seq(last.n) + 1
		}
		return marksByName, []any{part, tenant, conv, name, int64(from), int64(to), chunk}
	}, func(r *pair) (bool, error) {
		v, err := d.sound(sum, markAddress(c, k, im.Seq(r.n), name), r.value)
		return err == nil && (len(v) == 0 || fn(im.Seq(r.n), v)), failed(err, "mark at %d", r.n)
	})
	return failed(err, "read marks %d of %s from %d to %d", k, c, from, to)
}

// lastName is greater than every name of a mark: it begins with the greatest character.
const lastName = "\U0010ffff\U0010ffff"

// MarksOf implements store.Store.
func (s *Store) MarksOf(ctx context.Context, c im.Key, k store.MarkKind, name string, seqs []im.Seq) ([][]byte, error) {
	d, sum := s.holding(c), &sums{}
	part, tenant, conv := key(c)
	at := make([]int64, len(seqs))
	for i, q := range seqs {
		at[i] = int64(q)
	}
	rows, err := collect(ctx, d, scanNumbered, marksAt, part, tenant, conv, int32(k), at, name)
	if err != nil {
		return nil, fmt.Errorf("read marks %d of %s: %w", k, c, err)
	}
	all := make([][]byte, len(seqs))
	for _, r := range rows {
		i := r.n - 1
		v, err := d.sound(sum, markAddress(c, k, seqs[i], name), r.value)
		if err != nil {
			return nil, fmt.Errorf("read mark %d of %s at %d: %w", k, c, seqs[i], err)
		}
		if len(v) > 0 {
			all[i] = v
		}
	}
	return all, nil
}

// ScanFeed implements store.Store.
func (s *Store) ScanFeed(ctx context.Context, f store.Feed, after, upTo im.Pos,
	fn func(im.Pos, *storepb.FeedEntry) bool) error {
	d, err := s.of(f)
	for err == nil && after < upTo {
		end := upTo
		if upTo-after > chunk {
			end = after + chunk
		}
		var more bool
		after, more, err = scanChunk(ctx, d, f, after, end, fn)
		if err == nil && !more {
			return nil
		}
	}
	return failed(err, "read feed %d to %d", f, upTo)
}

// scanChunk calls fn for the entries with after < pos <= upTo. It returns the position that it has reached, and false
// if fn has returned false or an error has come.
func scanChunk(ctx context.Context, d *database, f store.Feed, after, upTo im.Pos,
	fn func(im.Pos, *storepb.FeedEntry) bool) (im.Pos, bool, error) {
	rows, err := collect(ctx, d, scanNumbered,
		`SELECT pos, entry FROM petrel.feed WHERE part = $1 AND pos > $2 AND pos <= $3 ORDER BY pos`, int32(f),
		int64(after), int64(upTo))
	if err != nil {
		return after, false, err
	}
	sum := &sums{}
	for _, r := range rows {
		if im.Pos(r.n) != after+1 {
			break
		}
		e, err := parse[storepb.FeedEntry](d, sum, feedAddress(f, after+1), r.value)
		if err == nil {
			err = store.CheckFeedEntry(e)
		}
		if err != nil {
			return after, false, fmt.Errorf("commit %d: %w", after+1, err)
		}
		after++
		if !fn(after, e) {
			return after, false, nil
		}
	}
	if after == upTo {
		return after, true, nil
	}
	// The trim was raised before any entry was deleted, so a read that misses an entry sees the trim.
	trim, err := collectOne(ctx, d, scanInt, `SELECT trim FROM petrel.part WHERE id = $1`, int32(f))
	switch {
	case err != nil:
		return after, false, err
	case after < im.Pos(trim):
		return after, false, fmt.Errorf("commit %d: %w", after+1, store.ErrTrimmed)
	}
	return after, false, fmt.Errorf("commit %d is missing: %w", after+1, store.ErrCorrupt)
}

// Record implements store.Store.
func (s *Store) Record(ctx context.Context, t store.Table, tenant im.Tenant, key []byte) ([]byte, error) {
	v, err := s.records().lookups.records.get(ctx, recordKey{t, tenant, string(key)})
	if err == nil && v != nil {
		v, err = s.records().sound(&sums{}, recordAddress(t, tenant, key), v)
	}
	return v, failed(err, "read table %d key %q", t, key)
}

// notNil returns b, or an empty slice if b is nil, which would be NULL.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// Records implements store.Store.
func (s *Store) Records(ctx context.Context, t store.Table, tenant im.Tenant, prefix []byte,
	fn func(key, value []byte) bool) error {
	return failed(s.recordsIn(ctx, t, tenant, prefix, after(prefix), false, fn), "read table %d prefix %q", t, prefix)
}

// RecordsFrom implements store.Store.
func (s *Store) RecordsFrom(ctx context.Context, t store.Table, tenant im.Tenant, from []byte,
	fn func(key, value []byte) bool) error {
	return failed(s.recordsIn(ctx, t, tenant, from, nil, false, fn), "read table %d from %q", t, from)
}

// RecordsDown implements store.Store.
func (s *Store) RecordsDown(ctx context.Context, t store.Table, tenant im.Tenant, prefix, below []byte,
	fn func(key, value []byte) bool) error {
	if end := after(prefix); len(below) == 0 || end != nil && bytes.Compare(end, below) < 0 {
		below = end
	}
	return failed(s.recordsIn(ctx, t, tenant, prefix, below, true, fn), "read table %d prefix %q down", t, prefix)
}

// recordsIn reads the records with from <= key < below; below nil: up to the end. With down it begins with the
// last one.
func (s *Store) recordsIn(ctx context.Context, t store.Table, tenant im.Tenant, from, below []byte, down bool,
	fn func(key, value []byte) bool) error {
	sum := &sums{}
	return pages(ctx, s.records(), chunk, scanNamed, func(last *pair) (string, []any) {
		switch {
		case last != nil && down:
			below = last.name
		case last != nil:
			from = append(last.name, 0) // the least key above it
		}
		sql, args := `SELECT key, value FROM petrel.records WHERE tbl = $1 AND tenant = $2 AND key >= $3`,
			[]any{int32(t), int32(tenant), notNil(from), chunk}
		if below != nil {
			sql, args = sql+` AND key < $5`, append(args, below)
		}
		if down {
			return sql + ` ORDER BY key DESC LIMIT $4`, args
		}
		return sql + ` ORDER BY key LIMIT $4`, args
	}, func(r *pair) (bool, error) {
		v, err := s.records().sound(sum, recordAddress(t, tenant, r.name), r.value)
		return err == nil && fn(r.name, v), failed(err, "key %q", r.name)
	})
}

// after returns the least key that is greater than every key with a prefix, nil if there is none.
func after(prefix []byte) []byte {
	b := bytes.Clone(prefix)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i]++; b[i] != 0 {
			return b[:i+1]
		}
	}
	return nil
}
