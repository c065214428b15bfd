package authz

import (
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/internal/imtest"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

const spam = petrelv1.ReportReason_REPORT_REASON_SPAM

// report has the member report the message of the owner, and returns the number of the report.
func (w *world) report() uint64 {
	w.t.Helper()
	w.reportAs("member", &petrelv1.ReportRequest{Conv: w.conv, Seq: w.ownersMessage, Reason: spam})
	return w.newestReport().Report
}

// reportAs returns what a user gets who reports.
func (w *world) reportAs(user string, q *petrelv1.ReportRequest) string {
	w.t.Helper()
	p := &prober{t: w.t, srv: w.srv, credential: w.mint("", user), http: w.srv.HTTP()}
	return p.call(account+"Report", q)
}

// newestReport is the newest one of the owner, with what it keeps.
func (w *world) newestReport() *petrelv1.Report {
	w.t.Helper()
	list, err := w.srv.Admin.ListReports(w.t.Context(), connect.NewRequest(&petrelv1.ListReportsRequest{User: w.name("owner"), Limit: 1}))
	if err != nil || len(list.Msg.Reports) == 0 {
		w.t.Fatalf("reports of the owner: %v, %v", list, err)
	}
	r, err := w.srv.Admin.GetReport(w.t.Context(), connect.NewRequest(&petrelv1.GetReportRequest{Report: list.Msg.Reports[0].Report, Context: true}))
	if err != nil {
		w.t.Fatal(err)
	}
	return r.Msg
}

// A user who cannot read a message does not report it, and learns nothing about it: a former member of what came later, an
// outsider of anything, a blocker of what the block hides. Spec: P-14.20.
func TestWhoReportsAMessage(t *testing.T) {
	srv := imtest.Start(t, imtest.Options{})
	w := newWorld(t, srv, "member")
	ask := func(user, conv string, seq uint64) string {
		answer := w.reportAs(user, &petrelv1.ReportRequest{Conv: conv, Seq: seq, Reason: spam})
		for _, code := range []string{"no_target", "no_conversation", "invalid"} {
			if strings.Contains(answer, `"`+code+`"`) {
				return code
			}
		}
		return answer[:3]
	}
	last := w.sendAs("owner")
	w.direct("owner", "member")
	w.block("member", "owner")
	d := w.direct("owner", "member")
	for what, x := range map[string]struct{ got, want string }{
		"a member":                     {ask("member", w.conv, last), "200"},
		"a former member, before":      {ask("left", w.conv, w.ownersMessage), "200"},
		"a former member, later":       {ask("left", w.conv, last), "no_target"},
		"a former member, never":       {ask("left", w.conv, last+1000), "no_target"},
		"a member, never":              {ask("member", w.conv, last+1000), "no_target"},
		"an outsider":                  {ask("other", w.conv, last), "no_conversation"},
		"an outsider, no conversation": {ask("other", "g"+w.conv[1:20]+"A", last), "no_conversation"},
		"what made the group":          {ask("member", w.conv, 1), "no_target"},
		"before a block":               {ask("member", d, 1), "200"},
		"hidden by a block":            {ask("member", d, 2), "no_target"},
		"hidden, for its sender":       {ask("owner", d, 2), "invalid"},
	} {
		if x.got != x.want {
			t.Errorf("%s: %s, want %s", what, x.got, x.want)
		}
	}
	for _, m := range w.newestReport().Context {
		if m.Conv == d && m.Seq == 2 {
			t.Errorf("a report keeps what the block hides: %v", m)
		}
	}
}

// A key reads and closes reports with the scope messages, of its own tenant only. To mute or disable, it needs the
// scope users too. Spec: P-14.23.
func TestWhoResolvesAReport(t *testing.T) {
	srv := imtest.Start(t, imtest.Options{})
	for _, c := range []struct {
		tenant string
		scopes []string
		action petrelv1.ReportAction
		want   string
	}{
		{"", []string{"users"}, petrelv1.ReportAction_REPORT_ACTION_DISMISS, "forbidden"},
		{"acme", []string{"messages"}, petrelv1.ReportAction_REPORT_ACTION_DISMISS, "forbidden"},
		{"", []string{"messages"}, petrelv1.ReportAction_REPORT_ACTION_DISABLE, "forbidden"},
		{"", []string{"messages"}, petrelv1.ReportAction_REPORT_ACTION_RECALL, "200"},
		{"", []string{"messages", "users"}, petrelv1.ReportAction_REPORT_ACTION_DISABLE, "200"},
	} {
		w := newWorld(t, srv, "member")
		key, err := srv.Admin.CreateKey(t.Context(), connect.NewRequest(&petrelv1.CreateKeyRequest{Name: "moderator", Tenant: c.tenant, Scopes: c.scopes}))
		if err != nil {
			t.Fatal(err)
		}
		p := &prober{t: t, srv: srv, credential: key.Msg.Key, http: srv.HTTP()}
		got := p.call(admin+"ResolveReport", &petrelv1.ResolveReportRequest{Report: w.report(), Action: c.action})
		if !strings.Contains(got, c.want) {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
