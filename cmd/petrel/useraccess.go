package main

import (
	"context"
	"crypto/rand"

	"github.com/spf13/cobra"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

func newUserDisable(c *cli) *cobra.Command {
	var q petrelv1.DisableUserRequest
	cmd := &cobra.Command{
		Use:     "disable USER",
		Short:   "Lock a user out",
		Long:    "Revokes all tokens of a user, ends their sessions, and refuses further logins. Their conversations and messages stay.\n`petrel user enable` lets them log in again; revoked tokens stay revoked.",
		Example: "  petrel user disable mallory",
		Args:    cobra.ExactArgs(1),
		RunE: c.operator(func(ctx context.Context, api *admin, args []string) error {
			q.User, q.RequestId = args[0], rand.Text()
			u, err := call(ctx, api, "disable "+q.User, api.DisableUser, &q)
			if err == nil {
				dropToken(api.data, q.Tenant, q.User)
			}
			return c.answer(u, err, "%s is locked out: all tokens ended, sessions closed\n", u.GetUser())
		}),
	}
	addTenant(cmd, &q.Tenant)
	return cmd
}

func newUserLink(c *cli) *cobra.Command {
	var q petrelv1.LinkUserRequest
	cmd := &cobra.Command{
		Use:   "link USER",
		Short: "Let the identity provider log in a user who registered",
		Long: "An account belongs to whoever made it: a JWT of the identity provider does not log in to an account that was made by registration. This\n" +
			"links the two. The password goes and all tokens are revoked, since nobody can know who registered the name, unless --keep-password says otherwise.",
		Example: "  petrel user link boss@corp.example",
		Args:    cobra.ExactArgs(1),
		RunE: c.operator(func(ctx context.Context, api *admin, args []string) error {
			q.User, q.RequestId = args[0], rand.Text()
			u, err := call(ctx, api, "link "+q.User, api.LinkUser, &q)
			return c.answer(u, err, "%s logs in by the identity provider\n", u.GetUser())
		}),
	}
	addTenant(cmd, &q.Tenant)
	cmd.Flags().BoolVar(&q.KeepPassword, "keep-password", false,
		"whoever registered the name is the same person: the password and the tokens stay")
	return cmd
}

func newUserEnable(c *cli) *cobra.Command {
	var q petrelv1.EnableUserRequest
	cmd := &cobra.Command{
		Use:     "enable USER",
		Short:   "Let a disabled user log in again",
		Example: "  petrel user enable mallory",
		Args:    cobra.ExactArgs(1),
		RunE: c.operator(func(ctx context.Context, api *admin, args []string) error {
			q.User, q.RequestId = args[0], rand.Text()
			u, err := call(ctx, api, "enable "+q.User, api.EnableUser, &q)
			return c.answer(u, err, "%s can log in again\n", u.GetUser())
		}),
	}
	addTenant(cmd, &q.Tenant)
	return cmd
}
