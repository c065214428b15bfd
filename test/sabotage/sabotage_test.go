package sabotage

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/petrel-im/petrel/internal/imtest/proctest"
)

// TestMain sets how many guards run at a time: they wait more than they work.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "12"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

func TestEveryBrokenRuleIsNoticed(t *testing.T) {
	t.Parallel()
	s := built(t)
	of, err := digests(s.root, s.rules)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex // guards unnoticed
	var unnoticed []string
	t.Cleanup(func() {
		t.Logf("broke %d of %d rules", len(s.rules), len(all()))
		if *everyRule && flag.Lookup("test.run").Value.String() == "" { // a part of them says nothing of the others
			if err := writeNoticed(of, unnoticed); err != nil {
				t.Error(err)
			}
		}
	})
	for _, r := range s.rules {
		for i, g := range r.guards {
			t.Run(fmt.Sprintf("%s/%s-%d", r.name, path.Base(g.pkg), i+1), func(t *testing.T) {
				t.Parallel()
				out, failed := s.try(g.pkg, g.run, r.name)
				if !failed {
					t.Errorf("%s -run %s passed, though not: %s", g.pkg, g.run, r.holds)
				} else if !hasFailed(out) {
					t.Errorf("%s -run %s ended without a test that failed:\n%s", g.pkg, g.run, out)
				}
				if t.Failed() {
					mu.Lock()
					unnoticed = append(unnoticed, r.name)
					mu.Unlock()
				}
			})
		}
	}
}

// hasFailed tells whether a test has failed, or the server has panicked under it: a goroutine
// that panics ends the process before its test is said to fail.
func hasFailed(out []byte) bool {
	return bytes.Contains(out, []byte("--- FAIL: ")) ||
		bytes.Contains(out, []byte("panic: ")) && !bytes.Contains(out, []byte("panic: test timed out"))
}

// Without this one, a suite that fails anyway would prove everything. The guards of
// a package run in one process.
func TestSuitesPassWithNothingBroken(t *testing.T) {
	t.Parallel()
	s := built(t)
	runs := map[string][]string{}
	for _, r := range s.rules {
		for _, g := range r.guards {
			if !slices.Contains(runs[g.pkg], g.run) {
				runs[g.pkg] = append(runs[g.pkg], g.run)
			}
		}
	}
	for pkg, guards := range runs {
		t.Run(path.Base(pkg), func(t *testing.T) {
			t.Parallel()
			out, failed := s.try(pkg, strings.Join(guards, "|"), "")
			if failed {
				t.Errorf("%s does not pass:\n%s", pkg, out)
			}
			for _, run := range guards {
				t.Run(strings.Trim(run, "^$"), func(t *testing.T) {
					if !passed(out, run) {
						t.Errorf("%s -run %s runs no test that passes:\n%s", pkg, run, out)
					}
				})
			}
		})
	}
}

var passedTest = regexp.MustCompile(`(?m)^ *--- PASS: (\S+)`)

// passed tells whether in the output of tests one passed that -run would choose.
func passed(out []byte, run string) bool {
	parts := strings.Split(run, "/")
	for _, m := range passedTest.FindAllSubmatch(out, -1) {
		names := strings.Split(string(m[1]), "/")
		chosen := len(names) >= len(parts)
		for i := 0; i < len(parts) && chosen; i++ {
			chosen = regexp.MustCompile(parts[i]).MatchString(names[i])
		}
		if chosen {
			return true
		}
	}
	return false
}

func built(t *testing.T) suites {
	t.Helper()
	s, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The release binary has nothing that a rule could be broken with.
func TestNoSwitchIsInTheBinary(t *testing.T) {
	t.Parallel()
	s := built(t)
	if len(s.rules) == 0 {
		return // nothing has changed
	}
	switches := regexp.MustCompile(`(?mi)^.*petrel-im/petrel.*(sabotage|broken_|brokenRule).*$`)
	broken, err := proctest.BuildProgram(s.goflags())
	if err != nil {
		t.Fatal(err)
	}
	for bin, want := range map[string]bool{
		proctest.Program(t): false,
		broken:              true, // or the pattern has stopped to find anything
	} {
		symbols, err := s.run("go", "tool", "nm", bin)
		if err != nil {
			t.Fatal(err)
		}
		if found := switches.FindAll(symbols, 3); (len(found) > 0) != want {
			t.Errorf("switches in %s: %q, want some: %v", bin, found, want)
		}
	}
}

// Where a patch no longer applies, the message names the line.
func TestPatchesApply(t *testing.T) {
	s := suites{root: filepath.Join("..", "..")}
	if _, err := overlay(all(), s.read); err != nil {
		t.Error(err)
	}
}

func TestRulesAreWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range all() {
		if seen[r.name] {
			t.Errorf("two rules are called %s", r.name)
		}
		seen[r.name] = true
		if !regexp.MustCompile(`^[a-z]+(-[a-z0-9]+)+$`).MatchString(r.name) || r.holds == "" || len(r.patches) == 0 || len(r.guards) == 0 {
			t.Errorf("rule %q needs a name like skip-membership, a promise, patches, and guards", r.name)
		}
		for _, p := range r.patches {
			if strings.Contains(p.old, "//") {
				t.Errorf("rule %s: a patch looks for a comment, which may change: %s", r.name, p.old)
			}
		}
	}
}
