package inbox_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/inbox"
	"github.com/petrel-im/petrel/internal/route"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// device is what a client keeps of a user's settings, from what syncs tell it.
type device struct {
	w      *world
	token  []byte
	of     map[string]string // "conv user name" → value
	resets int
	pages  int
	told   int
	last   *petrelv1.SyncPage
}

// sync applies pages as P-8.10 says, at most so many; 0: until there are no more. It
// reports whether there are none.
func (d *device) sync(most int) bool {
	d.w.t.Helper()
	for n := 1; ; n++ {
		p, err := d.w.sync.Sync(context.Background(), alice, d.token, inbox.Wants{Personal: true})
		if err != nil {
			d.w.t.Fatal(err)
		}
		if p.PersonalReset {
			d.of = map[string]string{}
			d.resets++
		}
		if d.of == nil {
			d.of = map[string]string{}
		}
		last := uint64(0)
		for _, s := range p.Personal {
			if s.Seq < last {
				d.w.t.Fatalf("setting of entry %d after one of entry %d", s.Seq, last)
			}
			last = s.Seq
			key := fmt.Sprintf("%s %s %s", s.Conv, s.User, s.Name)
			if d.of[key] = s.Value; s.Value == "" {
				delete(d.of, key)
			}
		}
		d.told += len(p.Personal)
		d.pages++
		d.token, d.last = p.Token, p
		if !p.More || n == most {
			return !p.More
		}
	}
}

// want compares what the device keeps with what the inbox comes to.
func (d *device) want(what string) {
	d.w.t.Helper()
	want := map[string]string{}
	for _, s := range d.w.allSettings(alice) {
		for name, v := range s.Values {
			want[fmt.Sprintf("%s %s %s", s.Conv, s.User, name)] = v
		}
	}
	if diff := cmp.Diff(want, d.of); diff != "" {
		d.w.t.Fatalf("%s: settings at the device (-want +got):\n%s", what, diff)
	}
}

// setAll writes one entry with several settings.
func (w *world) setAll(e *petrelv1.InboxSettings) {
	w.t.Helper()
	if _, err := inbox.Write(context.Background(), w.convs, alice, &petrelv1.InboxEntry{Entry: &petrelv1.InboxEntry_Settings{Settings: e}}, w.id()); err != nil {
		w.t.Fatal(err)
	}
}

// Spec: P-8.10.
func TestSyncTellsTheNewestOfEachSetting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		team := w.group("team", "alice", "bob").Conv.String()
		w.settle()
		phone, laptop := &device{w: w}, &device{w: w}
		phone.sync(0)
		if phone.resets != 1 {
			t.Errorf("%d resets for a new device, want 1", phone.resets)
		}
		w.setAll(&petrelv1.InboxSettings{Conv: team, Values: map[string]string{"pinned": "7", "muted_until": "12"}})
		w.setAll(&petrelv1.InboxSettings{User: "bob", Values: map[string]string{"remark": "the tall one"}})
		w.setAll(&petrelv1.InboxSettings{Values: map[string]string{"theme": "dark"}})
		phone.sync(0)
		phone.want("news")
		if phone.told != 4 || phone.resets != 1 {
			t.Errorf("%d settings told with %d resets, want 4 and none", phone.told, phone.resets)
		}
		laptop.sync(0)
		laptop.want("a new device")
		for i := range 20 {
			w.setAll(&petrelv1.InboxSettings{Conv: team, Values: map[string]string{"pinned": fmt.Sprint(i + 1)}})
		}
		w.setAll(&petrelv1.InboxSettings{Conv: team, Values: map[string]string{"muted_until": ""}})
		phone.sync(0)
		phone.want("changed often, and removed")
		if phone.told != 6 {
			t.Errorf("%d settings told, want 2 more: the newest of each name", phone.told-4)
		}
		before := phone.told
		phone.sync(0)
		if phone.told != before || phone.resets != 1 {
			t.Error("a sync without news tells settings")
		}
	})
}

// A client without the capability gets no settings, and all of them once it has it. Spec:
// P-2.6.
func TestSettingsAreToldToWhoUnderstandsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.group("team", "alice")
		w.setOne("", "theme", "dark")
		w.settle()
		p, err := w.sync.Sync(context.Background(), alice, nil, inbox.Wants{})
		if err != nil || len(p.Personal) > 0 || p.PersonalReset {
			t.Fatalf("page %v, %v", p, err)
		}
		d := &device{w: w, token: p.Token}
		d.sync(0)
		d.want("with an older token")
		if len(d.last.Convs) != 0 || d.resets != 1 {
			t.Errorf("%d conversations, %d resets", len(d.last.Convs), d.resets)
		}
		p, err = w.sync.Sync(context.Background(), alice, d.token, inbox.Wants{})
		if err != nil {
			t.Fatal(err)
		}
		d.token = p.Token
		w.setOne("", "theme", "light")
		d.sync(0)
		d.want("understood again")
		if d.resets != 1 {
			t.Error("what was told is forgotten by a sync that did not ask for it")
		}
	})
}

// More settings than fit a page are told in several, before the conversations, also
// while they change. Nothing is told twice but what has changed.
func TestManySettingsAreToldInPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.group("team", "alice")
		w.settle()
		d := &device{w: w}
		d.sync(0)
		long := fmt.Sprintf("%0900d", 7)
		for i := range 20 {
			values := map[string]string{}
			for j := range 16 {
				values[fmt.Sprint("name ", i, " ", j)] = long
			}
			w.setAll(&petrelv1.InboxSettings{Values: values})
		}
		for _, d := range []*device{d, {w: w}} {
			pages, told := d.pages, d.told
			for more := true; more; {
				more = !d.sync(1)
				if d.pages == pages+2 {
					w.setOne("", "name 0 3", "")
					w.setOne("", "name 19 3", "new")
				}
				if len(d.last.Personal) > 0 && len(d.last.Convs) > 0 && more {
					t.Error("conversations before all settings")
				}
			}
			d.sync(0)
			d.want("in pages")
			if n := d.pages - pages; n < 4 || d.told-told > 16*20+4 {
				t.Errorf("%d pages with %d settings", n, d.told-told)
			}
		}
	})
}

// Several devices sync at any time, also from the middle of an older sync, while
// settings change, the server starts anew and the stored lists are lost.
func TestEveryDeviceHasTheNewestSettings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 1))
		w := newWorld(t)
		w.compactFrom, w.sync.CompactFrom = 20, 20
		team := w.group("team", "alice").Conv.String()
		w.settle()
		devices := []*device{{w: w}, {w: w}, {w: w}}
		resets := 0
		for i := range 200 {
			switch n := r.IntN(10); {
			case n < 5:
				e := &petrelv1.InboxSettings{Values: map[string]string{}}
				switch r.IntN(3) {
				case 0:
					e.Conv = team
				case 1:
					e.User = "bob"
				}
				for range 1 + r.IntN(3) {
					e.Values[fmt.Sprint("name ", r.IntN(3))] = []string{"", "one", fmt.Sprint(i)}[r.IntN(3)]
				}
				w.setAll(e)
			case n < 7:
				devices[r.IntN(len(devices))].sync(1)
			case n < 8:
				d := devices[r.IntN(len(devices))]
				d.sync(0)
				d.want(fmt.Sprint("step ", i))
			case n < 9:
				from := devices[r.IntN(len(devices))]
				devices[r.IntN(len(devices))] = &device{w: w, token: from.token, of: maps.Clone(from.of)} // restored from a backup of the device
			default:
				if r.IntN(4) == 0 {
					w.restart()
					w.settle()
				}
			}
		}
		for i, d := range devices {
			d.sync(0)
			d.want(fmt.Sprint("in the end, device ", i))
			resets += d.resets
		}
		p, err := w.rowsOf(im.Key{Tenant: im.DefaultTenant, Conv: w.convs.IDs().Inbox(im.DefaultTenant, "alice")}, "", &convpb.GetHistory{})
		if err != nil || p.FirstSeq < 20 {
			t.Errorf("the inbox has the entries %d to %d, %v: this test shows nothing of compaction", p.GetFirstSeq(), p.GetHead(), err)
		}
		t.Logf("%d resets, entries %d to %d", resets, p.GetFirstSeq(), p.GetHead())
	})
}

// A block is in force when its change has been carried, and a consumer that carries again
// what it carried before takes nothing back. Spec: P-5.4.
func TestBlockIsCarriedIntoTheDirectConversation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := im.Key{Tenant: im.DefaultTenant, Conv: w.convs.IDs().Direct(im.DefaultTenant, "alice", "bob")}
		n := 0
		withheld := func() bool {
			n++
			s := &conv.Send{Conv: key, Peer: "alice", Keyed: true}
			s.Entry.From, s.Entry.ClientMsgId, s.Entry.Body = "bob", fmt.Sprint(n), &petrelv1.Message_Text{Text: "hi"}
			w.many([]*conv.Send{s})
			p, err := w.rowsOf(key, "alice", &convpb.GetHistory{Before: math.MaxUint64, Limit: 1})
			if err != nil || len(p.Rows) != 1 {
				t.Fatal(p, err)
			}
			var m petrelv1.Message
			if err := wire.ParseMessage(p.Rows[0], &m); err != nil {
				t.Fatal(err)
			}
			return m.Withheld
		}
		block := func(value string) {
			w.setAll(&petrelv1.InboxSettings{User: "bob", Values: map[string]string{"blocked": value}})
			w.settle()
		}
		block("1")
		if !withheld() {
			t.Error("a message from before the conversation began is not withheld")
		}
		block("")
		if withheld() {
			t.Error("withheld after the end of the block")
		}
		block("1")
		for i := range 3 {
			if i > 0 {
				w.restart() // the consumer reads again from the last place that it saved
				w.settle()
			}
			if !withheld() {
				t.Errorf("not withheld after %d restarts", i)
			}
		}
		w.setAll(&petrelv1.InboxSettings{User: "bob", Values: map[string]string{"remark": "a bore"}})
		w.setAll(&petrelv1.InboxSettings{User: "alice", Values: map[string]string{"blocked": "1"}}) // oneself: no call lets it through
		w.settle()
		if !withheld() {
			t.Error("another setting of the user ends the block")
		}
	})
}

// A blocked user is told the cursor that the other one had when the block began, also if it had not
// moved since the start of the server. Later moves are not told by any read. Spec: P-5.4, P-8.6.
func TestReceiptsOfBeforeABlockStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.direct("alice", "bob", "one")
		w.direct("bob", "alice", "two")
		w.direct("bob", "alice", "three")
		w.mustMove("alice", key, 2, 1)
		w.settle()
		w.restart()
		told := func() string {
			t.Helper()
			list, err := route.Ask(t.Context(), w.router, conv.Query{Conv: key, User: "bob"}, (*conv.Owner).Receipts, &convpb.ListReceipts{})
			if err != nil {
				t.Fatal(err)
			}
			states, _ := w.all("bob", nil)
			all := []string{}
			for _, r := range append(list.Receipts, states[key.Conv.String()].PeerReceipt) {
				if r.GetUser() == "alice" {
					all = append(all, fmt.Sprintf("%d %d", r.Delivered, r.Read))
				}
			}
			return strings.Join(all, ", ")
		}
		for _, x := range []struct {
			blocked string
			read    im.Seq
			want    string
		}{{"1", 2, "2 1, 2 1"}, {"1", 3, "2 1, 2 1"}, {"", 3, "3 3, 3 3"}, {"1", 3, "3 3, 3 3"}} {
			w.setAll(&petrelv1.InboxSettings{User: "bob", Values: map[string]string{"blocked": x.blocked}})
			w.settle()
			w.mustMove("alice", key, x.read, x.read)
			if got := told(); got != x.want {
				t.Errorf("alice has read %d, blocked %q: bob is told %s, want %s", x.read, x.blocked, got, x.want)
			}
		}
	})
}

func (w *world) mustReadPrivately(u im.User, key im.Key, read im.Seq) {
	w.t.Helper()
	w.mustMovePrivately(u, key, 0, read)
}

func (w *world) mustMovePrivately(u im.User, key im.Key, delivered, read im.Seq) {
	w.t.Helper()
	_, err := route.Ask(context.Background(), w.router, conv.Query{Conv: key, User: u}, (*conv.Owner).MoveCursor,
		&convpb.MoveCursor{Delivered: uint64(delivered), Read: uint64(read), Private: true})
	if err != nil {
		w.t.Fatalf("move the cursors of %s privately: %v", u, err)
	}
}

// It is the cursor that the blocked user saw, also if a private reader was further when the block began. Spec: P-5.4,
// P-14.14.
func TestABlockDoesNotTellHowFarAPrivateReaderWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.direct("alice", "bob", "one")
		w.direct("bob", "alice", "two")
		w.direct("bob", "alice", "three")
		w.mustMove("alice", key, 1, 1)
		w.mustReadPrivately("alice", key, 2)
		w.settle()
		w.restart()
		w.setAll(&petrelv1.InboxSettings{User: "bob", Values: map[string]string{"blocked": "1"}})
		w.settle()
		w.mustMove("alice", key, 3, 3) // others see it
		list, err := route.Ask(t.Context(), w.router, conv.Query{Conv: key, User: "bob"}, (*conv.Owner).Receipts, &convpb.ListReceipts{})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list.Receipts {
			if r.User == "alice" && (r.Delivered != 1 || r.Read != 1) {
				t.Errorf("bob is told %d %d, want 1 1", r.Delivered, r.Read)
			}
		}
	})
}
