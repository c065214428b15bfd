package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/petrel-im/petrel/internal/terminal"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

func newAudit(c *cli) *cobra.Command {
	return group("audit", "Read and verify the audit log", "  petrel audit list --since 1h\n  petrel audit verify",
		newAuditList(c), newAuditVerify(c))
}

func newAuditList(c *cli) *cobra.Command {
	var since time.Duration
	var refused bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List who logged in, who was refused, and what operators did",
		Long: "Lists the records of all nodes, oldest first: logins, refusals with their reason and address, and what was done with\n" +
			"admin keys. A line with a count stands for several refusals of the same kind within a minute.",
		Example: "  petrel audit list\n  petrel audit list --since 720h --refused\n  petrel audit list --since 0 --json",
		Args:    cobra.NoArgs,
		RunE: c.operator(func(ctx context.Context, api *admin, _ []string) error {
			q := &petrelv1.ListAuditRequest{}
			if since > 0 {
				q.SinceMs = uint64(time.Now().Add(-since).UnixMilli())
			}
			t := c.table("TIME", "NODE", "EVENT", "RESULT", "WHO", "FROM", "ABOUT")
			for {
				r, err := call(ctx, api, "list the audit log", api.ListAudit, q)
				if err != nil {
					return err
				}
				for _, rec := range r.Records {
					if refused && rec.Code == "" {
						continue
					}
					if err := t.row(rec, auditCells(rec)...); err != nil {
						return err
					}
				}
				if q.Token = r.Token; len(q.Token) == 0 {
					return t.end()
				}
			}
		}),
	}
	cmd.Flags().DurationVar(&since, "since", 24*time.Hour, "`TIME` that the list goes back; 0: to the oldest record")
	cmd.Flags().BoolVar(&refused, "refused", false, "list refusals only")
	return cmd
}

// auditCells returns the table cells of a record.
func auditCells(r *petrelv1.AuditRecord) []any {
	_, event, _ := strings.Cut(r.Event, "/")
	result := cmp.Or(r.Code, "done")
	if r.Count > 0 {
		result += fmt.Sprintf(" ×%d", r.Count)
	}
	who := r.User
	if r.Operator != "" {
		who = "operator " + r.Operator
	} else if r.Key != "" {
		who = "key " + r.Key + " (" + r.KeyName + ")"
	} else if who != "" && r.Tenant != "default" {
		who += " in " + r.Tenant
	}
	var about []string
	for _, d := range r.Details {
		about = append(about, d.Name+"="+d.Value)
	}
	at := time.UnixMilli(int64(r.TimeMs)).Format("2006-01-02 15:04:05")
	return []any{at, orDash(r.Node), orDash(cmp.Or(event, r.Event)), orDash(result), orDash(who), orDash(r.Address),
		orDash(strings.Join(about, " "))}
}

func newAuditVerify(c *cli) *cobra.Command {
	var heads []string
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check that nobody has changed the audit log",
		Long: "Reads the whole audit log on the server and names every record that was changed, removed or moved. It ends with exit code\n" +
			"6 if there is one. It prints where the chain of each node ends, as NODE:NUMBER:HASH. The server writes the same into its\n" +
			"log at each start and stop, and once an hour. Give it back later with --head: only then is it noticed if the end of a\n" +
			"chain was cut off and put back to an earlier state, or if a whole chain is gone.",
		Example: "  petrel audit verify\n  petrel audit verify --head local:1234:0123456789abcdef0123456789abcdef",
		Args:    cobra.NoArgs,
		RunE: c.patientOperator(func(ctx context.Context, api *admin, _ []string) error {
			q := &petrelv1.VerifyAuditRequest{}
			for _, h := range heads {
				node, number, sum, ok := cutHead(h)
				if !ok {
					return usage("this is no head of the audit log: "+h,
						"give what `petrel audit verify` or the log of the server said, as NODE:NUMBER:HASH")
				}
				q.Heads = append(q.Heads, &petrelv1.AuditHead{Node: node, Number: number, Hash: sum})
			}
			r, err := call(ctx, api, "verify the audit log", api.VerifyAudit, q)
			if err != nil {
				return err
			}
			err = c.print(r, func(w io.Writer) {
				for _, h := range r.Heads {
					fmt.Fprintf(w, "head  %s:%d:%s\n", terminal.Line(h.Node), h.Number, h.Hash)
				}
				for _, f := range r.Faults {
					fmt.Fprintf(w, "%-8s%s\n", f.What, terminal.Line(f.Text))
				}
				fmt.Fprintf(w, "%d records were read\n", r.Records)
			})
			if err == nil && len(r.Faults) > 0 {
				return &fault{exit: exitViolated, code: "violated", what: "the audit log is not as it was written",
					why: fmt.Sprintf("%d faults were found", len(r.Faults)),
					fix: "keep a copy of the store for the investigation; whoever could change it may have done more"}
			}
			return err
		}),
	}
	cmd.Flags().StringSliceVar(&heads, "head", nil,
		"`HEADS` that the log must still have, as NODE:NUMBER:HASH, with commas between them")
	return cmd
}

// cutHead splits NODE:NUMBER:HASH.
func cutHead(s string) (node string, number uint64, sum string, ok bool) {
	parts := strings.Split(s, ":")
	n := len(parts)
	if n < 3 {
		return "", 0, "", false
	}
	number, err := strconv.ParseUint(parts[n-2], 10, 64)
	return strings.Join(parts[:n-2], ":"), number, parts[n-1], err == nil && number > 0 && len(parts[n-1]) == 32
}
