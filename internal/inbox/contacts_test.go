package inbox_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/inbox"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// contact has a user change what another one is to them.
func (w *world) contact(by, other im.User, act conv.ContactAct, text string) {
	w.t.Helper()
	if err := inbox.ChangeContact(context.Background(), w.convs, im.Account{Tenant: im.DefaultTenant, User: by}, other, act, text, false); err != nil {
		w.t.Fatal(err)
	}
}

// seesContact is an entry of an inbox: at most one of the values is set.
func seesContact(other, contact, sent, received string) string {
	return fmt.Sprint("settings @", other, map[string]string{inbox.ContactName: contact, inbox.SentName: sent, inbox.ReceivedName: received})
}

// A change reaches the inboxes of those who see it, once, however often consumers begin anew; an older state never
// follows a newer one. Spec: P-14.7.
func TestContactsReachTheInboxesOfThoseWhoSeeThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		at := fmt.Sprint(time.Now().UnixMilli())
		w.contact("alice", "bob", conv.ContactAsk, "hi  there ")
		w.contact("alice", "bob", conv.ContactAsk, "hi  there ") // a repeat
		w.settle()
		w.contact("bob", "alice", conv.ContactAccept, "")
		w.settle()
		w.contact("alice", "bob", conv.ContactRemark, "tall") // which bob does not see
		w.settle()
		w.contact("bob", "alice", conv.ContactRemove, "") // nor alice this
		w.settle()
		alice := []string{
			seesContact("bob", "", at+" hi  there", ""), seesContact("bob", at, "", ""), seesContact("bob", at+" tall", "", "")}
		bob := []string{
			seesContact("alice", "", "", at+" hi  there"), seesContact("alice", at, "", ""), seesContact("alice", "", "", "")}
		w.wantInbox("alice", alice...)
		w.wantInbox("bob", bob...)

		for range 2 { // from the very beginning of the feed, over what is there
			w.kill()
			if err := w.store.Update(context.Background(), []store.RecordPut{{Table: store.Consumers, Key: []byte("at/0/inbox")}}); err != nil {
				t.Fatal(err)
			}
			w.consume()
			w.settle()
		}
		w.restart()
		w.settle()
		w.wantInbox("alice", alice...)
		w.wantInbox("bob", bob...)
	})
}

// Each change of contacts is told of those who see it, when the record says so; a message is none. A consumer that
// begins anew tells it again. Spec: P-14.5.
func TestChangesOfContactsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.kill()
		var told []string
		hooks := inbox.Hooks{Contact: func(by im.Account, other im.User) {
			rec, err := w.store.Conversation(context.Background(), im.Key{Tenant: by.Tenant, Conv: w.convs.IDs().Direct(by.Tenant, by.User, other)})
			if err != nil {
				t.Error(err)
			}
			for _, s := range rec.GetSides() {
				if s.User == string(by.User) {
					told = append(told, fmt.Sprint(by.User, " has ", other, ": ", s.ContactMs > 0))
				}
			}
		}}
		w.consumeWith(hooks)
		want := func(when string, events ...string) {
			t.Helper()
			w.settle()
			slices.Sort(told)
			if d := cmp.Diff(events, slices.Compact(told)); d != "" {
				t.Errorf("%s was told (-want +got):\n%s", when, d)
			}
			told = nil
		}
		w.direct("alice", "bob", "hi")
		want("after a message")
		w.contact("alice", "bob", conv.ContactAsk, "")
		want("after a request", "alice has bob: false", "bob has alice: false")
		w.contact("bob", "alice", conv.ContactAccept, "")
		want("after an acceptance", "alice has bob: true", "bob has alice: true")
		w.contact("bob", "alice", conv.ContactRemove, "")
		want("after a removal", "bob has alice: false")
		w.contact("bob", "alice", conv.ContactAsk, "")
		want("after he came back", "bob has alice: true")
		w.contact("alice", "bob", conv.ContactEnd, "")
		want("after the back end has ended it", "alice has bob: false", "bob has alice: false")
		w.kill()
		w.contact("bob", "alice", conv.ContactMake, "")
		w.trim()
		w.direct("alice", "bob", "in what is left of the feed")
		w.allowed = "feed was trimmed"
		w.consumeWith(hooks)
		want("from what is left of the feed", "alice has bob: true", "bob has alice: true")
	})
}

// A consumer that was held up since it read an older state writes nothing: a newer consumer has used the id.
func TestLateConsumerWritesNoFormerContact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		at := fmt.Sprint(time.Now().UnixMilli())
		w.kill() // both changes come before a consumer sees them
		w.contact("alice", "bob", conv.ContactAsk, "")
		key := im.Key{Tenant: im.DefaultTenant, Conv: w.convs.IDs().Direct(im.DefaultTenant, "alice", "bob")}
		first, err := w.store.Conversation(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		w.contact("alice", "bob", conv.ContactWithdraw, "")
		w.consume()
		w.settle()
		none := seesContact("bob", "", "", "")
		w.wantInbox("alice", none, none)
		former := &petrelv1.InboxEntry{Entry: &petrelv1.InboxEntry_Settings{Settings: &petrelv1.InboxSettings{User: "bob",
			Values: map[string]string{inbox.SentName: at}}}}
		_, err = inbox.Write(t.Context(), w.convs, im.Account{Tenant: im.DefaultTenant, User: "alice"}, former,
			w.convs.IDs().ContactEntry(key, "alice", first.ContactVersion))
		if im.CodeOf(err) != im.CodeConflict {
			t.Errorf("the former state is written: %v", err)
		}
		w.wantInbox("alice", none, none)
	})
}

// A list counts contacts and requests of its user, also after the list was stored and the inbox compacted, and
// counts no other settings. Spec: P-14.9.
func TestContactsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		want := &inbox.ContactCount{}
		check := func(when string) {
			t.Helper()
			got, err := w.sync.CountContacts(t.Context(), alice)
			if d := cmp.Diff(want, got); d != "" || err != nil {
				t.Errorf("%s: %s %v", when, d, err)
			}
			page, next, err := w.sync.Contacts(t.Context(), alice, 0)
			if n := want.Contacts + want.Sent + want.Received; len(page) != n || next != 0 || err != nil {
				t.Errorf("%s: %d contacts and requests, next %d, %v; want %d", when, len(page), next, err, n)
			}
		}
		for i := range 300 {
			other := im.User(fmt.Sprint("user", i))
			w.contact("alice", other, conv.ContactMake, "")
			w.contact(other, "alice", conv.ContactRemark, "unseen")
			switch i % 3 {
			case 1:
				w.contact("alice", other, conv.ContactEnd, "")
				w.contact("alice", other, conv.ContactAsk, "")
				want.Sent++
			case 2:
				w.contact("alice", other, conv.ContactEnd, "")
				w.contact(other, "alice", conv.ContactAsk, "")
				want.Received++
			default:
				want.Contacts++
			}
			if i%100 == 50 {
				w.settle()
				check("on the way")
			}
		}
		w.setOne("", inbox.ContactName, "1") // of the account: none of a user
		w.settle()
		check("at the end")
		w.forgetLists()
		check("after the list was read again")
		room, err := w.sync.SettingsRoom(t.Context(), alice, "", "user0")
		if err != nil || room.Names() != 0 || room.Users != 0 || room.Bytes > 200 {
			t.Errorf("room of user0: %d names, %d users, %d bytes, %v; contacts are none of its settings", room.Names(), room.Users, room.Bytes, err)
		}
		w.restart()
		w.settle()
		check("after a restart")
	})
}
