package lint

import (
	"fmt"
	"go/ast"
)

// routing is the package with the table of questions that nodes answer each other.
const routing = "internal/route"

// questions compares the table of questions, Router.answers, with those who ask, both
// ways. A question that is missing there is answered on one node, and fails between
// nodes. The callers of Ask name a method of an owner, and the table has that method.
// Within the package, request names the message that asks, which is the parameter of a
// function in the table.
func questions(files []file) []string {
	asked, answered := map[string]string{}, map[string]string{} // → where
	messages := map[string]string{}                             // function of the package → the message that it answers
	for _, f := range goFiles(files) {
		if f.isTest() || f.isLint() {
			continue
		}
		set, a := f.parse()
		inside := f.dir() == routing
		for _, d := range a.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			if inside {
				messages[fn.Name.Name] = lastParameter(fn)
			}
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				at := set.Position(call.Pos()).String()
				switch name := callee(call); {
				case name == "route.Ask" && !inside || name == "Ask" && inside:
					if len(call.Args) == 5 {
						asked[lastName(call.Args[3])] = at
					}
				case name == "request" && inside:
					if m := firstTypeArgument(call); m != "" {
						asked[m] = at
					}
				case (name == "ofOwner" || name == "ofNode") && fn.Name.Name == "answers" && inside:
					answered[lastName(call.Args[0])] = at
				}
				return true
			})
		}
	}
	var found []string
	for name, at := range answered {
		if m := messages[name]; m != "" && asked[m] != "" {
			asked[name] = asked[m]
			delete(asked, m)
		}
		if asked[name] == "" {
			found = append(found, fmt.Sprintf("%s: nobody asks what %s answers", at, name))
		}
	}
	for name, at := range asked {
		if answered[name] == "" {
			found = append(found, fmt.Sprintf("%s: the question that %s answers is not in Router.answers", at, name))
		}
	}
	return found
}

// callee is the name of a function that is called, with that of its package.
func callee(call *ast.CallExpr) string {
	fun := call.Fun
	switch x := fun.(type) {
	case *ast.IndexExpr:
		fun = x.X
	case *ast.IndexListExpr:
		fun = x.X
	}
	switch x := fun.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		if p, ok := x.X.(*ast.Ident); ok {
			return p.Name + "." + x.Sel.Name
		}
	}
	return ""
}

// firstTypeArgument is the name of the first one, when it is a message.
func firstTypeArgument(call *ast.CallExpr) string {
	if x, ok := call.Fun.(*ast.IndexListExpr); ok {
		if s, ok := x.Indices[0].(*ast.SelectorExpr); ok {
			return s.Sel.Name
		}
	}
	return ""
}

// lastName is what stands last in x, like History in (*conv.Owner).History.
func lastName(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		return x.Sel.Name
	}
	return ""
}

// lastParameter is the name of the type of the last one, when it is a message.
func lastParameter(fn *ast.FuncDecl) string {
	list := fn.Type.Params.List
	if len(list) == 0 {
		return ""
	}
	if p, ok := list[len(list)-1].Type.(*ast.StarExpr); ok {
		return lastName(p.X)
	}
	return ""
}
