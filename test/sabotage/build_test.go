package sabotage

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

const module = "github.com/petrel-im/petrel"

// plain is a flag of go build by which nothing is inlined and debuggers get nothing: that
// compiles in two thirds of the time. Generated code outside of internal/ is not patched,
// and its parts that other tests have compiled serve here as well.
const plain = "-gcflags=" + module + "/internal/...=-dwarf=false -l"

// suites are the test binaries of all guards, built with the overlay.
type suites struct {
	rules   []rule // that are due
	root    string // of the module
	dir     string // of what was built
	overlay string // the flag of go build
}

// build builds the binaries once, in build/, which make clean removes. The dot
// hides the overlay from ./... of go.
var build = sync.OnceValues(func() (suites, error) {
	root, err := filepath.Abs("../..")
	if err != nil {
		return suites{}, err
	}
	s := suites{root: root, dir: filepath.Join(root, "build", ".sabotage")}
	if s.rules, err = due(); err != nil {
		return s, err
	}
	if err := s.write(); err != nil {
		return suites{}, err
	}
	pkgs := []string{module + "/test/simulation"}
	for _, r := range s.rules {
		for _, g := range r.guards {
			pkgs = append(pkgs, module+"/"+g.pkg)
		}
	}
	slices.Sort(pkgs)
	args := append([]string{"test", "-c", "-vet=off", "-ldflags=-s -w", s.overlay, plain, "-o", s.dir + "/"}, slices.Compact(pkgs)...)
	_, err = s.run("go", args...)
	return s, err
})

// write writes the overlay.
func (s *suites) write() error {
	files, err := overlay(withPlanted(s.rules), s.read)
	if err != nil {
		return err
	}
	var index struct{ Replace map[string]string }
	index.Replace = map[string]string{}
	for name, text := range files {
		to := filepath.Join(s.dir, "overlay", filepath.FromSlash(name))
		index.Replace[filepath.Join(s.root, filepath.FromSlash(name))] = to
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, []byte(text), 0o644); err != nil {
			return err
		}
	}
	b, err := json.Marshal(index)
	if err != nil {
		return err
	}
	name := filepath.Join(s.dir, "overlay.json")
	s.overlay = "-overlay=" + name
	return os.WriteFile(name, b, 0o644)
}

func (s *suites) read(name string) (string, error) {
	b, err := os.ReadFile(filepath.Join(s.root, filepath.FromSlash(name)))
	return string(b), err
}

func (s *suites) run(name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = s.root
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return out, nil
}

// goflags is GOFLAGS with which the overlay is built.
func (s *suites) goflags() string { return os.Getenv("GOFLAGS") + " " + s.overlay + " '" + plain + "'" }

// try runs tests of a package with a rule broken ("": none) in the folder of the
// package. The servers that they build are overlaid as well.
func (s *suites) try(pkg, tests, rule string) (out []byte, failed bool) {
	cmd := exec.Command(filepath.Join(s.dir, path.Base(pkg)+".test"), "-test.v", "-test.timeout", (4 * time.Minute).String(), "-test.run", tests)
	cmd.Dir = filepath.Join(s.root, filepath.FromSlash(pkg))
	cmd.Env = append(os.Environ(), "BROKEN_RULE="+rule, "GOFLAGS="+s.goflags(),
		"PETREL_KILLS=10", "PETREL_CUTS=100", "PETREL_BACKUP_KILLS=15") // a broken rule shows at once
	out, err := cmd.CombinedOutput()
	return out, err != nil
}
