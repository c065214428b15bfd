package main

import (
	"crypto/rand"
	"fmt"
	"io"
	"strings"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

func newConv(c *cli) *cobra.Command {
	return group("conv", "Make groups and change their members",
		"  petrel conv add --title Team alice bob:admin\n  petrel conv members add CONV carol",
		newConvAdd(c),
		group("members", "Add and remove members of a group",
			"  petrel conv members add CONV carol\n  petrel conv members remove CONV bob",
			newMembersAdd(c), newMembersRemove(c)))
}

// roles are what may stand behind the colon of USER:ROLE.
var roles = map[string]petrelv1.Role{
	"member": petrelv1.Role_ROLE_MEMBER,
	"admin":  petrelv1.Role_ROLE_ADMIN,
	"owner":  petrelv1.Role_ROLE_OWNER,
}

// parseMembers reads USER or USER:ROLE.
func parseMembers(args []string) ([]*petrelv1.MemberRef, error) {
	members := make([]*petrelv1.MemberRef, len(args))
	for i, a := range args {
		user, name, named := strings.Cut(a, ":")
		role := petrelv1.Role_ROLE_MEMBER
		if named {
			var ok bool
			if role, ok = roles[name]; !ok {
				return nil, usage(fmt.Sprintf("%q is no role", name), "write USER, USER:member, USER:admin or USER:owner")
			}
		}
		members[i] = &petrelv1.MemberRef{User: user, Role: role}
	}
	return members, nil
}

func newConvAdd(c *cli) *cobra.Command {
	var q petrelv1.CreateConversationRequest
	cmd := &cobra.Command{
		Use:   "add [USER[:ROLE]...]",
		Short: "Make a group",
		Long: "Makes a group with these members; a role is member, admin or owner. With --key, the application's own name for the\n" +
			"group, repeating the command gives the same group. Direct conversations need not be made.",
		Example: "  petrel conv add --title Team alice bob:admin\n  petrel conv add --key order-4711 alice bob --json",
		RunE: command(func(cmd *cobra.Command, args []string) error {
			var err error
			if q.Members, err = parseMembers(args); err != nil {
				return err
			}
			t, err := c.target(cmd)
			if err != nil {
				return err
			}
			api, err := c.admin(cmd.Context(), t)
			if err != nil {
				return err
			}
			r, err := api.CreateConversation(cmd.Context(), connect.NewRequest(&q))
			if err != nil {
				return fromServer(t.url, "make the group", err)
			}
			return c.print(map[string]any{"conv": r.Msg.Conv, "created": r.Msg.Created}, func(w io.Writer) {
				if r.Msg.Created {
					fmt.Fprintln(w, r.Msg.Conv)
				} else {
					fmt.Fprintf(w, "%s (was there)\n", r.Msg.Conv)
				}
			})
		}),
	}
	cmd.Flags().StringVar(&q.Tenant, "tenant", "", "`NAME` of the tenant (default \"default\")")
	cmd.Flags().StringVar(&q.Key, "key", "", "the application's own `NAME` for the group")
	cmd.Flags().StringVar(&q.Title, "title", "", "`TEXT` that members see")
	return cmd
}

func newMembersAdd(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "add CONV USER[:ROLE]...",
		Short:   "Add members to a group, or change their roles",
		Example: "  petrel conv members add gKQtYt3wSdI4pbTbl9KK9 carol dave:admin",
		Args:    cobra.MinimumNArgs(2),
	}
	return changeMembers(c, cmd, func(users []string) (*petrelv1.MemberChange, error) {
		added, err := parseMembers(users)
		return &petrelv1.MemberChange{Added: added}, err
	})
}

func newMembersRemove(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "remove CONV USER...",
		Short:   "Remove members from a group",
		Long:    "Removes members. They keep what they could read before and get nothing after.",
		Example: "  petrel conv members remove gKQtYt3wSdI4pbTbl9KK9 bob",
		Args:    cobra.MinimumNArgs(2),
	}
	return changeMembers(c, cmd, func(users []string) (*petrelv1.MemberChange, error) {
		return &petrelv1.MemberChange{Removed: users}, nil
	})
}

func changeMembers(c *cli, cmd *cobra.Command, change func(users []string) (*petrelv1.MemberChange, error)) *cobra.Command {
	q := &petrelv1.ChangeMembersRequest{RequestId: rand.Text()}
	cmd.Flags().StringVar(&q.Tenant, "tenant", "", "`NAME` of the tenant (default \"default\")")
	cmd.RunE = command(func(cmd *cobra.Command, args []string) error {
		var err error
		q.Conv = args[0]
		if q.Change, err = change(args[1:]); err != nil {
			return err
		}
		t, err := c.target(cmd)
		if err != nil {
			return err
		}
		api, err := c.admin(cmd.Context(), t)
		if err != nil {
			return err
		}
		r, err := api.ChangeMembers(cmd.Context(), connect.NewRequest(q))
		if err != nil {
			return fromServer(t.url, "change the members of "+q.Conv, err)
		}
		return c.print(map[string]any{"conv": q.Conv, "seq": r.Msg.Seq}, func(w io.Writer) {
			fmt.Fprintf(w, "changed  seq %d\n", r.Msg.Seq)
		})
	})
	return cmd
}
