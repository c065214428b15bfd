package pebblestore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/store"
)

// outdated is a disk where the newest version of a token is in a damaged table, and the
// one before it in another.
func outdated(t *testing.T) *vfs.MemFS {
	t.Helper()
	fs := vfs.NewCrashableMem()
	st := mustOpen(t, mem(fs))
	newTown(t, st, 20, 5)
	setToken(t, st, "valid")
	intoTables(t, st)
	before := filesOf(t, fs, "sst")
	damageNewest(t, fs, st, "", before)
	return fs
}

// damageNewest sets the token, empty: deletes it, closes the store, and damages the block
// of a table that has this newest version. before are the tables that have older ones.
func damageNewest(t *testing.T, fs *vfs.MemFS, st *Store, token string, before []string) {
	t.Helper()
	setToken(t, st, token)
	for i := range 200 { // so that the block with the token has nothing of the store itself
		v := make([]byte, 300)
		for j := range v {
			v[j] = byte(rand.Uint32())
		}
		if err := st.Update(t.Context(), []store.RecordPut{{Table: store.Requests, Key: fmt.Append(nil, i), Value: v}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := st.db.Flush(); err != nil {
		t.Fatal(err)
	}
	all, err := liveTables(st.db)
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, st)
	key := recordKey(store.Tokens, 0, []byte("token"))
	all = slices.DeleteFunc(all, func(tb table) bool { return slices.Contains(before, "data/store/"+tb.name) })
	damageBlock(t, fs, all, func(h keyRange) bool { return h.has(key) && !h.has(keyCommit) && !h.has(keyIdentity) })
}

// damageBlock damages the block of a table of which such a range is lost.
func damageBlock(t *testing.T, fs *vfs.MemFS, all []table, such func(h keyRange) bool) {
	t.Helper()
	for _, tb := range all {
		path := "data/store/" + tb.name
		whole := contentOf(t, fs, path)
		for at := 0; at < len(whole); at += 2048 {
			rewriteFile(t, fs, path, flipped(whole, at))
			lost, err := salvage(tableOptions(mem(fs).withDefaults()), fs, path, tb, nil)
			if err != nil {
				t.Fatal(err)
			}
			if lost != nil && lost.entries > 0 && such(lost.keyRange) {
				return
			}
		}
		rewriteFile(t, fs, path, whole)
	}
	t.Fatal("there is no such block")
}

// setToken writes the token; empty: deletes it.
func setToken(t *testing.T, st *Store, v string) {
	t.Helper()
	puts := []store.RecordPut{{Table: store.Tokens, Key: []byte("token"), Value: []byte(v)}}
	if v == "" {
		puts[0].Value = nil
	}
	if err := st.Update(t.Context(), puts); err != nil {
		t.Fatal(err)
	}
}

// afterReplacing is fs, and the disk as a power cut leaves it when a table was replaced
// and nothing came after that.
func afterReplacing(fs *vfs.MemFS) (vfs.FS, func() *vfs.MemFS) {
	var mu sync.Mutex
	var cut *vfs.MemFS
	hooked := &hookFS{FS: fs, at: func(e event) error {
		mu.Lock()
		defer mu.Unlock()
		if e.after && e.op == "rename" && isFile(e.path, "sst") && cut == nil {
			cut = killed(fs)
		}
		return nil
	}}
	return hooked, func() *vfs.MemFS {
		mu.Lock()
		defer mu.Unlock()
		return cut
	}
}

func TestDamagedRangeHidesWhatIsOlder(t *testing.T) {
	fs, cut := afterReplacing(outdated(t))
	st := mustOpen(t, mem(fs))
	tokenIsDamaged(t, st, "met")
	eventually.True(t, "mended", func() bool { return st.damaged() != nil && cut() != nil })
	tokenIsDamaged(t, st, "mended")
	intoTables(t, st)
	tokenIsDamaged(t, st, "compacted")
	mustClose(t, st)
	left := mustOpen(t, mem(cut()))
	tokenIsDamaged(t, left, "power cut when it was mended")
	mustClose(t, left)
	st = mustOpen(t, mem(fs))
	defer mustClose(t, st)
	tokenIsDamaged(t, st, "opened again")
	setToken(t, st, "new")
	tokenIs(t, st, "new")
}

// mendedAt opens what outdated has made, and has its table mended.
func mendedAt(t *testing.T, fs *vfs.MemFS) *Store {
	t.Helper()
	st := mustOpen(t, mem(fs))
	_, _ = st.Record(t.Context(), store.Tokens, 0, []byte("token")) // meets the damage
	eventually.True(t, "mended", func() bool { return st.damaged() != nil && st.Compact(t.Context()) == nil })
	return st
}

// tokenIs fails unless the token can be read; empty: it is there no more.
func tokenIs(t *testing.T, st *Store, want string) {
	t.Helper()
	if v, err := st.Record(t.Context(), store.Tokens, 0, []byte("token")); err != nil || string(v) != want || (v == nil) != (want == "") {
		t.Errorf("the token is %q, %v, want %q", v, err, want)
	}
}

// tokenIsDamaged fails unless a read of the token meets damage.
func tokenIsDamaged(t *testing.T, st *Store, what string) {
	t.Helper()
	if v, err := st.Record(t.Context(), store.Tokens, 0, []byte("token")); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("%s: the deleted token is %q, %v, want %v", what, v, err, store.ErrCorrupt)
	}
}

// TestSecondRangeHidesWhatIsOlder: rows written after a first damage are lost by a second.
func TestSecondRangeHidesWhatIsOlder(t *testing.T) {
	fs := outdated(t)
	st := mendedAt(t, fs)
	setToken(t, st, "new")
	intoTables(t, st)
	before := filesOf(t, fs, "sst")
	damageNewest(t, fs, st, "", before)
	st = mustOpen(t, mem(fs))
	tokenIsDamaged(t, st, "met")
	eventually.True(t, "mended", func() bool { return len(st.damaged()) == 2 })
	tokenIsDamaged(t, st, "mended")
	mustClose(t, st)
	st = mustOpen(t, mem(fs))
	tokenIsDamaged(t, st, "opened again")
	setToken(t, st, "newest")
	tokenIs(t, st, "newest")
	mustClose(t, st)
	if _, err := Repair(mem(fs)); err != nil {
		t.Fatal(err)
	}
	st = mustOpen(t, mem(fs))
	defer mustClose(t, st)
	tokenIs(t, st, "newest")
}

// TestRepairKnowsRangesThatTheStoreHasLost: the second damage takes the block with them.
func TestRepairKnowsRangesThatTheStoreHasLost(t *testing.T) {
	fs := outdated(t)
	st := mendedAt(t, fs)
	intoTables(t, st)
	all, err := liveTables(st.db)
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, st)
	damageBlock(t, fs, all, func(h keyRange) bool { return h.has(keyRanges) })
	refusal(t, fs, "the damaged ranges are lost")
	if _, err := Repair(mem(fs)); err != nil {
		t.Fatal(err)
	}
	st = mustOpen(t, mem(fs))
	defer mustClose(t, st)
	tokenIs(t, st, "")
}

// TestTableIsDamagedTwice: the range of the first damage is not forgotten after the second.
func TestTableIsDamagedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewCrashableMem()
		o := mem(fs)
		o.tune = func(p *pebble.Options) { p.DisableAutomaticCompactions = true }
		o = calm(o)
		st := mustOpen(t, o)
		tn := newTown(t, st, 300, 60)
		intoTables(t, st)
		mustClose(t, st)
		was := 0
		for i, middle := range []bool{false, true} { // the records come first, the rows are in the middle
			path, whole := largestOf(t, fs)
			at := 2000
			if middle {
				at = len(whole) / 2
			}
			rewriteFile(t, fs, path, flipped(whole, at))
			st := mustOpen(t, o)
			tn.count(t, st, "met")
			awaitMender()
			tn.count(t, st, "mended")
			mustClose(t, st)
			st = mustOpen(t, o)
			n := tn.count(t, st, "opened again")
			mustClose(t, st)
			if n.damaged <= was {
				t.Errorf("damage %d: %d reads met damage, %d before it", i+1, n.damaged, was)
			}
			was = n.damaged
		}
	})
}

// TestRewriteTellsNothingOfTheEnd: the last rows of a conversation are lost, and one before
// them was rewritten since.
func TestRewriteTellsNothingOfTheEnd(t *testing.T) {
	fs := vfs.NewCrashableMem()
	o := mem(fs)
	o.tune = func(p *pebble.Options) { p.DisableAutomaticCompactions = true }
	st := mustOpen(t, o)
	tn := newTown(t, st, 300, 60)
	intoTables(t, st)
	rewritten := func(c im.Key, q im.Seq) store.RowPut {
		v := townRow(c, q)
		v[1] |= store.RowRewritten
		return store.RowPut{Conv: c, Seq: q, Value: v, Rewrite: true}
	}
	b := tn.batch()
	var longer []im.Key // have rows that came after the table; the last is rewritten too
	for i, c := range tn.convs {
		if i%2 == 0 {
			b.Rows = append(b.Rows, rewritten(c, 55))
		} else {
			longer = append(longer, c)
		}
	}
	tn.append(t, b)
	tn.round(t, longer)
	tn.round(t, longer)
	b = tn.batch()
	for _, c := range longer {
		b.Rows = append(b.Rows, rewritten(c, tn.heads[c]))
	}
	tn.append(t, b)
	mustClose(t, st)
	path, whole := largestOf(t, fs)
	for part := 1; part < 8; part++ {
		whole = flipped(whole, len(whole)/8*part)
	}
	rewriteFile(t, fs, path, whole)
	st = mustOpen(t, mem(fs))
	for _, c := range tn.convs {
		_, _ = st.LastRow(t.Context(), c)
	}
	eventually.True(t, "mended", func() bool {
		for _, c := range longer {
			if row, err := st.LastRow(t.Context(), c); err != nil || row.Seq != tn.heads[c] {
				return false
			}
		}
		return st.damaged() != nil
	})
	for _, what := range []string{"mended", "opened again"} {
		hidden := 0
		for _, c := range tn.convs {
			row, err := st.LastRow(t.Context(), c)
			if errors.Is(err, store.ErrCorrupt) && tn.heads[c] == 60 {
				hidden++
			} else if err != nil || row.Seq != tn.heads[c] {
				t.Errorf("%s: last row of %s is %v, %v, want %d or damage", what, c, row, err, tn.heads[c])
			}
		}
		if hidden == 0 {
			t.Errorf("%s: no conversation has lost its last rows", what)
		}
		mustClose(t, st)
		st = mustOpen(t, mem(fs))
	}
	mustClose(t, st)
}
