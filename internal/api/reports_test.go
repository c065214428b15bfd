package api

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// reportOf has a user report an entry of a conversation, and returns what the report keeps, oldest first.
func (w *contactsWorld) keptBy(user, conv string, seq uint64) (texts []string, leftOut uint32) {
	w.t.Helper()
	if r := w.curl("AccountService", "Report", "Bearer "+w.tokens[user], fmt.Sprintf(`{"conv":%q,"seq":%d,"reason":"REPORT_REASON_SPAM"}`, conv, seq)); r.code != "" {
		w.t.Fatalf("%s reports %d: %s", user, seq, r.body)
	}
	list, err := w.admin.ListReports(w.t.Context(), connect.NewRequest(&petrelv1.ListReportsRequest{Limit: 1}))
	w.must(err)
	got, err := w.admin.GetReport(w.t.Context(), connect.NewRequest(&petrelv1.GetReportRequest{Report: list.Msg.Reports[0].Report, Context: true}))
	w.must(err)
	for _, m := range got.Msg.Context {
		text := m.GetText()
		if len(text) > 20 {
			text = fmt.Sprintf("%.1s*%d", text, len(text))
		}
		texts = append(texts, text)
	}
	return texts, got.Msg.LeftOut
}

// A report keeps as many messages as the rule of the tenant says, as they were; the larger ones leave out older ones.
// Spec: P-14.21.
func TestWhatAReportKeeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newContactsWorld(t, "alice", "bob")
		w.t = t
		g := w.group("", "g", "alice", "bob").Conv
		for i := range 9 {
			_, err := w.sendAs("alice", &petrelv1.Send{Conv: g, ClientMsgId: fmt.Sprint(i), Body: &petrelv1.Send_Text{Text: fmt.Sprint("m", i+2)}})
			w.must(err)
		}
		wants := func(what string, seq uint64, want string) {
			t.Helper()
			if got, _ := w.keptBy("bob", g, seq); strings.Join(got, " ") != want {
				t.Errorf("%s: %q, want %q", what, got, want)
			}
		}
		wants("5 before it", 9, "m4 m5 m6 m7 m8 m9")
		wants("all that there are", 3, " m2 m3") // the first entry has made the group
		rule := func(n uint32) {
			_, err := w.admin.SetReportRules(t.Context(), connect.NewRequest(&petrelv1.SetReportRulesRequest{Context: n}))
			w.must(err)
		}
		rule(1)
		wants("by the rule", 8, "m7 m8")
		rule(0)
		wants("nothing", 7, "")
		_, err := w.admin.SetReportRules(t.Context(), connect.NewRequest(&petrelv1.SetReportRulesRequest{Context: 21}))
		w.wantCode("too many", err, im.CodeInvalid)
		rule(20)
		for i := range 80 {
			_, err := w.sendAs("alice", &petrelv1.Send{Conv: g, ClientMsgId: fmt.Sprint("l", i), Body: &petrelv1.Send_Data{Data: make([]byte, 1000)}})
			w.must(err)
		}
		if got, out := w.keptBy("bob", g, 90); len(got) != 21 || out != 0 {
			t.Errorf("21 messages of 1,000 bytes: %d are kept, %d left out", len(got), out)
		}
	})
}

// The reported message is kept before those that came earlier, as much as fits into 64 KiB. Spec: P-14.21.
func TestAReportIsBounded(t *testing.T) {
	var all []*petrelv1.Message
	for i := range 5 {
		all = append(all, &petrelv1.Message{Seq: uint64(i + 1), Body: &petrelv1.Message_Data{Data: make([]byte, 30_000)}})
	}
	kept, err := keep(all)
	if err != nil || len(kept.Messages) != 2 || kept.LeftOut != 3 {
		t.Fatalf("of 5 messages of 30,000 bytes %d are kept, %d left out, %v", len(kept.Messages), kept.LeftOut, err)
	}
	last := &petrelv1.Message{}
	if err := proto.Unmarshal(kept.Messages[1], last); err != nil || last.Seq != 5 {
		t.Errorf("the newest is %d, %v", last.Seq, err)
	}
}

// A closed report tells what was done; a second operator who decides too late is told so, and does nothing twice.
// Spec: P-14.23.
func TestAReportIsClosedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newContactsWorld(t, "alice", "bob")
		w.t = t
		g := w.group("", "g", "alice", "bob").Conv
		_, err := w.sendAs("alice", &petrelv1.Send{Conv: g, ClientMsgId: "1", Body: &petrelv1.Send_Text{Text: "buy boats"}})
		w.must(err)
		w.keptBy("bob", g, 2)
		resolve := func(a petrelv1.ReportAction, until uint64, note string) (*petrelv1.Report, error) {
			r, err := w.admin.ResolveReport(t.Context(), connect.NewRequest(&petrelv1.ResolveReportRequest{Report: 1, Action: a, UntilMs: until, Note: note}))
			if err != nil {
				return nil, err
			}
			return r.Msg, nil
		}
		for what, c := range map[string]struct {
			action petrelv1.ReportAction
			until  uint64
			note   string
		}{
			"no action":      {0, 0, ""},
			"an unknown one": {6, 0, ""},
			"an empty note":  {petrelv1.ReportAction_REPORT_ACTION_NOTE, 0, " "},
			"a long note":    {petrelv1.ReportAction_REPORT_ACTION_NOTE, 0, strings.Repeat("x", 501)},
			"no end":         {petrelv1.ReportAction_REPORT_ACTION_MUTE, 0, ""},
			"an end":         {petrelv1.ReportAction_REPORT_ACTION_RECALL, 1, ""},
		} {
			_, err := resolve(c.action, c.until, c.note)
			w.wantCode(what, err, im.CodeInvalid)
		}
		_, err = resolve(petrelv1.ReportAction_REPORT_ACTION_NOTE, 0, "asks a colleague")
		w.must(err)
		r, err := resolve(petrelv1.ReportAction_REPORT_ACTION_RECALL, 0, "advertising")
		w.must(err)
		if len(r.Notes) != 2 || r.ClosedMs == 0 || r.Action != petrelv1.ReportAction_REPORT_ACTION_RECALL || r.Notes[1].Text != "advertising" {
			t.Errorf("closed: %v", r)
		}
		_, err = resolve(petrelv1.ReportAction_REPORT_ACTION_DISABLE, 0, "")
		w.wantCode("too late", err, im.CodeReportClosed)
		if u, err := w.users.Get(t.Context(), im.Account{Tenant: im.DefaultTenant, User: "alice"}); err != nil || u.Disabled {
			t.Errorf("alice after a refused action: %+v, %v", u, err)
		}
		if h := w.history(g); h.Messages[1].RecalledBy == 0 {
			t.Errorf("the message is still there: %v", h)
		}
		got, err := w.admin.GetReport(t.Context(), connect.NewRequest(&petrelv1.GetReportRequest{Report: 1, Context: true}))
		w.must(err)
		if n := len(got.Msg.Context); n != 2 || got.Msg.Context[1].GetText() != "buy boats" {
			t.Errorf("after the recall the report keeps %v", got.Msg.Context)
		}
	})
}

// Reading the copies of a report is recorded with its reason before the answer; its other parts are not. What is done
// about a report is recorded with the reported message, and no words of anybody. Spec: P-14.22, P-14.23.
func TestReportsAreRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, stop := newAuditedWorld(t)
		w.makeUsers("", "alice", "bob")
		g := w.group("", "g", "alice", "bob").Conv
		_, err := w.sendAs("bob", &petrelv1.Send{Conv: g, ClientMsgId: "1", Body: &petrelv1.Send_Text{Text: secretText}})
		w.must(err)
		token, err := w.admin.MintToken(t.Context(), connect.NewRequest(&petrelv1.MintTokenRequest{User: "alice", Device: &petrelv1.DeviceRef{Id: "d"}}))
		w.must(err)
		if r := w.curl("AccountService", "Report", "Bearer "+token.Msg.AccessToken, fmt.Sprintf(`{"conv":%q,"seq":2,"reason":"REPORT_REASON_SPAM","text":%q}`, g, secretText)); r.code != "" {
			t.Fatal(r.body)
		}
		show := func(context bool) error {
			_, err := w.admin.GetReport(t.Context(), connect.NewRequest(&petrelv1.GetReportRequest{Report: 1, Context: context, Reason: "a complaint"}))
			return err
		}
		w.must(show(false))
		w.must(show(true))
		_, err = w.admin.ResolveReport(t.Context(), connect.NewRequest(&petrelv1.ResolveReportRequest{Report: 1, Action: petrelv1.ReportAction_REPORT_ACTION_RECALL, Note: secretText}))
		w.must(err)
		stop() // nothing is written any more
		w.must(show(false))
		if err := show(true); err == nil {
			t.Error("the copies are shown without a record")
		}
		var got []string
		for _, line := range w.records() {
			if strings.Contains(line, "Report") {
				got = append(got, line)
			}
			if strings.Contains(line, secretText) {
				t.Errorf("a record has words of somebody: %s", line)
			}
		}
		want := []string{
			"GetReport by setup report=1 reason=a complaint context=true reported=bob conv=" + g + " seq=2",
			"ResolveReport by setup report=1 action=REPORT_ACTION_RECALL reported=bob conv=" + g + " seq=2",
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
		}
	})
}
