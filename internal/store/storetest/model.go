package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// state is the content of a store after some steps.
type state struct {
	pos, trim   im.Pos
	holds       map[place]string
	first, next map[im.Key]im.Seq // of rows: the lowest seq, and the one after the highest
}

// place is the key of one value of a store.
type place struct {
	what what
	conv im.Key
	seq  im.Seq // of a commit: its position
	mark store.MarkKind
	name string // a user, or the key of a record
}

type what string

const (
	row          what = "row"
	filed        what = "hash of row"
	mark         what = "mark"
	conversation what = "conversation"
	member       what = "member"
	cursor       what = "cursor"
	setting      what = "record"
	commit       what = "feed entry"
)

func (p place) String() string {
	return fmt.Sprintf("%s %d %q of kind %d of %s", p.what, p.seq, p.name, p.mark, p.conv)
}

// model returns the state after the first k steps.
func (t *Workload) model(k int) *state {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.modelLocked(k)
}

func (t *Workload) modelLocked(k int) *state {
	m := &state{holds: map[place]string{}, first: map[im.Key]im.Seq{}, next: map[im.Key]im.Seq{}}
	for _, c := range t.convs {
		m.first[c], m.next[c] = 1, 1
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
			m.set(place{what: setting, name: string(p.Key)}, p.Value)
		}
	case s.below != 0:
		m.first[s.drop] = max(m.first[s.drop], s.below)
		maps.DeleteFunc(m.holds, func(at place, _ string) bool {
			return at.conv == s.drop && at.seq > 0 &&
				at.seq < s.below
		})
	default:
		m.trim = max(m.trim, s.trim)
		maps.DeleteFunc(m.holds, func(at place, _ string) bool { return at.what == commit && im.Pos(at.seq) <= m.trim })
	}
}

// set notes a value; an empty one removes it.
func (m *state) set(at place, v []byte) {
	if delete(m.holds, at); len(v) > 0 {
		m.holds[at] = string(v)
	}
}

func (m *state) batch(b *store.Batch) {
	m.pos++
	m.holds[place{what: commit, seq: im.Seq(m.pos)}] = fmt.Sprint(b.Entry.GetTimeMs())
	for _, r := range b.Rows {
		m.holds[place{what: row, conv: r.Conv, seq: r.Seq}] = string(r.Value)
		m.next[r.Conv] = max(m.next[r.Conv], r.Seq+1)
	}
	for _, d := range b.Dedupe {
		m.holds[place{what: filed, conv: d.Conv, seq: d.Seq}] = fmt.Sprint([]im.Seq{d.Seq})
	}
	for _, p := range b.Convs {
		m.holds[place{what: conversation, conv: p.Conv}] = p.Record.String()
	}
	for _, p := range b.Members {
		m.holds[place{what: member, conv: p.Conv, name: string(p.User)}] = p.Record.String()
	}
	for _, p := range b.Cursors {
		m.holds[place{what: cursor, conv: p.Conv, name: string(p.User)}] = p.Record.String()
	}
	for _, p := range b.Marks {
		m.set(place{mark, p.Conv, p.Seq, p.Kind, p.Name}, p.Value)
	}
}

// compare reads all of st and returns an error with the first difference from m.
func (m *state) compare(ctx context.Context, st store.Store, convs []im.Key) error {
	got, err := m.read(ctx, st, convs)
	if err != nil {
		return err
	}
	for at, v := range m.holds {
		if g, ok := got[at]; !ok || g != v {
			return fmt.Errorf("%s: got %.40q, want %.40q", at, g, v)
		}
		delete(got, at)
	}
	if len(got) > 0 {
		return fmt.Errorf("got what was never written, or is gone: %.300v", got)
	}
	return nil
}

// read returns the content of st at all places of m.
func (m *state) read(ctx context.Context, st store.Store, convs []im.Key) (map[place]string, error) {
	got := map[place]string{}
	note := func(at place, v string) bool {
		got[at] = v
		return true
	}
	var errs []error
	for _, c := range convs {
		last, err := st.LastRow(ctx, c)
		head := m.first[c] - 1
		if last != nil {
			head = last.Seq
		}
		conv, e := st.Conversation(ctx, c)
		if conv != nil {
			note(place{what: conversation, conv: c}, conv.String())
		}
		errs = append(errs, err, e,
			st.Rows(ctx, c, m.first[c], head,
				func(r store.Row) bool { return note(place{what: row, conv: c, seq: r.Seq}, string(r.Value)) }),
			st.Members(ctx, c, func(u im.User, r *storepb.Member) bool {
				return note(place{what: member, conv: c, name: string(u)}, r.String())
			}),
			st.Cursors(ctx, c, "", func(u im.User, r *storepb.Cursor) bool {
				return note(place{what: cursor, conv: c, name: string(u)}, r.String())
			}))
		for _, k := range store.MarkKinds() {
			errs = append(errs, readMarks(ctx, st, c, k, func(at place, v string) bool {
				// DropRows removes the marks below first after the rows, in other writes
				return at.seq < m.first[c] || note(at, v)
			}))
		}
		for q := m.first[c]; q <= m.next[c]; q++ {
			at := place{what: filed, conv: c, seq: q}
			if m.holds[at] == "" && q < m.next[c] {
				continue
			}
			seqs, err := st.Dedupe(ctx, c, uint64(q)<<8)
			if errs = append(errs, err); len(seqs) > 0 {
				note(at, fmt.Sprint(seqs))
			}
		}
	}
	errs = append(errs,
		st.Records(ctx, store.Settings, 0, nil, func(k, v []byte) bool {
			return note(place{what: setting, name: string(k)}, string(v))
		}),
		st.ScanFeed(ctx, st.FeedOf(im.PartitionOf(convs[0].Conv)), m.trim, m.pos,
			func(p im.Pos, e *storepb.FeedEntry) bool {
				return note(place{what: commit, seq: im.Seq(p)}, fmt.Sprint(e.GetTimeMs()))
			}))
	return got, errors.Join(errs...)
}

// markNames are the names of marks, and all user ids of the workload.
var markNames = []im.User{"u0", "u1", "u2", "u3", "u4"}

// readMarks calls fn for all marks of a kind of c, until it returns false.
func readMarks(ctx context.Context, st store.Store, c im.Key, k store.MarkKind,
	fn func(at place, v string) bool) error {
	if !k.ByName() {
		return st.Marks(ctx, c, k, 0, lastSeq, "", func(q im.Seq, name string, v []byte) bool {
			return fn(place{mark, c, q, k, name}, string(v))
		})
	}
	for _, u := range markNames {
		err := st.MarksBy(ctx, c, k, string(u), 0, lastSeq, func(q im.Seq, v []byte) bool {
			return fn(place{mark, c, q, k, string(u)}, string(v))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// lastSeq is above every seq.
const lastSeq = im.Seq(math.MaxInt64)
