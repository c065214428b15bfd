package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/petrel-im/petrel/bench"
	"github.com/petrel-im/petrel/bench/compare"
	benchpage "github.com/petrel-im/petrel/bench/page"
)

func newBenchEstimate(c *cli) *cobra.Command {
	var f files
	plan, run := bench.DefaultPlan(), bench.Params{Scale: 1}
	var costs string
	var measure bool
	var against []string
	cmd := &cobra.Command{
		Use:   "estimate",
		Short: "Say what a number of users needs, from what each step costs",
		Long: "Says how many processors, how much memory and disk, and how many databases a number of users needs. It multiplies what\n" +
			"people do in the busiest hour with what each step has cost when it was measured, and shows each formula. The costs\n" +
			"are those of the machine that the answer names. --measure measures them on this one, in about four minutes.",
		Example: "  petrel bench estimate --users 1000000 --online 0.1\n  petrel bench estimate --measure --json costs.json\n  petrel bench estimate --costs costs.json --users 50000 --html estimate.html",
		Args:    cobra.NoArgs,
		RunE: command(func(cmd *cobra.Command, _ []string) (err error) {
			if err := plan.Check(); err != nil {
				return usage(err.Error(), "")
			}
			known := bench.DefaultCosts()
			if costs != "" {
				if known, err = bench.ReadCosts(costs); err != nil {
					return usage(err.Error(), "")
				}
			}
			if measure {
				if run.Scale <= 0 || run.Scale > 10 {
					return usage("scale must be above 0 and at most 10", "")
				}
				run.Progress, run.Command = c.benchProgress(), commandLine(cmd)
				if known, err = bench.MeasureCosts(cmd.Context(), run, known); err != nil {
					return err
				}
			}
			e := bench.NewEstimate(plan, known)
			if len(against) > 0 {
				runs, err := compare.Load(against...)
				if err != nil {
					return usage(err.Error(), "write one with petrel bench mixed --json FILE")
				}
				for _, r := range runs {
					if err := e.Hold(r.Report); err != nil {
						return usage(err.Error(), "")
					}
				}
			}
			return f.write(e, func(w io.Writer) error { return benchpage.Estimate(w, e) }, c)
		}),
	}
	fs := cmd.Flags()
	fs.Float64Var(&plan.Users, "users", plan.Users, "users in all")
	fs.Float64Var(&plan.Online, "online", plan.Online, "share of them who are online in the busiest hour, 0 to 1")
	people := bench.Params{Routine: &plan.Routine}
	addOptions(fs, people.Options(bench.RoutineOptions...))
	fs.Float64Var(&plan.Hours, "busy-hours", plan.Hours, "a day has as many messages as so many of the busiest hours")
	fs.Float64Var(&plan.Size, "size", plan.Size, "bytes in the text of a message")
	fs.Float64Var(&plan.Days, "days", plan.Days, "days for which messages are kept")
	fs.Float64Var(&plan.Load, "load", plan.Load,
		"share of the processors that may be in use in the busiest hour, 0 to 1")
	fs.Float64Var(&plan.NodeCores, "node-cores", plan.NodeCores, "processors of one machine")
	fs.StringVar(&costs, "costs", "", "take the costs from `FILE`, which this command has written with --json")
	fs.StringSliceVar(&against, "against", nil,
		"show also what the costs say of runs of mixed, whose reports are `FILES` with commas between them, and how far off that is")
	fs.BoolVar(&measure, "measure", false,
		"measure the costs on this machine first, with short runs of other scenarios; those of a cluster stay as they are")
	fs.Float64Var(&run.Scale, "scale", run.Scale, "with --measure: share of the time and the users of its runs")
	fs.StringVar(&run.Dir, "dir", "",
		"with --measure: `DIR` in which the folders of the started servers are made (default: the system's folder for temporary files)")
	fs.StringArrayVar(&run.ServeArgs, "serve", nil, "with --measure: `FLAG` for the started servers; may be repeated")
	f.addFlags(fs)
	return cmd
}
