package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/petrel-im/petrel/internal/config"
)

func newConfig(c *cli) *cobra.Command {
	return group("config", "Show, check and explain the configuration",
		"  petrel config show --origin\n  petrel config check\n  petrel config default > petrel.toml",
		newConfigShow(c), newConfigCheck(c), newConfigDefault(c))
}

func newConfigShow(c *cli) *cobra.Command {
	var origin bool
	cmd := &cobra.Command{
		Use:     "show",
		Short:   "Print the value of every option",
		Long:    "Prints every option with the value that `petrel serve` would use here. Secrets are not shown.",
		Example: "  petrel config show --origin\n  PETREL_LOG__LEVEL=debug petrel config show --origin",
		Args:    cobra.NoArgs,
		RunE: command(func(cmd *cobra.Command, _ []string) error {
			conf, err := c.load(cmd)
			if err != nil {
				return err
			}
			values := conf.Values()
			return c.print(values, func(w io.Writer) {
				tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
				for _, v := range values {
					shown := v.Value
					if shown == "" {
						shown = `""`
					}
					fmt.Fprintf(tw, "%s\t%s", v.Name, shown)
					if origin {
						fmt.Fprintf(tw, "\t%s", v.Origin)
					}
					fmt.Fprintln(tw)
				}
				_ = tw.Flush() // to the terminal
			})
		}),
	}
	cmd.Flags().BoolVar(&origin, "origin", false, "print where each value comes from")
	addOptionFlags(cmd.Flags())
	return cmd
}

func newConfigCheck(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "check",
		Short:   "Report everything that is wrong with the configuration",
		Example: "  petrel config check\n  petrel config check --config /etc/petrel/petrel.toml",
		Args:    cobra.NoArgs,
		RunE: command(func(cmd *cobra.Command, _ []string) error {
			if _, err := c.load(cmd); err != nil {
				return err
			}
			return c.print(map[string]bool{"ok": true},
				func(w io.Writer) { fmt.Fprintln(w, "the configuration is valid") })
		}),
	}
	addOptionFlags(cmd.Flags())
	return cmd
}

func newConfigDefault(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "default",
		Short:   "Print a file with every option, explained, at its default",
		Example: "  petrel config default > petrel.toml",
		Args:    cobra.NoArgs,
		RunE:    command(func(*cobra.Command, []string) error { return config.WriteDefault(c.out) }),
	}
}
