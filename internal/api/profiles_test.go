package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/petrel-im/petrel/internal/im"
)

// GetUsers answers what differs. Members of the conversation that it names cost nothing; of others it answers those
// for whom a look-up is left, in all sessions of the caller together. Spec: P-14.2, P-14.4.
func TestGetUsersAnswersWhatDiffers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var users []im.User
		for i := range 60 {
			users = append(users, im.User(fmt.Sprintf("u%02d", i)))
		}
		issued, err := w.users.Create(t.Context(), "", append(users, "alice"))
		w.must(err)
		again, err := w.users.Create(t.Context(), "", []im.User{"alice"})
		w.must(err)
		first, second, member := issued[60].Token, again[0].Token, issued[0].Token
		ask := func(token, conv string, refs ...string) string {
			t.Helper()
			r := w.curl("AccountService", "GetUsers", "Bearer "+token, fmt.Sprintf(`{"conv":%q,"users":[%s]}`, conv, strings.Join(refs, ",")))
			return r.body
		}
		ref := func(u im.User, version string) string { return fmt.Sprintf(`{"user":%q,"version":%q}`, u, version) }
		all := func(from, to int) (refs []string) {
			for _, u := range users[from:to] {
				refs = append(refs, ref(u, ""))
			}
			return refs
		}
		group := decoded[struct{ Conv string }](t, (w.curl("ConversationService", "CreateGroup", "Bearer "+first, `{"title":"t","users":["u00","u01"]}`)).body).Conv

		got := decoded[userList](t, ask(first, group, append(all(0, 2), ref("nobody", ""))...))
		if len(got.Users) != 2 || got.Users[0].Version == "" || fmt.Sprint(got.Unknown) != "[nobody]" || len(got.Later) != 0 {
			t.Fatalf("the first answer is %+v", got)
		}
		same := decoded[userList](t, ask(first, group, ref("u00", got.Users[0].Version), ref("u01", "another")))
		if len(same.Users) != 1 || same.Users[0].User != "u01" {
			t.Errorf("with the version of u00 the answer is %+v", same)
		}
		got = decoded[userList](t, ask(second, "", all(2, 40)...)) // 1 look-up is taken
		if len(got.Users) != 29 || len(got.Later) != 9 || got.Later[0] != "u31" || got.RetryAfterMs == 0 {
			t.Errorf("of 38 strangers %d are told, %v later, in %d ms", len(got.Users), got.Later, got.RetryAfterMs)
		}
		if body := ask(first, "", all(40, 60)...); !strings.Contains(body, "rate_limited") {
			t.Errorf("without a look-up left the answer is %s", body)
		}
		if r := w.curl("AccountService", "UpdateAccount", "Bearer "+first, `{"handle":"u59"}`); r.code != im.CodeRateLimited {
			t.Errorf("without a look-up left a try to take a handle is answered %s", r.body)
		}
		if got := decoded[userList](t, ask(first, "", append(all(40, 60), all(2, 31)...)...)); len(got.Users) != 29 || len(got.Later) != 20 {
			t.Errorf("after 20 new users %d who were looked up are told, and %d are later; want 29 and 20", len(got.Users), len(got.Later))
		}
		got = decoded[userList](t, ask(first, group, append(all(0, 31), all(40, 60)...)...))
		if len(got.Users) != 31 || len(got.Later) != 20 {
			t.Errorf("without a look-up left %d known users are told, and %d strangers are later; want 31 and 20", len(got.Users), len(got.Later))
		}
		if got := decoded[userList](t, ask(member, group, ref("alice", ""), ref("u01", ""))); len(got.Users) != 2 {
			t.Errorf("a member is told %+v", got)
		}
		for what, body := range map[string]string{
			"nobody": ask(first, ""), "a user twice": ask(first, "", ref("u00", ""), ref("u00", "")),
			"no user id": ask(first, "", ref("a b", "")),
			"101 users":  ask(first, "", strings.Split(strings.Repeat(ref("u00", "")+" ", 101), " ")[:101]...),
		} {
			if !strings.Contains(body, "invalid") {
				t.Errorf("%s: %s", what, body)
			}
		}
	})
}

// The next call after a change of contacts sees it: the profile has the fields that are for contacts, or has not, and so
// does a request by the handle. Spec: P-14.3.
func TestChangesOfContactsShowAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newContactsWorld(t, "alice", "bob")
		r := w.curl("AccountService", "UpdateAccount", "Bearer "+w.tokens["alice"],
			`{"about":"birds","handle":"sea.bird","visibility":{"about":"VISIBILITY_CONTACTS","handle":"VISIBILITY_CONTACTS"}}`)
		if r.code != "" {
			t.Fatal(r.body)
		}
		version := ""
		want := func(when string, sees, changed bool) {
			t.Helper()
			body := w.curl("AccountService", "GetUsers", "Bearer "+w.tokens["bob"], fmt.Sprintf(`{"users":[{"user":"alice","version":%q}]}`, version)).body
			got := decoded[userList](t, body)
			if len(got.Users) != 1 || !changed {
				if changed || len(got.Users) > 0 {
					t.Fatalf("%s bob gets %s, changed: want %t", when, body, changed)
				}
				return
			}
			if version = got.Users[0].Version; strings.Contains(body, "birds") != sees {
				t.Errorf("%s bob gets %s, want the field: %t", when, body, sees)
			}
			code := im.CodeNoUser
			if sees {
				code = ""
			}
			if r := w.curl("ContactService", "RequestContact", "Bearer "+w.tokens["bob"], `{"handle":"sea.bird"}`); r.code != code {
				t.Errorf("%s a request by the handle is answered %s, want %q", when, r.body, code)
			}
		}
		want("as a stranger", false, true)
		w.does("alice", "RequestContact", "bob", "")
		want("before he accepts", false, false)
		w.does("bob", "AcceptContact", "alice", "")
		want("as a contact", true, true)
		w.does("bob", "RemoveContact", "alice", "")
		want("after his own removal", true, false)
		w.does("alice", "RemoveContact", "bob", "")
		want("after hers", false, true)
	})
}

func decoded[T any](t *testing.T, body string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatalf("the answer is %s: %v", body, err)
	}
	return v
}

// userList is an answer of GetUsers.
type userList struct {
	Users          []struct{ User, Version string }
	Unknown, Later []string
	RetryAfterMs   uint32
}
