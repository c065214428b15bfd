package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

func newUser(c *cli) *cobra.Command {
	return group("user", "Make users, list them, change profiles, give tokens, lock users out",
		"  petrel user create alice bob\n  petrel user sessions alice\n  petrel user revoke alice",
		newUserAdd(c), newUserList(c), newUserShow(c), newUserProfile(c), newUserContacts(c), newUserSessions(c),
		newUserToken(c), newUserPasswd(c), newUserLink(c), newUserDisable(c), newUserEnable(c),
		newUserMute(c), newUserRestore(c), newUserRevoke(c))
}

// issued is one user of the answer of `user create`.
type issued struct {
	User    string `json:"user"`
	Token   string `json:"token"`
	Created bool   `json:"created"`        // false: the user was there, and this is a further token
	File    string `json:"file,omitempty"` // path of the file with the token; empty: it was not kept
}

func newUserAdd(c *cli) *cobra.Command {
	var tenant string
	cmd := &cobra.Command{
		Use:   "create USER...",
		Short: "Make users, and an access token for each",
		Long: "Makes the users that do not exist yet, each with a token. A user who exists gets one more token. Tokens are shown once.\n" +
			"Where the data folder is on this host, they are also kept in its files tokens/TENANT/USER, which only their owner can\n" +
			"read. There `petrel chat --as USER`, `tail` and `send` find them.",
		Example: "  petrel user create alice bob\n  petrel user create --tenant acme carol --json",
		Args:    cobra.MinimumNArgs(1),
		RunE: c.operator(func(ctx context.Context, api *admin, args []string) error {
			r, err := call(ctx, api, "make users", api.CreateUsers,
				&petrelv1.CreateUsersRequest{Tenant: tenant, Users: args})
			if err != nil {
				return err
			}
			list := make([]issued, len(r.Tokens))
			for i, tok := range r.Tokens {
				list[i] = issued{User: tok.User, Token: tok.Token, Created: tok.Created}
			}
			kept := keepTokens(api.data, tenant, list)
			err = c.print(list, func(w io.Writer) { writeIssued(w, list) })
			return errors.Join(err, kept)
		}),
	}
	cmd.Flags().StringVar(&tenant, "tenant", "",
		"`NAME` of the tenant, which is made if it does not exist (default \"default\")")
	return cmd
}

// keepTokens writes the tokens into files of the data folder, if it is on this host, and sets the field File of each.
func keepTokens(data, tenant string, list []issued) error {
	if _, err := os.Stat(data); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var errs []error
	for i := range list {
		name := tokenFile(data, tenant, list[i].User)
		if name == "" {
			continue
		}
		if err := keepSecret(data, name, list[i].Token); err != nil {
			errs = append(errs, fmt.Errorf("keep the token of %s: %w", list[i].User, err))
			continue
		}
		list[i].File = name
	}
	return errors.Join(errs...)
}

func writeIssued(w io.Writer, list []issued) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, u := range list {
		what := "made"
		if !u.Created {
			what = "further token"
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\n", u.User, what, u.Token)
	}
	_ = tw.Flush() // to the terminal
	for _, u := range list {
		if u.File != "" {
			fmt.Fprintln(
				w, "the tokens are shown once; `petrel chat --as`, `tail` and `send` find them in the data folder")
			return
		}
	}
	fmt.Fprintln(w, "the tokens are shown once")
}

func newUserRevoke(c *cli) *cobra.Command {
	var tenant, device string
	cmd := &cobra.Command{
		Use:   "revoke USER",
		Short: "Revoke the tokens of a user and end their sessions",
		Long: "Revokes all tokens of a user, or with --device the tokens of one device, and ends the sessions that began with them.\n" +
			"`petrel user sessions USER --all` lists the devices. Somebody who knows the password can log in again; to prevent that,\n" +
			"use `petrel user disable`. A JWT of the identity provider logs the user in again only if its iat is later.",
		Example: "  petrel user revoke alice\n  petrel user revoke alice --device phone-1",
		Args:    cobra.ExactArgs(1),
		RunE: c.operator(func(ctx context.Context, api *admin, args []string) error {
			user := args[0]
			if device != "" {
				r, err := call(ctx, api, "revoke the device "+device+" of "+user, api.RevokeDevice,
					&petrelv1.AdminRevokeDeviceRequest{Tenant: tenant, User: user, Device: device,
						RequestId: rand.Text()})
				if err != nil {
					return err
				}
				return c.print(map[string]any{"user": user, "device": device, "sessions": r.Sessions},
					func(w io.Writer) {
						fmt.Fprintf(w, "%s: the tokens of %s ended, %s closed\n", user, device,
							plural(r.Sessions, "session"))
					})
			}
			r, err := call(ctx, api, "revoke the tokens of "+user, api.RevokeTokens,
				&petrelv1.RevokeTokensRequest{Tenant: tenant, User: user})
			if err != nil {
				return err
			}
			dropToken(api.data, tenant, user)
			return c.print(map[string]any{"user": user, "sessions": r.Sessions}, func(w io.Writer) {
				fmt.Fprintf(w, "%s: all tokens ended, %s closed\n", user, plural(r.Sessions, "session"))
			})
		}),
	}
	addTenant(cmd, &tenant)
	cmd.Flags().StringVar(&device, "device", "", "only the device with this `ID`")
	return cmd
}

// dropToken removes the file with the token of a user, if there is one. The token is revoked.
func dropToken(data, tenant, user string) {
	if name := tokenFile(data, tenant, user); name != "" {
		_ = os.Remove(name) // a revoked token that stays does no harm
	}
}

// plural formats a number of things, with thing in the plural unless n is 1.
func plural[N uint32 | uint64 | int](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	if one, ok := strings.CutSuffix(thing, "y"); ok {
		return fmt.Sprintf("%d %sies", n, one)
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
