package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// module is the import path of the tree's root.
const module = "github.com/petrel-im/petrel"

// file is one file of the tree.
type file struct {
	path string // from the root, with slashes
	text string // empty when it is not text
}

// rule finds what breaks it. A finding is "path:line: what", or "path: what".
type rule func([]file) []string

// tree reads the files of the project: not what is built, downloaded or stored.
func tree(t *testing.T) []file {
	t.Helper()
	root := filepath.Join("..", "..")
	var files []file
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			switch {
			case rel == ".git", rel == "build", d.Name() == "petrel-data", d.Name() == "node_modules", rel == "sdk/ts/dist", rel == "web/embed/dist", rel == "internal/web/dist", d.Name() == "__pycache__", d.Name() == "testdata":
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() {
			return nil
		}
		if !isText(rel) {
			files = append(files, file{path: rel})
			return nil
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		files = append(files, file{rel, string(b)})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func isText(name string) bool {
	switch path.Ext(name) {
	case ".go", ".proto", ".yaml", ".yml", ".md", ".sh", ".py", ".js", ".mjs", ".ts", ".txt", ".toml", ".json", ".mod", ".service":
		return true
	}
	switch path.Base(name) {
	case "Makefile", "run", ".gitignore":
		return true
	}
	return false
}

func (f file) isGo() bool { return strings.HasSuffix(f.path, ".go") }

// isTest tells whether f runs in tests only. Packages named …test, and those in their
// folders, are what tests of other packages use.
func (f file) isTest() bool {
	return strings.HasSuffix(f.path, "_test.go") || strings.Contains(f.path, "test/")
}

func (f file) dir() string { return path.Dir(f.path) }

// isGenerated tells whether f was written by a program.
func (f file) isGenerated() bool {
	for line := range strings.Lines(f.text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "// Code generated ") && strings.HasSuffix(line, " DO NOT EDIT.") {
			return true
		}
		if strings.HasPrefix(line, "package ") {
			break
		}
	}
	return false
}

// isLint tells whether f belongs to this package, which has to spell out what
// it forbids.
func (f file) isLint() bool { return f.dir() == "internal/lint" }

// parse reads a Go file; one that does not parse has no declarations here and
// is the compiler's business.
func (f file) parse() (*token.FileSet, *ast.File) {
	set := token.NewFileSet()
	a, err := parser.ParseFile(set, f.path, f.text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return set, &ast.File{Name: ast.NewIdent("")}
	}
	return set, a
}

// goFiles are the Go files that people write.
func goFiles(files []file) []file {
	var out []file
	for _, f := range files {
		if f.isGo() && !f.isGenerated() {
			out = append(out, f)
		}
	}
	return out
}
