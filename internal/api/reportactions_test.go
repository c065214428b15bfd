package api

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

func (w *contactsWorld) reports(user, body string) im.Code {
	return w.curl("AccountService", "Report", "Bearer "+w.tokens[user], body).code
}

// inMs is a time in Unix milliseconds after d.
func inMs(d time.Duration) uint64 { return uint64(time.Now().Add(d).UnixMilli()) }

// A user reports any message that GetHistory shows, whatever stands before it: a page of history is bounded, so the
// server reads down from the message. Spec: P-14.21.
func TestAMessageAfterLargeOnesIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newContactsWorld(t, "alice", "bob")
		w.t = t
		g := w.group("", "g", "alice", "bob").Conv
		var mentions []string
		for i := range 50 {
			mentions = append(mentions, fmt.Sprintf("%02d%s", i, strings.Repeat("m", 60)))
		}
		for i := range 80 { // 21 of them are more than a page of history
			_, err := w.sendAs("alice", &petrelv1.Send{Conv: g, ClientMsgId: fmt.Sprint(i), Body: &petrelv1.Send_Text{Text: strings.Repeat("x", 900)},
				Rel: &petrelv1.Relations{Mentions: mentions}})
			w.must(err)
		}
		_, err := w.admin.SetReportRules(t.Context(), connect.NewRequest(&petrelv1.SetReportRulesRequest{Context: 20}))
		w.must(err)
		if code := w.reports("bob", fmt.Sprintf(`{"conv":%q,"seq":81,"reason":"REPORT_REASON_SPAM"}`, g)); code != "" {
			t.Fatalf("the report: %s", code)
		}
		r, err := w.admin.GetReport(t.Context(), connect.NewRequest(&petrelv1.GetReportRequest{Report: 1, Context: true, Reason: "to see"}))
		w.must(err)
		if n := len(r.Msg.Context); n == 0 || r.Msg.Context[n-1].Seq != 81 || uint32(n)+r.Msg.LeftOut != 21 {
			t.Errorf("%d messages are kept, %d left out", n, r.Msg.LeftOut)
		}
	})
}

// A repeat of one's own decision is answered as the first time, and an action that was done while another operator closed
// the report is noted. Spec: P-14.23.
func TestAnActionOnAClosedReportIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newContactsWorld(t, "alice", "bob")
		w.t = t
		if code := w.reports("bob", `{"user":"alice","reason":"REPORT_REASON_SPAM"}`); code != "" {
			t.Fatal(code)
		}
		disable := &petrelv1.ResolveReportRequest{Report: 1, Action: petrelv1.ReportAction_REPORT_ACTION_DISABLE, Note: "spam"}
		for range 2 {
			r, err := w.admin.ResolveReport(t.Context(), connect.NewRequest(disable))
			w.must(err)
			if len(r.Msg.Notes) != 1 || r.Msg.ClosedMs == 0 {
				t.Errorf("the report is %v", r.Msg)
			}
		}
		other := &petrelv1.ResolveReportRequest{Report: 1, Action: petrelv1.ReportAction_REPORT_ACTION_DISABLE, Note: "no"}
		if _, err := w.admin.ResolveReport(t.Context(), connect.NewRequest(other)); codeOf(err) != im.CodeReportClosed {
			t.Errorf("another decision: %v", err)
		}
	})
}

// An interrupted mute is repeated with another time, and the devices are told the one that holds. The end of a mute is no
// past time, such as one in seconds. Spec: P-14.23, P-14.24.
func TestAMuteByAReportIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newContactsWorld(t, "alice", "bob")
		w.t = t
		if code := w.reports("bob", `{"user":"alice","reason":"REPORT_REASON_SPAM"}`); code != "" {
			t.Fatal(code)
		}
		mute := func(until uint64) error {
			_, err := w.admin.ResolveReport(t.Context(), connect.NewRequest(&petrelv1.ResolveReportRequest{Report: 1, Action: petrelv1.ReportAction_REPORT_ACTION_MUTE, UntilMs: until}))
			return err
		}
		if err := mute(inMs(time.Hour) / 1000); codeOf(err) != im.CodeInvalid {
			t.Errorf("a time in seconds: %v", err)
		}
		first := inMs(time.Hour)
		_, err := w.admin.MuteUser(t.Context(), connect.NewRequest(&petrelv1.MuteUserRequest{User: "alice", UntilMs: first, RequestId: fmt.Sprintf("report:1:%d", first)}))
		w.must(err)
		time.Sleep(time.Second)
		until := inMs(time.Hour)
		w.must(mute(until))
		u, err := w.users.Get(t.Context(), im.Account{Tenant: im.DefaultTenant, User: "alice"})
		w.must(err)
		if told := string(w.curl("AccountService", "GetSettings", "Bearer "+w.tokens["alice"], `{}`).body); u.Standing.MutedMs != until || !strings.Contains(told, fmt.Sprint(until)) {
			t.Errorf("muted until %d, want %d; devices are told %s", u.Standing.MutedMs, until, told)
		}
	})
}

// A group that was made before a mute is the answer to the repeat of its request. Spec: P-12.4, P-14.24.
func TestARepeatFromBeforeAMuteHasItsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newContactsWorld(t, "alice", "bob")
		w.t = t
		create := func(request string) im.Code {
			return w.curl("ConversationService", "CreateGroup", "Bearer "+w.tokens["alice"], fmt.Sprintf(`{"title":"g","users":["bob"],"requestId":%q}`, request)).code
		}
		if code := create("k1"); code != "" {
			t.Fatal(code)
		}
		_, err := w.admin.MuteUser(t.Context(), connect.NewRequest(&petrelv1.MuteUserRequest{User: "alice", UntilMs: inMs(time.Hour)}))
		w.must(err)
		if again, other := create("k1"), create("k2"); again != "" || other != im.CodeMuted {
			t.Errorf("the repeat: %q, another group: %q", again, other)
		}
	})
}

// Of a deleted account GetUser shows no more than GetUsers does. Spec: P-14.25.
func TestADeletedAccountShowsNoDate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newContactsWorld(t, "alice", "bob")
		w.t = t
		if r := w.curl("AccountService", "DeleteAccount", "Bearer "+w.tokens["alice"], `{}`); r.code != "" {
			t.Fatal(string(r.body))
		}
		if body := string(w.curl("AccountService", "GetUser", "Bearer "+w.tokens["bob"], `{"user":"alice"}`).body); strings.Contains(body, "createdMs") || !strings.Contains(body, `"deleted":true`) {
			t.Errorf("others see %s", body)
		}
	})
}
