package api

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/report"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// maxReportText bounds the text of a report and of a note, in characters.
const maxReportText = 500

// Report tells the operators of a user or a message. Spec: P-14.20.
func (s *Server) Report(ctx context.Context, r *petrelv1.ReportRequest) (*petrelv1.ReportResponse, error) {
	switch {
	case (r.User == "") == (r.Conv == "") || (r.Conv == "") != (r.Seq == 0):
		return nil, im.Errorf(im.CodeInvalid, "a report names a user, or a message by conv and seq")
	case r.Reason <= petrelv1.ReportReason_REPORT_REASON_UNSPECIFIED ||
		r.Reason > petrelv1.ReportReason_REPORT_REASON_OTHER:
		return nil, im.Errorf(im.CodeInvalid, "there is no reason %d", r.Reason)
	}
	if err := checkText("text", r.Text); err != nil {
		return nil, err
	}
	a := identity(ctx).Account
	rec := &storepb.Report{Reporter: string(a.User), User: r.User, Seq: r.Seq, Reason: uint32(r.Reason),
		Text: strings.TrimSpace(r.Text)}
	kept := &storepb.ReportContext{}
	var err error
	if r.User != "" {
		err = s.mayReport(ctx, a, im.User(r.User))
	} else {
		kept, err = s.reported(ctx, a, r, rec)
	}
	if err == nil {
		err = s.store(ctx, rec.SizeVT()+kept.SizeVT())
	}
	if err == nil {
		err = s.o.Reports.File(ctx, a.Tenant, rec, kept)
	}
	return &petrelv1.ReportResponse{}, err
}

// mayReport refuses a report of the caller, and of a user who does not exist. A report of a stranger is a look-up, as
// its answer tells whether they exist. Codes: invalid, no_user, rate_limited. Spec: P-14.4.
func (s *Server) mayReport(ctx context.Context, a im.Account, other im.User) error {
	if err := other.Check(); err != nil {
		return err
	}
	if other == a.User {
		return im.Errorf(im.CodeInvalid, "nobody reports themselves")
	}
	known, err := s.users.Acquaintances(ctx, a, im.Key{}, []im.User{other})
	if err == nil && !known[0] {
		err = s.takeLookUp(ctx, a, other)
	}
	if err == nil {
		_, err = s.users.Account(ctx, im.Account{Tenant: a.Tenant, User: other})
	}
	return err
}

// reported reads a message as its reporter sees it, sets whose it is, and returns what the report keeps. Codes:
// no_target, invalid, and those of a page of history.
func (s *Server) reported(ctx context.Context, a im.Account, r *petrelv1.ReportRequest,
	rec *storepb.Report) (*storepb.ReportContext, error) {
	n, err := s.users.ReportContext(ctx, a.Tenant)
	if err != nil {
		return nil, err
	}
	after := r.Seq - 1 - min(r.Seq-1, uint64(n))
	page, err := s.route.HistoryPage(ctx, a, &petrelv1.GetHistory{Conv: r.Conv, After: after,
		Before: r.Seq + 1, Limit: uint32(r.Seq - after)}, conv.MaxPage, conv.Extras{}) // down: a page is bounded
	if err != nil {
		return nil, err
	}
	messages := page.Messages
	for len(messages) > 0 && messages[len(messages)-1].Seq > r.Seq {
		messages = messages[:len(messages)-1]
	}
	if len(messages) == 0 || !reportable(messages[len(messages)-1], r.Seq) {
		return nil, im.Errorf(im.CodeNoTarget, "there is no message %d to report", r.Seq)
	}
	target := messages[len(messages)-1]
	if target.From == string(a.User) {
		return nil, im.Errorf(im.CodeInvalid, "nobody reports themselves")
	}
	id, err := im.ParseConvID(r.Conv)
	rec.User, rec.Conv = target.From, id[:]
	if err != nil || n == 0 {
		return &storepb.ReportContext{}, err
	}
	kept, err := keep(messages)
	if page.More {
		kept.LeftOut += uint32(messages[0].Seq - after - 1)
	}
	return kept, err
}

// reportable tells whether m is the message with a seq, and has or had a body that its reader sees.
func reportable(m *petrelv1.Message, seq uint64) bool {
	return m.Seq == seq && m.From != "" && !m.Withheld && !m.Lost && (hasBody(m) || m.RecalledBy != 0)
}

func hasBody(m *petrelv1.Message) bool {
	switch m.Body.(type) {
	case *petrelv1.Message_Text, *petrelv1.Message_Data:
		return true
	}
	return false
}

// keep returns the copies that a report keeps: the newest one, and as many before it as fit.
func keep(messages []*petrelv1.Message) (*storepb.ReportContext, error) {
	kept, bytes := &storepb.ReportContext{}, 0
	var newest [][]byte
	for i := len(messages) - 1; i >= 0; i-- {
		m := messages[i]
		if m.Withheld || m.Lost {
			continue
		}
		b, err := proto.Marshal(m)
		if err != nil {
			return nil, fmt.Errorf("copy message %d: %w", m.Seq, err)
		}
		if bytes += len(b); bytes > report.MaxContextBytes && len(newest) > 0 {
			kept.LeftOut = uint32(i + 1)
			break
		}
		newest = append(newest, b)
	}
	for i := len(newest) - 1; i >= 0; i-- {
		kept.Messages = append(kept.Messages, newest[i])
	}
	return kept, nil
}

// checkText refuses a text of several lines that is too long or has control characters. Codes: invalid.
func checkText(field, text string) error {
	switch {
	case !utf8.ValidString(text) || utf8.RuneCountInString(text) > maxReportText:
		return im.Errorf(im.CodeInvalid, "%s has at most %d characters", field, maxReportText)
	case strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }):
		return im.Errorf(im.CodeInvalid, "%s has no control characters but line feeds and tabs", field)
	}
	return nil
}

// ListReports lists a page of reports. Spec: P-14.22.
func (s *Server) ListReports(ctx context.Context, t im.Tenant,
	r *petrelv1.ListReportsRequest) (*petrelv1.ListReportsResponse, error) {
	page, next, err := s.o.Reports.List(ctx, t, report.Query{State: report.State(r.State), User: im.User(r.User),
		Token: r.Token, Limit: int(min(r.Limit, report.MaxPage))})
	if err != nil {
		return nil, err
	}
	res := &petrelv1.ListReportsResponse{Token: next}
	for _, x := range page {
		res.Reports = append(res.Reports, reportOf(x))
	}
	res.Open, err = s.o.Reports.Open(ctx, t)
	return res, err
}

// GetReport shows a report, with context also what it keeps of messages. Spec: P-14.22.
func (s *Server) GetReport(ctx context.Context, t im.Tenant, r *petrelv1.GetReportRequest) (*petrelv1.Report, error) {
	is, err := s.o.Reports.Get(ctx, t, r.Report)
	if err != nil || !r.Context {
		return reportOf(is), err
	}
	if err := checkReason(ctx, r.Reason); err != nil {
		return nil, err
	}
	kept, err := s.o.Reports.Context(ctx, t, r.Report)
	if err != nil {
		return nil, err
	}
	noteTarget(ctx, is)
	res := reportOf(is)
	res.LeftOut = kept.GetLeftOut()
	for _, b := range kept.GetMessages() {
		m := &petrelv1.Message{}
		if err := proto.Unmarshal(b, m); err != nil {
			return nil, fmt.Errorf("read the context of report %d: %w", r.Report, err)
		}
		res.Context = append(res.Context, m)
	}
	return res, nil
}

// noteTarget has the audit log name the user and the message that a report is about.
func noteTarget(ctx context.Context, r report.Report) {
	c := callOf(ctx)
	add(&c.changes, "reported", r.User)
	if len(r.Conv) > 0 {
		add(&c.changes, "conv", convName(r.Conv))
		add(&c.changes, "seq", fmt.Sprint(r.Seq))
	}
}

func convName(id []byte) string {
	if len(id) != len(im.ConvID{}) {
		return ""
	}
	return im.ConvID(id).String()
}

// ResolveReport does something about a report and closes it, or adds a note. If the report cannot be closed after
// the action, the caller repeats both: each action leaves what it has done as it is. Spec: P-14.23.
func (s *Server) ResolveReport(ctx context.Context, t im.Tenant,
	r *petrelv1.ResolveReportRequest) (*petrelv1.Report, error) {
	closing := r.Action != petrelv1.ReportAction_REPORT_ACTION_NOTE
	switch {
	case r.Action <= petrelv1.ReportAction_REPORT_ACTION_UNSPECIFIED ||
		r.Action > petrelv1.ReportAction_REPORT_ACTION_DISABLE:
		return nil, im.Errorf(im.CodeInvalid, "there is no action %d", r.Action)
	case !closing && strings.TrimSpace(r.Note) == "":
		return nil, im.Errorf(im.CodeInvalid, "the note is empty")
	case (r.UntilMs > 0) != (r.Action == petrelv1.ReportAction_REPORT_ACTION_MUTE):
		return nil, im.Errorf(im.CodeInvalid, "until_ms is the end of a mute, and other actions have none")
	}
	if err := checkText("note", r.Note); err != nil {
		return nil, err
	}
	is, err := s.o.Reports.Get(ctx, t, r.Report)
	if err != nil {
		return nil, err
	}
	noteTarget(ctx, is)
	key := callOf(ctx).caller.key
	note := &storepb.ReportNote{By: cmp.Or(key.Operator, key.Name), Action: uint32(r.Action),
		Text: strings.TrimSpace(r.Note)}
	switch {
	case closing && is.ClosedMs > 0 && report.ClosedBy(is, note): // a repeat, so that the audit log gets its record
		return reportOf(is), nil
	case closing && is.ClosedMs > 0:
		return nil, report.Closed(is)
	}
	if err := s.act(ctx, t, is, r); err != nil {
		return nil, err
	}
	done, err := s.o.Reports.Note(ctx, t, r.Report, note, closing)
	if im.CodeOf(err) == im.CodeReportClosed && r.Action > petrelv1.ReportAction_REPORT_ACTION_DISMISS {
		done, err = s.o.Reports.Note(ctx, t, r.Report, note, false) // somebody has closed it; the action is done
	}
	if err != nil {
		return nil, err
	}
	return reportOf(done), nil
}

// act does to the reported user or message what an operator has decided. Codes: invalid, forbidden, and those of the
// action.
func (s *Server) act(ctx context.Context, t im.Tenant, is report.Report, r *petrelv1.ResolveReportRequest) (err error) {
	a := im.Account{Tenant: t, User: im.User(is.User)}
	request := fmt.Sprintf("report:%d", is.Number)
	switch r.Action {
	case petrelv1.ReportAction_REPORT_ACTION_RECALL:
		if len(is.Conv) != len(im.ConvID{}) {
			return im.Errorf(im.CodeInvalid, "the report is about a user: there is no message to recall")
		}
		_, err = s.change(ctx, im.Key{Tenant: t, Conv: im.ConvID(is.Conv)}, "", request,
			&petrelv1.Message{Body: &petrelv1.Message_Recall{Recall: &petrelv1.Recall{Target: is.Seq}}})
		if im.CodeOf(err) == im.CodeNoTarget { // it is recalled already
			err = nil
		}
	case petrelv1.ReportAction_REPORT_ACTION_MUTE:
		if err = s.coversUsers(ctx); err == nil {
			_, err = s.MuteUser(ctx, a, &petrelv1.MuteUserRequest{UntilMs: r.UntilMs,
				RequestId: fmt.Sprintf("%s:%d", request, r.UntilMs)})
		}
	case petrelv1.ReportAction_REPORT_ACTION_DISABLE:
		if err = s.coversUsers(ctx); err == nil {
			_, err = s.DisableUser(ctx, a, nil)
		}
	}
	return err
}

// coversUsers refuses a key that may not change users. Codes: forbidden.
func (s *Server) coversUsers(ctx context.Context) error {
	if !callOf(ctx).caller.key.Covers(scopeUsers) {
		return im.Errorf(im.CodeForbidden, "this key does not have the scope %s", scopeUsers)
	}
	return nil
}

// SetReportRules says how much a report keeps. Spec: P-14.21.
func (s *Server) SetReportRules(ctx context.Context,
	r *petrelv1.SetReportRulesRequest) (*petrelv1.TenantInfo, error) {
	return tenantInfo(s.users.SetReportRules(ctx, r.Tenant, r.Context))
}

func reportOf(r report.Report) *petrelv1.Report {
	if r.Report == nil {
		return nil
	}
	res := &petrelv1.Report{Report: r.Number, Reporter: r.Reporter, User: r.User, Conv: convName(r.Conv), Seq: r.Seq,
		Reason: petrelv1.ReportReason(r.Reason), Text: r.Text, TimeMs: r.TimeMs, ClosedMs: r.ClosedMs,
		Action: petrelv1.ReportAction(r.Action)}
	for _, n := range r.Notes {
		res.Notes = append(res.Notes, &petrelv1.ReportNote{By: n.By, TimeMs: n.TimeMs,
			Action: petrelv1.ReportAction(n.Action), Text: n.Text})
	}
	return res
}

// sweepReports deletes old closed reports of all tenants.
func (s *Server) sweepReports(ctx context.Context) error {
	tenants, err := s.users.Tenants(ctx)
	for _, x := range tenants {
		t, failed := s.users.Tenant(ctx, x.Name)
		if failed == nil {
			failed = s.o.Reports.Sweep(ctx, t)
		}
		err = cmp.Or(err, failed)
	}
	return err
}
