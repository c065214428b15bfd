package pebblestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/store/storetest"
)

// town is a store with many conversations whose content can be told from their
// names.
type town struct {
	convs []im.Key
	heads map[im.Key]im.Seq
	w     *writer
}

func townKey(i int) im.Key {
	var c im.ConvID
	rng := rand.New(rand.NewPCG(uint64(i), 7))
	for j := range c {
		c[j] = byte(rng.Uint32())
	}
	return im.Key{Tenant: 1, Conv: c}
}

func townRow(c im.Key, q im.Seq) []byte {
	rng := rand.New(rand.NewPCG(uint64(c.Conv[0])<<8|uint64(c.Conv[1]), uint64(q)))
	text := make([]byte, 120)
	for i := range text {
		text[i] = byte('a' + rng.IntN(26))
	}
	return fmt.Appendf(store.AppendRowHead(nil, store.RowHead{Pos: 1}), "%s %d %s", c.Conv, q, text)
}

func townUser(i int) im.User { return im.User(fmt.Sprintf("user%04d", i)) }

// newTown fills a store with convs conversations of rows entries each.
func newTown(t testing.TB, st *Store, convs, rows int) *town {
	t.Helper()
	tn := &town{heads: map[im.Key]im.Seq{}, w: newWriter(t, st)}
	for i := range convs {
		tn.convs = append(tn.convs, townKey(i))
	}
	for i, c := range tn.convs {
		b := tn.batch()
		b.Convs = []store.ConvPut{{Conv: c, Record: &storepb.Conversation{Kind: 2, Title: c.Conv.String()}}}
		for u := range 2 {
			b.Members = append(b.Members, store.MemberPut{Conv: c, User: townUser(u), Record: &storepb.Member{Role: 1, Version: 1}})
		}
		b.Dedupe = []store.DedupePut{{Conv: c, Hash: uint64(i), Seq: 1}}
		tn.append(t, b)
		if err := st.Update(t.Context(), []store.RecordPut{{Table: store.Users, Tenant: 1, Key: []byte(townUser(i)), Value: []byte(townUser(i))}}); err != nil {
			t.Fatal(err)
		}
	}
	for range rows {
		tn.round(t, tn.convs)
	}
	return tn
}

func (tn *town) batch() *store.Batch {
	b := &store.Batch{Epoch: tn.w.epoch, Holder: holder, From: tn.w.pos, Entry: &storepb.FeedEntry{}}
	tn.w.pos++
	return b
}

func (tn *town) append(t testing.TB, b *store.Batch) {
	t.Helper()
	if err := storetest.Append(tn.w.st, b); err != nil {
		t.Fatal(err)
	}
}

// round adds a row to each of some conversations.
func (tn *town) round(t testing.TB, convs []im.Key) {
	t.Helper()
	b := tn.batch()
	for _, c := range convs {
		tn.heads[c]++
		q := tn.heads[c]
		b.Rows = append(b.Rows, store.RowPut{Conv: c, Seq: q, Value: townRow(c, q)})
		b.Entry.Items = append(b.Entry.Items, &storepb.FeedItem{Tenant: 1, Conv: c.Conv[:], From: uint64(q), Count: 1, Kinds: 1})
	}
	tn.append(t, b)
}

// census is what of a town can be read.
type census struct{ rows, lost, other, damaged int }

// count reads everything, and fails if something is wrong or missing without an
// error. Rows that repair has marked are lost.
func (tn *town) count(t testing.TB, st *Store, what string) census {
	t.Helper()
	var n census
	ctx := t.Context()
	refused := func(err error) bool {
		if err != nil && !errors.Is(err, store.ErrCorrupt) {
			t.Fatalf("%s: %v", what, err)
		}
		if err != nil {
			n.damaged++
		}
		return err != nil
	}
	for i, c := range tn.convs {
		for _, r := range tn.read(ctx, st, c, refused) {
			switch {
			case string(r.Value) == string(townRow(c, r.Seq)):
				n.rows++
			case store.IsLost(r.Value):
				n.lost++
			default:
				t.Fatalf("%s: row %d of %s is %q", what, r.Seq, c, r.Value)
			}
		}
		if row, err := st.LastRow(ctx, c); !refused(err) && (row == nil || row.Seq != tn.heads[c]) {
			t.Fatalf("%s: last row of %s is %v, want %d", what, c, row, tn.heads[c])
		}
		if rec, err := st.Conversation(ctx, c); !refused(err) && rec.GetTitle() != c.Conv.String() {
			t.Fatalf("%s: conversation %s is %v", what, c, rec)
		}
		members := 0
		if !refused(st.Members(ctx, c, func(im.User, *storepb.Member) bool { members++; return true })) && members != 2 {
			t.Fatalf("%s: conversation %s has %d members", what, c, members)
		}
		if seqs, err := st.Dedupe(ctx, c, uint64(i)); !refused(err) && (len(seqs) != 1 || seqs[0] != 1) {
			t.Fatalf("%s: dedupe of %s is %v", what, c, seqs)
		}
		if v, err := st.Record(ctx, store.Users, 1, []byte(townUser(i))); !refused(err) && string(v) != string(townUser(i)) {
			t.Fatalf("%s: record of %s is %q", what, townUser(i), v)
		}
		n.other += 5
	}
	return n
}

// read returns the rows of a conversation that can be read: all at once, or one by
// one if that meets damage. A row that is not there comes with no value.
func (tn *town) read(ctx context.Context, st *Store, c im.Key, refused func(error) bool) []store.Row {
	rows := func(from, to im.Seq) (got []store.Row, err error) {
		err = st.Rows(ctx, c, from, to, func(r store.Row) bool {
			got = append(got, store.Row{Seq: r.Seq, Value: slices.Clone(r.Value)})
			return true
		})
		return got, err
	}
	if all, err := rows(1, tn.heads[c]); err == nil && len(all) == int(tn.heads[c]) {
		return all
	}
	var all []store.Row
	for q := im.Seq(1); q <= tn.heads[c]; q++ {
		got, err := rows(q, q)
		if refused(err) {
			continue
		}
		all = append(all, append(got, store.Row{Seq: q})[0])
	}
	return all
}

// intoTables writes everything into tables.
func intoTables(t testing.TB, st *Store) {
	t.Helper()
	if err := st.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// damagedTown is a disk with a town of whose largest table one block is damaged.
func damagedTown(t testing.TB, convs, rows int) (*vfs.MemFS, *town, string) {
	t.Helper()
	fs := vfs.NewCrashableMem()
	st := mustOpen(t, mem(fs))
	tn := newTown(t, st, convs, rows)
	intoTables(t, st)
	mustClose(t, st)
	path, whole := largestOf(t, fs)
	rewriteFile(t, fs, path, flipped(whole, len(whole)/2))
	return fs, tn, fs.PathBase(path)
}

// largestOf is the largest table of a store that is not open, and its content.
func largestOf(t testing.TB, fs vfs.FS) (path string, whole []byte) {
	t.Helper()
	for _, f := range filesOf(t, fs, "sst") {
		if b := contentOf(t, fs, f); len(b) > len(whole) {
			path, whole = f, b
		}
	}
	return path, whole
}

func TestBadBlockCostsABlock(t *testing.T) {
	fs, tn, file := damagedTown(t, 300, 60)
	st := mustOpen(t, mem(fs))
	n := tn.count(t, st, "flipped")
	eventually.True(t, "mended", func() bool { return st.damaged() != nil || st.out.err() != nil })
	if m := tn.count(t, st, "mended"); m.rows < n.rows-2 {
		t.Errorf("%d rows can be read when the table is mended, %d before", m.rows, n.rows)
	}
	if all := 300 * 60; n.rows == all || n.rows*100 < all*99 {
		t.Errorf("%d of %d rows can be read, want nearly all", n.rows, all)
	}
	if p := st.Stats().Damage; len(p) == 0 || !strings.Contains(p[0], file) {
		t.Errorf("the damage is %q, want the file %s", p, file)
	}
	tn.w = newWriterAt(t, st)
	tn.round(t, tn.convs)
	if st.out.err() != nil {
		t.Errorf("the store has ended: %v", st.out.err())
	}
	mustClose(t, st)
	again := mustOpen(t, mem(fs))
	defer mustClose(t, again)
	if m := tn.count(t, again, "opened again"); m.rows < n.rows+299*99/100 {
		t.Errorf("%d rows can be read, %d before", m.rows, n.rows)
	}
}

func TestDamageIsToldInOneLine(t *testing.T) {
	fs, _, file := damagedTown(t, 50, 20)
	o := mem(fs).withDefaults()
	l, err := o.place().tables(o)
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	for _, tb := range l.tables {
		damage, err := checkTable(tableOptions(o), fs, "data/store", tb, nil)
		if err != nil {
			t.Fatal(err)
		}
		if damage == nil {
			continue
		}
		told++
		for _, text := range []string{damage.Error(), (&Damaged{Dir: "data", Missing: "x", Cause: damage}).Error()} {
			if !strings.Contains(text, "checksum mismatch") || strings.ContainsAny(text, "<\n") {
				t.Errorf("%s: got %q", file, text)
			}
		}
	}
	if told != 1 {
		t.Errorf("%d damaged tables, want 1", told)
	}
}

func newWriterAt(t testing.TB, st *Store) *writer {
	t.Helper()
	w := &writer{st: st}
	var err error
	if w.epoch, w.pos, err = st.Takeover(t.Context(), feed, holder); err != nil {
		t.Fatal(err)
	}
	return w
}

func TestCompactionThatMeetsDamageGoesOn(t *testing.T) {
	fs, tn, file := damagedTown(t, 300, 60)
	o := mem(fs)
	o.tune = func(p *pebble.Options) { p.L0CompactionThreshold = 2 }
	st := mustOpen(t, o)
	tn.w = newWriterAt(t, st)
	tn.round(t, tn.convs)
	_ = st.Compact(t.Context()) // meets the damage
	eventually.True(t, "mended", func() bool { return st.damaged() != nil && st.Compact(t.Context()) == nil })
	n := tn.count(t, st, "compacted")
	if all := 300 * 61; n.rows == all || n.rows*100 < all*99 {
		t.Errorf("%d of %d rows can be read, want nearly all", n.rows, all)
	}
	for range 20 {
		tn.round(t, tn.convs)
	}
	intoTables(t, st)
	mustClose(t, st)
	if _, err := fs.Stat("data/lost-1/" + file); err != nil {
		t.Errorf("the damaged table was not set aside: %v", err)
	}
	again := mustOpen(t, mem(fs))
	defer mustClose(t, again)
	m := tn.count(t, again, "opened again")
	if m.rows != n.rows+300*20 {
		t.Errorf("%d rows can be read, want %d", m.rows, n.rows+300*20)
	}
}

// TestDamagedTablesStopNoWrites damages a table of each level, and writes for an hour. So
// many tables are flushed that Pebble stops all writes if it cannot merge them.
func TestDamagedTablesStopNoWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewCrashableMem()
		o := calm(mem(fs))
		o.MemTableBytes = 64 << 10
		tune, still := o.tune, false
		o.tune = func(p *pebble.Options) {
			tune(p)
			p.DisableAutomaticCompactions, p.L0CompactionThreshold, p.LBaseMaxBytes = still, 4, 256<<10
			for i := range p.TargetFileSizes {
				p.TargetFileSizes[i] = 32 << 10
			}
		}
		st := mustOpen(t, o)
		tn := newTown(t, st, 100, 100)
		time.Sleep(time.Minute) // compactions
		mustClose(t, st)
		still = true
		st = mustOpen(t, o)
		tn.w = newWriterAt(t, st)
		tn.round(t, tn.convs)
		if err := st.db.Flush(); err != nil {
			t.Fatal(err)
		}
		all, err := liveTables(st.db)
		if err != nil {
			t.Fatal(err)
		}
		mustClose(t, st)
		still = false
		largest := map[int]table{}
		for _, tb := range all {
			if tb.size > largest[tb.level].size {
				largest[tb.level] = tb
			}
		}
		if _, ok := largest[0]; !ok || largest[6].size == 0 || len(largest) < 3 {
			t.Fatalf("the levels are %v, want L0, Lbase and L6", largest)
		}
		for _, tb := range largest {
			whole := contentOf(t, fs, "data/store/"+tb.name)
			rewriteFile(t, fs, "data/store/"+tb.name, flipped(whole, len(whole)/3))
		}
		st = mustOpen(t, o)
		defer mustClose(t, st)
		tn.w = newWriterAt(t, st)
		for second := range 3600 {
			begun := time.Now()
			tn.round(t, tn.convs[second%5*20:][:20])
			if took := time.Since(begun); took > time.Second {
				t.Fatalf("a write took %v after %d s", took, second)
			}
			if n := st.db.Metrics().Levels[0].Sublevels; n >= stopWritesAt/2 {
				t.Fatalf("%d tables lie over each other after %d s, want few", n, second)
			}
			time.Sleep(time.Second)
		}
		if n := st.db.Metrics().Flush.Count; n < 2*stopWritesAt {
			t.Errorf("%d flushes, want many", n)
		}
		if err := st.Compact(t.Context()); err != nil {
			t.Error(err)
		}
		if n := tn.count(t, st, "after an hour"); n.damaged == 0 || n.rows < tn.rows()*9/10 {
			t.Errorf("read %+v of %d rows", n, tn.rows())
		}
	})
}

func TestRepairKeepsAllButTheNamedRange(t *testing.T) {
	for _, how := range []string{"flipped", "cut", "deleted", "mended before"} {
		t.Run(how, func(t *testing.T) {
			fs, tn, file := damagedTown(t, 200, 20)
			path := "data/store/" + file
			switch how {
			case "cut":
				b := contentOf(t, fs, path)
				rewriteFile(t, fs, path, b[:len(b)-1])
			case "deleted":
				rewriteFile(t, fs, path, nil)
			case "mended before":
				st := mustOpen(t, mem(fs))
				tn.w = newWriterAt(t, st)
				tn.round(t, tn.convs)
				tn.count(t, st, how)
				eventually.True(t, "mended", func() bool { return st.damaged() != nil })
				tn.round(t, tn.convs)
				mustClose(t, st)
			}
			r, err := Repair(mem(fs))
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Lost) == 0 || !strings.Contains(strings.Join(r.Lost, "\n"), file) {
				t.Errorf("lost %q does not name %s", r.Lost, file)
			}
			if kept := slices.Contains(r.Files, file); kept != (how == "flipped" || how == "cut") {
				t.Errorf("set aside are %v, and %s was %s", r.Files, file, how)
			}
			st := mustOpen(t, mem(fs))
			defer func() { mustClose(t, st) }()
			if st.damaged() != nil {
				t.Error("there are damaged ranges after the repair")
			}
			if st.Info().HistoryID != r.HistoryID {
				t.Error("the history id is not the one that was told")
			}
			if how == "flipped" || how == "mended before" {
				n := tn.count(t, st, how)
				if n.damaged > 0 || n.lost == 0 || uint64(n.lost) != r.LostRows || n.rows+n.lost != tn.rows() || n.lost*100 > tn.rows()*4 {
					t.Errorf("read %+v of %d rows, %d were named", n, tn.rows(), r.LostRows)
				}
				tn.w = newWriterAt(t, st)
				tn.round(t, tn.convs)
				intoTables(t, st)
				mustClose(t, st)
				if _, err := Repair(mem(fs)); !errors.Is(err, ErrSound) {
					t.Errorf("second repair: got %v, want %v", err, ErrSound)
				}
				st = mustOpen(t, mem(fs))
			}
		})
	}
}

// TestRepairKeepsOlderMessages damages a block with the last messages of one conversation and
// the first new ones of the next. The older messages of that one are in the same range of
// keys, and in another table. The missing ones are all that the block had.
func TestRepairKeepsOlderMessages(t *testing.T) {
	fs := vfs.NewCrashableMem()
	o := mem(fs)
	o.tune = func(p *pebble.Options) { p.DisableAutomaticCompactions = true }
	st := mustOpen(t, o)
	tn := newTown(t, st, 5, 400)
	intoTables(t, st)
	older := filesOf(t, fs, "sst")
	for range 130 {
		tn.round(t, tn.convs)
	}
	if err := st.db.Flush(); err != nil {
		t.Fatal(err)
	}
	all, err := liveTables(st.db)
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, st)
	all = slices.DeleteFunc(all, func(tb table) bool { return slices.Contains(older, "data/store/"+tb.name) })
	damageBlock(t, fs, all, func(r keyRange) bool {
		return r.From[0] == kindRow && r.To[0] == kindRow && len(r.From) > convKeyLen && !bytes.HasPrefix(r.To, r.From[:convKeyLen])
	})
	r, err := Repair(mem(fs))
	if err != nil {
		t.Fatal(err)
	}
	st = mustOpen(t, mem(fs))
	defer mustClose(t, st)
	if n := tn.count(t, st, "repaired"); n.damaged > 0 || n.rows+n.lost != tn.rows() || n.lost == 0 || n.lost > 200 || r.More {
		t.Errorf("read %+v of %d rows, more may be lost: %v; want at most 200 lost", n, tn.rows(), r.More)
	}
}

// rows is how many entries a town has.
func (tn *town) rows() (n int) {
	for _, h := range tn.heads {
		n += int(h)
	}
	return n
}

func TestScrubFindsDamage(t *testing.T) {
	fs, tn, file := damagedTown(t, 100, 20)
	o := mem(fs)
	o.ScrubEvery, o.ScrubRate = time.Millisecond, 1<<40
	st := mustOpen(t, o)
	eventually.True(t, "scrubbed", func() bool { return st.Stats().ScrubMs > 0 })
	if len(st.Stats().Damage) == 0 {
		t.Fatal("nothing was found")
	}
	eventually.True(t, "mended", func() bool { return st.damaged() != nil })
	s := st.Stats()
	if s.ScrubFound == 0 || s.ScrubBytes == 0 || !strings.Contains(strings.Join(s.Damage, "\n"), file) {
		t.Errorf("got %+v, want damage in %s", s, file)
	}
	tn.count(t, st, "scrubbed")
	mustClose(t, st)
}

func TestExamineNamesDamageAndChangesNothing(t *testing.T) {
	fs, _, file := damagedTown(t, 100, 20)
	disk := killed(fs)
	_ = disk.Remove("data/lock")
	_ = disk.Remove("data/seal-1") // its removal was not synced
	v, err := Examine(mem(disk))
	if err != nil {
		t.Fatal(err)
	}
	if len(v.Damage) != 1 || !strings.Contains(v.Damage[0], file) || v.Refused != nil || v.Tables == 0 {
		t.Errorf("got %+v, want damage in %s", v, file)
	}
	for name, is := range everything(t, disk) {
		if was := everything(t, fs)[name]; name != "data/pid" && name != "data/lock" && was != is {
			t.Errorf("%s has changed", name)
		}
	}
}

// TestAnUnreadableSectorIsDamage: the disk reports an error instead of other bytes.
func TestUnreadableSectorIsDamage(t *testing.T) {
	fs := vfs.NewCrashableMem()
	st := mustOpen(t, mem(fs))
	tn := newTown(t, st, 100, 20)
	intoTables(t, st)
	mustClose(t, st)
	bad := &badSector{FS: fs, from: 100 << 10, to: 101 << 10}
	st = mustOpen(t, mem(bad))
	n := tn.count(t, st, "unreadable")
	if n.damaged == 0 || n.rows < tn.rows()*9/10 {
		t.Errorf("read %+v of %d rows", n, tn.rows())
	}
	eventually.True(t, "mended", func() bool { return st.damaged() != nil })
	if st.out.err() != nil {
		t.Error(st.out.err())
	}
	mustClose(t, st)
}

// badSector cannot read some bytes of the tables that are there.
type badSector struct {
	vfs.FS
	from, to int64
	once     sync.Once
	files    map[string]vfs.FileInfo
}

func (b *badSector) Open(name string, o ...vfs.OpenOption) (vfs.File, error) {
	b.once.Do(func() {
		b.files = map[string]vfs.FileInfo{}
		names, _ := b.FS.List("data/store")
		for _, n := range names {
			if isTable(n) {
				b.files["data/store/"+n], _ = b.FS.Stat("data/store/" + n)
			}
		}
	})
	f, err := b.FS.Open(name, o...)
	if err != nil || b.files[name] == nil {
		return f, err
	}
	if st, e := f.Stat(); e != nil || !st.ModTime().Equal(b.files[name].ModTime()) {
		return f, err
	}
	return &badFile{f, b}, nil
}

type badFile struct {
	vfs.File
	b *badSector
}

func (f *badFile) ReadAt(p []byte, off int64) (int, error) {
	if off < f.b.to && f.b.from < off+int64(len(p)) {
		return 0, syscall.EIO
	}
	return f.File.ReadAt(p, off)
}

// TestDroppedMarksStayGoneWhenATableIsRepaired damages the table that has what was deleted
// by DropRows, at its end and at some other places. The marks are in an older table.
func TestDroppedMarksStayGoneWhenATableIsRepaired(t *testing.T) {
	const rows, below = 9, 6
	disk := vfs.NewCrashableMem()
	o := mem(disk)
	o.tune = func(p *pebble.Options) { p.DisableAutomaticCompactions = true }
	st := mustOpen(t, o)
	w := newWriter(t, st)
	flush := func() {
		t.Helper()
		if err := st.db.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	for q := im.Seq(1); q <= rows; q++ {
		b := w.next()
		for _, k := range store.MarkKinds() {
			b.Marks = append(b.Marks, store.MarkPut{Conv: conv, Kind: k, Seq: q, Name: "ann", Value: []byte("x")})
		}
		if err := storetest.Append(st, b); err != nil {
			t.Fatal(err)
		}
	}
	flush()
	older := filesOf(t, disk, "sst")
	if err := st.DropRows(t.Context(), conv, below); err != nil {
		t.Fatal(err)
	}
	flush()
	newer := slices.DeleteFunc(filesOf(t, disk, "sst"), func(f string) bool { return slices.Contains(older, f) })
	mustClose(t, st)
	if len(newer) != 1 {
		t.Fatalf("DropRows is in the tables %q, want one", newer)
	}
	whole, silent := contentOf(t, disk, newer[0]), 0
	const end = 100 // bytes, each of which is damaged; of those before them one in seven
	for at := 0; at < len(whole); at++ {
		if at < len(whole)-end {
			at += 6
		}
		fs := killed(disk)
		rewriteFile(t, fs, newer[0], flipped(whole, at))
		what := fmt.Sprintf("byte %d of %d", at, len(whole))
		r, err := Repair(mem(fs))
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if len(r.Lost) > 0 {
			continue // it is said
		}
		silent++
		st := mustOpen(t, mem(fs))
		for _, k := range store.MarkKinds() {
			for q := im.Seq(1); q <= rows; q++ {
				v, err := st.MarksOf(t.Context(), conv, k, "ann", []im.Seq{q})
				if err != nil || (v[0] != nil) != (q >= below) {
					t.Errorf("%s: repaired without loss, and the mark of kind %d beside row %d is %q, %v", what, k, q, v, err)
				}
			}
		}
		mustClose(t, st)
	}
	if silent == 0 {
		t.Error("no repair without loss, want some")
	}
}

func TestCutOffRepairIsNotTakenForAFinishedOne(t *testing.T) {
	fs, cut := afterReplacing(outdated(t))
	if _, err := Repair(mem(fs)); err != nil {
		t.Fatal(err)
	}
	refusal(t, cut(), "a table was replaced and nothing was settled")
	if _, err := Repair(mem(cut())); err != nil {
		t.Fatal(err)
	}
	st := mustOpen(t, mem(cut()))
	defer mustClose(t, st)
	tokenIs(t, st, "")
}

func TestRepairDropsWhatMayBeOlder(t *testing.T) {
	fs := outdated(t)
	if _, err := Repair(mem(fs)); err != nil {
		t.Fatal(err)
	}
	st := mustOpen(t, mem(fs))
	defer mustClose(t, st)
	tokenIs(t, st, "")
}

func TestRepairRefusesADamagedManifest(t *testing.T) {
	for _, how := range []string{"flipped", "cut", "deleted"} {
		fs := vfs.NewCrashableMem()
		st := mustOpen(t, mem(fs))
		newTown(t, st, 20, 10)
		intoTables(t, st)
		mustClose(t, st)
		path := filesOf(t, fs, "manifest")
		b := contentOf(t, fs, path[len(path)-1])
		bad := killed(fs)
		rewriteFile(t, bad, path[len(path)-1], map[string][]byte{"flipped": flipped(b, len(b)/3), "cut": b[:len(b)/2]}[how])
		refusal(t, bad, how)
		if _, err := Repair(mem(bad)); err == nil || !strings.Contains(err.Error(), "restore a backup") {
			t.Errorf("%s: got %v, want a refusal", how, err)
		}
		if how == "flipped" {
			rewriteFile(t, bad, path[len(path)-1], b)
			mustClose(t, mustOpen(t, mem(bad))) // the repair has changed nothing
		}
	}
}

// cutAtRandom runs f on copies of disk, each time with a power cut at another step,
// and hands over what the disk held.
func cutAtRandom(t *testing.T, disk *vfs.MemFS, f func(fs vfs.FS), check func(what string, cut *vfs.MemFS)) {
	t.Helper()
	rng := rand.New(rand.NewPCG(newSeed(t), 0))
	steps := 0
	for n := range 1 + max(3, *cuts/250) {
		fs := killed(disk)
		at, i := 0, 0
		if n > 0 {
			at = 1 + rng.IntN(steps)
		}
		var mu sync.Mutex
		var cut *vfs.MemFS
		f(&hookFS{FS: fs, at: func(event) error {
			mu.Lock()
			defer mu.Unlock()
			if i++; i == at {
				cut = fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
			}
			return nil
		}})
		mu.Lock()
		got := cut
		if n == 0 {
			steps = i
		}
		mu.Unlock()
		if got != nil {
			check(fmt.Sprintf("cut at step %d of %d", at, steps), got)
		}
	}
}

func TestMendIsDoneOrNotDone(t *testing.T) {
	disk, tn, _ := damagedTown(t, 40, 20)
	var first census
	cutAtRandom(t, disk, func(fs vfs.FS) {
		st := mustOpen(t, mem(fs))
		_ = st.Rows(t.Context(), tn.convs[0], 1, 1, func(store.Row) bool { return true })
		st.damage.found(largest(t, st), store.ErrCorrupt)
		eventually.True(t, "mended", func() bool { return st.damaged() != nil && len(st.Stats().Damage) == 1 })
		first = tn.count(t, st, "mended")
		mustClose(t, st)
	}, func(what string, cut *vfs.MemFS) {
		st := mustOpen(t, mem(cut))
		if n := tn.count(t, st, what); n.damaged == 0 || n.rows < first.rows {
			t.Errorf("%s: read %+v, mended it is %+v", what, n, first)
		}
		mustClose(t, st)
	})
}

// TestCloseWhileATableIsMended: the mending that has begun is left, and nothing has failed.
func TestCloseWhileATableIsMended(t *testing.T) {
	fs, tn, file := damagedTown(t, 40, 20)
	var st *Store
	closed := make(chan error, 1)
	hooked := &hookFS{FS: fs, at: func(e event) error {
		if e.op == "mkdir" && strings.Contains(e.path, "lost-") && !e.after {
			go func() { closed <- st.Close() }()
			for closing := false; !closing; {
				st.mu.Lock()
				closing = st.closing
				st.mu.Unlock()
			}
		}
		return nil
	}}
	st = mustOpen(t, mem(hooked))
	st.damage.found(file, store.ErrCorrupt)
	if err := <-closed; err != nil {
		t.Error(err)
	}
	again := mustOpen(t, mem(fs))
	defer mustClose(t, again)
	tn.count(t, again, "opened again")
}

// largest is the name of the largest table.
func largest(t *testing.T, st *Store) string {
	t.Helper()
	all, err := liveTables(st.db)
	if err != nil {
		t.Fatal(err)
	}
	return slices.MaxFunc(all, func(a, b table) int { return int(a.size) - int(b.size) }).name
}

func TestSalvageIsDoneOrNotDone(t *testing.T) {
	disk, tn, _ := damagedTown(t, 40, 20)
	var lost uint64
	cutAtRandom(t, disk, func(fs vfs.FS) {
		r, err := Repair(mem(fs))
		if err != nil {
			t.Fatal(err)
		}
		lost = r.LostRows
	}, func(what string, cut *vfs.MemFS) {
		if _, err := Repair(mem(cut)); err != nil && !errors.Is(err, ErrSound) {
			t.Fatalf("%s: second repair: %v", what, err)
		}
		st := mustOpen(t, mem(cut))
		if n := tn.count(t, st, what); n.damaged > 0 || uint64(n.lost) != lost || n.rows+n.lost != tn.rows() {
			t.Errorf("%s: read %+v of %d rows, %d are lost", what, n, tn.rows(), lost)
		}
		mustClose(t, st)
	})
}
