package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/petrel-im/petrel/internal/checker"
)

func TestCheckJudgesOpLogs(t *testing.T) {
	write := func(name, text string) string {
		name = filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	run := write("run.jsonl", `{"op":"invoke","at":1,"user":"alice","conv":"g1","id":"k1","body":"00000000000000aa"}
{"op":"ok","at":2,"user":"alice","conv":"g1","id":"k1","seq":1}
`)
	good := write("good.jsonl", `{"op":"entry","conv":"g1","seq":1,"from":"alice","id":"k1","body":"00000000000000aa"}
{"op":"history","conv":"g1","seq":1}
`)
	bad := write("bad.jsonl", "{\"op\":\"history\",\"conv\":\"g1\"}\n")
	petrel(t, nil, "check", run, "--history", good).want(t, exitOK, "messages    1: 1 acked", "lost        0 in 1 acked")
	petrel(t, nil, "check", run, "--history", bad).want(t, exitViolated, "lost        1 FOUND", "message k1 of alice was acked at seq 1 and is not in the history (run.jsonl:1)", "error violated")
	petrel(t, nil, "check", run, "--history", bad, "--json").want(t, exitViolated, `"where":"run.jsonl:1"`, `"lost":1`)
	petrel(t, nil, "check", bad).want(t, exitFailed, "nothing to judge")
	petrel(t, nil, "check", write("cut.jsonl", `{"op":"invoke"`)).want(t, exitFailed, "line 1: the line has no end")
	petrel(t, nil, "check").want(t, exitUsage)
}

// Each class has a subtest, so that a rule of test/sabotage can say which one convicts.
func TestTheOpLogOfARunIsClean(t *testing.T) {
	log := filepath.Join(t.TempDir(), "run.ops")
	s := serveShared(t)
	run := petrel(t, s.env(), "bench", "group", "--url", "http://"+s.http, "--members", "4", "--senders", "2", "--seconds", "1", "--warm-up", "0", "--json", "-", "--oplog", log)
	t.Run("report", func(t *testing.T) { run.want(t, exitOK, `"scenario": "group"`, "lost 0, duplicate 0") })
	r, err := judge([]string{log}, checker.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if r.Acked == 0 || r.Deliveries == 0 || r.WithHistory != 1 || r.WithMembers != 1 {
		t.Fatalf("the log has %+v", r.Sums)
	}
	for _, c := range checker.Classes() {
		t.Run(c.String(), func(t *testing.T) {
			for _, w := range r.Witnesses {
				if w.Class == c {
					t.Fatal(w)
				}
			}
		})
	}
}
