package inbox_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/inbox"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

func (w *world) mustMove(u im.User, key im.Key, delivered, read im.Seq) {
	w.t.Helper()
	if _, err := w.move(u, key, delivered, read); err != nil {
		w.t.Fatalf("move the cursors of %s: %v", u, err)
	}
}

// F12: the conversations named are those that have news for this user, and
// their cursors are in them.
func TestF12SyncNamesWhoseCursorsMoved(t *testing.T) {
	for _, cold := range []bool{false, true} {
		t.Run(fmt.Sprint("cold ", cold), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				group, direct, self := w.group("team", "alice", "bob"), w.direct("alice", "bob", "1"), w.direct("alice", "alice", "note")
				w.say(group, "bob", "2")
				w.say(direct, "bob", "2")
				w.settle()
				_, token := w.all("alice", nil)
				again := func() {
					if cold {
						w.restart()
					}
				}
				w.mustMove("bob", group, 2, 2) // is told by a receipt, or asked for
				again()
				states, _ := w.all("alice", token)
				w.wantConvs("another member of a group has read", states)

				w.mustMove("bob", direct, 2, 1)
				again()
				states, token = w.all("alice", token)
				w.wantConvs("the other of a direct conversation has", states, direct)
				receipt := &petrelv1.Receipt{Conv: direct.Conv.String(), User: "bob", Delivered: 2, Read: 1}
				if d := cmp.Diff(receipt, states[direct.Conv.String()].GetPeerReceipt(), protocmp.Transform()); d != "" {
					t.Errorf("peer receipt (-want +got):\n%s", d)
				}
				w.mustMove("alice", group, 2, 0)
				w.mustMove("alice", self, 0, 1)
				again()
				states, token = w.all("alice", token)
				w.wantConvs("another device of alice's has", states, group, self)
				for id, want := range map[string][3]uint64{group.Conv.String(): {2, 0, 0}, self.Conv.String(): {1, 1, 1}} {
					got := states[id]
					if d := cmp.Diff(want, [3]uint64{got.GetDelivered(), got.GetRead(), got.GetReadCounted()}); d != "" || got.GetPeerReceipt() != nil {
						t.Errorf("cursors of %s (-want +got):\n%s%v", id, d, got.GetPeerReceipt())
					}
				}
				again()
				states, _ = w.all("alice", token)
				w.wantConvs("nothing more", states)
			})
		})
	}
}

// F12: another consumer had the feed for a while, and its index has taken the place of what
// this one has stored. When this one goes on, it stores all that it knows again.
func TestF12IndexIsStoredAnewAfterAnotherConsumer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		one, two := w.group("one", "alice", "bob"), w.group("two", "alice", "bob")
		w.settle()
		_, token := w.all("alice", nil)
		w.say(one, "bob", "hi")
		w.settle()
		saved := func() { time.Sleep(10 * time.Second) }
		saved()
		var puts []store.RecordPut
		err := w.store.Records(t.Context(), store.Consumers, 0, nil, func(key, value []byte) bool {
			put := store.RecordPut{Table: store.Consumers, Key: slices.Clone(key)}
			if bytes.HasPrefix(key, []byte("at/")) {
				put.Value = slices.Clone(value)
				put.Value[len(value)-2]++ // 256 writes later
			}
			if put.Value != nil || bytes.HasPrefix(key, []byte("changes/")) {
				puts = append(puts, put)
			}
			return true
		})
		if err == nil {
			err = w.store.Update(t.Context(), puts)
		}
		if err != nil || len(puts) < 2 {
			t.Fatalf("%d records of the consumer are stored: %v", len(puts), err)
		}
		w.say(two, "bob", "hi")
		w.settle()
		saved() // and sees that the place is another one
		saved()
		w.restart()
		states, _ := w.all("alice", token)
		w.wantConvs("both have changed", states, one, two)
	})
}

// F12: the entries that one device has got or read say nothing about another device.
func TestF12CursorOfOneDeviceHidesNothingFromAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.group("team", "alice", "bob")
		w.settle()
		_, phone := w.all("alice", nil)
		w.say(key, "bob", "news")
		w.mustMove("alice", key, 2, 2) // the laptop
		w.restart()
		states, phone := w.all("alice", phone)
		w.wantConvs("the phone was away", states, key)
		if got := states[key.Conv.String()]; got.GetHead() != 2 || got.GetRead() != 2 || got.GetReadCounted() != 1 {
			t.Errorf("state %v", got)
		}
		states, _ = w.all("alice", phone)
		w.wantConvs("nothing more", states)
	})
}

// F12: whatever happens, a device that syncs by its token knows what one knows
// that syncs without.
func TestF12DevicesThatSyncByTokenKnowEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		rng := rand.New(rand.NewPCG(seed, 0))
		w := newWorld(t)
		var keys []im.Key
		for i := range 8 {
			if i%2 == 0 {
				keys = append(keys, w.group(fmt.Sprint("team ", i), "alice", "bob"))
			} else {
				keys = append(keys, w.direct(im.User(fmt.Sprint("peer", i)), "alice", "hi"))
			}
		}
		type device struct {
			token []byte
			knows map[string]*petrelv1.ConvState
		}
		devices := []*device{{knows: map[string]*petrelv1.ConvState{}}, {knows: map[string]*petrelv1.ConvState{}}}
		in := map[int]bool{0: true, 2: true, 4: true, 6: true}
		for step := range 150 {
			i := rng.IntN(len(keys))
			other := im.User("bob")
			if i%2 == 1 {
				other = im.User(fmt.Sprint("peer", i))
			}
			switch rng.IntN(8) {
			case 0, 1:
				w.say(keys[i], other, "text")
			case 2:
				w.mustMove([]im.User{"alice", other}[rng.IntN(2)], keys[i], 1, im.Seq(rng.IntN(2)))
			case 3:
				if i%2 == 0 && in[i] {
					w.change(keys[i], &petrelv1.MemberChange{Removed: []string{"alice"}})
					in[i] = false
				}
			case 4:
				if i%2 == 0 && !in[i] {
					w.change(keys[i], &petrelv1.MemberChange{Added: refs(0, "alice")})
					in[i] = true
				}
			case 5:
				if rng.IntN(2) == 0 {
					w.save()
				}
				if step%10 == 0 {
					w.restart()
				}
			default:
				w.settle()
				d := devices[rng.IntN(len(devices))]
				var states map[string]*petrelv1.ConvState
				states, d.token = w.all("alice", d.token)
				for id, st := range states {
					d.knows[id] = st
				}
				everything, _ := w.all("alice", nil)
				if diff := cmp.Diff(everything, d.knows, protocmp.Transform()); diff != "" {
					t.Fatalf("step %d: a device knows (-want +got):\n%s", step, diff)
				}
			}
		}
	})
}

// Spec: P-6.2.
func TestSyncBringsTheNewestMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		busy, left := w.group("busy", "alice", "bob"), w.group("left", "alice", "bob")
		w.group("short", "alice", "bob")
		for i := range 5 {
			w.say(busy, "bob", fmt.Sprint("b", i))
		}
		w.say(left, "bob", "before")
		w.change(left, &petrelv1.MemberChange{Removed: []string{"alice"}})
		w.say(left, "bob", "not for alice")
		w.settle()
		p, err := w.sync.Sync(context.Background(), im.Account{Tenant: im.DefaultTenant, User: "alice"}, nil, inbox.Wants{Newest: conv.Newest{Messages: 2}})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, c := range p.Convs {
			for _, m := range c.Newest {
				got[c.Title] += fmt.Sprintf("%d:%s ", m.Seq, m.GetText())
			}
		}
		want := map[string]string{"busy": "5:b3 6:b4 ", "short": "1: ", "left": "2:before 3: "}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("newest (-want +got):\n%s", d)
		}
	})
}

// Large messages make more pages, not larger ones.
func TestSyncWithNewestBoundsItsPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		text := strings.Repeat("x", 40<<10)
		for i := range 20 {
			key := w.group(fmt.Sprint("group ", i), "alice", "bob")
			w.say(key, "bob", text)
		}
		w.settle()
		var token []byte
		seen, pages := 0, 0
		for more := true; more; pages++ {
			p, err := w.sync.Sync(context.Background(), im.Account{Tenant: im.DefaultTenant, User: "alice"}, token, inbox.Wants{Newest: conv.Newest{Messages: conv.MaxPage}})
			if err != nil {
				t.Fatal(err)
			}
			if n := p.SizeVT(); n > 400<<10 {
				t.Errorf("a page of %d bytes", n)
			}
			seen += len(p.Convs)
			token, more = p.Token, p.More
		}
		if seen != 20 || pages < 2 {
			t.Errorf("%d conversations in %d pages", seen, pages)
		}
	})
}

// A user who left hears nothing of later entries, not even that there are some.
func TestALeaverIsToldNothingThatCameLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.group("team", "alice", "bob")
		w.change(key, &petrelv1.MemberChange{Removed: []string{"bob"}})
		w.settle()
		_, token := w.all("bob", nil)
		w.say(key, "alice", "later")
		w.rename(key, "renamed")
		w.settle()
		if states, _ := w.all("bob", token); len(states) != 0 {
			t.Errorf("bob is told of %v", states)
		}
		states, _ := w.all("bob", nil)
		if got := states[key.Conv.String()]; got.GetTitle() != "team" || got.GetHead() != 2 {
			t.Errorf("bob sees %v", got)
		}
	})
}

// A client may be ahead of the page it is sent: while the state of a
// conversation is put together, a message comes and is read. No cursor of the
// page is above its head then. Spec: P-6.2.
func TestNoCursorOfAPageIsAboveItsHead(t *testing.T) {
	for _, mover := range []im.User{"alice", "bob"} { // own cursors, and those of the other one
		t.Run(string(mover), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				key := w.direct("alice", "bob", "1")
				w.settle()
				w.say(key, "bob", "2")
				w.restart() // nobody's cursor is in memory
				w.settle()
				moved := false
				w.rows.onCursor = func(u im.User) {
					if u == mover && !moved {
						moved = true
						q := w.say(key, "bob", "3")
						w.mustMove(mover, key, q, q)
					}
				}
				states, token := w.all("alice", nil) // without a token: nothing else asks for cursors
				got := states[key.Conv.String()]
				if !moved || got == nil {
					t.Fatalf("moved %t, told %v", moved, got)
				}
				if h := got.Head; got.Delivered > h || got.Read > h || got.ReadCounted > got.Counted || got.GetPeerReceipt().GetDelivered() > h || got.GetPeerReceipt().GetRead() > h {
					t.Errorf("a cursor above the head: %v", got)
				}
				states, _ = w.all("alice", token)
				if next := states[key.Conv.String()]; next == nil && got.Head < 3 {
					t.Errorf("what came between is told neither in %v nor by the next sync", got)
				}
			})
		})
	}
}

// The sync of a private reader does not list a conversation because the other user has read: that would tell when.
// Spec: P-14.14.
func TestASyncOfAPrivateReaderDoesNotTellThatOthersRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		direct := w.direct("alice", "bob", "1")
		w.say(direct, "bob", "2")
		w.settle()
		private := inbox.Wants{NoReceipts: true}
		page, err := w.sync.Sync(t.Context(), im.Account{Tenant: im.DefaultTenant, User: "alice"}, nil, private)
		if err != nil {
			t.Fatal(err)
		}
		w.mustMove("bob", direct, 2, 1)
		next, err := w.sync.Sync(t.Context(), im.Account{Tenant: im.DefaultTenant, User: "alice"}, page.Token, private)
		if err != nil || len(next.Convs) > 0 {
			t.Errorf("bob has read: the sync of alice lists %v, %v", next.GetConvs(), err)
		}
		w.mustMove("alice", direct, 2, 1)
		w.mustMove("bob", direct, 2, 2)
		next, err = w.sync.Sync(t.Context(), im.Account{Tenant: im.DefaultTenant, User: "alice"}, page.Token, private)
		if err != nil || len(next.Convs) != 1 || next.Convs[0].PeerReceipt != nil {
			t.Errorf("both have read: the sync of alice lists %v, %v", next.GetConvs(), err)
		}
	})
}

// A cursor that a private reader showed before stays news for a sync of the other user, and what their client says of delivery
// is. Their private reads are none. Spec: P-14.14.
func TestASyncTellsWhatAPrivateReaderShows(t *testing.T) {
	for _, cold := range []bool{false, true} {
		t.Run(fmt.Sprint("cold ", cold), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				direct := w.direct("alice", "bob", "1")
				w.say(direct, "bob", "2")
				w.say(direct, "alice", "3")
				w.say(direct, "alice", "4")
				w.settle()
				_, token := w.all("alice", nil)
				wants := func(what string, delivered, read uint64) {
					t.Helper()
					if cold {
						w.restart()
					}
					states, next := w.all("alice", token)
					r := states[direct.Conv.String()].GetPeerReceipt()
					if r.GetDelivered() != delivered || r.GetRead() != read {
						t.Errorf("%s: alice is told %v, want %d %d", what, r, delivered, read)
					}
					token = next
				}
				w.mustMove("bob", direct, 2, 1)
				w.mustReadPrivately("bob", direct, 3)
				wants("after a public read and a private one", 2, 1)
				w.mustReadPrivately("bob", direct, 4)
				wants("after another private one", 0, 0)
				w.mustMovePrivately("bob", direct, 3, 0)
				wants("after a delivery", 3, 1)
				w.mustMove("bob", direct, 4, 4)
				wants("shown again, without a move", 0, 0)
				w.say(direct, "alice", "5")
				w.mustMove("bob", direct, 5, 0)
				wants("shown again", 5, 4)
			})
		})
	}
}

// When a user ends private reading, the next sync tells again how far others are, also what they read meanwhile; and the
// sync after it tells only what is new. Spec: P-14.14.
func TestTheSyncAfterPrivateReadingTellsTheCursorsOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		direct, group := w.direct("alice", "bob", "1"), w.group("team", "alice", "bob")
		w.say(direct, "bob", "2")
		w.settle()
		sync := func(token []byte, private bool) *petrelv1.SyncPage {
			page, err := w.sync.Sync(t.Context(), im.Account{Tenant: im.DefaultTenant, User: "alice"}, token,
				inbox.Wants{NoReceipts: private})
			if err != nil || page.More {
				t.Fatalf("sync: %v, %v", page, err)
			}
			return page
		}
		page := sync(nil, true)
		w.mustMove("bob", direct, 2, 1)
		w.mustMove("bob", group, 1, 1)
		page = sync(sync(page.Token, true).Token, true)
		page = sync(page.Token, false)
		if len(page.Convs) != 1 || page.Convs[0].Conv != direct.Conv.String() || page.Convs[0].PeerReceipt.GetRead() != 1 {
			t.Errorf("after private reading the sync tells %v", page.Convs)
		}
		if page = sync(page.Token, false); len(page.Convs) > 0 {
			t.Errorf("the sync after it tells %v", page.Convs)
		}
	})
}
