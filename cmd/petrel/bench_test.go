package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/petrel-im/petrel/internal/store/pgtest"
)

// TestMain lets the test binary act as petrel when a benchmark starts it as its server, as another load
// generator, or in a network namespace.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == "serve" || os.Args[1] == "bench") {
		main()
		return
	}
	pgtest.Main(m, stopShared)
}

func TestBenchReportsAndEndsRedWhenATargetIsMissed(t *testing.T) {
	name := filepath.Join(t.TempDir(), "report.json")
	args := []string{"bench", "direct", "--senders", "2", "--receivers", "2", "--seconds", "1", "--warm-up", "0"}
	page := filepath.Join(t.TempDir(), "report.html")
	petrel(t, nil, append(args, "--dir", t.TempDir(), "--json", name, "--html", page, "--target", "lost=0,p99<60s")...).
		want(t, exitOK, "accepted", "lost 0, duplicate 0, ghost 0, reordered 0")
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var report map[string]any
	if err := json.Unmarshal(b, &report); err != nil {
		t.Fatalf("%v of %s", err, b)
	}
	for _, key := range []string{"scenario", "params", "offered", "accepted", "delivered", "rejected", "unknown", "accepted_per_s",
		"delivered_per_s", "audit", "latency_ms", "server", "disk", "machine"} {
		if _, ok := report[key]; !ok {
			t.Errorf("the report has no %q: %s", key, b)
		}
	}
	if command := report["command"]; command != "petrel bench direct --receivers=2 --seconds=1 --senders=2 --target='lost=0,p99<60s' --warm-up=0" {
		t.Errorf("the command is %q", command)
	}
	if b, err := os.ReadFile(page); err != nil || !strings.Contains(string(b), `"scenario":"direct"`) {
		t.Errorf("the page has no scenario: %v", err)
	}
	petrel(t, nil, "bench", "compare", name, name).want(t, exitOK, "direct", "no difference shown")
	petrel(t, nil, "bench", "compare", name, page).want(t, exitUsage, "is no report")
	petrel(t, nil, "bench", "history", filepath.Dir(name)).want(t, exitOK, "accepted_per_cpu_s", "clean")
	petrel(t, nil, "bench", "history", t.TempDir()).want(t, exitUsage, "there is no report")
	petrel(t, nil, "bench", "page", name).want(t, exitOK, `"kind":"run"`)
	s := serveShared(t)
	petrel(t, s.env(), append(args, "--url", "http://"+s.http, "--target", "accepted_per_s>1e12")...).want(t, exitViolated, "error violated", "target accepted_per_s>1e12 is missed")
}

func TestBenchRefusesWhatItCannotRun(t *testing.T) {
	for _, line := range [][]string{
		{"bench", "direct", "--window", "0"},
		{"bench", "direct", "--codec", "xml"},
		{"bench", "direct", "--scale", "NaN"},
		{"bench", "direct", "--json", "no-folder/report.json"},
		{"bench", "quick", "--html", "no-folder/report.html"},
		{"bench", "quick", "--scale", "1000000"},
		{"bench", "quick", "--seconds", "NaN"},
		{"bench", "direct", "--target", "speed>1"},
		{"bench", "group", "--members", "1"},
		{"bench", "direct", "--nodes", "2"},
		{"bench", "direct", "--find-max", "--oplog", "x.ops"},
		{"bench", "cluster", "--nodes", "0"},
		{"bench", "openim-reliability", "--senders", "49"},
		{"bench", "everything"},
	} {
		petrel(t, nil, line...).want(t, exitUsage, "error usage")
	}
	petrel(t, nil, "bench", "connections", "--connections", "0").want(t, exitUsage, "connections is 0")
	petrel(t, nil, "bench", "direct", "--url", "http://127.0.0.1:1", "--data", t.TempDir()).want(t, exitAuth, "no_admin_key")
}

func TestClientsWhoLogInLateGetEverything(t *testing.T) {
	t.Parallel()
	logs, report := t.TempDir(), filepath.Join(t.TempDir(), "report.json")
	petrel(t, nil, "bench", "openim-reliability", "--clients", "5", "--senders", "3", "--messages", "120", "--late", "0.3", "--runs", "2", "--dir", t.TempDir(), "--oplogs", logs, "--json", report).
		want(t, exitOK, "tried       720   acked 720   failed 0", "refused     12 of 12", "lost        0 in")
	names, err := filepath.Glob(filepath.Join(logs, "*.ops"))
	if err != nil || len(names) != 2 {
		t.Fatalf("op logs %v: %v", names, err)
	}
	petrel(t, nil, append([]string{"check"}, names...)...).want(t, exitOK, "732: 720 acked, 12 rejected", "lost        0 in")
	petrel(t, nil, "bench", "page", report).want(t, exitOK, `"kind":"reliability"`, `"tried":720`)
}

func TestClientsLoseNothingWhenTheServerIsKilled(t *testing.T) {
	t.Parallel()
	petrel(t, nil, "bench", "openim-reliability", "--clients", "5", "--senders", "3", "--messages", "150", "--interval", "10", "--late", "0.3", "--kill-every", "1", "--dir", t.TempDir()).
		want(t, exitOK, "server      killed ", "tried       450   acked 450   failed 0", "refused     6 of 6", "lost        0 in")
}

func TestCommandLineHoldsNoPassword(t *testing.T) {
	root := newRoot(&cli{})
	cmd, rest, err := root.Find([]string{"bench", "direct", "--postgres", "postgres://me:secret@db/x", "--rate", "7"})
	if err == nil {
		err = cmd.ParseFlags(rest)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := commandLine(cmd); got != "petrel bench direct --postgres=URL --rate=7" {
		t.Errorf("the command line is %q", got)
	}
}

func TestBenchFindsTheHighestRate(t *testing.T) {
	name := filepath.Join(t.TempDir(), "knee.html")
	s := serveShared(t)
	petrel(t, s.env(), "bench", "direct", "--url", "http://"+s.http, "--find-max", "--rate", "2", "--target", "accepted_per_s>1e12", "--senders", "1", "--receivers", "1", "--seconds", "1",
		"--warm-up", "0", "--html", name).want(t, exitOK, "not even 1/s was held")
	if b, err := os.ReadFile(name); err != nil || !strings.Contains(string(b), `"kind":"knee"`) {
		t.Errorf("the page is not of the search: %v", err)
	}
}

func TestBenchSaysWhatUsersNeed(t *testing.T) {
	name, page := filepath.Join(t.TempDir(), "estimate.json"), filepath.Join(t.TempDir(), "estimate.html")
	petrel(t, nil, "bench", "estimate", "--users", "50000", "--json", name, "--html", page).want(t, exitOK, "5,000 connections", "notification", "commit_us")
	petrel(t, nil, "bench", "estimate", "--costs", name).want(t, exitOK, "100,000 connections")
	petrel(t, nil, "bench", "estimate", "--online", "2").want(t, exitUsage, "online is 2; allowed: 0 to 1")
	petrel(t, nil, "bench", "estimate", "--costs", page).want(t, exitUsage, "estimate.html")
	if b, err := os.ReadFile(page); err != nil || !strings.Contains(string(b), `"kind":"estimate"`) {
		t.Errorf("the page is not of the estimate: %v", err)
	}
	petrel(t, nil, "bench", "page", name).want(t, exitOK, `"kind":"estimate"`)
}
