package main

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"
)

func newSetup(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "setup [LINK]",
		Short: "Make the first admin key from the one-time setup link",
		Long: "Redeems the setup link that a server without an admin key prints at its start, and keeps the key in admin.key of\n" +
			"the data folder, readable by its owner only. Without LINK it takes the file setup-link of the data folder. The other\n" +
			"commands do this by themselves where they can read that file.",
		Example: "  petrel setup\n  petrel setup 'http://127.0.0.1:8080/setup#k=CODE'",
		Args:    cobra.MaximumNArgs(1),
		RunE: command(func(cmd *cobra.Command, args []string) error {
			t, err := c.target(cmd)
			if err != nil {
				return err
			}
			if len(args) == 1 {
				_, err = redeem(cmd.Context(), t, codeOf(args[0]))
			} else {
				_, err = c.adminKey(cmd.Context(), t)
			}
			if err != nil {
				return err
			}
			name := filepath.Join(t.data, adminKeyName)
			return c.print(map[string]string{"admin_key_file": name}, func(w io.Writer) {
				fmt.Fprintf(w, "the admin key is in %s\n", name)
			})
		}),
	}
}
