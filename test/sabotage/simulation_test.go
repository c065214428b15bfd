package sabotage

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// planted names for each promise a rule: when it is broken, the simulation of whole nodes has to
// find that within a thousand seeds. The promises are those of docs/architecture.md.
var planted = []struct {
	promise, rule string
	soon          bool // it shows within some seeds
}{
	{"I1", "ack-before-sync", false},
	{"I2", "forget-dedupe", true},
	{"I3", "refuse-what-is-stored", false},
	{"I4", "reuse-seq", false},
	{"I5", "ask-again-behind", false},
	{"I6", "no-refan", false},
	{"I7", "trust-memory", false},
	{"I8", "cursor-ack-before-flush", true},
	{"I9", "refan-to-all", false},
}

// foundBy is the first line of what test/simulation says of a seed: safety or liveness is
// broken. A crash says nothing like it.
var foundBy = regexp.MustCompile(`seed (\d+): (.+)`)

// toBeFound tells whether the simulation has to find that a rule is broken.
func toBeFound(rule string) bool {
	for _, p := range planted {
		if p.rule == rule {
			return p.soon || os.Getenv("PETREL_PLANTED") == "all"
		}
	}
	return false
}

// withPlanted are rules, and those that the simulation has to find, whether these are due or not.
func withPlanted(rules []rule) []rule {
	return slices.DeleteFunc(all(), func(r rule) bool {
		return !toBeFound(r.name) && !slices.ContainsFunc(rules, func(d rule) bool { return d.name == r.name })
	})
}

// A rule that is in no overlay is not broken, and all seeds pass.
func TestPlantedRulesAreInTheOverlay(t *testing.T) {
	t.Setenv("PETREL_PLANTED", "all")
	patched := withPlanted(nil)
	if len(patched) != len(planted) {
		t.Errorf("%d rules are patched, want %d", len(patched), len(planted))
	}
	for _, p := range planted {
		if !slices.ContainsFunc(patched, func(r rule) bool { return r.name == p.rule }) {
			t.Errorf("%s is to be found, and no patch breaks it", p.rule)
		}
	}
}

// The faults that show soon are planted always, all of them by `make long`
// (PETREL_PLANTED=all).
func TestSimulationFindsAFaultOfEachPromise(t *testing.T) {
	t.Parallel()
	s := built(t)
	for _, p := range planted {
		if !toBeFound(p.rule) {
			continue
		}
		t.Run(p.promise, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(filepath.Join(s.dir, "simulation.test"), "-test.run", "^TestSimulation$", "-test.timeout", "0", "-seeds", "1000", "-stop", "1")
			cmd.Dir = filepath.Join(s.root, "test", "simulation")
			cmd.Env = append(os.Environ(), "BROKEN_RULE="+p.rule)
			out, err := cmd.CombinedOutput()
			found := foundBy.FindSubmatch(out)
			switch {
			case err == nil:
				t.Errorf("1,000 seeds pass with %s broken", p.rule)
			case found == nil || bytes.Contains(out, []byte("panic:")):
				t.Errorf("%s: the simulation ends without a verdict:\n%s", p.rule, out)
			default:
				t.Logf("%s: %s is found by seed %s: %s", p.promise, p.rule, found[1], found[2])
			}
		})
	}
}
