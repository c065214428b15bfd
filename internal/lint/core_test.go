package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// coreTypes are those of the core of the Go SDK. Every file that has a method of one of them
// is a part of the core.
var coreTypes = []string{"core", "conv", "live", "outgoing", "places", "pulse", "reach"}

// coreImports are what the core may import of the standard library: nothing with sockets,
// files, locks or randomness.
var coreImports = []string{"cmp", "encoding/json", "errors", "fmt", "maps", "net/url", "slices", "strconv", "strings", "time", "unicode/utf8"}

// clock are the functions of package time that ask the clock or wait for it.
var clock = []string{"Now", "Since", "Until", "After", "AfterFunc", "NewTimer", "NewTicker", "Sleep", "Tick"}

// pureCore finds what makes the core of the Go SDK more than a function of its inputs: then
// sdk/conformance could not drive it.
func pureCore(files []file) []string {
	var found []string
	for _, f := range goFiles(files) {
		if f.dir() != strings.TrimSuffix(sdk, "/") || f.isTest() {
			continue
		}
		set, a := f.parse()
		if !slices.ContainsFunc(a.Decls, isOfCore) {
			continue
		}
		tell := func(at token.Pos, what string) {
			found = append(found, fmt.Sprintf("%s: the core of the SDK has %s", set.Position(at), what))
		}
		for _, spec := range a.Imports {
			if name, err := strconv.Unquote(spec.Path.Value); err == nil && isStandard(name) && !slices.Contains(coreImports, name) {
				tell(spec.Pos(), "no use of "+name)
			}
		}
		ast.Inspect(a, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				tell(n.Pos(), "no goroutines")
			case *ast.ChanType, *ast.SendStmt, *ast.SelectStmt:
				tell(n.Pos(), "no channels")
			case *ast.StarExpr:
				if id, ok := n.X.(*ast.Ident); ok && id.Name == "Client" {
					tell(n.Pos(), "no Client, which drives it")
				}
			case *ast.SelectorExpr:
				if id, ok := n.X.(*ast.Ident); ok && id.Name == "time" && slices.Contains(clock, n.Sel.Name) {
					tell(n.Pos(), "no clock of its own: it is told the time")
				}
			}
			return true
		})
	}
	return found
}

func isOfCore(d ast.Decl) bool {
	fn, ok := d.(*ast.FuncDecl)
	if !ok || fn.Recv == nil {
		return false
	}
	t := fn.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	id, ok := t.(*ast.Ident)
	return ok && slices.Contains(coreTypes, id.Name)
}
