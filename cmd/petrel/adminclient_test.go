package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
	"github.com/petrel-im/petrel/sdk/go/petrelv1/petrelv1connect"
)

// result is what one command line did.
type result struct {
	exit     int
	out, err string
}

// petrel runs one command line in an empty folder of its own, with env.
func petrel(t *testing.T, env []string, args ...string) result {
	t.Helper()
	var out, errOut bytes.Buffer
	exit := run(t.Context(), args, env, strings.NewReader(""), &out, &errOut)
	return result{exit, out.String(), errOut.String()}
}

func (r result) want(t *testing.T, exit int, parts ...string) {
	t.Helper()
	if r.exit != exit {
		t.Errorf("exit %d, want %d\nout: %s\nerr: %s", r.exit, exit, r.out, r.err)
	}
	for _, p := range parts {
		if !strings.Contains(r.out+r.err, p) {
			t.Errorf("output does not say %q\nout: %s\nerr: %s", p, r.out, r.err)
		}
	}
}

const (
	testCode = "one-time-code"
	testKey  = "pk_0123456789"
)

// fakeServer is an admin API with one setup code and one key. The first answer with the key is lost.
type fakeServer struct {
	petrelv1connect.UnimplementedAdminServiceHandler
	redeemed atomic.Pointer[string] // the id of the redemption, whose first answer is lost; nil: none has come
}

func (s *fakeServer) Redeem(_ context.Context, r *connect.Request[petrelv1.RedeemRequest]) (*connect.Response[petrelv1.RedeemResponse], error) {
	if r.Msg.Code == testCode && s.redeemed.CompareAndSwap(nil, &r.Msg.RequestId) {
		return nil, refusal(im.CodeStoreStalled, connect.CodeUnavailable)
	}
	if was := s.redeemed.Load(); r.Msg.Code != testCode || *was == "" || *was != r.Msg.RequestId {
		return nil, refusal(im.CodeSetupClosed, connect.CodePermissionDenied)
	}
	return connect.NewResponse(&petrelv1.RedeemResponse{AdminKey: testKey}), nil
}

func (s *fakeServer) CreateUsers(_ context.Context, r *connect.Request[petrelv1.CreateUsersRequest]) (*connect.Response[petrelv1.CreateUsersResponse], error) {
	if r.Header().Get("Authorization") != "Bearer "+testKey {
		return nil, refusal(im.CodeUnauthenticated, connect.CodeUnauthenticated)
	}
	resp := &petrelv1.CreateUsersResponse{}
	for _, u := range r.Msg.Users {
		if im.User(u).Check() != nil {
			return nil, refusal(im.CodeInvalid, connect.CodeInvalidArgument)
		}
		resp.Tokens = append(resp.Tokens, &petrelv1.UserToken{User: u, Token: "pt_default." + u + ".x", Created: u != "old"})
	}
	return connect.NewResponse(resp), nil
}

func (s *fakeServer) RevokeTokens(_ context.Context, r *connect.Request[petrelv1.RevokeTokensRequest]) (*connect.Response[petrelv1.RevokeTokensResponse], error) {
	return connect.NewResponse(&petrelv1.RevokeTokensResponse{Sessions: 2}), nil
}

// GetHistory serves a conversation of 9 entries, of which 4 to 6 are damaged.
func (s *fakeServer) GetHistory(_ context.Context, r *connect.Request[petrelv1.AdminGetHistoryRequest]) (*connect.Response[petrelv1.HistoryPage], error) {
	p := &petrelv1.HistoryPage{Head: 9}
	for q := r.Msg.History.After + 1; q <= 9; q++ {
		if q == 4 && len(p.Messages) > 0 {
			p.More = true
			break
		} else if q >= 4 && q <= 6 {
			e := connect.NewError(connect.CodeUnavailable, errors.New("damaged"))
			d, _ := connect.NewErrorDetail(&petrelv1.Error{Code: string(im.CodeDamaged), Message: "the disk is damaged", DamagedFrom: q, DamagedTo: 6}) // is a message
			e.AddDetail(d)
			return nil, e
		}
		p.Messages = append(p.Messages, &petrelv1.Message{Seq: q})
	}
	return connect.NewResponse(p), nil
}

func TestReadingGoesUpToDamageAndOnBehindIt(t *testing.T) {
	env, _ := serveFake(t)
	petrel(t, env, "conv", "history", "C", "--after", "0", "--last", "9").want(t, exitFailed, "#3", "the disk is damaged")
	petrel(t, env, "conv", "export", "C").want(t, exitFailed, "the entries up to 6 are not in the file", "petrel conv export C --after 6")
	petrel(t, env, "conv", "export", "C", "--after", "6").want(t, exitOK, "3 entries")
}

// refusal is an error as the server sends it: P-10.3.
func refusal(code im.Code, as connect.Code) error {
	e := connect.NewError(as, &im.Error{Code: code})
	if d, err := connect.NewErrorDetail(&petrelv1.Error{Code: string(code), Message: code.Info().Text, Hint: code.Info().Hint}); err == nil {
		e.AddDetail(d)
	}
	return e
}

// serveFake starts a fake server; data is a data folder with its setup link.
func serveFake(t *testing.T) (env []string, data string) {
	t.Helper()
	s := &fakeServer{}
	mux := http.NewServeMux()
	mux.Handle(petrelv1connect.NewAdminServiceHandler(s))
	mux.Handle(petrelv1connect.NewSetupServiceHandler(s))
	h := httptest.NewServer(mux)
	t.Cleanup(h.Close)
	data = t.TempDir()
	if err := os.WriteFile(filepath.Join(data, setupLinkName), []byte(h.URL+"/setup#k="+testCode+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"PETREL_SERVER=" + h.URL, "PETREL_STORE__DIR=" + data}, data
}

func TestFirstAdminCommandRedeemsTheSetupLink(t *testing.T) {
	env, data := serveFake(t)
	petrel(t, env, "user", "create", "alice", "old").want(t, exitOK, "alice", "made", "pt_default.alice.x", "further token")

	name := filepath.Join(data, adminKeyName)
	if b, err := os.ReadFile(name); err != nil || string(b) != testKey+"\n" {
		t.Errorf("%s: got %q, %v, want the key", name, b, err)
	}
	for _, secret := range []string{name, tokenFile(data, "", "alice"), tokenFile(data, "", "old")} {
		if i, err := os.Stat(secret); err != nil || i.Mode().Perm() != 0o600 {
			t.Errorf("%s: got %v, %v, want a file of mode 0600", secret, i, err)
		}
	}
	if left, err := filepath.Glob(filepath.Join(data, ".*")); err != nil || len(left) != 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
	petrel(t, env, "user", "create", "bob").want(t, exitOK, "bob") // with the kept key: the code is used
	petrel(t, env, "user", "revoke", "alice").want(t, exitOK, "2 sessions closed")
	if _, err := os.Stat(tokenFile(data, "", "alice")); err == nil {
		t.Error("the revoked token is still kept")
	}
}

func TestSetupTakesALinkOrACode(t *testing.T) {
	env, data := serveFake(t)
	petrel(t, env, "setup", strings.TrimPrefix(env[0], "PETREL_SERVER=")+"/setup#k=wrong").want(t, exitAuth, "error setup_closed", "fix")
	if _, err := os.Stat(filepath.Join(data, adminKeyName)); err == nil {
		t.Error("a refused code has left a key")
	}
	petrel(t, env, "setup", testCode).want(t, exitOK, adminKeyName)
	petrel(t, env, "setup").want(t, exitOK, adminKeyName) // there is one
}

func TestAdminKeyComesFromWhereItIsSaid(t *testing.T) {
	env, data := serveFake(t)
	wrong := filepath.Join(data, "other.key")
	if err := os.WriteFile(wrong, []byte("pk_wrong"), 0o600); err != nil {
		t.Fatal(err)
	}
	withKey := append([]string{"PETREL_ADMIN_KEY=" + testKey}, env...)
	petrel(t, withKey, "user", "create", "alice").want(t, exitOK, "alice")
	petrel(t, withKey, "user", "create", "alice", "--admin-key-file", wrong).want(t, exitAuth, "error unauthenticated")
	if err := os.Chmod(wrong, 0o644); err != nil {
		t.Fatal(err)
	}
	petrel(t, withKey, "user", "create", "alice", "--admin-key-file", wrong).want(t, exitAuth, "others can read", "chmod 600")
	petrel(t, env, "user", "create", "alice", "--data", filepath.Join(data, "elsewhere")).want(t, exitAuth, "error no_admin_key", "so no server has run on it", "petrel serve --data", "--admin-key-file")
}

func TestTokensAreNotKeptWhereThereIsNoDataFolder(t *testing.T) {
	env, data := serveFake(t)
	elsewhere := filepath.Join(data, "elsewhere")
	withKey := append([]string{"PETREL_ADMIN_KEY=" + testKey}, env...)
	r := petrel(t, withKey, "user", "create", "alice", "--data", elsewhere, "--json")
	r.want(t, exitOK)
	var got []issued
	if err := json.Unmarshal([]byte(r.out), &got); err != nil || len(got) != 1 || got[0] != (issued{User: "alice", Token: "pt_default.alice.x", Created: true}) {
		t.Errorf("got %+v, %v of %q", got, err, r.out)
	}
	if _, err := os.Stat(elsewhere); err == nil {
		t.Error("the data folder was made")
	}
}

func TestNoTokenLeavesTheTokensFolder(t *testing.T) {
	for _, c := range [][2]string{{"t", ""}, {"t", "."}, {"t", ".."}, {"t", "../../x"}, {"t", "a/b"}, {"..", "alice"}, {"../..", "alice"}, {"/tmp", "alice"}, {".", "alice"}} {
		if name := tokenFile("d", c[0], c[1]); name != "" {
			t.Errorf("tokenFile of %q: got %s, want none", c, name)
		}
	}
	env, _ := serveFake(t)
	petrel(t, env, "tail", "--as", "../../secret").want(t, exitUsage, "a user id is made of")
	petrel(t, env, "tail", "--as", "..").want(t, exitUsage, "no file with a token can be named ..")
	for _, command := range []string{"tail", "chat"} {
		petrel(t, env, command, "--as", "alice", "--tenant", "../..").want(t, exitUsage, "a tenant's name has")
	}
}

func TestRefusalsHaveTheCodeOfTheCatalogue(t *testing.T) {
	env, _ := serveFake(t)
	petrel(t, env, "user", "create", "not a name").want(t, exitFailed, "error invalid: make users", "why", "fix   "+im.CodeInvalid.Info().Hint)
	r := petrel(t, env, "user", "create", "not a name", "--json")
	var got struct {
		Error struct {
			Code string
			Exit int
		}
	}
	if err := json.Unmarshal([]byte(r.err), &got); err != nil || got.Error.Code != "invalid" || got.Error.Exit != exitFailed {
		t.Errorf("JSON error: got %+v, %v of %q", got, err, r.err)
	}
}

// Secrets that root keeps in a data folder, and folders that it makes there, belong to the owner of the folder.
func TestSecretsKeptByRootAreTheOwners(t *testing.T) {
	server := os.Geteuid()
	root := server == 0
	if root {
		server = 41938 // only root gives files to others
	}
	data := t.TempDir()
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	for _, err := range []error{os.Mkdir(elsewhere, 0o700), os.Chown(data, server, server)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := keepSecret(data, filepath.Join(data, "tokens", "default", "alice"), "secret"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"tokens", "tokens/default", "tokens/default/alice"} {
		i, err := os.Stat(filepath.Join(data, name))
		if err != nil {
			t.Fatal(err)
		}
		if got := i.Sys().(*syscall.Stat_t).Uid; int(got) != server {
			t.Errorf("%s belongs to %d, want the owner of the folder, %d", name, got, server)
		}
	}
	if err := os.Symlink(elsewhere, filepath.Join(data, "link")); err != nil {
		t.Fatal(err)
	}
	if err := keepSecret(data, filepath.Join(data, "link", "alice"), "secret"); (err != nil) != root {
		t.Errorf("a file behind a link that leaves the folder: %v", err)
	}
}
