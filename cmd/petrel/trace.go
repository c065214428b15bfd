package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/petrel-im/petrel/internal/terminal"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

func newTrace(c *cli) *cobra.Command {
	return group("trace", "Why a message did not arrive, why a user is not connected",
		"  petrel trace msg --user alice --id 5f0c1e9a\n  petrel trace msg gKQtYt3wSdI4pbTbl9KK9 17\n  petrel trace user bob",
		newTraceMessage(c), newTraceUser(c))
}

// plain formats an enum value without the prefix of its type.
func plain(e fmt.Stringer, prefix string) string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(e.String(), prefix)), "_", " ")
}

func newTraceMessage(c *cli) *cobra.Command {
	q := &petrelv1.TraceMessageRequest{Limit: 200}
	cmd := &cobra.Command{
		Use:   "msg [CONV [SEQ]]",
		Short: "Say how far a message has come",
		Long: "Says whether a message was refused, where it is stored, and how far it has come to each recipient. Name it by its conversation\n" +
			"and seq, or by --user and --id: its sender and the client message id that the app gave it. Without CONV up to 200\n" +
			"conversations of the sender are searched. A refusal is known for at most an hour. " +
			"A state in brackets is inferred from what\n" +
			"the connections have now; the others are exact. The command shows nothing of what the message says.",
		Example: "  petrel trace msg gKQtYt3wSdI4pbTbl9KK9 17\n  petrel trace msg --user alice --id 5f0c1e9a\n  petrel trace msg gKQtYt3wSdI4pbTbl9KK9 17 --recipient bob --json",
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cobra.MaximumNArgs(2)(cmd, args); err != nil {
				return err
			}
			if (len(args) == 2) == (q.User != "" && q.ClientMsgId != "") {
				return usage("which message?", "give CONV and SEQ, or --user and --id")
			}
			return nil
		},
		RunE: c.operator(func(ctx context.Context, api *admin, args []string) error {
			if len(args) > 0 {
				q.Conv = args[0]
			}
			if len(args) == 2 {
				n, err := strconv.ParseUint(args[1], 10, 64)
				if err != nil || n == 0 {
					return usage(fmt.Sprintf("%q is no seq", args[1]),
						"give the number of the message in its conversation: 1, 2, 3, …")
				}
				q.Seq = n
			}
			r, err := call(ctx, api, "trace the message", api.TraceMessage, q)
			if err != nil {
				return err
			}
			return c.print(r, func(w io.Writer) { writeTrace(w, r) })
		}),
	}
	fs := cmd.Flags()
	addTenant(cmd, &q.Tenant)
	fs.StringVar(&q.User, "user", "", "`USER` who sent it")
	fs.StringVar(&q.ClientMsgId, "id", "", "client message `ID` that the app gave it")
	fs.StringVar(&q.Recipient, "recipient", "", "`USER`: only this recipient")
	fs.StringVar(&q.After, "after", "", "`USER`: recipients behind this one")
	return cmd
}

func writeTrace(w io.Writer, r *petrelv1.TraceMessageResponse) {
	fmt.Fprintf(w, "%s: %s\n", plain(r.Outcome, "TRACE_OUTCOME_"), r.Text)
	if e := r.Entry; e != nil {
		fmt.Fprintf(w, "from %s, id %s, %d bytes, partition %d on node %s", e.User,
			terminal.Line(cmp.Or(e.ClientMsgId, "-")), e.Bytes, e.Partition, cmp.Or(e.Owner, "(none)"))
		if e.Recalled {
			fmt.Fprint(w, ", recalled")
		} else if e.Edited {
			fmt.Fprint(w, ", edited")
		}
		fmt.Fprintln(w)
	}
	writeRefusals(w, r.Refusals)
	for _, x := range r.Recipients {
		state := plain(x.State, "TRACE_STATE_")
		if x.Inferred {
			state = "(" + state + ")"
		}
		fmt.Fprintf(w, "%-20s %-12s %s\n", x.User, state, x.Text)
		for _, s := range x.Sessions {
			fmt.Fprintf(w, "  %s\n", sessionLine(s.Session))
		}
		if len(x.Away) > 0 {
			fmt.Fprintf(w, "  not connected: %s\n", terminal.Line(strings.Join(x.Away, ", ")))
		}
	}
	if r.More {
		fmt.Fprintf(w, "there are more: --after %s\n", r.Recipients[len(r.Recipients)-1].User)
	}
	writeSilent(w, r.Silent)
}

func sessionLine(s *petrelv1.SessionInfo) string {
	line := fmt.Sprintf("device %s at node %s from %s", terminal.Line(cmp.Or(s.Device, "(none)")), s.Node,
		cmp.Or(s.Address, "(unknown)"))
	if s.PendingBytes > 0 {
		line += fmt.Sprintf(", %d bytes wait", s.PendingBytes)
	}
	if s.Lagged {
		line += ", lagged"
	}
	if s.Held {
		line += ", held"
	}
	if s.Focused {
		line += map[bool]string{true: ", in focus", false: ", not in focus"}[s.InFocus]
	}
	return line
}

func writeRefusals(w io.Writer, list []*petrelv1.Refusal) {
	for _, x := range list {
		times := ""
		if x.Count > 0 {
			times = fmt.Sprintf(" ×%d", x.Count)
		}
		fmt.Fprintf(w, "refused %s %s %s%s at node %s from %s %s\n", clock(x.TimeMs), x.What, x.Code, times, x.Node,
			cmp.Or(x.Address, "-"), terminal.Line(x.Text))
	}
}

func writeSilent(w io.Writer, nodes []string) {
	if len(nodes) > 0 {
		fmt.Fprintf(w, "these nodes do not answer, so something may be missing: %s\n", strings.Join(nodes, ", "))
	}
}

func newTraceUser(c *cli) *cobra.Command {
	q := &petrelv1.TraceUserRequest{}
	cmd := &cobra.Command{
		Use:   "user USER",
		Short: "Say why a user is not connected",
		Long: "Says what a user is connected with, or why they are not: disabled, logged out, refused and with which code, or nothing that\n" +
			"the server knows of. Refusals are known for an hour.",
		Example: "  petrel trace user bob\n  petrel trace user bob --tenant acme --json",
		Args:    cobra.ExactArgs(1),
		RunE: c.operator(func(ctx context.Context, api *admin, args []string) error {
			q.User = args[0]
			r, err := call(ctx, api, "trace the user "+q.User, api.TraceUser, q)
			if err != nil {
				return err
			}
			return c.print(r, func(w io.Writer) {
				fmt.Fprintf(w, "%s: %s\n", plain(r.Outcome, "TRACE_USER_OUTCOME_"), r.Text)
				fmt.Fprintf(w, "%d devices are logged in, %d are logged out\n", r.Devices, r.RevokedDevices)
				if r.LastSeenMs > 0 {
					fmt.Fprintf(w, "online last about %s\n", clock(r.LastSeenMs))
				}
				for _, s := range r.Sessions {
					fmt.Fprintf(w, "%s\n", sessionLine(s))
				}
				writeRefusals(w, r.Refusals)
				writeSilent(w, r.Silent)
			})
		}),
	}
	addTenant(cmd, &q.Tenant)
	return cmd
}
