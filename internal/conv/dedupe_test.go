package conv_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convtest"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// fill appends n messages of bob's and returns when they are durable.
func (w *world) fill(key im.Key, n int) {
	w.T.Helper()
	w.fills++
	for i := 0; i < n; {
		var sends []*conv.Send
		for range min(500, n-i) {
			sends = append(sends, convtest.Message(key, "bob", fmt.Sprint(w.fills, " ", i), 1, "x"))
			i++
		}
		// Each id is new, so after may be any head: 1 makes the tail long.
		for _, s := range sends {
			s.After = im.Seq(max(1, i-len(sends)))
		}
		for _, a := range w.Submit(sends...) {
			if r := w.Await(a); r.Err != nil {
				w.T.Fatal(r.Err)
			}
		}
	}
}

func TestSeqsAreGivenOnceAndWithoutHoles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice", "bob")
		last := im.Seq(1)
		for i := range 400 {
			if q := w.MustSend(convtest.Message(key, "alice", fmt.Sprint(i), int(last), "x")); q != last+1 {
				t.Fatalf("send %d has seq %d behind %d", i, q, last)
			}
			last++
		}
		if got := len(w.history(key, "bob")); got != 401 {
			t.Errorf("%d entries, want 401", got)
		}
	})
}

// A client that leaves the type out in one attempt and names it in the next one means
// the same message. Spec: P-4.2, P-4.4.
func TestTypeLeftOutAndTextAreOneToDedupe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice", "bob")
		target := uint64(w.MustSend(convtest.Message(key, "alice", "target", 1, "target")))
		bodies := map[string]func(s *conv.Send, typ string){
			"text": func(s *conv.Send, typ string) { s.Entry.Type = typ },
			"data": func(s *conv.Send, typ string) {
				s.Entry.Type, s.Entry.Body = typ, &petrelv1.Message_Data{Data: []byte("hello")}
			},
			"edit": func(s *conv.Send, typ string) {
				s.Entry.Body = &petrelv1.Message_Edit{Edit: &petrelv1.Edit{Target: target, Type: typ, Body: &petrelv1.Edit_Text{Text: "edited"}}}
			},
		}
		for name, set := range bodies {
			for _, first := range []string{"", "text"} {
				attempt := func(typ string) *conv.Send {
					s := convtest.Message(key, "alice", name+" first as "+first, 1, "hello")
					set(s, typ)
					return s
				}
				seq := w.MustSend(attempt(first))
				for _, again := range []string{"text", ""} {
					if q := w.MustSend(attempt(again)); q != seq {
						t.Errorf("%s: with type %q seq %d, with %q seq %d", name, first, seq, again, q)
					}
				}
				convtest.WantCode(t, w.Send(attempt("Text")), im.CodeConflict)
			}
		}
	})
}

// Spec: P-4.7.
func TestAfterDecidesHowFarARepeatIsLookedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice", "bob")
		first := w.MustSend(convtest.Message(key, "alice", "first", 1, "hello"))
		w.fill(key, 5000)
		w.restart() // the tail is empty now
		if q := w.MustSend(convtest.Message(key, "alice", "first", 1, "hello")); q != first {
			t.Errorf("far: seq %d, want %d", q, first)
		}
		convtest.WantCode(t, w.Send(convtest.Message(key, "alice", "first", 1, "changed")), im.CodeConflict)
		if r := w.Send(convtest.Message(key, "alice", "new", 1, "new")); r.Err != nil || r.Seq != 5003 {
			t.Errorf("far and new: %+v, want seq 5003", r)
		}
		w.fill(key, 10_000)
		w.restart()
		r := w.Send(convtest.Message(key, "alice", "first", 1, "hello"))
		convtest.WantCode(t, r, im.CodeBehind)
		if r.Err != nil && r.Err.Head != 15_003 {
			t.Errorf("behind names head %d, want 15003", r.Err.Head)
		}
		r = w.Send(convtest.Message(key, "alice", "ahead", 15_004, "x"))
		convtest.WantCode(t, r, im.CodeAfterAhead)
		if q := w.MustSend(convtest.Message(key, "alice", "near", 15_003, "x")); q != 15_004 {
			t.Errorf("near: seq %d, want 15004", q)
		}
		// Without after the distance does not matter: there is a key.
		keyed := w.MustSend(convtest.Message(key, "alice", "keyed", -1, "x"))
		if q := w.MustSend(convtest.Message(key, "alice", "keyed", -1, "x")); q != keyed {
			t.Errorf("keyed: seq %d, want %d", q, keyed)
		}
	})
}

// A removed member could count the entries that followed: the refusals of an after have the
// head. Spec: P-4.7, P-8.3.
func TestRefusalsOfAnAfterTellAFormerMemberNothingNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice", "bob")
		w.MustSend(convtest.Message(key, "alice", "first", 1, "hello"))
		removed := w.MustSend(convtest.Kick(key, "kick", "alice"))
		w.fill(key, 10_010)
		w.restart() // the tail is empty now
		for _, x := range []struct {
			after int
			code  im.Code
			head  im.Seq
		}{{1, im.CodeBehind, removed}, {int(removed), im.CodeNotMember, 0}, {12_000, im.CodeNotMember, 0}} {
			r := w.Send(convtest.Message(key, "alice", "first", x.after, "hello"))
			convtest.WantCode(t, r, x.code)
			if r.Err != nil && r.Err.Head != x.head {
				t.Errorf("after %d: %s names head %d, want %d", x.after, x.code, r.Err.Head, x.head)
			}
		}
		w.MustSend(convtest.Add(key, "back", "alice"))
		if r := w.Send(convtest.Message(key, "alice", "first", 1, "hello")); r.Err == nil || r.Err.Head != 10_014 {
			t.Errorf("a member again is answered %+v, want behind with head 10014", r)
		}
	})
}

// A scan lets the sends behind it wait, so that their order is kept.
func TestOrderIsKeptBehindAScan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice", "bob")
		w.fill(key, 3000)
		w.restart()
		answers := w.Submit(convtest.Message(key, "alice", "a", 3001, "1"), convtest.Message(key, "alice", "b", 1, "2"), convtest.Message(key, "alice", "c", 3001, "3"))
		for i, a := range answers {
			if r := w.Await(a); r.Err != nil || r.Seq != im.Seq(3002+i) {
				t.Errorf("answer %d: %+v, want seq %d", i, r, 3002+i)
			}
		}
	})
}

func TestDirectConversationComesToBeByWriting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		to := func(from, peer im.User, k string) *conv.Send {
			s := convtest.Message(im.Key{Tenant: im.DefaultTenant, Conv: w.Convs.IDs().Direct(im.DefaultTenant, from, peer)}, from, k, -1, "hi")
			s.Peer = peer
			return s
		}
		if a, b := w.MustSend(to("alice", "bob", "1")), w.MustSend(to("bob", "alice", "1")); a != 1 || b != 2 {
			t.Errorf("seqs %d and %d, want 1 and 2", a, b)
		}
		convtest.WantCode(t, w.Send(to("alice", "nobody", "1")), im.CodeNoUser)
		unknown := im.Key{Tenant: im.DefaultTenant, Conv: w.Convs.IDs().Direct(im.DefaultTenant, "x", "y")}
		convtest.WantCode(t, w.Send(convtest.Message(unknown, "alice", "2", 0, "hi")), im.CodeNoConversation)
		known := im.Key{Tenant: im.DefaultTenant, Conv: w.Convs.IDs().Direct(im.DefaultTenant, "alice", "bob")}
		convtest.WantCode(t, w.Send(convtest.Message(known, "eve", "3", 0, "hi")), im.CodeNoConversation)
	})
}

func TestAddingAMemberOnceMoreKeepsTheirRole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice", "bob")
		w.MustSend(convtest.Entry(key, "owner", &petrelv1.MemberChange{Roles: []*petrelv1.MemberRef{{User: "alice", Role: petrelv1.Role_ROLE_OWNER}}}))
		convtest.WantCode(t, w.Send(convtest.Add(key, "again", "alice")), im.CodeInvalid)
		w.MustSend(convtest.Entry(key, "with carol", &petrelv1.MemberChange{Added: []*petrelv1.MemberRef{{User: "alice"}, {User: "carol"}}}))
		for range 2 {
			st, err := w.look(key, "alice")
			if err != nil || st.Role != petrelv1.Role_ROLE_OWNER || st.Joined != 1 {
				t.Errorf("alice is %v, joined at %d, %v; want the owner since 1", st.Role, st.Joined, err)
			}
			w.restart()
		}
	})
}

func TestChangesOfOutsidersWriteNoRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice", "bob", "mallory")
		w.MustSend(convtest.Kick(key, "kick", "mallory"))
		for i, ch := range []*petrelv1.MemberChange{
			{Removed: []string{"zed"}}, {Left: []string{"aaron"}}, // behind and before all members
			{Roles: []*petrelv1.MemberRef{{User: "mallory", Role: petrelv1.Role_ROLE_ADMIN}}},
		} {
			convtest.WantCode(t, w.Send(convtest.Entry(key, fmt.Sprint(i), ch)), im.CodeInvalid)
		}
		w.MustSend(convtest.Entry(key, "all", &petrelv1.MemberChange{Added: []*petrelv1.MemberRef{{User: "carol"}}, Removed: []string{"zed", "aaron"}, Roles: []*petrelv1.MemberRef{{User: "mallory", Role: petrelv1.Role_ROLE_ADMIN}}}))
		for range 2 {
			for _, u := range []im.User{"zed", "aaron"} {
				if _, err := w.look(key, u); im.CodeOf(err) != im.CodeNoConversation {
					t.Errorf("%s is let in: %v", u, err)
				}
			}
			if st, err := w.look(key, "mallory"); err != nil || st.Role != 0 || st.Head != 2 {
				t.Errorf("mallory is %v up to %d, %v; want nobody up to 2", st.Role, st.Head, err)
			}
			w.restart()
		}
	})
}

// A map has no order: the same settings are the same body.
func TestSettingsSentAgainAreARepeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		inbox := im.Key{Tenant: im.DefaultTenant, Conv: w.Convs.IDs().Inbox(im.DefaultTenant, "alice")}
		settings := func() *conv.Send {
			s := &conv.Send{Conv: inbox, Peer: "alice", Keyed: true}
			s.Entry.ClientMsgId = "settings"
			s.Entry.Body = &petrelv1.Message_Inbox{Inbox: &petrelv1.InboxEntry{Entry: &petrelv1.InboxEntry_Settings{Settings: &petrelv1.InboxSettings{
				Values: map[string]string{"a": "1", "b": "2", "c": "3", "d": "4", "e": "5"}}}}}
			return s
		}
		first := w.MustSend(settings())
		for range 20 {
			if r := w.Send(settings()); r.Err != nil || r.Seq != first || !r.Repeat {
				t.Fatalf("answer %+v, want a repeat of %d", r, first)
			}
		}
	})
}

// While the store answers slowly, sends that are repeats are read one after the other. An Owner
// whose time is over, or whose feed is lost, does not go on with that: its sends go to the next one.
func TestOwnerThatReadsRepeatsLeavesInTime(t *testing.T) {
	for _, closed := range []bool{true, false} {
		t.Run(map[bool]string{true: "closed", false: "lost"}[closed], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				key := w.Group("alice", "bob")
				var sends []*conv.Send
				for i := range 20 {
					w.MustSend(convtest.Message(key, "alice", fmt.Sprint(i), 1, "x"))
					sends = append(sends, convtest.Message(key, "alice", fmt.Sprint(i), 1, "x"))
				}
				w.Gate.OnRow(func(store.Row) { time.Sleep(time.Second) })
				begin := time.Now()
				answers := w.Submit(sends...)
				ow := w.owner()
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				if closed {
					w.Convs.Close(ctx, ow.Feed())
				} else {
					<-ctx.Done()
					ow.Lose(store.ErrStale)
				}
				for _, a := range answers {
					if r := w.Await(a); r.Err == nil || r.Err.Code != im.CodeDraining || time.Since(begin) > 3*time.Second {
						t.Fatalf("after %v: %+v, want %s within 3 s", time.Since(begin), r, im.CodeDraining)
					}
				}
			})
		})
	}
}
