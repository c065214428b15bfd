package pgstore

import (
	"errors"
	"fmt"
	"strings"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
)

// block is a part of the statement that appends: the rows for one table, each column as an array. A statement
// leaves out the blocks for which its batches have no rows.
type block uint8

const (
	blockFence block = iota // one row for each batch; always there
	blockRows
	blockRewrites
	blockDedupe
	blockConvs
	blockMembers
	blockCursors
	blockMarks
	blocks
)

// mask has a bit for each block that a statement has.
type mask uint16

func (m mask) has(b block) bool { return m&(1<<b) != 0 }

// layout has the columns of each block. The first column is the partition. A block with a set replaces a row
// that has the same key.
var layout = [blocks]struct {
	table, columns, types, key, set string
}{
	blockFence: {"", "part, epoch, holder, pos, entry", "int, bigint, bigint, bigint, bytea", "", ""},
	blockRows:  {"msg", "part, tenant, conv, seq, value", "int, int, uuid, bigint, bytea", "", ""},
	blockRewrites: {"msg", "part, tenant, conv, seq, value", "int, int, uuid, bigint, bytea", "part, tenant, conv, seq",
		"value"},
	blockDedupe: {"dedupe", "part, tenant, conv, hash, slot, seq, sum", "int, int, uuid, bigint, int, bigint, int",
		"", ""},
	blockConvs: {"convs", "part, tenant, conv, record", "int, int, uuid, bytea", "part, tenant, conv", "record"},
	blockMembers: {"members", "part, tenant, conv, member, record", "int, int, uuid, text, bytea",
		"part, tenant, conv, member", "record"},
	blockCursors: {"cursors", "part, tenant, conv, member, record", "int, int, uuid, text, bytea",
		"part, tenant, conv, member", "record"},
	blockMarks: {"marks", "part, tenant, conv, kind, seq, name, value", "int, int, uuid, int, bigint, text, bytea",
		"part, tenant, conv, kind, seq, name", "value"},
}

// appendSQL returns the statement that appends batches. One statement is one transaction. The UPDATE of the
// partitions' rows is the fence: it locks these rows, waits for a takeover under way and sees its result, and
// returns no row for a batch that it refuses. All other blocks join the returned rows. So a refused batch
// writes nothing, and the others are not affected.
func appendSQL(m mask) string {
	var s strings.Builder
	param := 0
	unnest := func(b block) string {
		l := layout[b]
		types := strings.Split(l.types, ", ")
		for i := range types {
			param++
			types[i] = fmt.Sprintf("$%d::%s[]", param, types[i])
		}
		return fmt.Sprintf("unnest(%s) AS r(%s)", strings.Join(types, ", "), l.columns)
	}
	fmt.Fprintf(&s, `WITH b AS (SELECT * FROM %s),
f AS (UPDATE petrel.part AS p SET pos = p.pos + 1 FROM b
	WHERE p.id = b.part AND p.pos = b.pos AND p.epoch = b.epoch AND p.holder = b.holder AND p.state < %d
	RETURNING p.id, p.pos, b.entry),
e AS (INSERT INTO petrel.feed (part, pos, entry) SELECT id, pos, entry FROM f)`, unnest(blockFence), store.FeedSealed)
	for b := blockRows; b < blocks; b++ {
		if !m.has(b) {
			continue
		}
		l := layout[b]
		fmt.Fprintf(&s, ",\nb%d AS (INSERT INTO petrel.%s (%s) SELECT r.%s FROM %s JOIN f ON f.id = r.part", b, l.table,
			l.columns,
			strings.ReplaceAll(l.columns, ", ", ", r."), unnest(b))
		if l.set != "" {
			fmt.Fprintf(&s, " ON CONFLICT (%s) DO UPDATE SET %s = excluded.%s", l.key, l.set, l.set)
		}
		s.WriteByte(')')
	}
	s.WriteString("\nSELECT id FROM f")
	return s.String()
}

// statement collects the parameters of one statement that appends batches. It is reused.
type statement struct {
	mask   mask
	arrays [blocks][]array
	params [][]byte
	seen   map[place]struct{}
	sums   sums
}

// place is the key of a record or mark, by which the last of several puts is found. The key of a mark has its
// kind and seq too.
type place struct {
	conv im.Key
	name string
	kind store.MarkKind
	seq  im.Seq
}

func newStatement() *statement {
	s := &statement{seen: map[place]struct{}{}}
	for b := range layout {
		for _, t := range strings.Split(layout[b].types, ", ") {
			s.arrays[b] = append(s.arrays[b], array{oid: columnTypes[t]})
		}
	}
	return s
}

func (s *statement) reset() {
	s.mask = 0
	for b := range s.arrays {
		for i := range s.arrays[b] {
			s.arrays[b][i].reset()
		}
	}
}

// begin adds the first columns of a row of c to a block and returns the others.
func (s *statement) begin(b block, in *store.Batch, c im.Key) []array {
	if p := im.PartitionOf(c.Conv); p != im.Partition(in.Feed) {
		im.Assert(false, "a batch of feed %d has %s of partition %d", in.Feed, c, p)
	}
	s.mask |= 1 << b
	a := s.arrays[b]
	a[0].int4(int(in.Feed))
	a[1].int4(int(c.Tenant))
	a[2].uuid(c.Conv)
	return a[3:]
}

// add puts a batch into the statement.
func (s *statement) add(in *store.Batch) error {
	a := s.arrays[blockFence]
	a[0].int4(int(in.Feed))
	a[1].int8(uint64(in.Epoch))
	a[2].int8(in.Holder)
	a[3].int8(uint64(in.From))
	if err := a[4].message(&s.sums, feedAddress(in.Feed, in.From+1), in.Entry); err != nil {
		return err
	}
	for i := range in.Rows {
		r := &in.Rows[i]
		b := blockRows
		if r.Rewrite {
			b = blockRewrites
		}
		a := s.begin(b, in, r.Conv)
		a[0].int8(uint64(r.Seq))
		a[1].sealed(&s.sums, address{kind: kindRow, conv: r.Conv, n: uint64(r.Seq)}, r.Value)
	}
	for _, p := range in.Dedupe {
		a := s.begin(blockDedupe, in, p.Conv)
		a[0].int8(p.Hash)
		a[1].int4(int(p.Slot))
		a[2].int8(uint64(p.Seq))
		a[3].int4(int(int32(s.sums.ofDedupe(p.Conv, p.Hash, uint32(p.Slot), uint64(p.Seq)))))
	}
	return s.addRecords(in)
}

// addRecords adds the records and marks of a batch. Of several for one key it adds only the last, because
// PostgreSQL refuses to write a row twice. A removed mark keeps its row, with an empty value, so a copy of the
// marks has the removal too.
func (s *statement) addRecords(in *store.Batch) error {
	return errors.Join(
		last(s, in.Convs, func(p *store.ConvPut) place { return place{conv: p.Conv} }, func(p *store.ConvPut) error {
			return s.begin(blockConvs, in, p.Conv)[0].message(&s.sums, address{kind: kindConversation, conv: p.Conv},
				p.Record)
		}),
		last(s, in.Members, func(p *store.MemberPut) place { return place{conv: p.Conv, name: string(p.User)} },
			func(p *store.MemberPut) error {
				return s.user(blockMembers, kindMember, in, p.Conv, p.User, p.Record)
			}),
		last(s, in.Cursors, func(p *store.CursorPut) place { return place{conv: p.Conv, name: string(p.User)} },
			func(p *store.CursorPut) error {
				return s.user(blockCursors, kindCursor, in, p.Conv, p.User, p.Record)
			}),
		last(s, in.Marks, func(p *store.MarkPut) place { return place{p.Conv, p.Name, p.Kind, p.Seq} },
			func(p *store.MarkPut) error {
				a := s.begin(blockMarks, in, p.Conv)
				a[0].int4(int(p.Kind))
				a[1].int8(uint64(p.Seq))
				a[2].text(p.Name)
				a[3].sealed(&s.sums, markAddress(p.Conv, p.Kind, p.Seq, p.Name), p.Value)
				return nil
			}))
}

// last calls add for the last put of each key.
func last[P any](s *statement, puts []P, at func(*P) place, add func(*P) error) error {
	clear(s.seen)
	for i := len(puts) - 1; i >= 0; i-- {
		n := len(s.seen)
		if s.seen[at(&puts[i])] = struct{}{}; len(s.seen) == n {
			continue
		}
		if err := add(&puts[i]); err != nil {
			return err
		}
	}
	return nil
}

func (s *statement) user(b block, k kind, in *store.Batch, c im.Key, u im.User, m message) error {
	a := s.begin(b, in, c)
	a[0].text(string(u))
	return a[1].message(&s.sums, address{kind: k, conv: c, name: string(u)}, m)
}

// encode returns the parameters in the order of appendSQL.
func (s *statement) encode() [][]byte {
	s.params = s.params[:0]
	for b := range s.arrays {
		if block(b) != blockFence && !s.mask.has(block(b)) {
			continue
		}
		for i := range s.arrays[b] {
			s.params = append(s.params, s.arrays[b][i].encode())
		}
	}
	return s.params
}
