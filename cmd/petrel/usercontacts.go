package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/petrel-im/petrel/internal/terminal"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

func newUserContacts(c *cli) *cobra.Command {
	var tenant string
	var add, remove []string
	cmd := &cobra.Command{
		Use:   "contacts USER",
		Short: "List the contacts and requests of a user, or change contacts",
		Long: "Lists the contacts of a user, and the requests that wait. With --add and --remove it makes users contacts of each other,\n" +
			"both sides at once, or ends that; the server asks nobody. `petrel tenant managed contacts` leaves that to the back end alone.",
		Example: "  petrel user contacts alice\n  petrel user contacts alice --add bob --add carol\n  petrel user contacts alice --remove bob",
		Args:    cobra.ExactArgs(1),
		RunE: c.operator(func(ctx context.Context, api *admin, args []string) error {
			if len(add)+len(remove) == 0 {
				return c.listContacts(ctx, api, tenant, args[0])
			}
			for _, end := range []bool{false, true} {
				q := &petrelv1.SetContactsRequest{Tenant: tenant, End: end}
				for _, other := range map[bool][]string{false: add, true: remove}[end] {
					q.Pairs = append(q.Pairs, &petrelv1.ContactPair{User: args[0], Other: other})
				}
				if len(q.Pairs) == 0 {
					continue
				}
				if _, err := call(ctx, api, "change contacts of "+args[0], api.SetContacts, q); err != nil {
					return err
				}
			}
			did := map[string]any{"user": args[0], "added": len(add), "removed": len(remove)}
			return c.print(did, func(w io.Writer) {
				fmt.Fprintf(w, "contacts of %s: %d added, %d removed\n", args[0], len(add), len(remove))
			})
		}),
	}
	addTenant(cmd, &tenant)
	cmd.Flags().StringArrayVar(&add, "add", nil, "make this `USER` a contact; may be repeated")
	cmd.Flags().StringArrayVar(&remove, "remove", nil, "this `USER` is no contact any more; may be repeated")
	return cmd
}

// listContacts writes a table of the contacts and requests of a user.
func (c *cli) listContacts(ctx context.Context, api *admin, tenant, user string) error {
	t := c.table("USER", "STATE", "SINCE", "REMARK OR GREETING")
	for q := (&petrelv1.ListUserContactsRequest{Tenant: tenant, User: user}); ; {
		r, err := call(ctx, api, "list the contacts of "+user, api.ListContacts, q)
		if err != nil {
			return err
		}
		for _, x := range r.Contacts {
			state, since, text := "removed", uint64(0), ""
			switch {
			case x.SinceMs > 0:
				state, since, text = "contact", x.SinceMs, x.Remark
			case x.SentMs > 0:
				state, since, text = "asked", x.SentMs, x.Greeting
			case x.ReceivedMs > 0:
				state, since, text = "asks", x.ReceivedMs, x.Greeting
			}
			if err := t.row(x, x.User, state, date(since), orDash(terminal.Line(text))); err != nil {
				return err
			}
		}
		if q.After = r.Next; q.After == 0 {
			return t.end()
		}
	}
}
