package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

func newUserToken(c *cli) *cobra.Command {
	q := &petrelv1.MintTokenRequest{Device: &petrelv1.DeviceRef{}, RequestId: rand.Text()}
	var ttl time.Duration
	cmd := &cobra.Command{
		Use:   "token USER",
		Short: "Log a device of a user in, without a password",
		Long: "Makes an access token and a refresh token for one device of a user, as the back end of an application does for its own\n" +
			"users. A user who does not exist is made. If the device has tokens already, they become void. If another device of the\n" +
			"user has the same kind, its sessions and tokens end (accounts.one_per_kind). Tokens are shown once.",
		Example: "  petrel user token alice\n  petrel user token alice --device phone-1 --kind phone --ttl 24h --json | jq -r .accessToken",
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cobra.ExactArgs(1)(cmd, args); err != nil {
				return err
			}
			if ttl < 0 || ttl > 30*24*time.Hour || ttl%time.Second != 0 {
				return usage(fmt.Sprintf("--ttl %s is not allowed", ttl),
					"write whole seconds, at most 720h; 0 means the time that the server has set")
			}
			q.User, q.TtlS = args[0], uint32(ttl/time.Second)
			return nil
		},
		RunE: c.operator(func(ctx context.Context, api *admin, _ []string) error {
			if q.Device.Id == "" {
				q.Device.Id = "cli-" + strings.ToLower(rand.Text()[:8])
			}
			r, err := call(ctx, api, "make a token of "+q.User, api.MintToken, q)
			if err != nil {
				return err
			}
			if c.json {
				return writeLine(c.out, r)
			}
			fmt.Fprintf(c.out, "device   %s\naccess   %s  until %s\n", r.Device, r.AccessToken, date(r.AccessExpiresMs))
			if r.RefreshToken != "" {
				fmt.Fprintf(c.out, "refresh  %s  until %s\n", r.RefreshToken, date(r.RefreshExpiresMs))
			}
			return nil
		}),
	}
	fs := cmd.Flags()
	addTenant(cmd, &q.Tenant)
	fs.StringVar(&q.Device.Id, "device", "", "`ID` of the device (default: a new one)")
	fs.StringVar(&q.Device.Kind, "kind", "",
		"`KIND` of the device: phone, desktop, web, … (default: none, so that no other device is logged out)")
	fs.StringVar(&q.Device.Name, "name", "", "`NAME` of the device, for people")
	fs.DurationVar(&ttl, "ttl", 0, "how long the access token is valid (default: as the server has set)")
	return cmd
}
