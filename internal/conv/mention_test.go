package conv_test

import (
	"bytes"
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/conv/convtest"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// naming is a message that mentions users; everybody is all members.
func naming(key im.Key, from im.User, k string, users ...string) *conv.Send {
	s := convtest.Message(key, from, k, 1, "look at this")
	s.Entry.Rel = &petrelv1.Relations{}
	for _, u := range users {
		if u == "everybody" {
			s.Entry.Rel.MentionAll = true
		} else {
			s.Entry.Rel.Mentions = append(s.Entry.Rel.Mentions, u)
		}
	}
	return s
}

// unread are the unread mentions of a user, as a sync tells them.
func (w *world) unread(key im.Key, u im.User) []uint64 {
	w.T.Helper()
	ask := &convpb.Ask{Conv: key.Conv[:], Kind: petrelv1.ConvKind_CONV_KIND_GROUP, Always: true}
	st, err := w.owner().Changed(context.Background(), im.Account{Tenant: key.Tenant, User: u}, ask, conv.Newest{Mentions: true})
	if err != nil || st.MentionsMissing {
		w.T.Fatalf("mentions of %s: %v, %v", u, st, err)
	}
	return st.Mentions
}

// wantUnread expects unread mentions of users, in pairs: the user, and what fmt.Sprint
// makes of the seqs.
func (w *world) wantUnread(what string, key im.Key, pairs ...string) {
	w.T.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if got := fmt.Sprint(w.unread(key, im.User(pairs[i]))); got != pairs[i+1] {
			w.T.Errorf("%s: the unread mentions of %s are %s, want %s", what, pairs[i], got, pairs[i+1])
		}
	}
}

// Spec: P-5.13.
func TestMentionsAreUnreadUntilTheyAreReadOrRecalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.ranked() // olga owns it, adam is an admin, mia and max are members
		head := w.MustSend(naming(key, "mia", "k1", "adam", "eve", "max", "mia"))
		first := head
		w.wantUnread("named", key, "adam", fmt.Sprint([]im.Seq{head}), "max", fmt.Sprint([]im.Seq{head}), "mia", "[]", "olga", "[]")
		w.MustSend(convtest.Add(key, "add", "eve"))
		w.wantUnread("who was no member", key, "eve", "[]")
		convtest.WantCode(t, w.Send(naming(key, "mia", "k2", "everybody")), im.CodeForbidden)
		all := w.MustSend(naming(key, "adam", "k3", "everybody", "max"))
		w.wantUnread("everybody", key, "olga", fmt.Sprint([]im.Seq{all}), "max", fmt.Sprint([]im.Seq{first, all}), "eve", fmt.Sprint([]im.Seq{all}), "adam", fmt.Sprint([]im.Seq{first}))
		w.MustSend(convtest.Add(key, "add2", "zoe"))
		w.wantUnread("who came later", key, "zoe", "[]")
		w.restart()
		w.wantUnread("after a restart", key, "max", fmt.Sprint([]im.Seq{first, all}), "zoe", "[]")
		w.wantMoved("max reads", w.move(key, "max", 0, first, nil), fmt.Sprintf("%d %d", first, first))
		w.wantUnread("read", key, "max", fmt.Sprint([]im.Seq{all}), "adam", fmt.Sprint([]im.Seq{first}))
		w.MustSend(edit(key, "adam", "e1", all, "look at that"))
		w.wantUnread("edited", key, "max", fmt.Sprint([]im.Seq{all}))
		w.MustSend(convtest.Kick(key, "remove", "eve"))
		later := w.MustSend(naming(key, "adam", "k4", "everybody"))
		w.wantUnread("removed", key, "eve", fmt.Sprint([]im.Seq{all}), "max", fmt.Sprint([]im.Seq{all, later}))
		w.MustSend(recall(key, "adam", "r0", later))
		w.MustSend(convtest.Add(key, "again", "eve"))
		w.wantUnread("who comes back", key, "eve", "[]")
		w.MustSend(recall(key, "adam", "r1", all))
		w.wantUnread("recalled", key, "max", "[]", "olga", "[]", "adam", fmt.Sprint([]im.Seq{first}))
		w.MustSend(recall(key, "mia", "r2", first))
		w.restart()
		w.wantUnread("all recalled", key, "max", "[]", "olga", "[]", "adam", "[]", "eve", "[]")
		if m := w.at(key, first); m.Rel != nil {
			t.Errorf("the recalled message says %v", m.Rel)
		}
	})
}

// A removed member could count the entries that followed: the answer to a move of a cursor
// had the head. Spec: P-8.3.
func TestCursorTellsAFormerMemberNothingNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice", "bob")
		w.MustSend(convtest.Kick(key, "kick", "bob")) // 2
		moved := func(what, want string) {
			t.Helper()
			m, err := w.owner().MoveCursor(t.Context(), conv.Query{Conv: key, User: "bob"}, &convpb.MoveCursor{Read: 1 << 40, Mentions: true})
			if got := fmt.Sprint(m.GetDelivered(), m.GetRead(), m.GetHead(), m.GetMentions()); err != nil || got != want {
				t.Errorf("%s: bob is told %s, %v; want %s", what, got, err, want)
			}
		}
		moved("removed", "2 2 2 []")
		w.MustSend(naming(key, "alice", "k3", "bob"))
		w.MustSend(convtest.Message(key, "alice", "k4", 1, "four"))
		moved("the group goes on", "2 2 2 []")
		w.MustSend(convtest.Add(key, "back", "bob")) // 5
		moved("back", "5 5 5 []")
	})
}

// An edit disturbs nobody, and takes nothing away: those who were named stay so.
func TestEditsKeepWhomAMessageNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice", "bob", "carol")
		q := w.MustSend(naming(key, "alice", "k1", "bob"))
		to := w.MustSend(convtest.Message(key, "alice", "k2", 1, "another one"))
		s := edit(key, "alice", "e1", q, "@carol look")
		s.Entry.GetEdit().Rel = &petrelv1.Relations{ReplyTo: 1}
		w.MustSend(s)
		w.wantUnread("edited", key, "bob", fmt.Sprint([]im.Seq{q}), "carol", "[]")
		if m := w.at(key, q); !slices.Equal(m.Rel.GetMentions(), []string{"bob"}) || m.Rel.ReplyTo != 1 {
			t.Errorf("the edited message says %v", m.Rel)
		}
		_, err := conv.Prepare(someStore, im.Account{Tenant: key.Tenant, User: "alice"}, &petrelv1.Send{Conv: key.Conv.String(), ClientMsgId: "e2", Body: &petrelv1.Send_Edit{
			Edit: &petrelv1.Edit{Target: uint64(to), Body: &petrelv1.Edit_Text{Text: "x"}, Rel: &petrelv1.Relations{Mentions: []string{"bob"}}},
		}}, 100)
		convtest.WantCode(t, conv.Result{Err: err}, im.CodeInvalid)
	})
}

// A list of names has one form: the sender's own copy equals everybody's.
func TestNamesOfASendAreChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		many := make([]string, 51)
		for i := range many {
			many[i] = fmt.Sprintf("u%02d", i)
		}
		for name, x := range map[string]struct {
			users []string
			code  im.Code
		}{
			"none": {nil, ""}, "fifty": {many[:50], ""}, "one more": {many, im.CodeInvalid}, "twice": {[]string{"bob", "bob"}, im.CodeInvalid},
			"in another order": {[]string{"carol", "bob"}, im.CodeInvalid}, "no user id": {[]string{"bob smith"}, im.CodeInvalid}, "empty": {[]string{""}, im.CodeInvalid},
		} {
			s, err := conv.Prepare(someStore, im.Account{User: "alice"}, &petrelv1.Send{User: "bob", ClientMsgId: "k", Needs: []string{"mentions"},
				Body: &petrelv1.Send_Text{Text: "hi"}, Rel: &petrelv1.Relations{Mentions: x.users}}, 100)
			if err == nil != (x.code == "") || err != nil && err.Code != x.code {
				t.Errorf("%s: %v, want code %q", name, err, x.code)
			}
			if err == nil && x.users != nil && !slices.Equal(s.Entry.Rel.Mentions, x.users) {
				t.Errorf("%s: the message names %v", name, s.Entry.Rel.Mentions)
			}
		}
	})
}

// A retry is the same message only if it mentions the same users.
func TestARetryMentionsTheSameUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice", "bob", "carol")
		q := w.MustSend(naming(key, "alice", "k1", "bob"))
		if r := w.Send(naming(key, "alice", "k1", "bob")); !r.Repeat || r.Seq != q {
			t.Errorf("the retry: %+v", r)
		}
		convtest.WantCode(t, w.Send(naming(key, "alice", "k1", "bob", "carol")), im.CodeConflict)
		w.wantUnread("sent twice", key, "bob", fmt.Sprint([]im.Seq{q}), "carol", "[]")
	})
}

// The store shows what is not durable yet. Nobody is told of it: neither of a mention, nor
// that one was recalled.
func TestMentionsAreThoseOfDurableEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice", "bob")
		q := w.MustSend(naming(key, "alice", "k1", "bob"))
		open := w.Gate.Shut()
		ch := w.Submit(recall(key, "alice", "r1", q), naming(key, "alice", "k2", "bob"))
		w.wantMark(key, store.MarkMention, q+2, "bob")
		w.wantUnread("not durable", key, "bob", fmt.Sprint([]im.Seq{q}))
		open()
		for _, c := range ch {
			w.Await(c)
		}
		w.wantUnread("durable", key, "bob", fmt.Sprint([]im.Seq{q + 2}))
		w.Gate.Refuse(true)
		convtest.WantCode(t, w.Send(naming(key, "alice", "k3", "bob")), im.CodeDiskFull)
		w.Gate.Refuse(false)
		w.wantUnread("refused", key, "bob", fmt.Sprint([]im.Seq{q + 2}))
		results := w.together(naming(key, "alice", "k4", "bob"), recall(key, "alice", "r4", q+3)) // in one batch
		if results[1].Err != nil {
			t.Fatal(results[1].Err)
		}
		w.wantUnread("recalled at once", key, "bob", fmt.Sprint([]im.Seq{q + 2}))
	})
}

// The committer reads nothing of mentions, and neither does a sync of a user who has read
// all entries that mention anybody.
func TestMentionsCostReadsOnlyWhereThereAreSome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice", "bob", "carol")
		w.wantUnread("nobody is mentioned", key, "bob", "[]")
		if n := w.Gate.ReadsOfMentions(); n != 0 {
			t.Errorf("a conversation without mentions was asked for them %d times", n)
		}
		w.Gate.OnRow(func(store.Row) {
			if bytes.Contains(debug.Stack(), []byte("(*committer)")) {
				t.Error("the committer reads a row")
			}
		})
		q := w.MustSend(naming(key, "alice", "k1", "bob", "carol"))
		w.Gate.OnRow(nil)
		if n := w.Gate.ReadsOfMentions(); n != 0 {
			t.Errorf("a mention was written after %d reads", n)
		}
		w.wantUnread("named", key, "bob", fmt.Sprint([]im.Seq{q}))
		before := w.Gate.ReadsOfMentions()
		w.wantMoved("bob reads", w.move(key, "bob", 0, q, nil), fmt.Sprintf("%d %d", q, q))
		w.MustSend(convtest.Message(key, "alice", "k2", 1, "nobody is named"))
		w.MustSend(naming(key, "alice", "k3", "dave"))
		w.wantUnread("read", key, "bob", "[]")
		if n := w.Gate.ReadsOfMentions(); n != before || before != 1 {
			t.Errorf("%d reads of mentions, then %d; want 1", before, n)
		}
	})
}

// The oldest are told first: who reads on learns of the next ones.
func TestSomeOfManyMentionsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.ranked()
		var sends []*conv.Send
		for i := range 60 {
			sends = append(sends, naming(key, "olga", fmt.Sprint("n", i), "max"), naming(key, "olga", fmt.Sprint("e", i), "everybody"))
		}
		for _, ch := range w.Submit(sends...) {
			w.Await(ch)
		}
		max, mia := w.unread(key, "max"), w.unread(key, "mia")
		if len(max) != 50 || len(mia) != 50 || max[0] >= mia[0] {
			t.Fatalf("max has %d from %v, and mia %d from %v; want 50 each, and those of mia the newest", len(max), max[0], len(mia), mia[0])
		}
		w.wantMoved("max reads", w.move(key, "max", 0, im.Seq(max[49]), nil), fmt.Sprintf("%d %d", max[49], max[49]))
		if more := w.unread(key, "max"); len(more) != 50 || more[0] <= max[49] {
			t.Errorf("then max has %d from %d", len(more), more[0])
		}
	})
}

// If mentions are damaged, the answer says that they are missing, and the conversation can still be read.
func TestDamagedMentionsAreMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice", "bob")
		q := w.MustSend(naming(key, "alice", "k1", "bob"))
		w.Gate.Damage(func(c im.Key, from, _ im.Seq) bool { return from == 0 })
		ask := &convpb.Ask{Conv: key.Conv[:], Always: true}
		st, err := w.owner().Changed(t.Context(), im.Account{Tenant: key.Tenant, User: "bob"}, ask, conv.Newest{Mentions: true})
		if err != nil || !st.MentionsMissing || st.Head != uint64(q) {
			t.Errorf("the sync says %v, %v", st, err)
		}
		moved, err := w.owner().MoveCursor(t.Context(), conv.Query{Conv: key, User: "bob"}, &convpb.MoveCursor{Delivered: 1, Mentions: true})
		if err != nil || moved.Head != 0 {
			t.Errorf("a cursor moves: %v, %v", moved, err)
		}
		w.Gate.Damage(nil)
		moved, err = w.owner().MoveCursor(t.Context(), conv.Query{Conv: key, User: "bob"}, &convpb.MoveCursor{Mentions: true})
		if err != nil || moved.Head != uint64(q) || !slices.Equal(moved.Mentions, []uint64{uint64(q)}) {
			t.Errorf("a cursor that moves nothing: %v, %v", moved, err)
		}
	})
}

// A blocked user does not mention the one who blocks them. Spec: P-5.4.
func TestABlockedUserMentionsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.pair("alice", "bob")
		w.MustSend(w.text("bob", "alice", "k0", "hi"))
		w.MustSend(w.block("alice", "bob", true, 1))
		bob := w.Online("alice", convtest.Mentions)
		bob.Out.Focus(1, map[im.ConvID]bool{})
		s := naming(key, "bob", "k1", "alice", "everybody")
		w.MustSend(s)
		w.wantUnread("blocked", key, "alice", "[]")
		if got := fmt.Sprint(bob.Got()); got != "[hint 2 mention 0]" {
			t.Errorf("alice gets %s", got)
		}
		w.MustSend(recall(key, "bob", "r1", 2))
		w.MustSend(w.block("alice", "bob", false, 2))
		w.MustSend(naming(key, "bob", "k2", "everybody"))
		w.wantUnread("not blocked any more", key, "alice", "[4]")
		if got := fmt.Sprint(bob.Got()); got != "[4:look at this hint 3 mention 0]" && got != "[4:look at this]" {
			t.Errorf("alice gets %s", got)
		}
	})
}
