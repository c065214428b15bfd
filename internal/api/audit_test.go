package api

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/petrel-im/petrel/internal/audit"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// newAuditedWorld is a world whose server keeps an audit log; stop writes the rest of it.
func newAuditedWorld(t *testing.T) (w *world, stop func()) {
	w = newWorld(t)
	w.audit = audit.New(audit.Options{}, w.store, "local")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.audit.Run(ctx) }()
	var once bool
	stop = func() {
		if !once {
			once = true
			cancel()
			w.must(<-ended)
		}
	}
	t.Cleanup(stop)
	w.serve()
	w.admin = w.as(w.key)
	return w, stop
}

// records are those of the audit log, one in a line.
func (w *world) records() (lines []string) {
	w.t.Helper()
	page, _, err := w.audit.List(context.Background(), audit.Query{})
	w.must(err)
	for _, r := range page {
		_, name, _ := strings.Cut(r.Event, "/")
		line := strings.TrimSpace(name + " " + r.Code)
		if r.Count > 0 {
			line += fmt.Sprintf(" x%d", r.Count)
		}
		for _, by := range []string{r.KeyName, r.User} {
			if by != "" {
				line += " by " + by
			}
		}
		for _, d := range r.Details {
			line += " " + d.Name + "=" + d.Value
		}
		if r.Address != "127.0.0.1" {
			w.t.Errorf("%s from %q", line, r.Address)
		}
		lines = append(lines, line)
	}
	return lines
}

const secretText = "a text that is nobody's business"

// Spec: P-10.9.
func TestWhatOperatorsAndStrangersDoIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, stop := newAuditedWorld(t)
		const pw = "correct horse battery"
		w.makeUsers("", "alice", "bob")
		g := w.group("", "", "alice", "bob")
		_, err := w.admin.SendAs(t.Context(), connect.NewRequest(&petrelv1.SendAsRequest{From: "alice", Send: &petrelv1.Send{Conv: g.Conv, ClientMsgId: "m1", Body: &petrelv1.Send_Text{Text: secretText}}}))
		w.must(err)
		_, err = w.admin.GetHistory(t.Context(), connect.NewRequest(&petrelv1.AdminGetHistoryRequest{History: &petrelv1.GetHistory{Conv: g.Conv}}))
		w.must(err)
		_, err = w.admin.SetPassword(t.Context(), connect.NewRequest(&petrelv1.SetPasswordRequest{User: "alice", Password: pw}))
		w.must(err)
		key, err := w.admin.CreateKey(t.Context(), keyRequest("ci", "request-1"))
		w.must(err)
		_, err = w.admin.CreateKey(t.Context(), keyRequest("ci", "request-1")) // a repeat: nothing happens
		w.must(err)
		_, err = w.admin.SetLimits(t.Context(), connect.NewRequest(&petrelv1.ServerLimits{SendsPerS: 5}))
		w.must(err)
		_, err = w.admin.ListKeys(t.Context(), connect.NewRequest(&petrelv1.ListKeysRequest{})) // reads nobody's messages
		w.must(err)
		login := func(user, password string) reply {
			return w.curl("AuthService", "Login", "", fmt.Sprintf(`{"user":%q,"password":%q,"device":{"id":"phone-1"}}`, user, password))
		}
		if r := login("alice", pw); r.status != 200 {
			t.Fatal(r.body)
		}
		for _, r := range []reply{login("alice", "wrong password"), login("my secret password", pw), login("typed.in.the.wrong.field", pw)} {
			if r.code != im.CodeBadCredentials {
				t.Error(r.body)
			}
		}
		_, err = w.as(key.Msg.Key).RevokeKey(t.Context(), connect.NewRequest(&petrelv1.RevokeKeyRequest{Id: "0011223344556677"}))
		w.wantCode("a key without the scope", err, im.CodeForbidden)
		_, err = w.admin.DisableUser(t.Context(), connect.NewRequest(&petrelv1.DisableUserRequest{User: "bob"}))
		w.must(err)
		stop()
		want := []string{
			"CreateUsers by setup users=alice,bob",
			"CreateGroup by setup members=alice:ROLE_UNSPECIFIED,bob:ROLE_UNSPECIFIED conv=" + g.Conv,
			"SendAs by setup from=alice send.conv=" + g.Conv,
			"GetHistory by setup history.conv=" + g.Conv,
			"SetPassword by setup user=alice",
			"CreateKey by setup name=ci scopes=users id=" + key.Msg.Info.Id,
			"SetLimits by setup sends_per_s=5 before.sends_per_s=1 after.sends_per_s=5 before.sends_per_s on n2,n3=2 after.sends_per_s on n2,n3=5 before.answer of n4,n5= after.answer of n4,n5=none", // what this world answers
			"Login user=alice device.id=phone-1",
			"Login bad_credentials user=alice device.id=phone-1",
			"Login bad_credentials x2 device.id=phone-1",
			"RevokeKey forbidden by ci",
			"DisableUser by setup user=bob before.disabled=no after.disabled=yes",
		}
		got := w.records()
		slices.Sort(got)
		slices.Sort(want)
		for i := range want {
			want[i] = strings.ReplaceAll(want[i], ":ROLE_UNSPECIFIED", "")
		}
		if !slices.Equal(got, want) {
			t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
		}
		w.must(w.store.Records(t.Context(), store.Audit, 0, nil, func(_, value []byte) bool {
			for _, s := range []string{pw, "wrong password", "my secret", "typed.in", secretText, key.Msg.Key, w.key, "request-1"} {
				if strings.Contains(string(value), s) {
					t.Errorf("a record has %q in it: %q", s, value)
				}
			}
			return true
		}))
	})
}

// A call of an operator is answered when its record is durable. If it cannot be recorded, it fails.
func TestActThatCannotBeRecordedIsNotAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, stop := newAuditedWorld(t)
		w.makeUsers("", "alice")
		stop() // nothing is written any more
		_, err := w.admin.DisableUser(t.Context(), connect.NewRequest(&petrelv1.DisableUserRequest{User: "alice"}))
		if codeOf(err) == "" {
			t.Errorf("got %v, want an error", err)
		}
		_, err = w.admin.GetHistory(t.Context(), connect.NewRequest(&petrelv1.AdminGetHistoryRequest{History: &petrelv1.GetHistory{Conv: im.NewGroupID().String()}}))
		w.wantCode("a read that is refused anyway", err, im.CodeNoConversation)
	})
}

// Every field of a request that is recorded is either told or one of these, so nobody
// adds a secret to a request without a decision.
func TestRecordsTellNothingElse(t *testing.T) {
	untold := []string{
		"code", "password", "old_password", "new_password", "token", "refresh_token", "invitation", "request_id", "secret", "digits", // secrets
		"display_name", "about", "handle", "value", "title", "type", "client_msg_id", "key", "needs", "mentions", "folder", "fault", "note", // what people and applications call things, and say
	}
	bodies := []protoreflect.FullName{"petrel.v1.Send"} // of messages: told are only conv and user
	seen := 0
	var check func(method string, m protoreflect.MessageDescriptor)
	check = func(method string, m protoreflect.MessageDescriptor) {
		for i := range m.Fields().Len() {
			f := m.Fields().Get(i)
			switch {
			case f.ContainingOneof() != nil && slices.Contains(bodies, m.FullName()):
			case f.Kind() == protoreflect.MessageKind:
				check(method, f.Message())
			case f.Kind() != protoreflect.StringKind && f.Kind() != protoreflect.BytesKind:
			case !mayTell(f) && !slices.Contains(untold, string(f.Name())) && f.FullName() != "petrel.v1.DeviceRef.name":
				t.Errorf("%s: %s is neither told nor among the texts that are not", method, f.FullName())
			case mayTell(f) && slices.Contains(untold, string(f.Name())):
				t.Errorf("%s: %s is told", method, f.FullName())
			}
			seen++
		}
	}
	for name, m := range table {
		if m.traced() == never {
			continue
		}
		service, method, _ := strings.Cut(name, "/")
		d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service))
		if err != nil {
			t.Fatal(err)
		}
		check(name, d.(protoreflect.ServiceDescriptor).Methods().ByName(protoreflect.Name(method)).Input())
	}
	if seen < 50 {
		t.Errorf("only %d fields were looked at", seen)
	}
}

func TestLongListsAreCut(t *testing.T) {
	q := &petrelv1.CreateUsersRequest{Tenant: strings.Repeat("海", 1000)}
	for i := range 1000 {
		q.Users = append(q.Users, fmt.Sprint("user", i))
	}
	for _, d := range details(q) {
		if len(d.Value) > 600 || !strings.HasPrefix(d.Value, "user0,user1,") && d.Name == "users" || strings.ContainsRune(d.Value, '\uFFFD') {
			t.Errorf("%s has %d bytes: %s", d.Name, len(d.Value), d.Value)
		}
	}
}

// A forward on behalf of a user is a read: each has a record of its own, with the reason. A
// reason without a letter is refused. Spec: P-10.9.
func TestForwardForSomebodyIsARead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, stop := newAuditedWorld(t)
		w.makeUsers("", "alice", "bob")
		g := w.group("", "", "alice", "bob")
		_, err := w.sendAs("alice", &petrelv1.Send{Conv: g.Conv, ClientMsgId: "m1", Body: &petrelv1.Send_Text{Text: secretText}})
		w.must(err)
		forward := func(id, reason string) error {
			_, err := w.admin.SendAs(t.Context(), connect.NewRequest(&petrelv1.SendAsRequest{From: "alice", Reason: reason, Send: &petrelv1.Send{
				User: "alice", ClientMsgId: id, Rel: &petrelv1.Relations{ForwardOf: &petrelv1.Ref{Conv: g.Conv, Seq: 2}},
			}}))
			return err
		}
		for _, nothing := range []string{" ", "\u200b", "...", strings.Repeat("a", 201)} {
			w.wantCode("a reason that says nothing", forward("f0", nothing), im.CodeInvalid)
		}
		w.must(forward("f1", "ticket 7"))
		w.must(forward("f2", "ticket 7"))
		stop()
		got := 0
		for _, line := range w.records() {
			if line == "SendAs by setup from=alice send.user=alice send.rel.forward_of.conv="+g.Conv+" send.rel.forward_of.seq=2 reason=ticket 7" {
				got++
			}
		}
		if got != 2 {
			t.Errorf("%d records of two forwards: %q", got, w.records())
		}
	})
}
