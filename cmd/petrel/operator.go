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

func newOperator(c *cli) *cobra.Command {
	return group("operator", "Make, list and change the people who may use the console",
		"  petrel operator create carol --scope admin\n  petrel operator list\n  petrel operator reset carol",
		newOperatorCreate(c), newOperatorList(c), newOperatorChange(c, "disable", true),
		newOperatorChange(c, "enable", false), newOperatorReset(c), newOperatorRemove(c))
}

// printCode returns err, if there is one. Otherwise it prints the name and the scopes of the operator, and the link to
// the console with the one-time code.
func (c *cli) printCode(api *admin, r *petrelv1.EnrollmentCode, err error) error {
	if err != nil {
		return err
	}
	link := strings.TrimRight(api.url, "/") + r.Path
	made := map[string]any{"name": r.Operator.GetName(), "scopes": r.Operator.GetScopes(), "link": link, "code": r.Code,
		"expires_ms": fmt.Sprint(r.Operator.GetCodeExpiresMs())}
	return c.print(made, func(w io.Writer) {
		fmt.Fprintf(w, "name    %s\nscopes  %s\nlink    %s\nit is shown once, works once, and is valid until %s\n",
			r.Operator.GetName(), strings.Join(r.Operator.GetScopes(), ","), link, clock(r.Operator.GetCodeExpiresMs()))
	})
}

func newOperatorCreate(c *cli) *cobra.Command {
	q := &petrelv1.CreateOperatorRequest{RequestId: rand.Text()}
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Invite somebody to the console",
		Long: "Makes an operator, and shows a link with which this person chooses a password and a second factor. The scopes are those\n" +
			"of admin keys: users, tokens, conversations, messages, server, backup, or admin, which allows everything.",
		Example: "  petrel operator create carol --scope admin\n  petrel operator create dave --scope users,conversations --only-tenant acme",
		Args: func(cmd *cobra.Command, args []string) error {
			err := cobra.ExactArgs(1)(cmd, args)
			if err == nil && len(q.Scopes) == 0 {
				err = usage("what may the operator do?",
					"give --scope with one or more of users, tokens, conversations, messages, server, backup and admin, with commas between them")
			}
			return err
		},
		RunE: c.operator(func(ctx context.Context, api *admin, args []string) error {
			q.Name = args[0]
			r, err := call(ctx, api, "make the operator "+q.Name, api.CreateOperator, q)
			return c.printCode(api, r, err)
		}),
	}
	cmd.Flags().StringVar(&q.TenantName, "only-tenant", "",
		"`NAME` of the only tenant that the operator sees (default: all tenants)")
	cmd.Flags().StringSliceVar(&q.Scopes, "scope", nil, "`SCOPES` of the operator, with commas between them")
	return cmd
}

func newOperatorList(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the operators",
		Example: "  petrel operator list\n  petrel operator list --json",
		Args:    cobra.NoArgs,
		RunE: c.operator(func(ctx context.Context, api *admin, _ []string) error {
			r, err := call(ctx, api, "list operators", api.ListOperators, &petrelv1.ListOperatorsRequest{})
			if err != nil {
				return err
			}
			t := c.table("NAME", "SCOPES", "TENANT", "STATE", "SESSIONS", "LOGGED IN")
			for _, o := range r.Operators {
				state, last := "active", "-"
				switch {
				case o.Disabled:
					state = "disabled"
				case !o.Enrolled && o.CodeExpiresMs > 0:
					state = "invited"
				case !o.Enrolled:
					state = "link expired"
				}
				if o.LoggedInMs > 0 {
					last = clock(o.LoggedInMs)
				}
				if err := t.row(o, o.Name, strings.Join(o.Scopes, ","), cmp.Or(o.Tenant, "(all)"), state, o.Sessions,
					last); err != nil {
					return err
				}
			}
			return t.end()
		}),
	}
}

func newOperatorChange(c *cli, verb string, disabled bool) *cobra.Command {
	q := &petrelv1.ChangeOperatorRequest{RequestId: rand.Text(), Disabled: disabled}
	short, long := "Let an operator log in again", "Lets an operator log in who was disabled."
	if disabled {
		short, long = "Let an operator not log in any more",
			"Ends the sessions of an operator, who cannot log in until `petrel operator enable`."
	}
	cmd := &cobra.Command{
		Use: verb + " NAME", Short: short, Long: long,
		Example: "  petrel operator " + verb + " carol",
		Args:    cobra.ExactArgs(1),
		RunE: c.operator(func(ctx context.Context, api *admin, args []string) error {
			q.Name = args[0]
			r, err := call(ctx, api, verb+" the operator "+q.Name, api.ChangeOperator, q)
			if err != nil {
				return err
			}
			return c.print(r, func(w io.Writer) {
				fmt.Fprintf(w, "the operator %s is %sd, with the scopes %s\n", r.Name, verb,
					strings.Join(r.Scopes, ","))
			})
		}),
	}
	if !disabled {
		cmd.Flags().StringSliceVar(&q.Scopes, "scope", nil,
			"`SCOPES` that the operator has from now on (default: as before)")
	}
	return cmd
}

func newOperatorReset(c *cli) *cobra.Command {
	q := &petrelv1.ResetOperatorRequest{RequestId: rand.Text()}
	return &cobra.Command{
		Use:     "reset NAME",
		Short:   "Let an operator choose a password and a second factor anew",
		Long:    "For who has lost the phone or forgotten the password: both are void at once, sessions end, and a new link is shown.",
		Example: "  petrel operator reset carol",
		Args:    cobra.ExactArgs(1),
		RunE: c.operator(func(ctx context.Context, api *admin, args []string) error {
			q.Name = args[0]
			r, err := call(ctx, api, "reset the operator "+q.Name, api.ResetOperator, q)
			return c.printCode(api, r, err)
		}),
	}
}

func newOperatorRemove(c *cli) *cobra.Command {
	q := &petrelv1.RemoveOperatorRequest{RequestId: rand.Text()}
	return &cobra.Command{
		Use:     "remove NAME",
		Short:   "Remove an operator",
		Long:    "Removes an operator, whose sessions end. The audit log keeps what they did.",
		Example: "  petrel operator remove carol",
		Args:    cobra.ExactArgs(1),
		RunE: c.operator(func(ctx context.Context, api *admin, args []string) error {
			q.Name = args[0]
			if _, err := call(ctx, api, "remove the operator "+q.Name, api.RemoveOperator, q); err != nil {
				return err
			}
			return c.print(map[string]string{"name": q.Name},
				func(w io.Writer) { fmt.Fprintf(w, "the operator %s is removed\n", q.Name) })
		}),
	}
}
