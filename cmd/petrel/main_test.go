package main

import (
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"github.com/petrel-im/petrel/internal/config"
)

func TestExitCodesTellWhatKindOfErrorItIs(t *testing.T) {
	data := t.TempDir()
	closed := "PETREL_SERVER=http://127.0.0.1:1" // nothing listens there
	for _, tc := range []struct {
		line  string
		env   []string
		exit  int
		parts []string
	}{
		{line: "", exit: exitOK, parts: []string{"Available Commands"}},
		{line: "conv members", exit: exitOK, parts: []string{"add", "remove"}},
		{line: "sned", exit: exitUsage, parts: []string{"error usage: unknown command", "did you mean send?"}},
		{line: "conv sned", exit: exitUsage, parts: []string{"unknown command"}},
		{line: "version --colour", exit: exitUsage, parts: []string{"unknown flag: --colour"}},
		{line: "user create", exit: exitUsage},
		{line: "send hi --as bob", exit: exitUsage, parts: []string{"--to USER"}},
		{line: "send hi --to bob --conv c --as bob", exit: exitUsage, parts: []string{"--to USER"}},
		{line: "send hi --to bob", exit: exitUsage, parts: []string{"as whom?"}},
		{line: "tail --as bob --codec xml", exit: exitUsage, parts: []string{"json or --codec protobuf"}},
		{line: "conv create alice:king", exit: exitUsage, parts: []string{"USER:admin"}},
		{line: "user create alice --server nowhere", exit: exitUsage, parts: []string{"http://127.0.0.1:8080"}},
		{line: "config check --limits-hello-frame 3", exit: exitConfig, parts: []string{"flag --limits-hello-frame: limits.hello_frame = 3", "fix   allowed: a size from 512B"}},
		{line: "user create alice", env: []string{"PETREL_LOG__LEVEL=loud"}, exit: exitConfig, parts: []string{"PETREL_LOG__LEVEL"}},
		{line: "config check --config nowhere.toml", exit: exitConfig, parts: []string{"nowhere.toml"}},
		{line: "user create alice", env: []string{closed, "PETREL_ADMIN_KEY=pk_x"}, exit: exitUnreachable, parts: []string{"error unreachable", "cannot reach http://127.0.0.1:1", "petrel serve"}},
		{line: "send hi --to bob", env: []string{closed, "PETREL_TOKEN=pt_x"}, exit: exitUnreachable, parts: []string{"error unreachable"}},
		{line: "tail", env: []string{closed, "PETREL_TOKEN=pt_x"}, exit: exitUnreachable, parts: []string{"error unreachable"}},
		{line: "user create alice", env: []string{closed}, exit: exitAuth, parts: []string{"error no_admin_key"}},
		{line: "tail --as bob", env: []string{closed}, exit: exitAuth, parts: []string{"error no_token", "petrel user create bob"}},
	} {
		t.Run(tc.line, func(t *testing.T) {
			env := append([]string{"PETREL_STORE__DIR=" + filepath.Join(data, "none")}, tc.env...)
			petrel(t, env, strings.Fields(tc.line)...).want(t, tc.exit, tc.parts...)
		})
	}
}

func TestEveryCommandHasAnExample(t *testing.T) {
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Example == "" || cmd.Short == "" {
			t.Errorf("%s: no example or no short text", cmd.CommandPath())
		}
		for line := range strings.Lines(cmd.Example) {
			if !strings.HasPrefix(line, "  ") || !strings.Contains(line, "petrel ") {
				t.Errorf("%s: example %q", cmd.CommandPath(), line)
			}
		}
		for _, below := range cmd.Commands() {
			if below.Name() != "help" && below.Name() != "completion" {
				walk(below)
			}
		}
	}
	walk(newRoot(&cli{}))
}

// TestEveryOptionHasAFlag also shows that a flag overrides all other sources.
func TestEveryOptionHasAFlag(t *testing.T) {
	together := [][]string{{"tls.cert_file", "tls.key_file"}, {"jwt.key_file", "jwt.issuer", "jwt.audience"}} // one needs the others
	atDefault := map[string]string{}                                                                          // flags in one command line: their origins by the names of their options
	atDefaultArgs := []string{"config", "show", "--origin", "--json"}
	for _, o := range config.Options() {
		value := o.Default
		if value == "" {
			value = "x-0123456789abcdef"
		}
		flag := "--" + config.FlagName(o.Name)
		want := "flag " + flag
		switch {
		case o.Secret: // by its file, never in a command line
			petrel(t, nil, "config", "show", flag+"="+value).want(t, exitUsage, "unknown flag")
			flag, value = flag+"-file", fileWith(t, value)
			want = "flag " + flag + " " + value
		case o.Name == "log.format":
			value = "json"
		case o.Name == "store.id":
			value = "0123456789abcdef"
		case o.Name == "jwt.keys_url":
			value = "https://id.example/keys"
		case o.Name == "listen.http", o.Name == "listen.tcp", o.Name == "listen.admin", o.Name == "cluster.listen":
			value = "127.0.0.1:1"
		case o.Default != "":
			atDefault[o.Name] = want
			atDefaultArgs = append(atDefaultArgs, flag+"="+value)
			continue
		}
		args := []string{"config", "show", "--origin", "--json", flag + "=" + value}
		for _, set := range together {
			for _, name := range set {
				if slices.Contains(set, o.Name) && name != o.Name {
					args = append(args, "--"+config.FlagName(name)+"=x")
				}
			}
		}
		if o.Name == "jwt.keys_url" {
			args = append(args, "--jwt-issuer=x", "--jwt-audience=x")
		}
		wantOrigins(t, map[string]string{o.Name: want}, args...)
	}
	wantOrigins(t, atDefault, atDefaultArgs...)
}

// wantOrigins checks the origins of options that `config show` prints.
func wantOrigins(t *testing.T, want map[string]string, args ...string) {
	t.Helper()
	r := petrel(t, nil, args...)
	var values []config.Value
	if err := json.Unmarshal([]byte(r.out), &values); err != nil {
		t.Fatalf("%q: %v of %s%s", args, err, r.out, r.err)
	}
	shown := 0
	for _, v := range values {
		origin, asked := want[v.Name]
		if !asked {
			continue
		}
		if shown++; v.Origin != origin {
			t.Errorf("%s: from %s, want %s", v.Name, v.Origin, origin)
		}
	}
	if shown != len(want) {
		t.Errorf("%q: %d options are shown, want %d", args, shown, len(want))
	}
}

func TestServerIsWhereTheConfigurationListens(t *testing.T) {
	for conf, want := range map[string]string{
		"":                                 "http://127.0.0.1:8080",
		"[listen]\nhttp = \"127.0.0.1:9\"": "http://127.0.0.1:9",
		"[listen]\nhttp = \"\"":            "http://127.0.0.1:8080",
		"[listen]\nhttp = \":9\"\n[tls]\ncert_file = \"c\"\nkey_file = \"k\"": "https://127.0.0.1:9",
		"[listen]\nhttp = \"[::]:9\"\ninsecure_plaintext = true":              "http://127.0.0.1:9",
	} {
		name := filepath.Join(t.TempDir(), "petrel.toml")
		if err := os.WriteFile(name, []byte(conf), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := config.Load(config.Source{File: name})
		if err != nil {
			t.Fatal(err)
		}
		if got := localURL(c); got != want {
			t.Errorf("%q: got %s, want %s", conf, got, want)
		}
	}
}

func TestDoctorMeasuresTheDiskAndFindsATakenPort(t *testing.T) {
	l := listen(t)
	r := petrel(t, nil, "doctor", "--json", "--data", filepath.Join(t.TempDir(), "not", "yet"), "--listen-http", l, "--listen-tcp", "127.0.0.1:0", "--listen-admin", "127.0.0.1:0")
	r.want(t, exitFailed, "error")
	var vs []verdict
	if err := json.Unmarshal([]byte(r.out), &vs); err != nil {
		t.Fatalf("%v of %s", err, r.out)
	}
	states := map[string]verdict{}
	for _, v := range vs {
		states[v.Check] = v
	}
	if v := states["HTTP port"]; v.State != stateFail || v.Fix == "" {
		t.Errorf("a taken port: got %+v", v)
	}
	if v := states["TCP port"]; v.State != stateOK {
		t.Errorf("a free port: got %+v", v)
	}
	if v := states["disk sync"]; v.State == stateFail || v.Values["samples"].(float64) < 1 || v.Values["p50_ms"].(float64) > v.Values["p99_ms"].(float64) {
		t.Errorf("disk: got %+v", v)
	}
	for _, check := range []string{"open files", "memory", "free space", "clock", "transport"} {
		if v := states[check]; v.Found == "" {
			t.Errorf("%s: got %+v", check, v)
		}
	}
}

func TestDoctorMissesTheProxyOfAName(t *testing.T) {
	for _, c := range []struct {
		flags []string
		state string
	}{
		{nil, ""},
		{[]string{"--listen-hosts", "chat.example.org"}, stateWarn},
		{[]string{"--listen-hosts", "chat.example.org", "--listen-trusted-proxies", "127.0.0.1"}, stateOK},
		{[]string{"--listen-trusted-proxies", "127.0.0.1"}, stateWarn}, // the proxy's requests are for no name that the server knows
	} {
		args := append([]string{"doctor", "--json", "--data", t.TempDir(), "--listen-http", "127.0.0.1:0", "--listen-tcp", "127.0.0.1:0", "--listen-admin", "127.0.0.1:0"}, c.flags...)
		var vs []verdict
		if r := petrel(t, nil, args...); json.Unmarshal([]byte(r.out), &vs) != nil {
			t.Fatalf("doctor answers with %s", r.out)
		}
		state := ""
		for _, v := range vs {
			if v.Check == "proxy" {
				state = v.State
			}
		}
		if state != c.state {
			t.Errorf("%v: the proxy is %q, want %q", c.flags, state, c.state)
		}
	}
}

// The doctor also recognizes a server with TLS, and does not report its port as taken by another program.
func TestDoctorKnowsAPetrelWithTLS(t *testing.T) {
	for body, want := range map[string]bool{`{"protocol":{"max":1}}`: true, "another program": false} {
		s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }))
		s.Config.ErrorLog = log.New(io.Discard, "", 0) // the try without TLS
		if got := isPetrel(s.Listener.Addr().String()); got != want {
			t.Errorf("%s: a petrel is %v, want %v", body, got, want)
		}
		s.Close()
	}
}

// The doctor does not fill a disk without a delay, such as memory: a server may live on it.
func TestDoctorLeavesAFastDiskItsSpace(t *testing.T) {
	dir := t.TempDir()
	if memory, err := os.MkdirTemp("/dev/shm", "petrel-doctor-*"); err == nil {
		t.Cleanup(func() { _ = os.RemoveAll(memory) })
		dir = memory
	}
	v := checkSync(t.Context(), dir)
	if n, ok := v.Values["samples"].(int); !ok || n < 1 || n > maxSyncs {
		t.Errorf("got %+v, want at most %d samples", v, maxSyncs)
	}
}

// A missing permission and a full disk have hints of their own.
func TestDoctorSaysWhatADiskLacks(t *testing.T) {
	for err, want := range map[error]string{
		&os.PathError{Op: "open", Path: "x", Err: syscall.EACCES}:  "chown -R USER /srv/petrel",
		&os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}: "free some space",
		&os.PathError{Op: "open", Path: "x", Err: syscall.EROFS}:   "on a disk that takes writes",
	} {
		if got := diskFix("/srv/petrel", err); !strings.Contains(got, want) {
			t.Errorf("%v: got %q, want %q", err, got, want)
		}
	}
}

func TestDoctorKnowsARunningPetrel(t *testing.T) {
	s := serveShared(t)
	r := petrel(t, nil, "doctor", "--data", s.data, "--listen-tcp", s.tcp) // the folder knows the others
	if !strings.Contains(r.out, "a petrel is running on "+s.http) || !strings.Contains(r.out, "a petrel is running on "+s.tcp) || !strings.Contains(r.out, "a petrel is running on "+s.admin) {
		t.Errorf("got:\n%s", r.out)
	}
}

// doctor --through needs neither a configuration nor the folder of the server.
func TestDoctorLooksAtTheWayOfClients(t *testing.T) {
	s := serveShared(t)
	r := petrel(t, nil, "doctor", "--through", "http://"+s.http)
	r.want(t, exitOK)
	if !strings.Contains(r.out, "requests come to the server as ones for "+s.http) || strings.Contains(r.out, "fdatasync") {
		t.Errorf("got:\n%s", r.out)
	}
	petrel(t, nil, "doctor", "--through", "http://"+s.admin).want(t, exitFailed)
	petrel(t, nil, "doctor", "--through", "chat.example.org").want(t, exitUsage)
}

func TestDocsNameEveryCommandAndOption(t *testing.T) {
	dir := t.TempDir()
	petrel(t, nil, "docs", dir).want(t, exitOK)
	commands, err := os.ReadFile(filepath.Join(dir, "cli.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"## petrel user create\n", "## petrel conv members remove\n", "`--timeout", "| `--json`"} {
		if !strings.Contains(string(commands), part) {
			t.Errorf("cli.md does not have %q", part)
		}
	}
	conf, err := os.ReadFile(filepath.Join(dir, "config.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range config.Options() {
		if !strings.Contains(string(conf), "`"+o.Name+"`") {
			t.Errorf("config.md does not have %s", o.Name)
		}
	}
}

// fileWith makes a file with this content and returns its name.
func fileWith(t *testing.T, content string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// listen takes a port of this host and returns its address.
func listen(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}
