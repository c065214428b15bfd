package sabotage

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"
)

// choice is the file that each overlaid package gets.
const choice = `package %s

import "os"

var brokenRule = os.Getenv("BROKEN_RULE")
`

// overlay returns the text of each file that the rules patch, and of the files
// that are added to their packages, by path from the root of the module.
func overlay(rules []rule, read func(file string) (string, error)) (map[string]string, error) {
	byFile := map[string][]rule{}
	for _, r := range rules {
		for _, p := range r.patches {
			if !slices.ContainsFunc(byFile[p.file], func(have rule) bool { return have.name == r.name }) {
				byFile[p.file] = append(byFile[p.file], r)
			}
		}
	}
	files := map[string]string{}
	var faults []error
	for name, rules := range byFile {
		text, err := read(name)
		if err != nil {
			faults = append(faults, fmt.Errorf("rule %s: %w", rules[0].name, err))
			continue
		}
		patched, pkg, err := breakable(name, text, rules)
		faults = append(faults, err)
		files[name] = patched
		files[path.Dir(name)+"/broken_rule.go"] = fmt.Sprintf(choice, pkg)
	}
	return files, errors.Join(faults...)
}

// breakable returns the text of a file in which each function that a rule
// patches has a second one, which is patched, at the end of the file. The
// function calls it when that rule is chosen. So a patch is plain wrong code,
// and two rules may patch the same line.
func breakable(name, text string, rules []rule) (patched, pkg string, err error) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
	if err != nil {
		return "", "", err
	}
	var faults []error
	calls := map[*ast.FuncDecl]string{}
	var copies strings.Builder
	for _, r := range rules {
		edits := map[*ast.FuncDecl][]edit{}
		for _, p := range r.patches {
			if p.file != name {
				continue
			}
			from, to, err := p.find(text)
			if err != nil {
				faults = append(faults, fmt.Errorf("rule %s: %w", r.name, err))
				continue
			}
			fn := enclosing(f, token.Pos(from+int(f.FileStart)), token.Pos(to+int(f.FileStart)))
			if fn == nil {
				faults = append(faults, fmt.Errorf("rule %s: %s:%d: the patch is not inside a function", r.name, name, lineAt(text, from)))
				continue
			}
			edits[fn] = append(edits[fn], edit{from, to, p.new})
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || edits[fn] == nil {
				continue
			}
			start, end := set.Position(fn.Pos()).Offset, set.Position(fn.End()).Offset
			id := fn.Name.Name + "_broken_" + strings.ReplaceAll(r.name, "-", "_")
			at := set.Position(fn.Name.Pos()).Offset
			fmt.Fprintf(&copies, "\n%s\n", apply(text[start:end], start, append(edits[fn], edit{at, at + len(fn.Name.Name), id})))
			call, err := forward(fn, id)
			if err != nil {
				faults = append(faults, fmt.Errorf("rule %s: %s: %w", r.name, set.Position(fn.Pos()), err))
			}
			calls[fn] += fmt.Sprintf(" if brokenRule == %q { %s };", r.name, call)
		}
	}
	var edits []edit
	for fn, call := range calls {
		at := set.Position(fn.Body.Lbrace).Offset + 1
		edits = append(edits, edit{at, at, call})
	}
	return apply(text, 0, edits) + copies.String(), f.Name.Name, errors.Join(faults...)
}

// enclosing returns the function whose body holds from to to.
func enclosing(f *ast.File, from, to token.Pos) *ast.FuncDecl {
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil && fn.Body.Lbrace < from && to <= fn.Body.Rbrace {
			return fn
		}
	}
	return nil
}

// forward is the statement by which a function calls the one of that name, with
// what it was called with, and returns.
func forward(fn *ast.FuncDecl, name string) (string, error) {
	if fn.Recv != nil {
		if fn.Recv.List[0].Names == nil {
			return "", fmt.Errorf("the receiver of %s needs a name", fn.Name.Name)
		}
		name = fn.Recv.List[0].Names[0].Name + "." + name
	}
	var args []string
	for _, p := range fn.Type.Params.List {
		for _, n := range p.Names {
			arg := n.Name
			if _, many := p.Type.(*ast.Ellipsis); many {
				arg += "..."
			}
			args = append(args, arg)
		}
		if p.Names == nil || slices.Contains(args, "_") {
			return "", fmt.Errorf("the parameters of %s need names", fn.Name.Name)
		}
	}
	call := name + "(" + strings.Join(args, ", ") + ")"
	if fn.Type.Results == nil {
		return call + "; return", nil
	}
	return "return " + call, nil
}

// edit replaces what stands between two offsets of a file.
type edit struct {
	from, to int
	text     string
}

// apply makes edits in a part of a file that begins at the offset start.
func apply(part string, start int, edits []edit) string {
	slices.SortFunc(edits, func(a, b edit) int { return b.from - a.from })
	for _, e := range edits {
		part = part[:e.from-start] + e.text + part[e.to-start:]
	}
	return part
}
