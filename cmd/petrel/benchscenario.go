package main

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/petrel-im/petrel/bench"
	benchpage "github.com/petrel-im/petrel/bench/page"
)

// preset fills in the parameters of the shape that was asked for, scaled, and sets once more
// what has a flag of its own.
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
	r.params = p.Scaled(scale)
	for _, set := range given {
		if err := set(); err != nil {
			return err
		}
	}
	return nil
}

// publishedOf says which published tests a scenario does.
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

func newBenchQuick(c *cli) *cobra.Command {
	r, p := &benchRun{}, bench.DefaultQuick()
	cmd := &cobra.Command{
		Use:   bench.Quick,
		Short: "See in 20 seconds what the server does: send, group, reconnect, check",
		Long: "Starts servers of its own in temporary folders and shows in about 20 seconds what they do: people write to each other, a\n" +
			"group has 500 members, the server is killed with SIGKILL while clients of the Go SDK write, and they come back. Every\n" +
			"message is followed to everybody who should get it. If one was lost, doubled, invented or out of order, the command ends\n" +
			"with exit code 6.",
		Example: "  petrel bench quick\n  petrel bench quick --html quick.html",
		Args:    cobra.NoArgs,
		RunE: command(func(cmd *cobra.Command, _ []string) error {
			if err := p.Check(); err != nil {
				return usage(err.Error(), "")
			}
			if err := r.files.check(); err != nil {
				return err
			}
			p.Command, p.Progress = commandLine(cmd), c.benchProgress()
			story, err := bench.RunQuick(cmd.Context(), p)
			if err != nil {
				return err
			}
			found := story.Clean()
			if err := r.write(story, func(w io.Writer) error { return benchpage.Story(w, story, found) }, c); err != nil {
				return err
			}
			return r.verdict(found, false)
		}),
	}
	fs := cmd.Flags()
	fs.Float64Var(&p.Scale, "scale", p.Scale, "share of the load, like 0.1")
	fs.Float64Var(&p.Seconds, "seconds", p.Seconds, "seconds of each of the first two parts")
	fs.StringVar(&p.Dir, "dir", "", "`DIR` in which the folders of the started servers are made (default: the system's folder for temporary files)")
	fs.StringArrayVar(&p.ServeArgs, "serve", nil, "`FLAG` for the started servers, like --serve=--store-cache=8MiB; may be repeated")
	r.files.addFlags(fs)
	return cmd
}
