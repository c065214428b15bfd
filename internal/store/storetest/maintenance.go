package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

func (s *suite) drop() {
	s.own()
	c := key(1, 1)
	file := func(c im.Key, hash uint64, slot uint8, q im.Seq) store.DedupePut {
		return store.DedupePut{Conv: c, Hash: hash, Slot: slot, Seq: q}
	}
	s.add(store.Batch{Rows: append(puts(c, 1, 9), puts(key(1, 2), 1, 2)...), Marks: []store.MarkPut{
		{Conv: c, Kind: store.MarkNote, Seq: 5, Value: []byte("5")},
		{Conv: c, Kind: store.MarkNote, Seq: 6, Value: []byte("6")},
		{Conv: c, Kind: store.MarkReactions, Seq: 5, Name: "ann", Value: []byte("5")},
		{Conv: c, Kind: store.MarkReactions, Seq: 6, Name: "ann", Value: []byte("6")},
		{Conv: c, Kind: store.MarkMention, Seq: 5, Name: "ann", Value: []byte("5")},
		{Conv: c, Kind: store.MarkMention, Seq: 6, Name: "ann", Value: []byte("6")},
		{Conv: c, Kind: store.MarkMention, Seq: 1, Name: "bob", Value: []byte("1")},
		{Conv: key(1, 2), Kind: store.MarkNote, Seq: 1, Value: []byte("1")},
	}, Dedupe: []store.DedupePut{
		file(c, 10, 0, 1), file(c, 10, 1, 5), file(c, 20, 0, 6), file(c, 30, 0, 2), file(c, 30, 1, 8),
		file(key(1, 2), 10, 0, 1),
	}})
	s.must(s.DropRows(s.ctx, c, 6))
	s.same(s.marks(c, store.MarkNote, 1, lastSeq, ""), []string{"6  6"})
	s.same(s.marks(c, store.MarkReactions, 1, lastSeq, ""), []string{"6 ann 6"})
	s.same(s.marksBy(c, "ann", 1, lastSeq), []string{"6 6"})
	s.same(s.marksBy(c, "bob", 1, lastSeq), []string(nil))
	s.same(s.marks(key(1, 2), store.MarkNote, 1, lastSeq, ""), []string{"1  1"})
	for _, want := range []struct {
		c    im.Key
		hash uint64
		seqs []im.Seq
	}{{c, 10, nil}, {c, 20, []im.Seq{6}}, {c, 30, []im.Seq{2, 8}}, {key(1, 2), 10, []im.Seq{1}}} {
		seqs, err := s.Dedupe(s.ctx, want.c, want.hash)
		s.must(err)
		s.same(seqs, want.seqs)
	}
	got, err := s.read(c, 6, 9)
	s.must(err)
	s.same(got, []string{"6=row 6", "7=row 7", "8=row 8", "9=row 9"})
	_, err = s.read(c, 5, 9)
	s.wants(err, store.ErrCorrupt)
	got, err = s.read(key(1, 2), 1, 2)
	s.must(err)
	s.same(len(got), 2)
	s.add(store.Batch{Rows: puts(c, 10, 10)})
}

func (s *suite) sizes() {
	s.own()
	list := func(most int) (got []string) {
		s.must(s.Sizes(s.ctx, func(c im.Key, x store.Size) bool {
			got = append(got, fmt.Sprintf("%s: %d rows, %d bytes", c, x.Rows, x.Bytes))
			return len(got) < most
		}))
		slices.Sort(got)
		return got
	}
	s.same(list(9), []string(nil))
	row := func(c im.Key, q im.Seq, bytes int) store.RowPut {
		return store.RowPut{Conv: c, Seq: q, Value: make([]byte, bytes)}
	}
	short, long, other := key(1, 1), key(1, 2), key(2, 1)
	if s.FeedOf(im.PartitionOf(long.Conv)) != s.feed || s.FeedOf(im.PartitionOf(other.Conv)) != s.feed {
		s.Fatal("the conversations of this test are of several feeds")
	}
	record := &storepb.Conversation{Kind: 2}
	b := store.Batch{Convs: []store.ConvPut{{Conv: short, Record: record}, {Conv: long, Record: record},
		{Conv: other, Record: record}}}
	b.Rows = append(b.Rows, row(short, 1, 10), row(short, 2, 5000), row(short, 3, 100), row(other, 1, 7))
	for q := im.Seq(1); q <= 100; q++ {
		b.Rows = append(b.Rows, row(long, q, 40))
	}
	s.add(b)
	want := []string{short.String() + ": 3 rows, 5110 bytes", long.String() + ": 100 rows, 4000 bytes", other.String() +
		": 1 rows, 7 bytes"}
	slices.Sort(want)
	s.same(list(9), want)
	s.same(len(list(2)), 2)
	s.must(s.DropRows(s.ctx, short, 3))
	want[slices.Index(want, short.String()+": 3 rows, 5110 bytes")] = short.String() + ": 1 rows, 100 bytes"
	s.same(list(9), want)
}

func (s *suite) trim() {
	s.own()
	for range 5 {
		s.add(store.Batch{Rows: puts(key(1, 1), im.Seq(s.pos)+1, im.Seq(s.pos)+1)})
	}
	scan := func(after, upTo im.Pos) (got []im.Pos, err error) {
		err = s.ScanFeed(s.ctx, s.feed, after, upTo, func(p im.Pos, e *storepb.FeedEntry) bool {
			if e.GetTimeMs() != uint64(p)+999 {
				s.Errorf("commit %d: got time %d", p, e.GetTimeMs())
			}
			got = append(got, p)
			return true
		})
		return got, err
	}
	got, err := scan(1, 4)
	s.must(err)
	s.same(got, []im.Pos{2, 3, 4})
	_, err = scan(3, 6)
	s.wants(err, store.ErrCorrupt)
	s.must(s.TrimFeed(s.ctx, s.feed, 3))
	s.must(s.TrimFeed(s.ctx, s.feed, 2))
	got, err = scan(3, 5)
	s.must(err)
	s.same(got, []im.Pos{4, 5})
	_, err = scan(2, 5)
	s.wants(err, store.ErrTrimmed)
	s.must(s.TrimFeed(s.ctx, s.feed, 5))
	_, err = scan(4, 5)
	s.wants(err, store.ErrTrimmed)
	s.must(s.Close())
	s.Store = s.open()
	s.own()
	s.same(s.pos, im.Pos(5))
	_, err = scan(4, 5)
	s.wants(err, store.ErrTrimmed)
	s.add(store.Batch{Rows: puts(key(1, 1), 6, 6)})
	got, err = scan(5, 6)
	s.must(err)
	s.same(got, []im.Pos{6})
}

func (s *suite) records() {
	put := func(t store.Table, n im.Tenant, k, v string) store.RecordPut {
		return store.RecordPut{Table: t, Tenant: n, Key: []byte(k), Value: []byte(v)}
	}
	s.must(s.Update(s.ctx, []store.RecordPut{
		put(store.Users, 1, "bob", "b"), put(store.Users, 1, "ann", "a"), put(store.Users, 1, "annette", "e"),
		put(store.Users, 2, "ann", "other"), put(store.Tokens, 1, "ann", "t"), put(store.Users, 1, "\xff\xff", "x"),
		put(store.Users, 1, "none", ""),
	}))
	list := func(t store.Table, n im.Tenant, prefix string) (got []string) {
		s.must(s.Records(s.ctx, t, n, []byte(prefix), func(k, v []byte) bool {
			got = append(got, fmt.Sprintf("%s=%s", k, v))
			return len(got) < 4
		}))
		return got
	}
	s.same(list(store.Users, 1, "ann"), []string{"ann=a", "annette=e"})
	s.same(list(store.Users, 1, ""), []string{"ann=a", "annette=e", "bob=b", "none="})
	s.same(list(store.Users, 1, "\xff"), []string{"\xff\xff=x"})
	s.same(list(store.Users, 2, ""), []string{"ann=other"})
	from := func(key string, most int) (got []string) {
		s.must(s.RecordsFrom(s.ctx, store.Users, 1, []byte(key), func(k, v []byte) bool {
			got = append(got, fmt.Sprintf("%s=%s", k, v))
			return len(got) < most
		}))
		return got
	}
	s.same(from("ann\x00", 9), []string{"annette=e", "bob=b", "none=", "\xff\xff=x"})
	s.same(from("", 1), []string{"ann=a"})
	s.same(len(from("\xff\xff\xff", 9)), 0)
	down := func(prefix string, below []byte, most int) (got []string) {
		s.must(s.RecordsDown(s.ctx, store.Users, 1, []byte(prefix), below, func(k, v []byte) bool {
			got = append(got, fmt.Sprintf("%s=%s", k, v))
			return len(got) < most
		}))
		return got
	}
	s.same(down("", nil, 9), []string{"\xff\xff=x", "none=", "bob=b", "annette=e", "ann=a"})
	s.same(down("", []byte("none"), 2), []string{"bob=b", "annette=e"})
	s.same(down("ann", nil, 9), []string{"annette=e", "ann=a"})
	s.same(down("ann", []byte("annette"), 9), []string{"ann=a"})
	s.same(down("ann", []byte("bob"), 9), []string{"annette=e", "ann=a"})
	s.same(down("\xff", nil, 9), []string{"\xff\xff=x"})
	for _, below := range []string{"a", "ann"} {
		s.same(len(down("ann", []byte(below), 9)), 0)
	}
	s.same(list(store.Tokens, 1, ""), []string{"ann=t"})
	s.same(len(list(store.Settings, 0, "")), 0)
	v, err := s.Record(s.ctx, store.Users, 1, []byte("none"))
	s.must(err)
	if v == nil || len(v) != 0 {
		s.Fatalf("got %v, want an empty value", v)
	}
	s.must(s.Update(s.ctx, []store.RecordPut{put(store.Users, 1, "ann", "A"),
		{Table: store.Users, Tenant: 1, Key: []byte("annette")}}))
	s.same(list(store.Users, 1, "ann"), []string{"ann=A"})
	v, err = s.Record(s.ctx, store.Users, 1, []byte("annette"))
	s.must(err)
	if v != nil {
		s.Fatalf("got %q, want nothing after a delete", v)
	}
}

func (s *suite) check() {
	put := func(k, v string) store.RecordPut {
		return store.RecordPut{Table: store.Users, Tenant: 1, Key: []byte(k), Value: []byte(v)}
	}
	absent := func(p store.RecordPut) store.RecordPut {
		p.Check = true
		return p
	}
	was := func(p store.RecordPut, v string) store.RecordPut {
		p.Check, p.Was = true, []byte(v)
		return p
	}
	gone := was(put("ann", ""), "3")
	gone.Value = nil
	for _, step := range []struct {
		puts []store.RecordPut
		want error
		ann  string
	}{
		{[]store.RecordPut{was(put("ann", "0"), "")}, store.ErrChanged, ""},
		{[]store.RecordPut{absent(put("ann", "1"))}, nil, "1"},
		{[]store.RecordPut{absent(put("ann", "2"))}, store.ErrChanged, "1"},
		{[]store.RecordPut{put("bob", "2"), absent(put("ann", "2"))}, store.ErrChanged, "1"},
		{[]store.RecordPut{absent(put("ann", "2")), put("bob", "2")}, store.ErrChanged, "1"},
		{[]store.RecordPut{was(put("ann", "2"), "0"), put("bob", "2")}, store.ErrChanged, "1"},
		{[]store.RecordPut{was(put("ann", "2"), "1"), absent(put("eva", "1"))}, nil, "2"},
		{[]store.RecordPut{was(put("ann", "3"), "2"), was(put("eva", "2"), "0")}, store.ErrChanged, "2"},
		{[]store.RecordPut{was(put("ann", "3"), "2"), was(put("eva", "2"), "1")}, nil, "3"},
		{[]store.RecordPut{gone, absent(put("eva", "3"))}, store.ErrChanged, "3"},
		{[]store.RecordPut{gone}, nil, ""},
		{[]store.RecordPut{gone}, store.ErrChanged, ""},
		{[]store.RecordPut{was(put("ann", "4"), "3")}, store.ErrChanged, ""},
		{[]store.RecordPut{absent(put("ann", ""))}, nil, ""},
		{[]store.RecordPut{absent(put("ann", "5"))}, store.ErrChanged, ""},
		{[]store.RecordPut{was(put("ann", "5"), "")}, nil, "5"},
	} {
		s.wants(s.Update(s.ctx, step.puts), step.want)
		for k, want := range map[string]string{"ann": step.ann, "bob": ""} {
			v, err := s.Record(s.ctx, store.Users, 1, []byte(k))
			s.must(err)
			s.same(string(v), want)
		}
	}
	// Of many writers that count in one record, each counts once. Of many that create one record, one succeeds.
	var wg sync.WaitGroup
	const n = 8
	var won atomic.Int32
	for range n {
		wg.Go(func() {
			if err := s.Update(s.ctx, []store.RecordPut{absent(put("eve", ""))}); err == nil {
				won.Add(1)
			} else if !errors.Is(err, store.ErrChanged) {
				s.Errorf("got %v, want %v", err, store.ErrChanged)
			}
			for {
				v, err := s.Record(s.ctx, store.Users, 1, []byte("eve"))
				if err != nil {
					s.Error(err)
					return
				}
				err = s.Update(s.ctx, []store.RecordPut{was(put("eve", string(v)+"x"), string(v))})
				if err == nil {
					return
				}
				if !errors.Is(err, store.ErrChanged) {
					s.Errorf("got %v, want %v", err, store.ErrChanged)
					return
				}
			}
		})
	}
	wg.Wait()
	s.same(won.Load(), int32(1))
	v, err := s.Record(s.ctx, store.Users, 1, []byte("eve"))
	s.must(err)
	s.same(string(v), strings.Repeat("x", n))
}

func (s *suite) reopen() {
	s.own()
	c := key(1, 1)
	info := s.Info()
	s.add(store.Batch{Rows: puts(c, 1, 50),
		Members: []store.MemberPut{{Conv: c, User: "ann", Record: &storepb.Member{Role: 3}}}})
	s.must(s.Update(s.ctx, []store.RecordPut{{Table: store.Users, Tenant: 1, Key: []byte("ann"), Value: []byte("a")}}))
	for round := range 3 {
		epoch, pos := s.epoch, s.pos
		s.must(s.Close())
		s.Store = s.open()
		s.same(s.Info(), info)
		s.wants(Append(s, &store.Batch{Feed: s.feed, Epoch: epoch - 1, Holder: holder, From: pos,
			Entry: &storepb.FeedEntry{}}), store.ErrStale)
		s.own()
		if s.epoch <= epoch || s.pos != pos {
			s.Fatalf("got epoch %d at %d, want above %d at %d", s.epoch, s.pos, epoch, pos)
		}
		n := im.Seq(50 + round)
		got, err := s.read(c, 1, n)
		s.must(err)
		s.same(len(got), int(n))
		s.same(s.people(c), []string{"ann role 3"})
		v, err := s.Record(s.ctx, store.Users, 1, []byte("ann"))
		s.must(err)
		s.same(string(v), "a")
		s.add(store.Batch{Rows: puts(c, n+1, n+1)})
	}
	s.must(s.Close())
	if err := s.Rows(s.ctx, c, 1, 1, func(store.Row) bool { return true }); err == nil {
		s.Fatal("a closed store was read")
	}
	if err := Append(s, &store.Batch{}); err == nil {
		s.Fatal("a closed store took a batch")
	}
	s.Store = s.open()
}

func (s *suite) together() {
	s.own()
	const n = 200
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := 0; ; j++ {
				select {
				case <-stop:
					return
				default:
				}
				k := fmt.Appendf(nil, "%d.%d", i, j)
				if err := s.Update(s.ctx, []store.RecordPut{{Table: store.Settings, Key: k, Value: k}}); err != nil {
					s.Errorf("update: %v", err)
				}
				if v, err := s.Record(s.ctx, store.Settings, 0, k); err != nil || string(v) != string(k) {
					s.Errorf("got %q, %v, want %q", v, err, k)
				}
				if _, err := s.LastRow(s.ctx, key(1, 1)); err != nil {
					s.Errorf("last row: %v", err)
				}
				if _, err := s.Dedupe(s.ctx, key(1, 1), uint64(j)); err != nil {
					s.Errorf("dedupe: %v", err)
				}
				s.Stats()
			}
		})
	}
	for range n {
		q := im.Seq(s.pos) + 1
		s.add(store.Batch{Rows: puts(key(1, 1), q, q),
			Dedupe: []store.DedupePut{{Conv: key(1, 1), Hash: uint64(q), Seq: q}}})
	}
	close(stop)
	wg.Wait()
	got, err := s.read(key(1, 1), 1, n)
	s.must(err)
	s.same(len(got), n)
}
