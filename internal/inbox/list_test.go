package inbox

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// conversations is a list's part of n conversations.
func conversations(n int) part {
	all := &items{}
	for i := range n {
		all.add(&item{id: im.ConvID{0: byte(im.Group), 1: byte(i >> 16), 2: byte(i >> 8), 3: byte(i)}})
	}
	all.clip()
	return part{convs: n, items: all}
}

func TestKeptListsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ls lists
		for i := range 1000 {
			a := im.Account{Tenant: im.DefaultTenant, User: im.User(fmt.Sprint(i % 300))}
			n := i * 37 % 4000
			// Of each kind one: long, of large entries, short, with many settings.
			l := &list{parts: []part{conversations(n)}, head: im.Seq(keepFrom + i)}
			switch i % 4 {
			case 1:
				l.head, l.read = im.Seq(i%300), keepBytes
			case 2:
				l.head, l.read = im.Seq(i%300), keepBytes-1
			case 3:
				l.held = n * 100
			}
			ls.drop(a) // a former one of the same user may be newer here
			ls.put(a, l)
			if kept := ls.of[a] == l; kept != (l.head >= keepFrom || l.read >= keepBytes) {
				t.Fatalf("a list of %d entries, %d bytes: kept %t", l.head, l.read, kept)
			}
			sum := 0
			for _, l := range ls.of {
				sum += max(4096, l.convs()*32+l.held)
			}
			if sum != ls.kept || sum > keptBytes {
				t.Fatalf("%d bytes are kept, counted %d, limit %d", sum, ls.kept, keptBytes)
			}
		}
		if ls.kept < keptBytes/2 {
			t.Errorf("only %d bytes are kept", ls.kept)
		}
		ls.put(im.Account{User: "much"}, &list{held: keptBytes + 1, head: keepFrom})
		if len(ls.of) < 2 || ls.get(im.Account{User: "much"}) != nil {
			t.Error("a list that never fits drives out the others")
		}
	})
}

// A sync that began earlier does not put an older list back.
func TestKeptListIsTheNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ls lists
		a := im.Account{Tenant: im.DefaultTenant, User: "alice"}
		for _, head := range []im.Seq{2, 1} {
			ls.put(a, &list{head: keepFrom + head})
		}
		if got := ls.get(a).head; got != keepFrom+2 {
			t.Errorf("list up to %d, want %d", got, keepFrom+2)
		}
	})
}

// Behind a reset of the consumer an older joining or leaving may be entered
// again; the newest one decides.
func TestListGoesByTheNewestJoiningOrLeaving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := im.Key{Tenant: im.DefaultTenant, Conv: im.NewGroupID()}
		in := func(q uint64, title string) *petrelv1.InboxEntry {
			return joined(&petrelv1.InboxJoined{Conv: key.Conv.String(), Kind: petrelv1.ConvKind_CONV_KIND_GROUP, Seq: q, Title: title})
		}
		for what, c := range map[string]struct {
			entries []*petrelv1.InboxEntry
			left    bool
			title   string
		}{
			"an old leaving": {[]*petrelv1.InboxEntry{in(9, "now"), left(key, "old", 5)}, false, "now"},
			"an old joining": {[]*petrelv1.InboxEntry{in(1, "first"), left(key, "then", 5), in(1, "again")}, true, "then"},
			"a new one":      {[]*petrelv1.InboxEntry{in(1, "first"), left(key, "then", 5), in(9, "back")}, false, "back"},
		} {
			f := folding{}
			for i, e := range c.entries {
				if err := f.add(e, im.Seq(i+1), 10); err != nil {
					t.Fatal(err)
				}
			}
			l := end(&f, im.Seq(len(c.entries)))
			if l.convs() != 1 {
				t.Fatal(l)
			}
			if it := l.parts[0].items.item(0); it.left != c.left || it.title != c.title || it.at != im.Seq(len(c.entries)) {
				t.Errorf("%s: %+v", what, it)
			}
		}
	})
}

// A whole snapshot takes the place of all that was folded before it, also of what is not
// in it. One whose rest was refused says nothing.
func TestSnapshotTakesThePlaceOfWhatWasFolded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := func(name, v string) *petrelv1.InboxEntry {
			return &petrelv1.InboxEntry{Entry: &petrelv1.InboxEntry_Settings{Settings: &petrelv1.InboxSettings{Values: map[string]string{name: v}}}}
		}
		in := func(seq uint64) *petrelv1.InboxEntry {
			return joined(&petrelv1.InboxJoined{Conv: im.ConvID{0: byte(im.Group), 1: byte(seq)}.String(), Kind: petrelv1.ConvKind_CONV_KIND_GROUP, Seq: seq})
		}
		part := func(first uint64, i uint32, last bool, name string) *petrelv1.InboxEntry {
			sn := &petrelv1.InboxSnapshot{First: first, Part: i, Last: last, Items: []*petrelv1.InboxItem{{Conv: im.ConvID{0: byte(im.Group), 1: 7 + byte(i)}.String(), Since: 3, At: 2}}}
			sn.Personal = []*petrelv1.Personal{{Seq: 1, Name: name, Value: "kept"}}
			return &petrelv1.InboxEntry{Entry: &petrelv1.InboxEntry_Snapshot{Snapshot: sn}}
		}
		for what, c := range map[string]struct {
			entries []*petrelv1.InboxEntry
			want    string
		}{
			"whole":             {[]*petrelv1.InboxEntry{set("a", "1"), in(2), part(3, 0, false, "b"), part(3, 1, true, "c"), set("d", "2")}, "first 3, 2 conversations, b=kept@1 c=kept@1 d=2@5"},
			"in one part":       {[]*petrelv1.InboxEntry{set("a", "1"), part(2, 0, true, "b")}, "first 2, 1 conversations, b=kept@1"},
			"cut off":           {[]*petrelv1.InboxEntry{set("a", "1"), in(2), part(3, 0, false, "b"), set("d", "2")}, "first 0, 1 conversations, a=1@1 d=2@4"},
			"once more":         {[]*petrelv1.InboxEntry{set("a", "1"), part(2, 0, false, "b"), set("d", "2"), part(4, 0, true, "c")}, "first 4, 1 conversations, c=kept@1"},
			"without its start": {[]*petrelv1.InboxEntry{set("a", "1"), part(1, 1, true, "b")}, "first 0, 0 conversations, a=1@1"},
		} {
			f := folding{}
			for i, e := range c.entries {
				if err := f.add(e, im.Seq(i+1), 10); err != nil {
					t.Fatal(err)
				}
				if e.GetSnapshot() == nil { // the folded entries are a list by now
					f = folding{list: *end(&f, im.Seq(i+1))}
				}
			}
			l := end(&f, im.Seq(len(c.entries)))
			got := fmt.Sprintf("first %d, %d conversations,", l.first, l.convs())
			for _, s := range l.recent {
				got += fmt.Sprintf(" %s=%s@%d", s.name, s.value, s.seq)
			}
			if got != c.want {
				t.Errorf("%s: %s, want %s", what, got, c.want)
			}
		}
	})
}

// end is the list of what f has folded, which has nothing in the store.
func end(f *folding, head im.Seq) *list {
	l, err := (&Syncer{}).fold(context.Background(), im.Account{}, f, head)
	im.Assert(err == nil, "fold: %v", err)
	return l
}

// A change that a compacted inbox refuses as too_old was carried before. One that it refuses as overloaded was
// not.
func TestWhatIsTooOldWasCarried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Consumer{}
		for code, done := range map[im.Code]bool{im.CodeTooOld: true, im.CodeConflict: true, im.CodeOverloaded: false} {
			answers := make(chan conv.Result, 1)
			answers <- conv.Result{Err: &im.Error{Code: code}}
			if err := c.await(t.Context(), answers); (err == nil) != done {
				t.Errorf("%s: %v", code, err)
			}
		}
	})
}
