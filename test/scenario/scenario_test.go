// Package scenario runs the conversations written down in the .txt files of
// this folder against whole servers: one on the embedded store, one on PostgreSQL,
// and three that share a PostgreSQL. Their clients connect in both codecs, over
// WebSocket, TCP, and WebSocket with TLS. README.md has the language of the files.
package scenario

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/petrel-im/petrel/internal/imtest"
	"github.com/petrel-im/petrel/internal/wire"
)

var update = flag.Bool("update", false, "write what is observed over the expected lines")

// A server that has ended leaves no goroutine behind, and neither does a client.
// Those that imports start are there before the first test.
func TestMain(m *testing.M) {
	imtest.ServeChild()
	flag.Parse()
	if chosen != "" && chosen != theRest && chosen != allOf {
		panic("PETREL_SCENARIOS=" + chosen + ": want " + theRest + " or " + allOf)
	}
	if err := flag.Set("test.parallel", strconv.Itoa(playedAtOnce())); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(tests{m}, goleak.IgnoreCurrent())
}

// playedAtOnce is how many runs there are at a time: they wait for their servers
// more than they work. Under the race detector they work.
func playedAtOnce() int {
	if raced {
		return 4
	}
	return 8
}

// tests end the PostgreSQL that they used, and say what they ran.
type tests struct{ m *testing.M }

func (t tests) Run() int {
	code := t.m.Run()
	if postgres.server != nil {
		postgres.server.Remove()
	}
	fmt.Print(played.summary())
	return code
}

// way is how the clients of a run connect.
type way struct {
	name    string
	framing wire.Framing
	codec   wire.Codec
	tls     bool
}

var ways = []way{
	{"WebSocketProto", wire.WebSocket, wire.Proto, false},
	{"WebSocketJSON", wire.WebSocket, wire.JSON, false},
	{"TCPProto", wire.TCP, wire.Proto, false},
	{"TCPJSON", wire.TCP, wire.JSON, false},
	{"TLSProto", wire.WebSocket, wire.Proto, true},
	{"TLSJSON", wire.WebSocket, wire.JSON, true},
}

// file is a scenario.
type file struct {
	name  string // with .txt
	lines []line
}

func readFiles(t *testing.T) []file {
	t.Helper()
	names, err := filepath.Glob("*.txt")
	if err != nil || len(names) == 0 {
		t.Fatalf("found no scenarios: %v", err)
	}
	var files []file
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := parseFile(string(text), chosen == allOf)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		files = append(files, file{name, lines})
	}
	return files
}

func TestScenarios(t *testing.T) {
	servers := &shared{t: t, of: map[serverKind]*servers{}}
	watching := make(chan struct{})
	ctx, stop := context.WithCancel(context.Background())
	go func() { defer close(watching); servers.machine.Watch(ctx) }()
	t.Cleanup(func() {
		stop()
		<-watching
		if n := servers.machine.anew; n > 0 {
			fmt.Printf("scenarios that were played anew, because the machine stood still: %d\n", n)
		}
	})
	t.Cleanup(func() { promised.judge(t) })
	for _, f := range readFiles(t) {
		t.Run(strings.TrimSuffix(f.name, ".txt"), func(t *testing.T) {
			if *update && !has(f.lines, "by hand") {
				w := newWorld(t, servers, f.name, combinations[0], ways[0], f.lines)
				if err := os.WriteFile(f.name, []byte(w.rewrite(f.lines)), 0o644); err != nil { // of one node: a file with "cluster" is by hand
					t.Fatal(err)
				}
				w.audit()
				return
			}
			t.Parallel() // with other files: much of the time is waiting
			for _, c := range combinations {
				for _, way := range c.chosenWays(f) {
					t.Run(c.name+"/"+way.name, func(t *testing.T) {
						if racedBy(f.lines) == "" { // one of the large files keeps the machine busy by itself
							t.Parallel()
						}
						if c.postgres {
							a := servers.machine.steadily(t, func(t testing.TB) { servers.run(t, f, c, way) })
							a.end()
							a.report()
						} else {
							servers.run(t, f, c, way)
						}
						played.note(c, f, way)
					})
				}
			}
		})
	}
}

// run plays a file once, and audits what it left.
func (s *shared) run(t testing.TB, f file, c combination, way way) {
	w := newWorld(t, s, f.name, c, way, f.lines)
	w.play(f.lines)
	w.audit()
}

// waysOf is in which ways a file is run: all, or those of its line "ways …".
func waysOf(lines []line) []way {
	for _, l := range lines {
		if only, ok := strings.CutPrefix(l.text, "ways "); ok && l.kind == directive {
			return slices.DeleteFunc(slices.Clone(ways), func(w way) bool { return !slices.Contains(strings.Fields(only), w.name) })
		}
	}
	return ways
}

// newWorld takes part in shared servers of a combination, or starts some of its
// own, as the "server" lines ask for.
func newWorld(t testing.TB, together *shared, file string, c combination, way way, lines []line) *world {
	w := &world{
		t: t, file: file, way: way, ledger: newLedger(), machine: &together.machine, stood: together.machine.Stood(),
		tenants: map[string]*tenant{}, names: map[string]place{}, directs: map[place]string{}, sessions: map[string]*session{},
	}
	if needsOwnServers(lines) {
		w.nodes, w.database = c.start(t, imtest.Options{TLS: way.tls, Config: configOf(t, lines), Process: needsCluster(lines)})
	} else {
		var of servers
		of, w.guest = together.join(t, c, way.tls)
		w.nodes, w.database = of.nodes, of.database
		if c.nodes > 1 { // the machine may have stood still before
			imtest.WaitSettled(of.nodes)
		}
	}
	w.http = &http.Client{Transport: &http.Transport{TLSClientConfig: w.nodes[0].TLS()}}
	t.Cleanup(func() {
		for _, s := range w.sessions {
			s.close()
		}
		w.http.CloseIdleConnections()
	})
	return w
}

// configOf is what the "server" lines say.
func configOf(t testing.TB, lines []line) map[string]string {
	config := map[string]string{}
	for _, l := range lines {
		rest, ok := strings.CutPrefix(l.text, "server ")
		if l.kind != directive || !ok {
			continue
		}
		for _, f := range strings.Fields(rest) {
			key, value, _ := strings.Cut(f, "=")
			config[key] = value
		}
	}
	if config["jwt.algorithm"] == "HS256" {
		config["jwt.key_file"] = filepath.Join(t.TempDir(), "jwt-secret")
		if err := os.WriteFile(config["jwt.key_file"], []byte(jwtSecret), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return config
}

// play runs the lines and compares what every session gets with what stands
// there, in its order.
func (w *world) play(lines []line) {
	for _, l := range lines {
		w.line = l.no
		switch l.kind {
		case directive, command:
			w.execute(l)
		case expected:
			for n := l.from; n <= l.to; n++ {
				w.expect(l.actor, expand(l.text, n))
			}
		}
	}
	for _, name := range w.order {
		w.expectSilence(w.sessions[name])
	}
}

// belowMark is on entries below a head that the session knew, or that any session
// knew when this one connected: they are expected, or passed over.
const belowMark = "below the head: "

// withoutRepeats drops what a session may be told at any time.
func (s *session) withoutRepeats(lines []string) []string {
	return slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, belowMark) || l == "lagged" && s.lags() })
}

// lossMark is on lines that "..." does not pass over, unless it is for one.
var lossMark = regexp.MustCompile(`^(lagged|kicked|closed|gone)`)

var anyNumber = regexp.MustCompile(`\bseq=[\d*]+`)

// endedMark is on answers that count the sessions that were ended.
var endedMark = regexp.MustCompile(`^ok sessions=\d$`)

var withinMark = regexp.MustCompile(`^within (\S+): `)

// expect takes the next line of a session and compares. "... X" passes over
// what comes before X.
func (w *world) expect(actor, want string) {
	s := w.session(actor)
	if m := withinMark.FindStringSubmatch(want); m != nil {
		d, err := time.ParseDuration(m[1])
		if err != nil {
			w.fatalf("within %s: %v", m[1], err)
		}
		defer promised.begin(d)()
		want = want[len(m[0]):]
	}
	want, skip := strings.CutPrefix(want, "... ")
	if w.way.framing == wire.TCP {
		want = closeMark.ReplaceAllString(want, "")
	}
	for {
		got, below := strings.CutPrefix(s.next(s.paceOf(want), want), belowMark)
		if got == "lagged" && s.lags() && !lossMark.MatchString(want) {
			s.recover()
			continue
		}
		if got == "lagged" && s.lags() && strings.HasPrefix(want, "kicked") {
			continue // the same while all nodes stop: there is no time to sync before the kick
		}
		if got == want || strings.Contains(want, "seq=*") && anyNumber.ReplaceAllString(got, "seq=*") == anyNumber.ReplaceAllString(want, "seq=*") {
			return
		}
		if len(w.nodes) > 1 && endedMark.MatchString(want) && endedMark.MatchString(got) && got < want {
			return // a node that hears of the revocation first ends its sessions by itself, and does not count them
		}
		if len(w.nodes) > 1 && strings.HasPrefix(want, "ack ") && strings.HasPrefix(got, "message ") && strings.Contains(got, " from="+s.user.name+" ") {
			continue // a new owner pushes what the last one stored, also to the session that still waits for the ack
		}
		if code, ok := strings.CutPrefix(want, "gone "); ok && (strings.HasPrefix(got, "kicked "+code) || strings.HasPrefix(got, "closed")) {
			return // the kick can get lost with the connection (P-1.6)
		}
		if below {
			continue
		}
		if !skip || lossMark.MatchString(got) && !lossMark.MatchString(want) {
			w.fatalf("%s\n got: %.300s\nwant: %.300s", actor, got, want)
		}
	}
}

// expectSilence makes sure that nothing more is on its way to s.
func (w *world) expectSilence(s *session) {
	w.t.Helper()
	if s.live() {
		s.barrier()
	}
	s.render()
	for p, lines := range s.lines {
		lines = s.withoutRepeats(lines)
		s.lines[p] = lines
		if len(lines) > 0 && p != "inbox" {
			w.fatalf("%s got what nobody expected: %q (%d lines)", s.name, lines[0], len(lines))
		}
	}
}

// keptMark is on lines that say more than what was observed, as countMark is.
var keptMark = regexp.MustCompile(`^(\.\.\. |within |inbox )|seq=\*`)

// rewrite runs the lines and returns the file with what was observed. Lines
// with keptMark or countMark are kept and checked.
func (w *world) rewrite(lines []line) string {
	var out []string
	for i := 0; i < len(lines); i++ {
		l := lines[i]
		w.line = l.no
		if l.kind == expected {
			w.fatalf("expects something before anything was done")
		}
		out = append(out, l.raw)
		if l.kind == blank {
			continue
		}
		w.execute(l)
		for i+1 < len(lines) && lines[i+1].kind == expected {
			i++
			if e := lines[i]; keptMark.MatchString(e.text) || countMark.MatchString(e.raw) {
				w.line = e.no
				for n := e.from; n <= e.to; n++ {
					w.expect(e.actor, expand(e.text, n))
				}
				out = append(out, e.raw)
			}
		}
		w.settle()
		for _, name := range w.order {
			if s := w.sessions[name]; s.reading() { // a session that holds back gets its lines later, and their number is chance
				s.render()
				for _, p := range paces[:len(paces)-1] {
					out = append(out, fold(name, s.lines[p])...)
					s.lines[p] = nil
				}
			}
		}
	}
	return strings.Join(out, "\n") + "\n"
}

// settle waits until every answer and every event of what was done is there.
func (w *world) settle() {
	for range 3 { // an event can follow the answer that another session waited for
		for _, name := range w.order {
			s := w.sessions[name]
			if s.conn != nil && s.asked && !s.greeted {
				s.waitGreeted()
			}
			if s.live() {
				s.waitAnswered()
				s.barrier()
			}
		}
	}
}
