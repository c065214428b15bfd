package lint

import (
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// names is what a tree declares, to look references up in.
type names struct {
	paths    map[string]bool     // every file and folder, from the root
	bases    map[string]bool     // the last elements of paths
	packages map[string][]*scope // by name; several commands are called main
	folders  map[string]*scope   // by folder
	words    map[string]bool     // every identifier that is declared anywhere
	messages map[string]*message // of the schemas, and their services, by name
	extends  map[string]string   // the class that a class of TypeScript extends
	options  map[string]bool     // of the configuration, "section.name"
	sections map[string]bool     // of the configuration
}

// scope is one package.
type scope struct {
	dir     string
	imports map[string]string   // name in a file of it → folder
	types   map[string]ast.Expr // its types
	methods map[string]map[string]*ast.FuncDecl
	objects map[string]bool // functions, variables and constants
	words   map[string]bool // all that it declares, fields too
}

// message is a message or a service of a schema.
type message struct{ members map[string]bool }

var (
	protoBlock   = regexp.MustCompile(`^\s*(message|service|enum) (\w+) \{`)
	protoMember  = regexp.MustCompile(`^\s*(?:rpc (\w+)\(|(?:[\w.<>, ]+ )?(\w+) = \d+[ ;])`)
	scriptBlock  = regexp.MustCompile(`^(?:export )?(?:abstract )?(class|interface|function|const|type) (\w+)`)
	scriptBase   = regexp.MustCompile(`class (\w+)(?:<[^>]*>)? extends (\w+)`)
	scriptMember = regexp.MustCompile(`^  (?:(?:readonly|async|abstract|override|protected|get) )*\*?(\w+)[?(<:!]`)
	optionName   = regexp.MustCompile(`"(([a-z]+)\.[a-z0-9_]+)"`)
)

// optionsFile declares the options.
const optionsFile = "internal/config/options.go"

func newNames(files []file) *names {
	n := &names{
		paths: map[string]bool{".": true}, bases: map[string]bool{}, packages: map[string][]*scope{}, folders: map[string]*scope{},
		words: map[string]bool{}, messages: map[string]*message{}, extends: map[string]string{}, options: map[string]bool{}, sections: map[string]bool{},
	}
	for _, f := range files {
		for p := f.path; p != "."; p = path.Dir(p) {
			n.paths[p], n.bases[path.Base(p)] = true, true
		}
		switch {
		case f.isGo() && !f.isGenerated():
			n.addGo(f)
		case strings.HasSuffix(f.path, ".proto"):
			n.addProto(f)
		case strings.HasSuffix(f.path, ".ts") && !strings.HasSuffix(f.path, "_gen.ts"):
			n.addScript(f)
		}
		if f.path == optionsFile {
			for _, m := range optionName.FindAllStringSubmatch(f.text, -1) {
				n.options[m[1]], n.sections[m[2]] = true, true
			}
		}
	}
	return n
}

func (n *names) addGo(f file) {
	_, a := f.parse()
	s := n.folders[f.dir()]
	if s == nil {
		s = &scope{f.dir(), map[string]string{}, map[string]ast.Expr{}, map[string]map[string]*ast.FuncDecl{}, map[string]bool{}, map[string]bool{}}
		n.folders[f.dir()] = s
		name := strings.TrimSuffix(a.Name.Name, "_test")
		n.packages[name] = append(n.packages[name], s)
	}
	for _, i := range a.Imports {
		if p, err := strconv.Unquote(i.Path.Value); err == nil && strings.HasPrefix(p, module+"/") {
			dir := strings.TrimPrefix(p, module+"/")
			s.imports[path.Base(dir)] = dir
			if i.Name != nil {
				s.imports[i.Name.Name] = dir
			}
		}
	}
	for _, d := range a.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			n.declare(s, d.Name)
			if d.Recv == nil {
				s.objects[d.Name.Name] = true
				break
			}
			of := receiver(d)
			if s.methods[of] == nil {
				s.methods[of] = map[string]*ast.FuncDecl{}
			}
			s.methods[of][d.Name.Name] = d
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					if s.types[spec.Name.Name] == nil { // else it is that of another system
						s.types[spec.Name.Name] = spec.Type
					}
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						s.objects[name.Name] = true
					}
				}
			}
		}
	}
	// Fields, methods of interfaces, and what functions declare for themselves.
	ast.Inspect(a, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.Field:
			n.declare(s, node.Names...)
		case *ast.ValueSpec:
			n.declare(s, node.Names...)
		case *ast.TypeSpec:
			n.declare(s, node.Name)
		case *ast.AssignStmt:
			for _, left := range node.Lhs {
				if id, ok := left.(*ast.Ident); ok && node.Tok == token.DEFINE {
					n.declare(s, id)
				}
			}
		}
		return true
	})
}

func (n *names) declare(s *scope, ids ...*ast.Ident) {
	for _, id := range ids {
		s.words[id.Name], n.words[id.Name] = true, true
	}
}

// receiver is the name of a method's type; "": a function.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return ""
	}
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// addScript adds what TypeScript declares outside of functions.
func (n *names) addScript(f file) {
	var open *message // a class or an interface
	for line := range strings.Lines(f.text) {
		if m := scriptBlock.FindStringSubmatch(line); m != nil {
			n.words[m[2]] = true
			if m[1] != "class" && m[1] != "interface" {
				continue
			}
			if n.messages[m[2]] == nil {
				n.messages[m[2]] = &message{map[string]bool{}}
			}
			open = n.messages[m[2]]
			if m := scriptBase.FindStringSubmatch(line); m != nil {
				n.extends[m[1]] = m[2]
			}
		} else if strings.HasPrefix(line, "}") {
			open = nil
		}
		if m := scriptMember.FindStringSubmatch(line); m != nil && open != nil {
			n.words[m[1]], open.members[m[1]] = true, true
		}
	}
}

func (n *names) addProto(f file) {
	var open []*message
	for line := range strings.Lines(f.text) {
		line, _, _ = strings.Cut(line, "//")
		if m := protoBlock.FindStringSubmatch(line); m != nil {
			if n.messages[m[2]] == nil {
				n.messages[m[2]] = &message{map[string]bool{}}
			}
			n.words[m[2]] = true
			open = append(open, n.messages[m[2]])
		} else if strings.Contains(line, "{") {
			open = append(open, nil) // a oneof, or the options of a method: its members are those of the message
		}
		if m := protoMember.FindStringSubmatch(line); m != nil {
			for i := len(open) - 1; i >= 0; i-- {
				if open[i] != nil {
					for _, w := range spellings(m[1] + m[2]) {
						open[i].members[w], n.words[w] = true, true
					}
					break
				}
			}
		}
		for range strings.Count(line, "}") {
			open = open[:max(0, len(open)-1)]
		}
	}
}

// spellings are the ways in which the name of a field is written: as in the
// schema, in JSON, in Go.
func spellings(name string) []string {
	var camel strings.Builder
	for i, part := range strings.Split(name, "_") {
		if i > 0 && part != "" {
			part = strings.ToUpper(part[:1]) + part[1:]
		}
		camel.WriteString(part)
	}
	c := camel.String()
	if c == "" {
		return []string{name}
	}
	return []string{name, c, strings.ToUpper(c[:1]) + c[1:]}
}

// find reports whether a dotted name exists: package.Object, Type.member, a
// member of that member's type, or package.Type.member. in is the package to
// look in first for a type; nil: any.
func (n *names) find(in *scope, name string) bool {
	parts := strings.Split(name, ".")
	if in != nil {
		if t, ok := in.types[parts[0]]; ok {
			return n.member(in, parts[0], t, parts[1:])
		}
	}
	for _, s := range n.packages[parts[0]] {
		if t, ok := s.types[parts[1]]; ok && n.member(s, parts[1], t, parts[2:]) || s.objects[parts[1]] && len(parts) == 2 {
			return true
		}
	}
	for _, s := range n.folders {
		if t, ok := s.types[parts[0]]; ok && n.member(s, parts[0], t, parts[1:]) {
			return true
		}
	}
	return len(parts) == 2 && n.hasMember(parts[0], parts[1])
}

// hasMember reports whether a message, a service, an interface or class, or a class that it extends has a member.
func (n *names) hasMember(of, member string) bool {
	for ; of != ""; of = n.extends[of] {
		if m := n.messages[of]; m != nil && m.members[member] {
			return true
		}
	}
	return false
}

// member reports whether a type has what rest names. name is the type's, ""
// when it has none.
func (n *names) member(s *scope, name string, t ast.Expr, rest []string) bool {
	if len(rest) == 0 {
		return true
	}
	if _, ok := s.methods[name][rest[0]]; ok {
		return len(rest) == 1
	}
	switch t := t.(type) {
	case *ast.StarExpr:
		return n.member(s, "", t.X, rest)
	case *ast.ParenExpr:
		return n.member(s, "", t.X, rest)
	case *ast.ArrayType:
		return n.member(s, "", t.Elt, rest)
	case *ast.MapType:
		return n.member(s, "", t.Value, rest)
	case *ast.ChanType:
		return n.member(s, "", t.Value, rest)
	case *ast.IndexExpr: // a generic type: what it holds
		return n.member(s, "", t.X, rest) || n.member(s, "", t.Index, rest)
	case *ast.Ident:
		if of, ok := s.types[t.Name]; ok && t.Name != name {
			return n.member(s, t.Name, of, rest)
		}
	case *ast.SelectorExpr:
		if pkg, ok := t.X.(*ast.Ident); ok {
			if to := n.folders[s.imports[pkg.Name]]; to != nil {
				return n.member(to, t.Sel.Name, to.types[t.Sel.Name], rest)
			}
		}
	case *ast.InterfaceType:
		return n.field(s, t.Methods, rest)
	case *ast.StructType:
		return n.field(s, t.Fields, rest)
	}
	return false
}

func (n *names) field(s *scope, list *ast.FieldList, rest []string) bool {
	for _, f := range list.List {
		for _, id := range f.Names {
			if id.Name == rest[0] {
				return n.member(s, "", f.Type, rest[1:])
			}
		}
		if len(f.Names) == 0 && (embedded(f.Type) == rest[0] && n.member(s, "", f.Type, rest[1:]) || n.member(s, "", f.Type, rest)) {
			return true
		}
	}
	return false
}

// embedded is the field's name of an embedded type.
func embedded(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return embedded(t.X)
	case *ast.IndexExpr:
		return embedded(t.X)
	case *ast.Ident:
		return t.Name
	case *ast.SelectorExpr:
		return t.Sel.Name
	}
	return ""
}

// isType reports whether any package, or a schema, has a type of this name.
func (n *names) isType(name string) bool {
	for _, s := range n.folders {
		if _, ok := s.types[name]; ok {
			return true
		}
	}
	return n.messages[name] != nil
}

// at reports whether a path exists from the root, from internal/, or from one
// of some folders; a folder may end in a slash.
func (n *names) at(p string, from ...string) bool {
	for _, dir := range append([]string{".", "internal"}, from...) {
		if n.paths[path.Join(dir, p)] {
			return true
		}
	}
	return false
}

// begins reports whether a path of the tree begins so, as "docs/decisions/003" does.
func (n *names) begins(prefix string) bool {
	for p := range n.paths {
		if strings.HasPrefix(p, prefix) {
			return true
		}
	}
	return false
}
