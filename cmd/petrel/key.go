package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

func newKey(c *cli) *cobra.Command {
	return group("key", "Admin keys of back ends and people",
		"  petrel key create backend --scope messages --out backend.key\n  petrel key list\n  petrel key revoke ID",
		newKeyAdd(c), newKeyList(c), newKeyRevoke(c))
}

func newKeyAdd(c *cli) *cobra.Command {
	q := &petrelv1.CreateKeyRequest{RequestId: rand.Text()}
	var file string
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Make an admin key that may do some things",
		Long: "Makes an admin key for an application's back end or a person; NAME is for people. Scopes say what it may do: users,\n" +
			"tokens, conversations, messages, server, or admin, which is everything and alone makes and revokes keys. With --tenant\n" +
			"it acts on that tenant only. The key is shown once; --out writes it into a file that only its owner reads.",
		Example: "  petrel key create backend --scope tokens,messages --tenant acme --out backend.key\n  petrel key create carol --scope admin",
		Args: func(cmd *cobra.Command, args []string) error {
			err := cobra.ExactArgs(1)(cmd, args)
			if err == nil && len(q.Scopes) == 0 {
				err = usage("what may the key do?", "give --scope users, tokens, conversations, messages, server or admin; several behind commas")
			}
			return err
		},
		RunE: c.operator(func(ctx context.Context, api *admin, args []string) error {
			q.Name = args[0]
			var keep *secretFile
			if file != "" { // the key is shown once, so the place for it comes first
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
			made := map[string]any{"id": r.Info.Id, "name": r.Info.Name, "tenant": r.Info.Tenant, "scopes": r.Info.Scopes}
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
	fs.StringVar(&q.Tenant, "tenant", "", "`NAME` of the only tenant it may act on (default all)")
	fs.StringSliceVar(&q.Scopes, "scope", nil, "`SCOPES` of the key, behind commas")
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
				tenant := k.Tenant
				if tenant == "" {
					tenant = "(all)"
				}
				if err := t.row(k, k.Id, orDash(k.Name), tenant, strings.Join(k.Scopes, ","), date(k.CreatedMs)); err != nil {
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
		Short:   "End an admin key",
		Long:    "Ends the key with this id, which `petrel key list` shows. The next call with it is refused.",
		Example: "  petrel key revoke k7Q2",
		Args:    cobra.ExactArgs(1),
		RunE: c.operator(func(ctx context.Context, api *admin, args []string) error {
			q.Id = args[0]
			if _, err := call(ctx, api, "revoke the key "+q.Id, api.RevokeKey, q); err != nil {
				return err
			}
			return c.print(map[string]string{"id": q.Id}, func(w io.Writer) { fmt.Fprintf(w, "the key %s ended\n", q.Id) })
		}),
	}
}
