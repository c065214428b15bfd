package route_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/conv/convtest"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/route/routetest"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// F6: a takeover shows the outcome of a commit of unknown outcome. Nobody is answered
// before, and each of its messages is stored once.
func TestF6CommitOfUnknownOutcomeIsSettledByTakeover(t *testing.T) {
	for what, stored := range map[string]bool{"it is stored": true, "it is not": false} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := routetest.Start(t, "a")
				one := c.Owner()
				key := one.Group("alice", "bob")
				_, before, _ := one.Cluster.Route(0)
				one.Gate.Doubt(stored)
				for i, ch := range one.Submit(convtest.Message(key, "alice", "k1", 1, "first"), convtest.Message(key, "alice", "k2", 1, "second")) {
					if r := one.Await(ch); r.Err != nil || r.Seq != im.Seq(i+2) {
						t.Fatalf("send %d: %+v, want seq %d", i+1, r, i+2)
					}
				}
				if _, epoch, err := one.Cluster.Wait(eventually.Context(t), 0, before); err != nil || epoch != before+1 {
					t.Errorf("epoch %d, %v, want %d", epoch, err, before+1)
				}
				if got := strings.Join(one.History(key, "bob"), " "); got != "1:members 2:first 3:second" {
					t.Errorf("stored: %s", got)
				}
			})
		})
	}
}

// F8: what was committed and not pushed, because its owner died, is pushed by
// the next one, though nobody comes back and nothing follows.
func TestF8ANewOwnerPushesWhatTheOldOneCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, one, two := routetest.StartPair(t)
		key := one.Group("alice", "bob")
		bob := two.Online("bob")
		c.WaitOnline()
		open := one.Gate.ShutAnswers() // durable, and nobody is told
		t.Cleanup(open)
		one.Submit(convtest.Message(key, "alice", "k1", 1, "last words"))
		c.WaitRow(key, 2)
		if _, err := two.Convs.Open(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		routetest.Sees(t, bob, "1:members", "2:last words")
	})
}

// F2 with F8: the announcement of a session is late at a node that takes the feed over. The
// former owner has answered the session, and the new one pushes an entry without it. Then the
// session has to sync; the one that the new owner knew does not.
func TestF2ASessionThatTheNewOwnerDidNotKnowSyncs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := routetest.Start(t, "b", "a", "c")
		former, by, third := c.Nodes["b"], c.Nodes["a"], c.Nodes["c"]
		key := former.Group("alice", "bob")
		alice := third.Online("alice")
		c.WaitOnline()
		synctest.Wait()
		third.Bus.Cut(by.ID, true)
		bob := third.Online("bob")
		if s, err := third.State(t.Context(), key, "bob"); err != nil || s.Head != 1 {
			t.Fatalf("the former owner says %v, %v, want head 1", s, err)
		}
		c.TakeOver(former, by)
		by.MustSend(convtest.Message(key, "alice", "k1", 1, "to whom it knows"))
		synctest.Wait()
		third.Bus.Cut(by.ID, false)
		routetest.Sees(t, alice, "1:members", "2:to whom it knows")
		routetest.Sees(t, bob, "*petrelv1.ServerFrame_Lagged")
	})
}

// F8 with F17: a new owner pushes nobody what was there before they came.
func TestF8ANewOwnerPushesNobodyWhatWasBeforeThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, one, two := routetest.StartPair(t)
		key := one.Group("alice")
		one.MustSend(convtest.Message(key, "alice", "k1", 1, "among us"))
		one.MustSend(convtest.Add(key, "add", "bob"))
		one.MustSend(convtest.Message(key, "alice", "k2", 3, "welcome"))
		alice, bob := two.Online("alice"), two.Online("bob")
		c.WaitOnline()
		if _, err := two.Convs.Open(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		routetest.Sees(t, alice, "1:members", "2:among us", "3:members", "4:welcome")
		routetest.Sees(t, bob, "3:members", "4:welcome")
	})
}

// F8 with F17: a user whose removal was committed and not pushed is told by the next owner,
// and of nothing that came later. Spec: P-8.3.
func TestF8ANewOwnerTellsWhoWasRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, one, two := routetest.StartPair(t)
		key := one.Group("alice", "bob")
		alice, bob := two.Online("alice"), two.Online("bob")
		c.WaitOnline()
		one.MustSend(convtest.Message(key, "alice", "k1", 1, "before"))
		routetest.Sees(t, alice, "2:before")
		routetest.Sees(t, bob, "2:before")
		open := one.Gate.ShutAnswers() // durable, and nobody is told; two commits at most
		t.Cleanup(open)
		one.Submit(convtest.Kick(key, "kick", "bob"), convtest.Message(key, "alice", "k2", 1, "after"))
		c.WaitRow(key, 4)
		if _, err := two.Convs.Open(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		routetest.Sees(t, alice, "1:members", "2:before", "3:members", "4:after")
		routetest.Sees(t, bob, "1:members", "2:before", "3:members")
	})
}

// A new owner pushes a removed user no text of an edit that came after the removal. Spec: P-8.3.
func TestANewOwnerShowsWhoWasRemovedNoLaterEdit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, one, two := routetest.StartPair(t)
		key := one.Group("alice", "bob")
		alice, bob := two.Online("alice"), two.Online("bob")
		c.WaitOnline()
		one.MustSend(convtest.Message(key, "alice", "k1", 1, "before"))
		one.MustSend(convtest.Kick(key, "kick", "bob"))
		routetest.Sees(t, alice, "2:before", "3:members")
		routetest.Sees(t, bob, "2:before", "3:members")
		open := one.Gate.ShutAnswers() // durable, and nobody is told; two commits at most
		t.Cleanup(open)
		edit := convtest.Message(key, "alice", "k2", 1, "")
		edit.Entry.Body = &petrelv1.Message_Edit{Edit: &petrelv1.Edit{Target: 2, Body: &petrelv1.Edit_Text{Text: "after"}}}
		one.Submit(edit)
		c.WaitRow(key, 4)
		if _, err := two.Convs.Open(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		routetest.Sees(t, alice, "1:members", "2:after (edited by 4)", "3:members", "4:edit of 2 after")
		routetest.Sees(t, bob, "1:members", "3:members")
	})
}

// A feed whose store takes nothing more until it is taken over is opened again,
// without what broke it.
func TestABrokenFeedIsTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := routetest.Start(t, "a")
		one := c.Owner()
		key := one.Group("alice", "bob")
		one.Gate.Poison()
		if r := one.Send(convtest.Message(key, "alice", "k1", 1, "poison")); im.CodeOf(r.Err) != im.CodeStoreStalled {
			t.Errorf("the send that broke it: %+v, want an unsettled error", r)
		}
		if r := one.Send(convtest.Message(key, "alice", "k2", 1, "and on")); r.Err != nil || r.Seq != 2 {
			t.Errorf("the next one: %+v, want seq 2", r)
		}
	})
}

// A block reaches the owner from any node, and an entry that a new owner pushes once more
// is withheld as well. Spec: P-5.4.
func TestANewOwnerPushesWhatIsWithheldAsSuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, one, two := routetest.StartPair(t)
		key := im.Key{Tenant: im.DefaultTenant, Conv: one.Convs.IDs().Direct(im.DefaultTenant, "alice", "bob")}
		block := &conv.Send{Conv: key, Peer: "alice", Block: &storepb.Block{User: "bob", Blocked: true, Version: 1}}
		if r := two.Send(block); r.Err != nil {
			t.Fatal(r.Err)
		}
		s := convtest.Message(key, "alice", "k1", -1, "let me in")
		s.Peer = "bob"
		two.MustSend(s)
		alice, bob := two.Online("alice"), two.Online("bob")
		c.WaitOnline()
		if _, err := two.Convs.Open(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		routetest.Sees(t, alice, "1:let me in")
		routetest.Sees(t, bob, "1:")
	})
}

// An edit that a new owner pushes once more is bare for members who joined after its target, on
// whichever node. Spec: P-8.3.
func TestANewOwnerPushesEditsAsTheirTargets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, one, two := routetest.StartPair(t)
		key := one.Group("alice", "bob")
		two.MustSend(convtest.Message(key, "alice", "k2", 1, "two"))
		two.MustSend(convtest.Add(key, "add", "carol"))
		bob, carol, here := two.Online("bob"), two.Online("carol"), one.Online("carol")
		c.WaitOnline()
		e := convtest.Message(key, "alice", "e4", 3, "")
		e.Entry.Body = &petrelv1.Message_Edit{Edit: &petrelv1.Edit{Target: 2, Body: &petrelv1.Edit_Text{Text: "secret"}}}
		one.MustSend(e)
		routetest.Sees(t, bob, "4:edit of 2 secret")
		routetest.Sees(t, carol, "4:edit of 2 ")
		routetest.Sees(t, here, "4:edit of 2 ")
		if _, err := two.Convs.Open(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		routetest.Sees(t, bob, "1:members", "2:secret (edited by 4)", "3:members", "4:edit of 2 secret")
		routetest.Sees(t, carol, "3:members", "4:edit of 2 ")
	})
}

// A new owner pushes no part of a snapshot of an inbox: it is no news. Spec: P-8.11.
func TestANewOwnerPushesNoSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, one, two := routetest.StartPair(t)
		key := im.Key{Tenant: im.DefaultTenant, Conv: one.Convs.IDs().Inbox(im.DefaultTenant, "alice")}
		for i, e := range []*petrelv1.InboxEntry{
			{Entry: &petrelv1.InboxEntry_Settings{Settings: &petrelv1.InboxSettings{Values: map[string]string{"a": "1"}}}},
			{Entry: &petrelv1.InboxEntry_Snapshot{Snapshot: &petrelv1.InboxSnapshot{First: 2}}},
			{Entry: &petrelv1.InboxEntry_Settings{Settings: &petrelv1.InboxSettings{Values: map[string]string{"a": "2"}}}},
		} {
			s := &conv.Send{Conv: key, Peer: "alice", Keyed: true}
			s.Entry.ClientMsgId, s.Entry.Body = fmt.Sprint(i), &petrelv1.Message_Inbox{Inbox: e}
			two.MustSend(s)
		}
		alice := two.Online("alice")
		c.WaitOnline()
		if _, err := two.Convs.Open(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		routetest.Sees(t, alice, "1:*petrelv1.Message_Inbox", "3:*petrelv1.Message_Inbox")
	})
}

// A mentioned user gets the entry from the next owner too, whatever is in focus, and finds
// it among the unread mentions there. Spec: P-5.13.
func TestF8ANewOwnerPushesMentionsWhateverTheFocus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, one, two := routetest.StartPair(t)
		key := one.Group("alice", "bob", "carol")
		bob, carol := two.Online("bob", convtest.Mentions), two.Online("carol", convtest.Mentions)
		for _, s := range []*convtest.Screen{bob, carol} {
			s.Out.Focus(1, map[im.ConvID]bool{})
		}
		c.WaitOnline()
		open := one.Gate.ShutAnswers() // durable, and nobody is told
		t.Cleanup(open)
		s := convtest.Message(key, "alice", "k1", 1, "@bob")
		s.Entry.Rel = &petrelv1.Relations{Mentions: []string{"bob"}}
		one.Submit(s)
		c.WaitRow(key, 2)
		if _, err := two.Convs.Open(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		routetest.Sees(t, bob, "2:@bob")
		routetest.Sees(t, carol, "hint 2 mention 0")
		for u, want := range map[im.User]string{"bob": "[2]", "carol": "[]", "alice": "[]"} {
			ask := &convpb.Ask{Conv: key.Conv[:], Always: true}
			st, err := two.Convs.Owner(0).Changed(t.Context(), im.Account{Tenant: key.Tenant, User: u}, ask, conv.Newest{Mentions: true})
			if got := fmt.Sprint(st.GetMentions()); err != nil || got != want {
				t.Errorf("the unread mentions of %s are %s, %v; want %s", u, got, err, want)
			}
		}
	})
}
