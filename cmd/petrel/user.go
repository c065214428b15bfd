package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"text/tabwriter"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

func newUser(c *cli) *cobra.Command {
	return group("user", "Make users and their access tokens, and end them",
		"  petrel user add alice bob\n  petrel user revoke alice", newUserAdd(c), newUserRevoke(c))
}

// issued is one user of the answer of `user add`.
type issued struct {
	User    string `json:"user"`
	Token   string `json:"token"`
	Created bool   `json:"created"`        // false: the user was there, and this is a further token
	File    string `json:"file,omitempty"` // where the token was kept
}

func newUserAdd(c *cli) *cobra.Command {
	var tenant string
	cmd := &cobra.Command{
		Use:   "add USER...",
		Short: "Make users, and an access token for each",
		Long: "Makes the users that do not exist, and a further token for those that do. Tokens are shown once. Where the data\n" +
			"folder is on this host they are also kept in tokens/TENANT/USER there, readable by their owner only, so that\n" +
			"`petrel tail --as USER` and `petrel send --as USER` find them.",
		Example: "  petrel user add alice bob\n  petrel user add --tenant acme carol --json",
		Args:    cobra.MinimumNArgs(1),
		RunE: command(func(cmd *cobra.Command, args []string) error {
			t, err := c.target(cmd)
			if err != nil {
				return err
			}
			api, err := c.admin(cmd.Context(), t)
			if err != nil {
				return err
			}
			r, err := api.CreateUsers(cmd.Context(), connect.NewRequest(&petrelv1.CreateUsersRequest{Tenant: tenant, Users: args}))
			if err != nil {
				return fromServer(t.url, "make users", err)
			}
			list := make([]issued, len(r.Msg.Tokens))
			for i, tok := range r.Msg.Tokens {
				list[i] = issued{User: tok.User, Token: tok.Token, Created: tok.Created}
			}
			kept := keepTokens(t.data, tenant, list)
			err = c.print(list, func(w io.Writer) { writeIssued(w, list) })
			return errors.Join(err, kept)
		}),
	}
	cmd.Flags().StringVar(&tenant, "tenant", "", "`NAME` of the tenant, made if there is none of it (default \"default\")")
	return cmd
}

// keepTokens writes the tokens into the data folder, if it is on this host.
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
		if err := writeSecret(name, list[i].Token); err != nil {
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
			fmt.Fprintln(w, "the tokens are shown once; `petrel tail --as` and `petrel send --as` find them in the data folder")
			return
		}
	}
	fmt.Fprintln(w, "the tokens are shown once")
}

func newUserRevoke(c *cli) *cobra.Command {
	var tenant string
	cmd := &cobra.Command{
		Use:     "revoke USER",
		Short:   "End all tokens of a user and close their sessions",
		Example: "  petrel user revoke alice",
		Args:    cobra.ExactArgs(1),
		RunE: command(func(cmd *cobra.Command, args []string) error {
			t, err := c.target(cmd)
			if err != nil {
				return err
			}
			api, err := c.admin(cmd.Context(), t)
			if err != nil {
				return err
			}
			r, err := api.RevokeTokens(cmd.Context(), connect.NewRequest(&petrelv1.RevokeTokensRequest{Tenant: tenant, User: args[0]}))
			if err != nil {
				return fromServer(t.url, "revoke the tokens of "+args[0], err)
			}
			if name := tokenFile(t.data, tenant, args[0]); name != "" {
				_ = os.Remove(name) // ended: whether it was kept here or not
			}
			return c.print(map[string]any{"user": args[0], "sessions": r.Msg.Sessions}, func(w io.Writer) {
				fmt.Fprintf(w, "%s: all tokens ended, %d sessions closed\n", args[0], r.Msg.Sessions)
			})
		}),
	}
	cmd.Flags().StringVar(&tenant, "tenant", "", "`NAME` of the tenant (default \"default\")")
	return cmd
}
