package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/petrel-im/petrel/internal/checker"
	"github.com/petrel-im/petrel/internal/terminal"
)

func newCheck(c *cli) *cobra.Command {
	var o checker.Options
	var history []string
	cmd := &cobra.Command{
		Use:   "check OPLOG…",
		Short: "Judge what clients saw, from their op logs",
		Long: "Reads op logs, which say what clients have sent, what they were answered and what they were shown, and holds them against\n" +
			"each other and against the history of the server. It names every promise that was broken: what was lost, doubled, invented,\n" +
			"rejected and shown, reordered, altered, left out, leaked, told stale, or shown after its recall. The first 20 findings of each\n" +
			"kind come with the line that shows them; then the command ends with exit code 6. It needs no server. Temporary files take\n" +
			"somewhat more bytes than the logs.",
		Example: "  petrel bench direct --rate 1000 --oplog run.jsonl\n  petrel check run.jsonl\n  petrel check alice.jsonl bob.jsonl --history end.jsonl --json",
		Args:    cobra.MinimumNArgs(1),
		RunE: command(func(_ *cobra.Command, args []string) error {
			r, err := judge(append(args, history...), o)
			if err != nil {
				return err
			}
			if err := c.print(r, func(w io.Writer) { writeJudgement(w, r) }); err != nil || r.Findings.Clean() {
				return err
			}
			return &fault{exit: exitViolated, code: "violated", what: "promises were broken", why: r.Findings.String(),
				fix: "read the lines that the findings name; docs/reference/checker.md says what each kind means"}
		}),
	}
	fs := cmd.Flags()
	fs.StringArrayVar(&history, "history", nil,
		"`FILE` with the history as the operator has read it in the end; may be repeated. It may be in the op logs too")
	fs.StringVar(&o.Dir, "dir", "", "`DIR` for temporary files (default: the system's folder)")
	return cmd
}

// judge checks the op logs in the named files. Op logs without any message are an error.
func judge(names []string, o checker.Options) (*checker.Report, error) {
	var logs []checker.Log
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }() // read only
		logs = append(logs, checker.Log{Name: name, Reader: f})
	}
	r, err := checker.Check(logs, o)
	if err != nil {
		return nil, fmt.Errorf("check %d op logs: %w", len(names), err)
	}
	if r.Messages == 0 && r.Entries == 0 && r.Deliveries == 0 && r.Reads == 0 {
		return nil, errors.New("the op logs have no message in them: there is nothing to judge")
	}
	return r, nil
}

// writeJudgement writes the report for people.
func writeJudgement(w io.Writer, r *checker.Report) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-11s %s\n", name, fmt.Sprintf(format, args...))
	}
	line("looked at", "%d ops of %d conversations", r.Ops, r.Conversations)
	line("messages", "%d: %d acked, %d rejected, %d of unknown outcome, of which %d are stored", r.Messages, r.Acked,
		r.Rejected, r.Unknown, r.UnknownKept)
	line("shown", "%d as new, %d otherwise; %d had to be shown", r.Deliveries, r.Reads, r.Due)
	line("history", "%d entries; it is known of %d conversations, and the members of %d", r.Entries, r.WithHistory,
		r.WithMembers)
	for _, c := range checker.Classes() {
		line(c.String(), "%s", r.Verdict(c))
	}
	for _, x := range r.Witnesses {
		fmt.Fprintf(w, "%s\n", terminal.Line(x.String()))
	}
}
