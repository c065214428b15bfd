package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"strings"
)

// maxKindChecks is how many places of the server may ask for the kind of a conversation. The
// others ask internal/policy what holds in it.
const maxKindChecks = 5

// kindChecks finds comparisons with a kind of conversations.
func kindChecks(files []file) []string {
	var found []string
	for _, f := range goFiles(files) {
		if f.isTest() || !strings.HasPrefix(f.path, "internal/") || f.dir() == "internal/policy" || f.dir() == "internal/im" {
			continue
		}
		set, parsed := f.parse()
		note := func(x ast.Expr) {
			if namesKind(x) {
				found = append(found, fmt.Sprintf("%s: a check of the kind of a conversation; internal/policy says what holds in it", set.Position(x.Pos())))
			}
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.BinaryExpr:
				if x.Op == token.EQL || x.Op == token.NEQ {
					note(x.X)
					note(x.Y)
				}
			case *ast.CaseClause:
				for _, e := range x.List {
					note(e)
				}
			}
			return true
		})
	}
	if len(found) <= maxKindChecks {
		return nil
	}
	return found
}

// namesKind tells whether an expression is im.Direct or the like, or a ConvKind of the schema.
func namesKind(x ast.Expr) bool {
	if call, ok := x.(*ast.CallExpr); ok && len(call.Args) == 1 { // a conversion
		x = call.Args[0]
	}
	s, ok := x.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	pkg, ok := s.X.(*ast.Ident)
	if !ok {
		return false
	}
	switch s.Sel.Name {
	case "Direct", "Group", "Inbox", "Channel", "Chatroom":
		return pkg.Name == "im"
	}
	return pkg.Name == "petrelv1" && strings.HasPrefix(s.Sel.Name, "ConvKind_")
}
