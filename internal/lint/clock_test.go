package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// clockReasons are the tests that read the real clock, each with the reason why it does. A
// machine that stands still for seconds must not turn them red either.
var clockReasons = map[string]string{
	"internal/bus/natsbus.TestF9CutNetworksHeal":                   "with PETREL_NETWORK_CUTS it judges how soon a cut network heals",
	"test/authz.TestNoTimeTellsThatAConversationExists":            "with PETREL_EXISTENCE_N it compares the times of answers",
	"test/authz.TestNoTimeTellsThatAUserBlocks":                    "the same",
	"test/chaos.TestChaos":                                         "with -times it judges how long clients wait",
	"test/chaos.TestRollback":                                      "databases go back at random moments",
	"test/crash.TestBackupsUnderLoadHoldWhatWasAcked":              "sends at a rate; `make crash` judges how late the acks are",
	"test/crash.TestKill9LosesNothing":                             "kills at random moments; `make crash` judges how soon a server is back",
	"test/crash.TestRollback":                                      "stores go back at random moments; `make crash` judges how soon a client tells",
	"test/crash.TestStepsOfTheClockRefuseNobody":                   "steps the clock of a server, and waits for what was sent since",
	"test/flood.TestFloodsOfStrangersDelayNobody":                  "a flood lasts for a time; `make flood` judges what it costs others",
	"test/flood.TestReactionsInALargeGroupDelayNobody":             "sends at a rate; `make flood` judges how late the acks are",
	"test/flood.TestTouchedConversationsTakeNoMoreThanTheirBudget": "reads the memory of a process at moments",
	"test/passenger.TestIdleClientSendsNothingButPongs":            "a slow link has a rate; pings are counted",
	"test/passenger.TestPagesOverSlowLinkDoNotEndIt":               "a slow link has a rate",
	"test/passenger.TestSlowLinkIsNotLeft":                         "a slow link has a rate",
	"test/scenario.TestScenarios":                                  "notes when the machine stood still; with PETREL_SCENARIOS=all it judges lines with within",
	"test/walk.TestWalks":                                          "faults last for a time",
}

// maxClockReasons bounds the list.
const maxClockReasons = 25

// clockSupport are functions that do not make a test depend on the real clock, each with the
// reason: they make others late, they give up on what a fault has blocked, or they run in
// bubbles only, which cannot be seen from their names.
var clockSupport = map[string]string{
	"internal/cluster.(connection).begin":       "runs in bubbles only",
	"internal/imtest/proctest.NodeTests":        "ends a process of Node that hangs",
	"internal/store/pgstore.(table).read":       "runs in bubbles only",
	"sdk/go.(fakeConv).add":                     "gives an entry the time of the fake server",
	"test/simulation.some":                      "plays seeds in bubbles, and judges what they have left",
	"internal/bus/bustest.(LossyBus).after":     "delays a message as long as the test asks for",
	"internal/bus/bustest.(LossyBus).Request":   "delays a message as long as the test asks for",
	"internal/wire/wiretest.(Conn).broken":      "ends a read from a socket that a fault has silenced",
	"internal/wire/wiretest.(link).flushLocked": "ends a write to a socket that takes nothing",
	"internal/wire/wiretest.(link).goodbye":     "ends a write to a socket that takes nothing",
	"internal/wire/wiretest.(link).read":        "ends a read from a socket that a fault has silenced",
}

// clockCalls are the functions that read the clock or wait for it, by the import path of their
// package. Of os/exec it is the program that is named.
var clockCalls = map[string][]string{
	"time":                  {"After", "AfterFunc", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick", "Until"},
	"context":               {"WithDeadline", "WithDeadlineCause", "WithTimeout", "WithTimeoutCause"},
	"os/exec":               {"sleep"},
	"syscall":               {"Gettimeofday", "Nanosleep", "Time"},
	"golang.org/x/sys/unix": {"ClockGettime", "ClockNanosleep", "Gettimeofday", "Nanosleep", "Time"},
}

// sleepCalls are those of clockCalls that wait without a condition.
var sleepCalls = map[string][]string{
	"time":                  {"Sleep"},
	"os/exec":               {"sleep"},
	"syscall":               {"Nanosleep"},
	"golang.org/x/sys/unix": {"ClockNanosleep", "Nanosleep"},
}

// sleepProgram is how a command names the program that sleeps.
var sleepProgram = regexp.MustCompile(`(^|[^\w-])sleep($| +[0-9.])`)

// clockExempt is the package by which tests wait for others: only a fault meets its limit.
const clockExempt = "internal/imtest/eventually"

// realClock finds the tests that read the real clock: that reach one of clockCalls outside of a
// synctest bubble, themselves or by what they call in test code. Methods are told apart by
// their names alone, so a test may be found because of one that it does not call. Benchmarks
// and fuzz targets are not tests; examples are.
func realClock(files []file) []string { return realClockBut(files, clockReasons) }

// sleeps finds the tests that reach time.Sleep outside of a bubble. No reason excuses it.
func sleeps(files []file) []string {
	code := testCodeOf(files, sleepCalls)
	var found []string
	for _, name := range code.tests() {
		if way := code.reads(name, map[string]bool{}); way != "" {
			found = append(found, fmt.Sprintf("%s sleeps: %s: wait for the condition with %s, or run it in a bubble of testing/synctest", name, way, clockExempt))
		}
	}
	return found
}

func realClockBut(files []file, reasons map[string]string) []string {
	code := testCodeOf(files, clockCalls)
	var found []string
	listed := maps.Clone(reasons)
	for _, name := range code.tests() {
		at := code.reads(name, map[string]bool{})
		if at == "" {
			continue
		}
		if reasons[name] == "" {
			found = append(found, fmt.Sprintf("%s reads the real clock: %s: run it in a bubble of testing/synctest, or wait with %s", name, at, clockExempt))
		}
		delete(listed, name)
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		if !code.has(name[:strings.LastIndexByte(name, '.')]) {
			continue // an example of a tree
		}
		found = append(found, fmt.Sprintf("%s is listed as a test that reads the real clock, and does not", name))
	}
	if len(reasons) > maxClockReasons {
		found = append(found, fmt.Sprintf("%d tests are listed as readers of the real clock, at most %d", len(reasons), maxClockReasons))
	}
	return found
}

// testCode is what tests run, without the product.
type testCode struct {
	functions map[string]*suiteFunction // by "folder.name", methods by "folder.(name)"
	methods   map[string][]string       // the keys of the methods with a name, by "folder.name"
}

// suiteFunction is what one function of test code does outside of bubbles.
type suiteFunction struct {
	isTest  bool
	isLocal bool     // a method of a _test.go file: only its own package sees it
	reads   string   // where it reads the clock itself; "": nowhere
	calls   []string // keys of functions, and ".name" for methods
	dirs    []string // folders whose methods ".name" may be: its own and those of the test code it imports
}

// tests are the keys of all tests, in order.
func (c *testCode) tests() []string {
	var names []string
	for name, fn := range c.functions {
		if fn.isTest {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// has tells whether a folder has test code.
func (c *testCode) has(dir string) bool {
	for name := range c.functions {
		if strings.HasPrefix(name, dir+".") {
			return true
		}
	}
	return false
}

// testCodeOf reads the test code among files. readers are the functions that read the clock, by
// package.
func testCodeOf(files []file, readers map[string][]string) *testCode {
	c := &testCode{functions: map[string]*suiteFunction{}, methods: map[string][]string{}}
	type parsed struct {
		file
		ast *ast.File
		at  func(ast.Node) string
	}
	var all []parsed
	wrappers := map[string]bool{} // functions that run a function of their caller in a bubble
	dirs := map[string]bool{}
	for _, f := range goFiles(files) {
		if !f.isTest() || f.isLint() || f.dir() == clockExempt {
			continue
		}
		set := token.NewFileSet()
		a, err := parser.ParseFile(set, f.path, f.text, 0) // with objects: a variable of a function hides a function of the package
		if err != nil {
			continue
		}
		all = append(all, parsed{f, a, func(n ast.Node) string { return set.Position(n.Pos()).String() }})
		dirs[f.dir()] = true
		for _, d := range a.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil && opensBubble(fn) {
				wrappers[f.dir()+"."+fn.Name.Name] = true
			}
		}
	}
	for _, f := range all {
		imported := map[string]string{} // folders of test code, by the name of the package
		named := map[string][]string{}  // those of readers, by the name of the package
		for name, functions := range readers {
			named[path.Base(name)] = functions
		}
		of := []string{f.dir()}
		global := func(n *ast.Ident) bool { return n.Obj == nil || n.Obj == f.ast.Scope.Lookup(n.Name) }
		for _, spec := range f.ast.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			as := path.Base(name)
			if spec.Name != nil {
				as = spec.Name.Name
			}
			if dir, ours := strings.CutPrefix(name, module+"/"); err == nil && ours && dirs[dir] {
				imported[as] = dir
				of = append(of, dir)
			} else if err == nil && readers[name] != nil {
				named[as] = readers[name] // as ".", its functions have no package before them
			}
		}
		for _, d := range f.ast.Decls {
			if g, ok := d.(*ast.GenDecl); ok {
				for _, spec := range g.Specs {
					v, ok := spec.(*ast.ValueSpec)
					for i := 0; ok && i < len(v.Values); i++ { // a variable with a function that reads the clock
						w := &clockWalk{readers: named, dir: f.dir(), imported: imported, wrappers: wrappers, global: global, at: f.at, suiteFunction: &suiteFunction{dirs: of}}
						w.walk(v.Values[i])
						c.functions[f.dir()+"."+v.Names[min(i, len(v.Names)-1)].Name] = w.suiteFunction
					}
				}
			}
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			w := &clockWalk{readers: named, dir: f.dir(), imported: imported, wrappers: wrappers, global: global, at: f.at, suiteFunction: &suiteFunction{dirs: of}}
			if !calls(fn.Body, "synctest", "Wait") || calls(fn.Body, "synctest", "Test") { // Wait panics outside of a bubble
				w.walk(fn.Body)
			}
			key := f.dir() + "." + fn.Name.Name
			if fn.Recv != nil {
				name := key
				key = f.dir() + ".(" + receiver(fn) + ")." + fn.Name.Name
				c.methods[name] = append(c.methods[name], key)
				w.isLocal = strings.HasSuffix(f.path, "_test.go")
			} else if strings.HasSuffix(f.path, "_test.go") && (strings.HasPrefix(fn.Name.Name, "Test") && fn.Name.Name != "TestMain" || strings.HasPrefix(fn.Name.Name, "Example")) {
				w.isTest = true
			}
			c.functions[key] = w.suiteFunction
		}
	}
	return c
}

// opensBubble tells whether a function gives one of its parameters to synctest.Test.
func opensBubble(fn *ast.FuncDecl) bool {
	params := map[string]bool{}
	for _, p := range fn.Type.Params.List {
		if _, ok := p.Type.(*ast.FuncType); ok {
			for _, n := range p.Names {
				params[n.Name] = true
			}
		}
	}
	opens := false
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		if c, ok := n.(*ast.CallExpr); ok && isCall(c, "synctest", "Test") {
			ast.Inspect(c, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok && params[id.Name] {
					opens = true
				}
				return true
			})
		}
		return true
	})
	return opens
}

// clockWalk reads the body of one function.
type clockWalk struct {
	*suiteFunction
	readers  map[string][]string
	dir      string
	imported map[string]string
	wrappers map[string]bool
	global   func(*ast.Ident) bool // not a variable of a function
	at       func(ast.Node) string
}

func (w *clockWalk) walk(root ast.Node) {
	ast.Inspect(root, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			key := w.key(n.Fun)
			if isCall(n, "synctest", "Test") {
				return false
			}
			if w.wrappers[key] {
				w.calls = append(w.calls, key)
				return false
			}
			if w.startsSleep(n) && w.suiteFunction.reads == "" {
				w.suiteFunction.reads = w.at(n)
			}
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && slices.Contains(w.readers[x.Name], n.Sel.Name) && w.suiteFunction.reads == "" {
				w.suiteFunction.reads = w.at(n)
			}
			w.calls = append(w.calls, w.key(n))
			w.walk(n.X)
			return false
		case *ast.Ident:
			if w.global(n) {
				w.calls = append(w.calls, w.dir+"."+n.Name)
			}
			if n.Obj == nil && slices.Contains(w.readers["."], n.Name) && w.suiteFunction.reads == "" {
				w.suiteFunction.reads = w.at(n)
			}
		}
		return true
	})
}

// startsSleep tells whether a call makes a command that runs the program sleep, itself or by a
// shell.
func (w *clockWalk) startsSleep(c *ast.CallExpr) bool {
	f, ok := c.Fun.(*ast.SelectorExpr)
	if !ok || f.Sel.Name != "Command" && f.Sel.Name != "CommandContext" {
		return false
	}
	if x, ok := f.X.(*ast.Ident); !ok || !slices.Contains(w.readers[x.Name], "sleep") {
		return false
	}
	return slices.ContainsFunc(c.Args, func(a ast.Expr) bool {
		text, ok := a.(*ast.BasicLit)
		return ok && text.Kind == token.STRING && sleepProgram.MatchString(strings.Trim(text.Value, "\"`"))
	})
}

// key is the name of what an expression calls: of a function, or ".name" of a method.
func (w *clockWalk) key(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.Ident:
		return w.dir + "." + x.Name
	case *ast.IndexExpr:
		return w.key(x.X)
	case *ast.SelectorExpr:
		if id, ok := x.X.(*ast.Ident); ok && w.imported[id.Name] != "" {
			return w.imported[id.Name] + "." + x.Sel.Name
		}
		return "." + x.Sel.Name
	}
	return ""
}

// reads is the way from a function to where it reads the clock, itself or by what it calls:
// "f → g at file:line"; "": it does not.
func (c *testCode) reads(key string, seen map[string]bool) string {
	fn := c.functions[key]
	if fn == nil || seen[key] || clockSupport[key] != "" {
		return ""
	}
	seen[key] = true
	name := path.Base(key)
	if fn.reads != "" {
		return name + " at " + fn.reads
	}
	for _, call := range fn.calls {
		next := []string{call}
		if method, ok := strings.CutPrefix(call, "."); ok {
			next = nil
			for _, dir := range fn.dirs {
				for _, m := range c.methods[dir+"."+method] {
					if dir == fn.dirs[0] || !c.functions[m].isLocal {
						next = append(next, m)
					}
				}
			}
		}
		for _, key := range next {
			if way := c.reads(key, seen); way != "" {
				return name + " → " + way
			}
		}
	}
	return ""
}
