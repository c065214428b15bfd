package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"strings"
	"unicode/utf8"
)

const (
	maxFileLines     = 1000
	maxFunctionLines = 120
	maxReadmeLines   = 120
	maxColumns       = 120 // a tab counts four
	longText         = 40  // columns of a string in a line, which need not be divided

	// linesPerInterface: a seam costs every reader a jump, so they are few.
	linesPerInterface = 1500
	// maxMethods of an interface that breaks a cycle.
	maxMethods = 3
)

func sizes(files []file) []string {
	var found []string
	for _, f := range goFiles(files) {
		if n := strings.Count(f.text, "\n"); n > maxFileLines {
			found = append(found, fmt.Sprintf("%s: %d lines, at most %d", f.path, n, maxFileLines))
		}
		set, a := f.parse()
		for _, d := range a.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			from, to := set.Position(fn.Pos()), set.Position(fn.End())
			if n := to.Line - from.Line + 1; n > maxFunctionLines {
				found = append(found, fmt.Sprintf("%s: func %s has %d lines, at most %d", from, fn.Name.Name, n, maxFunctionLines))
			}
		}
	}
	return found
}

// columns finds long lines. One with a long string may be longer.
func columns(files []file) []string {
	var found []string
	for _, f := range goFiles(files) {
		if f.isTest() {
			continue
		}
		set, a := f.parse()
		hasText := map[int]bool{} // by line
		ast.Inspect(a, func(n ast.Node) bool {
			s, ok := n.(*ast.BasicLit)
			if !ok || s.Kind != token.STRING {
				return true
			}
			for i, part := range strings.Split(s.Value, "\n") {
				if utf8.RuneCountInString(part) >= longText {
					hasText[set.Position(s.Pos()).Line+i] = true
				}
			}
			return true
		})
		for i, line := range strings.Split(f.text, "\n") {
			n := utf8.RuneCountInString(line) + 3*strings.Count(line, "\t")
			if n > maxColumns && !hasText[i+1] {
				found = append(found, fmt.Sprintf("%s:%d: %d columns, at most %d", f.path, i+1, n, maxColumns))
			}
		}
	}
	return found
}

// layerNames are no nouns of the field.
var layerNames = regexp.MustCompile(`^(.*(util|helper|manager|common)s?|base|processors?|usecases?|ports?)$`)

func packageNames(files []file) []string {
	var found []string
	for _, f := range goFiles(files) {
		_, a := f.parse()
		if name := strings.TrimSuffix(a.Name.Name, "_test"); layerNames.MatchString(name) || layerNames.MatchString(path.Base(f.dir())) {
			found = append(found, fmt.Sprintf("%s: a package is a noun of the field, not %q", f.path, name))
		}
	}
	return found
}

func interfaces(files []file) []string {
	var found []string
	lines, count := 0, 0
	for _, f := range goFiles(files) {
		if f.isTest() {
			continue
		}
		lines += strings.Count(f.text, "\n")
		seam := strings.HasPrefix(f.path, "internal/store/") || strings.HasPrefix(f.path, "internal/bus/")
		set, a := f.parse()
		ast.Inspect(a, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			i, ok := spec.Type.(*ast.InterfaceType)
			if !ok || isConstraint(i) {
				return true
			}
			count++
			if !seam && (spec.Name.IsExported() || i.Methods.NumFields() > maxMethods) {
				found = append(found, fmt.Sprintf("%s: interface %s: outside store and bus only unexported ones of at most %d methods, to break a cycle",
					set.Position(spec.Pos()), spec.Name.Name, maxMethods))
			}
			return true
		})
	}
	// Below that a tree is too small to say anything.
	if allowed := max(2, lines/linesPerInterface); count > allowed {
		found = append(found, fmt.Sprintf("%d interfaces in %d lines of Go, at most %d", count, lines, allowed))
	}
	return found
}

// isConstraint tells whether an interface is a set of types.
func isConstraint(i *ast.InterfaceType) bool {
	for _, m := range i.Methods.List {
		if len(m.Names) == 0 {
			switch m.Type.(type) {
			case *ast.UnaryExpr, *ast.BinaryExpr:
				return true
			}
		}
	}
	return false
}

func initFunctions(files []file) []string {
	var found []string
	for _, f := range goFiles(files) {
		set, a := f.parse()
		for _, d := range a.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				found = append(found, fmt.Sprintf("%s: no init: internal/app wires by calling constructors", set.Position(fn.Pos())))
			}
		}
	}
	return found
}

func readmeLength(files []file) []string {
	for _, f := range files {
		if f.path == "README.md" {
			if n := strings.Count(f.text, "\n"); n > maxReadmeLines {
				return []string{fmt.Sprintf("README.md: %d lines, at most %d", n, maxReadmeLines)}
			}
			return nil
		}
	}
	return []string{"README.md: missing"}
}
