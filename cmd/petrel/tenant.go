package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

func newTenant(c *cli) *cobra.Command {
	return group("tenant", "Say who may register in a tenant, invite people, and say who changes profiles",
		"  petrel tenant show\n  petrel tenant registration invitation --tenant acme\n  petrel tenant invite --tenant acme",
		newTenantShow(c), newTenantRegistration(c), newTenantInvite(c), newTenantManaged(c),
		newTenantFirstMessages(c), newTenantReports(c))
}

// registrations maps the words of the command line to values of the API.
var registrations = map[string]petrelv1.Registration{
	"default":    petrelv1.Registration_REGISTRATION_UNSPECIFIED,
	"open":       petrelv1.Registration_REGISTRATION_OPEN,
	"invitation": petrelv1.Registration_REGISTRATION_INVITATION,
	"closed":     petrelv1.Registration_REGISTRATION_CLOSED,
}

func registrationWord(r petrelv1.Registration) string {
	for word, value := range registrations {
		if value == r {
			return word
		}
	}
	return r.String()
}

func newTenantShow(c *cli) *cobra.Command {
	var q petrelv1.GetTenantRequest
	cmd := &cobra.Command{
		Use:     "show",
		Short:   "Show who may register, and who changes profiles",
		Example: "  petrel tenant show --tenant acme",
		Args:    cobra.NoArgs,
		RunE: c.operator(func(ctx context.Context, api *admin, _ []string) error {
			return c.writeTenant(call(ctx, api, "show the tenant", api.GetTenant, &q))
		}),
	}
	addTenant(cmd, &q.Tenant)
	return cmd
}

func (c *cli) writeTenant(t *petrelv1.TenantInfo, err error) error {
	how := ""
	if t.GetRegistration() == petrelv1.Registration_REGISTRATION_UNSPECIFIED {
		how = " (by accounts.registration)"
	}
	ids := "look like no other"
	if t.GetStrictIds() {
		ids = "look like no other, and read as no other"
	}
	return c.answer(t, err, "tenant          %s\nregistration    %s%s\nnew user ids    %s\nprofiles        %s\n"+
		"first messages  %s\nreports         keep %s\n",
		t.GetTenant(), registrationWord(t.GetEffective()), how, ids, managedText(t.GetManaged()),
		firstMessagesText(t.GetFirstMessages()), keptText(t.GetReportContext()))
}

func newTenantRegistration(c *cli) *cobra.Command {
	var q petrelv1.SetRegistrationRequest
	cmd := &cobra.Command{
		Use:   "registration open|invitation|closed|default",
		Short: "Say who may register",
		Long: "Says who may make an account with a password: everybody (open), whoever has a code of `petrel tenant invite` (invitation), or\n" +
			"nobody (closed). With default, the option accounts.registration decides. A tenant that does not exist is made.\n" +
			"With --strict-ids, nobody registers an id that people read as one that exists: al1ce or 4nna beside alice and anna. Ids that\n" +
			"look like one that exists, as a1ice does, are always refused.",
		Example:   "  petrel tenant registration closed\n  petrel tenant registration invitation --tenant acme\n  petrel tenant registration open --strict-ids",
		ValidArgs: slices.Sorted(maps.Keys(registrations)),
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		RunE: c.operator(func(ctx context.Context, api *admin, args []string) error {
			q.Registration, q.RequestId = registrations[args[0]], rand.Text()
			return c.writeTenant(call(ctx, api, "set who may register", api.SetRegistration, &q))
		}),
	}
	addTenant(cmd, &q.Tenant)
	cmd.Flags().BoolFunc("strict-ids",
		"refuse new ids that read as one that exists; =false: refuse only those that look alike; without it, as it is",
		func(s string) error {
			strict, err := strconv.ParseBool(s)
			q.StrictIds = &strict
			return err
		})
	return cmd
}

func newTenantInvite(c *cli) *cobra.Command {
	var q petrelv1.CreateInvitationRequest
	var ttl time.Duration
	cmd := &cobra.Command{
		Use:     "invite",
		Short:   "Make a code with which people register",
		Long:    "Makes a code for a tenant whose registration is by invitation. It is shown once. The client sends it with the registration.",
		Example: "  petrel tenant invite --tenant acme --uses 20 --ttl 48h",
		Args:    cobra.NoArgs,
		RunE: c.operator(func(ctx context.Context, api *admin, _ []string) error {
			q.TtlS, q.RequestId = uint64(ttl/time.Second), rand.Text()
			i, err := call(ctx, api, "make an invitation", api.CreateInvitation, &q)
			return c.answer(i, err, "%s\n", i.GetCode())
		}),
	}
	addTenant(cmd, &q.Tenant)
	cmd.Flags().Uint32Var(&q.Uses, "uses", 1, "how many people may register with it")
	cmd.Flags().DurationVar(&ttl, "ttl", 7*24*time.Hour, "for how long it is valid")
	return cmd
}

// noFields is the word of the command line for an empty list of fields.
const noFields = "none"

func newTenantManaged(c *cli) *cobra.Command {
	q := &petrelv1.SetProfileRulesRequest{}
	cmd := &cobra.Command{
		Use:   "managed FIELD...|none",
		Short: "Say which fields of profiles users do not change themselves",
		Long: "Says which fields of profiles only your back end changes, as `petrel user profile` does: display_name, about, handle, avatar,\n" +
			"fields, or fields.NAME for one of the fields of your application. contacts stands for the contacts of users, as\n" +
			"`petrel user contacts` changes them, account for the deletion of accounts. Users change the others. With none, they change all. A tenant that does not exist is made.",
		Example: "  petrel tenant managed display_name fields.title\n  petrel tenant managed none --tenant acme",
		Args:    cobra.MinimumNArgs(1),
		RunE: c.operator(func(ctx context.Context, api *admin, args []string) error {
			if q.Managed = args; slices.Contains(args, noFields) {
				if q.Managed = nil; len(args) > 1 {
					return usage("none beside other fields", "give the fields, or only none")
				}
			}
			q.RequestId = rand.Text()
			return c.writeTenant(call(ctx, api, "set the fields that users do not change", api.SetProfileRules, q))
		}),
	}
	addTenant(cmd, &q.Tenant)
	return cmd
}

// firstMessages are the rules for first messages, by the word of the command line.
var firstMessages = map[string]petrelv1.FirstMessages{
	"everybody": petrelv1.FirstMessages_FIRST_MESSAGES_UNSPECIFIED, "open": petrelv1.FirstMessages_FIRST_MESSAGES_OPEN,
	"request": petrelv1.FirstMessages_FIRST_MESSAGES_REQUEST, "closed": petrelv1.FirstMessages_FIRST_MESSAGES_CLOSED,
}

func newTenantFirstMessages(c *cli) *cobra.Command {
	q := &petrelv1.SetFirstMessageRuleRequest{}
	cmd := &cobra.Command{
		Use:   "first-messages open|request|closed|everybody",
		Short: "Say what becomes of messages of strangers",
		Long: "Says what becomes of messages to a user from somebody to whom the user has not written, and who is no contact of the\n" +
			"user. With open they come as all others; with request they wait until the user accepts them; with closed they never\n" +
			"arrive. At most five go out before an answer, and each user may choose otherwise. With everybody, all users write to\n" +
			"all without a bound, and have no choice. A tenant that does not exist is made.",
		Example:   "  petrel tenant first-messages request\n  petrel tenant first-messages everybody --tenant acme",
		ValidArgs: slices.Sorted(maps.Keys(firstMessages)),
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		RunE: c.operator(func(ctx context.Context, api *admin, args []string) error {
			q.FirstMessages, q.RequestId = firstMessages[args[0]], rand.Text()
			return c.writeTenant(call(ctx, api, "set what becomes of first messages", api.SetFirstMessageRule, q))
		}),
	}
	addTenant(cmd, &q.Tenant)
	return cmd
}

func firstMessagesText(f petrelv1.FirstMessages) string {
	switch f {
	case petrelv1.FirstMessages_FIRST_MESSAGES_OPEN:
		return "come, at most five before an answer"
	case petrelv1.FirstMessages_FIRST_MESSAGES_REQUEST:
		return "wait until the user accepts them"
	case petrelv1.FirstMessages_FIRST_MESSAGES_CLOSED:
		return "do not arrive"
	}
	return "come: everybody writes to everybody"
}

func keptText(n uint32) string {
	if n == 0 {
		return "no texts"
	}
	return fmt.Sprintf("the reported message and %d before it", n)
}

func managedText(fields []string) string {
	if len(fields) == 0 {
		return "users change all fields"
	}
	return "only the back end changes " + strings.Join(fields, ", ")
}
