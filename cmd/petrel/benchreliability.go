package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/petrel-im/petrel/bench"
	benchpage "github.com/petrel-im/petrel/bench/page"
)

func newBenchReliability(c *cli) *cobra.Command {
	r, p := &benchRun{}, bench.DefaultReliability()
	cmd := &cobra.Command{
		Use:   bench.OpenIMReliability,
		Short: "Clients log in late and write to each other: what was acked is what was received",
		Long: "Does what the reliability test of OpenIM does, with clients of the Go SDK. Each logs in at a random moment. Some write to\n" +
			"others at random, and to a group of which they are no members, which must be refused. What each client sent, was answered\n" +
			"and has shown goes into an op log, and the checker holds it against the history: see petrel check --help. If anything\n" +
			"was lost, doubled, invented or out of order, or a message has no ack, the command ends with exit code 6. It starts a server of its own\n" +
			"in a temporary folder.",
		Example: "  petrel bench openim-reliability\n  petrel bench openim-reliability --runs 100 --late 5 --json reliability.json\n  petrel bench openim-reliability --kill-every 2",
		Args:    cobra.NoArgs,
		RunE: command(func(cmd *cobra.Command, _ []string) error {
			if err := p.Check(); err != nil {
				return usage(err.Error(), "")
			}
			if err := r.files.check(); err != nil {
				return err
			}
			p.Command = commandLine(cmd)
			p.Progress = c.benchProgress()
			report, err := bench.RunReliability(cmd.Context(), p)
			if err != nil {
				return err
			}
			found := report.Clean()
			if err := r.write(report, func(w io.Writer) error { return benchpage.Reliability(w, report, found) }, c); err != nil {
				return err
			}
			return r.verdict(found, false)
		}),
	}
	fs := cmd.Flags()
	fs.IntVar(&p.Clients, "clients", p.Clients, "users, with a client each")
	fs.IntVar(&p.Senders, "senders", p.Senders, "clients that send; the others only receive")
	fs.IntVar(&p.Messages, "messages", p.Messages, "messages of each sender")
	fs.Float64Var(&p.IntervalMS, "interval", p.IntervalMS, "milliseconds from one message of a sender to the next (0: as many as have answers)")
	fs.Float64Var(&p.LateS, "late", p.LateS, "seconds in which all clients have logged in, each at a random moment")
	fs.Float64Var(&p.KillS, "kill-every", p.KillS, "seconds after which the server is killed with SIGKILL and started again, while anybody sends (0: never)")
	fs.IntVar(&p.Runs, "runs", p.Runs, "how often all of this is done, each time with new users")
	fs.Uint64Var(&p.Seed, "seed", p.Seed, "seed of the moments, the receivers and the texts")
	fs.StringVar(&p.OpLogs, "oplogs", "", "`DIR` in which the op log of each run stays, for petrel check")
	fs.StringVar(&p.Dir, "dir", "", "`DIR` in which the folder of the started server is made (default: the system's folder for temporary files)")
	fs.StringArrayVar(&p.ServeArgs, "serve", nil, "`FLAG` for the started server, like --serve=--store-cache=8MiB; may be repeated")
	r.files.addFlags(fs)
	return cmd
}
