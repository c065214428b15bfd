package lint

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// lastUnchecked is the last commit whose subject may break the rule.
const lastUnchecked = "2a130d1c7939e9f3235d6f5d2741c0d1ba4815aa"

const maxSubject = 72 // characters

// subjectForm is "pkg: what", or "pkg, test/other, README: what".
var subjectForm = regexp.MustCompile(`^([a-z0-9][a-z0-9./_-]*|[A-Z]{3,})(, ([a-z0-9][a-z0-9./_-]*|[A-Z]{3,}))*: \S`)

// subjects finds what is wrong with the first lines of commits, given as
// "hash subject".
func subjects(commits []string) []string {
	var found []string
	for _, c := range commits {
		hash, subject, _ := strings.Cut(c, " ")
		if n := utf8.RuneCountInString(subject); n > maxSubject {
			found = append(found, fmt.Sprintf("commit %s: the subject has %d characters, at most %d: %s", hash, n, maxSubject, subject))
		}
		if !subjectForm.MatchString(subject) {
			found = append(found, fmt.Sprintf("commit %s: the subject is not of the form \"pkg: what\": %s", hash, subject))
		}
	}
	return found
}

func TestSubjectsAreFound(t *testing.T) {
	good := []string{
		"1 conv: a resent message has its first seq",
		"2 app, test/chaos, README: 7 nodes",
		"3 conv: " + strings.Repeat("é", maxSubject-len("conv: ")),
	}
	for _, c := range good {
		if got := subjects([]string{c}); len(got) != 0 {
			t.Errorf("found %q in %q", got, c)
		}
	}
	bad := []string{
		"1 conv: " + strings.Repeat("a", maxSubject+1-len("conv: ")),
		"2 Fix review", "3 conv:what", "4 conv : what", "5 Conv: what", "6 conv and docs: what", "7 conv: ", "8 ",
	}
	for _, c := range bad {
		if got := subjects([]string{c}); len(got) == 0 {
			t.Errorf("nothing found in %q", c)
		}
	}
}

// TestCommitsHaveSubjects reads the history that is there: all after
// lastUnchecked in a whole clone, what a shallow one has. Without git, outside
// of a repository, and in one of another history there is nothing to read.
func TestCommitsHaveSubjects(t *testing.T) {
	root := filepath.Join("..", "..")
	if _, err := os.Stat(filepath.Join(root, ".git")); errors.Is(err, os.ErrNotExist) {
		return
	}
	if _, err := exec.LookPath("git"); err != nil {
		return
	}
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", root}, args...)...)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, stderr.String())
		}
		return strings.TrimSpace(string(out))
	}
	log := []string{"log", "--no-merges", "--format=%h %s", "HEAD"}
	known := exec.Command("git", "-C", root, "merge-base", "--is-ancestor", lastUnchecked, "HEAD").Run() == nil
	switch {
	case known:
		log = append(log, "^"+lastUnchecked)
	case git("rev-parse", "--is-shallow-repository") != "true":
		return
	}
	out := git(log...)
	if out == "" {
		return
	}
	for _, finding := range subjects(strings.Split(out, "\n")) {
		t.Error(finding)
	}
}
