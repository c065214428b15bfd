package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/petrel-im/petrel/bench"
	"github.com/petrel-im/petrel/bench/compare"
	benchpage "github.com/petrel-im/petrel/bench/page"
)

func newBenchCompare(c *cli) *cobra.Command {
	var f files
	cmd := &cobra.Command{
		Use:   "compare OLD NEW",
		Short: "Compare the reports of two sets of runs",
		Long: "Compares the JSON reports of two sets of runs: of two programs, say. OLD and NEW are each a file, a folder with a file\n" +
			"for each run, or files and folders with commas between them. For each figure it shows both medians, the range in which\n" +
			"they lie with a confidence of 95 %, and how often runs of one and the same program would differ so much. It says that a\n" +
			"figure is better or worse if that is less than once in 20 times, for which each side needs at least four runs. Let the\n" +
			"runs of the two alternate: a machine is not as fast in the evening as in the morning.",
		Example: "  petrel bench compare before.json after.json --html comparison.html\n  petrel bench compare a1.json,a2.json,a3.json,a4.json b1.json,b2.json,b3.json,b4.json",
		Args:    cobra.ExactArgs(2),
		RunE: command(func(_ *cobra.Command, args []string) error {
			var sets [2][]compare.Run
			for i, arg := range args {
				var err error
				if sets[i], err = compare.Load(strings.Split(arg, ",")...); err != nil {
					return usage(err.Error(), "write one with petrel bench SCENARIO --json FILE")
				}
			}
			found, err := compare.Compare(sets[0], sets[1])
			if err != nil {
				return usage(err.Error(), "")
			}
			return f.write(found, func(w io.Writer) error { return benchpage.Comparison(w, found) }, c)
		}),
	}
	f.addFlags(cmd.Flags())
	return cmd
}

func newBenchHistory(c *cli) *cobra.Command {
	var f files
	cmd := &cobra.Command{
		Use:   "history DIR",
		Short: "Show how the figures of a folder of reports have changed",
		Long: "Shows the reports of a folder, and of those in it, in the order of time: a table for runs that did the same on the same\n" +
			"kind of machine.",
		Example: "  petrel bench history .\n  petrel bench history . --html history.html",
		Args:    cobra.ExactArgs(1),
		RunE: command(func(_ *cobra.Command, args []string) error {
			runs, err := compare.Load(args[0])
			if err != nil {
				return usage(err.Error(), "")
			}
			if len(runs) == 0 {
				return usage(fmt.Sprintf("there is no report in %s", args[0]),
					"write one with petrel bench SCENARIO --json FILE")
			}
			h := compare.NewHistory(runs)
			return f.write(h, func(w io.Writer) error { return benchpage.History(w, h) }, c)
		}),
	}
	f.addFlags(cmd.Flags())
	return cmd
}

// pageOfOther returns a function that writes the page of a report of an estimate or of openim-reliability. It returns
// nil for all other files, and for a file that it cannot read.
func pageOfOther(file string) func(io.Writer) error {
	b, err := os.ReadFile(file) // of a folder it fails
	if err != nil {
		return nil
	}
	var r bench.ReliabilityReport
	if json.Unmarshal(b, &r) == nil && r.Scenario == bench.OpenIMReliability {
		return func(w io.Writer) error { return benchpage.Reliability(w, &r, r.Clean()) }
	}
	var e bench.Estimate
	if json.Unmarshal(b, &e) == nil && len(e.Stages) > 0 {
		return func(w io.Writer) error { return benchpage.Estimate(w, &e) }
	}
	return nil
}

func newBenchPage(c *cli) *cobra.Command {
	var f files
	cmd := &cobra.Command{
		Use:     "page REPORT",
		Short:   "Make the page of a report that was written as JSON",
		Example: "  petrel bench page direct.json --html direct.html",
		Args:    cobra.ExactArgs(1),
		RunE: command(func(_ *cobra.Command, args []string) error {
			if page := pageOfOther(args[0]); page != nil {
				return f.to(c, f.html, page)
			}
			runs, err := compare.Load(args[0])
			if err != nil {
				return usage(err.Error(), "")
			}
			if len(runs) == 0 {
				return usage(fmt.Sprintf("there is no report in %s", args[0]),
					"write one with petrel bench SCENARIO --json FILE")
			}
			if story, err := bench.ReadStory(args[0]); err == nil {
				return f.to(c, f.html, func(w io.Writer) error { return benchpage.Story(w, story, story.Clean()) })
			}
			if len(runs) != 1 {
				var t bench.Table
				for _, r := range runs {
					t.Runs = append(t.Runs, r.Report)
				}
				return f.to(c, f.html, func(w io.Writer) error { return benchpage.Cluster(w, &t, nil) })
			}
			one := runs[0].Report
			return f.to(c, f.html, func(w io.Writer) error { return benchpage.Run(w, one, one.Clean(nil)) })
		}),
	}
	cmd.Flags().StringVar(&f.html, "html", "-", "write the page to `FILE`, - for the standard output")
	return cmd
}

// commandLine returns the command line that repeats this command, for reports. It leaves out --json, --html, --dir and
// the flags of the admin key, and writes URL in place of the address of a database, which may hold a password.
func commandLine(cmd *cobra.Command) string {
	words := []string{cmd.CommandPath()}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "json", "html", "dir", "admin-key", "admin-key-file":
			return
		}
		values := []string{f.Value.String()}
		if f.Name == "postgres" && values[0] != bench.OwnPostgres {
			values[0] = "URL"
		}
		if all, several := f.Value.(pflag.SliceValue); several {
			values = all.GetSlice()
		}
		for _, v := range values {
			words = append(words, "--"+f.Name+"="+shellWord(v))
		}
	})
	return strings.Join(words, " ")
}
