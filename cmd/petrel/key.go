package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

func newKey(c *cli) *cobra.Command {
	return group("key", "Make, list and revoke admin keys",
		"  petrel key create backend --scope messages --out backend.key\n  petrel key list\n  petrel key revoke ID",
		newKeyAdd(c), newKeyList(c), newKeyRevoke(c))
}

func newKeyAdd(c *cli) *cobra.Command {
	q := &petrelv1.CreateKeyRequest{RequestId: rand.Text()}
	var file string
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Make an admin key with scopes",
		Long: "Makes an admin key for the back end of an application, or for a person. NAME helps people to tell keys apart. The\n" +
			"scopes say what the key may do: users, tokens, conversations, messages, server, backup, or admin. The scope admin allows\n" +
			"everything, and only it makes and revokes keys. With --tenant the key works for that tenant only. The key is shown\n" +
			"once. --out writes it into a file that only its owner can read.",
		Example: "  petrel key create backend --scope tokens,messages --tenant acme --out backend.key\n  petrel key create carol --scope admin",
		Args: func(cmd *cobra.Command, args []string) error {
			err := cobra.ExactArgs(1)(cmd, args)
			if err == nil && len(q.Scopes) == 0 {
				err = usage("what may the key do?",
					"give --scope with one or more of users, tokens, conversations, messages, server, backup and admin, with commas between them")
			}
			return err
		},
		RunE: c.operator(func(ctx context.Context, api *admin, args []string) error {
			q.Name = args[0]
			var keep *secretFile
			if file != "" { // the server shows the key once, so the file for it is made first
				var err error
				if keep, err = prepareSecret(file); err != nil {
					return err
				}
				defer keep.abandon()
			}
			r, err := call(ctx, api, "make a key", api.CreateKey, q)
			if err != nil {
				return err
			}
			shown := r.Key
			if keep != nil {
				if err := keep.write(r.Key); err != nil {
					return err
				}
				shown = ""
			}
			made := map[string]any{"id": r.Info.Id, "name": r.Info.Name, "tenant": r.Info.Tenant,
				"scopes": r.Info.Scopes}
			for name, v := range map[string]string{"key": shown, "file": file} {
				if v != "" {
					made[name] = v
				}
			}
			return c.print(made, func(w io.Writer) {
				fmt.Fprintf(w, "id    %s\n", r.Info.Id)
				if shown == "" {
					fmt.Fprintf(w, "file  %s\n", file)
					return
				}
				fmt.Fprintf(w, "key   %s\nit is shown once\n", shown)
			})
		}),
	}
	fs := cmd.Flags()
	fs.StringVar(&q.Tenant, "tenant", "", "`NAME` of the only tenant that the key works for (default: all tenants)")
	fs.StringSliceVar(&q.Scopes, "scope", nil, "`SCOPES` of the key, with commas between them")
	fs.StringVar(&file, "out", "", "`FILE` to write the key to, instead of showing it")
	return cmd
}

func newKeyList(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the admin keys",
		Example: "  petrel key list\n  petrel key list --json",
		Args:    cobra.NoArgs,
		RunE: c.operator(func(ctx context.Context, api *admin, _ []string) error {
			r, err := call(ctx, api, "list keys", api.ListKeys, &petrelv1.ListKeysRequest{})
			if err != nil {
				return err
			}
			t := c.table("ID", "NAME", "TENANT", "SCOPES", "MADE")
			for _, k := range r.Keys {
				if err := t.row(k, k.Id, orDash(k.Name), cmp.Or(k.Tenant, "(all)"), strings.Join(k.Scopes, ","),
					date(k.CreatedMs)); err != nil {
					return err
				}
			}
			return t.end()
		}),
	}
}

func newKeyRevoke(c *cli) *cobra.Command {
	q := &petrelv1.RevokeKeyRequest{RequestId: rand.Text()}
	return &cobra.Command{
		Use:     "revoke ID",
		Short:   "Revoke an admin key",
		Long:    "Revokes the key with this id. `petrel key list` shows the ids. The next call with the key is refused.",
		Example: "  petrel key revoke k7Q2",
		Args:    cobra.ExactArgs(1),
		RunE: c.operator(func(ctx context.Context, api *admin, args []string) error {
			q.Id = args[0]
			if _, err := call(ctx, api, "revoke the key "+q.Id, api.RevokeKey, q); err != nil {
				return err
			}
			return c.print(map[string]string{"id": q.Id},
				func(w io.Writer) { fmt.Fprintf(w, "the key %s is revoked\n", q.Id) })
		}),
	}
}
