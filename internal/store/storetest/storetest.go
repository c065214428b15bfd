// Package storetest tests implementations of package store. Run is the suite for a store without faults.
// Workload is for suites that crash a store and compare it with the acked commits.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// Run tests the stores that place makes. Run calls place once for each test. The returned function opens the
// store of that test, the same one at each call.
func Run(t *testing.T, place func(t *testing.T) (open func() store.Store)) {
	for _, c := range []struct {
		name string
		test func(*suite)
	}{
		{"a new store is empty", (*suite).empty},
		{"a batch is readable and in the feed", (*suite).batch},
		{"a refused batch leaves nothing", (*suite).refused},
		{"a takeover ends the writer before", (*suite).takeover},
		{"who holds a feed is told", (*suite).holders},
		{"feeds are written at the same time", (*suite).feeds},
		{"done follows the order of appends", (*suite).order},
		{"rows are bounded and a hole is damage", (*suite).rows},
		{"large rows are read in both directions", (*suite).large},
		{"a row is rewritten in place", (*suite).rewrite},
		{"the last row is that of its conversation", (*suite).lastRow},
		{"a hash has slots", (*suite).dedupe},
		{"users are ordered", (*suite).users},
		{"each of many reads at the same time gets its own", (*suite).readsAtOnce},
		{"marks stand beside rows", (*suite).marked},
		{"rows below a seq are dropped", (*suite).drop},
		{"sizes are of rows, and those of long conversations are estimates", (*suite).sizes},
		{"a feed entry with half an id is damaged", (*suite).halfID},
		{"the feed is trimmed", (*suite).trim},
		{"records are listed by prefix and tenant", (*suite).records},
		{"a record is put if it is as it was", (*suite).check},
		{"a closed store opens as it was", (*suite).reopen},
		{"anybody may call at any time", (*suite).together},
	} {
		t.Run(c.name, func(t *testing.T) {
			open := place(t)
			s := &suite{T: t, ctx: t.Context(), open: open, Store: open()}
			s.feed = s.FeedOf(im.PartitionOf(key(1, 1).Conv))
			defer func() {
				if err := s.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			}()
			c.test(s)
		})
	}
}

// suite is one test with its store.
type suite struct {
	*testing.T
	store.Store
	ctx   context.Context
	open  func() store.Store
	feed  store.Feed
	epoch im.Epoch
	pos   im.Pos
}

func (s *suite) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *suite) wants(err, want error) {
	s.Helper()
	if !errors.Is(err, want) {
		s.Fatalf("got error %v, want %v", err, want)
	}
}

func (s *suite) same(got, want any) {
	s.Helper()
	if d := cmp.Diff(want, got); d != "" {
		s.Fatalf("-want +got:\n%s", d)
	}
}

// holder identifies every writer of these suites.
const holder = 0xfeedfacecafebeef

// own takes over the feed of the test.
func (s *suite) own() {
	s.Helper()
	var err error
	s.epoch, s.pos, err = s.Takeover(s.ctx, s.feed, holder)
	s.must(err)
}

// Append commits one batch and waits for its outcome.
func Append(st store.Store, b *store.Batch) error {
	done := make(chan error, 1)
	st.Append(b, func(err error) { done <- err })
	return <-done
}

// add commits b as the next batch.
func (s *suite) add(b store.Batch) {
	s.Helper()
	b.Feed, b.Epoch, b.Holder, b.From = s.feed, s.epoch, holder, s.pos
	if b.Entry == nil {
		b.Entry = &storepb.FeedEntry{TimeMs: uint64(s.pos) + 1000}
	}
	s.must(Append(s, &b))
	s.pos++
}

// key returns a conversation of tenant t whose id has n in its last byte.
func key(t im.Tenant, n byte) im.Key {
	k := im.Key{Tenant: t}
	for i := range k.Conv {
		k.Conv[i] = 0xff // so that a bound made by adding one carries
	}
	k.Conv[0], k.Conv[15] = byte(im.Group), n
	return k
}

func text(seq im.Seq) []byte { return fmt.Appendf(nil, "row %d", seq) }

func puts(c im.Key, from, to im.Seq) []store.RowPut {
	var r []store.RowPut
	for q := from; q <= to; q++ {
		r = append(r, store.RowPut{Conv: c, Seq: q, Value: text(q)})
	}
	return r
}

// read lists rows as "seq=value". It reads them in both directions, which must give the same.
func (s *suite) read(c im.Key, from, to im.Seq) ([]string, error) {
	s.Helper()
	var got, down []string
	err := s.Rows(s.ctx, c, from, to, func(r store.Row) bool {
		got = append(got, fmt.Sprintf("%d=%s", r.Seq, r.Value))
		return true
	})
	errDown := s.RowsDown(s.ctx, c, from, to, func(r store.Row) bool {
		down = append(down, fmt.Sprintf("%d=%s", r.Seq, r.Value))
		return true
	})
	if err != nil {
		s.wants(errDown, store.ErrCorrupt)
		return nil, err
	}
	s.must(errDown)
	slices.Reverse(down)
	s.same(down, got)
	return got, err
}

// large tests rows that are too large to be read at once, and an fn that ends the read.
func (s *suite) large() {
	c := key(1, 1)
	s.own()
	value := func(q im.Seq) []byte {
		if q > 300 {
			return bytes.Repeat([]byte{byte(q)}, 20_000)
		}
		return text(q)
	}
	var rows []store.RowPut
	for q := im.Seq(1); q <= 320; q++ {
		rows = append(rows, store.RowPut{Conv: c, Seq: q, Value: value(q)})
	}
	s.add(store.Batch{Rows: rows})
	for _, read := range []func(context.Context, im.Key, im.Seq, im.Seq, func(store.Row) bool) error{s.Rows,
		s.RowsDown} {
		for _, limit := range []int{1, 3, 7, 30, 290, 320} {
			n := 0
			s.must(read(s.ctx, c, 1, 320, func(r store.Row) bool {
				if !bytes.Equal(r.Value, value(r.Seq)) {
					s.Errorf("row %d has %d bytes, want %d", r.Seq, len(r.Value), len(value(r.Seq)))
				}
				n++
				return n < limit
			}))
			s.same(n, limit)
		}
	}
}

func (s *suite) empty() {
	c := key(1, 1)
	row, err := s.LastRow(s.ctx, c)
	s.must(err)
	if row != nil {
		s.Fatalf("got row %v, want none", row)
	}
	conv, err := s.Conversation(s.ctx, c)
	s.must(err)
	if conv != nil {
		s.Fatalf("got conversation %v, want none", conv)
	}
	v, err := s.Record(s.ctx, store.Users, 1, []byte("ann"))
	s.must(err)
	if v != nil {
		s.Fatalf("got record %q, want none", v)
	}
	s.must(s.Writable())
	if i := s.Info(); i.StoreID == 0 || i.HistoryID == 0 || i.Secret == [16]byte{} || i.Level != store.FormatLevel {
		s.Fatalf("got info %+v, want all of it set", i)
	}
	s.own()
	if s.epoch == 0 || s.pos != 0 {
		s.Fatalf("got epoch %d at %d, want an epoch above 0 at 0", s.epoch, s.pos)
	}
}

func (s *suite) batch() {
	s.own()
	c, d := key(1, 1), key(1, 2)
	s.add(store.Batch{
		Entry: &storepb.FeedEntry{TimeMs: 5,
			Items: []*storepb.FeedItem{{Tenant: 1, Conv: c.Conv[:], From: 1, Count: 2, Kinds: 1}}},
		Rows:    append(puts(c, 1, 2), puts(d, 1, 1)...),
		Dedupe:  []store.DedupePut{{Conv: c, Hash: 7, Seq: 2}},
		Convs:   []store.ConvPut{{Conv: c, Record: &storepb.Conversation{Kind: 2, Title: "t"}}},
		Members: []store.MemberPut{{Conv: c, User: "ann", Record: &storepb.Member{Role: 3}}},
		Cursors: []store.CursorPut{{Conv: c, User: "ann", Record: &storepb.Cursor{Read: 1}}},
	})
	got, err := s.read(c, 1, 2)
	s.must(err)
	s.same(got, []string{"1=row 1", "2=row 2"})
	got, err = s.read(d, 1, 1)
	s.must(err)
	s.same(got, []string{"1=row 1"})
	seqs, err := s.Dedupe(s.ctx, c, 7)
	s.must(err)
	s.same(seqs, []im.Seq{2})
	conv, err := s.Conversation(s.ctx, c)
	s.must(err)
	s.same(fmt.Sprintln(conv.GetKind(), conv.GetTitle()), "2 t\n")
	s.same(s.people(c), []string{"ann role 3", "ann read 1"})
	cursor, err := s.Cursor(s.ctx, c, "ann")
	s.must(err)
	s.same(cursor.GetRead(), uint64(1))
	member, err := s.Member(s.ctx, c, "ann")
	s.must(err)
	s.same(member.GetRole(), uint32(3))
	for u, k := range map[im.User]im.Key{"an": c, "anne": c, "ann": d, "bob": key(1, 9)} {
		cursor, err = s.Cursor(s.ctx, k, u)
		s.must(err)
		member, err = s.Member(s.ctx, k, u)
		s.must(err)
		if cursor != nil || member != nil {
			s.Fatalf("got cursor %v and member %v of %s in %s, which were never written", cursor, member, u, k)
		}
	}
	var feed []string
	s.must(s.ScanFeed(s.ctx, s.feed, 0, 1, func(p im.Pos, e *storepb.FeedEntry) bool {
		feed = append(feed, fmt.Sprint(p, e.GetTimeMs(), len(e.GetItems()), e.GetItems()[0].GetCount()))
		return true
	}))
	s.same(feed, []string{"1 5 1 2"})
}

func (s *suite) marked() {
	s.own()
	c, d := key(1, 1), key(1, 2)
	const note, by = store.MarkNote, store.MarkReactions
	s.add(store.Batch{Rows: append(puts(c, 1, 9), puts(d, 1, 9)...), Marks: []store.MarkPut{
		{Conv: c, Kind: note, Seq: 3, Value: []byte("first")}, {Conv: c, Kind: note, Seq: 3, Value: []byte("second")},
		{Conv: c, Kind: note, Seq: 5, Value: []byte("n5")},
		{Conv: c, Kind: by, Seq: 3, Name: "bob", Value: []byte("b")},
		{Conv: c, Kind: by, Seq: 3, Name: "ann", Value: []byte("a")},
		{Conv: c, Kind: by, Seq: 5, Name: "ann", Value: []byte("a5")},
		{Conv: c, Kind: by, Seq: 4, Name: "an", Value: []byte("x")},
		{Conv: d, Kind: note, Seq: 3, Value: []byte("other")},
	}})
	s.same(s.marks(c, note, 1, 9, ""), []string{"3  second", "5  n5"})
	s.same(s.marks(c, note, 3, 4, ""), []string{"3  second"})
	s.same(s.marks(c, note, 4, 4, ""), []string(nil))
	s.same(s.marks(c, note, 5, 4, ""), []string(nil))
	s.same(s.marks(c, store.MarkPin, 1, lastSeq, ""), []string(nil))
	s.same(s.marks(c, by, 3, 3, ""), []string{"3 ann a", "3 bob b"})
	s.same(s.marks(c, by, 3, 3, "ann"), []string{"3 bob b"})
	s.same(s.marks(c, by, 3, 9, "bob"), []string{"4 an x", "5 ann a5"})
	of, err := s.MarksOf(s.ctx, c, by, "ann", []im.Seq{5, 1, 3})
	s.must(err)
	s.same(fmt.Sprintf("%q", of), `["a5" "" "a"]`)
	if of[1] != nil {
		s.Errorf("got a mark that was never written: %q", of[1])
	}
	s.add(store.Batch{Marks: []store.MarkPut{{Conv: c, Kind: by, Seq: 3, Name: "ann"},
		{Conv: c, Kind: by, Seq: 9, Name: "ann"}, {Conv: c, Kind: note, Seq: 5, Value: []byte("later")}}})
	s.same(s.marks(c, by, 3, 9, ""), []string{"3 bob b", "4 an x", "5 ann a5"})
	s.same(s.marks(c, note, 1, 9, ""), []string{"3  second", "5  later"})
	of, err = s.MarksOf(s.ctx, c, by, "ann", []im.Seq{3})
	s.must(err)
	if of[0] != nil {
		s.Errorf("got a mark that was removed: %q", of[0])
	}
	n := 0
	s.must(s.Marks(s.ctx, c, by, 1, 9, "", func(im.Seq, string, []byte) bool { n++; return false }))
	s.same(n, 1)
	most := store.Batch{}
	for i := range 1500 { // more than are read at once
		most.Marks = append(most.Marks, store.MarkPut{Conv: d, Kind: by, Seq: 4, Name: fmt.Sprintf("u%04d", i),
			Value: []byte("v")})
	}
	s.add(most)
	s.markedByName()
	all := s.marks(d, by, 1, 9, "")
	s.same(fmt.Sprintf("%d %s %s", len(all), all[0], all[1499]), "1500 4 u0000 v 4 u1499 v")
}

// markedByName tests a name with few marks, far apart, among many marks of another name.
func (s *suite) markedByName() {
	c := key(1, 3)
	add := store.Batch{Rows: puts(c, 1, 400)}
	for q := im.Seq(1); q <= 400; q++ {
		add.Marks = append(add.Marks, store.MarkPut{Conv: c, Kind: store.MarkMention, Seq: q, Name: "bob",
			Value: []byte("b")})
		if q%100 == 0 {
			add.Marks = append(add.Marks, store.MarkPut{Conv: c, Kind: store.MarkMention, Seq: q, Name: "bo",
				Value: fmt.Append(nil, "v", q)})
		}
	}
	s.add(add)
	s.same(s.marksBy(c, "bo", 1, lastSeq), []string{"100 v100", "200 v200", "300 v300", "400 v400"})
	s.same(s.marksBy(c, "bo", 101, 300), []string{"200 v200", "300 v300"})
	s.same(s.marksBy(c, "bo", 300, 299), []string(nil))
	s.same(s.marksBy(c, "b", 1, lastSeq), []string(nil))
	s.same(s.marksBy(key(1, 2), "bo", 1, lastSeq), []string(nil))
	s.same(len(s.marksBy(c, "bob", 1, lastSeq)), 400)
	s.add(store.Batch{Marks: []store.MarkPut{{Conv: c, Kind: store.MarkMention, Seq: 200, Name: "bo"},
		{Conv: c, Kind: store.MarkMention, Seq: 300, Name: "bo", Value: []byte("later")}}})
	s.same(s.marksBy(c, "bo", 1, lastSeq), []string{"100 v100", "300 later", "400 v400"})
	n := 0
	s.must(s.MarksBy(s.ctx, c, store.MarkMention, "bob", 1, 9, func(im.Seq, []byte) bool { n++; return false }))
	s.same(n, 1)
}

// marksBy lists the marks of one name.
func (s *suite) marksBy(c im.Key, name string, from, to im.Seq) []string {
	s.Helper()
	var got []string
	s.must(s.MarksBy(s.ctx, c, store.MarkMention, name, from, to, func(q im.Seq, v []byte) bool {
		got = append(got, fmt.Sprintf("%d %s", q, v))
		return true
	}))
	return got
}

// marks lists marks of c.
func (s *suite) marks(c im.Key, k store.MarkKind, from, to im.Seq, after string) []string {
	s.Helper()
	var got []string
	s.must(s.Marks(s.ctx, c, k, from, to, after, func(q im.Seq, name string, v []byte) bool {
		got = append(got, fmt.Sprintf("%d %s %s", q, name, v))
		return true
	}))
	return got
}

// people lists the members and then the cursors of c.
func (s *suite) people(c im.Key) []string {
	s.Helper()
	var got []string
	s.must(s.Members(s.ctx, c, func(u im.User, m *storepb.Member) bool {
		got = append(got, fmt.Sprintf("%s role %d", u, m.GetRole()))
		return true
	}))
	s.must(s.Cursors(s.ctx, c, "", func(u im.User, r *storepb.Cursor) bool {
		got = append(got, fmt.Sprintf("%s read %d", u, r.GetRead()))
		return true
	}))
	return got
}

func (s *suite) refused() {
	s.own()
	c := key(1, 1)
	s.add(store.Batch{Rows: puts(c, 1, 1)})
	for _, b := range []store.Batch{
		{Epoch: s.epoch, Holder: holder, From: 0}, {Epoch: s.epoch, Holder: holder, From: 2},
		{Epoch: s.epoch - 1, Holder: holder, From: 1}, {Epoch: s.epoch + 1, Holder: holder, From: 1},
		{Epoch: s.epoch, Holder: holder + 1, From: 1}, {Epoch: s.epoch, From: 1},
	} {
		b.Feed, b.Entry = s.feed, &storepb.FeedEntry{}
		b.Rows = puts(c, 2, 3)
		b.Dedupe = []store.DedupePut{{Conv: c, Hash: 7, Seq: 2}}
		b.Convs = []store.ConvPut{{Conv: c, Record: &storepb.Conversation{Kind: 2}}}
		b.Members = []store.MemberPut{{Conv: c, User: "ann", Record: &storepb.Member{Role: 3}}}
		b.Cursors = []store.CursorPut{{Conv: c, User: "ann", Record: &storepb.Cursor{Read: 1}}}
		b.Marks = []store.MarkPut{{Conv: c, Kind: store.MarkNote, Seq: 1, Value: []byte("n")}}
		s.wants(Append(s, &b), store.ErrStale)
	}
	row, err := s.LastRow(s.ctx, c)
	s.must(err)
	s.same(row.Seq, im.Seq(1))
	seqs, err := s.Dedupe(s.ctx, c, 7)
	s.must(err)
	s.same(len(seqs), 0)
	conv, err := s.Conversation(s.ctx, c)
	s.must(err)
	if conv != nil {
		s.Fatalf("got conversation %v of a refused batch", conv)
	}
	s.same(len(s.people(c))+len(s.marks(c, store.MarkNote, 1, 9, "")), 0)
	s.wants(s.ScanFeed(s.ctx, s.feed, 1, 2, func(im.Pos, *storepb.FeedEntry) bool { return true }), store.ErrCorrupt)
	s.add(store.Batch{Rows: puts(c, 2, 2)})
}

// halfID tests an entry with an incomplete id: readers of the feed make keys of the ids.
func (s *suite) halfID() {
	s.own()
	c := key(1, 1)
	for _, n := range []int{len(c.Conv) - 1, 0, len(c.Conv) + 1} {
		id := append(c.Conv[:], 0)[:n]
		s.add(store.Batch{Entry: &storepb.FeedEntry{Items: []*storepb.FeedItem{{Tenant: 1, Conv: id, From: 1,
			Count: 1}}}})
		s.wants(s.ScanFeed(s.ctx, s.feed, s.pos-1, s.pos, func(im.Pos, *storepb.FeedEntry) bool {
			s.Errorf("an id of %d bytes is read", n)
			return true
		}), store.ErrCorrupt)
	}
}

func (s *suite) takeover() {
	s.own()
	c := key(1, 1)
	s.add(store.Batch{Rows: puts(c, 1, 1)})
	old := s.epoch
	s.own()
	if s.epoch <= old || s.pos != 1 {
		s.Fatalf("got epoch %d at %d, want above %d at 1", s.epoch, s.pos, old)
	}
	s.wants(Append(s, &store.Batch{Feed: s.feed, Epoch: old, Holder: holder, From: s.pos, Entry: &storepb.FeedEntry{},
		Rows: puts(c, 2, 2)}), store.ErrStale)
	s.add(store.Batch{Rows: puts(c, 2, 2)})
}

// stands returns the holder and state of the feed.
func (s *suite) stands() store.Holder {
	s.Helper()
	h, err := s.Holders(s.ctx, []store.Feed{s.feed})
	s.must(err)
	if len(h) != 1 {
		s.Fatalf("got %d holders of one feed", len(h))
	}
	return h[0]
}

func (s *suite) holders() {
	before := s.stands()
	s.same(before, store.Holder{Epoch: before.Epoch})
	s.own()
	s.same(s.stands(), store.Holder{Epoch: s.epoch, Holder: holder})
	s.add(store.Batch{Rows: puts(key(1, 1), 1, 1)})
	s.same(s.stands(), store.Holder{Epoch: s.epoch, Holder: holder, Pos: 1})
	epoch, pos, err := s.Takeover(s.ctx, s.feed, 7)
	s.must(err)
	if epoch <= s.epoch || pos != 1 {
		s.Fatalf("got epoch %d at %d, want above %d at 1", epoch, pos, s.epoch)
	}
	s.same(s.stands(), store.Holder{Epoch: epoch, Holder: 7, Pos: 1})
	none, err := s.Holders(s.ctx, nil)
	s.must(err)
	s.same(len(none), 0)
	all, err := s.Holders(s.ctx, s.Feeds())
	s.must(err)
	s.same(len(all), len(s.Feeds()))
	for i, f := range s.Feeds() {
		if f == s.feed {
			s.same(all[i], store.Holder{Epoch: epoch, Holder: 7, Pos: 1})
		}
	}
}

// feeds writes to several feeds at once, if the store has several: each has its own position, and a refusal
// concerns one feed only.
func (s *suite) feeds() {
	const n, writers = 20, 8
	s.own()
	feeds := s.Feeds()
	feeds = feeds[:min(len(feeds), writers)]
	var wg sync.WaitGroup
	for _, f := range feeds {
		wg.Go(func() {
			epoch, pos, err := s.Takeover(s.ctx, f, holder)
			if err != nil {
				s.Error(err)
				return
			}
			c := s.keyIn(f)
			for i := range im.Seq(n) {
				b := store.Batch{Feed: f, Epoch: epoch, Holder: holder, From: pos,
					Entry: &storepb.FeedEntry{TimeMs: uint64(f)}, Rows: puts(c, i+1, i+1)}
				stale := b
				stale.From++
				stale.Rows = puts(c, i+2, i+2)
				if err := Append(s, &stale); !errors.Is(err, store.ErrStale) {
					s.Errorf("feed %d at %d: append from %d: got %v, want %v", f, pos, stale.From, err, store.ErrStale)
				}
				if err := Append(s, &b); err != nil {
					s.Errorf("feed %d at %d: %v", f, pos, err)
				}
				pos++
			}
		})
	}
	wg.Wait()
	all, err := s.Holders(s.ctx, feeds)
	s.must(err)
	for i, f := range feeds {
		s.same(all[i].Pos, im.Pos(n))
		got, err := s.read(s.keyIn(f), 1, n)
		s.must(err)
		s.same(len(got), n)
		s.must(s.ScanFeed(s.ctx, f, 0, n, func(p im.Pos, e *storepb.FeedEntry) bool {
			s.same(e.GetTimeMs(), uint64(f))
			return true
		}))
	}
}

// keyIn returns a conversation whose partition is in f.
func (s *suite) keyIn(f store.Feed) im.Key {
	c := key(1, 1)
	for p := range im.Partition(im.Partitions) {
		if s.FeedOf(p) == f {
			c.Conv[1] = byte(p)
			return c
		}
	}
	s.Fatalf("feed %d has no partition", f)
	return c
}

func (s *suite) order() {
	s.own()
	const n = 300
	var mu sync.Mutex
	var got []int
	inside := 0
	all := make(chan struct{})
	for i := range n {
		b := &store.Batch{Feed: s.feed, Epoch: s.epoch, Holder: holder, From: s.pos, Entry: &storepb.FeedEntry{},
			Rows: puts(key(1, 1), im.Seq(s.pos)+1, im.Seq(s.pos)+1)}
		if i%7 == 3 {
			b.From += 5 // refusals keep their turn
		} else {
			s.pos++
		}
		s.Append(b, func(err error) {
			mu.Lock()
			defer mu.Unlock()
			if inside++; inside != 1 {
				s.Errorf("done %d was called inside another", i)
			}
			if refused := i%7 == 3; refused != errors.Is(err, store.ErrStale) || !refused && err != nil {
				s.Errorf("append %d: got %v", i, err)
			}
			inside--
			if got = append(got, i); len(got) == n {
				close(all)
			}
		})
	}
	<-all
	for i, g := range got {
		if g != i {
			s.Fatalf("done %d came in place %d", g, i)
		}
	}
}

func (s *suite) rows() {
	s.own()
	c := key(1, 1)
	s.add(store.Batch{Rows: puts(c, 1, 4)})
	s.add(store.Batch{Rows: puts(c, 6, 6)})
	s.add(store.Batch{Rows: append(puts(key(1, 0), 1, 9), puts(key(1, 2), 1, 9)...)}) // its neighbours
	got, err := s.read(c, 2, 3)
	s.must(err)
	s.same(got, []string{"2=row 2", "3=row 3"})
	got, err = s.read(c, 3, 2)
	s.must(err)
	s.same(len(got), 0)
	for _, r := range [][2]im.Seq{{1, 5}, {4, 6}, {5, 5}, {5, 6}, {6, 7}, {7, 7}, {0, 1}} {
		_, err := s.read(c, r[0], r[1])
		if !errors.Is(err, store.ErrCorrupt) {
			s.Errorf("rows %d to %d: got error %v, want %v", r[0], r[1], err, store.ErrCorrupt)
		}
	}
	n := 0
	s.must(s.Rows(s.ctx, c, 1, 100, func(store.Row) bool { n++; return n < 3 }))
	s.same(n, 3)
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	s.wants(s.Rows(ctx, c, 1, 2, func(store.Row) bool { return true }), context.Canceled)
}

func (s *suite) rewrite() {
	s.own()
	c := key(1, 1)
	s.add(store.Batch{Rows: puts(c, 1, 3)})
	s.add(store.Batch{Rows: append(puts(c, 4, 4), store.RowPut{Conv: c, Seq: 2, Value: []byte("gone"), Rewrite: true})})
	got, err := s.read(c, 1, 4)
	s.must(err)
	s.same(got, []string{"1=row 1", "2=gone", "3=row 3", "4=row 4"})
}

func (s *suite) lastRow() {
	s.own()
	s.add(store.Batch{Rows: append(puts(key(1, 1), 1, 300), puts(key(1, 3), 1, 2)...)})
	s.add(store.Batch{Rows: puts(key(2, 1), 1, 7)})
	for c, want := range map[im.Key]im.Seq{key(1, 0): 0, key(1, 1): 300, key(1, 2): 0, key(1, 3): 2, key(1, 255): 0,
		key(2, 1): 7} {
		row, err := s.LastRow(s.ctx, c)
		s.must(err)
		if want == 0 {
			if row != nil {
				s.Errorf("%s: got %v, want none", c, row)
			}
			continue
		}
		s.same(row, &store.Row{Seq: want, Value: text(want)})
	}
}

func (s *suite) dedupe() {
	s.own()
	c := key(1, 1)
	s.add(store.Batch{Rows: puts(c, 1, 1), Dedupe: []store.DedupePut{{Conv: c, Hash: 7, Seq: 1},
		{Conv: key(1, 2), Hash: 7, Seq: 3}}})
	s.add(store.Batch{Rows: puts(c, 2, 3), Dedupe: []store.DedupePut{{Conv: c, Hash: 7, Slot: 1, Seq: 2},
		{Conv: c, Hash: 1<<64 - 1, Seq: 1 << 40}}})
	for hash, want := range map[uint64][]im.Seq{6: nil, 7: {1, 2}, 8: nil, 1<<64 - 1: {1 << 40}} {
		got, err := s.Dedupe(s.ctx, c, hash)
		s.must(err)
		s.same(got, want)
	}
	got, err := s.Dedupe(s.ctx, key(2, 1), 7)
	s.must(err)
	s.same(len(got), 0)
}

func (s *suite) readsAtOnce() {
	s.own()
	var b store.Batch
	for n := range byte(40) {
		c := key(1, n)
		b.Convs = append(b.Convs, store.ConvPut{Conv: c, Record: &storepb.Conversation{Kind: 2, Title: fmt.Sprint(n)}})
		b.Cursors = append(b.Cursors, store.CursorPut{Conv: c, User: "ann", Record: &storepb.Cursor{Read: uint64(n)}})
	}
	s.add(b)
	var reads errgroup.Group
	for i := range 400 {
		n := byte(i % 50) // some are not there
		reads.Go(func() error {
			v, err := s.Conversation(s.ctx, key(1, n))
			if err != nil || (v == nil) != (n >= 40) || v != nil && v.Title != fmt.Sprint(n) {
				return fmt.Errorf("conversation %d: got %v, %v", n, v, err)
			}
			return nil
		})
		reads.Go(func() error {
			v, err := s.Cursor(s.ctx, key(1, n), "ann")
			if err != nil || (v == nil) != (n >= 40) || v != nil && v.Read != uint64(n) {
				return fmt.Errorf("cursor %d: got %v, %v", n, v, err)
			}
			return nil
		})
	}
	s.must(reads.Wait())
}

func (s *suite) users() {
	s.own()
	c := key(1, 1)
	b := store.Batch{}
	for i, u := range []im.User{"bob", "ann", "annette", "Z"} {
		b.Members = append(b.Members, store.MemberPut{Conv: c, User: u, Record: &storepb.Member{Role: uint32(i)}})
		b.Cursors = append(b.Cursors, store.CursorPut{Conv: c, User: u, Record: &storepb.Cursor{Read: uint64(i)}})
	}
	for _, n := range []im.Key{key(1, 0), key(1, 2), key(2, 1)} {
		b.Members = append(b.Members, store.MemberPut{Conv: n, User: "ann", Record: &storepb.Member{}})
		b.Cursors = append(b.Cursors, store.CursorPut{Conv: n, User: "ann", Record: &storepb.Cursor{}})
	}
	s.add(b)
	s.same(s.people(c), []string{
		"Z role 3", "ann role 1", "annette role 2", "bob role 0",
		"Z read 3", "ann read 1", "annette read 2", "bob read 0",
	})
	for after, want := range map[im.User][]string{
		"": {"Z", "ann", "annette", "bob"}, "A": {"Z", "ann", "annette", "bob"}, "Z": {"ann", "annette", "bob"},
		"ann": {"annette", "bob"}, "anna": {"annette", "bob"}, "annette": {"bob"}, "bob": {}, "carol": {},
	} {
		got := []string{}
		s.must(s.Cursors(s.ctx, c, after, func(u im.User, _ *storepb.Cursor) bool {
			got = append(got, string(u))
			return true
		}))
		s.same(got, want)
	}
	s.add(store.Batch{Members: []store.MemberPut{{Conv: c, User: "ann", Record: &storepb.Member{Role: 9}}}})
	n := 0
	s.must(s.Members(s.ctx, c, func(u im.User, m *storepb.Member) bool {
		n++
		return u != "ann" || m.GetRole() != 9
	}))
	s.same(n, 2)
}
