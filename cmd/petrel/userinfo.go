package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/petrel-im/petrel/internal/terminal"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

func newUserList(c *cli) *cobra.Command {
	var tenant string
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the users",
		Example: "  petrel user list\n  petrel user list --tenant acme --json",
		Args:    cobra.NoArgs,
		RunE: c.operator(func(ctx context.Context, api *admin, _ []string) error {
			q := &petrelv1.ListUsersRequest{Tenant: tenant}
			t := c.table("USER", "NAME", "MADE", "PASSWORD", "SESSIONS", "")
			for {
				r, err := call(ctx, api, "list users", api.ListUsers, q)
				if err != nil {
					return err
				}
				for _, u := range r.Users {
					state := ""
					if u.Disabled {
						state = "disabled"
					}
					if err := t.row(u, u.User, u.DisplayName, date(u.CreatedMs), yesNo(u.HasPassword), u.Sessions,
						state); err != nil {
						return err
					}
					q.After = u.User
				}
				if !r.More {
					return t.end()
				}
			}
		}),
	}
	addTenant(cmd, &tenant)
	return cmd
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// date formats a time of the server in the time zone of this host.
func date(ms uint64) string {
	if ms == 0 {
		return "-"
	}
	return time.UnixMilli(int64(ms)).Format("2006-01-02 15:04")
}

func newUserShow(c *cli) *cobra.Command {
	var tenant string
	cmd := &cobra.Command{
		Use:     "show USER",
		Short:   "Show a user, with profile and devices",
		Example: "  petrel user show alice\n  petrel user show alice --json",
		Args:    cobra.ExactArgs(1),
		RunE: c.operator(func(ctx context.Context, api *admin, args []string) error {
			u, err := call(ctx, api, "look up "+args[0], api.GetUser,
				&petrelv1.AdminGetUserRequest{Tenant: tenant, User: args[0]})
			if err != nil {
				return err
			}
			if c.json {
				return writeLine(c.out, u)
			}
			writeUser(c.out, u)
			if len(u.Devices) == 0 {
				return nil
			}
			fmt.Fprintln(c.out)
			return c.listDevices(u.Devices)
		}),
	}
	addTenant(cmd, &tenant)
	return cmd
}

func writeUser(w io.Writer, u *petrelv1.UserInfo) {
	fmt.Fprintf(w, "user      %s\n", u.User)
	if u.DisplayName != "" {
		fmt.Fprintf(w, "name      %s\n", terminal.Line(u.DisplayName))
	}
	writeProfile(w, u.Profile)
	fmt.Fprintf(w, "made      %s\n", date(u.CreatedMs))
	if u.Disabled {
		fmt.Fprintln(w, "state     disabled: cannot log in; `petrel user enable` ends that")
	}
	fmt.Fprintf(w, "source    %s\n", strings.Join(append([]string{u.Source}, u.Linked...), ", "))
	fmt.Fprintf(w, "password  %s\n", yesNo(u.HasPassword))
	fmt.Fprintf(w, "sessions  %d\n", u.Sessions)
}

func (c *cli) listDevices(devices []*petrelv1.Device) error {
	t := c.table("DEVICE", "KIND", "NAME", "CLIENT", "LOGIN", "SESSIONS", "")
	for _, d := range devices {
		state := ""
		if d.Revoked {
			state = "revoked"
		}
		if err := t.row(d, d.Id, orDash(d.Kind), orDash(d.Name), orDash(d.Client), date(d.LoginMs), d.Sessions,
			state); err != nil {
			return err
		}
	}
	return t.end()
}

func orDash(s string) string { return cmp.Or(s, "-") }

func newUserSessions(c *cli) *cobra.Command {
	var (
		tenant string
		all    bool
	)
	cmd := &cobra.Command{
		Use:   "sessions USER",
		Short: "List the devices of a user that are connected",
		Long: "Lists the devices of a user that are connected now, or with --all every device, the newest login first. Tokens that\n" +
			"`petrel user create` made belong to no device, so their sessions are only counted.",
		Example: "  petrel user sessions alice\n  petrel user sessions alice --all --json",
		Args:    cobra.ExactArgs(1),
		RunE: c.operator(func(ctx context.Context, api *admin, args []string) error {
			u, err := call(ctx, api, "look up "+args[0], api.GetUser,
				&petrelv1.AdminGetUserRequest{Tenant: tenant, User: args[0]})
			if err != nil {
				return err
			}
			var devices []*petrelv1.Device
			without := u.Sessions
			for _, d := range u.Devices {
				without -= min(without, d.Sessions)
				if all || d.Sessions > 0 {
					devices = append(devices, d)
				}
			}
			if len(devices) > 0 {
				if err := c.listDevices(devices); err != nil {
					return err
				}
			}
			if !c.json {
				fmt.Fprintf(c.out, "%s of %s", plural(u.Sessions, "session"), u.User)
				if without > 0 {
					fmt.Fprintf(c.out, ", %d without a device", without)
				}
				fmt.Fprintln(c.out)
			}
			return nil
		}),
	}
	addTenant(cmd, &tenant)
	cmd.Flags().BoolVar(&all, "all", false, "also list devices that are not connected")
	return cmd
}
