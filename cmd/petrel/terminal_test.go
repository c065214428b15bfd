package main

import (
	"bytes"
	"context"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"log/slog"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/terminal"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// hostile is a text of a user that steers a terminal, reverses the direction of the text after it, hides a character,
// and begins a line that looks like one of ours.
const hostile = "a\x1b[2J\u009b31m\u202eb\u200bc\U000e0041\nFORGED line"

// No text of users steers the terminal or begins a line of its own, whichever command prints it. A new command
// gets a row here, unless it prints nothing of users.
func TestNoTextOfUsersSteersTheTerminal(t *testing.T) {
	t.Parallel()
	s := serveHere(t, filepath.Join(t.TempDir(), "data"), "127.0.0.1:0", "--accounts-registration", "open")
	petrel(t, s.env(), "user", "create", "alice", "bob").want(t, exitOK)
	token := jsonLines(t, petrel(t, s.env(), "user", "token", "alice", "--device", "phone-1", "--kind", "phone", "--name", hostile, "--json"))[0]["accessToken"].(string)
	c := &cli{env: s.env(), data: s.data}
	api, err := c.admin(t.Context(), target{url: "http://" + s.http, admin: "http://" + s.admin, data: s.data})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := api.CreateKey(t.Context(), connect.NewRequest(&petrelv1.CreateKeyRequest{Name: hostile, Scopes: []string{"users"}})); err != nil {
		t.Fatal(err)
	}
	alice := fileWith(t, token)
	conv := strings.TrimSpace(petrel(t, s.env(), "conv", "create", "--title", "Team", "alice:owner", "bob").out)
	if conv == "" {
		t.Fatal("no conversation was made") // tail would wait for ever
	}
	petrel(t, s.env(), "send", "--token-file", alice, "--conv", conv, hostile).want(t, exitOK)
	petrel(t, s.env(), "send", "--token-file", alice, "--to", "bob", hostile).want(t, exitOK)

	rows := map[string][]string{
		"audit list": {}, "audit verify": {}, "user list": {}, "user show": {"alice"}, "user sessions": {"alice", "--all"}, "key list": {},
		"conv list": {"bob"}, "conv members": {conv}, "conv members list": {conv}, "conv history": {conv}, "conv export": {conv}, "conv rename": {conv, hostile},
		"tail": {"--as", "bob", "--last", "5", "--count", "2"}, "chat": {"--as", "bob", "--to", "alice", "--last", "5"},
		"send": {"--as", "bob", "--to", hostile, "hi"}, "tenant show": {"--tenant", hostile}, "cluster status": {},
		"user create": {hostile}, "user passwd": {hostile}, "user token": {hostile}, "user revoke": {hostile}, "user disable": {hostile}, "user enable": {hostile},
		"user link": {hostile}, "user profile": {"alice", "--name", "Alice", "--field", "x=" + hostile}, "user contacts": {"alice", "--add", hostile}, "user mute": {hostile}, "user restore": {hostile}, "report list": {"--user", hostile}, "report show": {"9", "--reason", hostile}, "report resolve": {"9", "note", "--note", hostile}, "tenant reports": {hostile}, "key create": {hostile, "--scope", "users"}, "key revoke": {hostile}, "setup": {hostile},
		"conv create": {"--title", hostile, "alice:owner"}, "conv dissolve": {hostile, "--yes"}, "conv members add": {conv, hostile}, "conv members remove": {conv, hostile},
		"tenant registration": {hostile}, "tenant managed": {hostile}, "tenant first-messages": {hostile}, "tenant invite": {"--tenant", hostile}, "cluster drain": {hostile}, "cluster resume": {hostile}, "cluster move-partition": {hostile},
		"conv freeze": {hostile}, "conv thaw": {hostile}, "trace msg": {"--user", "alice", "--id", hostile}, "trace user": {"alice"},
		"operator create": {hostile, "--scope", "users"}, "operator list": {}, "operator enable": {hostile}, "operator disable": {hostile}, "operator reset": {hostile}, "operator remove": {hostile},
	}
	// These print nothing of users, but what the operator wrote or what they measure.
	other := []string{
		"backup", "backup list", "backup verify", "bench cluster", "bench compare", "bench connections", "bench direct", "bench direct-send", "bench estimate", "bench glide-1", "bench glide-2", "bench group", "bench history",
		"bench limit", "bench login", "bench mixed", "bench openim-load", "bench openim-reliability", "bench page", "bench presence", "bench quick", "bench read", "bench soak", "bench storm", "bench sync",
		"check", "cluster finalize", "cluster rebalance",
		"config check", "config default", "config show", "demo", "docs", "doctor", "repair", "restore", "serve", "version",
	}
	shown := 0
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		for _, format := range [][]string{nil, {"--json"}} {
			args := slices.Concat(strings.Fields(name), rows[name], format)
			r := withInput(t, "", s.env(), args...)
			for what, text := range map[string]string{"out": r.out, "err": r.err} {
				if terminal.Text(text) != text {
					t.Errorf("%s %s: %+q", args, what, text)
				}
				for line := range strings.Lines(text) {
					if strings.HasPrefix(line, "FORGED") {
						t.Errorf("%s %s: a text begins a line: %+q", args, what, text)
					}
					if format != nil && what == "out" && !json.Valid([]byte(line)) {
						t.Errorf("%s: no JSON: %+q", args, line)
					}
				}
				shown += strings.Count(text, `\u202e`)
			}
		}
	}
	if shown < 20 {
		t.Errorf("only %d texts of users were shown: the rows test nothing", shown)
	}
	for _, name := range leaves(newRoot(&cli{}), "") {
		if _, ok := rows[name]; !ok && !slices.Contains(other, name) {
			t.Errorf("petrel %s has no row", name)
		}
	}
}

// leaves are the commands that do something.
func leaves(cmd *cobra.Command, above string) (all []string) {
	for _, below := range cmd.Commands() {
		if below.Name() == "help" || below.Name() == "completion" {
			continue
		}
		name := strings.TrimSpace(above + " " + below.Name())
		if below.Runnable() && !below.HasSubCommands() {
			all = append(all, name)
		}
		all = append(all, leaves(below, name)...)
	}
	return all
}

// Commands write to cli.out and cli.err, each of which is a terminal.Writer. Only writes through bare reach the
// terminal without it: the bytes of a backup and the progress of a bench.
func TestCommandsWriteThroughTheGuard(t *testing.T) {
	allowed := map[string]int{"main.go": 2, "bench.go": 1, "cli.go": 3}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if x, ok := n.Fun.(*ast.Ident); ok && x.Name == "bare" {
					found[name]++
				}
			case *ast.SelectorExpr:
				x, ok := n.X.(*ast.Ident)
				if ok && (x.Name == "os" && (n.Sel.Name == "Stdout" || n.Sel.Name == "Stderr") || x.Name == "fmt" && strings.HasPrefix(n.Sel.Name, "Print") || x.Name == "log") {
					found[name]++
				}
			}
			return true
		})
	}
	if !maps.Equal(found, allowed) {
		t.Errorf("files that write past terminal.Writer, and how often: got %v, want %v", found, allowed)
	}
}

// Texts of users are escaped in each line of the log, whatever the format.
func TestLogShowsWhatNobodySees(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		var out bytes.Buffer
		c, err := (&cli{}).load(&cobra.Command{})
		if err != nil {
			t.Fatal(err)
		}
		c.Log.Format = format
		log := newLog(terminal.NewWriter(&out), c.Log, new(slog.LevelVar))
		log.Warn("refused", "user", hostile, "err", hostile)
		if got := out.String(); terminal.Text(got) != got || strings.Count(got, "\n") != 1 || !strings.Contains(got, `\u202e`) {
			t.Errorf("%s: %+q", format, got)
		}
	}
}

// Strangers cannot forge lines of the log: each line is one object, with the words of the server.
func TestStrangersForgeNoLineOfTheLog(t *testing.T) {
	s := serveHere(t, filepath.Join(t.TempDir(), "data"), "127.0.0.1:0", "--log-level", "debug")
	const forged = `x","msg":"forged","level":"ERROR`
	for _, address := range []string{s.http, s.admin, s.tcp} {
		for _, text := range []string{
			"GET /" + forged + " HTTP/1.1\r\nHost: " + forged + "\r\nOrigin: http://" + forged + "\r\nUser-Agent: \x1b[2J\u202e" + forged + "\r\n\r\n",
			"GET / HTTP/1.1\r\nHost: level=ERROR;msg='forged'.example.org\r\n\r\n", // the name is logged once
			"GET / HTTP/1.1\r\nHost: localhost\r\n" + forged + ": a\rb\r\n\r\n",
			"POST /petrel.v1.AuthService/Login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: 60\r\n\r\n" + `{"user":"x\n{\"msg\":\"forged\"}","password":"x\nforged12"}    `,
			"GET /v1/ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nOrigin: http://evil.example\n\r\n\r\n",
			"\n{\"time\":\"0\",\"level\":\"ERROR\",\"msg\":\"forged\"}\n",
			"\x00\x00\x00\x60" + `{"hello":{"version":1,"token":"x\n{\"msg\":\"forged\"}","device":"\u001b[2J\u202e","client":"forged"}}`,
		} {
			nc, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer context.AfterFunc(eventually.Context(t), func() { _ = nc.Close() })()
			_, _ = io.WriteString(nc, text) // the server may have closed it
			_ = nc.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, nc) // until the server has answered
			_ = nc.Close()
		}
	}
	r := s.stop()
	lines := 0
	for line := range strings.Lines(r.err) {
		said := struct{ Time, Level, Msg string }{}
		if err := json.Unmarshal([]byte(line), &said); err != nil || said.Msg == "forged" || said.Level == "ERROR" || said.Time == "" || terminal.Text(line) != line {
			t.Errorf("the log has the line %+q: %v", line, err)
		}
		lines++
	}
	if lines < 3 || !strings.Contains(r.err, "forged") {
		t.Errorf("the log has %d lines, and none of what was sent: the test tries nothing", lines)
	}
}

// At the lowest level the log has no message, no token, no password and no key.
func TestNoMessageAndNoSecretIsLogged(t *testing.T) {
	s := serveHere(t, filepath.Join(t.TempDir(), "data"), "127.0.0.1:0", "--log-level", "debug", "--accounts-registration", "open")
	petrel(t, s.env(), "user", "create", "alice", "bob").want(t, exitOK)
	secrets := map[string]string{"message": "a-text-for-bob", "password": "swordfish-and-chips"}
	petrel(t, s.env(), "send", "--as", "alice", "--to", "bob", secrets["message"]).want(t, exitOK)
	withInput(t, secrets["password"]+"\n", s.env(), "user", "passwd", "alice").want(t, exitOK)
	withInput(t, secrets["password"]+"\n/open @bob\nhello\n", s.env(), "chat", "--as", "alice", "--login").want(t, exitOK)
	petrel(t, s.env(), "send", "--to", "bob", "hi", "--token-file", fileWith(t, "pt_default.alice.not-a-token-of-ours")).want(t, exitAuth)
	for what, name := range map[string]string{"admin key": filepath.Join(s.data, "admin.key"), "token": tokenFile(s.data, "", "bob")} {
		secret, err := readSecret(name)
		if err != nil {
			t.Fatal(err)
		}
		secrets[what] = secret
	}
	secrets["refused token"] = "not-a-token-of-ours"
	r := s.stop()
	if !strings.Contains(r.err, "level\":\"DEBUG") {
		t.Errorf("the log has no lines of the lowest level: %.500s", r.err)
	}
	for what, secret := range secrets {
		if strings.Contains(r.out+r.err, secret) {
			t.Errorf("the %s is in the output of the server", what)
		}
	}
}
