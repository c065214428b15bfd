// Package foreign_test runs clients that know nothing of our Go code against
// the real server: Python's websockets, npm's ws, and plain sockets. They were
// written from proto/README.md alone; where one fails, the text decides who is
// wrong.
package foreign_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/imtest/proctest"
)

// users get a token each; mallory is left for a test to make.
var users = []string{"alice", "bob", "carol", "eve"}

func TestForeignClientsTalkToTheServer(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	python := filepath.Join(root, "build/venv/bin/python")
	modules := filepath.Join(root, "build/node/node_modules")
	needs(t, filepath.Join(root, "build/venv/lib"), "python3 -m venv build/venv && build/venv/bin/pip install -r test/foreign/python/requirements.txt")
	needs(t, filepath.Join(modules, "ws"), "mkdir -p build/node && cp test/foreign/node/package*.json build/node/ && npm ci --prefix build/node")

	srv := startServer(t)
	env := append(os.Environ(),
		"PETREL_URL=ws://"+srv.http+"/v1/ws",
		"PETREL_HTTP=http://"+srv.http,
		"PETREL_TCP="+srv.tcp,
		"PETREL_TOKENS="+srv.tokens,
		"PETREL_ADMIN_KEY="+srv.adminKey,
		"PETREL_NODE_MODULES="+modules,
		"PYTHONDONTWRITEBYTECODE=1",
	)
	for _, c := range []struct {
		name, dir string
		args      []string
	}{
		{"python websockets", "python", []string{python, "-m", "unittest", "-v", "test_foreign"}},
		{"node ws", "node", []string{"node", "--test", "--test-reporter=spec", "foreign.test.js"}},
		{"tcp sockets", "tcp", []string{python, "-m", "unittest", "-v", "test_tcp"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), c.args[0], c.args[1:]...)
			cmd.Dir, cmd.Env = c.dir, env
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%s: %v\n%s", strings.Join(c.args, " "), err, out)
			} else {
				t.Logf("%s", lastLines(out, 4))
			}
		})
	}
}

// A gRPC client that has the addresses and a key, and no schema, finds the methods by reflection
// and calls them. Spec: P-12.1.
func TestGRPCClientFindsTheSchema(t *testing.T) {
	t.Parallel()
	python, err := filepath.Abs("../../build/venv/bin/python")
	if err != nil {
		t.Fatal(err)
	}
	needs(t, python, "make build/venv/.installed")
	srv := startServer(t)
	for _, addr := range []string{srv.http, srv.admin} {
		cmd := exec.CommandContext(t.Context(), python, "reflection.py", addr, srv.adminKey)
		cmd.Dir, cmd.Env = "python", append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		} else {
			t.Logf("%s: %s", addr, lastLines(out, 1))
		}
	}
}

// needs fails with what to run when a tool of the tests is not installed.
func needs(t *testing.T, path, install string) {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%s is missing; run `make test`, or: %s", path, install)
	}
}

type server struct {
	http, tcp, admin string // host:port
	adminKey         string
	tokens           string // path of the JSON file user → token

	dir string
	env []string
	log bytes.Buffer
	end func(os.Signal) error // ends the process, and returns how it ended
}

// startServer starts the binary on an empty folder, and makes the users the way
// P-10 says.
func startServer(t *testing.T, settings ...string) *server {
	t.Helper()
	dir := t.TempDir()
	addrs := proctest.FreePorts(t, 3)
	s := &server{http: addrs[0], tcp: addrs[1], admin: addrs[2], tokens: filepath.Join(dir, "tokens.json"), dir: dir}
	data := filepath.Join(dir, "data")
	s.env = append([]string{
		"HOME=" + dir, "PATH=" + os.Getenv("PATH"),
		"PETREL_LISTEN__HTTP=" + s.http, "PETREL_LISTEN__TCP=" + s.tcp, "PETREL_LISTEN__ADMIN=" + s.admin, "PETREL_STORE__DIR=" + data,
		"PETREL_HEARTBEAT__SILENCE=2s", // so that a dead link is seen dead within a test
	}, settings...)
	s.start(t)
	t.Cleanup(func() {
		if err := s.end(syscall.SIGTERM); err != nil {
			t.Errorf("petrel serve ended with %v", err)
		}
		if t.Failed() {
			t.Logf("log of the server:\n%s", lastLines(s.log.Bytes(), 60))
		}
	})

	link, err := os.ReadFile(filepath.Join(data, "setup-link"))
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(strings.TrimSpace(string(link)), "#k=")
	var redeemed struct{ AdminKey string }
	s.call(t, "SetupService/Redeem", map[string]any{"code": code}, &redeemed)
	s.adminKey = redeemed.AdminKey
	var made struct {
		Tokens []struct{ User, Token string }
	}
	s.call(t, "AdminService/CreateUsers", map[string]any{"users": users}, &made)
	tokens := map[string]string{}
	for _, m := range made.Tokens {
		tokens[m.User] = m.Token
	}
	text, err := json.Marshal(tokens)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.tokens, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// start starts the binary on the folder of the server, whose former process has ended.
func (s *server) start(t *testing.T) {
	t.Helper()
	cmd := exec.Command(proctest.Program(t), "serve")
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = s.dir, s.env, &s.log, &s.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	s.end = func(signal os.Signal) error {
		_ = cmd.Process.Signal(signal) // an error means that it has ended
		return <-ended
	}
	waitReady(t, "http://"+s.http+"/readyz", ended)
}

// call makes one call of the operator's API. Spec: P-10.3.
func (s *server) call(t *testing.T, method string, in, out any) {
	t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequest(http.MethodPost, "http://"+s.admin+"/petrel.v1."+method, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+s.adminKey)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }() // read to its end
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode == http.StatusOK {
		err = json.Unmarshal(text, out)
	}
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: HTTP %s, %v\n%s", method, res.Status, err, text)
	}
}

// waitReady polls until the server takes sends; ended tells that it never will.
func waitReady(t *testing.T, url string, ended chan error) {
	t.Helper()
	last := ""
	if !eventually.Holds(func() bool {
		select {
		case err := <-ended:
			ended <- err // for the cleanup
			t.Fatalf("petrel serve ended before it was ready: %v", err)
		default:
		}
		res, err := http.Get(url)
		if err != nil {
			last = err.Error()
			return false
		}
		_ = res.Body.Close() // only the status counts
		last = res.Status
		return res.StatusCode == http.StatusOK
	}) {
		t.Fatalf("%s is not ready after %v: %s", url, eventually.Limit, last)
	}
}

func lastLines(b []byte, n int) string {
	lines := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
