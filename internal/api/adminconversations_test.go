package api

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/internal/audit"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/share"
	"github.com/petrel-im/petrel/internal/user"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

func TestOperatorsCreateGroupIsIdempotentByKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.makeUsers("", "alice", "bob")
		w.makeUsers("acme", "alice")
		var wg sync.WaitGroup
		results := make([]*petrelv1.AdminCreateGroupResponse, 12)
		for i := range results {
			wg.Go(func() {
				r, err := w.admin.CreateGroup(context.Background(), connect.NewRequest(&petrelv1.AdminCreateGroupRequest{
					Key: "team", Title: fmt.Sprint("title ", i), Members: refs(0, "alice"),
				}))
				if err != nil {
					t.Error(err)
					return
				}
				results[i] = r.Msg
			})
		}
		wg.Wait()
		created := 0
		for _, r := range results {
			if r.GetConv() != results[0].GetConv() {
				t.Errorf("one key made %s and %s", results[0].GetConv(), r.GetConv())
			}
			if r.GetCreated() {
				created++
			}
		}
		if created != 1 || len(w.history(results[0].Conv).Messages) != 1 {
			t.Errorf("created %d times, %d entries", created, len(w.history(results[0].Conv).Messages))
		}
		if other := w.group("acme", "team", "alice"); other.Conv == results[0].Conv || !other.Created {
			t.Errorf("another tenant gets %v", other)
		}
		one, two := w.group("", "", "alice"), w.group("", "", "alice")
		if one.Conv == two.Conv || !one.Created || !two.Created {
			t.Errorf("without a key: %v and %v", one, two)
		}
	})
}

func TestOperatorsCreateGroupRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.makeUsers("", "alice")
		w.makeUsers("acme", "bob")
		for what, c := range map[string]struct {
			q    *petrelv1.AdminCreateGroupRequest
			code im.Code
		}{
			"nobody":                    {&petrelv1.AdminCreateGroupRequest{}, im.CodeInvalid},
			"a user who does not exist": {&petrelv1.AdminCreateGroupRequest{Members: refs(0, "alice", "nobody")}, im.CodeNoUser},
			"an empty user":             {&petrelv1.AdminCreateGroupRequest{Members: refs(0, "")}, im.CodeNoUser},
			"a user of another tenant":  {&petrelv1.AdminCreateGroupRequest{Members: refs(0, "bob")}, im.CodeNoUser},
			"a long title":              {&petrelv1.AdminCreateGroupRequest{Title: strings.Repeat("x", 257), Members: refs(0, "alice")}, im.CodeInvalid},
			"a long key":                {&petrelv1.AdminCreateGroupRequest{Key: strings.Repeat("x", 129), Members: refs(0, "alice")}, im.CodeInvalid},
			"a role of a later version": {&petrelv1.AdminCreateGroupRequest{Members: refs(17, "alice")}, im.CodeInvalid},
			"no tenant":                 {&petrelv1.AdminCreateGroupRequest{Tenant: "none", Members: refs(0, "alice")}, im.CodeInvalid},
		} {
			_, err := w.admin.CreateGroup(context.Background(), connect.NewRequest(c.q))
			w.wantCode(what, err, c.code)
		}
		if _, err := w.users.Tenant(context.Background(), "none"); err == nil {
			t.Error("a refused call has made a tenant")
		}
	})
}

func TestChangeMembersIsIdempotentByRequestID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.makeUsers("", "alice", "bob", "carol")
		id := w.group("", "team", "alice").Conv
		addBob := &petrelv1.MemberChange{Added: refs(0, "bob")}
		for range 3 {
			if q, err := w.change(id, "request 1", addBob); q != 2 || err != nil {
				t.Errorf("seq %d, %v; want 2", q, err)
			}
		}
		_, err := w.change(id, "request 1", &petrelv1.MemberChange{Added: refs(0, "carol")})
		w.wantCode("the same id with another change", err, im.CodeConflict)
		if q, err := w.change(id, "", &petrelv1.MemberChange{Roles: refs(petrelv1.Role_ROLE_ADMIN, "bob")}); q != 3 || err != nil {
			t.Errorf("without an id: seq %d, %v; want 3", q, err)
		}
		_, err = w.change(id, "", &petrelv1.MemberChange{Roles: refs(petrelv1.Role_ROLE_ADMIN, "bob")})
		w.wantCode("without an id, once more", err, im.CodeInvalid)
		// A repeat is answered as before, though it could not be done any more.
		for range 2 {
			if q, err := w.change(id, "remove", &petrelv1.MemberChange{Removed: []string{"bob"}}); q != 4 || err != nil {
				t.Errorf("seq %d, %v; want 4", q, err)
			}
		}
		if got := w.history(id); len(got.Messages) != 4 || got.Head != 4 {
			t.Errorf("%d entries, head %d; want 4", len(got.Messages), got.Head)
		}
	})
}

func TestChangeMembersRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.makeUsers("", "aaron", "alice", "bob", "zed")
		id := w.group("", "team", "alice", "bob").Conv
		direct := w.convs.IDs().Direct(im.DefaultTenant, "alice", "bob").String()
		if _, err := w.sendAs("alice", &petrelv1.Send{User: "bob", ClientMsgId: "k", Body: &petrelv1.Send_Text{Text: "x"}}); err != nil {
			t.Fatal(err)
		}
		add := &petrelv1.MemberChange{Added: refs(0, "zed")}
		for what, c := range map[string]struct {
			conv string
			ch   *petrelv1.MemberChange
			code im.Code
		}{
			"nothing":                        {id, nil, im.CodeInvalid},
			"an empty change":                {id, &petrelv1.MemberChange{}, im.CodeInvalid},
			"garbage":                        {"garbage", add, im.CodeNoConversation},
			"a group that does not exist":    {someStore.KeyedGroup(1, "none").String(), add, im.CodeNoConversation},
			"a direct conversation":          {direct, add, im.CodeForbidden},
			"an inbox":                       {w.convs.IDs().Inbox(1, "alice").String(), add, im.CodeForbidden},
			"added who does not exist":       {id, &petrelv1.MemberChange{Added: refs(0, "nobody")}, im.CodeNoUser},
			"removed who does not exist":     {id, &petrelv1.MemberChange{Removed: []string{"nobody"}}, im.CodeNoUser},
			"removed is no id":               {id, &petrelv1.MemberChange{Removed: []string{""}}, im.CodeNoUser},
			"left who does not exist":        {id, &petrelv1.MemberChange{Left: []string{"\x00"}}, im.CodeNoUser},
			"removed who never was a member": {id, &petrelv1.MemberChange{Removed: []string{"zed"}}, im.CodeNotMember},
			"left who never was a member":    {id, &petrelv1.MemberChange{Left: []string{"aaron"}}, im.CodeNotMember},
			"role of who never was a member": {id, &petrelv1.MemberChange{Roles: refs(petrelv1.Role_ROLE_ADMIN, "aaron")}, im.CodeNotMember},
			"no role":                        {id, &petrelv1.MemberChange{Roles: refs(0, "bob")}, im.CodeInvalid},
			"an unknown role":                {id, &petrelv1.MemberChange{Roles: refs(9, "bob")}, im.CodeInvalid},
			"added with an unknown role":     {id, &petrelv1.MemberChange{Added: refs(-1, "zed")}, im.CodeInvalid},
		} {
			_, err := w.change(c.conv, "", c.ch)
			w.wantCode(what, err, c.code)
		}
		_, err := w.change(id, strings.Repeat("x", 65), add)
		w.wantCode("a long request id", err, im.CodeInvalid)
		if got := w.history(id); got.Head != 1 {
			t.Errorf("%d entries, want 1", got.Head)
		}
		// Somebody who is added may be named again in the same change.
		if q, err := w.change(id, "", &petrelv1.MemberChange{Added: refs(0, "zed"), Roles: refs(petrelv1.Role_ROLE_ADMIN, "zed")}); q != 2 || err != nil {
			t.Errorf("added with a role: seq %d, %v", q, err)
		}
	})
}

func TestSendAsIsASendOfTheUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.makeUsers("", "alice", "bob", "eve")
		w.makeUsers("acme", "mallory")
		id := w.group("", "team", "alice", "bob").Conv
		send := &petrelv1.Send{Conv: id, ClientMsgId: "k", Body: &petrelv1.Send_Text{Text: "hello"}}
		for range 3 {
			r, err := w.sendAs("alice", send)
			if err != nil || r.Seq != 2 || r.Conv != id || r.TimeMs == 0 {
				t.Errorf("%v, %v; want seq 2", r, err)
			}
		}
		r, err := w.sendAs("alice", &petrelv1.Send{User: "bob", ClientMsgId: "k", Body: &petrelv1.Send_Text{Text: "hello"}})
		if err != nil || r.Conv != w.convs.IDs().Direct(1, "alice", "bob").String() || r.Seq != 1 {
			t.Errorf("to a user: %v, %v", r, err)
		}
		with := func(change func(*petrelv1.Send)) *petrelv1.Send {
			s := proto.Clone(send).(*petrelv1.Send)
			s.ClientMsgId = "other"
			change(s)
			return s
		}
		for what, c := range map[string]struct {
			from string
			s    *petrelv1.Send
			code im.Code
		}{
			"nothing":              {"alice", nil, im.CodeInvalid},
			"nobody":               {"nobody", send, im.CodeNoUser},
			"the server":           {"", send, im.CodeNoUser},
			"of another tenant":    {"mallory", send, im.CodeNoUser},
			"no member":            {"eve", send, im.CodeNoConversation},
			"other body":           {"alice", with(func(s *petrelv1.Send) { s.ClientMsgId, s.Body = "k", &petrelv1.Send_Text{Text: "other"} }), im.CodeConflict},
			"too large":            {"alice", with(func(s *petrelv1.Send) { s.Body = &petrelv1.Send_Text{Text: strings.Repeat("x", 1001)} }), im.CodeTooLarge},
			"no target":            {"alice", with(func(s *petrelv1.Send) { s.Conv = "" }), im.CodeInvalid},
			"no id":                {"alice", with(func(s *petrelv1.Send) { s.ClientMsgId = "" }), im.CodeInvalid},
			"an edit":              {"alice", with(func(s *petrelv1.Send) { s.Body = &petrelv1.Send_Edit{Edit: &petrelv1.Edit{Target: 2}} }), im.CodeInvalid},
			"own inbox":            {"alice", with(func(s *petrelv1.Send) { s.Conv = w.convs.IDs().Inbox(1, "alice").String() }), im.CodeForbidden},
			"after above the head": {"alice", with(func(s *petrelv1.Send) { s.After = proto.Uint64(99) }), im.CodeAfterAhead},
		} {
			_, err := w.sendAs(c.from, c.s)
			w.wantCode(what, err, c.code)
		}
		if got := w.history(id); got.Head != 2 {
			t.Errorf("%d entries, want 2", got.Head)
		}
	})
}

func TestOperatorReadsWithoutBeingAMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.makeUsers("", "alice")
		w.makeUsers("acme", "alice")
		id := w.group("", "team", "alice").Conv
		if got := w.history(id); len(got.Messages) != 1 || got.Conv != id {
			t.Errorf("history %v", got)
		}
		for what, c := range map[string]struct {
			q    *petrelv1.AdminGetHistoryRequest
			code im.Code
		}{
			"nothing":        {&petrelv1.AdminGetHistoryRequest{}, im.CodeInvalid},
			"no tenant":      {&petrelv1.AdminGetHistoryRequest{Tenant: "none", History: &petrelv1.GetHistory{Conv: id}}, im.CodeInvalid},
			"another tenant": {&petrelv1.AdminGetHistoryRequest{Tenant: "acme", History: &petrelv1.GetHistory{Conv: id}}, im.CodeNoConversation},
		} {
			_, err := w.admin.GetHistory(context.Background(), connect.NewRequest(c.q))
			w.wantCode(what, err, c.code)
		}
	})
}

// fullOf is a queue in which as many reads of one account wait as may. Those of others
// are read at once.
func fullOf(t *testing.T, a im.Account) *share.Queue {
	full := share.New(share.Options{Workers: 2, PerUser: 1, Waiting: 100, UserWaiting: 1})
	ctx, stop := context.WithCancel(context.Background())
	var ran sync.WaitGroup
	ran.Go(func() { full.Run(ctx) })
	t.Cleanup(func() { stop(); ran.Wait() })
	taken := make(chan struct{})
	full.Add(a, func() { close(taken); <-ctx.Done() })
	<-taken
	full.Add(a, func() {})
	return full
}

// A call that reads a lot waits for the turn of its user, in every protocol.
func TestReadsOfUsersTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.makeUsers("", "alice")
		id := w.group("", "team", "alice").Conv
		alice := im.Account{Tenant: im.DefaultTenant, User: "alice"}
		w.srv.o.Reads = fullOf(t, alice)
		for what, request := range map[string]string{
			"GetHistory":    `{"conv":"` + id + `"}`,
			"Sync":          `{}`,
			"ListReceipts":  `{"conv":"` + id + `"}`,
			"ListReactions": `{"conv":"` + id + `","seq":"1"}`,
			"ListPins":      `{"conv":"` + id + `"}`,
		} {
			_, err := w.srv.Call(t.Context(), user.Identity{Account: alice}, netip.Addr{}, "petrel.v1.MessageService/"+what, true, strings.NewReader(request))
			if im.CodeOf(err) != im.CodeOverloaded {
				t.Errorf("%s: %v, want overloaded", what, err)
			}
		}
	})
}

// A call with an admin key that reads a lot waits for the turn of this key.
func TestReadsOfAdminKeysTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.makeUsers("", "alice")
		id := w.group("", "team", "alice").Conv
		keys, err := w.admin.ListKeys(t.Context(), connect.NewRequest(&petrelv1.ListKeysRequest{}))
		w.must(err)
		key := im.Account{User: im.User("key " + keys.Msg.Keys[0].Id)}
		w.srv.o.Reads, w.srv.o.Audit = fullOf(t, key), audit.New(audit.Options{}, w.store, "a")
		for what, call := range map[string]func() error{
			"GetHistory": func() error {
				_, err := w.admin.GetHistory(t.Context(), connect.NewRequest(&petrelv1.AdminGetHistoryRequest{History: &petrelv1.GetHistory{Conv: id}}))
				return err
			},
			"ListUserConversations": func() error {
				_, err := w.admin.ListUserConversations(t.Context(), connect.NewRequest(&petrelv1.ListUserConversationsRequest{User: "alice"}))
				return err
			},
			"ListUsers": func() error {
				_, err := w.admin.ListUsers(t.Context(), connect.NewRequest(&petrelv1.ListUsersRequest{}))
				return err
			},
			"ListAudit": func() error {
				_, err := w.admin.ListAudit(t.Context(), connect.NewRequest(&petrelv1.ListAuditRequest{}))
				return err
			},
			"VerifyAudit": func() error {
				_, err := w.admin.VerifyAudit(t.Context(), connect.NewRequest(&petrelv1.VerifyAuditRequest{}))
				return err
			},
		} {
			w.wantCode(what, call(), im.CodeOverloaded)
		}
	})
}

// A call names at most 1,000 users, and compares at most 1,000 heads.
func TestListsOfACallAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		token, err := w.admin.MintToken(t.Context(), connect.NewRequest(&petrelv1.MintTokenRequest{User: "alice", Device: &petrelv1.DeviceRef{Id: "d"}}))
		w.must(err)
		id := w.group("", "team", "alice").Conv
		w.srv.o.Audit = audit.New(audit.Options{}, w.store, "a")
		many := func(item string, n int) string { return "[" + strings.Repeat(item+",", n-1) + item + "]" }
		names := fmt.Sprintf(`"users":%s`, many(`"bob"`, 1001))
		for _, c := range []struct{ service, method, body string }{
			{"ConversationService", "CreateGroup", fmt.Sprintf(`{"title":"x",%s}`, names)},
			{"ConversationService", "AddMembers", fmt.Sprintf(`{"conv":%q,%s}`, id, names)},
			{"ConversationService", "RemoveMembers", fmt.Sprintf(`{"conv":%q,%s}`, id, names)},
			{"AdminService", "VerifyAudit", fmt.Sprintf(`{"heads":%s}`, many(`{"node":"a"}`, 1001))},
		} {
			key := token.Msg.AccessToken
			if c.service == "AdminService" {
				key = w.key
			}
			if r := w.curl(c.service, c.method, "Bearer "+key, c.body); r.code != im.CodeInvalid || !strings.Contains(r.err.Message, "1000 entries") {
				t.Errorf("%s of 1001: %d %.200s", c.method, r.status, r.body)
			}
		}
	})
}

// The answer to a change says that the members' lists have it.
func TestChangesAreInTheListsWhenTheyAreAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.makeUsers("", "alice", "bob")
		awaited := 0
		w.srv.o.Settle = func(ctx context.Context, _ im.Key) error {
			awaited++
			return w.inbox.Await(ctx)
		}
		for i := range 20 {
			id := w.group("", fmt.Sprint("group ", i), "alice").Conv
			if got := w.history(w.convs.IDs().Inbox(1, "alice").String()).Head; got != uint64(i+1) || awaited != 2*i+1 {
				t.Fatalf("after %d groups the list has %d entries, and was awaited %d times", i+1, got, awaited)
			}
			if _, err := w.change(id, "", &petrelv1.MemberChange{Added: refs(0, "bob")}); err != nil {
				t.Fatal(err)
			}
			if got := w.history(w.convs.IDs().Inbox(1, "bob").String()).Head; got != uint64(i+1) || awaited != 2*i+2 {
				t.Fatalf("after %d changes the list has %d entries, and was awaited %d times", i+1, got, awaited)
			}
		}
	})
}
