package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/petrel-im/petrel/internal/config"
)

func newDocs(*cli) *cobra.Command {
	return &cobra.Command{
		Use:     "docs DIR",
		Short:   "Write the reference pages config.md and cli.md",
		Example: "  petrel docs docs/reference",
		Hidden:  true,
		Args:    cobra.ExactArgs(1),
		RunE: command(func(cmd *cobra.Command, args []string) error {
			var conf, commands bytes.Buffer
			if err := config.WriteReference(&conf); err != nil {
				return err
			}
			writeCommands(&commands, cmd.Root())
			return errors.Join(
				os.WriteFile(filepath.Join(args[0], "config.md"), conf.Bytes(), 0o644),
				os.WriteFile(filepath.Join(args[0], "cli.md"), commands.Bytes(), 0o644),
			)
		}),
	}
}

// writeCommands writes the page of all commands.
func writeCommands(w *bytes.Buffer, root *cobra.Command) {
	w.WriteString("# The command line\n\nGenerated from `cmd/petrel` by `make gen`.\n\n" + root.Long +
		"\n\nFlags of every command:\n\n")
	writeFlags(w, root.PersistentFlags())
	w.WriteString("\nAn error says what happened, why, and what to do:\n\n```\nerror unreachable: send: cannot reach http://127.0.0.1:8080\n" +
		"  why   dial tcp: connect: connection refused\n  fix   start it with `petrel serve`, or name it with --server URL\n```\n")
	writeBelow(w, root)
}

func writeBelow(w *bytes.Buffer, parent *cobra.Command) {
	for _, cmd := range parent.Commands() {
		if cmd.Hidden || cmd.Name() == "help" || cmd.Name() == "completion" {
			continue
		}
		if cmd.HasSubCommands() && !strings.Contains(cmd.Use, " ") { // it only groups them
			writeBelow(w, cmd)
			continue
		}
		long := cmd.Long
		if long == "" {
			long = cmd.Short + "."
		}
		fmt.Fprintf(w, "\n## %s\n\n%s\n\n```\n%s\n```\n", cmd.CommandPath(), long, cmd.UseLine())
		if cmd.Example != "" {
			fmt.Fprintf(w, "\nFor example:\n\n```\n%s\n```\n", unindent(cmd.Example))
		}
		if cmd.LocalNonPersistentFlags().HasAvailableFlags() {
			w.WriteString("\n")
			writeFlags(w, cmd.LocalNonPersistentFlags())
		}
		writeBelow(w, cmd)
	}
}

func unindent(s string) string {
	return strings.TrimPrefix(strings.ReplaceAll(s, "\n  ", "\n"), "  ")
}

// writeFlags writes a table of flags. One row stands for all flags of options: docs/reference/config.md has them.
func writeFlags(w *bytes.Buffer, fs *pflag.FlagSet) {
	options := 0
	w.WriteString("| flag | |\n|---|---|\n")
	fs.VisitAll(func(f *pflag.Flag) {
		if _, ok := f.Value.(*optionFlag); ok {
			options++
			return
		}
		if f.Name == "help" {
			return
		}
		arg, doc := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if arg != "" {
			name += " " + arg
		}
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0" && f.DefValue != "[]" {
			doc += " (default " + f.DefValue + ")"
		}
		fmt.Fprintf(w, "| `%s` | %s |\n", name, strings.ReplaceAll(doc, "|", "\\|"))
	})
	if options > 0 {
		w.WriteString("| `--SECTION-KEY VALUE` | any option of the [configuration](config.md) |\n")
	}
}
