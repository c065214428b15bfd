package lint

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

const (
	specification = "proto/README.md"
	catalogue     = "proto/errors.yaml"
)

var (
	clauseHead = regexp.MustCompile(`(?m)^(\*\*(P-\d+\.\d+) |## (P-\d+) |---$)`)
	citation   = regexp.MustCompile(`\bP-\d+(\.\d+)?`)
	must       = regexp.MustCompile(`\bMUST\b`)
)

// clauses are the clauses and sections of the specification, and whether they
// say MUST.
func clauses(files []file) map[string]bool {
	out := map[string]bool{}
	for _, f := range files {
		if f.path != specification {
			continue
		}
		heads := clauseHead.FindAllStringSubmatchIndex(f.text, -1)
		for i, h := range heads {
			end := len(f.text)
			if i+1 < len(heads) {
				end = heads[i+1][0]
			}
			switch body := f.text[h[0]:end]; {
			case h[4] >= 0:
				out[f.text[h[4]:h[5]]] = must.MatchString(body)
			case h[6] >= 0:
				out[f.text[h[6]:h[7]]] = false
			}
		}
	}
	return out
}

// citedClauses finds citations of clauses that do not exist.
func citedClauses(files []file) []string {
	known := clauses(files)
	var found []string
	for _, f := range files {
		if f.isLint() {
			continue
		}
		n := 0
		for line := range strings.Lines(f.text) {
			n++
			for _, c := range citation.FindAllString(line, -1) {
				if _, ok := known[c]; !ok {
					found = append(found, fmt.Sprintf("%s:%d: clause %s does not exist", f.path, n, c))
				}
			}
		}
	}
	return found
}

// uncitedMusts finds clauses with a MUST that neither code nor a test cites.
func uncitedMusts(files []file) []string {
	cited := map[string]bool{}
	for _, f := range files {
		switch path.Ext(f.path) {
		case ".go", ".py", ".js", ".mjs", ".ts":
			if f.isLint() || f.isGenerated() {
				continue
			}
		case ".txt": // scenarios
		default:
			continue
		}
		for _, c := range citation.FindAllString(f.text, -1) {
			cited[c] = true
		}
	}
	known := clauses(files)
	var found []string
	for _, c := range slices.Sorted(maps.Keys(known)) {
		if known[c] && !cited[c] {
			found = append(found, fmt.Sprintf("%s: %s says MUST and no code or test cites it", specification, c))
		}
	}
	return found
}

var catalogueLine = regexp.MustCompile(`\{code: (\w+),.*\}`)

// catalogueClauses finds errors without a clause that explains them.
func catalogueClauses(files []file) []string {
	known := clauses(files)
	var found []string
	for _, f := range files {
		if f.path != catalogue {
			continue
		}
		for _, m := range catalogueLine.FindAllStringSubmatch(f.text, -1) {
			_, clause, _ := strings.Cut(m[0], "clause: ")
			clause = strings.TrimRight(clause, "} ")
			if _, ok := known[clause]; !ok {
				found = append(found, fmt.Sprintf("%s: %s: its clause %q does not exist", f.path, m[1], clause))
			}
		}
	}
	return found
}
