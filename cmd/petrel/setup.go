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
		Long: "A server without an admin key prints a setup link to its terminal when it starts. This command redeems the link, and keeps the key in\n" +
			"the file admin.key of the data folder, which only its owner can read. Without LINK it takes the link from the file\n" +
			"setup-link of the data folder. The other commands do the same by themselves where they can read that file.",
		Example: "  petrel setup\n  petrel setup 'http://127.0.0.1:8082/setup#k=CODE'",
		Args:    cobra.MaximumNArgs(1),
		RunE: command(func(cmd *cobra.Command, args []string) error {
			t, err := c.target(cmd)
			if err != nil {
				return err
			}
			if len(args) == 1 {
				_, err = c.redeem(cmd.Context(), t, args[0])
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
