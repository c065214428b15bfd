package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	sdk "github.com/petrel-im/petrel/sdk/go"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

func newChat(c *cli) *cobra.Command {
	var (
		as    session
		login bool
		to    string
	)
	l := &lineClient{c: c}
	cmd := &cobra.Command{
		Use:   "chat",
		Short: "Talk on the terminal",
		Long: "Prints new messages of all conversations of a user as lines, and reads lines: each one is a message to\n" +
			"the open conversation, or a command; /help lists these. It works on every terminal and in a pipe, with the\n" +
			"token that `petrel user create` or `petrel demo` has kept. With --login it asks for a password once and stays\n" +
			"logged in. A message that is written while the connection is lost is kept and sent later. In a pipe it ends\n" +
			"when the fate of every message is known, and its exit code says whether all lines succeeded. The display name of\n" +
			"a user stands beside the id, if the profile has one.",
		Example: "  petrel chat --as alice\n  petrel chat --as alice --login --server https://chat.example.org\n" +
			"  echo \"the build is done\" | petrel chat --as bob --to alice",
		Args: cobra.NoArgs,
		RunE: command(func(cmd *cobra.Command, _ []string) error {
			t, err := c.target(cmd)
			if err != nil {
				return err
			}
			if to != "" {
				l.first = "/open @" + to
			}
			if l.person = readsTerminal(c.in); l.person {
				l.first, l.last = cmp.Or(l.first, "/list"), cmp.Or(l.last, defaultLast)
			}
			o, err := c.chatOptions(cmd.Context(), t, &as, login)
			if err != nil {
				return err
			}
			if l.client, err = sdk.New(o); err == nil {
				err = l.client.While(cmd.Context(), l.run)
			}
			if err = errors.Join(err, o.Store.Close()); err == nil || cmd.Context().Err() != nil {
				return nil // an end by Ctrl-C is no error
			}
			return fromServer(t.url, "chat", err)
		}),
	}
	as.addFlags(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&login, "login", false, "log in with a password, from the terminal or the first line of the input")
	flags.StringVar(&to, "to", "", "open the conversation with this `USER`")
	flags.IntVar(&l.last, "last", 0, "print the last `N` entries of what is opened (default 20; in a pipe 0)")
	return cmd
}

// chatOptions returns the options of the client, with --login after a login. Without an error, the caller closes
// Options.Store.
func (c *cli) chatOptions(ctx context.Context, t target, as *session, login bool) (sdk.Options, error) {
	o := sdk.Options{URL: t.url, DeviceKind: "terminal", Client: "petrel-chat/" + version, JSON: as.codec == "json",
		NetDial: c.dial, Store: sdk.NewMemory()}
	if err := as.check(); err != nil { // before the names become parts of a path
		return o, err
	}
	dir := chatDir(t, as.tenant)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return o, err
	}
	file, auth := filepath.Join(dir, as.as+".login"), sdk.Auth{URL: t.url, HTTP: httpClient()}
	kept, err := sdk.OpenTokens(file, auth)
	switch {
	case login && as.as == "":
		err = usage("as whom?", "give --as USER")
	case login:
		device := "terminal-" + strings.ToLower(rand.Text()[:8])
		if err == nil {
			device = kept.Tokens().Device
		}
		kept, err = c.logIn(ctx, as, auth, file, device)
	case errors.Is(err, fs.ErrNotExist):
		token, e := as.token(c, t)
		o.Token, err = sdk.StaticToken(token), e
	}
	if err != nil || as.as == "" {
		return o, err
	}
	if kept != nil {
		o.Token, o.Device = kept.Token, kept.Tokens().Device
	}
	store, err := sdk.OpenFile(filepath.Join(dir, as.as+".store"))
	switch {
	case err == nil:
		o.Store = store
	case o.Device != "": // two processes must not refresh the tokens of one login
		return o, &fault{exit: exitFailed, code: "in_use", what: "this login is in use", why: err.Error(), err: err,
			fix: "end the other `petrel chat --as " + as.as + "` first"}
	}
	return o, nil
}

// chatDir returns the folder for the stores of the users of one server and tenant. It is in the data folder if that
// exists on this host, otherwise in the configuration folder of the person who runs the command.
func chatDir(t target, tenant string) string {
	dir := t.data
	if _, err := os.Stat(dir); err != nil {
		home, _ := os.UserConfigDir() // with an error "", which is the working folder
		u, _ := url.Parse(t.url)      // cannot fail: target has checked it
		dir = filepath.Join(home, "petrel", strings.ReplaceAll(u.Host, ":", "_"))
	}
	return filepath.Join(dir, "chat", cmp.Or(tenant, "default"))
}

// logIn asks for the password, and keeps the new tokens in file.
func (c *cli) logIn(ctx context.Context, as *session, a sdk.Auth, file, device string) (*sdk.TokenFile, error) {
	password, err := c.password("password of " + as.as)
	if err != nil {
		return nil, err
	}
	tokens, err := a.Login(ctx, &petrelv1.LoginRequest{Tenant: as.tenant, User: as.as, Password: password,
		Device: &petrelv1.DeviceRef{Id: device, Kind: "terminal", Name: "terminal"}})
	if err != nil {
		return nil, fromServer(a.URL, "log in as "+as.as, err)
	}
	return sdk.SaveTokens(file, a, tokens)
}
