package api

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/user"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// schema lists the methods of all services.
func schema() map[string]protoreflect.MethodDescriptor {
	all := map[string]protoreflect.MethodDescriptor{}
	for _, f := range []protoreflect.FileDescriptor{petrelv1.File_petrel_v1_account_proto, petrelv1.File_petrel_v1_contact_proto, petrelv1.File_petrel_v1_conversation_proto, petrelv1.File_petrel_v1_admin_proto, petrelv1.File_petrel_v1_operator_proto} {
		for i := range f.Services().Len() {
			s := f.Services().Get(i)
			for j := range s.Methods().Len() {
				all[string(s.FullName())+"/"+string(s.Methods().Get(j).Name())] = s.Methods().Get(j)
			}
		}
	}
	return all
}

// A method that is added to the schema fails here until somebody has said who
// may call it and what a repeat of it does. Spec: P-12.1, P-12.4.
func TestTableHasALineForEachMethod(t *testing.T) {
	all := schema()
	for name, m := range all {
		line, ok := table[name]
		if !ok || line.access == nobody {
			t.Errorf("%s has no line in the table: nobody may call it", name)
		}
		want := map[string]access{
			"AuthService": anybody, "SetupService": anybody, "AccountService": aUser, "ContactService": aUser, "ConversationService": aUser, "MessageService": aUser, "AdminService": aKey,
		}[string(m.Parent().Name())]
		if m.Parent().Name() == "OperatorService" { // some log in, the others have
			want = map[bool]access{true: aKey, false: anybody}[strings.HasSuffix(name, "/GetSession") || strings.HasSuffix(name, "/LogOut")]
		}
		if line.access != want {
			t.Errorf("%s is for %d, want %d", name, line.access, want)
		}
		if (line.access == aKey) != (line.scope != "") {
			t.Errorf("%s has the scope %q", name, line.scope)
		}
		derived := []string{"petrel.v1.AuthService/Refresh", "petrel.v1.SetupService/Redeem"} // the answer is made from the id
		hasID := m.Input().Fields().ByName("request_id") != nil
		if hasID != (line.repeat == recorded || line.repeat == entry || slices.Contains(derived, name)) {
			t.Errorf("%s: a request id is %t, its repetition %d", name, hasID, line.repeat)
		}
	}
	for name := range table {
		if all[name] == nil {
			t.Errorf("%s is no method", name)
		}
	}
}

func TestMethodWithoutALineIsDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for _, before := range []*caller{nil, {identity: user.Identity{Account: im.Account{Tenant: 1, User: "alice"}}}} {
			_, err := w.srv.identify(t.Context(), "petrel.v1.AdminService/Nothing", before, http.Header{"Authorization": {"Bearer " + w.key}})
			if im.CodeOf(err) != im.CodeForbidden || err == nil {
				t.Errorf("as %v: %v", before, err)
			}
		}
	})
}

func (w *world) makeKey(tenant string, scopes ...string) string {
	w.t.Helper()
	key, _, err := w.operators.CreateKey(context.Background(), "test", tenant, scopes)
	w.must(err)
	return key
}

// Spec: P-10.6.
func TestKeyCoversItsScopesOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for _, scope := range []string{scopeAdmin, scopeUsers, scopeTokens, scopeConversations, scopeMessages, scopeServer, scopeBackup} {
			key := w.makeKey("", scope)
			for _, name := range slices.Sorted(maps.Keys(schema())) {
				service, method, _ := strings.Cut(strings.TrimPrefix(name, "petrel.v1."), "/")
				if service != "AdminService" {
					continue
				}
				r := w.curl(service, method, "Bearer "+key, "{")
				allowed := scope == scopeAdmin || scope == table[name].scope
				if allowed && r.code != im.CodeInvalid || !allowed && (r.code != im.CodeForbidden || r.status != http.StatusForbidden) {
					t.Errorf("%s with the scope %s: %d %s", method, scope, r.status, r.code)
				}
			}
		}
	})
}

// Spec: P-10.6.
func TestKeyOfATenantActsOnNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.makeUsers("acme", "alice")
		w.makeUsers("", "alice")
		key := w.makeKey("acme", scopeAdmin)
		for name, m := range schema() {
			service, method, _ := strings.Cut(strings.TrimPrefix(name, "petrel.v1."), "/")
			if service != "AdminService" {
				continue
			}
			for _, body := range []string{`{}`, `{"tenant":"default"}`, `{"tenant":"other"}`} {
				if r := w.curl(service, method, "Bearer "+key, body); r.code != im.CodeForbidden {
					t.Errorf("%s %s: %d %s", method, body, r.status, r.code)
				}
			}
			own := m.Input().Fields().ByName("tenant") != nil
			if r := w.curl(service, method, "Bearer "+key, `{"tenant":"acme"}`); own == (r.code == im.CodeForbidden) {
				t.Errorf("%s in its own tenant: %d %s", method, r.status, r.body)
			}
		}
		byDefault := w.makeKey("default", scopeUsers)
		if r := w.curl("AdminService", "GetUser", "Bearer "+byDefault, `{"user":"alice"}`); r.status != 200 {
			t.Errorf("a key of the default tenant, which needs no name: %s", r.body)
		}
	})
}

func TestRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.srv.o.GroupsPerHour = 2
		w.srv.o.Limits = func() *petrelv1.ServerLimits { return &petrelv1.ServerLimits{SendsPerS: 1, SendBurst: 3} }
		issued, err := w.users.Create(t.Context(), "", []im.User{"alice", "bob"})
		w.must(err)
		try := func(token, service, method, body string) im.Code {
			return w.curl(service, method, "Bearer "+token, body).code
		}
		for _, c := range []struct {
			service, method, body string
			allowed               int
		}{
			{"ConversationService", "CreateGroup", `{"title":"t"}`, 2},
			{"MessageService", "Send", `{"user":"alice","clientMsgId":"m","text":"x"}`, 3},
			{"AccountService", "GetUser", `{"user":"alice%d"}`, 30}, // distinct users count
		} {
			for i := range c.allowed {
				if code := try(issued[0].Token, c.service, c.method, strings.ReplaceAll(c.body, "%d", strconv.Itoa(i))); code != "" && code != im.CodeNoUser {
					t.Errorf("%s %d: %s", c.method, i, code)
				}
			}
			r := w.curl(c.service, c.method, "Bearer "+issued[0].Token, c.body)
			if d := r.detail(t); r.code != im.CodeRateLimited || r.status != http.StatusTooManyRequests || d.RetryAfterMs == 0 {
				t.Errorf("%s above its rate: %d %s", c.method, r.status, r.body)
			}
			if code := try(issued[1].Token, c.service, c.method, c.body); code != "" && code != im.CodeNoUser {
				t.Errorf("%s of another user: %s", c.method, code)
			}
		}
	})
}

// A change of members costs what it writes: the list of each user that it names. One that is
// refused has written nothing. The operator is not limited. Spec: P-9.2.
func TestMemberChangesAreCountedByTheUsersThatTheyName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.srv.o.MembersPerMinute = 1
		users := make([]string, 600)
		for i := range users {
			users[i] = fmt.Sprint("u", i)
		}
		w.makeUsers("", users...)
		issued, err := w.users.Create(t.Context(), "", []im.User{"alice", "bob"})
		w.must(err)
		names, err := json.Marshal(users)
		w.must(err)
		call := func(who int, method, body string) reply {
			return w.curl("ConversationService", method, "Bearer "+issued[who].Token, body)
		}
		var group struct{ Conv string }
		w.must(json.Unmarshal([]byte(call(0, "CreateGroup", `{"title":"t"}`).body), &group))
		id := group.Conv
		all := fmt.Sprintf(`{"conv":%q,"users":%s}`, id, names)
		if r := call(0, "AddMembers", all); r.code != "" || !strings.Contains(r.body, `"seq":"2"`) {
			t.Fatalf("600 of 1,000: %s", r.body)
		}
		if r := call(0, "RemoveMembers", all); r.code != im.CodeRateLimited || r.detail(t).RetryAfterMs < 199*60*1000 {
			t.Errorf("600 more: %d %s; want rate_limited, and to wait for 200 names", r.status, r.body)
		}
		if r := call(0, "CreateGroup", fmt.Sprintf(`{"title":"t","users":%s}`, names)); r.code != im.CodeRateLimited {
			t.Errorf("a group of 600: %d %s", r.status, r.body)
		}
		if r := call(0, "RemoveMembers", fmt.Sprintf(`{"conv":%q,"users":["u0"]}`, id)); r.code != "" || !strings.Contains(r.body, `"seq":"3"`) {
			t.Errorf("one name of those that are left: %d %s; want seq 3, as nothing was written", r.status, r.body)
		}
		if r := call(1, "CreateGroup", fmt.Sprintf(`{"title":"t","users":%s}`, names)); r.code != "" {
			t.Errorf("another user: %d %s", r.status, r.body)
		}
		for range 2 { // the operator
			_, err := w.change(id, "", &petrelv1.MemberChange{Removed: users[1:]})
			w.must(err)
			_, err = w.change(id, "", &petrelv1.MemberChange{Added: refs(0, users[1:]...)})
			w.must(err)
		}
	})
}

// Changes cost what sends cost, and are counted with them. Spec: P-9.2.
func TestChangesAreCountedAsSends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.makeUsers("", "alice")
		id := w.group("", "team", "alice").Conv
		w.srv.o.Limits = func() *petrelv1.ServerLimits { return &petrelv1.ServerLimits{SendsPerS: 1, SendBurst: 1} }
		token, err := w.admin.MintToken(t.Context(), connect.NewRequest(&petrelv1.MintTokenRequest{User: "alice", Device: &petrelv1.DeviceRef{Id: "d"}}))
		w.must(err)
		for _, c := range []struct{ service, method, body string }{
			{"ConversationService", "LeaveGroup", fmt.Sprintf(`{"conv":%q}`, id)},
			{"AccountService", "ChangeSettings", `{"values":{"a":"b"}}`},
			{"AccountService", "UpdateAccount", `{"displayName":"Alice"}`},
			{"AccountService", "RenameDevice", `{"device":"d","name":"n"}`},
		} {
			time.Sleep(time.Second)
			for _, want := range []im.Code{"", im.CodeRateLimited} {
				if r := w.curl(c.service, c.method, "Bearer "+token.Msg.AccessToken, c.body); r.code != want {
					t.Errorf("%s: %d %s, want %q", c.method, r.status, r.body, want)
				}
			}
		}
	})
}

func TestRevokedTokenIsRefusedEverywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		issued, err := w.users.Create(t.Context(), "", []im.User{"alice"})
		w.must(err)
		_, err = w.admin.RevokeTokens(t.Context(), connect.NewRequest(&petrelv1.RevokeTokensRequest{User: "alice"}))
		w.must(err)
		for name := range schema() {
			service, method, _ := strings.Cut(strings.TrimPrefix(name, "petrel.v1."), "/")
			if table[name].access != aUser {
				continue
			}
			for _, auth := range []string{"", "Bearer " + issued[0].Token, "Bearer " + w.key} {
				if r := w.curl(service, method, auth, "{"); r.code != im.CodeUnauthenticated || r.status != 401 {
					t.Errorf("%s with %.9q: %d %s", method, auth, r.status, r.code)
				}
			}
		}
	})
}
