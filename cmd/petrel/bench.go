package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/petrel-im/petrel/bench"
)

func newBench(c *cli) *cobra.Command {
	return group("bench", "Measure a server, and audit what it did with every message",
		"  petrel bench direct\n  petrel bench group --members 1000 --json group.json\n  petrel bench connect --connections 10000",
		newBenchScenario(c, bench.Direct, "Senders write to receivers, one to one",
			"  petrel bench direct --window 1\n  petrel bench direct --rate 20000 --target \"p99<5ms,lost=0\" --json -\n"+
				"  petrel bench direct --url http://127.0.0.1:8080 --seconds 30"),
		newBenchScenario(c, bench.Group, "Senders write to one group whose members are online", "  petrel bench group --members 1000 --senders 4"),
		newBenchScenario(c, bench.Connect, "Connections that are authenticated and idle", "  petrel bench connect --connections 10000"))
}

// benchRun is one run as the command line asks for it.
type benchRun struct {
	params  bench.Params
	targets string
	json    string // a file, - for the standard output; empty: no JSON
}

func newBenchScenario(c *cli, scenario, short, example string) *cobra.Command {
	r := &benchRun{params: bench.DefaultParams(scenario)}
	cmd := &cobra.Command{
		Use:   scenario,
		Short: short,
		Long: short + ". Starts a server of its own on a temporary folder, unless --url names one. Every\n" +
			"message is followed from its sender to its receivers and read back at the end: a run in which one was lost, doubled,\n" +
			"invented or out of order ends with exit code 6, whatever its speed, and so does one that misses a --target.",
		Example: example,
		Args:    cobra.NoArgs,
		RunE:    command(func(cmd *cobra.Command, _ []string) error { return r.run(cmd, c) }),
	}
	r.addFlags(cmd)
	return cmd
}

func (r *benchRun) addFlags(cmd *cobra.Command) {
	fs, p := cmd.Flags(), &r.params
	switch p.Scenario {
	case bench.Direct:
		fs.IntVar(&p.Senders, "senders", p.Senders, "users that send")
		fs.IntVar(&p.Receivers, "receivers", p.Receivers, "users that receive")
	case bench.Group:
		fs.IntVar(&p.Members, "members", p.Members, "members of the group, all online")
		fs.IntVar(&p.Senders, "senders", p.Senders, "members that send")
	case bench.Connect:
		fs.IntVar(&p.Connections, "connections", p.Connections, "connections to make")
		fs.IntVar(&p.Lists, "lists", p.Lists, "conversations in the list of each user, whose connection is then a device that has logged in")
	}
	if p.Scenario != bench.Connect {
		fs.IntVar(&p.Size, "size", p.Size, "bytes of a text")
		fs.BoolVar(&p.Receipts, "receipts", p.Receipts, "receivers tell once a second how far they have read, and senders are told")
		fs.IntVar(&p.Window, "window", p.Window, "closed loop: unacked messages of each sender")
		fs.Float64Var(&p.Rate, "rate", p.Rate, "open loop: messages per second in all; latency is counted from when a message was due (0: closed loop)")
		fs.Float64Var(&p.WarmUp, "warm-up", p.WarmUp, "seconds of load before the measurement")
	}
	fs.Float64Var(&p.Seconds, "seconds", p.Seconds, "seconds of the measurement")
	fs.StringVar(&p.Codec, "codec", p.Codec, "proto or json")
	fs.StringVar(&p.Transport, "transport", p.Transport, "ws or tcp")
	fs.Uint64Var(&p.Seed, "seed", p.Seed, "of texts and ids")
	fs.StringVar(&p.URL, "url", "", "`URL` of a running server, which needs its admin key (default: a server of its own)")
	fs.StringVar(&p.TCPAddr, "tcp-addr", "", "`HOST:PORT` of the TCP protocol of a running server (default: its host and port 8081)")
	fs.StringVar(&p.Dir, "dir", "", "`DIR` in which the folder of a server of its own is made (default: the system's for temporary files)")
	fs.StringArrayVar(&p.ServeArgs, "serve", nil, "`FLAG` for a server of its own, like --serve=--store-cache=8MiB; may be repeated")
	fs.StringVar(&r.targets, "target", "", "`LIST` of figures to reach, like \"p99<5ms,accepted_per_cpu_s>80000\"; there are "+strings.Join(bench.TargetKeys(), ", "))
	// Hides the flag of all commands: a report has a place to go to.
	fs.StringVar(&r.json, "json", "", "write the report as JSON to `FILE`, - for the standard output")
}

func (r *benchRun) run(cmd *cobra.Command, c *cli) error {
	targets, err := bench.ParseTargets(r.targets)
	if err != nil {
		return usage(err.Error(), "")
	}
	p := r.params
	if p.URL != "" {
		if p.AdminKey, err = r.adminKey(cmd, c); err != nil {
			return err
		}
	}
	if err := p.Check(); err != nil {
		return usage(err.Error(), "")
	}
	p.Progress = bench.Draw(c.err, isTerminal(c.err))
	report, err := bench.Run(cmd.Context(), p)
	if err != nil {
		if p.URL == "" {
			return err
		}
		return fromServer(p.URL, "bench "+p.Scenario, err)
	}
	if err := r.write(report, c); err != nil {
		return err
	}
	if err := report.Clean(targets); err != nil {
		return &fault{exit: exitViolated, code: "violated", what: "the run is red", why: err.Error(), err: err,
			fix: "the report names the first findings; the same --seed makes the same texts"}
	}
	return nil
}

func (r *benchRun) adminKey(cmd *cobra.Command, c *cli) (string, error) {
	c.server = r.params.URL
	t, err := c.target(cmd)
	if err != nil {
		return "", err
	}
	ctx, stop := context.WithTimeout(cmd.Context(), callTimeout)
	defer stop()
	return c.adminKey(ctx, t)
}

// write writes the report for people, beside its JSON where that was asked for.
func (r *benchRun) write(report *bench.Report, c *cli) error {
	if isTerminal(c.err) {
		fmt.Fprintln(c.err) // behind the last line of progress
	}
	text := c.out
	switch r.json {
	case "":
	case "-":
		text = c.err
		if err := report.WriteJSON(c.out); err != nil {
			return err
		}
	default:
		if err := writeFile(r.json, report.WriteJSON); err != nil {
			return err
		}
	}
	return report.WriteText(text)
}

func writeFile(name string, write func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		_ = f.Close() // the write says more
		return fmt.Errorf("write %s: %w", name, err)
	}
	return f.Close()
}
