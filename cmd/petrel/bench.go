package main

import (
	"cmp"
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
	below := []*cobra.Command{newBenchEstimate(c), newBenchCompare(c), newBenchHistory(c), newBenchPage(c)}
	for _, s := range bench.Scenarios() {
		switch s.Name {
		case bench.Quick:
			below = append(below, newBenchStory(c, &s, bench.RunQuick, (*bench.Story).Clean, benchpage.Story))
		case bench.OpenIMReliability:
			below = append(below, newBenchStory(c, &s, bench.RunReliability, (*bench.ReliabilityReport).Clean,
				benchpage.Reliability))
		case bench.Cluster:
			below = append(below, newBenchCluster(c, &s))
		default:
			below = append(below, newBenchScenario(c, &s))
		}
	}
	return group("bench", "Measure a server, and check what became of every message",
		"  petrel bench quick\n  petrel bench direct --html direct.html\n  petrel bench group --members 1000 --json group.json\n  petrel bench connections\n"+
			"  petrel bench compare before.json after.json", below...)
}

// benchRun has the parameters of a command that makes one or several runs.
type benchRun struct {
	params  bench.Params
	targets string
	knee    bool // search for the highest rate
	files
}

// files has the names of the files for a report; - is the standard output, and for an empty name nothing is
// written.
type files struct{ json, html string }

func (f *files) addFlags(fs *pflag.FlagSet) {
	// This --json hides that of all commands: a report goes to a file.
	fs.StringVar(&f.json, "json", "", "write the report as JSON to `FILE`, - for the standard output")
	fs.StringVar(&f.html, "html", "", "write the report to `FILE` as one HTML page without external parts")
}

func newBenchScenario(c *cli, s *bench.Scenario) *cobra.Command {
	r := &benchRun{params: bench.DefaultParams(s.Name)}
	cmd := &cobra.Command{
		Use:   s.Name,
		Short: s.Short,
		Long: cmp.Or(s.Long, s.Short+". The command starts a server of its own in a temporary folder,\n"+
			"unless --url names a running one. It follows every message from its sender to its receivers. At the end it reads the\n"+
			"histories of some conversations back, and of all in which something seems to be missing. If a message was lost, doubled,\n"+
			"invented or out of order, the command ends with exit code 6, however fast the run was. It also ends with exit code 6 if a\n"+
			"--target is missed, and if the run was overloaded: less was accepted than offered, sends were put off, latency grew, or the\n"+
			"load generator itself was late."),
		Example: s.Example,
		Args:    cobra.NoArgs,
		RunE:    command(func(cmd *cobra.Command, _ []string) error { return r.run(cmd, c) }),
	}
	if published := publishedOf(s.Name); published != "" {
		cmd.Long += "\n\n" + published
	}
	r.addFlags(cmd, s)
	return cmd
}

// addOptions gives a command a flag for each option.
func addOptions(fs *pflag.FlagSet, options []bench.Option) {
	for _, o := range options {
		switch v := o.Value.(type) {
		case *int:
			fs.IntVar(v, o.Name, *v, o.Help)
		case *uint64:
			fs.Uint64Var(v, o.Name, *v, o.Help)
		case *float64:
			fs.Float64Var(v, o.Name, *v, o.Help)
		case *[]float64:
			fs.Float64SliceVar(v, o.Name, *v, o.Help)
		case *bool:
			fs.BoolVar(v, o.Name, *v, o.Help)
		case *string:
			fs.StringVar(v, o.Name, *v, o.Help)
		case *[]string:
			fs.StringArrayVar(v, o.Name, *v, o.Help)
		}
	}
}

// addFlags adds the flags of a scenario: its options, those of the files and, for the scenarios that have them,
// --shape, --find-max and --target.
func (r *benchRun) addFlags(cmd *cobra.Command, s *bench.Scenario) {
	fs := cmd.Flags()
	addOptions(fs, r.params.All())
	if shapes := bench.Shapes(s.Name); len(shapes) > 0 {
		fs.StringVar(&r.params.Shape, "shape", "", "do as a published test did: `NAME` is "+strings.Join(shapes, ", "))
	}
	if s.Name == bench.Direct || s.Name == bench.Group {
		fs.BoolVar(&r.knee, "find-max", false,
			"find the highest rate that meets the --target (default p99<100ms): doubles --rate until it is missed, then halves the distance; a run for each")
	}
	if s.Name != bench.Limit {
		fs.StringVar(&r.targets, "target", "",
			"`LIST` of targets with commas between them, like \"p99<5ms,accepted_per_cpu_s>80000\"; the figures are "+strings.Join(bench.TargetKeys(), ", "))
	}
	r.files.addFlags(fs)
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
	if r.knee && p.OpLog != "" {
		return usage("--oplog is of one run, and --find-max makes several", "run the rate that you want with --rate")
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
	if err := r.write(report, write, c); err != nil {
		return err
	}
	return r.verdict(found, len(report.Overloaded) > 0 && report.Audit.Findings.Clean())
}

// findMax searches for the highest rate that meets the targets, and writes the report of the search.
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

// defaultKnee is the target of --find-max without --target.
const defaultKnee = "p99<100ms"

// newBenchCluster returns the command that compares clusters of several sizes.
func newBenchCluster(c *cli, s *bench.Scenario) *cobra.Command {
	r := &benchRun{params: bench.DefaultParams(bench.Cluster)}
	nodes := []int{1, 2, 3, 4}
	cmd := &cobra.Command{
		Use: s.Name, Short: s.Short, Long: s.Long, Example: s.Example,
		Args: cobra.NoArgs,
		RunE: command(func(cmd *cobra.Command, _ []string) error { return r.runCluster(cmd, c, nodes) }),
	}
	r.addFlags(cmd, s)
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

// verdict converts the errors of a run into the error of the command, nil if there are none. Codes: overloaded,
// violated.
func (r *benchRun) verdict(err error, overloaded bool) error {
	if err == nil {
		return nil
	}
	if overloaded {
		return &fault{exit: exitViolated, code: "overloaded",
			what: "the run was overloaded: its figures are not those of a server that keeps up", why: err.Error(),
			err: err,
			fix: "lower --rate until the run is clean; the highest rate with a clean run is what this machine carries"}
	}
	return &fault{exit: exitViolated, code: "violated", what: "the run is red", why: err.Error(), err: err,
		fix: "the report shows the first findings; a run with the same --seed sends the same texts"}
}

// figures are the results of one or several runs.
type figures interface{ WriteText(io.Writer) error }

// operator returns the address of the admin API of the server in --url, and the admin key. It sets c.server to --url.
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

// check returns an error for a file whose folder does not exist, so that a command fails before a run and not after it.
func (f *files) check() error {
	for _, name := range []string{f.json, f.html} {
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

// write writes a report to the files. As text for people it writes the report to the standard output, or to the
// standard error if a file is the standard output.
func (f *files) write(found figures, page func(io.Writer) error, c *cli) error {
	if isTerminal(c.err) {
		fmt.Fprintln(c.err) // after the last line of progress
	}
	text := c.out
	if f.json == "-" || f.html == "-" {
		text = c.err
	}
	return errors.Join(f.to(c, f.json, func(w io.Writer) error { return bench.WriteJSON(w, found) }),
		f.to(c, f.html, page), found.WriteText(text))
}

// to calls write with the file of this name: - is the standard output, and for an empty name it does nothing.
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
		_ = f.Close() // the error of the write says more
		return fmt.Errorf("write %s: %w", name, err)
	}
	return f.Close()
}

// benchProgress returns a function that prints the progress of a run on the standard error.
func (c *cli) benchProgress() func(bench.Progress) {
	return bench.Draw(bare(c.err), isTerminal(c.err))
}
