package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/petrel-im/petrel/internal/config"
	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/route"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/internal/wire/wiretest"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

func TestMain(m *testing.M) {
	if dir, files := os.Getenv(childDir), os.Getenv(childFiles); files != "" {
		serveWithFiles(dir, files)
		return
	} else if dir != "" {
		child(dir)
	}
	goleak.VerifyTestMain(m, // goroutines that a package of the event loop starts once and keeps
		goleak.IgnoreAnyFunction("github.com/panjf2000/ants/v2.(*poolCommon).purgeStaleWorkers"),
		goleak.IgnoreAnyFunction("github.com/panjf2000/ants/v2.(*poolCommon).ticktock"))
}

// output is a banner or a log.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// server is an App under test.
type server struct {
	*App
	t      *testing.T
	banner output
	logged output
	stop   func() error // as Ctrl-C, once; what Run returned
}

// load makes a configuration for tests, changed by pairs of option and value.
func load(t *testing.T, dir string, options ...string) *config.Config {
	t.Helper()
	flags := map[string]string{
		"store.dir": dir, "listen.http": "127.0.0.1:0", "listen.tcp": "127.0.0.1:0", "listen.admin": "127.0.0.1:0", "store.ballast": "0", "store.min_free": "0", "store.cache": "32MiB",
		"limits.sends_per_s": "-1", "limits.send_burst": "-1",
	}
	for i := 0; i < len(options); i += 2 {
		flags[options[i]] = options[i+1]
	}
	cfg, err := config.Load(config.Source{Flags: flags})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// start starts a server and waits until it has announced itself.
func start(t *testing.T, dir string, options ...string) *server {
	t.Helper()
	return startTuned(t, dir, func(*App) {}, options...)
}

func startTuned(t *testing.T, dir string, tune func(*App), options ...string) *server {
	t.Helper()
	s := &server{t: t}
	cfg := load(t, dir, options...)
	var err error
	s.App, err = New(context.Background(), cfg, Options{DiskStall: eventually.Limit, Log: slog.New(slog.NewTextHandler(&s.logged, nil)), Banner: &s.banner, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	tune(s.App)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	s.stop = sync.OnceValue(func() error {
		cancel()
		return eventually.Receive(t, "the server ends", ended)
	})
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	eventually.True(t, "the server announces itself, or says why not", func() bool {
		return s.banner.String() != "" || strings.Contains(s.logged.String(), "not ready yet")
	})
	return s
}

// get asks the server by HTTP.
func (s *server) get(path, auth string) (int, string) {
	s.t.Helper()
	addr := s.AdminAddr() // it has all pages
	if addr == nil {
		addr = s.HTTPAddr()
	}
	q, err := http.NewRequest(http.MethodGet, "http://"+addr.String()+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	if auth != "" {
		q.Header.Set("Authorization", auth)
	}
	return s.do(q)
}

func (s *server) do(q *http.Request) (int, string) {
	s.t.Helper()
	c := &http.Client{Timeout: eventually.Limit, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := c.Do(q)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return r.StatusCode, string(b)
}

// redeem makes the admin key from the setup link.
func (s *server) redeem(link string) (int, string) {
	s.t.Helper()
	_, code, _ := strings.Cut(link, "#k=")
	q, err := http.NewRequest(http.MethodPost, "http://"+s.AdminAddr().String()+"/petrel.v1.SetupService/Redeem", strings.NewReader(`{"code":"`+code+`"}`))
	if err != nil {
		s.t.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/json")
	return s.do(q)
}

func TestStartAndStop(t *testing.T) {
	dir := t.TempDir()
	for range 3 {
		s := start(t, dir)
		for path, want := range map[string]string{"/healthz": `{"ok":true}`, "/readyz": `{"ready":true}`} {
			if status, body := s.get(path, ""); status != http.StatusOK || strings.TrimSpace(body) != want {
				t.Errorf("%s: %d %s", path, status, body)
			}
		}
		status, body := s.get("/version", "")
		var v struct {
			Version  string
			Protocol struct{ Min, Max int }
		}
		if err := json.Unmarshal([]byte(body), &v); err != nil || status != http.StatusOK || v.Version != "test" || v.Protocol.Min != 1 || v.Protocol.Max != 1 {
			t.Errorf("/version: %d %s", status, body)
		}
		addr := s.HTTPAddr().String()
		if err := s.stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
		if c, err := net.Dial("tcp", addr); err == nil {
			_ = c.Close()
			t.Error("a stopped server still listens")
		}
		if got := s.banner.String(); !strings.Contains(got, `{"drained":true,"in_flight":0}`) {
			t.Errorf("the end says %q", got)
		}
	}
}

func TestBannerForProgramsIsOneLineOfJSON(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir)
	line, rest, _ := strings.Cut(s.banner.String(), "\n")
	var got map[string]any
	if err := json.Unmarshal([]byte(line), &got); err != nil || rest != "" {
		t.Fatalf("banner %q: %v", s.banner.String(), err)
	}
	for k, want := range map[string]any{
		"ready": true, "version": "test", "data": dir, "pid": float64(os.Getpid()), "tls": false,
		"http": s.HTTPAddr().String(), "tcp": s.TCPAddr().String(), "admin": s.AdminAddr().String(), "setup_file": filepath.Join(dir, setupFile),
		"chat": "http://" + s.HTTPAddr().String() + "/",
	} {
		if got[k] != want {
			t.Errorf("%s is %v, want %v", k, got[k], want)
		}
	}
	if len(got) != 10 || strings.Contains(line, "#k=") {
		t.Errorf("banner %s", line)
	}
}

func TestListenersCanBeLeftOut(t *testing.T) {
	s := start(t, t.TempDir(), "listen.tcp", "")
	if s.TCPAddr() != nil || strings.Contains(s.banner.String(), `"tcp"`) {
		t.Errorf("TCP at %v, banner %s", s.TCPAddr(), s.banner.String())
	}
	s = start(t, t.TempDir(), "listen.http", "")
	if s.HTTPAddr() != nil || strings.Contains(s.banner.String(), `"http"`) || s.SetupLink() == "" {
		t.Errorf("HTTP at %v, banner %s", s.HTTPAddr(), s.banner.String())
	}
	s = start(t, t.TempDir(), "listen.admin", "")
	if s.AdminAddr() != nil || strings.Contains(s.banner.String(), `"admin"`) || strings.Contains(s.banner.String(), `"setup`) || s.SetupLink() != "" {
		t.Errorf("operators at %v, banner %s", s.AdminAddr(), s.banner.String())
	}
}

// Spec: P-10.1.
func TestSetupLinkIsAFileForItsOwnerUntilItIsUsed(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, setupFile)
	if err := os.WriteFile(path, []byte("left by a copy, for everybody to read\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := start(t, dir)
	link := s.SetupLink()
	if !strings.HasPrefix(link, "http://"+s.AdminAddr().String()+"/setup#k=") {
		t.Errorf("link %q", link)
	}
	b, err := os.ReadFile(path)
	if err != nil || string(b) != link+"\n" {
		t.Errorf("file %q, %v; want the link", b, err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", st.Mode(), err)
	}
	if strings.Contains(s.logged.String(), link[strings.Index(link, "#k=")+3:]) {
		t.Error("the setup code is in the log")
	}
	if status, body := s.redeem("#k=wrong"); status != http.StatusForbidden || !exists(path) {
		t.Errorf("a wrong code: %d %s; file there %t", status, body, exists(path))
	}
	status, body := s.redeem(link)
	if status != http.StatusOK || !strings.Contains(body, "pk_") || exists(path) || s.SetupLink() != "" {
		t.Errorf("redeem: %d %s; file there %t, link %q", status, body, exists(path), s.SetupLink())
	}
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("left by a crash\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s = start(t, dir)
	if s.SetupLink() != "" || exists(path) || strings.Contains(s.banner.String(), "setup") {
		t.Errorf("with an admin key: link %q, file there %t, banner %s", s.SetupLink(), exists(path), s.banner.String())
	}
}

func TestSetupLinkGoesWithTheServer(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir)
	first := s.SetupLink()
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	if exists(filepath.Join(dir, setupFile)) {
		t.Error("the file stays behind a stop")
	}
	s = start(t, dir)
	if s.SetupLink() == "" || s.SetupLink() == first {
		t.Errorf("the next start has the link %q", s.SetupLink())
	}
	if status, body := s.redeem(first); status != http.StatusForbidden {
		t.Errorf("the link of another start: %d %s", status, body)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// ready asks /readyz without a network.
func (s *server) readyz() (int, string) {
	r := httptest.NewRecorder()
	s.pages().ServeHTTP(r, httptest.NewRequest(http.MethodGet, "/readyz", nil))
	return r.Code, strings.TrimSpace(r.Body.String())
}

// Spec: P-10.5.
func TestReadyzIsRedWhileTheStoreTakesNothing(t *testing.T) {
	s := start(t, t.TempDir(), "store.min_free", "1PiB")
	if status, body := s.get("/readyz", ""); status != http.StatusServiceUnavailable || body != "{\"ready\":false,\"reason\":\"disk nearly full\"}\n" {
		t.Errorf("/readyz: %d %s", status, body)
	}
	if status, _ := s.get("/healthz", ""); status != http.StatusOK {
		t.Errorf("/healthz: %d: the process lives", status)
	}
	if status, body := s.get("/metrics", ""); status != http.StatusOK || !strings.Contains(body, "petrel_store_writable 0") {
		t.Errorf("/metrics: %d, without petrel_store_writable 0", status)
	}
}

func TestReadyzIsRedFromTheDrainOn(t *testing.T) {
	s := start(t, t.TempDir())
	if status, body := s.readyz(); status != http.StatusOK {
		t.Errorf("before: %d %s", status, body)
	}
	s.drainWatched(func() {
		if status, body := s.readyz(); status != http.StatusServiceUnavailable || body != `{"ready":false,"reason":"draining"}` {
			t.Errorf("while draining: %d %s", status, body)
		}
	})
}

// Calls of users and back ends would prolong the drain; those of operators show how it goes.
// Spec: P-9.3.
func TestCallsAreRefusedWhileTheServerStops(t *testing.T) {
	s := start(t, t.TempDir())
	call := func(h http.Handler, method string) *http.Response {
		r := httptest.NewRequest(http.MethodPost, "/petrel.v1."+method, strings.NewReader("{}"))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Result()
	}
	public, admin := s.publicHandler(), s.adminHandler()
	if res := call(public, "AccountService/GetAccount"); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("before: %s, want 401", res.Status)
	}
	s.drainWatched(func() {
		for door, h := range map[string]http.Handler{"listen.http": public, "listen.admin": admin} {
			res := call(h, "AdminService/SendAs")
			if res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Petrel-Error") != string(im.CodeDraining) || res.Header.Get("Retry-After") == "" || res.Header.Get("Connection") != "close" {
				t.Errorf("while it stops, on %s: %s %v; want 503 draining, a time, and the end of the connection", door, res.Status, res.Header)
			}
		}
		if res := call(admin, "AdminService/GetOverview"); res.StatusCode != http.StatusUnauthorized {
			t.Errorf("an operator's call while it stops: %s, want 401", res.Status)
		}
	})
}

// drainWatched stops the server and calls f while connections are still served.
func (s *server) drainWatched(f func()) {
	s.t.Helper()
	token := s.token("alice")
	c, err := wiretest.Dial(context.Background(), wiretest.Options{URL: "tcp://" + s.TCPAddr().String(), Codec: wire.Proto, Token: token})
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	done := make(chan error, 1)
	go func() { done <- s.stop() }()
	for { // the kick comes while it drains
		if _, err := c.Recv(context.Background()); err != nil {
			if e, ok := errors.AsType[*im.Error](err); !ok || e.Code != im.CodeDraining {
				s.t.Errorf("the connection ends with %v, want %s", err, im.CodeDraining)
			}
			break
		}
	}
	f()
	if err := <-done; err != nil {
		s.t.Error(err)
	}
}

func (s *server) token(u im.User) string {
	s.t.Helper()
	issued, err := s.users.Create(context.Background(), "", []im.User{u})
	if err != nil {
		s.t.Fatal(err)
	}
	return issued[0].Token
}

// Spec: P-9.3.
func TestWhatIsInFlightAtTheEndIsStoredWhenItIsAcked(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir, "limits.window_sends", "10000", "limits.window_bytes", "1MiB")
	s.token("bob")
	c, err := wiretest.Dial(context.Background(), wiretest.Options{URL: "ws://" + s.HTTPAddr().String(), Codec: wire.JSON, Token: s.token("alice")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	after := uint64(0)
	for i := range 2000 {
		_, err := c.SendAsync(&petrelv1.Send{User: "bob", ClientMsgId: fmt.Sprint(i), After: &after, Body: &petrelv1.Send_Text{Text: "x"}})
		if err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan error, 1)
	go func() { done <- s.stop() }()
	acked := uint64(0)
	for {
		f, err := c.Recv(context.Background())
		if err != nil {
			break
		}
		if a := f.GetAck(); a != nil {
			acked = max(acked, a.Seq)
		} else if e := f.GetError(); e != nil && e.Settled {
			t.Errorf("a send is rejected: %v", e)
		}
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	s = start(t, dir)
	st, err := route.Ask(context.Background(), s.router, conv.Query{Conv: im.Key{Tenant: 1, Conv: s.convs.IDs().Direct(1, "alice", "bob")}, User: "alice"}, (*conv.Owner).State, &convpb.GetState{})
	if acked > 0 && (err != nil || uint64(st.Head) < acked) {
		t.Errorf("acked up to %d, stored up to %d, %v", acked, st.Head, err)
	}
}

func TestSecondServerOfAFolderSaysWhoHoldsIt(t *testing.T) {
	dir := t.TempDir()
	start(t, dir)
	_, err := New(context.Background(), load(t, dir), Options{})
	if err == nil || !strings.Contains(err.Error(), fmt.Sprint("pid ", os.Getpid())) || !strings.Contains(err.Error(), dir) {
		t.Errorf("the second start says %v, want the folder and the pid", err)
	}
}

func TestFailedStartLeavesNothingOpen(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = busy.Close() }()
	dir := t.TempDir()
	for what, options := range map[string][]string{
		"busy HTTP address": {"listen.http", busy.Addr().String()}, "busy TCP address": {"listen.tcp", busy.Addr().String()},
		"no certificate": {"tls.cert_file", filepath.Join(dir, "none"), "tls.key_file", filepath.Join(dir, "none")},
	} {
		_, err := New(context.Background(), load(t, dir, options...), Options{})
		if err == nil || !strings.Contains(err.Error(), options[1]) {
			t.Errorf("%s: %v, want an error that names it", what, err)
		}
	}
	start(t, dir) // the folder is free

	none := filepath.Join(dir, "none yet")
	if _, err := New(context.Background(), load(t, none, "listen.http", busy.Addr().String()), Options{}); err == nil {
		t.Error("a server starts on an address in use")
	}
	if _, err := os.Stat(none); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a start that failed because of its address made a store: %v", err)
	}
}

func TestMetricsHaveTheirNames(t *testing.T) {
	s := start(t, t.TempDir())
	_, body := s.get("/metrics", "")
	for _, name := range []string{
		"petrel_entries_stored_total", "petrel_sends_repeated_total", "petrel_events_delivered_total", "petrel_events_lagged_total", "petrel_commits_total",
		"petrel_store_disk_bytes", "petrel_store_writable", "petrel_sessions", "petrel_hellos_refused_total", "petrel_sends_waiting", "petrel_conversations_loaded", "petrel_inbox_resets_total",
		"petrel_conversations_evicted_total", "petrel_inboxes_behind_seconds", "petrel_disk_free_bytes", "petrel_disk_bytes",
		"petrel_audit_records_total", "petrel_audit_dropped_total", "petrel_audit_failures_total",
		"go_goroutines", "process_cpu_seconds_total",
	} {
		if !strings.Contains(body, "\n"+name+" ") || !strings.Contains(body, "# HELP "+name+" ") {
			t.Errorf("/metrics has no %s with a value and a help", name)
		}
	}
	if want := fmt.Sprintf("\npetrel_build_info{go=%q,version=\"test\"} 1\n", runtime.Version()); !strings.Contains(body, want) {
		t.Errorf("/metrics has no %q", want)
	}
	for _, part := range []string{"conversations", "sends", "store", "process"} {
		for _, name := range []string{"petrel_memory_bytes", "petrel_memory_budget_bytes"} {
			if want := fmt.Sprintf("\n%s{part=%q} ", name, part); !strings.Contains(body, want) {
				t.Errorf("/metrics has no %s", want)
			}
		}
	}
	if strings.Contains(body, `petrel_memory_budget_bytes{part="conversations"} 0`) {
		t.Error("conversations have no budget")
	}
}

func TestMetricsAskForTheirToken(t *testing.T) {
	const token = "0123456789abcdef"
	s := start(t, t.TempDir(), "metrics.token", token)
	for auth, want := range map[string]int{"": 401, "Bearer wrong": 401, token: 401, "Bearer " + token: 200} {
		if status, body := s.get("/metrics", auth); status != want || want == 401 && body != "" {
			t.Errorf("with %q: %d, want %d", auth, status, want)
		}
	}
	s = start(t, t.TempDir(), "metrics.enabled", "false")
	if status, _ := s.get("/metrics", ""); status != http.StatusNotFound {
		t.Errorf("switched off: %d", status)
	}
}
