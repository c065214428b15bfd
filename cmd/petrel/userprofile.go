package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/petrel-im/petrel/internal/terminal"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

func newUserProfile(c *cli) *cobra.Command {
	var tenant string
	p := &petrelv1.ProfileChange{Fields: map[string]string{}, Visibility: map[string]petrelv1.Visibility{}}
	cmd := &cobra.Command{
		Use:   "profile USER",
		Short: "Change what others see of a user",
		Long: "Changes the profile of a user: what the flags name, and nothing else. An empty value takes a field away. Who shows this user\n" +
			"learns of it within seconds. `petrel user show` prints the profile. `petrel tenant managed` says which fields users do not\n" +
			"change themselves.",
		Example: "  petrel user profile alice --name \"Alice Ames\" --about \"watches birds\" --handle alice.a\n" +
			"  petrel user profile alice --field title=Captain --hide fields.title --for-contacts about\n  petrel user profile alice --handle \"\"",
		Args: cobra.ExactArgs(1),
		RunE: c.operator(func(ctx context.Context, api *admin, args []string) error {
			if p.User = args[0]; p.DisplayName == nil && p.About == nil && p.Handle == nil &&
				len(p.Fields)+len(p.Visibility) == 0 {
				return usage("what shall change of the profile of "+p.User+"?",
					"give one or more of --name, --about, --handle, --field, --hide, --for-contacts and --reveal")
			}
			r, err := call(ctx, api, "change the profile of "+p.User, api.SetProfiles,
				&petrelv1.SetProfilesRequest{Tenant: tenant, Profiles: []*petrelv1.ProfileChange{p}})
			if err != nil {
				return err
			}
			return c.print(map[string]any{"user": p.User, "changed": r.Changed > 0}, func(w io.Writer) {
				if r.Changed > 0 {
					fmt.Fprintf(w, "%s has another profile\n", p.User)
				} else {
					fmt.Fprintf(w, "%s had this profile already\n", p.User)
				}
			})
		}),
	}
	addTenant(cmd, &tenant)
	value := func(name, doc string, to **string) {
		cmd.Flags().Func(name, doc, func(s string) error {
			*to = &s
			return nil
		})
	}
	value("name", "display `NAME`, which everybody sees", &p.DisplayName)
	value("about", "one line of `TEXT` about the user, at most 140 characters", &p.About)
	value("handle", "`HANDLE` by which others find the user: 3 to 32 of a-z, 0-9, _ and .", &p.Handle)
	cmd.Flags().Func("field", "a field of the application, as `NAME=VALUE`; may be repeated", func(s string) error {
		name, value, ok := strings.Cut(s, "=")
		if !ok || name == "" {
			return errors.New("it has the form NAME=VALUE, and an empty value takes the field away")
		}
		p.Fields[name] = value
		return nil
	})
	for _, f := range []struct {
		name, doc string
		seen      petrelv1.Visibility
	}{
		{"hide", "nobody but the user sees this `FIELD`: about, handle, avatar, or fields.NAME; may be repeated",
			petrelv1.Visibility_VISIBILITY_NOBODY},
		{"for-contacts", "nobody but the user and the contacts of the user see this `FIELD`; may be repeated",
			petrelv1.Visibility_VISIBILITY_CONTACTS},
		{"reveal", "everybody sees this `FIELD`; may be repeated", petrelv1.Visibility_VISIBILITY_EVERYBODY},
	} {
		cmd.Flags().Func(f.name, f.doc, func(s string) error {
			p.Visibility[s] = f.seen
			return nil
		})
	}
	return cmd
}

// writeProfile writes the fields of a profile that the user has, except the display name.
func writeProfile(w io.Writer, p *petrelv1.Account) {
	line := func(name, field, value string) {
		if value == "" {
			return
		}
		switch p.Visibility[field] {
		case petrelv1.Visibility_VISIBILITY_NOBODY:
			value += "  (hidden from others)"
		case petrelv1.Visibility_VISIBILITY_CONTACTS:
			value += "  (for contacts)"
		}
		fmt.Fprintf(w, "%-9s %s\n", name, terminal.Line(value))
	}
	line("about", "about", p.GetAbout())
	line("handle", "handle", p.GetHandle())
	for _, name := range slices.Sorted(maps.Keys(p.GetFields())) {
		line("field", "fields."+name, name+" = "+p.Fields[name])
	}
}
