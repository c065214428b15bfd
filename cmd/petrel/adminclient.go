package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/regular"
	sdk "github.com/petrel-im/petrel/sdk/go"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
	"github.com/petrel-im/petrel/sdk/go/petrelv1/petrelv1connect"
)

// Files of the data folder that the server and its tools share.
const (
	adminKeyName  = "admin.key"
	setupLinkName = "setup-link"
	tokensName    = "tokens"
	addressesName = "addresses"
)

// callTimeout bounds one call of the admin API.
const callTimeout = 30 * time.Second

func httpClient() *http.Client { return &http.Client{Timeout: callTimeout} }

// admin is a client of the admin API of one server, with its key.
type admin struct {
	petrelv1connect.AdminServiceClient
	url    string // of the API of operators
	public string // of the API of users
	data   string // data folder; need not exist
	key    string
}

// admin returns a client of the admin API. If there is no admin key yet, it redeems the setup link for one.
func (c *cli) admin(ctx context.Context, t target) (*admin, error) {
	key, err := c.adminKey(ctx, t)
	if err != nil {
		return nil, err
	}
	return &admin{
		AdminServiceClient: petrelv1connect.NewAdminServiceClient(httpClient(), t.admin,
			sdk.Credentials(sdk.StaticToken(key))),
		url:    t.admin,
		public: t.url,
		data:   t.data,
		key:    key,
	}, nil
}

// operator makes the RunE of a command that calls the admin API.
func (c *cli) operator(do func(ctx context.Context, api *admin,
	args []string) error) func(*cobra.Command, []string) error {
	return command(func(cmd *cobra.Command, args []string) error {
		t, err := c.target(cmd)
		if err != nil {
			return err
		}
		api, err := c.admin(cmd.Context(), t)
		if err != nil {
			return err
		}
		return do(cmd.Context(), api, args)
	})
}

// call calls one method of the admin API; doing names the purpose for an error.
func call[Q, R any](ctx context.Context, a *admin, doing string,
	method func(context.Context, *connect.Request[Q]) (*connect.Response[R], error), q *Q) (*R, error) {
	r, err := method(ctx, connect.NewRequest(q))
	if err != nil {
		return nil, fromServer(a.url, doing, err)
	}
	return r.Msg, nil
}

// addTenant gives cmd the flag that names a tenant.
func addTenant(cmd *cobra.Command, tenant *string) {
	cmd.Flags().StringVar(tenant, "tenant", "", "`NAME` of the tenant (default \"default\")")
}

// adminKey returns the admin key: from --admin-key-file, else PETREL_ADMIN_KEY, else the data folder. If there is
// none, it redeems the setup link in the data folder.
func (c *cli) adminKey(ctx context.Context, t target) (string, error) {
	if c.adminKeyFile != "" {
		return readSecret(c.adminKeyFile)
	}
	if key := c.getenv("PETREL_ADMIN_KEY"); key != "" {
		return key, nil
	}
	key, err := readSecret(filepath.Join(t.data, adminKeyName))
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	link, err := os.ReadFile(filepath.Join(t.data, setupLinkName))
	if errors.Is(err, fs.ErrNotExist) {
		f := &fault{exit: exitAuth, code: "no_admin_key", what: "there is no admin key for " + t.admin,
			why: fmt.Sprintf("neither %s nor %s is in %s", adminKeyName, setupLinkName, t.data),
			fix: "run this where the server's data folder is (--data DIR), or give the key with --admin-key-file or PETREL_ADMIN_KEY"}
		if _, err := os.Stat(t.data); errors.Is(err, fs.ErrNotExist) {
			f.why = "there is no folder " + t.data + ", so no server has run on it"
			f.fix = "start one with `petrel serve --data " + t.data + "`; for a server that runs, " + f.fix
		}
		return "", f
	}
	if err != nil {
		return "", err
	}
	return c.redeem(ctx, t, strings.TrimSpace(string(link)))
}

// codeOf returns the code of a setup link, or s itself if it is only the code.
func codeOf(s string) string {
	if u, err := url.Parse(s); err == nil {
		if v, err := url.ParseQuery(u.Fragment); err == nil && v.Get("k") != "" {
			return v.Get("k")
		}
	}
	return s
}

// addressOf returns the address of the server in a setup link; "" if s is only the code.
func addressOf(link string) string {
	if u, err := url.Parse(link); err == nil && u.Host != "" {
		return u.Scheme + "://" + u.Host
	}
	return ""
}

// redemptions bounds the attempts to redeem a link while the server does not answer.
const redemptions = 3

// redeem exchanges a setup link, or its one-time code, for an admin key and keeps the key in the data folder. It calls
// the server at the address in the link, unless --admin-server or PETREL_ADMIN_SERVER names one.
func (c *cli) redeem(ctx context.Context, t target, link string) (string, error) {
	if addr := addressOf(link); addr != "" && cmp.Or(c.adminServer, c.getenv("PETREL_ADMIN_SERVER")) == "" {
		t.admin = addr
	}
	code := codeOf(link)
	// The server shows the key once, so the file for it is made first.
	keep, err := prepareSecret(filepath.Join(t.data, adminKeyName))
	if err != nil {
		return "", err
	}
	defer keep.abandon()
	if err := keep.giveTo(t.data); err != nil {
		return "", err
	}
	api := petrelv1connect.NewSetupServiceClient(httpClient(), t.admin)
	q := &petrelv1.RedeemRequest{Code: code, RequestId: rand.Text()}
	r, err := api.Redeem(ctx, connect.NewRequest(q))
	// The server may have made the key before the answer was lost. It answers the same request id with the same key.
	for n := 1; n < redemptions && connect.CodeOf(err) == connect.CodeUnavailable; n++ {
		r, err = api.Redeem(ctx, connect.NewRequest(q))
	}
	if err != nil {
		f := fromServer(t.admin, "redeem the setup link", err)
		if f.code == string(im.CodeSetupClosed) {
			// Another process on this folder may have redeemed the link, and kept the key.
			if key, err := readSecret(filepath.Join(t.data, adminKeyName)); err == nil {
				return key, nil
			}
			f.fix = "use the admin key that somebody has: in a cluster it is the same for all nodes (--admin-key-file FILE); without one, restart the server for a new link"
		}
		return "", f
	}
	if err := keep.write(r.Msg.AdminKey); err != nil {
		return "", err
	}
	return r.Msg.AdminKey, nil
}

// readSecret reads a file that holds one secret. If others than its owner can read the file, it returns a fault with
// the code open_secret.
func readSecret(name string) (string, error) {
	i, err := os.Stat(name)
	if err != nil {
		return "", err
	}
	if i.Mode().Perm()&0o077 != 0 {
		return "", &fault{exit: exitAuth, code: "open_secret", what: "others can read " + name,
			why: fmt.Sprintf("its mode is %04o", i.Mode().Perm()), fix: "chmod 600 " + name}
	}
	b, err := regular.Read(name)
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(b)), nil
}

// secretFile is a file for a secret, made before the secret is known.
type secretFile struct {
	name string
	tmp  *os.File // mode 0600
	done bool
}

func prepareSecret(name string) (*secretFile, error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return nil, err
	}
	tmp, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*")
	if err != nil {
		return nil, err
	}
	return &secretFile{name: name, tmp: tmp}, nil
}

func (s *secretFile) write(secret string) error {
	_, err := s.tmp.WriteString(secret + "\n")
	if err == nil {
		err = s.tmp.Sync()
	}
	if err == nil {
		err = os.Rename(s.tmp.Name(), s.name)
	}
	s.done = err == nil
	if err != nil {
		return fmt.Errorf("write %s: %w", s.name, err)
	}
	return nil
}

// abandon removes the file if the secret was not written.
func (s *secretFile) abandon() {
	_ = s.tmp.Close() // synced or not wanted
	if !s.done {
		_ = os.Remove(s.tmp.Name())
	}
}

// keepSecret writes a secret into a file of the data folder, and gives the file to the owner of the folder: if
// root runs the command, the user of the server can still read it.
func keepSecret(data, name, secret string) error {
	s, err := prepareSecret(name)
	if err != nil {
		return err
	}
	defer s.abandon()
	if err := s.giveTo(data); err != nil {
		return err
	}
	return s.write(secret)
}

// giveTo makes the owner of the data folder the owner of the secret's file, which is below it, and of the folders in
// between. Only root can do that: for other users giveTo does nothing.
func (s *secretFile) giveTo(data string) error {
	i, err := os.Stat(data)
	if err != nil {
		return err
	}
	owner, ok := i.Sys().(*syscall.Stat_t)
	if !ok || os.Geteuid() != 0 || owner.Uid == 0 {
		return nil
	}
	root, err := os.OpenRoot(data) // a link in the folder cannot lead out of it
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // read-only
	path, err := filepath.Rel(data, s.tmp.Name())
	if err != nil {
		return err
	}
	for ; path != "."; path = filepath.Dir(path) {
		if err := root.Lchown(path, int(owner.Uid), int(owner.Gid)); err != nil {
			return err
		}
	}
	return nil
}

// tokenFile returns the path of a user's token. It returns "" for an invalid user or tenant, and for a user id
// that cannot be a file name: ids may come from other hosts.
func tokenFile(data, tenant, user string) string {
	if tenant == "" {
		tenant = "default"
	}
	if !im.IsTenantName(tenant) || im.User(user).Check() != nil || user == "." || user == ".." {
		return ""
	}
	return filepath.Join(data, tokensName, tenant, user)
}
