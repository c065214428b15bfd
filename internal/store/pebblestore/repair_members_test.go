package pebblestore

import (
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/store/storetest"
)

// sentBy is the row of an entry, as far as a repair looks at it.
func sentBy(u im.User) []byte {
	m := protowire.AppendTag(nil, 3, protowire.BytesType)
	m = protowire.AppendString(m, string(u))
	b := protowire.AppendTag(store.AppendRowHead(nil, store.RowHead{Pos: 1}), 1, protowire.BytesType)
	return protowire.AppendBytes(b, m)
}

// The table with all records and members is deleted. The rows, cursors and accounts are
// in another one. Whose a direct conversation or an inbox is follows from its id.
func TestRepairFindsWhoseADirectConversationWas(t *testing.T) {
	fs := vfs.NewCrashableMem()
	st := mustOpen(t, mem(fs))
	ids := im.NewIDs(st.Info().Secret)
	all := []struct {
		what   string
		conv   im.ConvID
		users  []string // in its record
		wrote  []im.User
		cursor im.User
		lost   bool // nobody can tell
	}{
		{what: "both wrote", conv: ids.Direct(1, "ann", "bob"), users: []string{"ann", "bob"}, wrote: []im.User{"ann", "bob"}},
		{what: "one wrote", conv: ids.Direct(1, "dan", "cyd"), users: []string{"cyd", "dan"}, wrote: []im.User{"dan", "dan"}},
		{what: "one wrote, the other has read", conv: ids.Direct(1, "ann", "gone"), users: []string{"ann", "gone"}, wrote: []im.User{"ann"}, cursor: "gone"},
		{what: "notes", conv: ids.Direct(1, "eve", "eve"), users: []string{"eve", "eve"}, wrote: []im.User{"eve"}},
		{what: "inbox", conv: ids.Inbox(1, "fay"), users: []string{"fay"}, wrote: []im.User{""}},
		{what: "the other has no account", conv: ids.Direct(1, "ann", "none"), users: []string{"ann", "none"}, wrote: []im.User{"ann"}, lost: true},
	}
	w := newWriter(t, st)
	put := func(b *store.Batch) {
		t.Helper()
		b.Epoch, b.Holder, b.From, b.Entry = w.epoch, holder, w.pos, &storepb.FeedEntry{}
		w.pos++
		if err := storetest.Append(st, b); err != nil {
			t.Fatal(err)
		}
	}
	key := func(c im.ConvID) im.Key { return im.Key{Tenant: 1, Conv: c} }
	records := &store.Batch{}
	for _, c := range all {
		kind := uint32(kindDirect)
		if c.conv.Kind() == im.Inbox {
			kind = kindInbox
		}
		records.Convs = append(records.Convs, store.ConvPut{Conv: key(c.conv), Record: &storepb.Conversation{Kind: kind, Participants: c.users}})
		for _, u := range slices.Compact(slices.Clone(c.users)) {
			records.Members = append(records.Members, store.MemberPut{Conv: key(c.conv), User: im.User(u), Record: &storepb.Member{Role: 1, Version: 1, Stays: []*storepb.Stay{{From: 1}}}})
		}
	}
	put(records)
	if err := st.db.Flush(); err != nil {
		t.Fatal(err)
	}
	first := filesOf(t, fs, "sst")
	path := first[len(first)-1]
	rows := &store.Batch{}
	for _, c := range all {
		for i, u := range c.wrote {
			rows.Rows = append(rows.Rows, store.RowPut{Conv: key(c.conv), Seq: im.Seq(i + 1), Value: sentBy(u)})
		}
		if c.cursor != "" {
			rows.Cursors = append(rows.Cursors, store.CursorPut{Conv: key(c.conv), User: c.cursor, Record: &storepb.Cursor{Read: 1}})
		}
	}
	put(rows)
	for _, u := range []string{"ann", "bob", "cyd", "dan", "eve", "fay"} {
		if err := st.Update(t.Context(), []store.RecordPut{{Table: store.Users, Tenant: 1, Key: []byte(u), Value: []byte(u)}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := st.db.Flush(); err != nil {
		t.Fatal(err)
	}
	mustClose(t, st)
	rewriteFile(t, fs, path, nil)

	r, err := Repair(mem(fs))
	if err != nil {
		t.Fatal(err)
	}
	st = mustOpen(t, mem(fs))
	defer mustClose(t, st)
	for _, c := range all {
		rec, err := st.Conversation(t.Context(), key(c.conv))
		told := strings.Contains(strings.Join(r.Lost, "\n"), c.conv.String()+": nobody knows whose it was")
		if err != nil || told != c.lost || c.lost != (rec == nil) || !c.lost && !slices.Equal(rec.Participants, c.users) {
			t.Errorf("%s: the record is %v, %v, want %q; said to be nobody's: %v", c.what, rec, err, c.users, told)
		}
		var members []string
		err = st.Members(t.Context(), key(c.conv), func(u im.User, m *storepb.Member) bool {
			if len(m.Stays) == 1 && m.Stays[0].From == 1 && m.Stays[0].To == 0 && (m.Role == roleOwner) == (c.conv.Kind() == im.Inbox) {
				members = append(members, string(u))
			}
			return true
		})
		if want := slices.Compact(slices.Clone(c.users)); err != nil || !c.lost && !slices.Equal(members, want) {
			t.Errorf("%s: the members are %q, %v, want %q", c.what, members, err, want)
		}
	}
}
