package pgstore

import (
	"fmt"
	"testing"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// A read finds damage if the value is not the one that was stored under its key: a bit has
// flipped, the value was cut, or it stands under another key.
func TestValueThatWasNotStoredSoIsCorrupt(t *testing.T) {
	c, other := conv(1, 0), conv(1, 1)
	ctx := t.Context()
	row := func(st *Store) error {
		return st.Rows(ctx, c, 1, 1, func(store.Row) bool { return true })
	}
	last := func(st *Store) error { _, err := st.LastRow(ctx, other); return err }
	dedupe := func(st *Store) error { _, err := st.Dedupe(ctx, c, 5); return err }
	head := func(st *Store) error { _, err := st.Conversation(ctx, c); return err }
	members := func(st *Store) error {
		return st.Members(ctx, c, func(im.User, *storepb.Member) bool { return true })
	}
	member := func(st *Store) error { _, err := st.Member(ctx, c, "ann"); return err }
	cursor := func(st *Store) error { _, err := st.Cursor(ctx, c, "ann"); return err }
	marks := func(st *Store) error {
		return st.Marks(ctx, c, store.MarkReactions, 1, 1, "", func(im.Seq, string, []byte) bool { return true })
	}
	mark := func(st *Store) error {
		_, err := st.MarksOf(ctx, c, store.MarkReactions, "ann", []im.Seq{1})
		return err
	}
	feed := func(st *Store) error {
		return st.ScanFeed(ctx, 1, 0, 1, func(im.Pos, *storepb.FeedEntry) bool { return true })
	}
	record := func(st *Store) error { _, err := st.Record(ctx, store.Users, 1, []byte("ann")); return err }
	records := func(st *Store) error {
		return st.Records(ctx, store.Users, 1, nil, func(_, _ []byte) bool { return true })
	}
	flip := func(table, column, where string) string {
		return fmt.Sprintf(`UPDATE petrel.%[1]s SET %[2]s = set_byte(%[2]s, 0, get_byte(%[2]s, 0) # 1) WHERE %[3]s`, table, column, where)
	}
	for _, x := range []struct {
		name, damage string
		read         func(st *Store) error
	}{
		{"row, a bit", flip("msg", "value", "seq = 1"), row},
		{"row, its checksum", `UPDATE petrel.msg SET value = set_byte(value, length(value) - 1, 255 - get_byte(value, length(value) - 1)) WHERE seq = 1`, row},
		{"row, cut", `UPDATE petrel.msg SET value = substr(value, 1, 3) WHERE seq = 1`, row},
		{"row, of another seq", `UPDATE petrel.msg SET value = (SELECT m.value FROM petrel.msg AS m WHERE m.seq = 2 AND m.conv = msg.conv) WHERE seq = 1`, row},
		{"row, of another conversation", `UPDATE petrel.msg SET conv = '` + fmt.Sprintf("%x", other.Conv[:]) + `' WHERE seq = 2`, last},
		{"dedupe, another seq", `UPDATE petrel.dedupe SET seq = 2`, dedupe},
		{"dedupe, another hash", `UPDATE petrel.dedupe SET hash = 5`, dedupe},
		{"head record", flip("convs", "record", "true"), head},
		{"member", flip("members", "record", "member = 'ann'"), members},
		{"member alone", flip("members", "record", "member = 'ann'"), member},
		{"member, of another user", `UPDATE petrel.members SET member = 'bob'`, members},
		{"cursor", flip("cursors", "record", "true"), cursor},
		{"cursor, cut to nothing", `UPDATE petrel.cursors SET record = ''`, cursor},
		{"mark", flip("marks", "value", "true"), marks},
		{"mark alone", flip("marks", "value", "true"), mark},
		{"mark, of another user", `UPDATE petrel.marks SET name = 'bob'`, marks},
		{"feed entry", flip("feed", "entry", "pos = 1"), feed},
		{"feed entry, of another commit", `UPDATE petrel.feed SET entry = (SELECT f.entry FROM petrel.feed AS f WHERE f.pos = 2 AND f.part = 1) WHERE pos = 1`, feed},
		{"record", flip("records", "value", "true"), record},
		{"record among others", flip("records", "value", "true"), records},
		{"record, of another user", `UPDATE petrel.records SET key = 'ann'`, record},
	} {
		t.Run(x.name, func(t *testing.T) {
			st, r := one(t)
			w := newFeedWriter(t, st, 1)
			b := w.next()
			b.Rows = []store.RowPut{{Conv: c, Seq: 1, Value: []byte("first")}, {Conv: c, Seq: 2, Value: []byte("again")}}
			hash := uint64(5)
			if x.name == "dedupe, another hash" {
				hash = 6
			}
			b.Dedupe = []store.DedupePut{{Conv: c, Hash: hash, Seq: 1}}
			b.Convs = []store.ConvPut{{Conv: c, Record: &storepb.Conversation{Kind: 2}}}
			b.Members = []store.MemberPut{{Conv: c, User: "ann", Record: &storepb.Member{Role: 1}}}
			b.Cursors = []store.CursorPut{{Conv: c, User: "ann", Record: &storepb.Cursor{Read: 1}}}
			b.Marks = []store.MarkPut{{Conv: c, Kind: store.MarkReactions, Seq: 1, Name: "ann", Value: []byte("mark")}}
			wantErr(t, "append", appendOne(st, b), nil)
			w.pos++
			w.heads[0] = 2
			w.add(t, st, 1)
			user := "ann"
			if x.name == "record, of another user" {
				user = "bob"
			}
			wantErr(t, "update", st.Update(ctx, []store.RecordPut{{Table: store.Users, Tenant: 1, Key: []byte(user), Value: []byte("record")}}), nil)
			if x.name != "dedupe, another hash" && x.name != "record, of another user" && x.name != "row, of another conversation" {
				wantErr(t, "read before the damage", x.read(st), nil)
			}
			r.do(x.damage)
			wantErr(t, "read", x.read(st), store.ErrCorrupt)
			if n := st.Figures(0).Damaged; n == 0 {
				t.Error("the damage is not counted")
			}
		})
	}
}
