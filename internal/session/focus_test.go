package session_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// listen logs in a client that has all capabilities.
func (w *world) listen(token string) *client {
	w.t.Helper()
	c := w.connect()
	h := hello(token)
	h.GetHello().Capabilities = []string{"cursor", "focus", "newest", "holograms"}
	c.send(h)
	c.want("welcome of 1")
	return c
}

func focus(id uint64, convs ...string) *petrelv1.ClientFrame {
	return &petrelv1.ClientFrame{Id: id, Body: &petrelv1.ClientFrame_Focus{Focus: &petrelv1.SetFocus{Convs: convs}}}
}

func cursor(id uint64, conv string, delivered, read uint64) *petrelv1.ClientFrame {
	return &petrelv1.ClientFrame{Id: id, Body: &petrelv1.ClientFrame_Cursor{Cursor: &petrelv1.MoveCursor{Conv: conv, Delivered: delivered, Read: read}}}
}

// say sends a text to a conversation. When say returns, the event is in the outboxes.
func (w *world) say(id string, from im.User, k, body string) {
	conversation, err := im.ParseConvID(id)
	w.must(err)
	s := &conv.Send{Conv: im.Key{Tenant: im.DefaultTenant, Conv: conversation}, Keyed: true}
	s.Entry.From, s.Entry.ClientMsgId, s.Entry.Body = string(from), k, &petrelv1.Message_Text{Text: body}
	done := make(chan conv.Result, 1)
	s.Done = func(r conv.Result) { done <- r }
	var wakeUps fanout.WakeUps
	w.convs.Submit([]*conv.Send{s}, &wakeUps)
	wakeUps.Flush()
	if r := <-done; r.Err != nil {
		w.t.Errorf("say in %s: %v", id, r.Err)
	}
}

// heads returns hints as a map from conversation to head.
func heads(hints []*petrelv1.Hint) map[string]uint64 {
	m := map[string]uint64{}
	for _, h := range hints {
		m[h.Conv] = h.Head
	}
	return m
}

// Spec: P-6.5.
func TestFocusSaysWhereTheConversationsAreAndHintsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t).start()
		one, two, other := w.group("one", "alice", "bob"), w.group("two", "alice", "bob"), w.group("other", "bob")
		none := someStore.KeyedGroup(im.DefaultTenant, "none").String()
		alice := w.listen(w.token("", "alice"))
		w.say(one, "bob", "k1", "whole without a focus")
		alice.want("2:whole without a focus")
		alice.send(focus(2, one, other, none))
		if got := heads(alice.next().GetFocus().GetHeads()); !cmp.Equal(got, map[string]uint64{one: 2}) {
			t.Errorf("heads %v", got)
		}
		w.say(two, "bob", "k1", "hinted")
		w.say(one, "bob", "k2", "whole")
		w.say(two, "bob", "k2", "hinted")
		events := map[string]uint64{}
		var whole []string
		for len(events) == 0 || len(whole) == 0 || events[two] < 3 {
			e := alice.next().GetEvents()
			for id, head := range heads(e.GetHints()) {
				events[id] = head
			}
			for _, m := range e.GetMessages() {
				whole = append(whole, m.GetText())
			}
		}
		if len(events) != 1 || !cmp.Equal(whole, []string{"whole"}) {
			t.Errorf("hints %v, whole %v", events, whole)
		}
		alice.send(focus(3, one, two))
		if got := heads(alice.next().GetFocus().GetHeads()); !cmp.Equal(got, map[string]uint64{two: 3}) {
			t.Errorf("heads of what is new in the focus: %v", got)
		}
		alice.send(&petrelv1.ClientFrame{Id: 4, Body: &petrelv1.ClientFrame_Focus{Focus: &petrelv1.SetFocus{All: true}}})
		alice.want("focus of 4")
		w.say(two, "bob", "k3", "all again")
		alice.want("4:all again")
	})
}

func TestFocusThatIsNoneIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t).start()
		team := w.group("team", "alice", "bob")
		alice := w.listen(w.token("", "alice"))
		both := focus(2, team)
		both.GetFocus().All = true
		many := focus(3)
		for i := range 1001 {
			many.GetFocus().Convs = append(many.GetFocus().Convs, someStore.KeyedGroup(im.DefaultTenant, fmt.Sprint(i)).String())
		}
		alice.send(both, many, focus(4, "garbage"))
		alice.want("invalid of 2", "invalid of 3", "no_conversation of 4")
		w.say(team, "bob", "k", "nothing has changed")
		alice.want("2:nothing has changed")
		many.Id, many.GetFocus().Convs = 5, many.GetFocus().Convs[:1000]
		alice.send(many)
		alice.want("focus of 5")
	})
}

// F23: an entry that is committed while the focus changes is in the heads of the
// answer, or comes whole, or as a hint.
func TestF23NothingFallsBetweenTheOldFocusAndTheNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t).start()
		ids := []string{w.group("one", "alice", "bob"), w.group("two", "alice", "bob")}
		alice := w.listen(w.token("", "alice"))
		alice.send(focus(2))
		alice.want("focus of 2")
		w.forget()
		var mu sync.Mutex
		var first, second string
		w.store.onConversation(func(c im.Key) {
			id := c.Conv.String()
			mu.Lock()
			defer mu.Unlock()
			switch {
			case !slices.Contains(ids, id) || id == first || second != "":
			case first == "":
				first = id
			default: // after the head of the first conversation was read
				second = id
				w.say(first, "bob", "k", "between")
			}
		})
		alice.send(focus(3, ids...))
		// A hint that is owed does not count as pending. It is written with the answer at
		// the earliest.
		settled(t, "an answer or an event waits", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return second != "" && alice.s.Out.Pending() > 0
		})
		heard := map[string]uint64{}
		for answered := false; !answered; {
			f := alice.next()
			for id, head := range heads(f.GetEvents().GetHints()) {
				heard[id] = max(heard[id], head)
			}
			for _, m := range f.GetEvents().GetMessages() {
				heard[m.Conv] = max(heard[m.Conv], m.Seq)
			}
			if answered = f.GetFocus() != nil; answered {
				for id, head := range heads(f.GetFocus().GetHeads()) {
					heard[id] = max(heard[id], head)
				}
			}
		}
		mu.Lock()
		defer mu.Unlock()
		if second == "" {
			t.Fatal("the schedule did not happen")
		}
		if want := map[string]uint64{first: 2, second: 1}; !cmp.Equal(heard, want) {
			t.Errorf("alice has heard of %v, want %v", heard, want)
		}
	})
}

// F23: a client that reads slowly gets hints, reads the history, and never has to sync.
func TestF23SlowClientDoesNotSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.limits.OutboxBytes = 2000
		w.start()
		team := w.group("team", "alice", "bob")
		alice := w.listen(w.token("", "alice"))
		var pushed uint64 = 1
		for round := range 5 {
			for i := range 50 {
				w.say(team, "bob", fmt.Sprint(round, i), "a text that takes some room in the outbox")
			}
			last := uint64(1 + 50*(round+1))
			var hinted uint64
			for pushed < last && hinted < last {
				f := alice.next()
				if f.GetLagged() != nil {
					t.Fatal("lagged")
				}
				hinted = max(hinted, heads(f.GetEvents().GetHints())[team])
				for _, m := range f.GetEvents().GetMessages() {
					pushed = max(pushed, m.Seq)
				}
			}
			if pushed == last {
				t.Fatalf("round %d: everything was pushed, nothing overflowed", round)
			}
			alice.send(history(2, team))
			alice.want(fmt.Sprint("history of ", min(last, 200), " of 2"))
		}
		alice.wantNothing()
	})
}

// Spec: P-8.6.
func TestCursorIsAnsweredAndOthersGetAReceipt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t).start()
		team := w.group("team", "alice", "bob")
		other := w.group("other", "alice")
		w.say(team, "alice", "k", "hello")
		token := w.token("", "bob")
		alice, phone, laptop, plain := w.listen(w.token("", "alice")), w.listen(token), w.listen(token), w.login(token)
		phone.send(cursor(2, team, 2, 1))
		moved := phone.next()
		if got := moved.GetCursor(); moved.Id != 2 || got.GetConv() != team || got.GetDelivered() != 2 || got.GetRead() != 1 {
			t.Errorf("answer %v", moved)
		}
		for name, c := range map[string]*client{"alice": alice, "laptop": laptop} {
			r := c.next().GetEvents().GetReceipts()
			if len(r) != 1 || r[0].Conv != team || r[0].User != "bob" || r[0].Delivered != 2 || r[0].Read != 1 {
				t.Errorf("%s: receipts %v", name, r)
			}
		}
		plain.send(cursor(3, team, 1, 1)) // lower than the cursor: answered with what is stored
		if got := plain.next().GetCursor(); got.GetDelivered() != 2 {
			t.Errorf("answer %v", got)
		}
		phone.send(cursor(4, "garbage", 1, 1), cursor(5, someStore.KeyedGroup(im.DefaultTenant, "none").String(), 1, 1))
		phone.want("no_conversation of 4", "no_conversation of 5")
		phone.send(cursor(6, other, 1, 1))
		phone.want("no_conversation of 6")
		for _, c := range []*client{phone, laptop, plain, alice} {
			c.wantNothing()
		}
	})
}

// A session that moves cursors and does not wait for the answers is bounded. Each move
// is answered.
func TestUnansweredMovesOfASessionAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t).start()
		team := w.group("team", "alice", "bob")
		for i := range 5 {
			w.say(team, "bob", fmt.Sprint(i), "x")
		}
		open := w.store.shut()
		defer open()
		alice := w.login(w.token("", "alice"))
		const n = 300
		for i := range uint64(n) {
			alice.send(cursor(2+i, team, 1+i%6, 0))
		}
		refused := 0
		settled(t, "some are refused", func() bool {
			alice.take()
			refused = len(alice.frames)
			return refused == n-256
		})
		for range refused {
			if f := alice.next(); f.GetError().GetCode() != string(im.CodeOverloaded) {
				t.Fatalf("frame %v", f)
			}
		}
		open()
		for range 256 {
			if f := alice.next(); f.GetCursor() == nil {
				t.Fatalf("frame %v", f)
			}
		}
		alice.send(cursor(999, team, 1, 0))
		alice.want("cursor of 999")
		if n := w.convs.MovesWaiting(); n != 0 {
			t.Errorf("%d moves wait", n)
		}
	})
}

// Spec: P-6.2.
func TestSyncWithNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t).start()
		team := w.group("team", "alice", "bob")
		w.say(team, "bob", "k1", "one")
		w.say(team, "bob", "k2", "two")
		alice := w.login(w.token("", "alice"))
		f := syncFrame(2, nil)
		f.GetSync().Newest = 1
		alice.send(f)
		convs := alice.next().GetSync().GetConvs()
		if len(convs) != 1 || len(convs[0].Newest) != 1 || convs[0].Newest[0].GetText() != "two" {
			t.Errorf("convs %v", convs)
		}
	})
}

// The heads cannot be read after the focus has changed. The hints that were owed are
// gone, so the client has to sync.
func TestAFocusThatFailsLags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t).start()
		one := w.group("one", "alice", "bob")
		bad := someStore.KeyedGroup(im.DefaultTenant, "bad").String()
		alice := w.listen(w.token("", "alice"))
		w.store.breakConversations(errDisk)
		defer w.store.breakConversations(nil)
		alice.send(focus(2, one, bad))
		lagged, refused := false, false
		for !lagged || !refused {
			f := alice.next()
			lagged, refused = lagged || f.GetLagged() != nil, refused || f.GetError() != nil
		}
	})
}
