package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/petrel-im/petrel/bench"
	benchpage "github.com/petrel-im/petrel/bench/page"
)

func newBench(c *cli) *cobra.Command {
	return group("bench", "Measure a server, and check what became of every message",
		"  petrel bench quick\n  petrel bench direct --html direct.html\n  petrel bench group --members 1000 --json group.json\n  petrel bench connections\n"+
			"  petrel bench compare before.json after.json",
		newBenchQuick(c),
		newBenchScenario(c, bench.Direct, "Senders write to receivers, one to one",
			"  petrel bench direct --window 1\n  petrel bench direct --rate 20000 --target \"p99<5ms,lost=0\" --json -\n"+
				"  petrel bench direct --url http://127.0.0.1:8080 --seconds 30"),
		newBenchScenario(c, bench.DirectSend, "Senders write to receivers who are offline, and who read everything later",
			"  petrel bench direct-send\n  petrel bench direct-send --scale 0.01 --html direct-send.html"),
		newBenchScenario(c, bench.Group, "Senders write to groups whose members are online", "  petrel bench group --members 1000 --senders 4\n  petrel bench group --shape wildfire-200"),
		newBenchScenario(c, bench.Connections, "Clients connect, log in and stay idle", "  petrel bench connections --connections 15000 --steps 3 --seconds 60"),
		newBenchScenario(c, bench.Login, "Clients log in, some at a time, again and again", "  petrel bench login --connections 10000 --lists 100"),
		newBenchScenario(c, bench.Storm, "All connections are lost at once and come back", "  petrel bench storm --connections 15000 --storms 20\n  petrel bench storm --kill"),
		newBenchScenario(c, bench.Sync, "Clients ask for their lists of conversations", "  petrel bench sync --senders 500"),
		newBenchScenario(c, bench.History, "Clients read their conversations page by page", "  petrel bench read --rounds 1000"),
		newBenchScenario(c, bench.Mixed, "Clients do what people do: write, read, come and go", "  petrel bench mixed --clients 5000 --speed 30"),
		newBenchScenario(c, bench.Soak, "The same for long: the server must not grow", "  petrel bench soak --seconds 28800"),
		newBenchLimit(c), newBenchEstimate(c),
		newBenchScenario(c, bench.Glide1, "2,000 clients write to each other, each at moments of its own, like GlideIM's", "  petrel bench glide-1 --scale 0.2"),
		newBenchScenario(c, bench.Glide2, "10,000 clients come one after the other and write to each other", "  petrel bench glide-2 --scale 0.2"),
		newBenchScenario(c, bench.OpenIMLoad, "20,000 clients are online, and each writes about once a minute", "  petrel bench openim-load --messages 60000 --postgres auto --nodes 2"),
		newBenchCluster(c), newBenchReliability(c), newBenchCompare(c), newBenchHistory(c), newBenchPage(c))
}

// benchRun is one run as the command line asks for it.
type benchRun struct {
	params  bench.Params
	targets string
	knee    bool // to be found
	files
}

// files are where the figures go besides the terminal; - is the standard output, and an
// empty one is not written.
type files struct{ json, html, csv string }

func (f *files) addFlags(fs *pflag.FlagSet) {
	// Hides the flag of all commands: a report has a place to go to.
	fs.StringVar(&f.json, "json", "", "write the report as JSON to `FILE`, - for the standard output")
	fs.StringVar(&f.html, "html", "", "write the report as a page to `FILE`, which needs no other one")
}

func newBenchScenario(c *cli, scenario, short, example string) *cobra.Command {
	r := &benchRun{params: bench.DefaultParams(scenario)}
	cmd := &cobra.Command{
		Use:   scenario,
		Short: short,
		Long: short + ". The command starts a server of its own in a temporary folder,\n" +
			"unless --url names a running one. It follows every message from its sender to its receivers. At the end it reads the\n" +
			"histories of some conversations back, and of all in which something seems to be missing. If a message was lost, doubled,\n" +
			"invented or out of order, the command ends with exit code 6, however fast the run was. It also ends with exit code 6 if a\n" +
			"--target is missed, and if the run was overloaded: less was accepted than offered, sends were put off, latency grew, or the\n" +
			"load generator itself was late.",
		Example: example,
		Args:    cobra.NoArgs,
		RunE:    command(func(cmd *cobra.Command, _ []string) error { return r.run(cmd, c) }),
	}
	if published := publishedOf(scenario); published != "" {
		cmd.Long += "\n\n" + published
	}
	r.addFlags(cmd)
	return cmd
}

func (r *benchRun) addFlags(cmd *cobra.Command) {
	fs, p := cmd.Flags(), &r.params
	fs.Float64Var(&p.Scale, "scale", p.Scale, "share of the load, like 0.1; what you give by a flag of its own is taken as it is")
	if shapes := bench.Shapes(p.Scenario); len(shapes) > 0 {
		fs.StringVar(&p.Shape, "shape", "", "do as a published test did: `NAME` is "+strings.Join(shapes, ", "))
	}
	rounds := "messages of each sender to each receiver, after which the run ends"
	switch p.Scenario {
	case bench.Direct:
		fs.IntVar(&p.Senders, "senders", p.Senders, "users that send")
		fs.IntVar(&p.Receivers, "receivers", p.Receivers, "users that receive")
		fs.IntVar(&p.Rounds, "rounds", p.Rounds, rounds+"; every sender writes to every receiver (0: each to one, for --seconds)")
		fs.Float64Var(&p.KillS, "kill-every", p.KillS, "seconds after which the server is killed with SIGKILL and started again, while anybody sends (0: never)")
	case bench.DirectSend:
		fs.IntVar(&p.Senders, "senders", p.Senders, "users that send")
		fs.IntVar(&p.Receivers, "receivers", p.Receivers, "users that receive; one is online and watches, the others come after everything was sent")
		fs.IntVar(&p.Rounds, "rounds", p.Rounds, rounds)
	case bench.Group:
		fs.IntVar(&p.Members, "members", p.Members, "members of each group, all online")
		fs.IntVar(&p.Senders, "senders", p.Senders, "members that send")
		fs.IntVar(&p.Groups, "groups", p.Groups, "groups of the same members, to whom each sender writes in turn")
		fs.IntVar(&p.Rounds, "rounds", p.Rounds, "messages of each sender to each group, after which the run ends (0: for --seconds)")
	case bench.Cluster:
		fs.IntVar(&p.Senders, "senders", p.Senders, "users that send")
		fs.IntVar(&p.Receivers, "receivers", p.Receivers, "users that receive; they come online after everything was sent")
		fs.IntVar(&p.Rounds, "rounds", p.Rounds, "messages of each sender to each receiver; once in the warm-up, and again in the measured run")
	case bench.Connections, bench.Login, bench.Storm:
		fs.IntVar(&p.Connections, "connections", p.Connections, "connections to make")
		fs.IntVar(&p.Lists, "lists", p.Lists, "conversations in the list of each user; with 1 or more, each connection is a device that has logged in")
	case bench.Sync:
		fs.IntVar(&p.Senders, "senders", p.Senders, "users that send; each receiver has a conversation with every one")
		fs.IntVar(&p.Receivers, "receivers", p.Receivers, "users that sync")
		fs.IntVar(&p.Times, "times", p.Times, "syncs of each kind by each receiver")
	case bench.History:
		fs.IntVar(&p.Senders, "senders", p.Senders, "users that send; each receiver has a conversation with every one")
		fs.IntVar(&p.Receivers, "receivers", p.Receivers, "users that read")
		fs.IntVar(&p.Rounds, "rounds", p.Rounds, "messages in each conversation")
	case bench.Limit:
		fs.IntVar(&p.Senders, "senders", p.Senders, "connections that send")
		fs.IntVar(&p.Members, "members", p.Members, "of the fan-out: the sender, and connections that receive")
	case bench.Glide1, bench.Glide2, bench.OpenIMLoad:
		fs.IntVar(&p.Connections, "clients", p.Connections, "clients, each of which sends and receives")
		fs.IntVar(&p.Peers, "peers", p.Peers, "clients to whom each one writes in turn: the next ones")
		fs.Float64SliceVar(&p.IntervalMS, "interval", p.IntervalMS, "milliseconds from one message of a client to the next: the `LEAST,MOST` of a random pause")
		if p.Scenario == bench.OpenIMLoad {
			fs.IntVar(&p.Messages, "messages", p.Messages, "messages of all clients, after which the run ends")
		} else {
			fs.IntVar(&p.Rounds, "rounds", p.Rounds, "messages of each client to each of its peers, after which the run ends")
		}
	}
	switch p.Scenario {
	case bench.Connections:
		fs.IntVar(&p.Levels, "steps", p.Levels, "steps in which the connections come; each is measured")
		fs.Float64Var(&p.Seconds, "seconds", p.Seconds, "seconds for which the connections of each step are idle before their memory is read")
	case bench.Login:
		fs.IntVar(&p.Times, "times", p.Times, "how often each client comes")
		fs.IntVar(&p.AtOnce, "at-once", p.AtOnce, "clients that come at a time")
	case bench.Storm:
		fs.IntVar(&p.Times, "storms", p.Times, "how often all connections are lost")
		fs.BoolVar(&p.Kill, "kill", p.Kill, "kill the server with SIGKILL and start it again, instead of cutting the connections")
		fs.Float64Var(&p.Rate, "rate", p.Rate, "messages per second that half of the clients write to the other half, also while connections are lost")
		fs.Float64Var(&p.WarmUp, "warm-up", p.WarmUp, "seconds of load before the first storm")
		fs.Float64Var(&p.Seconds, "seconds", p.Seconds, "seconds before each storm, and after the last one")
	case bench.Mixed, bench.Soak:
		h := p.Routine
		fs.IntVar(&p.Connections, "clients", p.Connections, "users, all online but for moments")
		fs.Float64Var(&p.Speed, "speed", p.Speed, "how many times faster than people the clients are")
		fs.Float64Var(&p.WarmUp, "warm-up", p.WarmUp, "seconds of load before the measurement")
		fs.Float64Var(&p.Seconds, "seconds", p.Seconds, "seconds that are measured")
		fs.BoolVar(&p.Receipts, "receipts", p.Receipts, "receivers move their read cursors, at most once a second, and senders get the receipts")
		addRoutine(fs, h)
	case bench.Sync, bench.History:
		fs.IntVar(&p.AtOnce, "at-once", p.AtOnce, "clients that ask at a time")
	case bench.Limit:
		fs.IntVar(&p.Size, "size", p.Size, "bytes in the text of a message")
		fs.IntVar(&p.Window, "window", p.Window, "frames of each sender on their way")
		fs.Float64Var(&p.Seconds, "seconds", p.Seconds, "seconds of each measurement")
		return
	}
	sends := p.Scenario != bench.Connections && p.Scenario != bench.Login
	pairs := p.Scenario == bench.Direct || p.Scenario == bench.Glide1 || p.Scenario == bench.Glide2 || p.Scenario == bench.OpenIMLoad
	timed := p.Scenario == bench.Direct || p.Scenario == bench.Group
	if sends {
		fs.IntVar(&p.Size, "size", p.Size, "bytes in the text of a message")
	}
	if len(p.IntervalMS) == 0 && sends && p.Scenario != bench.Storm && p.Routine == nil {
		fs.IntVar(&p.Window, "window", p.Window, "closed loop: messages that each sender may have without an ack")
	}
	if pairs || p.Scenario == bench.Connections {
		fs.Float64Var(&p.ConnectMS, "connect-every", p.ConnectMS, "milliseconds from one new connection to the next (0: as fast as they are accepted)")
	}
	if timed {
		fs.BoolVar(&p.Receipts, "receipts", p.Receipts, "receivers move their read cursors once a second, and senders get the receipts")
		fs.Float64Var(&p.Rate, "rate", p.Rate, "open loop: messages per second of all senders together; the latency of a message begins when it was due (0: closed loop)")
		fs.BoolVar(&r.knee, "find-max", false, "find the highest rate that meets the --target (default p99<100ms): doubles --rate until it is missed, then halves the distance; a run for each")
		fs.Float64Var(&p.WarmUp, "warm-up", p.WarmUp, "seconds of load before the measurement")
	}
	if timed {
		fs.Float64Var(&p.Seconds, "seconds", p.Seconds, "seconds that are measured")
	}
	fs.StringVar(&p.Codec, "codec", p.Codec, "proto or json")
	fs.StringVar(&p.Transport, "transport", p.Transport, "ws or tcp, or with TLS wss or tls")
	fs.Uint64Var(&p.Seed, "seed", p.Seed, "seed of the random texts and ids")
	if timed || pairs {
		fs.StringVar(&p.OpLog, "oplog", "", "write what every connection sent and saw to `FILE`, for petrel check. It costs the load generator CPU")
	}
	r.addServer(cmd)
	if p.Scenario != bench.Cluster {
		fs.IntVar(&p.Nodes, "nodes", p.Nodes, "with --postgres: number of nodes to start, as one cluster; the receiver of a direct message is on another node than its sender")
	}
}

// addRoutine adds the flags of what people do.
func addRoutine(fs *pflag.FlagSet, h *bench.Routine) {
	fs.Float64Var(&h.Direct, "direct", h.Direct, "messages to one other user, of each user who is online, in an hour")
	fs.Float64Var(&h.Group, "group", h.Group, "messages to a group, of each user who is online, in an hour")
	fs.IntVar(&h.Members, "group-members", h.Members, "members of a group who are online")
	fs.Float64Var(&h.Logins, "logins", h.Logins, "times that each client goes away and comes back in an hour")
	fs.Float64Var(&h.Opens, "opens", h.Opens, "conversations that each user opens in an hour, each with a page of history")
}

// addServer adds the flags that say what is measured and where the figures go.
func (r *benchRun) addServer(cmd *cobra.Command) {
	fs, p := cmd.Flags(), &r.params
	fs.StringVar(&p.Postgres, "postgres", p.Postgres, "keep everything in PostgreSQL: in a new database of the server at this `URL`; with auto, a PostgreSQL server is started for the run")
	if p.Scenario != bench.Cluster {
		fs.StringVar(&p.URL, "url", "", "`URL` of a running server to measure, whose admin key is needed (default: start a server)")
		fs.StringVar(&p.TCPAddr, "tcp-addr", "", "`HOST:PORT` of the TCP port of the server that --url names (default: its host, and port 8081)")
	}
	fs.StringVar(&p.Dir, "dir", "", "`DIR` in which the folder of the started server is made (default: the system's folder for temporary files)")
	fs.StringArrayVar(&p.ServeArgs, "serve", nil, "`FLAG` for the started server, like --serve=--store-cache=8MiB; may be repeated")
	fs.StringVar(&r.targets, "target", "", "`LIST` of targets with commas between them, like \"p99<5ms,accepted_per_cpu_s>80000\"; the figures are "+strings.Join(bench.TargetKeys(), ", "))
	r.files.addFlags(fs)
	if p.Scenario != bench.Cluster {
		fs.StringVar(&r.csv, "csv", "", "write the run second by second to `FILE`")
	}
}

func (r *benchRun) run(cmd *cobra.Command, c *cli) error {
	targets, err := bench.ParseTargets(r.targets)
	if err != nil {
		return usage(err.Error(), "")
	}
	if err := r.preset(cmd); err != nil {
		return err
	}
	p := r.params
	if p.URL != "" {
		if p.AdminURL, p.AdminKey, err = r.operator(cmd, c); err != nil {
			return err
		}
	}
	if err := p.Check(); err != nil {
		return usage(err.Error(), "")
	}
	if r.knee && (r.csv != "" || p.OpLog != "") {
		return usage("--csv and --oplog are of one run, and --find-max makes several", "run the rate that you want with --rate")
	}
	p.Command = commandLine(cmd)
	p.Progress = c.benchProgress()
	if r.knee {
		return r.findMax(cmd, c, p, targets)
	}
	report, err := bench.Run(cmd.Context(), p)
	if err != nil {
		if p.URL == "" {
			return err
		}
		return fromServer(p.URL, "bench "+p.Scenario, err)
	}
	found := report.Clean(targets)
	write := func(w io.Writer) error { return benchpage.Run(w, report, found) }
	if err := errors.Join(r.write(report, write, c), r.to(c, r.csv, report.WriteCSV)); err != nil {
		return err
	}
	return r.verdict(found, len(report.Overloaded) > 0 && report.Audit.Findings.Clean())
}

// findMax looks for the highest rate that is held.
func (r *benchRun) findMax(cmd *cobra.Command, c *cli, p bench.Params, targets bench.Targets) (err error) {
	if r.targets == "" {
		if targets, err = bench.ParseTargets(defaultKnee); err != nil {
			return err
		}
	}
	k, err := bench.FindKnee(cmd.Context(), p, targets)
	if err != nil {
		if p.URL == "" {
			return err
		}
		return fromServer(p.URL, "bench "+p.Scenario, err)
	}
	return r.write(k, func(w io.Writer) error { return benchpage.Knee(w, k) }, c)
}

// defaultKnee is what a rate has to meet if nothing else is asked for.
const defaultKnee = "p99<100ms"

// newBenchCluster compares clusters of several sizes.
func newBenchCluster(c *cli) *cobra.Command {
	r := &benchRun{params: bench.DefaultParams(bench.Cluster)}
	nodes := []int{1, 2, 3, 4}
	cmd := &cobra.Command{
		Use:   bench.Cluster,
		Short: "Compare clusters of several sizes",
		Long: "Compares clusters of several sizes. For each size it starts a PostgreSQL server, or makes a database in the one that\n" +
			"--postgres names, and starts that many nodes. Each sender writes to each receiver while the receivers are offline.\n" +
			"A first run warms up, a second one is measured. The CPU time of the nodes and of the database counts until they have\n" +
			"nothing left to do. Then the receivers come online and read every message of both runs. If a message was lost,\n" +
			"doubled, invented or out of order, the command ends with exit code 6.",
		Example: "  petrel bench cluster --nodes 1,2,3,4\n  petrel bench cluster --nodes 1,4 --rounds 5 --json cluster.json",
		Args:    cobra.NoArgs,
		RunE:    command(func(cmd *cobra.Command, _ []string) error { return r.runCluster(cmd, c, nodes) }),
	}
	r.addFlags(cmd)
	cmd.Flags().IntSliceVar(&nodes, "nodes", nodes, "sizes to compare, with commas between them")
	return cmd
}

func (r *benchRun) runCluster(cmd *cobra.Command, c *cli, nodes []int) error {
	targets, err := bench.ParseTargets(r.targets)
	if err != nil {
		return usage(err.Error(), "")
	}
	var table bench.Table
	var red []error
	if err := r.preset(cmd); err != nil {
		return err
	}
	for _, n := range nodes {
		p := r.params
		p.Nodes, p.Command = n, commandLine(cmd)
		if err := p.Check(); err != nil {
			return usage(err.Error(), "")
		}
		p.Progress = c.benchProgress()
		report, err := bench.Run(cmd.Context(), p)
		if err != nil {
			return fmt.Errorf("%d nodes: %w", n, err)
		}
		if err := report.WriteText(c.err); err != nil {
			return err
		}
		table.Runs = append(table.Runs, report)
		if err := report.Clean(targets); err != nil {
			red = append(red, fmt.Errorf("%d nodes: %w", n, err))
		}
	}
	found := errors.Join(red...)
	if err := r.write(&table, func(w io.Writer) error { return benchpage.Cluster(w, &table, found) }, c); err != nil {
		return err
	}
	return r.verdict(found, false)
}

// verdict makes the end of a run that found something.
func (r *benchRun) verdict(err error, overloaded bool) error {
	if err == nil {
		return nil
	}
	if overloaded {
		return &fault{exit: exitViolated, code: "overloaded", what: "the run was overloaded: its figures are not those of a server that keeps up", why: err.Error(), err: err,
			fix: "lower --rate until the run is clean; the highest rate with a clean run is what this machine carries"}
	}
	return &fault{exit: exitViolated, code: "violated", what: "the run is red", why: err.Error(), err: err,
		fix: "the report shows the first findings; a run with the same --seed sends the same texts"}
}

// figures are what a run or several have found.
type figures interface {
	WriteJSON(io.Writer) error
	WriteText(io.Writer) error
}

// operator is where operators reach the server that --url names, and their key.
func (r *benchRun) operator(cmd *cobra.Command, c *cli) (url, key string, err error) {
	c.server = r.params.URL
	t, err := c.target(cmd)
	if err != nil {
		return "", "", err
	}
	ctx, stop := context.WithTimeout(cmd.Context(), callTimeout)
	defer stop()
	key, err = c.adminKey(ctx, t)
	return t.admin, key, err
}

// check says that a file cannot be written, before a run and not after it.
func (f *files) check() error {
	for _, name := range []string{f.json, f.html, f.csv} {
		if name == "" || name == "-" {
			continue
		}
		dir := filepath.Dir(name)
		if s, err := os.Stat(dir); err != nil || !s.IsDir() {
			return usage(fmt.Sprintf("%s cannot be written: there is no folder %s", name, dir), "")
		}
	}
	return nil
}

// write writes the figures for people, and to the files that were asked for.
func (f *files) write(found figures, page func(io.Writer) error, c *cli) error {
	if isTerminal(c.err) {
		fmt.Fprintln(c.err) // after the last line of progress
	}
	text := c.out
	if f.json == "-" || f.html == "-" {
		text = c.err
	}
	return errors.Join(f.to(c, f.json, found.WriteJSON), f.to(c, f.html, page), found.WriteText(text))
}

// to writes one file.
func (f *files) to(c *cli, name string, write func(io.Writer) error) error {
	switch name {
	case "":
		return nil
	case "-":
		return write(c.out)
	}
	return writeFile(name, write)
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

// benchProgress shows on standard error how far a run has come.
func (c *cli) benchProgress() func(bench.Progress) {
	return bench.Draw(bare(c.err), isTerminal(c.err))
}
