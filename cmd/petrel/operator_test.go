package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// withInput runs one command line with a standard input.
func withInput(t *testing.T, input string, env []string, args ...string) result {
	t.Helper()
	var out, errOut bytes.Buffer
	exit := run(t.Context(), args, env, strings.NewReader(input), &out, &errOut)
	return result{exit, out.String(), errOut.String()}
}

// jsonLines reads what a command with --json printed.
func jsonLines(t *testing.T, r result) []map[string]any {
	t.Helper()
	r.want(t, exitOK)
	var list []map[string]any
	for line := range strings.Lines(r.out) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%v of %s", err, line)
		}
		list = append(list, m)
	}
	return list
}

func TestUsersAreShownLockedOutAndGivenTokens(t *testing.T) {
	s := serveShared(t)
	petrel(t, s.env(), "user", "create", "alice-u", "bob-u").want(t, exitOK)

	minted := jsonLines(t, petrel(t, s.env(), "user", "token", "bob-u", "--device", "phone-1", "--kind", "phone", "--name", "Bob's", "--ttl", "2h", "--json"))[0]
	file := fileWith(t, minted["accessToken"].(string))
	petrel(t, s.env(), "send", "--token-file", file, "--to", "alice-u", "hi").want(t, exitOK)
	if r := petrel(t, s.env(), "user", "token", "bob-u", "--ttl", "721h"); r.exit != exitUsage {
		t.Errorf("a month and an hour: got exit %d", r.exit)
	}
	petrel(t, s.env(), "user", "list").want(t, exitOK, "USER", "alice-u", "bob-u")
	users := jsonLines(t, petrel(t, s.env(), "user", "list", "--json"))
	users = slices.DeleteFunc(users, func(u map[string]any) bool { return !strings.HasSuffix(u["user"].(string), "-u") }) // of other tests
	if len(users) != 2 || users[0]["user"] != "alice-u" || users[1]["user"] != "bob-u" {
		t.Errorf("user list: got %v", users)
	}
	petrel(t, s.env(), "user", "show", "bob-u").want(t, exitOK, "user      bob-u", "phone-1", "Bob's")
	petrel(t, s.env(), "user", "show", "nobody").want(t, exitFailed, "error no_user")
	petrel(t, s.env(), "user", "sessions", "bob-u").want(t, exitOK, "0 sessions of bob-u")
	petrel(t, s.env(), "user", "sessions", "bob-u", "--all").want(t, exitOK, "phone-1", "0 sessions of bob-u")

	petrel(t, s.env(), "user", "revoke", "bob-u", "--device", "phone-1").want(t, exitOK, "bob-u: the tokens of phone-1 ended")
	petrel(t, s.env(), "send", "--token-file", file, "--to", "alice-u", "hi").want(t, exitAuth)
	petrel(t, s.env(), "send", "--as", "bob-u", "--to", "alice-u", "hi").want(t, exitOK) // that one has no device

	petrel(t, s.env(), "user", "disable", "bob-u").want(t, exitOK, "bob-u is locked out")
	if _, err := os.Stat(tokenFile(s.data, "", "bob-u")); err == nil {
		t.Error("the token of a disabled user is still kept")
	}
	petrel(t, s.env(), "user", "list").want(t, exitOK, "disabled")
	petrel(t, s.env(), "user", "enable", "bob-u").want(t, exitOK, "bob-u can log in again")
}

func TestPasswordsComeFromTheInputOnly(t *testing.T) {
	s := serveShared(t)
	petrel(t, s.env(), "user", "create", "alice-p", "bob-p").want(t, exitOK)
	petrel(t, s.env(), "user", "passwd", "alice-p", "swordfish-and-chips").want(t, exitUsage)
	petrel(t, s.env(), "user", "passwd", "alice-p").want(t, exitUsage, "there is no password")
	withInput(t, "short\n", s.env(), "user", "passwd", "alice-p").want(t, exitFailed, "error weak_password")
	withInput(t, "swordfish-and-chips\r\nmore\n", s.env(), "user", "passwd", "alice-p").want(t, exitOK, "alice-p has a new password")
	petrel(t, s.env(), "user", "show", "alice-p").want(t, exitOK, "password  yes")

	withInput(t, "wrong-and-wrong\n", s.env(), "chat", "--as", "alice-p", "--login").want(t, exitAuth, "error bad_credentials")
	withInput(t, "swordfish-and-chips\n/open @bob-p\nhello by password\n", s.env(), "chat", "--as", "alice-p", "--login").want(t, exitOK)
	petrel(t, s.env(), "tail", "--as", "bob-p", "--last", "1", "--count", "1").want(t, exitOK, "alice-p: hello by password")
	withInput(t, "/open @bob-p\nstill logged in\n", s.env(), "chat", "--as", "alice-p").want(t, exitOK)
	petrel(t, s.env(), "tail", "--as", "bob-p", "--last", "1", "--count", "1").want(t, exitOK, "alice-p: still logged in")
	if devices := jsonLines(t, petrel(t, s.env(), "user", "sessions", "alice-p", "--all", "--json")); len(devices) != 1 {
		t.Errorf("two runs of one installation: got devices %v", devices)
	}
}

func TestKeysDoWhatTheirScopesSay(t *testing.T) {
	s := serveShared(t)
	petrel(t, s.env(), "user", "create", "alice-k").want(t, exitOK)
	petrel(t, s.env(), "key", "create", "backend").want(t, exitUsage, "give --scope")
	file := filepath.Join(t.TempDir(), "backend.key")
	made := petrel(t, s.env(), "key", "create", "backend", "--scope", "users,tokens", "--out", file)
	made.want(t, exitOK, "file  "+file)
	if i, err := os.Stat(file); err != nil || i.Mode().Perm() != 0o600 {
		t.Errorf("the key file: got %v, %v, want mode 0600", i, err)
	}
	if key, err := readSecret(file); err != nil || strings.Contains(made.out, key) {
		t.Errorf("the key in %s: %v, or shown all the same: %s", file, err, made.out)
	}
	petrel(t, s.env(), "user", "create", "bob-k", "--admin-key-file", file).want(t, exitOK)
	petrel(t, s.env(), "conv", "list", "alice-k", "--admin-key-file", file).want(t, exitAuth, "error forbidden")
	var id string
	for _, k := range jsonLines(t, petrel(t, s.env(), "key", "list", "--json")) {
		if k["name"] == "backend" {
			id = k["id"].(string)
		}
	}
	petrel(t, s.env(), "key", "list").want(t, exitOK, id, "backend", "tokens,users")
	petrel(t, s.env(), "key", "revoke", id).want(t, exitOK)
	petrel(t, s.env(), "user", "create", "carol-k", "--admin-key-file", file).want(t, exitAuth, "error unauthenticated")
	petrel(t, s.env(), "key", "revoke", id).want(t, exitFailed, "error no_key")
}

func TestGroupsAreListedRenamedAndDissolved(t *testing.T) {
	s := serveShared(t)
	petrel(t, s.env(), "user", "create", "alice-l", "bob-l").want(t, exitOK)
	conv := strings.TrimSpace(petrel(t, s.env(), "conv", "create", "--title", "Team", "alice-l:owner", "bob-l").out)
	petrel(t, s.env(), "conv", "members", conv).want(t, exitOK, "alice-l  owner", "bob-l    member")
	petrel(t, s.env(), "conv", "rename", conv, "海燕 team").want(t, exitOK, "renamed  seq 2")
	petrel(t, s.env(), "conv", "list", "bob-l").want(t, exitOK, conv+"  海燕 team  member  2")
	petrel(t, s.env(), "conv", "dissolve", conv).want(t, exitUsage, "--yes")
	petrel(t, s.env(), "conv", "dissolve", conv, "--yes").want(t, exitOK, "dissolved  seq 3")
	petrel(t, s.env(), "send", "--as", "bob-l", "--conv", conv, "hi").want(t, exitFailed, "error not_member")
	petrel(t, s.env(), "conv", "list", "bob-l").want(t, exitOK, "(left)")
	petrel(t, s.env(), "conv", "history", conv).want(t, exitOK, `#2  (server): title "海燕 team"`, "dissolved")
}

func TestSendAnswersAndForwards(t *testing.T) {
	s := serveShared(t)
	petrel(t, s.env(), "user", "create", "alice-s", "bob-s").want(t, exitOK)
	conv := strings.TrimSpace(petrel(t, s.env(), "conv", "create", "alice-s:owner", "bob-s").out)
	petrel(t, s.env(), "send", "--as", "alice-s", "--conv", conv, "lunch?").want(t, exitOK, "seq 2")
	petrel(t, s.env(), "send", "--as", "bob-s", "--conv", conv, "--reply-to", "2", "yes").want(t, exitOK, "seq 3")
	petrel(t, s.env(), "send", "--as", "bob-s", "--conv", conv, "--forward", conv+":2").want(t, exitOK, "seq 4")
	petrel(t, s.env(), "send", "--as", "bob-s", "--conv", conv, "--thread", "2", "--also-main", "where?").want(t, exitOK, "seq 5")
	petrel(t, s.env(), "send", "--as", "alice-s", "--conv", conv, "--mention", "carol-s,bob-s", "row!").want(t, exitOK, "seq 6")
	petrel(t, s.env(), "send", "--as", "alice-s", "--conv", conv, "--mention-all", "row!").want(t, exitOK, "seq 7")
	petrel(t, s.env(), "send", "--as", "bob-s", "--conv", conv, "--mention-all", "row!").want(t, exitAuth, "error forbidden")
	petrel(t, s.env(), "conv", "history", conv).want(t, exitOK, "answers #2", "forwarded from alice-s", "in the thread of #2", "(mentions bob-s, carol-s) row!", "(mentions everybody) row!")
	petrel(t, s.env(), "send", "--as", "bob-s", "--conv", conv, "--forward", conv+":9").want(t, exitFailed, "error no_target")
	petrel(t, s.env(), "send", "--as", "bob-s", "--conv", conv, "--forward", conv+":2", "look").want(t, exitUsage, "no text")
	petrel(t, s.env(), "send", "--as", "bob-s", "--conv", conv, "--forward", conv).want(t, exitUsage, "names no message")
	petrel(t, s.env(), "send", "--as", "bob-s", "--conv", conv).want(t, exitUsage, "--forward")
}

// TestExportsAreTheHistory seeds a server with the demo.
func TestExportsAreTheHistory(t *testing.T) {
	t.Parallel()
	s := serveHere(t, filepath.Join(t.TempDir(), "data"), "127.0.0.1:0")
	made := petrel(t, s.env(), "demo", "--json")
	made.want(t, exitOK)
	var d struct {
		Convs    []struct{ Conv, Title string }
		Messages int
	}
	if err := json.Unmarshal([]byte(made.out), &d); err != nil || d.Messages < 200 {
		t.Fatalf("demo: %v of %s", err, made.out)
	}
	all := 0
	for _, v := range d.Convs {
		r := petrel(t, s.env(), "conv", "export", v.Conv)
		r.want(t, exitOK, "entries of "+v.Conv)
		whole := slices.Collect(strings.Lines(r.out))
		for i, line := range whole {
			var m petrelv1.Message
			if err := protojson.Unmarshal([]byte(line), &m); err != nil || m.Seq != uint64(i+1) || m.Conv != v.Conv {
				t.Fatalf("%s: line %d is %s (%v)", v.Conv, i+1, line, err)
			}
			if m.GetText() != "" || m.RecalledBy > 0 {
				all++
			}
		}
		rest := petrel(t, s.env(), "conv", "export", v.Conv, "--after", "9", "--json")
		rest.want(t, exitOK)
		if got, want := rest.out, strings.Join(whole[9:], ""); got != want {
			t.Errorf("%s --after 9: got %d bytes, want %d", v.Conv, len(got), len(want))
		}
		history := petrel(t, s.env(), "conv", "history", v.Conv, "--last", "1000", "--json")
		history.want(t, exitOK)
		if history.out != r.out {
			t.Errorf("%s: the history is another than the export", v.Conv)
		}
		tail := petrel(t, s.env(), "conv", "history", v.Conv, "--last", "8", "--json")
		if want := strings.Join(whole[len(whole)-8:], ""); tail.out != want {
			t.Errorf("%s: the last 8 are\n%s, want\n%s", v.Conv, tail.out, want)
		}
	}
	if all != d.Messages {
		t.Errorf("exported %d messages, want %d", all, d.Messages)
	}
	petrel(t, s.env(), "demo").want(t, exitFailed, "error not_empty", "fix   start another one")
	petrel(t, s.env(), "conv", "list", "alice").want(t, exitOK, "Weekend boat trip", "@carol")
}

func TestLongConversationsAreReadByPages(t *testing.T) {
	s := serveShared(t)
	petrel(t, s.env(), "user", "create", "alice-h", "bob-h").want(t, exitOK)
	c := &cli{env: s.env()}
	api, err := c.admin(t.Context(), target{url: "http://" + s.http, admin: "http://" + s.admin, data: s.data})
	if err != nil {
		t.Fatal(err)
	}
	const all = 2*maxPageEntries + 50
	var conv atomic.Value
	var sending errgroup.Group
	sending.SetLimit(64)
	for i := range all {
		sending.Go(func() error {
			m := &petrelv1.Send{User: "bob-h", ClientMsgId: fmt.Sprint(i), Body: &petrelv1.Send_Text{Text: fmt.Sprint("text ", i)}}
			r, err := call(t.Context(), api, "send", api.SendAs, &petrelv1.SendAsRequest{From: "alice-h", Send: m})
			if err == nil {
				conv.Store(r.Conv)
			}
			return err
		})
	}
	if err := sending.Wait(); err != nil {
		t.Fatal(err)
	}
	id := conv.Load().(string)
	whole := jsonLines(t, petrel(t, s.env(), "conv", "export", id))
	if len(whole) != all {
		t.Errorf("exported %d entries, want %d", len(whole), all)
	}
	for i, m := range whole {
		if m["seq"] != fmt.Sprint(i+1) {
			t.Fatalf("line %d has seq %v", i+1, m["seq"])
		}
	}
	for line, want := range map[string][2]int{ // first and last seq
		"export " + id + " --after 123":                        {124, all},
		"history " + id + " --last 300":                        {all - 299, all},
		"history " + id + " --after 100 --last 250":            {101, 350},
		"history " + id + " --before 301 --last 250":           {51, 300},
		"history " + id + " --after 10 --before 21 --last 300": {11, 20},
	} {
		list := jsonLines(t, petrel(t, s.env(), append([]string{"conv", "--json"}, strings.Fields(line)...)...))
		if n := want[1] - want[0] + 1; len(list) != n || list[0]["seq"] != fmt.Sprint(want[0]) || list[n-1]["seq"] != fmt.Sprint(want[1]) {
			t.Errorf("conv %s: got %d entries, want %d to %d", line, len(list), want[0], want[1])
		}
	}
}

func TestDemoIsForAnEmptyServerOfThisHost(t *testing.T) {
	s := serveHere(t, filepath.Join(t.TempDir(), "data"), "127.0.0.1:0")
	petrel(t, s.env(), "demo", "--server", "https://chat.example.org").want(t, exitFailed, "error not_loopback")
	petrel(t, s.env(), "demo", "--server", "http://192.0.2.1:8080").want(t, exitFailed, "error not_loopback")
	petrel(t, s.env(), "user", "create", "dave").want(t, exitOK)
	petrel(t, s.env(), "demo").want(t, exitFailed, "error not_empty", "dave")
	petrel(t, s.env(), "user", "show", "alice").want(t, exitFailed, "error no_user")
}

// TestCommandsOfTheDemoWork runs what the demo prints, in an environment that names no server.
func TestCommandsOfTheDemoWork(t *testing.T) {
	t.Parallel()
	s := serveHere(t, filepath.Join(t.TempDir(), "data of ours"), "127.0.0.1:0")
	made := petrel(t, nil, "demo", "--data", s.data)
	made.want(t, exitOK)
	commands := 0
	for line := range strings.Lines(made.out) {
		words, ok := strings.CutPrefix(strings.TrimSpace(line), "petrel chat ")
		if !ok {
			continue
		}
		commands++
		as, rest, _ := strings.Cut(strings.TrimPrefix(words, "--as "), " ")
		if want := "--data '" + s.data + "'"; rest != want {
			t.Errorf("%q: got %s, want %s", line, rest, want)
		}
		petrel(t, nil, "chat", "--as", as, "--data", s.data).want(t, exitOK)
	}
	if commands != 2 {
		t.Errorf("the demo prints %d commands, want 2:\n%s", commands, made.out)
	}
}

func TestDemoTextIsWellFormed(t *testing.T) {
	for _, bad := range []string{"alice: hi", "= group x | y", "= direct a b\nhello"} {
		if _, err := parseDemo(bad); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
	convs, err := parseDemo(demoText)
	if err != nil || len(convs) < 5 {
		t.Fatalf("got %d conversations, %v", len(convs), err)
	}
}

// talker is a command line that runs, as `petrel chat`.
type talker struct {
	t     *testing.T
	in    *io.PipeWriter
	lines chan string // what it wrote; closed at its end
	heard strings.Builder
	err   *bytes.Buffer
	done  chan int
}

func startChat(t *testing.T, env []string, args ...string) *talker {
	t.Helper()
	return startReader(t, env, append([]string{"chat"}, args...)...)
}

// startReader runs a command line whose lines a test reads as they come.
func startReader(t *testing.T, env []string, args ...string) *talker {
	t.Helper()
	in, w := io.Pipe()
	r, out := io.Pipe()
	p := &talker{t: t, in: w, lines: make(chan string, 1000), err: new(bytes.Buffer), done: make(chan int, 1)} // more lines than a test has
	go func() {
		code := run(t.Context(), args, env, in, out, p.err)
		_ = out.Close() // never fails
		p.done <- code
	}()
	go func() {
		defer close(p.lines)
		for s := bufio.NewScanner(r); s.Scan(); {
			p.lines <- s.Text()
		}
	}()
	t.Cleanup(func() { _ = w.Close() })
	return p
}

func (p *talker) say(line string) {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		p.t.Error(err)
	}
}

// hears waits for a line that matches, and returns it.
func (p *talker) hears(pattern string) (line string) {
	p.t.Helper()
	want := regexp.MustCompile(pattern)
	ended := false
	heard := eventually.Holds(func() bool {
		for {
			select {
			case next, ok := <-p.lines:
				if ended = !ok; ended {
					return true
				}
				fmt.Fprintln(&p.heard, next)
				if line = next; want.MatchString(line) {
					return true
				}
			default:
				return false
			}
		}
	})
	if ended || !heard {
		p.t.Fatalf("no line matches %s:\n%s", pattern, &p.heard)
	}
	return line
}

func (p *talker) end(exit int) {
	p.t.Helper()
	_ = p.in.Close() // never fails
	if code := eventually.Receive(p.t, "the end of the command", p.done); code != exit {
		p.t.Errorf("exit %d, want %d: %s", code, exit, p.err)
	}
}

func TestTwoTalkByLines(t *testing.T) {
	s := serveShared(t)
	petrel(t, s.env(), "user", "create", "alice-t", "bob-t").want(t, exitOK)
	alice := startChat(t, s.env(), "--as", "alice-t", "--to", "bob-t")
	alice.say("你好 bob-t")
	alice.hears(`@bob-t #1  alice-t: 你好 bob-t`)
	bob := startChat(t, s.env(), "--as", "bob-t", "--last", "9")
	bob.say("/list")
	bob.hears(`^  1  @alice-t  1 unread$`)
	bob.say("/open 1")
	bob.hears(`@alice-t #1  alice-t: 你好 bob-t`)
	bob.say("/list")
	bob.hears(`^  1  @alice-t  0 unread$`)
	bob.say("/reply 1 hi alice-t")
	alice.hears(`@bob-t #2  bob-t: \(answers #1\) hi alice-t`)
	bob.hears(`#2`)
	bob.say("/edit 2 hello alice-t")
	alice.hears(`#3  bob-t: \(edited #2\) hello alice-t`)
	alice.say("//slash")
	bob.hears(`@alice-t #4  alice-t: /slash`)
	alice.hears(`#4`)
	alice.say("/recall 4")
	bob.hears(`#5  alice-t: \(recalled #4\)`)
	bob.say("/react 1 👍")
	bob.say("/open @alice-t")
	bob.hears(`^ +👍 1$`)
	bob.say("/unreact 1 👍")
	conv := strings.TrimSpace(petrel(t, s.env(), "conv", "create", "--title", "Boat ⛵", "alice-t:owner", "bob-t").out)
	bob.hears(`"Boat ⛵" #1 `)
	bob.say("/open boat")
	bob.say("aye")
	alice.hears(`"Boat ⛵" #2  bob-t: aye`)
	bob.hears(`#2`)
	alice.end(exitOK)
	petrel(t, s.env(), "conv", "members", "remove", conv, "bob-t").want(t, exitOK)
	bob.hears(`removed bob-t`)
	for _, line := range []string{"still there?", "/edit aye", "/open Nowhere", "/dance"} {
		bob.say(line)
	}
	bob.end(exitFailed)
	for _, why := range []string{"not sent: still there?", "/edit needs the number", `no conversation "Nowhere"`, "no command /dance", "lines that failed: 4"} {
		if !strings.Contains(bob.err.String(), why) {
			t.Errorf("bob-t's errors do not say %q: %s", why, bob.err)
		}
	}
}

// TestChatReadsOlderMessages: a client holds the newest messages only, and asks for older ones.
func TestChatReadsOlderMessages(t *testing.T) {
	s := serveShared(t)
	petrel(t, s.env(), "user", "create", "alice-o", "bob-o").want(t, exitOK)
	lines := ""
	for i := range 50 {
		lines += fmt.Sprintf("text %d\n", i+1)
	}
	withInput(t, lines, s.env(), "chat", "--as", "alice-o", "--to", "bob-o").want(t, exitOK)
	r := withInput(t, "/history\n/history\n", s.env(), "chat", "--as", "bob-o", "--to", "alice-o", "--last", "5")
	r.want(t, exitOK)
	shown := map[string]int{}
	for line := range strings.Lines(r.out) {
		_, text, _ := strings.Cut(strings.TrimSpace(line), "alice-o: ")
		shown[text]++
	}
	for i := 5; i < 50; i++ { // 5, and twice 20
		if text := fmt.Sprint("text ", i+1); shown[text] != 1 {
			t.Errorf("%s is printed %d times", text, shown[text])
		}
	}
	if len(shown) != 45 {
		t.Errorf("got %d texts, want 45", len(shown))
	}
}

func TestWhatIsWrittenWhileTheServerIsAwayIsSentLater(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	s := serveHere(t, data, freeAddr(t))
	addr, env := s.http, s.env()
	petrel(t, env, "user", "create", "alice", "bob").want(t, exitOK)
	alice := startChat(t, env, "--as", "alice", "--to", "bob")
	alice.say("one")
	alice.hears(`alice: one`)
	s.stop()
	alice.say("two")
	alice.say("three")
	serveHere(t, data, addr)
	alice.hears(`#2  alice: two`)
	alice.hears(`#3  alice: three`)
	alice.end(exitOK)
	petrel(t, env, "tail", "--as", "bob", "--last", "9", "--count", "3").want(t, exitOK, "#1  alice: one", "#2  alice: two", "#3  alice: three")
}
