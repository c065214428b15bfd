package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/store"
)

// live is a server that runs in this process.
type live struct {
	data  string
	http  string // host:port
	tcp   string
	admin string
	stop  func() result
}

// serveHere runs `petrel serve` on a data folder until the test ends or stop is called. stop returns the output of the
// server and its exit code.
func serveHere(t *testing.T, data, addr string, flags ...string) *live {
	t.Helper()
	s, err := start(data, addr, flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.stop().want(t, exitOK) })
	return s
}

// shared is the server of serveShared.
var shared struct {
	dir  string
	live *live
	used map[string]bool // by the names of tests
}

// serveShared returns a server that the tests of this package use together, each with users and conversations of
// its own. None of them stops it.
func serveShared(t *testing.T) *live {
	t.Helper()
	if shared.used[t.Name()] { // the tests run once more, with the same users
		stopShared()
	}
	if shared.live == nil {
		var err error
		if shared.dir, err = os.MkdirTemp("", "petrel-shared-"); err != nil {
			t.Fatal(err)
		}
		if shared.live, err = start(filepath.Join(shared.dir, "data"), "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		shared.used = map[string]bool{}
		petrel(t, shared.live.env(), "setup").want(t, exitOK)
	}
	shared.used[t.Name()] = true
	return shared.live
}

// stopShared ends that server, if there is one.
func stopShared() {
	if shared.live != nil {
		shared.live.stop()
	}
	if shared.dir != "" {
		_ = os.RemoveAll(shared.dir) // in the system's folder of temporary files
	}
	shared.live, shared.dir = nil, ""
}

// start runs `petrel serve` until stop is called.
func start(data, addr string, flags ...string) (*live, error) {
	ctx, cancel := context.WithCancel(context.Background())
	r, w := io.Pipe()
	var log strings.Builder
	ended := make(chan int, 1)
	go func() {
		args := append([]string{"serve", "--data", data, "--listen-http", addr, "--listen-tcp", "127.0.0.1:0", "--listen-admin", "127.0.0.1:0"}, flags...)
		ended <- run(ctx, args, nil, strings.NewReader(""), w, &log)
		_ = w.Close() // never fails
	}()
	out := bufio.NewReader(r)
	first, err := out.ReadBytes('\n')
	s := &live{data: data}
	var banner struct{ HTTP, TCP, Admin string }
	if err == nil {
		err = json.Unmarshal(first, &banner)
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("petrel serve: exit %d, first line %q: %w\n%s", <-ended, first, err, &log)
	}
	s.http, s.tcp, s.admin = banner.HTTP, banner.TCP, banner.Admin
	var last *result
	s.stop = func() result {
		if last == nil {
			cancel()
			rest, _ := io.ReadAll(out) // a pipe, whose writer closes it without an error
			last = &result{<-ended, string(first) + string(rest), log.String()}
		}
		return *last
	}
	return s, nil
}

func (s *live) env() []string {
	return []string{"PETREL_SERVER=http://" + s.http, "PETREL_ADMIN_SERVER=http://" + s.admin, "PETREL_STORE__DIR=" + s.data}
}

// inBackground runs one command line; its result comes when it ends.
func inBackground(t *testing.T, env []string, args ...string) <-chan result {
	done := make(chan result, 1)
	go func() { done <- petrel(t, env, args...) }()
	return done
}

func TestFirstMessageByTheWordsOfTheReadme(t *testing.T) {
	s := serveHere(t, filepath.Join(t.TempDir(), "data"), "127.0.0.1:0")
	petrel(t, s.env(), "user", "create", "alice", "bob").want(t, exitOK, "alice", "bob")
	for _, codec := range []string{"json", "protobuf"} {
		petrel(t, s.env(), "send", "--as", "bob", "--to", "alice", "hi by "+codec, "--codec", codec).want(t, exitOK, "✓ stored  seq")
		petrel(t, s.env(), "tail", "--as", "alice", "--last", "1", "--count", "1", "--codec", codec).want(t, exitOK, "@bob #", "bob: hi by "+codec)
	}
	again := petrel(t, s.env(), "send", "--as", "bob", "--to", "alice", "once", "--id", "k1", "--json")
	again.want(t, exitOK, `"seq":"3"`)
	petrel(t, s.env(), "send", "--as", "bob", "--to", "alice", "once", "--id", "k1", "--json").want(t, exitOK, `"seq":"3"`)
	petrel(t, s.env(), "send", "--as", "bob", "--to", "alice", "other", "--id", "k1").want(t, exitFailed, "error conflict")
	petrel(t, s.env(), "send", "--as", "bob", "--to", "nobody", "hi").want(t, exitFailed, "error no_user")
	petrel(t, s.env(), "user", "revoke", "bob").want(t, exitOK)
	petrel(t, s.env(), "send", "--as", "bob", "--to", "alice", "hi").want(t, exitAuth, "error no_token")
	s.stop().want(t, exitOK, `{"drained":true,"in_flight":0}`)
}

func TestGroupsAreMadeAndChanged(t *testing.T) {
	s := serveShared(t)
	petrel(t, s.env(), "user", "create", "alice-g", "bob-g", "carol-g").want(t, exitOK)
	made := petrel(t, s.env(), "conv", "create", "--key", "order-1", "--title", "Team", "alice-g", "bob-g:admin")
	made.want(t, exitOK)
	conv := strings.TrimSpace(made.out)
	petrel(t, s.env(), "conv", "create", "--key", "order-1", "alice-g").want(t, exitOK, conv+" (existed already)")
	petrel(t, s.env(), "send", "--as", "carol-g", "--conv", conv, "hi").want(t, exitFailed, "error no_conversation")
	petrel(t, s.env(), "conv", "members", "add", conv, "carol-g").want(t, exitOK, "seq")
	petrel(t, s.env(), "send", "--as", "carol-g", "--conv", conv, "hi").want(t, exitOK)
	petrel(t, s.env(), "tail", "--as", "bob-g", "--conv", conv, "--last", "1", "--count", "1").want(t, exitOK, `"Team"`, "carol-g: hi")
	petrel(t, s.env(), "conv", "members", "remove", conv, "carol-g").want(t, exitOK)
	petrel(t, s.env(), "tail", "--as", "alice-g", "--conv", conv, "--last", "3", "--count", "3").want(t, exitOK, "(added carol-g)", "carol-g: hi", "(removed carol-g)")
	petrel(t, s.env(), "send", "--as", "carol-g", "--conv", conv, "bye").want(t, exitFailed, "error not_member")
}

func TestTailShowsEveryMessageOnceThroughARestart(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	s := serveHere(t, data, freeAddr(t))
	addr, env := s.http, s.env()
	petrel(t, env, "user", "create", "alice", "bob").want(t, exitOK)
	send := func(n int) {
		petrel(t, env, "send", "--as", "bob", "--to", "alice", fmt.Sprintf("message %d", n)).want(t, exitOK, fmt.Sprintf("seq %d ", n))
	}
	send(1)
	const all = 6
	tail := startReader(t, env, "tail", "--as", "alice", "--json", "--last", "10", "--count", fmt.Sprint(all))
	shows := func(n int) {
		t.Helper()
		line := eventually.Receive(t, fmt.Sprint("line ", n), tail.lines)
		var m struct{ Seq, Text string }
		if err := json.Unmarshal([]byte(line), &m); err != nil || m.Seq != fmt.Sprint(n) || m.Text != fmt.Sprintf("message %d", n) {
			t.Errorf("line %d: %s, %v, want message %d", n, line, err, n)
		}
	}
	shows(1) // it is connected
	send(2)
	send(3)
	s.stop()
	serveHere(t, data, addr)
	for n := 4; n <= all; n++ {
		send(n)
	}
	for n := 2; n <= all; n++ {
		shows(n)
	}
	tail.end(exitOK)
	if line, more := <-tail.lines; more {
		t.Errorf("a line after the last message: %s", line)
	}
}

func TestServeSaysWhatStopsIt(t *testing.T) {
	s := serveShared(t)
	petrel(t, nil, "serve", "--data", s.data, "--listen-http", "127.0.0.1:0", "--listen-admin", "127.0.0.1:0").want(t, exitFailed, "locked by", "fix   stop it")
	other := filepath.Join(t.TempDir(), "data")
	petrel(t, nil, "serve", "--data", other, "--listen-http", s.http, "--listen-tcp", "", "--listen-admin", "").want(t, exitFailed, "the address is in use", "fix   ", "--listen-http")
	petrel(t, nil, "serve", "--data", other, "--listen-http", "0.0.0.0:0").want(t, exitConfig, "insecure_plaintext")
}

func TestMetricsAskForTheirToken(t *testing.T) {
	s := serveHere(t, filepath.Join(t.TempDir(), "data"), "127.0.0.1:0", "--metrics-token-file", fileWith(t, "0123456789abcdef\n"))
	get := func(token string) int {
		req, err := http.NewRequest(http.MethodGet, "http://"+s.admin+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		r, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Body.Close() // only the status counts
		return r.StatusCode
	}
	if none, wrong, right := get(""), get("0123456789abcdee"), get("0123456789abcdef"); none != 401 || wrong != 401 || right != 200 {
		t.Errorf("without, with a wrong, with the right token: %d, %d, %d, want 401, 401, 200", none, wrong, right)
	}
}

// TestCommandsOfTheDocumentsExist reads the command lines in the documents that are written by hand.
func TestCommandsOfTheDocumentsExist(t *testing.T) {
	found := 0
	for _, page := range []string{"README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"} {
		b, err := os.ReadFile(filepath.Join("..", "..", page))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			if _, words, ok := strings.Cut(line, "./build/bin/petrel "); ok {
				found++
				words, _, _ = strings.Cut(words, "`") // in a sentence
				checkCommand(t, page, strings.TrimSpace(words))
			}
		}
	}
	if found < 4 {
		t.Errorf("found %d command lines, want at least 4", found)
	}
}

func checkCommand(t *testing.T, page, line string) {
	t.Helper()
	line, _, _ = strings.Cut(line, " #")
	var words []string
	for i, part := range strings.Split(line, `"`) { // every second part is quoted
		if i%2 == 1 {
			words = append(words, part)
		} else {
			words = append(words, strings.Fields(part)...)
		}
	}
	var cmd *cobra.Command
	cmd, rest, err := newRoot(&cli{}).Find(words)
	if err == nil {
		err = cmd.ParseFlags(rest)
	}
	if err == nil {
		err = cmd.ValidateArgs(cmd.Flags().Args())
	}
	if err != nil {
		t.Errorf("%s: %s: %v", page, line, err)
	}
}

func TestADamagedStoreIsRefusedUntilItIsRepaired(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	s := serveHere(t, data, "127.0.0.1:0")
	petrel(t, s.env(), "user", "create", "alice", "bob").want(t, exitOK)
	for n := range 5 {
		petrel(t, s.env(), "send", "--as", "bob", "--to", "alice", fmt.Sprintf("message %d", n+1)).want(t, exitOK)
	}
	s.stop()
	petrel(t, nil, "repair", "--data", data).want(t, exitOK, "the store is sound")

	logs, err := filepath.Glob(filepath.Join(data, "store", "*.log"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("no log file in the store: %v", err)
	}
	last := logs[len(logs)-1]
	i, err := os.Stat(last)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(last, i.Size()*3/4); err != nil {
		t.Fatal(err)
	}
	petrel(t, nil, "serve", "--data", data, "--listen-http", "127.0.0.1:0", "--listen-admin", "127.0.0.1:0").want(t, exitFailed, "error damaged", "petrel repair --data "+data)
	r := petrel(t, nil, "repair", "--data", data)
	r.want(t, exitOK, "found ", "kept       commits up to", "history ")
	s = serveHere(t, data, "127.0.0.1:0")
	petrel(t, s.env(), "send", "--as", "bob", "--to", "alice", "after").want(t, exitOK)
	petrel(t, nil, "repair", "--data", data).want(t, exitFailed, "locked by")
}

func TestFaultsOfFilesSayWhatToDo(t *testing.T) {
	dir := t.TempDir()
	file := fileWith(t, "x")
	free := []string{"--listen-http", "127.0.0.1:0", "--listen-tcp", "127.0.0.1:0", "--listen-admin", "127.0.0.1:0"}
	for _, q := range []struct {
		args []string
		want string
	}{
		{append([]string{"serve", "--data", file}, free...), "fix   choose a folder with --data"},
		{append([]string{"serve", "--data", filepath.Join(dir, "data"), "--store-mark", dir}, free...), "fix   name a file that this user may read in store.mark"},
		{[]string{"restore", "--from", filepath.Join(dir, "nope"), "--data", filepath.Join(dir, "new")}, "fix   name a backup, or a folder of backups"},
	} {
		petrel(t, nil, q.args...).want(t, exitFailed, q.want)
	}
	f := asFault(cannotServe(fmt.Errorf("open data: %w: %w", store.ErrFailed, &os.PathError{Op: "write", Path: "1.sst", Err: syscall.ENOSPC})))
	if f.code != string(im.CodeDiskFull) || !strings.Contains(f.fix, "free some space") {
		t.Errorf("a full disk: %+v", f)
	}
}

func TestDamageThatAStartMeetsIsAFault(t *testing.T) {
	err := cannotServe(fmt.Errorf("read tenants: %w: bad block", store.ErrCorrupt))
	f, ok := errors.AsType[*fault](err)
	if !ok || f.exit != exitFailed || f.code != "damaged" || !strings.Contains(f.fix, "petrel repair") || !strings.Contains(f.why, "bad block") {
		t.Errorf("got %+v", f)
	}
}
