package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/petrel-im/petrel/cmd/petrel/chat"
	"github.com/petrel-im/petrel/internal/config"
	"github.com/petrel-im/petrel/internal/im"
	sdk "github.com/petrel-im/petrel/sdk/go"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// chatKind is the device kind of a login for chat.
const chatKind = "terminal"

func newChat(c *cli) *cobra.Command {
	var (
		as           session
		o            chat.Options
		login, lines bool
		last         uint64
	)
	cmd := &cobra.Command{
		Use:   "chat",
		Short: "Talk on the terminal",
		Long: "Shows the conversations of a user on the terminal. Type /help for its commands and keys. It uses the token that\n" +
			"`petrel user create` or `petrel demo` has kept, or makes one with the admin key if the server is on this host. With --login\n" +
			"it asks for a password once and stays logged in. A message that is written while the server cannot be reached is kept\n" +
			"and sent later. With --plain, or without a terminal, it prints entries as lines and reads lines: each line is a\n" +
			"message, or a command like /dm USER.",
		Example: "  petrel chat --as alice\n  petrel chat --as alice --login --server https://chat.example.org\n" +
			"  echo \"the build is done\" | petrel chat --as bob --to alice --plain",
		Args: cobra.NoArgs,
		RunE: command(func(cmd *cobra.Command, _ []string) error {
			t, err := c.target(cmd)
			if err != nil {
				return err
			}
			if o.To != "" && o.Conv != "" {
				return usage("to whom?", "give one of --to USER and --conv CONV, or neither")
			}
			client, end, err := c.chatClient(cmd.Context(), t, &as, login)
			if err != nil {
				return err
			}
			o.Client, o.In, o.Out, o.Env = client, c.in, c.out, c.env
			if lines || !isTerminal(c.out) || !readsTerminal(c.in) {
				err = chat.Plain(cmd.Context(), o, last, c.err)
			} else {
				o.Out = bare(c.out)
				err = chat.Run(cmd.Context(), o)
			}
			if err != nil {
				err = fromServer(t.url, "chat", err)
			}
			return errors.Join(err, end())
		}),
	}
	as.addFlags(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&login, "login", false, "log in with a password, from the terminal or the first line of the standard input")
	flags.StringVar(&o.To, "to", "", "open the conversation with this `USER`")
	flags.StringVar(&o.Conv, "conv", "", "open this `CONV`")
	flags.BoolVar(&lines, "plain", false, "print and read lines, for scripts")
	flags.Uint64Var(&last, "last", 0, "with --plain: first print the last `N` entries of each conversation")
	return cmd
}

// chatClient makes the client, with its store; end closes that.
func (c *cli) chatClient(ctx context.Context, t target, as *session, login bool) (*sdk.Client, func() error, error) {
	if err := as.check(); err != nil {
		return nil, nil, err
	}
	o := sdk.Options{URL: t.url, DeviceKind: chatKind, Client: "petrel-chat/" + version, JSON: as.codec == "json"}
	dir := chatDir(t, as.tenant)
	name := as.as
	if name == "" {
		name = "token"
	}
	tokens, err := c.chatTokens(ctx, t, as, login, filepath.Join(dir, name+".login"))
	if err != nil {
		return nil, nil, err
	}
	o.Token = tokens.source
	o.Device = tokens.device
	end := func() error { return nil }
	if as.as != "" {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, nil, err
		}
		o.Store, err = sdk.OpenFile(filepath.Join(dir, name+".store"))
		switch {
		case err != nil && o.Device != "":
			return nil, nil, &fault{exit: exitFailed, code: "in_use", what: "this login is in use", why: err.Error(), err: err,
				fix: "end the other `petrel chat --as " + name + "` first"}
		case err != nil: // two terminals of one user are fine; this one remembers nothing
			o.Store = sdk.NewMemory()
		default:
			end = o.Store.Close
		}
	}
	client, err := sdk.New(o)
	if err != nil {
		return nil, nil, errors.Join(err, end())
	}
	return client, end, nil
}

// chatDir is where chat keeps what it remembers of the users of one server and
// tenant: in the data folder, if it is on this host.
func chatDir(t target, tenant string) string {
	if tenant == "" {
		tenant = "default"
	}
	if _, err := os.Stat(t.data); err == nil {
		return filepath.Join(t.data, "chat", tenant)
	}
	home, err := os.UserConfigDir()
	if err != nil {
		home = "."
	}
	host := t.url
	if u, err := url.Parse(t.url); err == nil {
		host = strings.ReplaceAll(u.Host, ":", "_")
	}
	return filepath.Join(home, "petrel", "chat", host, tenant)
}

// chatToken is where a client gets its tokens from.
type chatToken struct {
	source sdk.TokenSource
	device string // that the tokens belong to; "": none
}

// chatTokens looks in the order that the help of chat explains.
func (c *cli) chatTokens(ctx context.Context, t target, as *session, login bool, file string) (chatToken, error) {
	if as.as != "" {
		if err := im.User(as.as).Check(); err != nil {
			return chatToken{}, usage(fmt.Sprintf("--as %s: %v", as.as, err), "")
		}
	}
	auth := sdk.Auth{URL: t.url, HTTP: httpClient()}
	if login {
		return c.logIn(ctx, t, as, auth, file)
	}
	if as.as != "" {
		kept, err := sdk.OpenTokens(file, auth)
		if err == nil {
			return chatToken{kept.Token, kept.Tokens().Device}, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return chatToken{}, err
		}
	}
	token, err := as.token(c, t)
	if f, ok := errors.AsType[*fault](err); ok && f.code == "no_token" {
		token, err = c.furtherToken(ctx, t, as, f)
	}
	if err != nil {
		return chatToken{}, err
	}
	return chatToken{source: sdk.StaticToken(token)}, nil
}

// logIn asks for the password and keeps the tokens it gets.
func (c *cli) logIn(ctx context.Context, t target, as *session, auth sdk.Auth, file string) (chatToken, error) {
	if as.as == "" {
		return chatToken{}, usage("as whom?", "give --as USER")
	}
	password, err := c.password("password of " + as.as)
	if err != nil {
		return chatToken{}, err
	}
	device := &petrelv1.DeviceRef{Id: "terminal-" + strings.ToLower(rand.Text()[:8]), Kind: chatKind, Name: "terminal"}
	if kept, err := sdk.OpenTokens(file, auth); err == nil {
		device.Id = kept.Tokens().Device // the same installation
	}
	tokens, err := auth.Login(ctx, &petrelv1.LoginRequest{Tenant: as.tenant, User: as.as, Password: password, Device: device})
	if err != nil {
		return chatToken{}, fromServer(t.url, "log in as "+as.as, err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return chatToken{}, err
	}
	kept, err := sdk.SaveTokens(file, auth, tokens)
	if err != nil {
		return chatToken{}, err
	}
	return chatToken{kept.Token, tokens.Device}, nil
}

// furtherToken makes a token for a user that there is, with the admin key, on a
// server of this host; missing is the fault otherwise.
func (c *cli) furtherToken(ctx context.Context, t target, as *session, missing *fault) (string, error) {
	u, err := url.Parse(t.url)
	if err != nil || !config.Loopback(withPort(u)) {
		missing.fix += ", or log in with --login"
		return "", missing
	}
	api, err := c.admin(ctx, t)
	if f, ok := errors.AsType[*fault](err); ok && f.code == "no_admin_key" {
		return "", missing
	}
	if err != nil {
		return "", err
	}
	if _, err := call(ctx, api, "look up "+as.as, api.GetUser, &petrelv1.AdminGetUserRequest{Tenant: as.tenant, User: as.as}); err != nil {
		if f, ok := errors.AsType[*fault](err); ok && f.code == string(im.CodeNoUser) {
			f.fix = missing.fix
		}
		return "", err
	}
	r, err := call(ctx, api, "make a token", api.CreateUsers, &petrelv1.CreateUsersRequest{Tenant: as.tenant, Users: []string{as.as}})
	if err != nil {
		return "", err
	}
	list := []issued{{User: r.Tokens[0].User, Token: r.Tokens[0].Token}}
	return list[0].Token, keepTokens(t.data, as.tenant, list)
}
