// Package bench_test runs scenarios of petrel bench as a user does, each with its server
// and nodes in processes of their own. The race detector watches the generator in
// the tests of package bench, and the command in those of cmd/petrel.
package bench_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/petrel-im/petrel/bench"
	"github.com/petrel-im/petrel/internal/imtest/proctest"
	"github.com/petrel-im/petrel/internal/store/pgtest"
)

// TestMain has more tests run at a time than there are cores: most of a run is a wait for
// servers that come to rest.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	pgtest.Main(m)
}

// usage is the exit code of a wrong command line in docs/reference.
const usage = 2

// result is what one command line did.
type result struct {
	exit     int
	out, err string
}

// petrel runs one command line in an empty folder of its own.
func petrel(t *testing.T, args ...string) result {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), proctest.Program(t), args...)
	var out, errOut bytes.Buffer
	cmd.Dir = t.TempDir()
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errOut.String()}
}

func (r result) want(t *testing.T, exit int, parts ...string) {
	t.Helper()
	if r.exit != exit {
		t.Errorf("exit %d, want %d\nout: %s\nerr: %s", r.exit, exit, r.out, r.err)
	}
	r.says(t, parts...)
}

// says looks at what a run says and not at its exit code, which of an open loop also judges
// whether this machine keeps up with the schedule.
func (r result) says(t *testing.T, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(r.out+r.err, p) {
			t.Errorf("output does not say %q\nout: %s\nerr: %s", p, r.out, r.err)
		}
	}
}

// validate holds a report to the schema that is published.
func validate(t *testing.T, report []byte) {
	t.Helper()
	schema, err := jsonschema.NewCompiler().Compile("../../docs/reference/bench-report.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(report))
	if err == nil {
		err = schema.Validate(v)
	}
	if err != nil {
		t.Errorf("the report breaks its schema: %v", err)
	}
}

func TestDoesPublishedTestsAtAScale(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "report.json")
	petrel(t, "bench", "direct", "--shape", "wildfire", "--scale", "0.00005", "--senders", "3", "--dir", t.TempDir(), "--json", name).
		want(t, 0, "scale       0.005 %", "published   WildfireChat", "check       met")
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	validate(t, b)
	var report struct {
		Params struct{ Senders, Receivers, Rounds int }
	}
	if err := json.Unmarshal(b, &report); err != nil || report.Params.Senders != 3 || report.Params.Receivers != 3 || report.Params.Rounds != 1 {
		t.Errorf("%v of %+v", err, report) // the flag as it is, the rest scaled
	}
	for _, line := range [][]string{{"bench", "direct", "--shape", "round"}, {"bench", "glide-1", "--scale", "0"}, {"bench", "glide-2", "--interval", "9,5"}, {"bench", "quick", "--scale", "-1"}} {
		petrel(t, line...).want(t, usage, "error usage")
	}
}

// The folder is relative: servers run in folders of their own and find their certificates all the same.
func TestSpeaksTLS(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"wss", "tls"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			petrel(t, "bench", "openim-load", "--scale", "0.01", "--clients", "10", "--peers", "2", "--messages", "50", "--interval", "20,40", "--transport", transport, "--dir", ".",
				"--target", "lost=0").says(t, "50 messages have reached their receivers, found 50", "lost 0, duplicate 0, ghost 0, reordered 0   of 50 messages, 50 deliveries")
		})
	}
}

func TestHasALinkInNetworkNamespaces(t *testing.T) {
	t.Parallel()
	run := exec.CommandContext(t.Context(), "../../bench/link/run", "glide-1", "--scale", "0.01", "--clients", "5", "--rounds", "10")
	run.Env = append(os.Environ(), "PETREL="+proctest.Program(t))
	out, err := run.CombinedOutput()
	r := result{err: string(out)}
	if os.Geteuid() != 0 {
		if err == nil {
			t.Error("a link without root")
		}
		r.says(t, "need root")
		return
	}
	r.says(t, "50 messages have reached their receivers, found 50", "lost 0, duplicate 0, ghost 0, reordered 0")
	left, err := exec.CommandContext(t.Context(), "ip", "netns", "list").Output()
	if err != nil || strings.Contains(string(left), fmt.Sprintf("petrel-c-%d", run.Process.Pid)) {
		t.Errorf("%v, namespaces are left: %s", err, left)
	}
}

func TestTellsTheStory(t *testing.T) {
	t.Parallel()
	page := filepath.Join(t.TempDir(), "quick.html")
	r := petrel(t, "bench", "quick", "--scale", "0.02", "--seconds", "1", "--dir", t.TempDir(), "--html", page)
	r.says(t, "one to one", "a group", "The server was killed", "followed")
	if strings.Contains(r.out+r.err, "is not clean") || strings.Contains(r.out+r.err, "have no ack") {
		t.Errorf("a part has a finding: %s%s", r.out, r.err)
	}
	if b, err := os.ReadFile(page); err != nil || !strings.Contains(string(b), `"kind":"story"`) {
		t.Errorf("the page is not of the story: %v", err)
	}
}

func TestDoesAsPeopleDo(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "report.json")
	petrel(t, "bench", "direct", "--scale", "0.01", "--receipts", "--senders", "1", "--receivers", "1", "--window", "1", "--seconds", "5", "--warm-up", "0", "--dir", t.TempDir(), "--json", name).
		want(t, 0, "moves, durable", "lost 0, duplicate 0, ghost 0, reordered 0")
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var report struct {
		CursorMoves int `json:"cursor_moves"`
	}
	if err := json.Unmarshal(b, &report); err != nil || report.CursorMoves == 0 {
		t.Errorf("%d cursor moves, %v, of %s", report.CursorMoves, err, b)
	}
	petrel(t, "bench", "connections", "--scale", "0.01", "--connections", "3", "--lists", "2", "--seconds", "0.3", "--dir", t.TempDir()).want(t, 0, "3 idle")
}

// The receivers are on the other node than half of the senders, and come when
// all is sent. The PostgreSQL server is the test's own: the command waits until the server
// has nothing to do, and that of the run serves other tests.
func TestClusterRunsNodesOnOneDatabase(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "table.json")
	petrel(t, "bench", "cluster", "--scale", "0.01", "--nodes", "2", "--senders", "3", "--receivers", "4", "--rounds", "2", "--postgres", pgtest.Own(t, pgtest.Options{Settings: pgtest.Settings}).New(t),
		"--dir", t.TempDir(), "--json", name).want(t, 0, "per CPU-s of the nodes", "lost 0, duplicate 0, ghost 0, reordered 0, 48 read")
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	// Two dozen messages may be through before the count of the second run
	// begins; the audit above has the sent and read messages.
	var table struct {
		Runs []struct {
			Nodes []struct{ Accepted int }
			Audit struct{ Messages int }
		}
	}
	if err := json.Unmarshal(b, &table); err != nil || len(table.Runs) != 1 || table.Runs[0].Audit.Messages != 48 || len(table.Runs[0].Nodes) != 2 {
		t.Errorf("%v, %+v of %s", err, table, b)
	}
}

func TestBringsAllBackAfterAKill(t *testing.T) {
	t.Parallel()
	page := filepath.Join(t.TempDir(), "storm.html")
	petrel(t, "bench", "storm", "--scale", "0.01", "--kill", "--connections", "12", "--storms", "2", "--seconds", "0.5", "--warm-up", "0.3", "--rate", "100", "--dir", t.TempDir(), "--html", page).
		want(t, 0, "return 2", "lost 0, duplicate 0, ghost 0, reordered 0")
	if b, err := os.ReadFile(page); err != nil || !strings.Contains(string(b), `"name":"return"`) {
		t.Errorf("the page has no storms: %v", err)
	}
}

func TestConnectionsComeInSteps(t *testing.T) {
	t.Parallel()
	petrel(t, "bench", "connections", "--scale", "0.01", "--connections", "12", "--steps", "2", "--seconds", "0.3", "--dir", ".").
		want(t, 0, "connect 6 ", "connect 12 ", "user bytes")
}

func TestMeasuresWhatStepsCost(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "costs.json")
	petrel(t, "bench", "estimate", "--measure", "--scale", "0.02", "--dir", t.TempDir(), "--json", name).want(t, 0, "commit_us")
	costs, err := bench.ReadCosts(name)
	// Delivery, History and Idle are differences of two runs, which may be 0 in runs this short.
	if err == nil && (costs.Commit <= 0 || costs.Login <= 0 || costs.UserBytes == 0 || costs.Machine.Cores == 0) {
		err = fmt.Errorf("something was not measured: %+v", costs)
	}
	if err != nil {
		t.Error(err)
	}
}

// The server is killed while all send. Every message is followed all the same.
func TestEveryMessageIsFollowedWhenTheServerIsKilled(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"closed":   {"--senders", "3", "--receivers", "3", "--window", "2", "--seconds", "4", "--kill-every", "1"},
		"open":     {"--senders", "20", "--receivers", "20", "--seconds", "2", "--kill-every", "1", "--rate", "300"},
		"wildfire": {"--shape", "wildfire", "--scale", "0.0001", "--rate", "500", "--kill-every", "0.8"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := filepath.Join(t.TempDir(), "run.ops")
			r := petrel(t, append([]string{"bench", "direct", "--scale", "0.01", "--warm-up", "0", "--dir", t.TempDir(), "--json", "-", "--oplog", log}, args...)...)
			var report struct {
				Audit struct {
					Findings map[string]int
					Messages int
				}
				Kills struct {
					Each []struct {
						Silent float64 `json:"silent_ms"`
					}
					SentAgain int `json:"sent_again"`
					PutOff    int `json:"put_off"`
				}
			}
			if err := json.Unmarshal([]byte(r.out), &report); err != nil {
				t.Fatal(err, r.err)
			}
			for _, class := range []string{"lost", "duplicate"} {
				t.Run(class, func(t *testing.T) {
					if n := report.Audit.Findings[class]; n > 0 {
						t.Errorf("%d of %d messages:\n%s", n, report.Audit.Messages, r.err)
					}
				})
			}
			t.Run("report", func(t *testing.T) {
				validate(t, []byte(r.out))
				if k := report.Kills; len(k.Each) == 0 || k.Each[0].Silent == 0 || k.SentAgain+k.PutOff == 0 {
					t.Errorf("kills %+v\n%s", k, r.err)
				}
				r.says(t, "killed", "acked messages are lost: at most")
				petrel(t, "check", log).want(t, 0, "lost        0 in")
			})
		})
	}
}
