package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"regexp"
	"strconv"
	"strings"
)

// concurrencyPage lists goroutines, locks and queues.
const concurrencyPage = "docs/concurrency.md"

// goroutines compares the table of goroutines with the code of the server, both
// ways. The column "started by" names functions, as `pkg.Type.method` or
// `pkg.function`: each starts a goroutine itself, by a go statement, by the method
// Go of a group, or by AfterFunc; and each function of the server that does is in
// a row.
// A cell in which nothing is in backticks is about goroutines of a library.
func goroutines(files []file) []string {
	starts := map[string]string{} // function → where it starts a goroutine
	of := server(files)
	for _, f := range goFiles(files) {
		if !of[f.dir()] || f.isTest() {
			continue
		}
		set, a := f.parse()
		for _, d := range a.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				if startsGoroutine(n) {
					name := fn.Name.Name
					if of := receiver(fn); of != "" {
						name = of + "." + name
					}
					starts[a.Name.Name+"."+name] = set.Position(n.Pos()).String()
				}
				return true
			})
		}
	}
	listed := map[string]bool{}
	var found []string
	for _, row := range table(files, concurrencyPage, "Goroutines", "started by") {
		for _, m := range codeSpan.FindAllStringSubmatch(row.cell, -1) {
			listed[m[1]] = true
			if starts[m[1]] == "" {
				found = append(found, fmt.Sprintf("%s:%d: %s starts no goroutine", concurrencyPage, row.line, m[1]))
			}
		}
	}
	for name, at := range starts {
		if !listed[name] {
			found = append(found, fmt.Sprintf("%s: %s starts a goroutine and has no row in %s", at, name, concurrencyPage))
		}
	}
	return found
}

// composition is the package that puts the server together.
const composition = "internal/app"

// server are the packages that the server is made of: what the composition
// imports, itself or by others.
func server(files []file) map[string]bool {
	imported := map[string][]string{}
	for _, f := range files {
		if !f.isGo() || f.isTest() {
			continue
		}
		a, err := parser.ParseFile(token.NewFileSet(), f.path, f.text, parser.ImportsOnly)
		if err != nil {
			continue
		}
		for _, i := range a.Imports {
			name, _ := strconv.Unquote(i.Path.Value) // it has parsed
			if dir, ours := strings.CutPrefix(name, module+"/"); ours {
				imported[f.dir()] = append(imported[f.dir()], dir)
			}
		}
	}
	of := map[string]bool{}
	for next := []string{composition}; len(next) > 0; next = next[1:] {
		if !of[next[0]] {
			of[next[0]] = true
			next = append(next, imported[next[0]]...)
		}
	}
	return of
}

// awaited tells in a comment behind a go statement who waits for the goroutine.
var awaited = regexp.MustCompile(`\bgo .*// .*\b(waits|counted in)\b`)

// unawaited compares the go statements of the server with the table of goroutines that
// nobody waits for, both ways. A go statement has a comment that says who waits for its
// end, or its function is in the table. The method Go of a group needs neither.
func unawaited(files []file) []string {
	listed := map[string]int{} // function → line of the page
	for _, row := range table(files, concurrencyPage, "Goroutines that nobody waits for", "started by") {
		for _, m := range codeSpan.FindAllStringSubmatch(row.cell, -1) {
			listed[m[1]] = row.line
		}
	}
	var found []string
	of, excused := server(files), map[string]bool{}
	for _, f := range goFiles(files) {
		if !of[f.dir()] || f.isTest() {
			continue
		}
		set, a := f.parse()
		lines := strings.Split(f.text, "\n")
		for _, d := range a.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			name := a.Name.Name + "." + fn.Name.Name
			if of := receiver(fn); of != "" {
				name = a.Name.Name + "." + of + "." + fn.Name.Name
			}
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				if _, ok := n.(*ast.GoStmt); !ok {
					return true
				}
				at := set.Position(n.Pos())
				switch {
				case awaited.MatchString(lines[at.Line-1]):
				case listed[name] == 0:
					found = append(found, fmt.Sprintf("%s: say in a comment behind it who waits for this goroutine, or add %s to the goroutines that nobody waits for in %s", at, name, concurrencyPage))
				default:
					excused[name] = true
				}
				return true
			})
		}
	}
	for name, line := range listed {
		if !excused[name] {
			found = append(found, fmt.Sprintf("%s:%d: %s starts no goroutine that nobody waits for", concurrencyPage, line, name))
		}
	}
	return found
}

// quoted is a number with the constant that it is of.
var quoted = regexp.MustCompile("([\\d,]+) \\(`(\\w+\\.\\w+)`\\)")

// bounds compares the numbers in the table of queues with the constants of the server that
// are quoted behind them, as in 8 (`cluster.maxMoving`).
func bounds(files []file) []string {
	constants := map[string]string{}
	of := server(files)
	for _, f := range goFiles(files) {
		if !of[f.dir()] || f.isTest() {
			continue
		}
		_, a := f.parse()
		for n := range ast.Preorder(a) {
			s, ok := n.(*ast.ValueSpec)
			if !ok || len(s.Values) != len(s.Names) {
				continue
			}
			for i, name := range s.Names {
				if v, err := types.Eval(token.NewFileSet(), nil, token.NoPos, types.ExprString(s.Values[i])); err == nil && v.Value != nil {
					constants[a.Name.Name+"."+name.Name] = v.Value.ExactString()
				}
			}
		}
	}
	var found []string
	for _, row := range table(files, concurrencyPage, "Queues", "bound") {
		for _, m := range quoted.FindAllStringSubmatch(row.cell, -1) {
			if is := constants[m[2]]; is != strings.ReplaceAll(m[1], ",", "") {
				found = append(found, fmt.Sprintf("%s:%d: %s is %q, not %s", concurrencyPage, row.line, m[2], is, m[1]))
			}
		}
	}
	return found
}

// startsGoroutine tells whether n is a go statement, a call of a group's Go, or
// of AfterFunc.
func startsGoroutine(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GoStmt:
		return true
	case *ast.CallExpr:
		sel, ok := n.Fun.(*ast.SelectorExpr)
		return ok && (sel.Sel.Name == "Go" && len(n.Args) == 1 || sel.Sel.Name == "AfterFunc")
	}
	return false
}

// row is one cell of a table of a page, with the cells beside it.
type row struct {
	line  int
	cell  string   // of the column asked for
	cells []string // all
}

// table reads a column of the first table below a heading of a page.
func table(files []file, name, below, column string) []row {
	var rows []row
	for _, f := range files {
		if f.path != name {
			continue
		}
		at, in := -1, false
		n := 0
		for line := range strings.Lines(f.text) {
			n++
			line = strings.TrimSpace(line)
			if strings.HasPrefix(line, "#") {
				in = strings.TrimLeft(line, "# ") == below
			}
			if !in || !strings.HasPrefix(line, "|") {
				continue
			}
			cells := strings.Split(strings.Trim(line, "|"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			switch {
			case at < 0:
				for i, c := range cells {
					if c == column {
						at = i
					}
				}
			case strings.HasPrefix(line, "|--"), at >= len(cells):
			default:
				rows = append(rows, row{n, cells[at], cells})
			}
		}
	}
	return rows
}

var (
	scheduleTest = regexp.MustCompile(`(?m)^func Test(F\d+)[a-z_]*[A-Z(]`)
	scheduleName = regexp.MustCompile(`^F\d+$`)
)

// schedules compares the table of schedules with the tests that are named after
// them, both ways.
func schedules(files []file) []string {
	tests, listed := map[string]string{}, map[string]bool{}
	for _, f := range files {
		if !strings.HasSuffix(f.path, "_test.go") || f.isLint() {
			continue
		}
		for _, m := range scheduleTest.FindAllStringSubmatch(f.text, -1) {
			tests[m[1]] = f.path
		}
	}
	var found []string
	for _, r := range table(files, concurrencyPage, "Schedules that must not break it", "") {
		if scheduleName.MatchString(r.cell) {
			listed[r.cell] = true
			if tests[r.cell] == "" {
				found = append(found, fmt.Sprintf("%s:%d: no test is named after %s", concurrencyPage, r.line, r.cell))
			}
		}
	}
	for name, at := range tests {
		if !listed[name] {
			found = append(found, fmt.Sprintf("%s: there is no schedule %s in %s", at, name, concurrencyPage))
		}
	}
	return found
}
