//go:build linux

package way

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/petrel-im/petrel/test/way/record"
)

const (
	page    = "docs/architecture.md"
	section = "## The way of one message"
)

// TestPageLeadsAlongTheWay compares the section about the way of one message
// with the way of one message. The section links every file of the way, and no
// other Go file. Its numbered steps link files in an order in which they are
// called; a file that is called again may be linked again.
func TestPageLeadsAlongTheWay(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	w := watch(t, root)
	t.Log("\n" + w.String())
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	steps, others := linked(string(text))
	if len(steps) == 0 {
		t.Fatalf("%s has no section %q with steps that link files", page, section)
	}
	for _, complaint := range w.judge(steps, others) {
		t.Error(complaint)
	}
}

// way is what happens for one message.
type way struct {
	files []*wayFile // in the order of their first calls
	legs  []leg      // the same
	seen  [][]string // for each message: the files that run or wait, call by call, the caller first
}

// leg is what a goroutine does for a message. bottoms are the functions of ours
// at the bottom of its stack.
type leg struct {
	goroutine uint64
	bottoms   []string
}

type wayFile struct {
	name  string // from the root
	funcs []string
}

// watch builds a server that notes its calls, and has it carry messages.
func watch(t *testing.T, root string) *way {
	t.Helper()
	dir := t.TempDir()
	overlay, files := instrument(t, root, dir)
	result := filepath.Join(dir, "result.json")
	cmd := exec.Command("go", "test", "-trimpath", "-count=1", "-vet=off", "-ldflags=-s -w",
		"-gcflags=github.com/petrel-im/petrel/internal/...=-dwarf=false -l", // compiles in two thirds of the time
		"-overlay="+overlay, "-run=^TestOneMessage$", "./test/way")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), resultFile+"="+result)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	b, err := os.ReadFile(result)
	if err != nil {
		t.Fatal(err)
	}
	var seen recorded
	if err := json.Unmarshal(b, &seen); err != nil {
		t.Fatal(err)
	}
	if len(seen.Messages) != watched {
		t.Fatalf("%d messages were watched, not %d", len(seen.Messages), watched)
	}
	for _, calls := range slices.Concat(seen.Idle, seen.Messages) {
		for i := range calls {
			calls[i].Stack = own(calls[i].Stack, files)
		}
	}
	w := newWay(seen)
	if len(w.files) == 0 {
		t.Fatal("no call was noted")
	}
	return w
}

// own are the frames of a stack in files of the server, named from the root: with
// -trimpath a file is named by its import path.
func own(stack []record.Frame, files map[string]bool) []record.Frame {
	var out []record.Frame
	for _, f := range stack {
		if name, ok := strings.CutPrefix(f.File, "github.com/petrel-im/petrel/"); ok && files[name] {
			out = append(out, record.Frame{File: name, Func: f.Func})
		}
	}
	return out
}

// instrument writes copies of the server's files in which each function begins
// with a call of record.Enter, and the file that tells the compiler to take them.
func instrument(t *testing.T, root, dir string) (overlay string, files map[string]bool) {
	t.Helper()
	replace := map[string]string{}
	files = map[string]bool{}
	err := filepath.WalkDir(filepath.Join(root, "internal"), func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() || !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go") || strings.HasSuffix(filepath.Dir(p), "test") || strings.Contains(filepath.ToSlash(p), "/imtest/") {
			return nil
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		noted, ok, err := note(p, text)
		if err != nil || !ok {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		files[filepath.ToSlash(rel)] = true
		replace[p] = filepath.Join(dir, fmt.Sprintf("%d.go", len(replace)))
		return os.WriteFile(replace[p], noted, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	overlay = filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return overlay, files
}

var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// note inserts the calls, without a change of lines; it reports false for a file
// that no person reads, or that is not part of the server.
func note(name string, text []byte) ([]byte, bool, error) {
	set := token.NewFileSet()
	a, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, false, err
	}
	if a.Name.Name == "main" || generated.Match(text[:set.Position(a.Package).Offset]) {
		return nil, false, nil
	}
	var bodies []int
	ast.Inspect(a, func(n ast.Node) bool {
		var body *ast.BlockStmt
		switch n := n.(type) {
		case *ast.FuncDecl:
			body = n.Body
		case *ast.FuncLit:
			body = n.Body
		}
		if body != nil {
			bodies = append(bodies, set.Position(body.Lbrace).Offset+1)
		}
		return true
	})
	if len(bodies) == 0 {
		return nil, false, nil
	}
	at := set.Position(a.Name.End()).Offset
	out := slices.Concat(text[:at], []byte(`; import way_ "github.com/petrel-im/petrel/test/way/record"`))
	for _, b := range bodies {
		out = append(append(out, text[at:b]...), " way_.Enter();"...)
		at = b
	}
	return append(out, text[at:]...), true, nil
}

// newWay keeps what is seen for each message. Each stack ends with the function
// at its bottom.
func newWay(r recorded) *way {
	w, seen := &way{}, withoutTimers(r)
	count := map[string]int{} // how many messages have something
	var order []string        // file, function and bottom, as the first message has them
	of := map[string]uint64{} // bottom → its goroutine for the first message
	for _, calls := range seen {
		have := map[string]bool{}
		has := func(parts ...string) bool {
			what := strings.Join(parts, "\t")
			if have[what] {
				return false
			}
			have[what] = true
			if count[what]++; count[what] == 1 {
				order = append(order, what)
			}
			return true
		}
		var files []string
		for _, c := range calls {
			for j := len(c.Stack) - 1; j >= 0; j-- { // a waiting function was there before the one that it waits for
				f := c.Stack[j]
				files = append(files, f.File)
				has("file", f.File)
				has("func", f.File, f.Func)
				if j == len(c.Stack)-1 && has("bottom", f.File, f.Func) && count["bottom\t"+f.File+"\t"+f.Func] == 1 {
					of[f.File+f.Func] = c.Goroutine
				}
			}
		}
		w.seen = append(w.seen, files)
	}
	byName := map[string]*wayFile{}
	for _, what := range order {
		if count[what] < len(seen) {
			continue
		}
		parts := strings.Split(what, "\t")
		switch parts[0] {
		case "file":
			f := &wayFile{name: parts[1]}
			byName[f.name] = f
			w.files = append(w.files, f)
		case "func":
			byName[parts[1]].funcs = append(byName[parts[1]].funcs, parts[2])
		case "bottom":
			name, g := path.Base(path.Dir(parts[1]))+"."+parts[2], of[parts[1]+parts[2]]
			if n := len(w.legs); n > 0 && w.legs[n-1].goroutine == g {
				w.legs[n-1].bottoms = append(w.legs[n-1].bottoms, name)
			} else {
				w.legs = append(w.legs, leg{g, []string{name}})
			}
		}
	}
	return w
}

// withoutTimers leaves out the goroutines that do for no message what they do not do while
// the server is idle. On a slow machine a timer of 100 ms runs during each message.
func withoutTimers(r recorded) [][]record.Call {
	type part struct{ bottom, function record.Frame }
	partOf := func(c record.Call) part { return part{c.Stack[len(c.Stack)-1], c.Stack[0]} }
	idle := map[part]int{} // in how many of the pauses
	for _, calls := range r.Idle {
		have := map[part]bool{}
		for _, c := range calls {
			if len(c.Stack) > 0 && !have[partOf(c)] {
				have[partOf(c)] = true
				idle[partOf(c)]++
			}
		}
	}
	busy := map[record.Frame]bool{} // bottoms of goroutines that work for messages
	for _, c := range slices.Concat(r.Messages...) {
		if len(c.Stack) > 0 && idle[partOf(c)] < 2 { // one may be late
			busy[partOf(c).bottom] = true
		}
	}
	var out [][]record.Call
	for _, calls := range r.Messages {
		out = append(out, slices.DeleteFunc(slices.Clone(calls), func(c record.Call) bool {
			return len(c.Stack) == 0 || !busy[partOf(c).bottom]
		}))
	}
	return out
}

func (w *way) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%d files, %d hand-overs\n", len(w.files), len(w.legs)-1)
	for i, l := range w.legs {
		fmt.Fprintf(&out, "leg %d: goroutine %d: %s\n", i+1, l.goroutine, strings.Join(l.bottoms, ", "))
	}
	for i, f := range w.files {
		fmt.Fprintf(&out, "%2d %-44s %s\n", i+1, strings.TrimPrefix(f.name, "internal/"), strings.Join(f.funcs, ", "))
	}
	return out.String()
}

// judge lists the faults of a section whose steps and other lines link files.
func (w *way) judge(steps, others []string) []string {
	var wrong []string
	complain := func(format string, args ...any) { wrong = append(wrong, page+": "+fmt.Sprintf(format, args...)) }
	linked := slices.Concat(steps, others)
	for _, f := range w.files {
		if !slices.Contains(linked, f.name) {
			complain("%s is on the way of a message and not linked", f.name)
		}
	}
	for _, f := range linked {
		if !slices.ContainsFunc(w.files, func(of *wayFile) bool { return of.name == f }) {
			complain("%s is linked and not on the way of a message", f)
		}
	}
	if n := w.follow(steps); n < len(steps) {
		complain("link %d of the steps, to %s, is not called after those before it", n+1, steps[n])
	}
	return wrong
}

// follow is how many of some files, from the first one on, are called in their
// order, for the message that follows them best: functions that run at the same time have
// no order.
func (w *way) follow(steps []string) int {
	best := 0
	for _, files := range w.seen {
		n := 0
		for _, f := range files {
			for n < len(steps) && steps[n] == f {
				n++
			}
		}
		best = max(best, n)
	}
	return best
}

var (
	link = regexp.MustCompile(`\]\(([^)#:\s]+)\)`)
	step = regexp.MustCompile(`^\d+\. `)
)

// linked are the Go files that the section links, named from the root: in its
// numbered steps, and elsewhere. The lines of a step are indented.
func linked(text string) (steps, others []string) {
	in, inStep := false, false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			in = strings.TrimSpace(line) == section
		}
		if !in {
			continue
		}
		inStep = step.MatchString(line) || inStep && strings.HasPrefix(line, " ")
		to := &others
		if inStep {
			to = &steps
		}
		for _, m := range link.FindAllStringSubmatch(line, -1) {
			if f := path.Join(path.Dir(page), m[1]); strings.HasSuffix(f, ".go") {
				*to = append(*to, f)
			}
		}
	}
	return steps, others
}

func TestPageIsJudged(t *testing.T) {
	const head = "# Page\n[x](../internal/x.go)\n\n" + section + "\n\n"
	call := func(goroutine uint64, stack ...string) record.Call { // "file.function", the caller first
		c := record.Call{Goroutine: goroutine}
		for _, f := range stack {
			file, function, _ := strings.Cut(f, ".")
			c.Stack = slices.Insert(c.Stack, 0, record.Frame{File: "internal/" + file + ".go", Func: function})
		}
		return c
	}
	one := []record.Call{call(1, "a.Read"), call(1, "a.Read", "b.Decode"), call(1, "a.Read", "b.Decode", "leaf.Help"), call(2, "c.Run", "a.Write"), call(3, "tick.Tick", "a.Tick")}
	two := []record.Call{call(1, "a.Read"), call(2, "c.Run", "a.Write"), call(1, "a.Read", "b.Decode", "leaf.Help"), call(3, "sweep.Sweep")}
	one = append(one, call(4, "timer.Run", "timer.Look"))
	two = append(two, call(4, "timer.Run", "timer.Look"))
	pause := []record.Call{call(4, "timer.Run", "timer.Look"), call(1, "a.Read")}
	w := newWay(recorded{Idle: [][]record.Call{pause, pause}, Messages: [][]record.Call{one, two}})
	var names []string
	for _, f := range w.files {
		names = append(names, f.name)
	}
	if got, want := fmt.Sprint(names), "[internal/a.go internal/b.go internal/leaf.go internal/c.go]"; got != want {
		t.Errorf("the way is %s, want %s", got, want)
	}
	if len(w.legs) != 2 || w.legs[0].bottoms[0] != "internal.Read" || w.legs[1].bottoms[0] != "internal.Run" {
		t.Errorf("the legs are %v", w.legs)
	}
	item := func(name string) string { return "1. Step\n   [" + name + "](../internal/" + name + ".go)\n" }
	const list = "\n[leaf](../internal/leaf.go)\n\n### Else\n[x](../internal/x.go)\n"
	for _, p := range []struct{ name, text, wrong string }{
		{"right", item("a") + item("b") + item("c") + item("a") + list, ""},
		{"also right", item("a") + item("c") + item("b") + item("leaf"), ""},
		{"with a file beside the steps", item("a") + item("b") + "\n[c](../internal/c.go)" + list, ""},
		{"without a step", item("a") + item("c") + list, "b.go is on the way"},
		{"without a leaf", item("a") + item("b") + item("c"), "leaf.go is on the way"},
		{"with another step", item("a") + item("b") + item("tick") + item("c") + list, "tick.go is linked and not"},
		{"with another file", item("a") + item("b") + item("c") + "\n[d](../internal/d.go)" + list, "d.go is linked and not"},
		{"in another order", item("b") + item("c") + item("b") + item("a") + list, "link 3 of the steps, to internal/b.go"},
	} {
		steps, others := linked(head + p.text)
		got := strings.Join(w.judge(steps, others), "\n")
		if p.wrong == "" && got != "" || !strings.Contains(got, p.wrong) {
			t.Errorf("page %s: found %q, want %q", p.name, got, p.wrong)
		}
	}
}
