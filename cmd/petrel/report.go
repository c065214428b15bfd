package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/petrel-im/petrel/internal/terminal"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

func newReport(c *cli) *cobra.Command {
	return group("report", "List what users have reported, look at a report, and do something about it",
		"  petrel report list\n  petrel report show 7 --reason \"a report of spam\"\n  petrel report resolve 7 recall --note advertising",
		newReportList(c), newReportShow(c), newReportResolve(c))
}

// reportActions maps the words of the command line to values of the API.
var reportActions = map[string]petrelv1.ReportAction{
	"note":    petrelv1.ReportAction_REPORT_ACTION_NOTE,
	"dismiss": petrelv1.ReportAction_REPORT_ACTION_DISMISS,
	"recall":  petrelv1.ReportAction_REPORT_ACTION_RECALL,
	"mute":    petrelv1.ReportAction_REPORT_ACTION_MUTE,
	"disable": petrelv1.ReportAction_REPORT_ACTION_DISABLE,
}

// reportWord is the word of an enum value of reports: REPORT_REASON_SPAM is spam.
func reportWord(value fmt.Stringer) string {
	_, word, _ := strings.Cut(strings.TrimPrefix(value.String(), "REPORT_"), "_")
	return strings.ToLower(word)
}

func reportState(r *petrelv1.Report) string {
	if r.GetClosedMs() == 0 {
		return "open"
	}
	return "closed: " + reportWord(r.GetAction())
}

func newReportList(c *cli) *cobra.Command {
	q := &petrelv1.ListReportsRequest{}
	var closed, all bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List reports, the newest first",
		Long:    "Lists the open reports of a tenant, with --closed the closed ones, with --all both. `petrel report show` shows one of them.",
		Example: "  petrel report list\n  petrel report list --all --user bob",
		Args:    cobra.NoArgs,
		RunE: c.operator(func(ctx context.Context, api *admin, _ []string) error {
			q.State = petrelv1.ReportState_REPORT_STATE_OPEN
			switch {
			case all:
				q.State = petrelv1.ReportState_REPORT_STATE_UNSPECIFIED
			case closed:
				q.State = petrelv1.ReportState_REPORT_STATE_CLOSED
			}
			t := c.table("REPORT", "TIME", "USER", "REASON", "REPORTER", "STATE", "TEXT")
			for {
				r, err := call(ctx, api, "list reports", api.ListReports, q)
				if err != nil {
					return err
				}
				for _, x := range r.Reports {
					if err := t.row(x, strconv.FormatUint(x.Report, 10), date(x.TimeMs), x.User, reportWord(x.Reason),
						x.Reporter, reportState(x), orDash(terminal.Line(x.Text))); err != nil {
						return err
					}
				}
				if q.Token = r.Token; len(q.Token) == 0 {
					return t.end()
				}
			}
		}),
	}
	addTenant(cmd, &q.Tenant)
	cmd.Flags().StringVar(&q.User, "user", "", "only reports of this `USER`")
	cmd.Flags().BoolVar(&closed, "closed", false, "list the closed reports")
	cmd.Flags().BoolVar(&all, "all", false, "list open and closed reports")
	return cmd
}

// reportNumber reads the number of a report on the command line.
func reportNumber(arg string) (uint64, error) {
	n, err := strconv.ParseUint(arg, 10, 64)
	if err != nil || n == 0 {
		return 0, usage("the number of the report", "`petrel report list` shows the numbers")
	}
	return n, nil
}

func newReportShow(c *cli) *cobra.Command {
	q := &petrelv1.GetReportRequest{}
	cmd := &cobra.Command{
		Use:   "show REPORT",
		Short: "Show a report, and with --reason the messages that it keeps",
		Long: "Shows who has reported whom and why, and the notes of operators. With --reason it also shows the copies of the reported\n" +
			"message and of those before it, as the reporter saw them: the audit log keeps that you read them, and why.",
		Example: "  petrel report show 7\n  petrel report show 7 --reason \"a report of spam\"",
		Args:    cobra.ExactArgs(1),
		RunE: c.operator(func(ctx context.Context, api *admin, args []string) (err error) {
			if q.Report, err = reportNumber(args[0]); err != nil {
				return err
			}
			q.Context = q.Reason != ""
			r, err := call(ctx, api, "show report "+args[0], api.GetReport, q)
			if err != nil {
				return err
			}
			return c.printMessage(r, func(w io.Writer) { writeReport(w, r) })
		}),
	}
	addTenant(cmd, &q.Tenant)
	cmd.Flags().StringVar(&q.Reason, "reason", "", "`WHY` you read what others wrote; the audit log keeps it")
	return cmd
}

func writeReport(w io.Writer, r *petrelv1.Report) {
	fmt.Fprintf(w, "report    %d, %s\nuser      %s\nreporter  %s\nreason    %s\ntime      %s\n", r.Report, reportState(r),
		terminal.Line(r.User), terminal.Line(r.Reporter), reportWord(r.Reason), date(r.TimeMs))
	if r.Conv != "" {
		fmt.Fprintf(w, "message   %s %d\n", terminal.Line(r.Conv), r.Seq)
	}
	fmt.Fprintf(w, "text      %s\n", orDash(terminal.Line(r.Text)))
	for _, n := range r.Notes {
		fmt.Fprintf(w, "%s  %s by %s: %s\n", date(n.TimeMs), reportWord(n.Action), terminal.Line(n.By),
			orDash(terminal.Line(n.Text)))
	}
	for _, m := range r.Context {
		text := cmp.Or(m.GetText(), "("+cmp.Or(m.Type, "no text")+")")
		fmt.Fprintf(w, "#%d  %s: %s\n", m.Seq, orDash(terminal.Line(m.From)), terminal.Line(text))
	}
	if r.LeftOut > 0 {
		fmt.Fprintf(w, "%d older messages were too large to be kept\n", r.LeftOut)
	}
}

func newReportResolve(c *cli) *cobra.Command {
	q := &petrelv1.ResolveReportRequest{}
	var mute time.Duration
	words := slices.Sorted(maps.Keys(reportActions))
	cmd := &cobra.Command{
		Use:   "resolve REPORT note|dismiss|recall|mute|disable",
		Short: "Do something about a report, and close it",
		Long: "Closes a report after doing nothing (dismiss), recalling the message for all (recall), muting the user (mute) or disabling\n" +
			"the user (disable). note only adds a note. The reporter and the user are not told of the report.",
		Example: "  petrel report resolve 7 dismiss --note \"a joke among friends\"\n  petrel report resolve 8 mute --for 24h",
		Args:    cobra.ExactArgs(2),
		RunE: c.operator(func(ctx context.Context, api *admin, args []string) (err error) {
			if q.Report, err = reportNumber(args[0]); err != nil {
				return err
			}
			var ok bool
			if q.Action, ok = reportActions[args[1]]; !ok {
				return usage("one of "+strings.Join(words, ", "), "see petrel report resolve --help")
			}
			if q.Action == petrelv1.ReportAction_REPORT_ACTION_MUTE {
				q.UntilMs = uint64(time.Now().Add(mute).UnixMilli())
			}
			q.RequestId = rand.Text()
			r, err := call(ctx, api, "resolve report "+args[0], api.ResolveReport, q)
			return c.answer(r, err, "report %d is %s\n", r.GetReport(), reportState(r))
		}),
	}
	addTenant(cmd, &q.Tenant)
	cmd.Flags().StringVar(&q.Note, "note", "", "`TEXT` for other operators, at most 500 characters")
	cmd.Flags().DurationVar(&mute, "for", 24*time.Hour, "with mute: for how long, at most 960h")
	return cmd
}

func newUserMute(c *cli) *cobra.Command {
	q := &petrelv1.MuteUserRequest{}
	var mute time.Duration
	cmd := &cobra.Command{
		Use:   "mute USER",
		Short: "Let a user write nothing for some time",
		Long: "A muted user reads as before, and writes nothing: no messages, reactions, requests to become a contact or changes of the\n" +
			"profile. The user is told until when. With --for 0 the user may write again.",
		Example: "  petrel user mute bob --for 24h\n  petrel user mute bob --for 0",
		Args:    cobra.ExactArgs(1),
		RunE: c.operator(func(ctx context.Context, api *admin, args []string) error {
			if q.User, q.RequestId = args[0], rand.Text(); mute > 0 {
				q.UntilMs = uint64(time.Now().Add(mute).UnixMilli())
			}
			u, err := call(ctx, api, "mute "+q.User, api.MuteUser, q)
			if u.GetMutedUntilMs() == 0 {
				return c.answer(u, err, "%s may write\n", q.User)
			}
			return c.answer(u, err, "%s is muted until %s\n", q.User, date(u.GetMutedUntilMs()))
		}),
	}
	addTenant(cmd, &q.Tenant)
	cmd.Flags().DurationVar(&mute, "for", time.Hour, "for how long, at most 960h; 0: the user may write again")
	return cmd
}

func newUserRestore(c *cli) *cobra.Command {
	q := &petrelv1.RestoreUserRequest{}
	cmd := &cobra.Command{
		Use:   "restore USER",
		Short: "Give a user who has deleted the account it back",
		Long: "Users who have deleted their account can take that back themselves for seven days, by logging in. This command does it also\n" +
			"later. The user has the former name and profile, and devices have to log in anew.",
		Example: "  petrel user restore alice",
		Args:    cobra.ExactArgs(1),
		RunE: c.operator(func(ctx context.Context, api *admin, args []string) error {
			q.User, q.RequestId = args[0], rand.Text()
			u, err := call(ctx, api, "restore "+q.User, api.RestoreUser, q)
			return c.answer(u, err, "%s has the account back\n", q.User)
		}),
	}
	addTenant(cmd, &q.Tenant)
	return cmd
}

func newTenantReports(c *cli) *cobra.Command {
	q := &petrelv1.SetReportRulesRequest{}
	cmd := &cobra.Command{
		Use:   "reports MESSAGES",
		Short: "Say how many messages a report keeps beside the reported one",
		Long: "Says how many messages before the reported one a report keeps a copy of, 0 to 20; 5 unless it is set. With 0 a report keeps\n" +
			"no text at all, also not of the reported message. Reports that are there stay as they are.",
		Example: "  petrel tenant reports 10\n  petrel tenant reports 0 --tenant acme",
		Args:    cobra.ExactArgs(1),
		RunE: c.operator(func(ctx context.Context, api *admin, args []string) error {
			n, err := strconv.ParseUint(args[0], 10, 32)
			if err != nil {
				return usage("a number of messages", "0 to 20")
			}
			q.Context, q.RequestId = uint32(n), rand.Text()
			return c.writeTenant(call(ctx, api, "set what reports keep", api.SetReportRules, q))
		}),
	}
	addTenant(cmd, &q.Tenant)
	return cmd
}
