package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/petrel-im/petrel/bench"
)

// preset sets the parameters to those of the requested shape, scales them, and then sets those again that a flag gives.
// It also checks --scale and the folders of the files.
func (r *benchRun) preset(cmd *cobra.Command) error {
	p, err := bench.ShapeParams(r.params.Scenario, r.params.Shape)
	if err != nil {
		return usage(err.Error(), "")
	}
	scale := r.params.Scale
	if !(scale > 0) || math.IsInf(scale, 1) { // NaN is neither
		return usage(fmt.Sprintf("scale is %g; it is a share above 0, like 0.1", scale), "")
	}
	if err := r.files.check(); err != nil {
		return err
	}
	var given []func() error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Name == "scale" {
			return
		}
		if list, several := f.Value.(pflag.SliceValue); several {
			values := list.GetSlice()
			given = append(given, func() error { return list.Replace(values) })
			return
		}
		value := f.Value.String()
		given = append(given, func() error { return f.Value.Set(value) })
	})
	if people := r.params.Routine; people != nil { // the flags point to this struct
		*people = *p.Routine
		p.Routine = people
	}
	r.params = p.Scaled(scale)
	for _, set := range given {
		if err := set(); err != nil {
			return err
		}
	}
	return nil
}

// publishedOf returns a text for the help that lists the published tests of a scenario; "": there are none.
func publishedOf(scenario string) string {
	var lines []string
	for _, p := range bench.AllPublished() {
		if p.Scenario != scenario {
			continue
		}
		how := "petrel bench " + scenario
		if p.Shape != "" {
			how += " --shape " + p.Shape
		}
		lines = append(lines, fmt.Sprintf("  %s: as %s did, %s", how, p.System, p.Size))
	}
	if len(lines) == 0 {
		return ""
	}
	return "Published tests that it does again, and puts its figures beside theirs:\n" + strings.Join(lines, "\n")
}

// newBenchStory makes the command of a scenario with a report of its own.
func newBenchStory[R figures](c *cli, s *bench.Scenario, run func(context.Context, bench.Params) (R, error),
	clean func(R) error, page func(io.Writer, R, error) error) *cobra.Command {
	r := &benchRun{params: bench.DefaultParams(s.Name)}
	cmd := &cobra.Command{
		Use: s.Name, Short: s.Short, Long: s.Long, Example: s.Example, Args: cobra.NoArgs,
		RunE: command(func(cmd *cobra.Command, _ []string) error {
			p := r.params
			if err := p.Check(); err != nil {
				return usage(err.Error(), "")
			}
			if err := r.files.check(); err != nil {
				return err
			}
			p.Command, p.Progress = commandLine(cmd), c.benchProgress()
			report, err := run(cmd.Context(), p)
			if err != nil {
				return err
			}
			found := clean(report)
			if err := r.write(report, func(w io.Writer) error { return page(w, report, found) }, c); err != nil {
				return err
			}
			return r.verdict(found, false)
		}),
	}
	addOptions(cmd.Flags(), r.params.All())
	r.files.addFlags(cmd.Flags())
	return cmd
}
