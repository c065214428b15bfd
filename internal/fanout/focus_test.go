package fanout

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// someStore makes ids like those of a store.
var someStore = im.NewIDs([16]byte{1})

// listening returns a connection whose client has the capabilities focus and cursor.
func listening(t *testing.T, f *Fan, u im.User, limit int) *screen {
	s := connect(t, u, limit)
	s.out.Hints, s.out.Receipts = true, true
	f.Table.Enter(s.out.Account, s.out, -1)
	return s
}

// convs returns ids of groups.
func convs(n int) []im.ConvID {
	ids := make([]im.ConvID, n)
	for i := range ids {
		ids[i] = someStore.KeyedGroup(im.DefaultTenant, fmt.Sprint("team ", i))
	}
	return ids
}

// entry returns the entry with seq q of a conversation. All entries count as unread.
func entry(id im.ConvID, q im.Seq, text string) Item {
	return Item{Row: wire.AppendMessage(nil, &petrelv1.Message{
		Conv: id.String(), Seq: uint64(q), Counted: uint64(q), From: "eve", Body: &petrelv1.Message_Text{Text: text},
	})}
}

func (f *Fan) say(u im.User, items ...Item) {
	f.Deliver(im.DefaultTenant, []im.User{u}, items)
	f.Flush()
}

// hints takes what waits: the hints by conversation, and the rest as got does.
func (s *screen) hints() (hints map[string]uint64, rest []string) {
	hints = map[string]uint64{}
	p, _ := s.out.Take()
	defer s.out.Wrote(p, 0)
	for _, f := range frames(s.t, p.Bytes) {
		for _, h := range f.GetEvents().GetHints() {
			if hints[h.Conv] != 0 {
				s.t.Errorf("two hints of %s were written at once", h.Conv)
			}
			if h.Counted != h.Head {
				s.t.Errorf("hint %v, counted and head are the same here", h)
			}
			hints[h.Conv] = h.Head
		}
		for _, m := range f.GetEvents().GetMessages() {
			rest = append(rest, fmt.Sprintf("%d:%s", m.Seq, m.GetText()))
		}
		if f.GetEvents() == nil {
			rest = append(rest, show(s.t, wire.AppendFrame(nil, protoTCP, f))...)
		}
	}
	return hints, rest
}

func (s *screen) wantHints(what string, hints map[string]uint64, rest ...string) {
	s.t.Helper()
	gotHints, gotRest := s.hints()
	if d := cmp.Diff(hints, gotHints); d != "" {
		s.t.Errorf("%s: hints (-want +got):\n%s", what, d)
	}
	if d := cmp.Diff(rest, gotRest); d != "" {
		s.t.Errorf("%s: the rest (-want +got):\n%s", what, d)
	}
}

// Spec: P-6.5.
func TestWhatIsOutOfFocusIsHinted(t *testing.T) {
	f, ids := New(NewTable()), convs(3)
	for _, withFocus := range []bool{true, false} {
		bob := listening(t, f, "bob", 1<<20)
		if withFocus {
			if got := bob.out.Focus(1, map[im.ConvID]bool{ids[0]: true}); !slices.Equal(got, ids[:1]) {
				t.Errorf("fresh %v", got)
			}
		}
		f.say("bob", entry(ids[0], 1, "whole"))
		f.say("bob", entry(ids[1], 5, "x"), entry(ids[1], 6, "x"))
		f.say("bob", entry(ids[1], 7, "x"))
		f.say("bob", entry(ids[2], 2, "x"))
		if withFocus {
			bob.wantHints("with a focus", map[string]uint64{ids[1].String(): 7, ids[2].String(): 2}, "1:whole")
		} else {
			bob.wantHints("without", map[string]uint64{}, "1:whole", "5:x", "6:x", "7:x", "2:x")
		}
		bob.wantHints("once more", map[string]uint64{})
		f.Table.Leave(bob.out.Account, bob.out)
	}
}

// Hints of one conversation come from another node in any order, and the newest head counts.
// Only a client that understands mentions gets the seq of one. Spec: P-6.5.
func TestOlderHintTakesNothingBack(t *testing.T) {
	f, id := New(NewTable()), convs(1)[0]
	bob, old := listening(t, f, "bob", 1<<20), listening(t, f, "bob", 1<<20)
	bob.out.Mentions = true
	for _, h := range []hint{{conv: id, head: 5, counted: 5, mention: 4}, {conv: id, head: 7, counted: 7}, {conv: id, head: 6, counted: 6, mention: 3}} {
		bob.out.pushHint(h, &f.wakeUps)
		old.out.pushHint(h, &f.wakeUps)
	}
	f.Flush()
	for s, mention := range map[*screen]uint64{bob: 4, old: 0} {
		p, _ := s.out.Take()
		var got []*petrelv1.Hint
		for _, fr := range frames(t, p.Bytes) {
			got = append(got, fr.GetEvents().GetHints()...)
		}
		s.out.Wrote(p, 0)
		if len(got) != 1 || got[0].Head != 7 || got[0].Counted != 7 || got[0].MentionSeq != mention {
			t.Errorf("got %v, want one hint of the head 7 with the mention %d", got, mention)
		}
	}
}

// The focus does not apply to answers, acks, kicks and the user's inbox.
func TestFocusIsAboutEventsOfOthers(t *testing.T) {
	f, ids := New(NewTable()), convs(1)
	bob := listening(t, f, "bob", 1<<20)
	bob.out.Focus(1, map[im.ConvID]bool{})
	own := entry(ids[0], 2, "own")
	bob.out.Window(1, -1, -1)
	own.Sender, own.Ack = Origin{Out: bob.out, ID: 7, Bytes: 1}, wire.Ack{Seq: 2}
	f.say("bob", entry(ids[0], 1, "others"), own, entry(ids[0], 3, "others"))
	f.say("bob", entry(someStore.Inbox(im.DefaultTenant, "bob"), 1, "joined"))
	bob.out.Answer(pong(8), &WakeUps{})
	bob.wantHints("a sender", map[string]uint64{ids[0].String(): 3}, "ack 2 of 7", "1:joined", "pong 8")
	f.say("bob", entry(ids[0], 4, "others"))
	bob.out.End(&im.Error{Code: im.CodeRevoked}, &WakeUps{})
	bob.wantHints("nothing comes behind a kick", map[string]uint64{}, "kick revoked")
}

func TestFocusTellsWhatIsNewInItAndTheLastRequestCounts(t *testing.T) {
	f, ids := New(NewTable()), convs(3)
	bob := listening(t, f, "bob", 1<<20)
	bob.out.Focus(1, map[im.ConvID]bool{ids[0]: true})
	f.say("bob", entry(ids[1], 1, "x"))
	f.say("bob", entry(ids[2], 1, "x"))
	if got := bob.out.Focus(3, map[im.ConvID]bool{ids[0]: true, ids[1]: true}); !slices.Equal(got, ids[1:2]) {
		t.Errorf("fresh %v, want %v", got, ids[1])
	}
	bob.wantHints("whose head is read is owed no hint", map[string]uint64{ids[2].String(): 1})
	if got := bob.out.Focus(2, nil); len(got) != 0 {
		t.Errorf("an older request: fresh %v", got)
	}
	f.say("bob", entry(ids[2], 2, "x"))
	if got := bob.out.Focus(4, nil); len(got) != 0 {
		t.Errorf("all: fresh %v", got)
	}
	f.say("bob", entry(ids[2], 3, "whole"))
	bob.wantHints("all again", map[string]uint64{ids[2].String(): 2}, "3:whole")
}

// F23: a client that reads slowly gets hints instead of events, one for each
// conversation. It lags only if it is owed too many hints.
func TestF23OverflowDemotesToHints(t *testing.T) {
	f, ids := New(NewTable()), convs(MaxHints+1)
	size := len(wire.AppendEvents(nil, protoTCP, [][]byte{entry(ids[0], 1, "x").Row}))
	bob, deaf := listening(t, f, "bob", 3*size), connect(t, "carol", 3*size)
	f.Table.Enter(deaf.out.Account, deaf.out, -1)
	for q := im.Seq(1); q <= 50; q++ {
		for _, id := range ids[:2] {
			f.Deliver(im.DefaultTenant, []im.User{"bob", "carol"}, []Item{entry(id, q, "x")})
		}
	}
	f.Flush()
	want(t, deaf, "1:x", "1:x", "2:x", "lagged")
	p, _ := bob.out.Take() // more than half of the limit waits: the hints come after it
	if d := cmp.Diff([]string{"1:x", "1:x", "2:x"}, show(t, p.Bytes)); d != "" {
		t.Errorf("frames (-want +got):\n%s", d)
	}
	bob.out.Wrote(p, len(p.Bytes))
	bob.wantHintsNot("while nothing is taken")
	f.say("bob", entry(ids[1], 51, "x"))
	bob.wantHintsNot("nor with another one")
	woken := false
	bob.out.flusher.wake = func() { woken = true }
	bob.out.flusher.Take(nil)
	bob.out.Backlog(size)
	if !woken {
		t.Error("nobody writes the hints when the socket has taken the rest")
	}
	bob.wantHints("then the newest", map[string]uint64{ids[0].String(): 50, ids[1].String(): 51})
	f.say("bob", entry(ids[1], 52, "whole"))
	bob.wantHints("with room", map[string]uint64{}, "52:whole")

	// Too many hints: the client lags, and gets nothing more until it syncs.
	bob.out.Focus(1, map[im.ConvID]bool{})
	for _, id := range ids {
		f.say("bob", entry(id, 60, "x"))
		f.say("bob", entry(id, 61, "x"))
	}
	bob.wantHints("too many", map[string]uint64{}, "lagged")
	bob.out.Resume()
	bob.wantHints("what the sync tells is not owed", map[string]uint64{})
	f.say("bob", entry(ids[3], 62, "x"))
	bob.wantHints("after the sync", map[string]uint64{ids[3].String(): 62})
	if f.Hinted.Load() == 0 || f.Lagged.Load() == 0 {
		t.Errorf("%d hinted, %d lagged", f.Hinted.Load(), f.Lagged.Load())
	}
}

// wantHintsNot takes what waits, while the transport holds as much as before. No
// frame in it may have events or hints.
func (s *screen) wantHintsNot(what string) {
	s.t.Helper()
	p, _ := s.out.Take()
	if len(p.Bytes) > 0 {
		s.t.Errorf("%s: %v", what, show(s.t, p.Bytes))
	}
}

// An entry of an inbox does not become a hint. If there is no room for it, the client
// syncs, and that reads the inbox.
func TestInboxEntryWithoutRoomIsLagged(t *testing.T) {
	f := New(NewTable())
	bob := listening(t, f, "bob", 10)
	f.say("bob", entry(someStore.Inbox(im.DefaultTenant, "bob"), 1, "joined"))
	bob.wantHints("", map[string]uint64{}, "lagged")
}

// A receipt without room is dropped, and the client does not lag. A session gets no
// receipts of conversations out of its focus, except those of its own user.
// Spec: P-8.6.
func TestReceiptsWithoutRoomOrFocusAreLost(t *testing.T) {
	f, id := New(NewTable()), convs(1)[0]
	key := im.Key{Tenant: im.DefaultTenant, Conv: id}
	bob := listening(t, f, "bob", 1<<20)
	got := func() (n int) {
		p, _ := bob.out.Take()
		defer bob.out.Wrote(p, 0)
		for _, fr := range frames(t, p.Bytes) {
			n += len(fr.GetEvents().GetReceipts())
		}
		return n
	}
	send := func(users ...string) {
		var all []Receipt
		for _, u := range users {
			all = append(all, Receipt{Receipt: &petrelv1.Receipt{Conv: id.String(), User: u, Read: 1}})
		}
		f.Receipts(key, []im.User{"bob"}, all)
		f.Flush()
	}
	send("alice", "carol")
	if n := got(); n != 2 {
		t.Errorf("%d receipts, want 2", n)
	}
	bob.out.Focus(1, map[im.ConvID]bool{})
	send("alice")
	if n := got(); n != 0 {
		t.Errorf("%d receipts out of focus", n)
	}
	send("bob")
	if n := got(); n != 1 {
		t.Errorf("%d receipts of the own cursor, want 1", n)
	}
	small := listening(t, f, "carol", 5)
	f.Receipts(key, []im.User{"carol"}, []Receipt{{Receipt: &petrelv1.Receipt{Conv: id.String(), User: "bob", Read: 1}}})
	want(t, small)
}

// A client reads everything after its welcome, so it does not lag before.
func TestClientDoesNotLagBeforeTheWelcome(t *testing.T) {
	o := NewOutbox(protoTCP, NewFlusher(func() {}), 1<<20)
	o.Lag(&WakeUps{})
	if p, _ := o.Take(); len(p.Bytes) > 0 {
		t.Errorf("before the welcome: %v", show(t, p.Bytes))
	}
	o.Welcome(pong(1), &WakeUps{})
	o.Lag(&WakeUps{})
	o.Lag(&WakeUps{})
	want(t, &screen{t, o}, "pong 1", "lagged")
}

// A delivery costs nothing for what it does not use: focus, hints, other nodes.
func BenchmarkDeliver(b *testing.B) {
	for _, members := range []int{2, 100} {
		b.Run(fmt.Sprint(members, " members"), func(b *testing.B) {
			f, id := New(NewTable()), convs(1)[0]
			var users []im.User
			var outs []*Outbox
			for i := range members {
				u := im.User(fmt.Sprint("u", i))
				o := NewOutbox(protoTCP, NewFlusher(func() {}), 1<<20)
				o.Account = im.Account{Tenant: im.DefaultTenant, User: u}
				o.Welcome(pong(0), &WakeUps{})
				f.Table.Enter(o.Account, o, -1)
				users, outs = append(users, u), append(outs, o)
			}
			items := []Item{entry(id, 1, "how are you?")}
			b.ReportAllocs()
			for b.Loop() {
				f.Deliver(im.DefaultTenant, users, items)
				f.Flush()
				for _, o := range outs {
					p, _ := o.Take()
					o.Wrote(p, 0)
				}
			}
		})
	}
}
