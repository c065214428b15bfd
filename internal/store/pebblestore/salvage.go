package pebblestore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// A repair replaces each damaged table by what can be read of it (mendTable), and
// then settles the holes: a row that is gone becomes an empty place, what may be
// older than what was lost is deleted, and the report names it. The holes are in the
// file repairing until that is done, and Open refuses a folder that has this file.

// unchecked are the options of a database that may lack tables, in which nothing
// happens by itself.
func (o Options) unchecked() Options {
	tune := o.tune
	o.tune = func(p *pebble.Options) {
		if tune != nil {
			tune(p)
		}
		p.DisableConsistencyCheck, p.DisableTableStats, p.DisableAutomaticCompactions = true, true, true
	}
	return o
}

// withTables is a folder that seems to have some more tables: Pebble does not list a
// table whose file is missing.
type withTables struct {
	vfs.FS
	more []string
}

func (w withTables) List(dir string) ([]string, error) {
	names, err := w.FS.List(dir)
	return append(names, w.more...), err
}

// tables lists the tables that the manifest names, those that are missing too.
func (p place) tables(o Options) ([]table, error) {
	fs := withTables{FS: withoutLogs{p.fs}}
	for {
		all, err := p.tablesIn(o, fs)
		var n uint64
		if err == nil {
			return all, nil
		} else if _, e := fmt.Sscanf(err.Error(), "file %d (type sstable) unknown", &n); e != nil || slices.Contains(fs.more, tableName(n)) {
			return nil, fmt.Errorf("the list of tables cannot be read: %w; restore a backup", err)
		}
		fs.more = append(fs.more, tableName(n))
	}
}

func (p place) tablesIn(o Options, fs vfs.FS) (all []table, err error) {
	db, err := openPebble(o.unchecked(), &guard{FS: fs, dir: p.db, out: newOutage(o.Log)})
	if err != nil {
		return nil, err
	}
	if all, err = liveTables(db); err == nil {
		err = p.verifyManifest(all)
	}
	if e := db.Close(); err == nil {
		err = e
	}
	return all, err
}

// damagedTables reads all tables and returns those that are missing or damaged.
func (p place) damagedTables(o Options, all []table) (bad []table, err error) {
	po := tableOptions(o)
	for _, t := range all {
		damage, err := checkTable(po, p.fs, p.db, t, nil)
		if err != nil {
			return nil, fmt.Errorf("read table %s: %w", t.name, err)
		}
		if damage != nil {
			o.Log.Error("stored data is damaged", "file", t.name, "err", damage)
			bad = append(bad, t)
		}
	}
	return bad, nil
}

// replaceTables puts what can be read of the damaged tables in their places. It
// returns all holes that are not settled, those of a repair that was cut off too.
func (p place) replaceTables(o Options, bad []table, r *Report) (scars, error) {
	holes, err := p.readScars(p.repairing())
	if err != nil {
		return nil, fmt.Errorf("%w; restore a backup", err)
	}
	if len(bad) == 0 {
		return holes, nil
	}
	po := tableOptions(o)
	fresh := p.fs.PathJoin(p.dir, "table.new")
	for _, t := range bad {
		lost, err := mendTable(po, p.fs, p.db, fresh, t)
		if err != nil {
			return nil, err
		}
		for _, h := range lost {
			holes = append(holes, scar{hole: h, n: holes.last() + 1, file: t.name, maxSeq: t.maxSeq})
		}
		if err := p.keepTable(t.name, r); err != nil {
			return nil, err
		}
		if len(holes) > 0 {
			if err := p.writeScars(p.repairing(), holes); err != nil {
				return nil, err
			}
		}
		if err := p.replace(fresh, t.name); err != nil {
			return nil, err
		}
	}
	slices.Sort(r.Files)
	return holes, nil
}

// keepTable keeps a table aside, if it is not the file that is missing.
func (p place) keepTable(name string, r *Report) error {
	if _, err := p.fs.Stat(p.fs.PathJoin(p.db, name)); err != nil {
		if isNotExist(err) {
			return nil
		}
		return err
	}
	if err := p.makeAside(r); err != nil {
		return err
	}
	r.Files = append(r.Files, name)
	return p.keepAside(r.Aside, name)
}

// fillHoles makes a store without holes of what is left.
func (p place) fillHoles(o Options, holes, old scars, r *Report) error {
	fresh := p.witness + ".new"
	known, acked := p.witnessed()
	if err := createWitness(p.fs, p.dir, fresh, known.store); err != nil {
		return err
	}
	w, err := openWitness(p.fs, fresh, known.store)
	if err != nil {
		return err
	}
	inv, err := p.takeInventory()
	if err != nil {
		return err
	}
	db, err := openPebble(o.unchecked(), &guard{FS: p.fs, dir: p.db, out: newOutage(o.Log), wit: w, inv: inv})
	if err != nil {
		return fmt.Errorf("what is left cannot be read: %w; restore a backup", err)
	}
	s := &settler{db: db, r: r, heads: map[im.Key]im.Seq{}, scars: old}
	for _, sc := range holes {
		sc.n = s.scars.last() + 1
		s.scars = append(s.scars, sc)
	}
	err = caught(func() error {
		if err := s.run(known, acked, old); err != nil {
			return err
		}
		if err := p.removeScars(p.scarsFile()); err != nil { // the store has them all
			return err
		}
		if err := s.end(); err != nil {
			return err
		}
		return db.Flush() // the log must not repeat the number of a commit
	})
	for _, f := range []func() error{db.Close, w.close} {
		if e := f(); err == nil {
			err = e
		}
	}
	if err == nil {
		err = p.removeScars(p.repairing())
	}
	if err != nil {
		return fmt.Errorf("settle what is lost: %w", err)
	}
	return nil
}

// witnessed is what the witness file says, as far as it can be read.
func (p place) witnessed() (id identity, acked testimony) {
	s, err := readWitness(p.fs, p.witness)
	if err != nil {
		return identity{}, testimony{}
	}
	id, _ = s.identity()
	acked, _ = s.commit()
	return id, acked
}

// settler works on a database whose tables can all be read.
type settler struct {
	db    *pebble.DB
	scars scars // those of the running store, and then those of this repair
	r     *Report
	last  last
	heads map[im.Key]im.Seq // what the feed says of conversations in holes
	ids   *im.IDs
	b     *pebble.Batch
}

func (s *settler) run(known identity, acked testimony, old scars) error {
	if err := s.own(known, acked); err != nil {
		return err
	}
	if err := s.commit(func() error { return old.put(s.b) }); err != nil {
		return err
	}
	for i, sc := range s.scars {
		keys, err := newer(s.db, sc.hole, sc.maxSeq)
		if err != nil {
			return err
		}
		if keys, err = (&Store{db: s.db}).undoubted(keys, s.scars[:i]); err != nil {
			return err
		}
		if err := s.commit(func() error { return setMarks(s.b, keys, sc.n) }); err != nil {
			return err
		}
	}
	if err := s.readFeed(); err != nil {
		return err
	}
	for _, sc := range s.scars {
		s.r.Lost = append(s.r.Lost, sc.file+": "+sc.hole.String())
		if what := sc.lostKeys(); what != "" {
			s.r.Lost = append(s.r.Lost, what)
		}
		s.r.More = s.r.More || sc.endsConversation()
		if err := s.dropOlder(sc); err != nil {
			return err
		}
	}
	for _, sc := range s.scars {
		if err := s.rebuildRecords(sc.hole); err != nil {
			return err
		}
	}
	for _, sc := range s.scars {
		if err := s.restoreMembers(sc.hole); err != nil {
			return err
		}
	}
	for _, sc := range s.scars {
		if err := s.fillRows(sc.hole); err != nil {
			return err
		}
	}
	slices.Sort(s.r.Lost)
	s.r.Lost = slices.Compact(s.r.Lost)
	return nil
}

// end ends all scars.
func (s *settler) end() error {
	return s.commit(func() error {
		for _, prefix := range [][]byte{keyScars, keyMarks} {
			if err := s.b.DeleteRange(prefix, after(bytes.Clone(prefix)), nil); err != nil {
				return err
			}
		}
		return nil
	})
}

// commit writes what f puts into the batch, as a part of the newest commit.
func (s *settler) commit(f func() error) error {
	s.b = s.db.NewBatch()
	if err := f(); err != nil {
		_ = s.b.Close() // was not committed
		return err
	}
	if err := s.b.Set(keyCommit, s.last.append(nil), nil); err != nil {
		return err
	}
	return s.b.Commit(pebble.Sync)
}

// in tells whether a hole may have taken the newest value of key.
func (s *settler) in(key []byte) bool {
	return s.scars.has(key) != nil
}

// newest is the value of key, and whether it is surely the newest one.
func (s *settler) newest(key []byte) (v []byte, sure bool, err error) {
	st := Store{db: s.db}
	if v, err = st.get(key); err != nil || !s.in(key) {
		return v, true, err
	}
	for i, sc := range s.scars {
		later, err := newer(s.db, hole{key, next(key)}, sc.maxSeq)
		if err != nil {
			return nil, false, err
		}
		if bad, err := st.doubted(key, s.scars[i:i+1]); err != nil || bad && len(later) == 0 {
			return v, false, err
		}
	}
	return v, true, nil
}

func (h hole) has(key []byte) bool {
	return bytes.Compare(h.from, key) <= 0 && bytes.Compare(key, h.to) < 0
}

// own sees to what the store says of itself. Positions that may have been given are
// not given again: without the record of the last commit they go on after the
// number in the witness, which is not below any of them.
func (s *settler) own(known identity, acked testimony) error {
	v, sure, err := s.newest(keyCommit)
	if err != nil {
		return err
	}
	if v != nil {
		if s.last, err = parseLast(v); err != nil {
			return err
		}
	}
	if !sure || v == nil {
		if acked.n == 0 {
			return errors.New("the number of the last commit is lost, in the witness too")
		}
		s.last.n = max(s.last.n, acked.n)
		s.last.pos = max(s.last.pos, im.Pos(s.last.n))
		s.last.timeMs = max(s.last.timeMs, acked.timeMs)
	}
	return s.commit(func() error {
		id, sure, err := s.newest(keyIdentity)
		if err != nil {
			return err
		}
		if id == nil || !sure {
			if known.partitions == 0 {
				return errors.New("the identity of the store is lost, in the witness too")
			}
			id = known.encode()
			if err := s.b.Set(keyIdentity, id, nil); err != nil {
				return err
			}
		}
		if known, err = parseIdentity(id); err != nil {
			return err
		}
		s.ids = im.NewIDs(known.secret)
		format := binary.BigEndian.AppendUint32(nil, store.FormatLevel)
		return s.b.Set(keyFormat, binary.BigEndian.AppendUint32(format, store.FormatLevel), nil)
	})
}

// each calls fn for the keys of a range; what it writes is committed at the end.
func (s *settler) each(lower, upper []byte, fn func(key, value []byte) error) error {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return err
	}
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		var v []byte
		if v, err = it.ValueAndErr(); err == nil {
			err = fn(it.Key(), v)
		}
	}
	if err == nil {
		err = it.Error()
	}
	if e := it.Close(); err == nil {
		err = e
	}
	return err
}

// readFeed learns from the feed which rows there were, and trims it above the
// entries that it lacks.
func (s *settler) readFeed() error {
	st := Store{db: s.db}
	v, err := st.get(keyTrim)
	if err != nil {
		return err
	}
	var trim im.Pos
	if len(v) == 8 {
		trim = im.Pos(binary.BigEndian.Uint64(v))
	}
	to, expect := trim, trim+1
	err = s.each(feedKey(feed, trim+1), feedKey(feed+1, 0), func(k, v []byte) error {
		if len(k) != feedKeyLen {
			return nil
		}
		pos := im.Pos(binary.BigEndian.Uint64(k[3:]))
		if pos != expect {
			to = pos - 1
		}
		expect = pos + 1
		var e storepb.FeedEntry
		if e.UnmarshalVT(v) != nil || store.CheckFeedEntry(&e) != nil {
			return nil
		}
		for _, it := range e.Items {
			c := im.Key{Tenant: im.Tenant(it.Tenant), Conv: im.ConvID(it.Conv)}
			if it.Count > 0 && s.inRows(c) {
				s.heads[c] = max(s.heads[c], im.Seq(it.From+it.Count-1))
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if expect <= s.last.pos { // the newest are missing
		to = s.last.pos
	}
	if to == trim {
		return nil
	}
	return s.commit(func() error {
		if err := s.b.DeleteRange(feedKey(feed, 0), feedKey(feed, to+1), nil); err != nil {
			return err
		}
		return s.b.Set(keyTrim, be64(uint64(to)), nil)
	})
}

// endsConversation tells whether the last row of a conversation may have been in h.
func (h hole) endsConversation() bool {
	rows := hole{[]byte{kindRow}, []byte{kindRow + 1}}
	if bytes.Compare(h.from, rows.to) >= 0 || bytes.Compare(h.to, rows.from) <= 0 {
		return false
	}
	return len(h.from) < convKeyLen || !bytes.HasPrefix(h.to, h.from[:convKeyLen])
}

// inRows tells whether rows of c may be lost.
func (s *settler) inRows(c im.Key) bool {
	lower := convKey(kindRow, c)
	upper := after(bytes.Clone(lower))
	return s.scars.over(lower, upper) != nil
}

// dropOlder deletes what stands in a hole and may be older than what was lost: a row
// that was recalled, a member who was removed, a token that was revoked. Head records
// and cursors stay, and so does what is written once.
func (s *settler) dropOlder(sc scar) error {
	st := Store{db: s.db}
	return s.commit(func() error {
		return s.each(sc.from, sc.to, func(k, _ []byte) error {
			if k[0] != kindRow && k[0] != kindMember && k[0] != kindRecord {
				return nil
			}
			if bad, err := st.doubted(k, scars{sc}); err != nil || !bad {
				return err
			}
			if k[0] == kindRecord || k[0] == kindMember && !derived(keyOf(k)) { // the others are restored
				s.r.Lost = append(s.r.Lost, place1(k))
			}
			return s.b.Delete(bytes.Clone(k), nil)
		})
	})
}

// rebuildRecords makes the head records anew that are gone, of conversations that
// have rows. What only the record knew is lost: the title of a group and its key.
func (s *settler) rebuildRecords(h hole) error {
	lower, upper := h.within(kindConversation)
	if lower == nil {
		return nil
	}
	at := bytes.Clone(lower)
	at[0] = kindRow
	end := []byte{kindRow + 1}
	if upper[0] == kindConversation {
		end = bytes.Clone(upper)
		end[0] = kindRow
	}
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: at, UpperBound: end})
	if err != nil {
		return err
	}
	err = s.commit(func() error {
		for ok := it.First(); ok; {
			k := it.Key()
			if len(k) != rowKeyLen {
				ok = it.Next()
				continue
			}
			c := keyOf(k)
			if err := s.rebuildRecord(c, seqOf(k)); err != nil {
				return err
			}
			ok = it.SeekGE(after(convKey(kindRow, c)))
		}
		return it.Error()
	})
	if e := it.Close(); err == nil {
		err = e
	}
	return err
}

func (s *settler) rebuildRecord(c im.Key, first im.Seq) error {
	st := Store{db: s.db}
	if v, err := st.get(convKey(kindConversation, c)); err != nil || v != nil {
		return err
	}
	if first > 1 && s.in(rowKey(c, first-1)) {
		first = 0 // what was before it is lost, not removed
	}
	rec := &storepb.Conversation{FirstSeq: uint64(first), CreatedMs: s.last.timeMs}
	if rec.Kind = kindGroup; !derived(c) {
		s.r.Lost = append(s.r.Lost, "conversation "+c.Conv.String()+": title and key")
	} else {
		users, err := s.participants(c)
		if err != nil {
			return err
		}
		if users == nil {
			s.r.Lost = append(s.r.Lost, "conversation "+c.Conv.String()+": nobody knows whose it was; its users cannot read it until one of them sends again")
			return nil
		}
		if rec.Kind, rec.Participants = kindDirect, users; c.Conv.Kind() == im.Inbox {
			rec.Kind = kindInbox
		}
	}
	v, err := rec.MarshalVT()
	if err != nil {
		return err
	}
	return s.b.Set(convKey(kindConversation, c), v, nil)
}

// fillRows puts empty places where rows are gone, up to the highest seq that
// anything tells of.
func (s *settler) fillRows(h hole) error {
	lower, upper := h.within(kindRow)
	if lower == nil {
		return nil
	}
	convs, err := s.conversations(lower, upper)
	if err != nil {
		return err
	}
	st := Store{db: s.db}
	for c := range convs {
		rows := convKey(kindRow, c)
		if bytes.Compare(rows, upper) >= 0 || bytes.Compare(after(bytes.Clone(rows)), lower) <= 0 {
			continue // the feed names it, and its rows are elsewhere
		}
		v, err := st.get(convKey(kindConversation, c))
		if err != nil {
			return err
		}
		var rec storepb.Conversation
		if rec.UnmarshalVT(v) != nil {
			continue // who loads it meets the error
		}
		if err := s.fill(c, im.Seq(max(1, rec.FirstSeq)), h); err != nil {
			return err
		}
	}
	return nil
}

// conversations are those of which rows stood between two keys of rows: that have a
// head record or rows, or that the feed names.
func (s *settler) conversations(lower, upper []byte) (map[im.Key]bool, error) {
	convs := map[im.Key]bool{}
	for c := range s.heads {
		convs[c] = true
	}
	for _, kind := range []byte{kindConversation, kindRow} {
		at := bytes.Clone(lower[:min(len(lower), convKeyLen)])
		end := after(bytes.Clone(upper[:min(len(upper), convKeyLen)]))
		if at[0] = kind; upper[0] != kindRow {
			end = []byte{kind + 1}
		} else {
			end[0] = kind
		}
		it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: at, UpperBound: end})
		if err != nil {
			return nil, err
		}
		for ok := it.First(); ok; {
			k := it.Key()
			if len(k) < convKeyLen {
				ok = it.Next()
				continue
			}
			c := keyOf(k)
			convs[c] = true
			ok = it.SeekGE(after(convKey(kind, c)))
		}
		if err := it.Close(); err != nil { // it has the error of the iteration too
			return nil, err
		}
	}
	return convs, nil
}

// fill fills the holes of one conversation.
func (s *settler) fill(c im.Key, first im.Seq, h hole) error {
	lower := rowKey(c, first)
	upper := after(convKey(kindRow, c))
	head, err := s.headOf(c)
	if err != nil {
		return err
	}
	if bytes.Compare(h.from, lower) > 0 {
		first = im.Seq(seqBytes(h.from)) // at most one below the hole
		lower = rowKey(c, first)
	}
	if bytes.Compare(h.to, upper) < 0 {
		upper = h.to
		head = min(head, im.Seq(lastSeqBelow(h.to)))
	}
	var before []byte
	if first > 1 {
		st := Store{db: s.db}
		var err error
		if before, err = st.get(rowKey(c, first-1)); err != nil {
			return err
		}
	}
	expect := first
	lose := func(upTo im.Seq) error {
		if expect > upTo {
			return nil
		}
		s.r.Lost = append(s.r.Lost, fmt.Sprintf("conversation %s seq %d to %d", c.Conv, expect, upTo))
		s.r.LostRows += uint64(upTo - expect + 1)
		for ; expect <= upTo; expect++ {
			if err := s.b.Set(rowKey(c, expect), lostRow(c.Conv, expect, before, s.last.pos), nil); err != nil {
				return err
			}
		}
		return nil
	}
	return s.commit(func() error {
		err := s.each(lower, upper, func(k, v []byte) error {
			if q := seqOf(k); q >= expect {
				if err := lose(q - 1); err != nil {
					return err
				}
				expect, before = q+1, bytes.Clone(v)
			}
			return nil
		})
		if err == nil {
			err = lose(head)
		}
		return err
	})
}

// headOf is the highest seq of c that anything tells of.
func (s *settler) headOf(c im.Key) (im.Seq, error) {
	head := s.heads[c]
	up := func(q uint64) { head = max(head, im.Seq(q)) }
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: convKey(kindRow, c), UpperBound: after(convKey(kindRow, c))})
	if err != nil {
		return 0, err
	}
	if it.Last() {
		up(uint64(seqOf(it.Key())))
	}
	if err := it.Close(); err != nil {
		return 0, err
	}
	err = s.each(convKey(kindMember, c), after(convKey(kindMember, c)), func(_, v []byte) error {
		var m storepb.Member
		if m.UnmarshalVT(v) == nil {
			up(m.Version)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	err = s.each(convKey(kindCursor, c), after(convKey(kindCursor, c)), func(_, v []byte) error {
		var u storepb.Cursor
		if u.UnmarshalVT(v) == nil {
			up(max(u.Delivered, u.Read))
		}
		return nil
	})
	return head, err
}
