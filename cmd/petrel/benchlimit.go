package main

import (
	"github.com/spf13/cobra"

	"github.com/petrel-im/petrel/bench"
)

func newBenchLimit(c *cli) *cobra.Command {
	r := &benchRun{params: bench.DefaultParams(bench.Limit)}
	cmd := &cobra.Command{
		Use:   bench.Limit,
		Short: "Measure what this machine does without a chat server",
		Long: "Measures what this machine does without a chat server: frames that one event loop, of the kind that the server has, sends\n" +
			"back or sends on to many, and a log with a sync of the disk for all entries that have come meanwhile. It does so with one\n" +
			"frame of each sender on its way, and with --window. No chat server can do more with the same sockets and the same disk.\n" +
			"The scenarios that send measure this before each run with their own numbers, and show what share of it the server has reached.",
		Example: "  petrel bench limit\n  petrel bench limit --members 10000 --size 1000 --html limit.html",
		Args:    cobra.NoArgs,
		RunE:    command(func(cmd *cobra.Command, _ []string) error { return r.run(cmd, c) }),
	}
	r.addFlags(cmd)
	cmd.Flags().StringVar(&r.params.Dir, "dir", "", "`DIR` in which the log is written (default: the system's folder for temporary files)")
	r.files.addFlags(cmd.Flags())
	return cmd
}
