package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	sdk "github.com/petrel-im/petrel/sdk/go"
)

// version is the version of the next release. CHANGELOG.md begins with it.
const version = "0.1.0"

// commit returns the commit of this binary, "unknown" without one; a plus means that the tree had changes.
func commit() string {
	found, changed := "unknown", ""
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		return found
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			found = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "+"
		}
	}
	return found + changed
}

func newVersion(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  petrel version --json",
		Args:    cobra.NoArgs,
		RunE: command(func(*cobra.Command, []string) error {
			v := struct {
				Version  string `json:"version"`
				Commit   string `json:"commit"`
				Protocol int    `json:"protocol"`
				Go       string `json:"go"`
				Platform string `json:"platform"`
			}{version, commit(), sdk.Protocol, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
			return c.print(v, func(w io.Writer) {
				fmt.Fprintf(w, "petrel %s (%s)  protocol %d  %s %s\n", v.Version, v.Commit, v.Protocol, v.Go,
					v.Platform)
			})
		}),
	}
}
