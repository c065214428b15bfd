package main

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/petrel-im/petrel/internal/im"
	sdk "github.com/petrel-im/petrel/sdk/go"
)

// session has the flags for the connection of a command: its user, its tenant, its token and its codec.
type session struct {
	as        string
	tenant    string
	tokenFile string
	codec     string
}

func (s *session) addFlags(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&s.as, "as", "", "`USER` to connect as, with the token that `petrel user create` kept")
	fs.StringVar(&s.tenant, "tenant", "", "`NAME` of the tenant (default \"default\")")
	fs.StringVar(&s.tokenFile, "token-file", "", "`FILE` with the access token, instead of --as (or PETREL_TOKEN)")
	fs.StringVar(&s.codec, "codec", "protobuf", "json or protobuf")
}

// options returns the options of a client, with the token of the user. The client does not report messages as
// delivered: it shows them to an operator, not to the user.
func (s *session) options(c *cli, t target) (sdk.Options, error) {
	o := sdk.Options{URL: t.url, Device: "cli", DeviceKind: "cli", Client: "petrel-cli/" + version,
		Newest: -1, ManualDelivered: true, NetDial: c.dial}
	switch s.codec {
	case "json":
		o.JSON = true
	case "protobuf":
	default:
		return o, usage(fmt.Sprintf("%q is no codec", s.codec), "write --codec json or --codec protobuf")
	}
	token, err := s.token(c, t)
	o.Token = sdk.StaticToken(token)
	return o, err
}

// check returns an error of usage if --as or --tenant is not valid. Callers put both into paths.
func (s *session) check() error {
	if s.as != "" {
		if err := im.User(s.as).Check(); err != nil {
			return usage(fmt.Sprintf("--as %s: %v", s.as, err), "")
		}
	}
	if s.tenant != "" && !im.IsTenantName(s.tenant) {
		return usage(fmt.Sprintf("--tenant %s: a tenant's name has 1 to %d letters, digits and _ @ + -", s.tenant, im.MaxTenantName), "")
	}
	return nil
}

func (s *session) token(c *cli, t target) (string, error) {
	if s.tokenFile != "" {
		return readSecret(s.tokenFile)
	}
	if s.as == "" {
		if token := c.getenv("PETREL_TOKEN"); token != "" {
			return strings.TrimSpace(token), nil
		}
		return "", usage("as whom?", "give --as USER, --token-file FILE or PETREL_TOKEN")
	}
	if err := s.check(); err != nil {
		return "", err
	}
	name := tokenFile(t.data, s.tenant, s.as)
	if name == "" {
		return "", usage("no file with a token can be named "+s.as, "give --token-file FILE or PETREL_TOKEN")
	}
	token, err := readSecret(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", &fault{exit: exitAuth, code: "no_token", what: "there is no token of " + s.as,
			why: name + " does not exist", fix: "petrel user create " + s.as + "; if there is such a user, give a token with --token-file FILE or PETREL_TOKEN, and leave out --as"}
	}
	return token, err
}
