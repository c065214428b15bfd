package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

func newConv(c *cli) *cobra.Command {
	return group("conv", "Make and change groups, read conversations",
		"  petrel conv create --title Team alice bob:admin\n  petrel conv list alice\n  petrel conv history CONV",
		newConvAdd(c), newConvList(c), newConvMembers(c), newConvHistory(c), newConvExport(c), newConvRename(c),
		newConvFreeze(c, true), newConvFreeze(c, false), newConvDissolve(c))
}

// roles are the words after the colon of USER:ROLE.
var roles = map[string]petrelv1.Role{
	"member": petrelv1.Role_ROLE_MEMBER,
	"admin":  petrelv1.Role_ROLE_ADMIN,
	"owner":  petrelv1.Role_ROLE_OWNER,
}

// parseMembers parses arguments like USER and USER:ROLE. Without a role the user is a member.
func parseMembers(args []string) ([]*petrelv1.MemberRef, error) {
	members := make([]*petrelv1.MemberRef, len(args))
	for i, a := range args {
		user, name, named := strings.Cut(a, ":")
		role := petrelv1.Role_ROLE_MEMBER
		if named {
			var ok bool
			if role, ok = roles[name]; !ok {
				return nil, usage(fmt.Sprintf("%q is not a role", name),
					"write USER, USER:member, USER:admin or USER:owner")
			}
		}
		members[i] = &petrelv1.MemberRef{User: user, Role: role}
	}
	return members, nil
}

func newConvAdd(c *cli) *cobra.Command {
	var q petrelv1.AdminCreateGroupRequest
	cmd := &cobra.Command{
		Use:   "create [USER[:ROLE]...]",
		Short: "Make a group",
		Long: "Makes a group with these members. A role is member, admin or owner. --key is the application's own name for the group:\n" +
			"with a key that was used before, the command gives the group that it made then. Direct conversations need not be made.",
		Example: "  petrel conv create --title Team alice bob:admin\n  petrel conv create --key order-4711 alice bob --json",
		Args: func(_ *cobra.Command, args []string) (err error) {
			q.Members, err = parseMembers(args)
			return err
		},
		RunE: c.operator(func(ctx context.Context, api *admin, _ []string) error {
			r, err := call(ctx, api, "make the group", api.CreateGroup, &q)
			if err != nil {
				return err
			}
			return c.print(map[string]any{"conv": r.Conv, "created": r.Created}, func(w io.Writer) {
				if r.Created {
					fmt.Fprintln(w, r.Conv)
				} else {
					fmt.Fprintf(w, "%s (existed already)\n", r.Conv)
				}
			})
		}),
	}
	addTenant(cmd, &q.Tenant)
	cmd.Flags().StringVar(&q.Key, "key", "", "the application's own `NAME` for the group")
	cmd.Flags().StringVar(&q.Title, "title", "", "`TEXT` that members see")
	return cmd
}

func newMembersAdd(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "add CONV USER[:ROLE]...",
		Short:   "Add members to a group, or change their roles",
		Example: "  petrel conv members add gKQtYt3wSdI4pbTbl9KK9 carol dave:admin",
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
		Long:    "Removes members. They can still read what they could read before, and get nothing new.",
		Example: "  petrel conv members remove gKQtYt3wSdI4pbTbl9KK9 bob",
	}
	return changeMembers(c, cmd, func(users []string) (*petrelv1.MemberChange, error) {
		return &petrelv1.MemberChange{Removed: users}, nil
	})
}

func changeMembers(c *cli, cmd *cobra.Command, change func(users []string) (*petrelv1.MemberChange,
	error)) *cobra.Command {
	q := &petrelv1.ChangeMembersRequest{RequestId: rand.Text()}
	addTenant(cmd, &q.Tenant)
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		err := cobra.MinimumNArgs(2)(cmd, args)
		if err == nil {
			q.Conv = args[0]
			q.Change, err = change(args[1:])
		}
		return err
	}
	cmd.RunE = c.operator(func(ctx context.Context, api *admin, _ []string) error {
		r, err := call(ctx, api, "change the members of "+q.Conv, api.ChangeMembers, q)
		return c.printChange(q.Conv, "changed", r.GetSeq(), err)
	})
	return cmd
}

// printChange returns err, if there is one. Otherwise it prints what was done and the seq of the entry that the
// change made.
func (c *cli) printChange(conv, what string, seq uint64, err error) error {
	if err != nil {
		return err
	}
	return c.print(map[string]any{"conv": conv, "seq": strconv.FormatUint(seq, 10)}, func(w io.Writer) {
		fmt.Fprintf(w, "%s  seq %d\n", what, seq)
	})
}

func newConvRename(c *cli) *cobra.Command {
	q := &petrelv1.AdminRenameGroupRequest{RequestId: rand.Text()}
	cmd := &cobra.Command{
		Use:     "rename CONV TITLE",
		Short:   "Give a group another title",
		Example: "  petrel conv rename gKQtYt3wSdI4pbTbl9KK9 \"The new boat\"",
		Args:    cobra.ExactArgs(2),
		RunE: c.operator(func(ctx context.Context, api *admin, args []string) error {
			q.Conv, q.Title = args[0], args[1]
			r, err := call(ctx, api, "rename "+q.Conv, api.RenameGroup, q)
			return c.printChange(q.Conv, "renamed", r.GetSeq(), err)
		}),
	}
	addTenant(cmd, &q.Tenant)
	return cmd
}

func newConvFreeze(c *cli, frozen bool) *cobra.Command {
	q := &petrelv1.FreezeConversationRequest{RequestId: rand.Text(), Frozen: frozen}
	verb, done, short := "freeze", "frozen", "Let nobody write into a group"
	long := "From now on what members send is refused with the code frozen, and so are edits, recalls, reactions and changes of members.\nThey can read, and leave. Members see an entry that says so. `petrel conv thaw` ends it."
	if !frozen {
		verb, done, short, long = "thaw", "open again", "Let members of a frozen group write again",
			"Ends what `petrel conv freeze` began. Members see an entry that says so."
	}
	cmd := &cobra.Command{
		Use: verb + " CONV", Short: short, Long: long,
		Example: "  petrel conv " + verb + " gKQtYt3wSdI4pbTbl9KK9",
		Args:    cobra.ExactArgs(1),
		RunE: c.operator(func(ctx context.Context, api *admin, args []string) error {
			q.Conv = args[0]
			r, err := call(ctx, api, verb+" "+q.Conv, api.FreezeConversation, q)
			return c.printChange(q.Conv, done, r.GetSeq(), err)
		}),
	}
	addTenant(cmd, &q.Tenant)
	return cmd
}

func newConvDissolve(c *cli) *cobra.Command {
	q := &petrelv1.AdminDissolveGroupRequest{RequestId: rand.Text()}
	var yes bool
	cmd := &cobra.Command{
		Use:     "dissolve CONV",
		Short:   "End a group for all its members",
		Long:    "Ends a group. It then has no members, and nobody can write to it. The former members can still read what they could read\nbefore. This cannot be undone.",
		Example: "  petrel conv dissolve gKQtYt3wSdI4pbTbl9KK9 --yes",
		Args: func(cmd *cobra.Command, args []string) error {
			err := cobra.ExactArgs(1)(cmd, args)
			if err == nil && !yes {
				return usage("dissolve "+args[0]+": this cannot be undone", "add --yes if you mean it")
			}
			return err
		},
		RunE: c.operator(func(ctx context.Context, api *admin, args []string) error {
			q.Conv = args[0]
			r, err := call(ctx, api, "dissolve "+q.Conv, api.DissolveGroup, q)
			return c.printChange(q.Conv, "dissolved", r.GetSeq(), err)
		}),
	}
	addTenant(cmd, &q.Tenant)
	cmd.Flags().BoolVar(&yes, "yes", false, "do it")
	return cmd
}
