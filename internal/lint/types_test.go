package lint

import (
	"fmt"
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"go/types"
	"path"
	"runtime"
	"slices"
	"strings"
)

// checked is the code of the tree with its types: the hand-written part that is
// built on this system, without tests. Generated code and other modules are
// empty packages in it, and of the standard library it has what standard has:
// enough to tell which field of which type of ours an expression is.
type checked struct {
	set      *token.FileSet
	info     *types.Info
	packages []*checkedPackage // each after those that it imports
	byDir    map[string]*checkedPackage
	sources  map[string][]file // by folder; parsed when the package is loaded
	others   map[string]*types.Package
}

type checkedPackage struct {
	dir   string
	types *types.Package
	files []*ast.File
}

// standard is what the rules need to know of the standard library.
var standard = map[string]string{
	"sync": `package sync
		type Mutex struct{}
		func (*Mutex) Lock()
		func (*Mutex) Unlock()
		func (*Mutex) TryLock() bool
		type RWMutex struct{}
		func (*RWMutex) Lock()
		func (*RWMutex) Unlock()
		func (*RWMutex) RLock()
		func (*RWMutex) RUnlock()
		func (*RWMutex) TryLock() bool
		type WaitGroup struct{}
		func (*WaitGroup) Go(f func())
		func (*WaitGroup) Add(int)
		func (*WaitGroup) Done()
		func (*WaitGroup) Wait()
		type Locker interface{ Lock(); Unlock() }
		type Cond struct{ L Locker }
		func NewCond(Locker) *Cond
		func (*Cond) Wait()
		func (*Cond) Signal()
		func (*Cond) Broadcast()
		type Once struct{}
		func (*Once) Do(func())
		type Map struct{}
		func (*Map) Load(any) (any, bool)
		func (*Map) LoadOrStore(any, any) (any, bool)
		type Pool struct{ New func() any }
		func (*Pool) Get() any
		func (*Pool) Put(any)`,
	"sync/atomic": `package atomic
		type Pointer[T any] struct{}
		func (*Pointer[T]) Load() *T
		func (*Pointer[T]) Store(*T)
		func (*Pointer[T]) Swap(*T) *T
		func (*Pointer[T]) CompareAndSwap(*T, *T) bool`,
	"iter": `package iter
		type Seq[V any] func(func(V) bool)
		type Seq2[K, V any] func(func(K, V) bool)`,
	"maps": `package maps
		import "iter"
		func Keys[M ~map[K]V, K comparable, V any](M) iter.Seq[K] { panic(0) }
		func Values[M ~map[K]V, K comparable, V any](M) iter.Seq[V] { panic(0) }
		func Clone[M ~map[K]V, K comparable, V any](M) M { panic(0) }`,
	"slices": `package slices
		import "iter"
		func Clone[S ~[]E, E any](S) S { panic(0) }
		func Collect[E any](iter.Seq[E]) []E { panic(0) }
		func Sorted[E any](iter.Seq[E]) []E { panic(0) }
		func SortedFunc[E any](iter.Seq[E], func(E, E) int) []E { panic(0) }
		func Concat[S ~[]E, E any](...S) S { panic(0) }
		func All[S ~[]E, E any](S) iter.Seq2[int, E] { panic(0) }
		func Values[S ~[]E, E any](S) iter.Seq[E] { panic(0) }`,
}

// check gives the code of files its types: that of all folders, or that of some and of
// what they import.
func check(files []file, only ...string) *checked {
	c := &checked{
		set: token.NewFileSet(), byDir: map[string]*checkedPackage{}, sources: map[string][]file{}, others: map[string]*types.Package{},
		info: &types.Info{Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{}, Types: map[ast.Expr]types.TypeAndValue{}},
	}
	var dirs []string
	for _, f := range goFiles(files) {
		if f.isTest() || f.isLint() || !f.isBuilt() {
			continue
		}
		if c.sources[f.dir()] == nil {
			dirs = append(dirs, f.dir())
		}
		c.sources[f.dir()] = append(c.sources[f.dir()], f)
	}
	for _, dir := range dirs {
		if len(only) == 0 || slices.Contains(only, dir) {
			c.load(dir)
		}
	}
	return c
}

func (c *checked) load(dir string) *checkedPackage {
	if p := c.byDir[dir]; p != nil {
		return p
	}
	p := &checkedPackage{dir: dir}
	c.byDir[dir] = p
	for _, f := range c.sources[dir] {
		if a, err := parser.ParseFile(c.set, f.path, f.text, parser.ParseComments|parser.SkipObjectResolution); err == nil {
			p.files = append(p.files, a)
		}
	}
	conf := types.Config{Importer: c, Error: func(error) {}} // what is not there gives errors, which do not matter here
	p.types, _ = conf.Check(path.Join(module, dir), c.set, p.files, c.info)
	c.packages = append(c.packages, p)
	return p
}

func (c *checked) Import(name string) (*types.Package, error) {
	if dir, ours := strings.CutPrefix(name, module+"/"); ours && c.sources[dir] != nil {
		p := c.load(dir)
		if p.types == nil {
			return nil, fmt.Errorf("import cycle through %s", name)
		}
		return p.types, nil
	}
	if p := c.others[name]; p != nil {
		return p, nil
	}
	if source, ok := standard[name]; ok {
		a, err := parser.ParseFile(c.set, name, source, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		conf := types.Config{Importer: c, IgnoreFuncBodies: true}
		p, err := conf.Check(name, c.set, []*ast.File{a}, nil)
		c.others[name] = p
		return p, err
	}
	p := types.NewPackage(name, path.Base(name))
	p.MarkComplete()
	c.others[name] = p
	return p, nil
}

var _ types.Importer = (*checked)(nil)

// isBuilt tells whether a Go file is built on this system, without tags.
func (f file) isBuilt() bool {
	for line := range strings.Lines(f.text) {
		if strings.HasPrefix(line, "package ") {
			break
		}
		if x, err := constraint.Parse(strings.TrimSpace(line)); err == nil && constraint.IsGoBuild(line) {
			return x.Eval(func(tag string) bool {
				return tag == runtime.GOOS || tag == runtime.GOARCH || tag == "unix" && runtime.GOOS != "windows"
			})
		}
	}
	for _, system := range []string{"linux", "windows", "darwin"} {
		if strings.HasSuffix(f.path, "_"+system+".go") {
			return system == runtime.GOOS
		}
	}
	return true
}
