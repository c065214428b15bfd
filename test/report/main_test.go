package main

import (
	"regexp"
	"strings"
	"testing"
)

// of is what report prints of some events.
func of(t *testing.T, show string, events ...string) (string, error) {
	t.Helper()
	var out strings.Builder
	r := report{out: &out, lines: map[name][]string{}, parents: map[name]bool{}}
	if show != "" {
		r.show = regexp.MustCompile(show)
	}
	err := r.read(strings.NewReader(strings.Join(events, "\n") + "\n"))
	return out.String(), err
}

func TestPassesShowTheirLastLineAndWhatIsAskedFor(t *testing.T) {
	got, err := of(t, "seed",
		`{"Action":"start","Package":"p"}`,
		`{"Action":"run","Package":"p","Test":"TestA"}`,
		`{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}`,
		`{"Action":"output","Package":"p","Test":"TestA/x","Output":"    seed 7\n"}`,
		`{"Action":"output","Package":"p","Test":"TestA/x","Output":"    quiet\n"}`,
		`{"Action":"pass","Package":"p","Test":"TestA/x","Elapsed":3}`,
		`{"Action":"pass","Package":"p","Test":"TestA","Elapsed":4}`,
		`{"Action":"pass","Package":"p","Test":"TestB","Elapsed":3.5}`,
		`{"Action":"output","Package":"p","Output":"PASS\n"}`,
		`{"Action":"output","Package":"p","Output":"7 files, 9 runs\n"}`,
		`{"Action":"output","Package":"p","Output":"ok  \tp\t8.0s\n"}`,
		`{"Action":"pass","Package":"p","Elapsed":8}`,
	)
	want := "    seed 7\n7 files, 9 runs\nok  \tp\t8.0s\n" +
		"\nslowest packages\n     8.0 s  p \n" +
		"\nslowest tests\n     3.5 s  p TestB\n     3.0 s  p TestA/x\n" +
		"\n2 tests took 6.5 s together\n"
	if err != nil || got != want {
		t.Errorf("got %v and\n%s\nwant\n%s", err, got, want)
	}
}

func TestFailuresAreShownWhole(t *testing.T) {
	got, err := of(t, "",
		`{"ImportPath":"q","Action":"build-output","Output":"x.go:1: no\n"}`,
		`{"Action":"output","Package":"q","Output":"FAIL\tq [build failed]\n"}`,
		`{"Action":"fail","Package":"q"}`,
		`{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:1: wrong\n"}`,
		`{"Action":"output","Package":"p","Test":"TestA","Output":"    help.go:1: log of the server\n"}`,
		`{"Action":"output","Package":"p","Test":"TestA","Output":"--- FAIL: TestA\n"}`,
		`{"Action":"fail","Package":"p","Test":"TestA"}`,
		`{"Action":"output","Package":"p","Test":"TestB","Output":"=== RUN   TestB\n"}`,
		`{"Action":"output","Package":"p","Test":"TestB","Output":"panic: it ran for too long\n"}`,
		`{"Action":"output","Package":"p","Output":"FAIL\tp\t8.0s\n"}`,
		`{"Action":"fail","Package":"p"}`,
		`{"Action":"output","Package":"r","Output":"ok  \tr\t8.0s\n"}`,
		`{"Action":"pass","Package":"r"}`,
	)
	want := "x.go:1: no\nFAIL\tq [build failed]\n    a_test.go:1: wrong\n    help.go:1: log of the server\n--- FAIL: TestA\npanic: it ran for too long\nFAIL\tp\t8.0s\nok  \tr\t8.0s\n"
	if before, _, _ := strings.Cut(got, "\nslowest"); before != want {
		t.Errorf("got\n%s\nwant\n%s", before, want)
	}
	last := "\nwhy tests failed\np TestA\n    a_test.go:1: wrong\np TestB\npanic: it ran for too long\n"
	if !strings.HasSuffix(got, last) {
		t.Errorf("got\n%s\nwant at the end\n%s", got, last)
	}
	if err == nil || err.Error() != "2 packages failed" {
		t.Errorf("got %v, want 2 packages failed", err)
	}
}

func TestNothingIsNoSuccess(t *testing.T) {
	if _, err := of(t, "", `{"Action":"start","Package":"p"}`); err == nil {
		t.Error("no package was tested, and that passes")
	}
	if _, err := of(t, "", "ok p 1s"); err == nil {
		t.Error("what is no JSON passes")
	}
}
