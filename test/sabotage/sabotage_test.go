package sabotage

import (
	"bytes"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestEveryBrokenRuleIsNoticed(t *testing.T) {
	s := built(t)
	for _, r := range all() {
		for i, g := range r.guards {
			t.Run(fmt.Sprintf("%s/%s-%d", r.name, path.Base(g.pkg), i+1), func(t *testing.T) {
				t.Parallel() // they wait more than they work
				out, failed := s.try(g, r.name)
				if !failed {
					t.Errorf("%s -run %s passed, though not: %s", g.pkg, g.run, r.holds)
				} else if !bytes.Contains(out, []byte("--- FAIL: ")) {
					t.Errorf("%s -run %s ended without a test that failed:\n%s", g.pkg, g.run, out)
				}
			})
		}
	}
}

// Without this one, a suite that fails anyway would prove everything.
func TestSuitesPassWithNothingBroken(t *testing.T) {
	s := built(t)
	var seen []guard
	for _, r := range all() {
		for _, g := range r.guards {
			if slices.Contains(seen, g) {
				continue
			}
			seen = append(seen, g)
			t.Run(path.Base(g.pkg)+"/"+strings.Trim(g.run, "^$"), func(t *testing.T) {
				t.Parallel()
				out, failed := s.try(g, "")
				if failed || !bytes.Contains(out, []byte("--- PASS: ")) {
					t.Errorf("%s -run %s does not pass:\n%s", g.pkg, g.run, out)
				}
			})
		}
	}
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
	s := built(t)
	switches := regexp.MustCompile(`(?mi)^.*petrel-im/petrel.*(sabotage|broken_|brokenRule).*$`)
	for _, c := range []struct {
		name  string
		build []string
		found bool
	}{
		{"petrel", []string{"build"}, false},
		{"petrel-broken", []string{"build", s.overlay}, true}, // or the pattern has stopped to find anything
	} {
		bin := filepath.Join(s.dir, c.name)
		if _, err := s.run("go", append(c.build, "-o", bin, module+"/cmd/petrel")...); err != nil {
			t.Fatal(err)
		}
		symbols, err := s.run("go", "tool", "nm", bin)
		if err != nil {
			t.Fatal(err)
		}
		if found := switches.FindAll(symbols, 3); (len(found) > 0) != c.found {
			t.Errorf("switches in %s: %q, want some: %v", c.name, found, c.found)
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
		if !regexp.MustCompile(`^[a-z]+(-[a-z]+)+$`).MatchString(r.name) || r.holds == "" || len(r.patches) == 0 || len(r.guards) == 0 {
			t.Errorf("rule %q needs a name like skip-membership, a promise, patches, and guards", r.name)
		}
		for _, p := range r.patches {
			if strings.Contains(p.old, "//") {
				t.Errorf("rule %s: a patch looks for a comment, which may change: %s", r.name, p.old)
			}
		}
	}
}
