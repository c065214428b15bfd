package pebblestore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// A repair replaces each damaged table by its readable part (mendTable), and then settles the damaged ranges.
// Lost rows become placeholders. A row, member or record whose lost version may be newer is deleted, and the report
// names it unless the repair makes it anew.

// settle ends the damaged ranges of a store whose tables can all be read.
func (p place) settle(o Options, ranges damagedRanges, r *Report) error {
	fresh := p.witness + ".new"
	known, acked := p.witnessed()
	if err := createWitness(p.fs, p.dir, fresh, known); err != nil {
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
	db, err := openPebble(o.unchecked(), &guard{FS: p.fs, dir: p.db, out: newFailure(o.Log), wit: w, inv: inv})
	if err != nil {
		return fmt.Errorf("the repaired database cannot be read: %w; restore a backup", err)
	}
	s := &settler{Store: Store{db: db, out: newFailure(o.Log)}, r: r, heads: map[im.Key]im.Seq{}, ranges: ranges}
	err = caught(func() error {
		if err := s.run(known, acked); err != nil {
			return err
		}
		if err := p.removeFile(p.ranges); err != nil { // the database has all of them
			return err
		}
		if err := s.end(); err != nil {
			return err
		}
		return db.Flush() // these batches repeat a commit number, so they must not stay in the log
	})
	for _, f := range []func() error{db.Close, w.close} {
		if e := f(); err == nil {
			err = e
		}
	}
	if err != nil {
		return fmt.Errorf("settle the damaged ranges: %w", err)
	}
	return nil
}

// witnessed returns the content of the witness file, as far as it can be read.
func (p place) witnessed() (id identity, acked commitSlot) {
	s, err := readWitness(p.fs, p.witness)
	if err != nil {
		return identity{}, commitSlot{}
	}
	inv, _ := s.inventory()
	id, _ = parseIdentity(inv.Identity)
	acked, _ = s.commit()
	return id, acked
}

// settler works on a database whose tables can all be read. Its Store knows no damaged ranges, so its reads in
// them succeed.
type settler struct {
	Store
	ranges damagedRanges
	r      *Report
	last   last
	heads  map[im.Key]im.Seq // highest seqs that the feed names, of the conversations for which concerns is true
	b      *pebble.Batch
}

func (s *settler) run(known identity, acked commitSlot) error {
	if err := s.own(known, acked); err != nil {
		return err
	}
	for i, r := range s.ranges {
		keys, err := s.newer(r, s.ranges[:i])
		if err != nil {
			return err
		}
		if err := s.commit(func() error { return setMarks(s.b, keys, r.N) }); err != nil {
			return err
		}
	}
	if err := s.readFeed(); err != nil {
		return err
	}
	convs, err := s.conversations()
	if err != nil {
		return err
	}
	for _, r := range s.ranges {
		s.lost(r.String())
		if rowsOnly, err := s.lostRowsOnly(r, convs); err != nil {
			return err
		} else if rowsOnly {
			continue
		}
		s.r.More = s.r.More || r.endsConversation()
		if err := s.dropOlder(r); err != nil {
			return err
		}
	}
	for c := range convs {
		if err := s.rebuildRecord(c); err != nil {
			return err
		}
		if err := s.restoreMembers(c); err != nil {
			return err
		}
		if err := s.fillRows(c); err != nil {
			return err
		}
	}
	slices.Sort(s.r.Lost)
	s.r.Lost = slices.Compact(s.r.Lost)
	return nil
}

func (s *settler) lost(what string) { s.r.Lost = append(s.r.Lost, what) }

// end removes all damaged ranges.
func (s *settler) end() error {
	return s.commit(func() error {
		if err := s.b.DeleteRange(keyMarks, after(bytes.Clone(keyMarks)), nil); err != nil {
			return err
		}
		return s.b.Delete(keyRanges, nil)
	})
}

// commit writes the batch that f fills, as a part of the newest commit.
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

// newest returns the value of key. sure: no newer value was lost.
func (s *settler) newest(key []byte) (v []byte, sure bool, err error) {
	v, err = s.get(key)
	for i, r := range s.ranges {
		if err != nil || !r.has(key) {
			continue
		}
		later, e := s.newer(damagedRange{keyRange: keyRange{key, next(key)}, MaxSeq: r.MaxSeq, N: r.N}, s.ranges[:i])
		bad, e2 := s.doubted(key, s.ranges[i:i+1])
		if err = errors.Join(e, e2); bad != nil && len(later) == 0 {
			return v, false, err
		}
	}
	return v, true, err
}

// own repairs the store's records about itself. No position may be assigned twice. If the record of the last
// commit is lost, positions continue from the commit number in the witness, which is at least as high as each
// assigned position.
func (s *settler) own(known identity, acked commitSlot) error {
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
			if err := s.b.Set(keyIdentity, known.encode(), nil); err != nil {
				return err
			}
		}
		if err := s.b.Set(keyRanges, s.ranges.encode(), nil); err != nil {
			return err
		}
		format := binary.BigEndian.AppendUint32(nil, store.FormatLevel)
		return s.b.Set(keyFormat, binary.BigEndian.AppendUint32(format, store.FormatLevel), nil)
	})
}

// each calls fn for the keys of a range. key and value are valid during the call.
func (s *settler) each(r keyRange, fn func(key, value []byte) error) error {
	return s.scan(context.Background(), r.From, r.To, func(k, v []byte) (bool, error) { return true, fn(k, v) })
}

// readFeed notes in heads the highest seq that the feed names for each conversation that may have lost something, and
// trims the feed up to its last missing entry.
func (s *settler) readFeed() error {
	v, err := s.get(keyTrim)
	if err != nil {
		return err
	}
	var trim im.Pos
	if len(v) == 8 {
		trim = im.Pos(binary.BigEndian.Uint64(v))
	}
	to, expect := trim, trim+1
	err = s.each(keyRange{feedKey(feed, trim+1), feedKey(feed+1, 0)}, func(k, v []byte) error {
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
			if it.Count > 0 && s.concerns(c) {
				s.heads[c] = max(s.heads[c], im.Seq(it.From+it.Count-1))
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if expect <= s.last.pos { // the newest entries are missing
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

// concerns tells whether the record, members or rows of c may be lost.
func (s *settler) concerns(c im.Key) bool {
	return slices.ContainsFunc([]byte{kindConversation, kindMember, kindRow}, func(kind byte) bool {
		r := convRange(kind, c)
		return s.ranges.over(r.From, r.To) != nil
	})
}

// conversations returns the conversations that may have lost something, as far as a record, a row or the
// feed names them.
func (s *settler) conversations() (map[im.Key]bool, error) {
	convs := map[im.Key]bool{}
	for c := range s.heads {
		convs[c] = true
	}
	for _, kind := range []byte{kindConversation, kindRow} {
		it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{kind}, UpperBound: []byte{kind + 1}})
		if err != nil {
			return nil, err
		}
		for ok := it.First(); ok && len(it.Key()) >= convKeyLen; {
			c := keyOf(it.Key())
			if s.concerns(c) {
				convs[c] = true
			}
			ok = it.SeekGE(after(convKey(kind, c)))
		}
		if err := it.Close(); err != nil { // it has the error of the iteration too
			return nil, err
		}
	}
	return convs, nil
}

// endsConversation tells whether the last row of a conversation may have been in r.
func (r keyRange) endsConversation() bool {
	if !r.overlaps([]byte{kindRow}, []byte{kindRow + 1}) {
		return false
	}
	return len(r.From) < convKeyLen || !bytes.HasPrefix(r.To, r.From[:convKeyLen])
}

// lostRowsOnly tells whether the missing rows in r are all that its table has lost. Then the lost part had no
// newer version of a key that is left.
func (s *settler) lostRowsOnly(r damagedRange, convs map[im.Key]bool) (bool, error) {
	for _, o := range s.ranges {
		if o.N != r.N && o.overlaps(r.From, r.To) {
			return false, nil
		}
	}
	missing := uint64(0)
	for c := range convs {
		rows := convRange(kindRow, c)
		if !r.overlaps(rows.From, rows.To) {
			continue
		}
		err := s.missingRows(c, func(from, to im.Seq, _ []byte) error {
			for q := from; q <= to; q++ {
				if r.has(rowKey(c, q)) {
					missing++
				}
			}
			return nil
		})
		if err != nil {
			return false, err
		}
	}
	return missing > 0 && missing == r.Entries, nil
}

// dropOlder deletes the rows, members and records in a range whose lost version may be newer: it may have recalled a
// row, removed a member or revoked a token. Head records, cursors and marks beside rows stay, and so do keys that are
// written only once.
func (s *settler) dropOlder(r damagedRange) error {
	return s.commit(func() error {
		return s.each(r.keyRange, func(k, _ []byte) error {
			if k[0] != kindRow && k[0] != kindMember && k[0] != kindRecord {
				return nil
			}
			if bad, err := s.doubted(k, damagedRanges{r}); err != nil || bad == nil {
				return err
			}
			if k[0] == kindRecord || k[0] == kindMember && !derived(keyOf(k)) { // fillRows, restoreMembers do the rest
				s.lost(nameOfKey(k))
			}
			return s.b.Delete(k, nil)
		})
	})
}

// Kinds and roles of petrel.v1, as the records have them.
const (
	kindGroup  = 2
	roleMember = 1
	roleOwner  = 3
)

// derived tells whether the id of c is made from its users, and not from the key of a group.
func derived(c im.Key) bool { return c.Conv.Kind() == im.Direct || c.Conv.Kind() == im.Inbox }

// rebuildRecord makes the record of a group anew, if it is gone and there are rows. The title and the key
// are lost: only the record had them. Of a direct conversation or an inbox rebuildRecord only reports the loss: the
// record of a direct conversation comes back with the next message.
func (s *settler) rebuildRecord(c im.Key) error {
	v, err := s.get(convKey(kindConversation, c))
	if err != nil || v != nil {
		return err
	}
	rows := convRange(kindRow, c)
	first := im.Seq(0)
	err = s.scan(context.Background(), rows.From, rows.To, func(k, _ []byte) (bool, error) {
		first = seqOf(k)
		return false, nil
	})
	if err != nil || first == 0 {
		return err
	}
	if derived(c) {
		s.lost("conversation " + c.Conv.String() + ": its users cannot read it until one of them sends again")
		return nil
	}
	if first > 1 && s.ranges.having(rowKey(c, first-1)) != nil {
		first = 0 // the rows before it are lost, not removed
	}
	s.lost("conversation " + c.Conv.String() + ": title and key")
	rec := &storepb.Conversation{Kind: kindGroup, FirstSeq: uint64(first), CreatedMs: s.last.timeMs}
	return s.commit(func() error { return setRecord(s.b, kindConversation, c, "", rec) })
}

// restoreMembers makes the missing member records of a direct conversation or an inbox anew. The membership in
// these never changes, so this cannot restore an older state.
func (s *settler) restoreMembers(c im.Key) error {
	rec, err := s.record(c)
	if err != nil || !derived(c) {
		return err
	}
	return s.commit(func() error {
		for _, u := range slices.Compact(rec.Participants) {
			v, err := s.get(append(convKey(kindMember, c), u...))
			if err != nil {
				return err
			}
			if v != nil {
				continue
			}
			m := &storepb.Member{Role: roleMember, Stays: []*storepb.Stay{{From: 1}}, Version: 1,
				ChangedPos: uint64(s.last.pos)}
			if c.Conv.Kind() == im.Inbox {
				m.Role = roleOwner
			}
			if err := setRecord(s.b, kindMember, c, im.User(u), m); err != nil {
				return err
			}
		}
		return nil
	})
}

// record returns the conversation record of c; empty: there is none, or it is unreadable.
func (s *settler) record(c im.Key) (*storepb.Conversation, error) {
	v, err := s.get(convKey(kindConversation, c))
	rec := new(storepb.Conversation)
	if rec.UnmarshalVT(v) != nil {
		rec = new(storepb.Conversation)
	}
	return rec, err
}

// fillRows puts placeholders where rows of c are missing.
func (s *settler) fillRows(c im.Key) error {
	return s.commit(func() error {
		return s.missingRows(c, func(from, to im.Seq, before []byte) error {
			s.lost(fmt.Sprintf("conversation %s seq %d to %d", c.Conv, from, to))
			s.r.LostRows += uint64(to - from + 1)
			for q := from; q <= to; q++ {
				if err := s.b.Set(rowKey(c, q), lostRow(c.Conv, q, before, s.last.pos), nil); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// missingRows calls fn for each range of seqs of c that has no rows, up to the highest known seq. before is the
// row before the range, nil if there is none.
func (s *settler) missingRows(c im.Key, fn func(from, to im.Seq, before []byte) error) error {
	rec, err := s.record(c)
	if err != nil {
		return err
	}
	rows := convRange(kindRow, c)
	expect := im.Seq(max(1, rec.FirstSeq))
	var before []byte
	err = s.each(keyRange{rowKey(c, expect), rows.To}, func(k, v []byte) error {
		q := seqOf(k)
		if q > expect {
			if err := fn(expect, q-1, before); err != nil {
				return err
			}
		}
		expect, before = q+1, append(before[:0], v...)
		return nil
	})
	if err != nil || s.ranges.over(rowKey(c, expect), rows.To) == nil {
		return err
	}
	head, err := s.headOf(c)
	if err != nil || head < expect {
		return err
	}
	return fn(expect, head, before)
}

// headOf returns the highest seq that the feed, the members and the cursors of c name.
func (s *settler) headOf(c im.Key) (im.Seq, error) {
	head := s.heads[c]
	err := s.each(convRange(kindMember, c), func(_, v []byte) error {
		var m storepb.Member
		if m.UnmarshalVT(v) == nil {
			head = max(head, im.Seq(m.Version))
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	err = s.each(convRange(kindCursor, c), func(_, v []byte) error {
		var u storepb.Cursor
		if u.UnmarshalVT(v) == nil {
			head = max(head, im.Seq(u.Delivered), im.Seq(u.Read))
		}
		return nil
	})
	return head, err
}
