package lint

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"slices"
)

// packageVariables finds what changes a package variable, or could: a reader of one need
// not ask what it was set to. A sync.Pool is allowed, and a value that sync.OnceValue
// computes. Tests may share expensive values.
func packageVariables(files []file) []string {
	packages := map[string][]file{}
	for _, f := range goFiles(files) {
		if !f.isTest() {
			packages[f.dir()] = append(packages[f.dir()], f)
		}
	}
	var found []string
	for _, dir := range slices.Sorted(maps.Keys(packages)) {
		found = append(found, storesIn(dir, packages[dir])...)
	}
	return found
}

// nothing imports no package: it is enough to know which names are of this one.
type nothing struct{}

func (nothing) Import(string) (*types.Package, error) { return nil, errors.New("not imported") }

func storesIn(dir string, files []file) []string {
	v := variables{set: token.NewFileSet(), info: types.Info{Uses: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{}}}
	var parsed []*ast.File
	for _, f := range files {
		if a, err := parser.ParseFile(v.set, f.path, f.text, parser.SkipObjectResolution); err == nil {
			parsed = append(parsed, a)
		}
	}
	c := types.Config{Importer: nothing{}, Error: func(error) {}}
	v.pkg, _ = c.Check(dir, v.set, parsed, &v.info) // without its imports it has errors
	for _, a := range parsed {
		for _, d := range a.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.VAR {
				v.declared(g)
			}
		}
		ast.Inspect(a, func(n ast.Node) bool { v.inspect(n); return true })
	}
	return v.found
}

// variables looks for stores in one package.
type variables struct {
	set   *token.FileSet
	info  types.Info
	pkg   *types.Package
	found []string
}

func (v *variables) finding(n ast.Node, format string, args ...any) {
	v.found = append(v.found, fmt.Sprintf("%s: %s", v.set.Position(n.Pos()), fmt.Sprintf(format, args...)))
}

// declared finds variables that are there to change: locks and atomics.
func (v *variables) declared(g *ast.GenDecl) {
	for _, s := range g.Specs {
		spec := s.(*ast.ValueSpec)
		for _, of := range append([]ast.Expr{spec.Type}, spec.Values...) {
			if of != spec.Type {
				of = typeOf(of)
			}
			if of == nil {
				continue
			}
			ast.Inspect(of, func(n ast.Node) bool {
				if sel, ok := n.(*ast.SelectorExpr); ok {
					if x, ok := sel.X.(*ast.Ident); ok && (x.Name == "atomic" || x.Name == "sync" && sel.Sel.Name != "Pool") {
						v.finding(spec, "package variable %s has a %s.%s, which is there to change", spec.Names[0].Name, x.Name, sel.Sel.Name)
					}
				}
				return true
			})
		}
	}
}

// typeOf returns the type that a value names: of T{}, &T{} and new(T).
func typeOf(value ast.Expr) ast.Expr {
	switch x := value.(type) {
	case *ast.UnaryExpr:
		return typeOf(x.X)
	case *ast.CompositeLit:
		return x.Type
	case *ast.CallExpr:
		if f, ok := x.Fun.(*ast.Ident); ok && f.Name == "new" {
			return x.Args[0]
		}
	}
	return nil
}

func (v *variables) inspect(n ast.Node) {
	switch n := n.(type) {
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			for _, to := range n.Lhs {
				v.stored(to)
			}
		}
	case *ast.IncDecStmt:
		v.stored(n.X)
	case *ast.RangeStmt:
		if n.Tok == token.ASSIGN {
			v.stored(n.Key)
			v.stored(n.Value)
		}
	case *ast.UnaryExpr:
		if n.Op == token.AND {
			if name := v.variable(n.X); name != "" {
				v.finding(n, "the address of package variable %s is taken: whoever has it may store to it", name)
			}
		}
	case *ast.CallExpr:
		if f, ok := n.Fun.(*ast.Ident); ok && len(n.Args) > 0 && (f.Name == "delete" || f.Name == "clear" || f.Name == "copy") {
			v.stored(n.Args[0])
		}
	case *ast.SelectorExpr:
		if s := v.info.Selections[n]; s != nil && s.Kind() == types.MethodVal {
			to := s.Obj().Type().(*types.Signature).Recv().Type()
			if _, ok := to.(*types.Pointer); ok && !pointer(s.Recv()) {
				if name := v.variable(n.X); name != "" {
					v.finding(n, "method %s may store to package variable %s", n.Sel.Name, name)
				}
			}
		}
	}
}

func pointer(t types.Type) bool {
	_, ok := t.Underlying().(*types.Pointer)
	return ok
}

func (v *variables) stored(to ast.Expr) {
	if name := v.variable(to); name != "" {
		v.finding(to, "stores to package variable %s", name)
	}
}

// variable returns the name of the package variable of which an expression is
// the value or a part; "": of none.
func (v *variables) variable(e ast.Expr) string {
	for {
		switch x := e.(type) {
		case *ast.ParenExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.SliceExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.SelectorExpr:
			if p, ok := x.X.(*ast.Ident); ok {
				if _, ok := v.info.Uses[p].(*types.PkgName); ok {
					return p.Name + "." + x.Sel.Name
				}
			}
			e = x.X
		case *ast.Ident:
			if o, ok := v.info.Uses[x].(*types.Var); ok && o.Parent() == v.pkg.Scope() {
				return x.Name
			}
			return ""
		default:
			return ""
		}
	}
}
