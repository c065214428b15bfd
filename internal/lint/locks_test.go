package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// lock is a mutex: a field, or a variable of a function or package.
type lock struct {
	name  string // package.Type.field, or package.variable
	tier  int    // -1: none is said
	field bool
	at    token.Pos
}

var (
	tierComment = regexp.MustCompile(`\btier (\d+)\b`)
	guardsList  = regexp.MustCompile(`\bguards (\w+(?:, \w+)*(?: and \w+)?)\s*(?:[.;,]|$)`)
)

// locks are the mutexes of some code, by the variable or field that they are.
func (c *checked) locks() map[types.Object]*lock {
	out := map[types.Object]*lock{}
	for _, p := range c.packages {
		add := func(prefix string, names []*ast.Ident, t ast.Expr, field bool, comments ...*ast.CommentGroup) {
			if !isMutex(t) {
				return
			}
			for _, id := range names {
				l := &lock{prefix + "." + id.Name, -1, field, id.Pos()}
				for _, g := range comments {
					if m := tierComment.FindStringSubmatch(g.Text()); m != nil {
						l.tier, _ = strconv.Atoi(m[1]) // digits
					}
				}
				if obj := c.info.Defs[id]; obj != nil {
					out[obj] = l
				}
			}
		}
		var fields func(prefix string, t ast.Expr)
		fields = func(prefix string, t ast.Expr) {
			s, ok := t.(*ast.StructType)
			if !ok {
				return
			}
			for _, f := range s.Fields.List {
				add(prefix, f.Names, f.Type, true, f.Comment, f.Doc)
				for _, id := range f.Names {
					fields(prefix+"."+id.Name, f.Type)
				}
			}
		}
		for _, a := range p.files {
			ast.Inspect(a, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.TypeSpec:
					fields(p.name()+"."+n.Name.Name, n.Type)
				case *ast.ValueSpec:
					add(p.name(), n.Names, n.Type, false, n.Comment, n.Doc)
				}
				return true
			})
		}
	}
	return out
}

func (p *checkedPackage) name() string { return p.files[0].Name.Name }

func isMutex(t ast.Expr) bool {
	sel, ok := t.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := sel.X.(*ast.Ident)
	return ok && x.Name == "sync" && (sel.Sel.Name == "Mutex" || sel.Sel.Name == "RWMutex")
}

// lockTable compares the table of locks with the code, both ways. Every mutex
// says its tier in a comment; every field of the server that is one has a row of
// that tier, which names it as `package.Type.field`; and what a row names that
// ends in mu, or …Mu, is such a field. Other locks, as channels of one place,
// only have to exist. A comment "guards a, b and c" names fields beside the
// lock, or variables beside it.
func lockTable(files []file) []string {
	c := check(files)
	rows := map[string]int{} // name → tier
	var found []string
	for _, r := range table(files, concurrencyPage, "Locks", "lock") {
		tier, err := strconv.Atoi(r.cells[0])
		if err != nil {
			found = append(found, fmt.Sprintf("%s:%d: %q is no tier", concurrencyPage, r.line, r.cells[0]))
			continue
		}
		for _, m := range codeSpan.FindAllStringSubmatch(r.cell, -1) {
			rows[m[1]] = tier
		}
	}
	listed, of := map[string]bool{}, server(files)
	for _, l := range c.locks() {
		at := c.set.Position(l.at)
		switch tier, ok := rows[l.name]; {
		case l.tier < 0:
			found = append(found, fmt.Sprintf("%s: %s does not say its tier", at, l.name))
		case !l.field, !of[path.Dir(at.Filename)]:
			continue
		case !ok:
			found = append(found, fmt.Sprintf("%s: %s has no row in %s", at, l.name, concurrencyPage))
		case tier != l.tier:
			found = append(found, fmt.Sprintf("%s: %s is of tier %d here and of tier %d in %s", at, l.name, l.tier, tier, concurrencyPage))
		}
		listed[l.name] = true
	}
	for name := range rows {
		if lockWord.MatchString(name) && !listed[name] {
			found = append(found, fmt.Sprintf("%s: there is no lock %s", concurrencyPage, name))
		}
	}
	return append(found, c.guarded()...)
}

// guarded finds comments at locks that name what is not beside them.
func (c *checked) guarded() []string {
	var found []string
	look := func(comment *ast.CommentGroup, known map[string]bool) {
		for _, m := range guardsList.FindAllStringSubmatch(comment.Text(), -1) {
			for _, name := range regexp.MustCompile(`, | and `).Split(m[1], -1) {
				if !known[name] {
					found = append(found, fmt.Sprintf("%s: comment: there is no %s beside the lock", c.set.Position(comment.Pos()), name))
				}
			}
		}
	}
	for _, p := range c.packages {
		for _, a := range p.files {
			ast.Inspect(a, func(n ast.Node) bool {
				known := map[string]bool{}
				switch n := n.(type) {
				case *ast.StructType:
					for _, f := range n.Fields.List {
						for _, id := range f.Names {
							known[id.Name] = true
						}
					}
					for _, f := range n.Fields.List {
						if isMutex(f.Type) {
							look(f.Comment, known)
						}
					}
				case *ast.FuncDecl:
					if n.Body == nil {
						break
					}
					ast.Inspect(n, func(n ast.Node) bool {
						if id, ok := n.(*ast.Ident); ok && c.info.Defs[id] != nil {
							known[id.Name] = true
						}
						return true
					})
					ast.Inspect(n, func(n ast.Node) bool {
						if v, ok := n.(*ast.ValueSpec); ok && isMutex(v.Type) {
							look(v.Comment, known)
						}
						return true
					})
				}
				return true
			})
		}
	}
	return found
}

// lockOrder finds locks that are taken while one of the same or a lower tier is
// held. It reads each function in the order of its statements, with the locks
// that it may hold at each; a function whose name ends in Locked begins with the
// lock of its receiver, or of a parameter. A call takes what the function called may take, also by
// further calls. A function that is handed to one of ours that calls it, or to
// one of a library, is called at once, with what the callee holds then; others
// are read as if nothing were held, and so are those of new goroutines. Calls
// through interfaces and of stored functions are not followed.
//
// And it finds comments that say which lock guards a field or a type, when that
// lock is held at no place that uses the field, or any of the type.
func lockOrder(files []file) []string {
	c := check(files)
	w := &lockWalk{c: c, locks: c.locks(), claims: c.claims(), found: map[string]bool{}, of: map[*types.Func]*lockUse{}}
	for _, p := range c.packages {
		for _, a := range p.files {
			for _, d := range a.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
					if obj, ok := c.info.Defs[fn.Name].(*types.Func); ok {
						w.of[obj] = &lockUse{decl: fn, takes: map[*lock]bool{}, lends: map[*lock]bool{}}
					}
				}
			}
		}
	}
	for w.grown = true; w.grown; { // until nobody takes more than is known
		w.grown = false
		for obj, use := range w.of {
			w.function(obj, use)
		}
	}
	w.judging = true
	for obj, use := range w.of {
		w.function(obj, use)
	}
	for _, cl := range w.claims {
		if cl.used && !cl.heldOf {
			w.found[fmt.Sprintf("%s: %s is held nowhere where what it guards is used", c.set.Position(cl.at), cl.lock)] = true
		}
	}
	return slices.Sorted(maps.Keys(w.found))
}

// lockUse is what a function does with locks.
type lockUse struct {
	decl  *ast.FuncDecl
	takes map[*lock]bool // what it and those that it calls may take
	runs  bool           // it calls a function that it was given
	lends map[*lock]bool // what it may hold then
}

// claim is a comment that says which lock guards some fields.
type claim struct {
	lock         string // its name without the package
	at           token.Pos
	used, heldOf bool // a field of it is used; while the lock is held
}

var claimWords = regexp.MustCompile(`(?i:\bguarded by ((?:\w+\.)*mu)\b)|\b((?:\w+\.)+mu) guards (?:it|all of it)\b`)

// claims are the comments "guarded by X.mu", of one field or of those up to the
// next one with a comment above it, and "guarded by X.mu" or "X.mu guards it" of
// a type.
func (c *checked) claims() map[types.Object]*claim {
	out := map[types.Object]*claim{}
	said := func(g *ast.CommentGroup, name string) *claim {
		m := claimWords.FindStringSubmatch(g.Text())
		if m == nil {
			return nil
		}
		lock := m[1] + m[2]
		if lock == "mu" {
			lock = name + ".mu"
		}
		return &claim{lock: lock, at: g.Pos()}
	}
	for _, p := range c.packages {
		for _, a := range p.files {
			for _, d := range a.Decls {
				decl, ok := d.(*ast.GenDecl)
				if !ok {
					continue
				}
				for _, spec := range decl.Specs {
					t, ok := spec.(*ast.TypeSpec)
					if !ok {
						continue
					}
					s, ok := t.Type.(*ast.StructType)
					if !ok {
						continue
					}
					all := said(decl.Doc, t.Name.Name)
					if all != nil {
						out[c.info.Defs[t.Name]] = all
					}
					var group *claim
					for _, f := range s.Fields.List {
						if f.Doc != nil {
							group = said(f.Doc, t.Name.Name)
						}
						for _, cl := range []*claim{all, group, said(f.Comment, t.Name.Name)} {
							if cl == nil {
								continue
							}
							for _, id := range f.Names {
								out[c.info.Defs[id]] = cl
							}
						}
					}
				}
			}
		}
	}
	return out
}

type lockWalk struct {
	c       *checked
	locks   map[types.Object]*lock
	claims  map[types.Object]*claim
	of      map[*types.Func]*lockUse
	grown   bool
	judging bool
	found   map[string]bool

	use  *lockUse // being read
	held []*lock
}

func (w *lockWalk) function(obj *types.Func, use *lockUse) {
	w.use, w.held = use, nil
	if strings.HasSuffix(obj.Name(), "Locked") {
		w.held = w.given(obj.Signature())
	}
	w.block(use.decl.Body.List)
}

// given is the lock that a receiver or a parameter has; none if several have one,
// for then it is not said which one is held.
func (w *lockWalk) given(s *types.Signature) []*lock {
	var out []*lock
	look := func(v *types.Var) {
		t := v.Type()
		if p, ok := t.(*types.Pointer); ok {
			t = p.Elem()
		}
		if s, ok := t.Underlying().(*types.Struct); ok {
			for f := range s.Fields() {
				if l := w.locks[f.Origin()]; l != nil {
					out = append(out, l)
				}
			}
		}
	}
	if s.Recv() != nil {
		look(s.Recv())
	}
	for v := range s.Params().Variables() {
		look(v)
	}
	if len(out) > 1 {
		return nil
	}
	return out
}

// take notes that a lock is taken, by a call of what when that is not "".
func (w *lockWalk) take(l *lock, at token.Pos, by string) {
	if !w.use.takes[l] {
		w.use.takes[l], w.grown = true, true
	}
	if !w.judging {
		return
	}
	for _, h := range w.held {
		if l.tier >= h.tier {
			w.found[fmt.Sprintf("%s: %s of tier %d is taken%s while %s of tier %d is held", w.c.set.Position(at), l.name, l.tier, by, h.name, h.tier)] = true
		}
	}
}

// block reads statements and reports whether they end what they stand in.
func (w *lockWalk) block(list []ast.Stmt) bool {
	for _, s := range list {
		if w.statement(s) {
			return true
		}
	}
	return false
}

// branches reads several ways to go on. After them, each lock that a branch holds at its
// end may be held.
func (w *lockWalk) branches(ways ...func() bool) bool {
	before, ended := w.held, true
	var after []*lock
	for _, way := range ways {
		w.held = slices.Clone(before)
		if !way() {
			ended = false
			for _, l := range w.held {
				if !slices.Contains(after, l) {
					after = append(after, l)
				}
			}
		}
	}
	w.held = after
	return ended
}

func (w *lockWalk) statement(s ast.Stmt) bool {
	nothing := func() bool { return false }
	switch s := s.(type) {
	case nil:
	case *ast.BlockStmt:
		return w.block(s.List)
	case *ast.LabeledStmt:
		return w.statement(s.Stmt)
	case *ast.IfStmt:
		w.statement(s.Init)
		w.expression(s.Cond)
		other := nothing
		if s.Else != nil {
			other = func() bool { return w.statement(s.Else) }
		}
		return w.branches(func() bool { return w.block(s.Body.List) }, other)
	case *ast.ForStmt:
		w.statement(s.Init)
		w.expression(s.Cond)
		body := func() bool {
			w.block(s.Body.List)
			w.statement(s.Post)
			return false
		}
		if s.Cond == nil { // it is left by break, with what the body holds
			return w.branches(body)
		}
		return w.branches(body, nothing)
	case *ast.RangeStmt:
		w.expression(s.X)
		return w.branches(func() bool { w.block(s.Body.List); return false }, nothing)
	case *ast.SwitchStmt:
		w.statement(s.Init)
		w.expression(s.Tag)
		return w.clauses(s.Body)
	case *ast.TypeSwitchStmt:
		w.statement(s.Init)
		w.statement(s.Assign)
		return w.clauses(s.Body)
	case *ast.SelectStmt:
		return w.clauses(s.Body)
	case *ast.ReturnStmt:
		for _, x := range s.Results {
			w.expression(x)
		}
		return true
	case *ast.BranchStmt:
		return s.Tok != token.FALLTHROUGH
	case *ast.GoStmt:
		w.spawn(s.Call)
	case *ast.DeferStmt:
		for _, x := range s.Call.Args {
			w.expression(x)
		}
	default:
		w.expression(s)
		if x, ok := s.(*ast.ExprStmt); ok {
			if call, ok := x.X.(*ast.CallExpr); ok {
				id, ok := call.Fun.(*ast.Ident)
				return ok && id.Name == "panic"
			}
		}
	}
	return false
}

func (w *lockWalk) clauses(body *ast.BlockStmt) bool {
	var ways []func() bool
	whole := false // one of the clauses is gone into
	for _, s := range body.List {
		switch s := s.(type) {
		case *ast.CaseClause:
			whole = whole || s.List == nil
			ways = append(ways, func() bool {
				for _, x := range s.List {
					w.expression(x)
				}
				return w.block(s.Body)
			})
		case *ast.CommClause:
			whole = true
			ways = append(ways, func() bool { w.statement(s.Comm); return w.block(s.Body) })
		}
	}
	if !whole {
		ways = append(ways, func() bool { return false })
	}
	return w.branches(ways...)
}

// spawn reads what a new goroutine does: it begins without locks, and its starter does not
// hold the locks that it takes.
func (w *lockWalk) spawn(n ast.Node) {
	use, held := w.use, w.held
	w.use, w.held = &lockUse{takes: map[*lock]bool{}, lends: map[*lock]bool{}}, nil
	grown := w.grown
	ast.Inspect(n, func(n ast.Node) bool {
		if lit, ok := n.(*ast.FuncLit); ok {
			w.block(lit.Body.List)
			return false
		}
		return true
	})
	w.use, w.held, w.grown = use, held, grown
}

// expression reads the calls in n.
func (w *lockWalk) expression(n ast.Node) {
	if n == nil {
		return
	}
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit: // kept for later, by whom is not known: it is read without locks
			w.spawn(n)
			return false
		case *ast.CallExpr:
			w.call(n)
			return false
		case *ast.SelectorExpr:
			w.useOf(w.claims[w.c.info.Uses[n.Sel]])
		}
		return true
	})
}

// useOf notes that the thing which a comment names is used here; cl may be nil.
func (w *lockWalk) useOf(cl *claim) {
	if cl == nil {
		return
	}
	cl.used = true
	for _, h := range w.held {
		cl.heldOf = cl.heldOf || strings.HasSuffix(h.name, "."+cl.lock)
	}
}

// typeClaim is what is said of a receiver's type as a whole: who calls its method
// uses it.
func (w *lockWalk) typeClaim(recv *types.Var) *claim {
	if recv == nil {
		return nil
	}
	t := recv.Type()
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	if n, ok := t.(*types.Named); ok {
		return w.claims[n.Origin().Obj()]
	}
	return nil
}

func (w *lockWalk) call(call *ast.CallExpr) {
	sel, isSel := call.Fun.(*ast.SelectorExpr)
	if isSel && len(call.Args) == 0 && w.operation(call, sel) {
		return
	}
	if startsGoroutine(call) {
		w.spawn(call)
		return
	}
	if isSel {
		w.expression(sel.X)
	}
	if lit, ok := call.Fun.(*ast.FuncLit); ok {
		w.literal(lit, nil)
	}
	callee := w.callee(call.Fun)
	if callee != nil {
		w.useOf(w.typeClaim(callee.Signature().Recv()))
	}
	use := w.of[callee]
	for _, arg := range call.Args {
		if lit, ok := arg.(*ast.FuncLit); ok && (use == nil || use.runs) {
			w.literal(lit, use)
		} else {
			w.expression(arg)
		}
		if id, ok := arg.(*ast.Ident); ok && use != nil && use.runs && w.parameter(id) {
			w.lend(slices.Collect(maps.Keys(use.lends)))
		}
	}
	if use != nil {
		for l := range use.takes {
			w.take(l, call.Pos(), " by a call of "+use.decl.Name.Name)
		}
	}
	if id, ok := call.Fun.(*ast.Ident); ok && w.parameter(id) {
		w.lend(nil)
	}
}

// lend notes that a function that was given is called, with what is held here
// and some more.
func (w *lockWalk) lend(more []*lock) {
	if !w.use.runs {
		w.use.runs, w.grown = true, true
	}
	for _, l := range slices.Concat(w.held, more) {
		if !w.use.lends[l] {
			w.use.lends[l], w.grown = true, true
		}
	}
}

// literal reads a function that is called within this one, by use if that is
// not nil.
func (w *lockWalk) literal(lit *ast.FuncLit, use *lockUse) {
	held := w.held
	w.held = slices.Clone(held)
	if use != nil {
		for l := range use.lends {
			w.held = append(w.held, l)
		}
	}
	w.block(lit.Body.List)
	w.held = held
}

// parameter tells whether a function that is called was given to the one that
// is read.
func (w *lockWalk) parameter(id *ast.Ident) bool {
	obj := w.c.info.Uses[id]
	if obj == nil || w.use.decl == nil {
		return false
	}
	t := w.use.decl.Type
	return t.Params.Pos() <= obj.Pos() && obj.Pos() < t.Params.End()
}

func (w *lockWalk) callee(fun ast.Expr) *types.Func {
	var obj types.Object
	switch fun := ast.Unparen(fun).(type) {
	case *ast.Ident:
		obj = w.c.info.Uses[fun]
	case *ast.SelectorExpr:
		obj = w.c.info.Uses[fun.Sel]
	case *ast.IndexExpr:
		return w.callee(fun.X)
	}
	if f, ok := obj.(*types.Func); ok {
		return f.Origin()
	}
	return nil
}

// operation reads a call if it locks or unlocks.
func (w *lockWalk) operation(call *ast.CallExpr, sel *ast.SelectorExpr) bool {
	name := sel.Sel.Name
	switch name {
	case "Lock", "RLock", "TryLock", "Unlock", "RUnlock":
	default:
		return false
	}
	l := w.lockOf(sel.X)
	switch {
	case l == nil && lockWord.MatchString(path.Base(types.ExprString(sel.X))):
		if w.judging {
			w.found[fmt.Sprintf("%s: %s: which lock this is cannot be told", w.c.set.Position(call.Pos()), types.ExprString(sel.X))] = true
		}
		return true
	case l == nil:
		return false
	case strings.HasSuffix(name, "Unlock"):
		for i := len(w.held) - 1; i >= 0; i-- {
			if w.held[i] == l {
				w.held = slices.Delete(slices.Clone(w.held), i, i+1)
				break
			}
		}
	default:
		w.take(l, call.Pos(), "")
		w.held = append(slices.Clone(w.held), l)
	}
	return true
}

func (w *lockWalk) lockOf(x ast.Expr) *lock {
	var obj types.Object
	switch x := ast.Unparen(x).(type) {
	case *ast.Ident:
		obj = w.c.info.Uses[x]
	case *ast.SelectorExpr:
		obj = w.c.info.Uses[x.Sel]
	}
	if v, ok := obj.(*types.Var); ok {
		return w.locks[v.Origin()]
	}
	return nil
}
