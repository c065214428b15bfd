package foreign_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/petrel-im/petrel/internal/imtest/eventually"
)

const (
	sketchMessages = 60 // of each client to each of the two conversations
	sketchCuts     = 12 // of connections, before they last
	cutsAtRestart  = 4  // of these, when the server is killed
)

// The client of proto/README.md as it stands there, in Python, and its twin in Java write to
// each other in a direct conversation and in a group. Their connections are cut after random
// numbers of bytes, the server refuses sends because of its limits, and it is killed and
// started again. Each message is stored once, those of a sender in the order in which they
// were written, and each side shows exactly what is stored. PETREL_SEEDS is the number of runs,
// 1 by itself; PETREL_SEED repeats one. Spec: P-4.3, P-4.7, P-4.8, P-6.7.
func TestTheClientOfThePageLosesNothing(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	python, jars := filepath.Join(root, "build/venv/bin/python"), filepath.Join(root, "build/java/*")
	needs(t, python, "make build/venv/.installed")
	needs(t, filepath.Dir(jars), "make build/java/.installed")
	dir := t.TempDir()
	sketch := filepath.Join(root, "test/foreign/sketch")
	if err := os.WriteFile(filepath.Join(dir, "client.py"), sketchOf(t, filepath.Join(root, "proto/README.md")), 0o600); err != nil {
		t.Fatal(err)
	}
	javac := exec.CommandContext(t.Context(), "javac", "-J"+quick[0], "-J"+quick[1], "-Xlint:all,-serial", "-Werror", "-proc:none", "-d", dir, "-cp", jars,
		filepath.Join(root, "proto/example/Client.java"), filepath.Join(sketch, "Drive.java"))
	if out, err := javac.CombinedOutput(); err != nil {
		t.Fatalf("javac: %v\n%s", err, out)
	}
	programs := map[string][]string{
		"alice": {python, filepath.Join(sketch, "drive.py")},
		"bob":   {"java", quick[0], quick[1], "-cp", dir + ":" + jars, "Drive"},
	}
	env := append(os.Environ(), "PYTHONPATH="+dir, "PYTHONDONTWRITEBYTECODE=1")

	runs, err := strconv.Atoi(cmp.Or(os.Getenv("PETREL_SEEDS"), "1"))
	if err != nil {
		t.Fatal(err)
	}
	for range runs {
		seed := rand.Uint64()
		if s := os.Getenv("PETREL_SEED"); s != "" {
			if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
				t.Fatal(err)
			}
		}
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			playSketch(t, seed, programs, env)
		})
	}
}

// sketchOf is the program on the page.
func sketchOf(t *testing.T, page string) []byte {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?s)\n## A client in .*?\n```python\n(.*?)\n```\n").FindSubmatch(text)
	if m == nil {
		t.Fatalf("%s has no client in Python", page)
	}
	return m[1]
}

// entry is a message, as the API and the programs show it.
type entry struct {
	Conv, Seq, From, ClientMsgID string
	Text                         *string // nil: of an entry that is no text
}

func (e entry) String() string { return fmt.Sprintf("%s:%s %q", e.Seq, e.From, *e.Text) }

func playSketch(t *testing.T, seed uint64, programs map[string][]string, env []string) {
	srv := startServer(t, "PETREL_LIMITS__SENDS_PER_S=3", "PETREL_LIMITS__SEND_BURST=1") // a slow machine sends more, too
	tokens := srv.readTokens(t)
	var group struct{ Conv string }
	srv.call(t, "AdminService/CreateGroup", map[string]any{"title": "boat", "members": []any{map[string]any{"user": "alice"}, map[string]any{"user": "bob"}}}, &group)
	relay := newCutter(t, srv.http, seed)

	type result struct {
		user   string
		Shown  []entry
		Failed []json.RawMessage
		err    error
	}
	results := make(chan result, len(programs))
	for user, args := range programs {
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Env = append(slices.Clone(env), "PETREL_URL=ws://"+relay.addr+"/v1/ws", "TOKEN="+tokens[user], "ME="+user, "GROUP="+group.Conv,
			"PEER="+map[string]string{"alice": "bob", "bob": "alice"}[user], "STORE="+filepath.Join(t.TempDir(), user), "MESSAGES="+strconv.Itoa(sketchMessages))
		var log bytes.Buffer
		cmd.Stderr = &log
		go func() {
			r := result{user: user}
			out, err := cmd.Output()
			if err == nil {
				err = json.Unmarshal(out, &r)
			}
			if err != nil {
				r.err = fmt.Errorf("%w\n%s\n%s", err, lastLines(log.Bytes(), 60), lastLines(out, 3))
			}
			results <- r
		}()
	}

	eventually.True(t, "enough connections are cut", func() bool { return relay.cuts() >= cutsAtRestart })
	eventually.True(t, "a send is rate_limited", func() bool { return srv.refusals(t, "rate_limited") > 0 })
	_ = srv.end(syscall.SIGKILL) // that is how it ends
	srv.env = append(srv.env, "PETREL_LIMITS__SENDS_PER_S=40", "PETREL_LIMITS__SEND_BURST=5")
	srv.start(t)

	shown := map[string][]entry{}
	for range programs {
		var r result
		ended := func() bool {
			select {
			case r = <-results:
				return true
			default:
				return false
			}
		}
		for waits := 0; !eventually.Holds(ended); waits++ { // these clients wait for up to 30 s before they try a server again
			if waits == 5 {
				t.Fatalf("the clients have not sent and received everything, but for %v", slices.Collect(maps.Keys(shown)))
			}
		}
		if r.err != nil || len(r.Failed) > 0 {
			t.Fatalf("%s: %v, not sent: %s", r.user, r.err, r.Failed)
		}
		shown[r.user] = r.Shown
	}
	convs := []string{group.Conv}
	for _, e := range shown["alice"] {
		if !slices.Contains(convs, e.Conv) {
			convs = append(convs, e.Conv)
		}
	}
	if len(convs) != 2 {
		t.Fatalf("alice has the conversations %v", convs)
	}
	for _, conv := range convs {
		stored := srv.texts(t, conv)
		for user := range programs {
			if got := textsOf(shown[user], conv); !slices.EqualFunc(got, stored, func(a, b entry) bool { return a.String() == b.String() }) {
				t.Errorf("%s has shown of %s %v, want %v", user, conv, got, stored)
			}
			var got, want []string
			for _, e := range stored {
				if e.From == user {
					got = append(got, *e.Text)
				}
			}
			for i := range sketchMessages {
				want = append(want, fmt.Sprintf("%s %d", user, i))
			}
			if !slices.Equal(got, want) {
				t.Errorf("of %s is stored in %s %v, want %v", user, conv, got, want)
			}
		}
	}
	t.Logf("%d connections were cut", relay.cuts())
}

// textsOf are the texts of one conversation, in the order of all.
func textsOf(all []entry, conv string) (of []entry) {
	for _, e := range all {
		if e.Conv == conv && e.Text != nil {
			of = append(of, e)
		}
	}
	return of
}

// texts are the texts of a conversation as the server has them.
func (s *server) texts(t *testing.T, conv string) []entry {
	t.Helper()
	var all []entry
	after := "0"
	for {
		var page struct {
			Messages []entry
			More     bool
		}
		s.call(t, "AdminService/GetHistory", map[string]any{"reason": "test", "history": map[string]any{"conv": conv, "after": after}}, &page)
		all = append(all, page.Messages...)
		if !page.More {
			return textsOf(all, conv)
		}
		after = page.Messages[len(page.Messages)-1].Seq
	}
}

// refusals are how many requests the server has refused with code since it was started.
func (s *server) refusals(t *testing.T, code string) (n float64) {
	t.Helper()
	res, err := http.Get("http://" + s.admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }() // read to its end
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("metrics: %s, %v", res.Status, err)
	}
	for _, m := range regexp.MustCompile(`(?m)^petrel_refusals_total\{.*code="`+code+`".*\} (\S+)$`).FindAllStringSubmatch(string(text), -1) {
		v, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		n += v
	}
	return n
}

// readTokens are the tokens by user.
func (s *server) readTokens(t *testing.T) (tokens map[string]string) {
	t.Helper()
	text, err := os.ReadFile(s.tokens)
	if err == nil {
		err = json.Unmarshal(text, &tokens)
	}
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

// cutter passes connections on to a server. It cuts the first sketchCuts of them, each after a
// random number of bytes in one direction, so also in the middle of a frame. It ends with the test.
type cutter struct {
	addr string // host:port, where clients connect
	to   string

	mu     sync.Mutex // guards the fields below
	random *rand.Rand
	cut    int
	open   []net.Conn
}

func newCutter(t *testing.T, to string, seed uint64) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{addr: l.Addr().String(), to: to, random: rand.New(rand.NewPCG(seed, 0))}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // it is closed
			}
			running.Go(func() { c.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close() // nobody connects any more
		c.mu.Lock()
		for _, conn := range c.open {
			_ = conn.Close() // the same
		}
		c.mu.Unlock()
		running.Wait()
	})
	return c
}

func (c *cutter) cuts() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cut
}

func (c *cutter) serve(client net.Conn) {
	server, err := net.Dial("tcp", c.to)
	if err != nil {
		_ = client.Close() // the server is away
		return
	}
	c.mu.Lock()
	c.open = append(c.open, client, server)
	p := &passing{cutter: c, left: 100 + c.random.IntN(5_000)} // from a part of the upgrade to some fifty frames
	counted := server                                          // most cuts are among answers: the request is done, and the client does not know it
	if c.random.IntN(4) == 0 {
		counted = client
	}
	c.mu.Unlock()
	var back sync.WaitGroup
	back.Go(func() { p.carry(client, server, counted == server) })
	p.carry(server, client, counted == client)
	back.Wait()
}

// passing is one connection of a client, and that to the server.
type passing struct {
	cutter *cutter
	left   int // bytes in the direction that is counted, until it is cut; below 0: it is not, because enough were
}

// carry passes bytes on in one direction until one of the connections ends, and ends both.
// In the direction that is counted it may cut them.
func (p *passing) carry(to, from net.Conn, counted bool) {
	defer func() { _, _ = to.Close(), from.Close() }() // the end of one is that of the other
	b := make([]byte, 4096)
	for {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		part, cut := n, false
		if counted {
			part, cut = p.take(n)
		}
		if _, err := to.Write(b[:part]); err != nil || cut {
			return
		}
	}
}

// take counts n bytes, and returns how many of them still pass, and whether the connection is cut then.
func (p *passing) take(n int) (part int, cut bool) {
	if n < p.left || p.left < 0 || !p.cutter.another() {
		p.left -= n
		return n, false
	}
	return p.left, true
}

// another counts a cut, and returns false if there were enough.
func (c *cutter) another() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut == sketchCuts {
		return false
	}
	c.cut++
	return true
}
