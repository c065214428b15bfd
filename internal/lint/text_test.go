package lint

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
)

// eachLine finds the lines that match re, in the files that keep lets through.
func eachLine(files []file, re *regexp.Regexp, what string, keep func(file) bool) []string {
	var found []string
	for _, f := range files {
		if f.isLint() || !keep(f) {
			continue
		}
		n := 0
		for line := range strings.Lines(f.text) {
			n++
			if m := re.FindString(line); m != "" {
				found = append(found, fmt.Sprintf("%s:%d: %s: %s", f.path, n, strings.TrimSpace(m), what))
			}
		}
	}
	return found
}

var unfinishedWork = regexp.MustCompile(`\b(TODO|FIXME|XXX)\b`)

func unfinished(files []file) []string {
	return eachLine(files, unfinishedWork, "unfinished work is the number of an issue", func(f file) bool { return !f.isGenerated() })
}

var skipCall = regexp.MustCompile(`\b(t|b|f|tb)\.Skip(f|Now)?\(|\b(pytest|unittest)\.(mark\.)?skip|\b(it|test|describe)\.skip\b`)

func skippedTests(files []file) []string {
	return eachLine(files, skipCall, "a test that is skipped tests nothing", func(file) bool { return true })
}

// machinePath matches an absolute path that only exists on somebody's machine.
var machinePath = regexp.MustCompile(`(^|[^A-Za-z0-9_.~/})-])/(home|root|Users|work|farm|tmp|mnt|scratch)/[A-Za-z]|[A-Z]:\\\\?Users\\`)

func machinePaths(files []file) []string {
	return eachLine(files, machinePath, "a path of one machine", func(f file) bool { return !f.isGenerated() })
}

func calls(root ast.Node, pkg, name string) bool {
	yes := false
	ast.Inspect(root, func(n ast.Node) bool {
		if c, ok := n.(*ast.CallExpr); ok && isCall(c, pkg, name) {
			yes = true
		}
		return !yes
	})
	return yes
}

func isCall(c *ast.CallExpr, pkg, name string) bool {
	sel, ok := c.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := sel.X.(*ast.Ident)
	return ok && x.Name == pkg && sel.Sel.Name == name
}

var markdownLink = regexp.MustCompile(`\]\(([^)#:\s]+)(#[^)\s]*)?\)`)

// deadLinks finds links between the pages of the project that lead nowhere.
func deadLinks(files []file) []string {
	there := map[string]bool{".": true}
	for _, f := range files {
		for p := f.path; p != "."; p = path.Dir(p) {
			there[p] = true
		}
	}
	var found []string
	for _, f := range files {
		if path.Ext(f.path) != ".md" {
			continue
		}
		for _, m := range markdownLink.FindAllStringSubmatch(f.text, -1) {
			if to := path.Join(f.dir(), m[1]); !there[to] {
				found = append(found, fmt.Sprintf("%s: link to %s, which does not exist", f.path, m[1]))
			}
		}
	}
	slices.Sort(found)
	return found
}
