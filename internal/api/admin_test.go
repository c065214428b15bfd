package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// methods are the methods of the operator's API, of the schema.
func methods(t *testing.T) []string {
	m := petrelv1.File_petrel_v1_admin_proto.Services().ByName("AdminService").Methods()
	var all []string
	for i := range m.Len() {
		all = append(all, string(m.Get(i).Name()))
	}
	if len(all) < 9 {
		t.Fatalf("methods %v", all)
	}
	return all
}

// Spec: P-10.2.
func TestEveryMethodNeedsAnAdminKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		issued, err := w.users.Create(context.Background(), "", []im.User{"alice"})
		w.must(err)
		for _, method := range methods(t) {
			for what, auth := range map[string]string{
				"no key": "", "empty key": "Bearer ", "wrong key": "Bearer " + w.key[:len(w.key)-1] + "!", "other scheme": "Basic " + w.key,
				"an access token": "Bearer " + issued[0].Token, "key in another header's form": "token=" + w.key, "prefix only": "Bearer pk_",
			} {
				for body, size := range map[string]string{"{}": "empty", "{": "malformed", `{"tenant":"` + strings.Repeat("x", maxRequestBytes) + `"}`: "large"} {
					r := w.curl("AdminService", method, auth, body)
					if r.status != http.StatusUnauthorized || r.code != im.CodeUnauthenticated || r.err.Code != "unauthenticated" || r.detail(t).GetCode() != string(im.CodeUnauthenticated) {
						t.Errorf("%s with %s and a body that is %s: %d %s %.200s", method, what, size, r.status, r.code, r.body)
					}
				}
			}
			if r := w.curl("AdminService", method, "Bearer "+w.key, "{}"); r.status == http.StatusUnauthorized {
				t.Errorf("%s with the key: %d %s", method, r.status, r.body)
			}
		}
		if ok, err := w.users.Exists(context.Background(), im.Account{Tenant: 1, User: "x"}); ok || err != nil {
			t.Errorf("%t, %v", ok, err)
		}
	})
}

// Spec: P-10.1.
func TestSetupNeedsNoKeyAndWorksOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := w.curl("SetupService", "Redeem", "", `{"code":"wrong"}`)
		if r.status != http.StatusForbidden || r.code != im.CodeSetupClosed || w.redeemed != 1 {
			t.Errorf("wrong code: %d %s %s, redeemed %d times", r.status, r.code, r.body, w.redeemed)
		}
		r = w.curl("SetupService", "Redeem", "Bearer "+w.key, `{"code":""}`)
		if r.code != im.CodeSetupClosed {
			t.Errorf("no code: %d %s %s", r.status, r.code, r.body)
		}
	})
}

// An error carries the catalogue's code in a header and all of it in a detail.
// Spec: P-10.3.
func TestErrorsCarryTheCode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for _, c := range []struct {
			method, body, connect string
			status                int
			code                  im.Code
		}{
			{"CreateUsers", `{"users":["a b"]}`, "invalid_argument", 400, im.CodeInvalid},
			{"RevokeTokens", `{"user":"nobody"}`, "not_found", 404, im.CodeNoUser},
			{"GetHistory", `{"history":{"conv":"garbage"}}`, "not_found", 404, im.CodeNoConversation},
		} {
			r := w.curl("AdminService", c.method, "Bearer "+w.key, c.body)
			d := r.detail(t)
			if r.status != c.status || r.code != c.code || r.err.Code != c.connect || r.err.Message == "" {
				t.Errorf("%s %s: %d %s %s", c.method, c.body, r.status, r.code, r.body)
			}
			if d.Code != string(c.code) || d.Message != r.err.Message || d.Hint != c.code.Info().Hint || d.Settled != c.code.Info().Settled {
				t.Errorf("%s %s: detail %v", c.method, c.body, d)
			}
		}
	})
}

func TestEveryCodeHasAConnectCodeOfItsStatus(t *testing.T) {
	for _, c := range []struct {
		code im.Code
		want connect.Code
	}{
		{im.CodeInvalid, connect.CodeInvalidArgument}, {im.CodeUnauthenticated, connect.CodeUnauthenticated}, {im.CodeForbidden, connect.CodePermissionDenied},
		{im.CodeNotMember, connect.CodePermissionDenied}, {im.CodeNoUser, connect.CodeNotFound}, {im.CodeConflict, connect.CodeAborted}, {im.CodeTooOld, connect.CodeOutOfRange},
		{im.CodeTooLarge, connect.CodeInvalidArgument}, {im.CodeRateLimited, connect.CodeResourceExhausted}, {im.CodeUnsupported, connect.CodeUnimplemented},
		{im.CodeOverloaded, connect.CodeUnavailable}, {im.CodeDiskFull, connect.CodeResourceExhausted}, {im.CodeInternal, connect.CodeInternal},
	} {
		if got := connect.CodeOf(asConnect(&im.Error{Code: c.code})); got != c.want {
			t.Errorf("%s is %s, want %s", c.code, got, c.want)
		}
	}
	s := New(Options{})
	if got := s.fail(context.Background(), connect.Spec{}, nil, fmt.Errorf("wrapped: %w", &im.Error{Code: im.CodeBehind, Head: 7})); codeOf(got) != im.CodeBehind {
		t.Errorf("a wrapped error has the code %q", codeOf(got))
	}
}

// The cause of an internal error stays in the log. Spec: P-9.4.
func TestInternalErrorsNameTheLineOfTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.store.fail(errors.New("broken disk"))
		r := w.curl("AdminService", "GetHistory", "Bearer "+w.key, `{"history":{"conv":"`+someStore.KeyedGroup(1, "x").String()+`"}}`)
		d := r.detail(t)
		if r.status != http.StatusInternalServerError || r.code != im.CodeInternal || d.GetRequestId() == "" || strings.Contains(r.body, "broken disk") {
			t.Errorf("%d %s %s, detail %v; want %s, a request id and no cause", r.status, r.code, r.body, d, im.CodeInternal)
		}
		if log := w.log.String(); !strings.Contains(log, "broken disk") || !strings.Contains(log, d.GetRequestId()) || strings.Contains(log, w.key) {
			t.Errorf("log: %s; want the cause and the request id %s", log, d.GetRequestId())
		}
	})
}

func TestRequestsAreBoundedInSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		body := func(n int) string { return `{"users":["` + strings.Repeat("x", n) + `"]}` }
		if r := w.curl("AdminService", "CreateUsers", "Bearer "+w.key, body(maxRequestBytes-20)); r.code != im.CodeInvalid {
			t.Errorf("a request below the limit: %d %s %.200s", r.status, r.code, r.body)
		}
		if r := w.curl("AdminService", "CreateUsers", "Bearer "+w.key, body(maxRequestBytes)); r.status != http.StatusRequestEntityTooLarge || r.code != im.CodeTooLarge || r.detail(t).Code != string(im.CodeTooLarge) {
			t.Errorf("a request above the limit: %d %s %.200s", r.status, r.code, r.body)
		}
		if r := w.curl("AdminService", "CreateUsers", "Bearer "+w.key, "{"); r.status != http.StatusBadRequest || r.code != im.CodeInvalid || r.detail(t).Code != string(im.CodeInvalid) || !strings.Contains(r.err.Message, "unexpected") {
			t.Errorf("a malformed request: %d %s %.200s", r.status, r.code, r.body)
		}
	})
}

func TestCreateUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r, err := w.admin.CreateUsers(context.Background(), connect.NewRequest(&petrelv1.CreateUsersRequest{Tenant: "acme", Users: []string{"alice", "bob", "alice"}}))
		w.must(err)
		for i, want := range []struct {
			user    string
			created bool
		}{{"alice", true}, {"bob", true}, {"alice", false}} {
			got := r.Msg.Tokens[i]
			id, err := w.users.Authenticate(context.Background(), got.Token)
			if got.User != want.user || got.Created != want.created || err != nil || string(id.Account.User) != want.user {
				t.Errorf("user %d: %v, token of %v, %v", i, got, id, err)
			}
		}
		many := make([]string, maxUsers+1)
		for i := range many {
			many[i] = fmt.Sprint("user", i)
		}
		for what, users := range map[string][]string{"nobody": nil, "too many": many, "not an id": {"alice", "a/b"}, "empty": {""}} {
			_, err := w.admin.CreateUsers(context.Background(), connect.NewRequest(&petrelv1.CreateUsersRequest{Users: users}))
			w.wantCode(what, err, im.CodeInvalid)
		}
		_, err = w.admin.CreateUsers(context.Background(), connect.NewRequest(&petrelv1.CreateUsersRequest{Tenant: "a.b", Users: []string{"alice"}}))
		w.wantCode("tenant with a dot", err, im.CodeInvalid)
		_, err = w.admin.CreateUsers(context.Background(), connect.NewRequest(&petrelv1.CreateUsersRequest{Users: many[:maxUsers]}))
		w.must(err)
	})
}

// The tokens are void before the sessions are looked for, see session. Spec: P-3.5.
func TestRevokeTokensEndsTokensThenSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		issued, err := w.users.Create(context.Background(), "acme", []im.User{"alice"})
		w.must(err)
		acme, err := w.users.Tenant(context.Background(), "acme")
		w.must(err)
		inner := w.srv.o.CloseUser
		w.srv.o.CloseUser = func(ctx context.Context, a im.Account, code im.Code) (int, error) {
			if _, err := w.users.Authenticate(ctx, issued[0].Token); err == nil {
				t.Error("the sessions are closed while the token is good")
			}
			return inner(ctx, a, code)
		}
		r, err := w.admin.RevokeTokens(context.Background(), connect.NewRequest(&petrelv1.RevokeTokensRequest{Tenant: "acme", User: "alice"}))
		w.must(err)
		if r.Msg.Sessions != 3 || len(w.closed) != 1 || w.closed[0] != (im.Account{Tenant: acme, User: "alice"}) {
			t.Errorf("%d sessions of %v", r.Msg.Sessions, w.closed)
		}
		_, err = w.admin.RevokeTokens(context.Background(), connect.NewRequest(&petrelv1.RevokeTokensRequest{User: "alice"}))
		w.wantCode("a user of another tenant", err, im.CodeNoUser)
		_, err = w.admin.RevokeTokens(context.Background(), connect.NewRequest(&petrelv1.RevokeTokensRequest{Tenant: "none", User: "alice"}))
		w.wantCode("no tenant", err, im.CodeInvalid)
		if len(w.closed) != 1 {
			t.Errorf("sessions of %v were closed", w.closed)
		}
	})
}

func TestLimitsAndStatsArePassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l, err := w.admin.GetLimits(context.Background(), connect.NewRequest(&petrelv1.GetLimitsRequest{}))
		w.must(err)
		s, err := w.admin.SetLimits(context.Background(), connect.NewRequest(&petrelv1.ServerLimits{WindowSends: 5}))
		w.must(err)
		st, err := w.admin.GetStats(context.Background(), connect.NewRequest(&petrelv1.GetStatsRequest{}))
		w.must(err)
		c, err := w.admin.Compact(context.Background(), connect.NewRequest(&petrelv1.CompactRequest{}))
		w.must(err)
		for _, bad := range []*petrelv1.ServerLimits{{OutboxBytes: maxLimit + 1}, {Connections: 1 << 62}, {WindowSends: maxWindowSends + 1}} {
			_, err := w.admin.SetLimits(context.Background(), connect.NewRequest(bad))
			w.wantCode("an absurd limit", err, im.CodeInvalid)
		}
		if d := cmp.Diff([]string{"n2", "n4", "n5"}, s.Msg.Silent); d != "" {
			t.Errorf("silent in either question (-want +got):\n%s", d)
		}
		if l.Msg.Nodes[0].Limits.Connections != 7 || s.Msg.Nodes[0].Limits.Connections != 7 || st.Msg.Commits != 9 || c.Msg == nil {
			t.Errorf("limits %v, changed %v, stats %v, compacted %v", l.Msg, s.Msg, st.Msg, c.Msg)
		}
	})
}

// Spec: P-9.2.
func TestFullDiskIsToldAsSuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.makeUsers("", "alice", "bob")
		id := w.group("", "team", "alice").Conv
		w.mu.Lock()
		w.free = 0
		w.mu.Unlock()
		eventually.True(t, "the store notices", func() bool { return w.store.Writable() != nil })
		_, err := w.admin.CreateUsers(context.Background(), connect.NewRequest(&petrelv1.CreateUsersRequest{Users: []string{"carol"}}))
		w.wantCode("create users", err, im.CodeDiskFull)
		_, err = w.admin.RevokeTokens(context.Background(), connect.NewRequest(&petrelv1.RevokeTokensRequest{User: "alice"}))
		w.wantCode("revoke", err, im.CodeDiskFull)
		_, err = w.change(id, "r", &petrelv1.MemberChange{Added: refs(0, "bob")})
		w.wantCode("change members", err, im.CodeDiskFull)
		if got := len(w.history(id).Messages); got != 1 {
			t.Errorf("reads go on: %d entries", got)
		}
	})
}
