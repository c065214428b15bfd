package main

import (
	"context"
	"crypto/rand"

	"github.com/spf13/cobra"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

func newUserPasswd(c *cli) *cobra.Command {
	q := &petrelv1.SetPasswordRequest{RequestId: rand.Text()}
	cmd := &cobra.Command{
		Use:   "passwd USER",
		Short: "Set the password of a user",
		Long: "Sets the password of a user. On a terminal it asks for the password twice; otherwise it reads one line from the standard\n" +
			"input. The password never stands in the command line. All tokens of the user are revoked, and their sessions end.",
		Example: "  petrel user passwd alice\n  petrel user passwd alice < password.txt",
		Args:    cobra.ExactArgs(1),
		RunE: c.operator(func(ctx context.Context, api *admin, args []string) error {
			q.User = args[0]
			var err error
			if q.Password, err = c.newPassword("new password of " + q.User); err != nil {
				return err
			}
			u, err := call(ctx, api, "set the password of "+q.User, api.SetPassword, q)
			if err == nil {
				dropToken(api.data, q.Tenant, q.User)
			}
			return c.answer(u, err, "%s has a new password; all tokens ended, sessions closed\n", u.GetUser())
		}),
	}
	addTenant(cmd, &q.Tenant)
	return cmd
}
