package api

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/inbox"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// contactsWorld has users with tokens, and fills their inboxes.
type contactsWorld struct {
	*world
	t      *testing.T
	tokens map[string]string
}

func newContactsWorld(t *testing.T, users ...string) *contactsWorld {
	w := &contactsWorld{world: newWorld(t), t: t, tokens: map[string]string{}}
	w.makeUsers("", users...)
	for _, u := range users {
		r, err := w.admin.MintToken(t.Context(), connect.NewRequest(&petrelv1.MintTokenRequest{User: u, Device: &petrelv1.DeviceRef{Id: "d"}}))
		w.must(err)
		w.tokens[u] = r.Msg.AccessToken
	}
	return w
}

// fill gives a user n settings of other users with this name, as changes of contacts would.
func (w *contactsWorld) fill(user, name string, n int) {
	for i := range n {
		s := &petrelv1.InboxSettings{User: fmt.Sprintf("%s%d", name, i), Values: map[string]string{name: "1796055883271 hi"}}
		_, err := inbox.Write(w.t.Context(), w.convs, im.Account{Tenant: im.DefaultTenant, User: im.User(user)},
			&petrelv1.InboxEntry{Entry: &petrelv1.InboxEntry_Settings{Settings: s}}, fmt.Sprint(name, i))
		w.must(err)
	}
}

// does has a user change a contact, and compares the code of the answer.
func (w *contactsWorld) does(user, method, other string, want im.Code) {
	w.t.Helper()
	r := w.curl("ContactService", method, "Bearer "+w.tokens[user], fmt.Sprintf(`{"user":%q}`, other))
	if r.code != want {
		w.t.Errorf("%s %s %s: %d %.200s, want %q", user, method, other, r.status, r.body, want)
	}
	w.must(w.inbox.Await(w.t.Context()))
}

// A user has bounds of contacts and of requests, which neither take from nor add to those of settings. A request to
// somebody with too many requests looks like any other one. Spec: P-14.9.
func TestBoundsOfContacts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newContactsWorld(t, "alice", "bob", "carol", "dave", "erin", "frank")
		w.fill("alice", inbox.ContactName, maxContacts-2)
		w.does("alice", "RequestContact", "bob", "")
		w.does("carol", "RequestContact", "alice", "")
		w.does("erin", "RequestContact", "alice", "")
		w.does("alice", "AcceptContact", "carol", "")
		w.does("alice", "RequestContact", "dave", im.CodeTooManyContacts)
		w.does("alice", "RequestContact", "bob", "")                     // it waits already
		w.does("alice", "AcceptContact", "erin", im.CodeTooManyContacts) // the request to bob has the last place
		w.does("alice", "WithdrawContact", "bob", "")
		w.does("alice", "AcceptContact", "erin", "")
		w.does("alice", "RequestContact", "dave", im.CodeTooManyContacts)
		w.does("alice", "RemoveContact", "carol", "")
		w.does("alice", "RequestContact", "dave", "")
		settings := w.curl("AccountService", "ChangeSettings", "Bearer "+w.tokens["alice"], `{"user":"bob","values":{"blocked":"1"}}`)
		if settings.code != "" {
			t.Errorf("a block beside 5,000 contacts: %s", settings.body)
		}

		w.fill("bob", inbox.SentName, maxSent-1)
		w.does("bob", "RequestContact", "carol", "")
		w.does("bob", "RequestContact", "dave", im.CodeTooManyContacts)
		w.does("bob", "WithdrawContact", "carol", "")
		w.does("bob", "RequestContact", "carol", im.CodeRateLimited) // it was withdrawn a moment ago
		w.does("bob", "RequestContact", "dave", "")

		w.fill("frank", inbox.ReceivedName, maxReceived)
		w.does("erin", "RequestContact", "frank", "")
		if got := w.curl("ContactService", "ListContacts", "Bearer "+w.tokens["erin"], `{}`); !strings.Contains(got.body, "frank") {
			t.Errorf("erin has asked frank, and sees %s", got.body)
		}
		w.does("frank", "AcceptContact", "erin", im.CodeNoContact)
		w.does("frank", "RequestContact", "erin", "")
	})
}

// Where the back end manages contacts, users change nothing but remarks. Spec: P-14.10.
func TestManagedContacts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newContactsWorld(t, "alice", "bob", "carol")
		w.does("carol", "RequestContact", "alice", "")
		_, err := w.admin.SetProfileRules(t.Context(), connect.NewRequest(&petrelv1.SetProfileRulesRequest{Managed: []string{"contacts"}}))
		w.must(err)
		set := func(end bool, pairs ...*petrelv1.ContactPair) error {
			_, err := w.admin.SetContacts(t.Context(), connect.NewRequest(&petrelv1.SetContactsRequest{Pairs: pairs, End: end}))
			return err
		}
		w.must(set(false, &petrelv1.ContactPair{User: "alice", Other: "bob"}))
		for _, method := range []string{"RequestContact", "AcceptContact", "RefuseContact", "WithdrawContact", "RemoveContact"} {
			w.does("alice", method, "carol", im.CodeForbidden)
		}
		w.does("alice", "SetRemark", "bob", "")
		w.does("alice", "SetRemark", "carol", im.CodeNoContact)
		w.wantCode("a pair of one", set(false, &petrelv1.ContactPair{User: "alice", Other: "alice"}), im.CodeInvalid)
		w.wantCode("nobody", set(false, &petrelv1.ContactPair{User: "alice", Other: "carol"}, &petrelv1.ContactPair{User: "alice", Other: "nobody"}), im.CodeNoUser)
		if r := w.curl("ContactService", "ListContacts", "Bearer "+w.tokens["alice"], `{}`); strings.Contains(r.body, `"user":"carol","sinceMs"`) {
			t.Errorf("a call that was refused made a contact: %s", r.body)
		}
		w.must(set(true, &petrelv1.ContactPair{User: "alice", Other: "bob"}))
		w.does("alice", "SetRemark", "bob", im.CodeNoContact)
	})
}
