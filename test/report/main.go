// Command report reads what `go test -json` writes. It prints the lines that go
// test prints without -json, and at the end which packages and which tests took
// longest, how long all tests took together, and why tests failed. It fails if a
// package failed, or if there was none.
//
//	go test -json ./... | go run ./test/report
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
)

func main() {
	show := flag.String("show", "", "lines of tests that pass are printed if they match this `expression`")
	flag.Parse()
	r := report{out: os.Stdout, lines: map[name][]string{}, parents: map[name]bool{}}
	if *show != "" {
		r.show = regexp.MustCompile(*show)
	}
	if err := r.read(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// event is a line of go test -json; `go doc test2json` explains the fields.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
	Elapsed float64 // seconds
}

// name is a test, or a package if test is empty.
type name struct{ pkg, test string }

// timing is how long something took.
type timing struct {
	name
	seconds float64
}

type report struct {
	out  io.Writer
	show *regexp.Regexp // nil: no line of a test that passes

	lines    map[name][]string // of what has not ended yet
	parents  map[name]bool     // tests that have subtests: their time is that of the subtests
	packages []timing
	tests    []timing
	failures []string // what tests that failed said of it
	failed   int      // packages
}

// read reads all events, and then prints the tables.
func (r *report) read(in io.Reader) error {
	events := bufio.NewReader(in)
	for {
		line, err := events.ReadBytes('\n')
		if err == io.EOF {
			break
		}
		var e event
		if err == nil {
			err = json.Unmarshal(line, &e)
		}
		if err != nil {
			return fmt.Errorf("read %q of go test -json: %w", line, err)
		}
		r.take(e)
	}
	r.table("packages", r.packages)
	tests := slices.DeleteFunc(r.tests, func(t timing) bool { return r.parents[t.name] })
	r.table("tests", tests)
	fmt.Fprintf(r.out, "\n%d tests took %.1f s together\n", len(tests), total(tests))
	if len(r.failures) > 0 {
		fmt.Fprintln(r.out, "\nwhy tests failed")
		for _, l := range r.failures {
			fmt.Fprint(r.out, l)
		}
	}
	switch {
	case r.failed > 0:
		return fmt.Errorf("%d packages failed", r.failed)
	case len(r.packages) == 0:
		return fmt.Errorf("no package was tested")
	}
	return nil
}

// total is how long all took, in seconds.
func total(all []timing) (sum float64) {
	for _, t := range all {
		sum += t.seconds
	}
	return sum
}

func (r *report) take(e event) {
	n := name{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		fmt.Fprint(r.out, e.Output)
	case "output":
		r.lines[n] = append(r.lines[n], e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			r.endPackage(n, e)
		} else {
			r.endTest(n, e)
		}
	}
}

func (r *report) endTest(n name, e event) {
	if i := strings.LastIndexByte(n.test, '/'); i > 0 {
		r.parents[name{n.pkg, n.test[:i]}] = true
	}
	r.tests = append(r.tests, timing{n, e.Elapsed})
	r.print(n, e.Action == "fail")
}

// endPackage prints what stands outside of tests, its "ok" among it. The tests
// that have not ended are those in which a package that failed came to its end.
func (r *report) endPackage(n name, e event) {
	if e.Action == "fail" {
		r.failed++
		for _, left := range r.unended(n.pkg) {
			r.print(left, true)
		}
	}
	r.packages = append(r.packages, timing{n, e.Elapsed})
	for _, l := range r.lines[n] {
		if l != "PASS\n" {
			fmt.Fprint(r.out, l)
		}
	}
	delete(r.lines, n)
}

// unended are the tests of a package that have begun and not ended.
func (r *report) unended(pkg string) []name {
	var list []name
	for n := range r.lines {
		if n.pkg == pkg && n.test != "" {
			list = append(list, n)
		}
	}
	slices.SortFunc(list, func(a, b name) int { return cmp.Compare(a.test, b.test) })
	return list
}

var progress = regexp.MustCompile(`^=== (RUN|PAUSE|CONT|NAME) `)

// why is on lines that say why a test failed: not on those in which a helper prints
// the log of a server.
var why = regexp.MustCompile(`^\s*(\w+_test\.go:\d+:|panic:|fatal error:|WARNING: DATA RACE)`)

// said is how many such lines of one test are kept.
const said = 5

// print prints the lines of a test, all or those to show, and forgets them.
func (r *report) print(n name, all bool) {
	if all {
		kept := 0
		for _, l := range r.lines[n] {
			if kept < said && why.MatchString(l) {
				if kept == 0 {
					r.failures = append(r.failures, fmt.Sprintf("%s %s\n", n.pkg, n.test))
				}
				r.failures = append(r.failures, l)
				kept++
			}
		}
	}
	for _, l := range r.lines[n] {
		if !progress.MatchString(l) && (all || r.show != nil && r.show.MatchString(l)) {
			fmt.Fprint(r.out, l)
		}
	}
	delete(r.lines, n)
}

// shown is how many rows a table has.
const shown = 10

func (r *report) table(of string, all []timing) {
	slices.SortStableFunc(all, func(a, b timing) int { return cmp.Compare(b.seconds, a.seconds) })
	fmt.Fprintf(r.out, "\nslowest %s\n", of)
	for _, t := range all[:min(shown, len(all))] {
		fmt.Fprintf(r.out, "%8.1f s  %s %s\n", t.seconds, t.pkg, t.test)
	}
}
