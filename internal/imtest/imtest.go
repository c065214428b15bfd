// Package imtest starts a whole server inside a test, on free ports of the loopback and a folder of its own, as
// `petrel serve` would, and lets the test act as the operator: users, groups, limits.
package imtest

import (
	"bytes"
	"context"
	"crypto/tls"
	"github.com/petrel-im/petrel/internal/password"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/internal/app"
	"github.com/petrel-im/petrel/internal/config"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/internal/wire/wiretest"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
	"github.com/petrel-im/petrel/sdk/go/petrelv1/petrelv1connect"
)

// Options configure the server of a test; the zero value has no TLS and few limits.
type Options struct {
	Dir    string            // of the store; "": a temporary folder
	TLS    bool              // with a certificate made for this test
	Config map[string]string // option → value, over those of imtest

	Postgres string // DSN of a database, empty or used by an earlier server; "": the embedded store
	Process  bool   // a process of its own, which Kill can end; TestMain must call ServeChild
	Program  bool   // the program that users run, which Kill can end; its addresses stay the same
}

// testConfig has no limits: a test plays many users from one address, in a hurry.
var testConfig = map[string]string{
	"listen.http":                         "127.0.0.1:0",
	"listen.tcp":                          "127.0.0.1:0",
	"listen.admin":                        "127.0.0.1:0",
	"limits.sends_per_s":                  "-1",
	"limits.send_burst":                   "-1",
	"limits.calls_per_s":                  "-1",
	"limits.groups_per_h":                 "-1",
	"limits.members_per_min":              "-1",
	"limits.connections_per_user":         "-1",
	"limits.connections_per_ip":           "-1",
	"limits.new_connections_per_ip_per_s": "-1",
	"limits.unauthenticated_per_ip":       "-1",
	"limits.anonymous_calls_per_ip_per_s": "-1",
	"accounts.logins_per_min":             "-1",
	"accounts.logins_per_ip_per_min":      "-1",
	"accounts.registration":               "open",
	"accounts.registrations_per_ip_per_h": "-1",
	"accounts.look_ups_per_min":           "-1",
	"accounts.refreshes_per_min":          "-1",
	"store.min_free":                      "0",
	"log.level":                           "warn",
}

// Server is one server of a test. It ends with the test.
type Server struct {
	Dir string
	// Admin calls the server as the operator. A restart makes a new one.
	Admin petrelv1connect.AdminServiceClient

	t     testing.TB
	o     Options
	cert  *certificate // nil: no TLS
	log   *logBuffer
	key   string
	http  string // addresses, host:port
	tcp   string
	admin string
	stop  func()     // nil: it does not run
	kill  func()     // nil: it cannot be killed
	pid   int        // of a process of its own; else 0
	ended chan error // capacity 1; the error of its end
}

// cheapPasswords makes hashes cheap, since tests have thousands of users.
var cheapPasswords = password.Work{Memory: 8, Time: 1, Threads: 1}

// Start starts a server, waits until it is ready, and redeems its setup link.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	s := newServer(t, o)
	s.run()
	s.setUp()
	return s
}

func newServer(t testing.TB, o Options) *Server {
	t.Helper()
	s := &Server{Dir: o.Dir, t: t, o: o, log: &logBuffer{}}
	if s.Dir == "" {
		s.Dir = t.TempDir()
	}
	if o.TLS {
		s.cert = newCertificate(t)
	}
	t.Cleanup(func() {
		s.Stop()
		if t.Failed() {
			t.Logf("log of the server:\n%s", s.log)
		}
	})
	return s
}

// run starts the server on its folder, and waits until it is ready.
func (s *Server) run() {
	s.t.Helper()
	if err := s.launch(); err != nil {
		s.t.Fatalf("start the server: %v\n%s", err, s.log)
	}
	s.waitReady()
}

// launch starts the server and does not wait until it is ready.
func (s *Server) launch() error {
	flags := maps.Clone(testConfig)
	flags["store.dir"] = s.Dir
	if s.o.Postgres != "" {
		// The server opens all connections of the pool at its start, and each one costs PostgreSQL some 10 ms. So
		// the pool has 5 instead of 16.
		flags["store.postgres"] = strings.ReplaceAll(s.o.Postgres, "?sslmode=disable",
			"?sslmode=disable&pool_max_conns=5")
	}
	if s.cert != nil {
		flags["tls.cert_file"], flags["tls.key_file"] = s.cert.certFile, s.cert.keyFile
	}
	maps.Copy(flags, s.o.Config)
	s.ended = make(chan error, 1)
	switch {
	case s.o.Program:
		return s.execute(flags)
	case s.o.Process:
		return s.spawn(flags)
	}
	return s.serve(flags)
}

// serve starts the server in this process.
func (s *Server) serve(flags map[string]string) error {
	cfg, err := config.Load(config.Source{Flags: flags})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	a, err := app.New(ctx, cfg, app.Options{
		Log:    slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Banner: s.log, Version: "test", PasswordWork: cheapPasswords, DiskStall: eventually.Limit,
	})
	if err != nil {
		stop()
		return err
	}
	s.http, s.tcp, s.admin, s.stop, s.kill = a.HTTPAddr().String(), a.TCPAddr().String(), a.AdminAddr().String(), stop,
		nil
	ended := s.ended
	go func() { ended <- a.Run(ctx) }()
	return nil
}

func (s *Server) waitReady() {
	s.t.Helper()
	last := "no answer"
	ready := eventually.Holds(func() bool {
		select {
		case err := <-s.ended:
			s.ended <- err // for Stop
			s.t.Fatalf("server ended at its start: %v\n%s", err, s.log)
		default:
		}
		r, err := s.HTTP().Get(s.BaseURL() + "/readyz")
		if err != nil {
			return false
		}
		last = r.Status
		_ = r.Body.Close() // only the status counts
		return r.StatusCode == http.StatusOK
	})
	if !ready {
		s.t.Fatalf("server was not ready after %v: %s\n%s", eventually.Limit, last, s.log)
	}
}

// setUp redeems the setup link for the admin key, as the operator does, unless there is a key already. Then it
// makes the client Admin.
func (s *Server) setUp() {
	s.t.Helper()
	if s.key == "" {
		link, err := os.ReadFile(filepath.Join(s.Dir, "setup-link"))
		if err != nil {
			s.t.Fatalf("read the setup link: %v", err)
		}
		_, code, ok := strings.Cut(strings.TrimSpace(string(link)), "#k=")
		if !ok {
			s.t.Fatalf("setup link %q has no code", link)
		}
		setup := petrelv1connect.NewSetupServiceClient(s.HTTP(), s.AdminURL())
		r, err := patiently(func() (*connect.Response[petrelv1.RedeemResponse], error) {
			return setup.Redeem(s.t.Context(),
				connect.NewRequest(&petrelv1.RedeemRequest{Code: code, RequestId: "setup"}))
		})
		if err != nil {
			s.t.Fatalf("redeem the setup code: %v", err)
		}
		s.key = r.Msg.AdminKey
	}
	calls := &http.Transport{TLSClientConfig: s.TLS()}
	s.t.Cleanup(calls.CloseIdleConnections)
	s.Admin = petrelv1connect.NewAdminServiceClient(&http.Client{Timeout: eventually.Limit, Transport: calls},
		s.AdminURL(), connect.WithInterceptors(bearer(s.key)))
}

// patiently repeats a request, for eventually.Limit at most, while the server answers that it is unavailable.
func patiently[A any](ask func() (A, error)) (a A, err error) {
	eventually.Holds(func() bool {
		a, err = ask()
		return connect.CodeOf(err) != connect.CodeUnavailable
	})
	return a, err
}

func bearer(key string) connect.UnaryInterceptorFunc {
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
			if key != "" {
				r.Header().Set("Authorization", "Bearer "+key)
			}
			return next(ctx, r)
		}
	}
}

// For returns the same server for a subtest t. Failures go to t, and the server goes on when t ends.
func (s *Server) For(t testing.TB) *Server {
	of := *s
	of.t = t
	return &of
}

// Stop ends the server as Ctrl-C does, and waits for its end. If the server does not run, it does nothing.
func (s *Server) Stop() {
	s.t.Helper()
	if s.stop == nil {
		return
	}
	s.stop()
	s.awaitEnd()
}

// awaitEnd waits until a server that was told to end has done so.
func (s *Server) awaitEnd() {
	s.t.Helper()
	s.stop = nil
	if err := eventually.Receive(s.t, "the end of the server", s.ended); err != nil && err != context.Canceled {
		s.t.Errorf("server ended with: %v", err)
	}
}

// Ended waits until a server has ended by itself, and returns its error.
func (s *Server) Ended() error {
	s.t.Helper()
	err := eventually.Receive(s.t, "the end of the server by itself", s.ended)
	if s.stop != nil {
		s.stop() // frees the context of the server, or the pipe to its process
	}
	s.stop = nil
	return err
}

// Refused starts a server that must refuse its store, and returns its error.
func (s *Server) Refused() error {
	s.t.Helper()
	err := s.launch()
	if err == nil {
		s.t.Fatal("the server starts")
	}
	return err
}

// Start starts a server that was stopped or killed.
func (s *Server) Start() {
	s.t.Helper()
	s.run()
	s.setUp()
}

// Restart stops the server and starts another one on the same folder, on other ports unless Options.Program is
// set.
func (s *Server) Restart() {
	s.t.Helper()
	s.RestartOn(nil)
}

// RestartOn is Restart, with a change of the server's folder while it is down.
func (s *Server) RestartOn(change func(dir string)) {
	s.t.Helper()
	s.Stop()
	if change != nil {
		change(s.Dir)
	}
	s.run()
	s.setUp()
}

// BaseURL returns the URL of HTTP for clients, http:// or https://.
func (s *Server) BaseURL() string {
	if s.cert != nil {
		return "https://" + s.http
	}
	return "http://" + s.http
}

// AdminURL returns the URL of HTTP for operators.
func (s *Server) AdminURL() string { return "http://" + s.admin }

// MethodURL returns the base URL at which a method, "petrel.v1.Service/Method", is served.
func (s *Server) MethodURL(method string) string {
	if strings.HasPrefix(method, "petrel.v1.AdminService/") || strings.HasPrefix(method, "petrel.v1.SetupService/") ||
		strings.HasPrefix(method, "petrel.v1.OperatorService/") {
		return s.AdminURL()
	}
	return s.BaseURL()
}

// URL returns the URL for clients with a framing.
func (s *Server) URL(f wire.Framing) string {
	switch {
	case f == wire.WebSocket && s.cert != nil:
		return "wss://" + s.http
	case f == wire.WebSocket:
		return "ws://" + s.http
	case s.cert != nil:
		return "tls://" + s.tcp
	}
	return "tcp://" + s.tcp
}

// TLS returns the configuration for clients of this server; nil without TLS.
func (s *Server) TLS() *tls.Config {
	if s.cert == nil {
		return nil
	}
	return s.cert.client
}

// HTTP returns a client that trusts this server and keeps no connections.
func (s *Server) HTTP() *http.Client {
	return &http.Client{Timeout: eventually.Limit, Transport: &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: s.TLS()}}
}

// Users makes users of a tenant ("": the default one) and returns a token for
// each, in their order.
func (s *Server) Users(tenant string, users ...string) []string {
	s.t.Helper()
	r, err := patiently(func() (*connect.Response[petrelv1.CreateUsersResponse], error) {
		return s.Admin.CreateUsers(s.t.Context(),
			connect.NewRequest(&petrelv1.CreateUsersRequest{Tenant: tenant, Users: users}))
	})
	if err != nil {
		s.t.Fatalf("make users %v of tenant %q: %v", users, tenant, err)
	}
	var tokens []string
	for _, u := range r.Msg.Tokens {
		tokens = append(tokens, u.Token)
	}
	if len(tokens) != len(users) {
		s.t.Fatalf("make users %v: got %d tokens", users, len(tokens))
	}
	return tokens
}

// Group makes a group of a tenant and returns its id. The first member owns it.
func (s *Server) Group(tenant, key string, members ...string) string {
	s.t.Helper()
	q := &petrelv1.AdminCreateGroupRequest{Tenant: tenant, Key: key, Title: key}
	for i, m := range members {
		role := petrelv1.Role_ROLE_MEMBER
		if i == 0 {
			role = petrelv1.Role_ROLE_OWNER
		}
		q.Members = append(q.Members, &petrelv1.MemberRef{User: m, Role: role})
	}
	r, err := patiently(func() (*connect.Response[petrelv1.AdminCreateGroupResponse], error) {
		return s.Admin.CreateGroup(s.t.Context(), connect.NewRequest(q))
	})
	if err != nil {
		s.t.Fatalf("make group %s of tenant %q: %v", key, tenant, err)
	}
	return r.Msg.Conv
}

// Dial connects a client, which is closed with the test.
func (s *Server) Dial(f wire.Framing, c wire.Codec, token, device string) *wiretest.Conn {
	s.t.Helper()
	conn, err := wiretest.Dial(eventually.Context(s.t), wiretest.Options{URL: s.URL(f), Codec: c, Token: token,
		Device: device, TLS: s.TLS()})
	if err != nil {
		s.t.Fatalf("connect %s: %v", device, err)
	}
	s.t.Cleanup(func() { _ = conn.Close() }) // the server may have closed it
	return conn
}

// Key returns the operator's admin key.
func (s *Server) Key() string { return s.key }

// Log returns what the server has logged and printed so far.
func (s *Server) Log() string { return s.log.String() }

// logBuffer gathers the server's log and banner.
type logBuffer struct {
	mu sync.Mutex // tier 0; guards b
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
