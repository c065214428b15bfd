package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// state is what a store holds after some steps.
type state struct {
	pos   im.Pos
	trim  im.Pos
	feed  map[im.Pos]uint64 // time of each entry
	rows  map[im.Key][]string
	first map[im.Key]im.Seq   // of rows
	kept  map[string]string   // the other records, by a readable name
	hash  map[im.Key][]im.Seq // seqs with a dedupe key
	marks map[markAt]string
}

// markAt is where a mark stands.
type markAt struct {
	conv im.Key
	kind store.MarkKind
	seq  im.Seq
	name string
}

// model is the state after the first k steps.
func (t *Told) model(k int) *state {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.modelLocked(k)
}

func (t *Told) modelLocked(k int) *state {
	m := &state{
		feed: map[im.Pos]uint64{}, rows: map[im.Key][]string{}, first: map[im.Key]im.Seq{},
		kept: map[string]string{}, hash: map[im.Key][]im.Seq{}, marks: map[markAt]string{},
	}
	for _, c := range t.convs {
		m.first[c] = 1
	}
	for _, s := range t.steps[:k] {
		m.apply(s)
	}
	return m
}

func (m *state) apply(s step) {
	switch {
	case s.batch != nil:
		m.batch(s.batch)
	case s.put != nil:
		for _, p := range s.put {
			name := "record " + string(p.Key)
			if p.Value == nil {
				delete(m.kept, name)
			} else {
				m.kept[name] = string(p.Value)
			}
		}
	case s.below != 0:
		if n := int(s.below - m.first[s.drop]); n > 0 {
			m.rows[s.drop] = slices.Clone(m.rows[s.drop][n:])
			m.first[s.drop] = s.below
			maps.DeleteFunc(m.marks, func(at markAt, _ string) bool { return at.conv == s.drop && at.seq < s.below })
		}
	default:
		for p := m.trim + 1; p <= s.trim; p++ {
			delete(m.feed, p)
		}
		m.trim = max(m.trim, s.trim)
	}
}

func (m *state) batch(b *store.Batch) {
	m.pos++
	m.feed[m.pos] = b.Entry.GetTimeMs()
	for _, r := range b.Rows {
		i := int(r.Seq - m.first[r.Conv])
		if i == len(m.rows[r.Conv]) {
			m.rows[r.Conv] = append(m.rows[r.Conv], "")
		}
		m.rows[r.Conv][i] = string(r.Value)
	}
	for _, d := range b.Dedupe {
		m.hash[d.Conv] = append(m.hash[d.Conv], d.Seq)
	}
	for _, p := range b.Convs {
		m.kept[fmt.Sprint("conversation ", p.Conv)] = p.Record.String()
	}
	for _, p := range b.Members {
		m.kept[fmt.Sprint("member ", p.User, " ", p.Conv)] = p.Record.String()
	}
	for _, p := range b.Cursors {
		m.kept[fmt.Sprint("cursor ", p.User, " ", p.Conv)] = p.Record.String()
	}
	for _, p := range b.Marks {
		at := markAt{p.Conv, p.Kind, p.Seq, p.Name}
		if delete(m.marks, at); len(p.Value) > 0 {
			m.marks[at] = string(p.Value)
		}
	}
}

// compare reads all of st and says how it differs from m.
func (m *state) compare(ctx context.Context, st store.Store, convs []im.Key) error {
	kept := map[string]string{}
	for _, c := range convs {
		if err := m.compareRows(ctx, st, c); err != nil {
			return err
		}
		conv, err := st.Conversation(ctx, c)
		if err != nil {
			return err
		}
		if conv != nil {
			kept[fmt.Sprint("conversation ", c)] = conv.String()
		}
		err = st.Members(ctx, c, func(u im.User, r *storepb.Member) bool {
			kept[fmt.Sprint("member ", u, " ", c)] = r.String()
			return true
		})
		if err != nil {
			return err
		}
		err = st.Cursors(ctx, c, "", func(u im.User, r *storepb.Cursor) bool {
			kept[fmt.Sprint("cursor ", u, " ", c)] = r.String()
			return true
		})
		if err != nil {
			return err
		}
	}
	err := st.Records(ctx, store.Settings, 0, nil, func(k, v []byte) bool {
		kept["record "+string(k)] = string(v)
		return true
	})
	if err != nil {
		return err
	}
	for name, v := range m.kept {
		if kept[name] != v {
			return fmt.Errorf("%s: got %q, want %q", name, kept[name], v)
		}
	}
	if len(kept) != len(m.kept) {
		return fmt.Errorf("got %d records, want %d", len(kept), len(m.kept))
	}
	if err := m.compareMarks(ctx, st, convs); err != nil {
		return err
	}
	return m.compareFeed(ctx, st, convs)
}

// markNames are the names of all marks, and of all other users.
var markNames = []im.User{"u0", "u1", "u2", "u3", "u4"}

// readMarks calls fn for all marks of a kind of c, until it returns false.
func readMarks(ctx context.Context, st store.Store, c im.Key, k store.MarkKind, fn func(at markAt, v string) bool) error {
	if !k.ByName() {
		return st.Marks(ctx, c, k, 0, lastSeq, "", func(q im.Seq, name string, v []byte) bool { return fn(markAt{c, k, q, name}, string(v)) })
	}
	for _, u := range markNames {
		err := st.MarksBy(ctx, c, k, string(u), 0, lastSeq, func(q im.Seq, v []byte) bool { return fn(markAt{c, k, q, string(u)}, string(v)) })
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *state) compareMarks(ctx context.Context, st store.Store, convs []im.Key) error {
	got := map[markAt]string{}
	for _, c := range convs {
		for _, k := range store.MarkKinds() {
			err := readMarks(ctx, st, c, k, func(at markAt, v string) bool {
				got[at] = v
				return true
			})
			if err != nil {
				return err
			}
		}
	}
	maps.DeleteFunc(got, func(at markAt, _ string) bool { // DropRows takes these away after the rows, not with them
		return at.seq < m.first[at.conv]
	})
	if !maps.Equal(got, m.marks) {
		return fmt.Errorf("got marks %v, want %v", got, m.marks)
	}
	return nil
}

// lastSeq is above every seq.
const lastSeq = im.Seq(math.MaxInt64)

func (m *state) compareRows(ctx context.Context, st store.Store, c im.Key) error {
	want, first := m.rows[c], m.first[c]
	last, err := st.LastRow(ctx, c)
	if err != nil {
		return err
	}
	if head := first + im.Seq(len(want)) - 1; last == nil && len(want) > 0 || last != nil && last.Seq != head {
		return fmt.Errorf("%s: the last row is %v, want %d", c, last, head)
	}
	var differs error
	err = st.Rows(ctx, c, first, first+im.Seq(len(want))-1, func(r store.Row) bool {
		if string(r.Value) != want[r.Seq-first] {
			differs = fmt.Errorf("%s row %d: got %.20x, want %.20x", c, r.Seq, r.Value, want[r.Seq-first])
		}
		return differs == nil
	})
	if err := errors.Join(differs, err); err != nil {
		return err
	}
	for _, q := range m.hash[c] {
		got, err := st.Dedupe(ctx, c, uint64(q)<<8)
		if err != nil {
			return err
		}
		if gone := len(got) == 0 && q < first; !gone && (len(got) != 1 || got[0] != q) {
			return fmt.Errorf("%s: hash of row %d: got %v", c, q, got)
		}
	}
	next := first + im.Seq(len(want))
	if got, err := st.Dedupe(ctx, c, uint64(next)<<8); err != nil {
		return err
	} else if len(got) > 0 {
		return fmt.Errorf("%s: hash of row %d, which is not there: got %v", c, next, got)
	}
	return nil
}

func (m *state) compareFeed(ctx context.Context, st store.Store, convs []im.Key) error {
	n := 0
	var differs error
	err := st.ScanFeed(ctx, st.FeedOf(im.PartitionOf(convs[0].Conv)), m.trim, m.pos, func(p im.Pos, e *storepb.FeedEntry) bool {
		n++
		if e.GetTimeMs() != m.feed[p] {
			differs = fmt.Errorf("feed entry %d: got time %d, want %d", p, e.GetTimeMs(), m.feed[p])
		}
		return differs == nil
	})
	switch {
	case err != nil:
		return err
	case differs != nil:
		return differs
	case n != len(m.feed):
		return fmt.Errorf("the feed has %d entries, want %d", n, len(m.feed))
	}
	return nil
}
