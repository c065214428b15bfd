package lint

import (
	"fmt"
	"strings"
	"testing"
)

func TestTreeKeepsItsRules(t *testing.T) {
	files := tree(t)
	if n := len(goFiles(files)); n < 10 {
		t.Fatalf("found %d Go files: this is not the tree", n)
	}
	if len(clauses(files)) < 60 {
		t.Fatalf("found %d clauses in %s: the rule for its headings is wrong", len(clauses(files)), specification)
	}
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			for _, finding := range r.rule(files) {
				t.Error(finding)
			}
		})
	}
}

const spec = "## P-1 Transports\n\n**P-1.1 One.** A client MUST.\n\n**P-1.2 Two.** Text.\n\n---\n\n## P-2 Frames\n\n**P-2.1 Three.** It MUST NOT.\n"

// lockSource is a file of package conv with some declarations.
func lockSource(declarations string) string {
	return "package conv\nimport \"sync\"\n" + declarations + "\n"
}

// rules are all rules, each with trees that break it and trees that do not.
var rules = []struct {
	name string
	rule rule
	bad  []file // each breaks the rule, in a tree of also
	good []file // none breaks it
	also []file
}{
	{
		name: "imports", rule: importTable,
		bad: []file{
			{"internal/im/x.go", "package im\nimport \"" + module + "/internal/store\"\n"},
			{"internal/im/x.go", "package im\nimport \"golang.org/x/sys/unix\"\n"},
			{"internal/conv/x.go", "package conv\nimport _ \"" + module + "/internal/session\"\n"},
			{"internal/wire/x.go", "package wire\nimport \"" + module + "/internal/store/storepb\"\n"},
			{"internal/novelty/x.go", "package novelty\n"},
			{"sdk/go/x.go", "package petrel\nimport \"" + module + "/internal/wire\"\n"},
			{"sdk/go/x.go", "package petrel\nimport \"" + module + "/bench\"\n"},
			{"sdk/go/x.go", "package petrel\nimport \"github.com/cockroachdb/pebble/v2\"\n"},
			{"sdk/go/x_test.go", "package petrel\nimport \"" + module + "/internal/imtest\"\n"},
			{"sdk/go/example/echo/main.go", "package main\nimport \"" + module + "/internal/im\"\n"},
		},
		good: []file{
			{"internal/im/x.go", "package im\nimport \"crypto/rand\"\n"},
			{"internal/im/x_test.go", "package im\nimport \"" + module + "/internal/conv\"\n"},
			{"internal/conv/x.go", "package conv\nimport \"" + module + "/sdk/go/petrelv1\"\n"},
			{"internal/wire/x.go", "package wire\nimport \"" + module + "/sdk/go/petrelv1\"\n"},
			{"sdk/go/x.go", "package petrel\nimport \"" + module + "/sdk/go/petrelv1\"\n"},
			{"sdk/go/x.go", "package petrel\nimport \"google.golang.org/protobuf/proto\"\n"},
			{"sdk/go/example/echo/main.go", "package main\nimport \"" + module + "/sdk/go\"\n"},
			{"internal/app/x.go", "package app\nimport \"" + module + "/internal/gateway\"\n"},
		},
	},
	{
		name: "core of the SDK", rule: pureCore,
		bad: []file{
			{"sdk/go/x.go", "package petrel\nimport \"sync\"\nfunc (c *core) f() { _ = sync.Mutex{} }\n"},
			{"sdk/go/x.go", "package petrel\nfunc (v *conv) f() { go v.f() }\n"},
			{"sdk/go/x.go", "package petrel\nfunc (v conv) f(c chan int) {}\n"},
			{"sdk/go/x.go", "package petrel\nimport \"time\"\nfunc (c *core) f() { _ = time.Now() }\n"},
			{"sdk/go/x.go", "package petrel\nfunc (c *core) f(of *Client) {}\n"},
		},
		good: []file{
			{"sdk/go/x.go", "package petrel\nimport \"time\"\nfunc (c *core) f() time.Time { return time.UnixMilli(1) }\n"},
			{"sdk/go/x.go", "package petrel\nimport \"sync\"\nfunc (c *Client) f() { _ = sync.Mutex{} }\n"},
			{"sdk/go/x_test.go", "package petrel\nimport \"sync\"\nfunc (c *core) f() { _ = sync.Mutex{} }\n"},
		},
	},
	{
		name: "kinds of conversations", rule: kindChecks,
		bad: []file{
			{"internal/conv/x.go", "package conv\nvar x = []bool{" + strings.Repeat("k == im.Direct, ", maxKindChecks+1) + "}\n"},
			{"internal/conv/x.go", "package conv\nvar x = []bool{" + strings.Repeat("uint32(petrelv1.ConvKind_CONV_KIND_GROUP) != k, ", maxKindChecks+1) + "}\n"},
			{"internal/conv/x.go", "package conv\nfunc f() { switch k {\n" + strings.Repeat("case im.Group, im.Inbox:\n", maxKindChecks) + "} }\n"},
		},
		good: []file{
			{"internal/conv/x.go", "package conv\nvar x = []bool{" + strings.Repeat("k == im.Direct, ", maxKindChecks) + "}\n"},
			{"internal/policy/x.go", "package policy\nvar x = []bool{" + strings.Repeat("k == im.Direct, ", maxKindChecks+1) + "}\n"},
			{"internal/conv/x.go", "package conv\nvar x = []im.Kind{" + strings.Repeat("im.Direct, ", maxKindChecks+1) + "}\n"},
		},
	},
	{
		name: "one module", rule: oneModule,
		bad: []file{
			{"go.work", ""},
			{"sdk/go/go.mod", "module " + module + "/sdk/go\n"},
			{"go.mod", "module " + module + "\n\nreplace a => ./a\n"},
			{"go.mod", "module " + module + "\n\nreplace (\n\ta => ./a\n)\n"},
		},
		good: []file{{"go.mod", "module " + module + "\n\nrequire a v1.0.0\n"}},
	},
	{
		name: "order of the list", rule: listOrder,
		bad:  []file{{"internal/conv/x.go", "// Package conv: y.go, then x.go.\npackage conv\nfunc (o *Owner) f() { o.y() }\n"}},
		good: []file{{"internal/conv/x.go", "// Package conv: x.go, then y.go.\npackage conv\nfunc (o *Owner) f() { o.y() }\n"}},
		also: []file{{"internal/conv/y.go", "package conv\ntype Owner struct{}\nfunc (o *Owner) y() {}\n"}},
	},
	{
		name: "lists of files", rule: fileLists,
		bad: []file{
			{"internal/conv/x.go", "// Package conv has a.go, b.go, c.go and d.go.\npackage conv\n"},
			{"internal/conv/x.go", "// Package conv: a.go, b.go, c.go, e.go.\npackage conv\n"},
		},
		good: []file{
			{"internal/conv/x.go", "// Package conv: a.go, b.go, c.go, d.go, e.go and other/f.go.\npackage conv\n"},
			{"internal/conv/x.go", "// Package conv: begin with a.go and b.go, and then c.go.\npackage conv\n"},
			{"internal/conv/e_test.go", "// Package conv: a.go, b.go, c.go, e.go.\npackage conv\n"},
		},
		also: []file{{"internal/conv/d.go", "package conv\n"}, {"internal/conv/d_linux.go", "package conv\n"}, {"internal/conv/e.go", "package conv\n"}, {"internal/conv/x_test.go", "package conv\n"}},
	},
	{
		name: "map of the tree", rule: treeMap,
		bad: []file{
			{"docs/architecture.md", "```\ninternal/\n  conv/ the conversations\n```\n"},
			{"docs/architecture.md", "```\ntest/ it has chaos/\ninternal/\n  conv/\n```\nAnd internal/wire/.\n"},
		},
		good: []file{{"docs/architecture.md", "```\ntest/ it has chaos/\ninternal/\n  conv/ and wire/\n```\n"}},
		also: []file{{"internal/conv/x.go", "package conv\n"}, {"internal/wire/wiretest/x.go", "package wiretest\n"}, {"test/chaos/x.go", "package chaos\n"}},
	},
	{
		name: "columns", rule: columns,
		bad: []file{
			{"internal/im/x.go", "package im\n\n// " + strings.Repeat("x", maxColumns-2) + "\n"},
			{"internal/im/x.go", "package im\n\nfunc f() {\n\t" + strings.Repeat("x", maxColumns-5) + "()\n}\n"},
			{"internal/im/x.go", "package im\n\nvar x = \"" + strings.Repeat("x", longText-3) + "\" // " + strings.Repeat("x", 70) + "\n"},
		},
		good: []file{
			{"internal/im/x.go", "package im\n\n// " + strings.Repeat("é", maxColumns-3) + "\n"},
			{"internal/im/x.go", "package im\n\nvar x = `\n" + strings.Repeat("x", maxColumns+1) + "`\n"},
			{"internal/im/x_test.go", "package im\n\n// " + strings.Repeat("x", maxColumns) + "\n"},
		},
	},
	{
		name: "sizes", rule: sizes,
		bad: []file{
			{"internal/im/x.go", "package im\n" + strings.Repeat("\n", maxFileLines)},
			{"internal/im/x.go", "package im\nfunc f() {" + strings.Repeat("\n", maxFunctionLines) + "}\n"},
			{"internal/im/x_test.go", "package im\nfunc (x X) f() {" + strings.Repeat("\n", maxFunctionLines) + "}\n"},
		},
		good: []file{
			{"internal/im/x.go", "package im\nfunc f() {" + strings.Repeat("\n", maxFunctionLines-1) + "}\n"},
			{"internal/im/x.go", "// Code generated by hand. DO NOT EDIT.\npackage im\n" + strings.Repeat("\n", maxFileLines)},
			{"docs/x.md", strings.Repeat("\n", maxFileLines+1)},
		},
	},
	{
		name: "package names", rule: packageNames,
		bad: []file{
			{"internal/utils/x.go", "package utils\n"},
			{"internal/testutil/x.go", "package testutil\n"},
			{"internal/x/x.go", "package sessionmanager\n"},
			{"internal/helper/x.go", "package x\n"},
			{"internal/base/x_test.go", "package base_test\n"},
		},
		good: []file{{"internal/database/x.go", "package database\n"}, {"internal/report/x.go", "package report\n"}},
	},
	{
		name: "interfaces", rule: interfaces,
		bad: []file{
			{"internal/conv/x.go", "package conv\ntype Store interface{ A() }\n"},
			{"internal/conv/x.go", "package conv\ntype store interface{ A(); B(); C(); D() }\n"},
			{"internal/conv/x.go", "package conv\ntype a interface{ A() }\ntype b interface{ A() }\ntype c interface{ A() }\n"},
			{"internal/conv/x.go", "package conv\nfunc f() { type Store interface{ A() } }\n"},
		},
		good: []file{
			{"internal/conv/x.go", "package conv\ntype store interface{ A(); B(); C() }\ntype number interface{ ~int | ~uint }\n"},
			{"internal/store/x.go", "package store\ntype Store interface{ A(); B(); C(); D() }\n"},
			{"internal/conv/x_test.go", "package conv\ntype Fake interface{ A() }\n"},
		},
	},
	{
		name: "init", rule: initFunctions,
		bad:  []file{{"internal/conv/x.go", "package conv\nfunc init() {}\n"}},
		good: []file{{"internal/conv/x.go", "package conv\nfunc (x X) init() {}\n"}},
	},
	{
		name: "files know those below", rule: fileCycles,
		bad: []file{
			{"internal/conv/x.go", "package conv\nconst x = 1\nfunc (o *Owner) f() { o.y() }\n"},
			{"internal/conv/x.go", "package conv\nconst x = 1\ntype part struct{ *Owner }\nfunc f(p part) { p.y() }\n"},
			{"internal/conv/x.go", "package conv\nconst x = 1\nvar number = (*Owner).y\n"},
			{"internal/conv/x.go", "package conv\nimport \"sync/atomic\"\nconst x = 1\ntype list []atomic.Pointer[Owner]\nfunc f(l list) { func() { l[0].Load().n++ }() }\n"},
			{"internal/conv/x.go", "package conv\nconst x = z\n"},
		},
		good: []file{
			{"internal/conv/x.go", "package conv\nconst x = 1\n"},
			{"internal/conv/x.go", "package conv\nconst x = 1\nfunc f() { var y, n int; _ = y + n }\n"},
			{"internal/conv/x_test.go", "package conv\nconst x = 1\nfunc f() { new(Owner).y() }\n"},
			{"internal/inbox/x.go", "package inbox\nfunc f() { new(reader).y() }\n"},
		},
		also: []file{
			{"internal/conv/owner.go", "package conv\ntype Owner struct { n int }\nfunc (o *Owner) y() { o.n = z }\n"},
			{"internal/conv/z.go", "package conv\nconst z = x\n"},
			{"internal/inbox/reader.go", "package inbox\ntype reader struct{}\nfunc (r *reader) y() { f() }\n"},
		},
	},
	{
		name: "package variables", rule: packageVariables,
		bad: []file{
			{"internal/conv/x.go", "package conv\nvar n int\nfunc f() { n = 1 }\n"},
			{"internal/conv/x.go", "package conv\nvar n int\nfunc f() { m, n := 1, 2; { n++; m-- } }\nfunc g() { n-- }\n"},
			{"internal/conv/x.go", "package conv\nvar n struct{ m map[string][]int }\nfunc f() { (n).m[\"a\"][2] += 3 }\n"},
			{"internal/conv/x.go", "package conv\nvar n = new(int)\nfunc f() { *n = 1 }\n"},
			{"internal/conv/x.go", "package conv\nvar n [3]int\nfunc f(m []int) { for n[0] = range m {} }\n"},
			{"internal/conv/x.go", "package conv\nvar n map[int]int\nfunc f() { delete(n, 1) }\n"},
			{"internal/conv/x.go", "package conv\nimport \"flag\"\nvar n bool\nfunc f() { flag.BoolVar(&n, \"n\", false, \"\") }\n"},
			{"internal/conv/x.go", "package conv\nvar x X\ntype X int\nfunc (x *X) add() { *x++ }\nfunc f() { x.add() }\n"},
			{"internal/conv/x.go", "package conv\nvar n = func() int { n++; return 1 }()\n"},
			{"internal/conv/x.go", "package conv\nimport \"net/http\"\nfunc f() { http.DefaultClient.Timeout = 1 }\n"},
			{"internal/conv/x.go", "package conv\nimport \"sync\"\nvar mu sync.Mutex\n"},
			{"internal/conv/x.go", "package conv\nimport \"sync/atomic\"\nvar x = &struct{ n atomic.Int64 }{}\n"},
			{"internal/conv/x.go", "package conv\nimport \"sync/atomic\"\nvar x = new(atomic.Int64)\n"},
		},
		good: []file{
			{"internal/conv/x.go", "package conv\nvar n = 1\nvar table = map[int]int{1: n}\nfunc f(n int) int { n = 2; n++; m := n; m = table[1]; return m }\n"},
			{"internal/conv/x.go", "package conv\nimport \"sync\"\nvar pool = sync.Pool{}\nvar once = sync.OnceValue(f)\nfunc f() int { pool.Put(1); return 1 }\n"},
			{"internal/conv/x.go", "package conv\nvar noX = &X{}\ntype X struct{ n int }\nfunc (x *X) add() { x.n++ }\nfunc f() { x := X{}; x.add(); x.n = noX.n }\n"},
			{"internal/conv/x_test.go", "package conv\nvar n int\nfunc f() { n++ }\n"},
			{"internal/conv/x.go", "// Code generated by x. DO NOT EDIT.\npackage conv\nvar n int\nfunc f() { n++ }\n"},
		},
	},
	{
		name: "readme", rule: readmeLength,
		bad:  []file{{"README.md", strings.Repeat("\n", maxReadmeLines+1)}, {"docs/README.md", "short\n"}},
		good: []file{{"README.md", strings.Repeat("\n", maxReadmeLines)}},
	},
	{
		name: "unfinished work", rule: unfinished,
		bad: []file{
			{"internal/conv/x.go", "package conv\n// TO" + "DO: later\n"},
			{"Makefile", "all: # FIX" + "ME\n"},
		},
		good: []file{
			{"internal/conv/x.go", "package conv\n// #12: later\nvar context = TODOS\n"},
			{"internal/conv/x.go", "// Code generated by x. DO NOT EDIT.\npackage conv\n// TO" + "DO\n"},
		},
	},
	{
		name: "skipped tests", rule: skippedTests,
		bad: []file{
			{"internal/conv/x_test.go", "package conv\nfunc f(t *testing.T) { t.Skip" + "(\"flaky\") }\n"},
			{"internal/conv/x_test.go", "package conv\nfunc f(b *testing.B) { b.SkipNow" + "() }\n"},
			{"test/foreign/x.py", "@pytest.mark.skip\n"},
			{"test/foreign/x.mjs", "test.skip('x')\n"},
		},
		good: []file{{"internal/conv/x_test.go", "package conv\nfunc f() { it.Skip" + "(n) }\n"}},
	},
	{
		name: "machine paths", rule: machinePaths,
		bad: []file{
			{"docs/x.md", "see /ho" + "me/alice/petrel\n"},
			{"internal/conv/x.go", "package conv\nconst dir = \"/tm" + "p/petrel\"\n"},
			{"docs/x.md", "`C:\\Us" + "ers\\alice`\n"},
		},
		good: []file{{"docs/x.md", "/etc/petrel/petrel.toml, a/tmp/b, https://example.org/home/x, $ROOT/home/x, ${DIR}/tmp/x\n"}},
	},
	{
		name: "sleeps", rule: sleeps,
		bad: []file{
			{"internal/conv/x_test.go", "package conv\nfunc TestX(t *testing.T) { time.Sleep(1) }\n"},
			{"internal/conv/x_test.go", "package conv\nfunc TestX(t *testing.T) { f() }\nfunc f() { go func() { time.Sleep(1) }() }\n"},
			{"internal/conv/x_test.go", "package conv\nfunc TestX(t *testing.T) { synctest.Test(t, f); time.Sleep(1) }\n"},
			{"internal/conv/x_test.go", "package conv\nimport clock \"time\"\nfunc TestX(t *testing.T) { clock.Sleep(1) }\n"},
			{"internal/conv/x_test.go", "package conv\nimport . \"time\"\nfunc TestX(t *testing.T) { Sleep(1) }\n"},
			{"internal/conv/x_test.go", "package conv\nfunc ExampleX() { time.Sleep(1) }\n"},
			{"internal/conv/x_test.go", "package conv\nfunc TestX(t *testing.T) { _ = unix.Nanosleep(&d, nil) }\n"},
			{"internal/conv/x_test.go", "package conv\nfunc TestX(t *testing.T) { _ = exec.Command(\"sleep\", \"1\").Run() }\n"},
			{"internal/conv/x_test.go", "package conv\nfunc TestX(t *testing.T) { _ = exec.CommandContext(ctx, \"sh\", \"-c\", \"x; sleep 0.1; y\").Run() }\n"},
		},
		good: []file{
			{"internal/conv/x_test.go", "package conv\nfunc TestX(t *testing.T) { synctest.Test(t, func(t *testing.T) { time.Sleep(1) }) }\n"},
			{"internal/conv/x_test.go", "package conv\nfunc settle() { time.Sleep(1); synctest.Wait() }\n"},
			{"internal/conv/x_test.go", "package conv\nfunc TestX(t *testing.T) { _ = exec.Command(\"ps\", \"asleep\").Run(); Sleep(1) }\n"},
			{"bench/x.go", "package bench\nfunc f() { time.Sleep(1) }\n"},
		},
	},
	{
		name: "pauses in TypeScript", rule: pauses,
		bad: []file{
			{"sdk/ts/test/x.test.ts", "await new Promise((resolve) => setTimeout(resolve, 5))\n"},
			{"sdk/ts/src/core/x.test.ts", "import { setTimeout as pause } from 'node:timers/promises'\n"},
			{"web/test/x.ts", "await page.waitForTimeout(100)\n"},
			{"web/src/x.test.tsx", "setInterval(look, 20)\n"},
			{"sdk/ts/test/until.ts", "export const none = 0\n"},
		},
		good: []file{
			{"sdk/ts/test/x.test.ts", "t.mock.timers.enable({ apis: ['setTimeout'] })\n"},
			{"web/test/x.test.ts", "requestAnimationFrame(() => setTimeout(resolve))\n"},
			{"web/src/x.tsx", "const timer = setTimeout(look, 300)\n"},
		},
	},
	{
		name: "clock", rule: realClock,
		bad: []file{
			{"internal/conv/x_test.go", "package conv\nfunc TestX(t *testing.T) { _ = time.Now() }\n"},
			{"internal/conv/x_test.go", "package conv\nfunc TestX(t *testing.T) { help() }\nfunc help() { _, _ = context.WithTimeout(ctx, 1) }\n"},
			{"internal/conv/x_test.go", "package conv\nfunc TestX(t *testing.T) { w.wait() }\nfunc (w *world) wait() { <-time.After(1) }\n"},
			{"internal/conv/x_test.go", "package conv\nimport \"" + module + "/internal/conv/convtest\"\nfunc TestX(t *testing.T) { convtest.Pause() }\n"},
			{"internal/conv/x_test.go", "package conv\nimport c \"" + module + "/internal/conv/convtest\"\nfunc TestX(t *testing.T) { c.Pause() }\n"},
			{"internal/conv/x_test.go", "package conv\nfunc TestX(t *testing.T) { synctest.Test(t, f); now() }\nvar now = time.Now\nfunc y() { now() }\n"},
			{"internal/conv/x_test.go", "package conv\nfunc TestX(t *testing.T) { f := time.Now; f() }\n"},
		},
		good: []file{
			{"internal/conv/x_test.go", "package conv\nfunc TestX(t *testing.T) { synctest.Test(t, func(t *testing.T) { _ = time.Now() }) }\n"},
			{"internal/conv/x_test.go", "package conv\nfunc TestX(t *testing.T) { inBubble(t, func() { time.Sleep(1) }) }\nfunc inBubble(t *testing.T, f func()) { synctest.Test(t, func(t *testing.T) { f() }) }\n"},
			{"internal/conv/x_test.go", "package conv\nfunc BenchmarkX(b *testing.B) { _ = time.Now() }\n"},
			{"internal/conv/x_test.go", "package conv\nfunc TestX(t *testing.T) { settle() }\nfunc settle() { time.Sleep(1); synctest.Wait() }\n"},
			{"internal/conv/x.go", "package conv\nfunc f() { _ = time.Now() }\n"},
		},
		also: []file{{"internal/conv/convtest/x.go", "package convtest\nimport \"time\"\nfunc Pause() { <-time.After(1) }\n"}},
	},
	{
		name: "dead links", rule: deadLinks,
		bad:  []file{{"docs/a.md", "[x](b.md)\n"}, {"docs/a.md", "[x](../docs/b.md#part)\n"}, {"README.md", "[x](nowhere/)\n"}},
		good: []file{{"docs/a.md", "[x](c.md) [y](c.md#part) [z](#part) [w](https://example.org/b.md) [v](../docs)\n"}},
		also: []file{{"docs/c.md", ""}},
	},
	{
		name: "pages name what exists", rule: pageReferences,
		bad: []file{
			{"docs/a.md", "see `internal/conv/gone.go`\n"},
			{"docs/a.md", "see `conv/gone`\n"},
			{"docs/a.md", "see `gone.go`\n"},
			{"docs/a.md", "`conv.Gone` decides\n"},
			{"docs/a.md", "`Owner.gone` decides\n"},
			{"docs/a.md", "`Gone.mu` guards it\n"},
			{"docs/a.md", "`gone.mu` guards it\n"},
			{"docs/a.md", "`Owner.state.gone` guards it\n"},
			{"docs/a.md", "`store.gone` is an option\n"},
			{"docs/a.md", "`GoneFrame` is a frame\n"},
			{"docs/a.md", "`Gone(ctx, n)` is called\n"},
			{"docs/a.md", "`MessageService/Gone`\n"},
			{"proto/README.md", "`ClientFrame.gone`\n"},
			{"docs/a.md", "```\ninternal/\n  gone/   nothing\n```\n"},
		},
		good: []file{
			{"docs/a.md", "`internal/conv/owner.go`, `conv`, `conv/`, `owner.go`, `./docs/a.md`, `build/bin/petrel`, `gone/anywhere`, `log/slog`\n"},
			{"docs/a.md", "`conv.Owner.mu`, `Owner.mu`, `Owner.state.mu`, `conv.Owner.Submit`, `conv.Open`, `Owner.peer.name`, `Owner.deep`, `Submit(ctx)`\n"},
			{"docs/a.md", "`store.dir`, `limits.frameBytes`, `gone.field`, `GONE.field`, `gone`, `Gone`, `a_gone`, `GONE`, `window.sends`\n"},
			{"docs/a.md", "`ClientFrame.clientMsgId`, `MessageService/SendNow`, `MessageService.SendNow`\n"},
			{"docs/a.md", "```go\ngone/ x\n```\n\n```\ninternal/ conv/\n```\n"},
			{"CHANGELOG.md", "`conv.Gone`\n"},
		},
		also: []file{
			{"internal/conv/owner.go", "package conv\nimport \"" + module + "/internal/im\"\ntype Owner struct { base; mu sync.Mutex; state struct{ mu sync.Mutex }; peer *im.Peer }\ntype base struct{ deep int }\nfunc (o *Owner) Submit() {}\nfunc Open() {}\n"},
			{"internal/im/im.go", "package im\ntype Peer struct{ name string }\n"},
			{"internal/store/store.go", "package store\n"},
			{optionsFile, "package config\nvar o = \"store.dir limits.frames\"\nvar options = []string{\"store.dir\", \"limits.frame_bytes\"}\n"},
			{"proto/a.proto", "message ClientFrame {\n  oneof body {\n    string client_msg_id = 1; // x\n  }\n}\nservice MessageService {\n  rpc SendNow(A) returns (B) {\n  }\n}\n"},
		},
	},
	{
		name: "comments name what exists", rule: commentReferences,
		bad: []file{
			{"internal/conv/x.go", "package conv\n// The rest is in gone.go.\n"},
			{"internal/conv/x.go", "package conv\n// The rest is in session/gone.go.\n"},
			{"internal/conv/x.go", "package conv\n// See docs/gone for why.\n"},
			{"internal/conv/x.go", "package conv\n// Guarded by Gone.mu.\nvar a int\n"},
			{"internal/conv/x.go", "package conv\n// It calls Owner.gone then.\n"},
			{"internal/conv/x.go", "package conv\n// It calls im.Gone then.\n"},
			{"internal/conv/x.go", "package conv\ntype t struct {\n\ta int // guarded by gone\n}\n"},
			{"internal/conv/x.go", "package conv\ntype t struct {\n\ta chan int // closed by gone\n}\n"},
			{"internal/conv/x.go", "package conv\ntype t struct {\n\ta chan int // closed when gone is set\n}\n"},
		},
		good: []file{
			{"internal/conv/x.go", "package conv\n// See owner.go, im/im.go, docs/decisions/001 and docs/a.md; closed by nobody.\n"},
			{"internal/conv/x.go", "package conv\n// Owner.mu guards it; im.Peer, os.File and Owner.Submit (Owner.mu) do not.\n"},
			{"internal/conv/x.go", "package conv\ntype t struct {\n\ta chan int // closed by Submit; guarded by mu; closed when b is set\n\tb int // closed when loading has stopped\n}\n"},
			{"internal/conv/x.go", "// Code generated by x. DO NOT EDIT.\npackage conv\n// gone.go\n"},
		},
		also: []file{
			{"internal/conv/owner.go", "package conv\ntype Owner struct { mu sync.Mutex }\nfunc (o *Owner) Submit() {}\n"},
			{"internal/im/im.go", "package im\ntype Peer struct{ name string }\n"},
			{"docs/decisions/001-a.md", ""}, {"docs/a.md", ""},
		},
	},
	{
		name: "links say where they lead", rule: links,
		bad: []file{
			{"docs/a.md", "[x](b.md#gone)\n"},
			{"docs/a.md", "# One\n[x](#two)\n"},
			{"docs/a.md", "[gone.go](../internal/conv/owner.go)\n"},
			{"docs/a.md", "[`conv/gone.go`](../internal/conv/owner.go)\n"},
		},
		good: []file{{"docs/a.md", "## The `way`, of one\n[x](#the-way-of-one) [y](b.md#part-two) [conv/owner.go](../internal/conv/owner.go) [`owner.go`](../internal/conv/owner.go) [conv](../internal/conv)\n"}},
		also: []file{{"docs/b.md", "# Part two\n"}},
	},
	{
		name: "goroutines are listed", rule: goroutines,
		bad: []file{
			{"internal/conv/x.go", "package conv\nfunc f() { go g() }\nfunc (o *Owner) Run() { wg.Go(o.run) }\nfunc (o *Owner) stop() { time.AfterFunc(1, f) }\nfunc h() { go f() }\n"},
			{"internal/conv/x.go", "package conv\nfunc f() { go g() }\nfunc (o *Owner) Run() { wg.Go(o.run) }\n"},
			{"internal/conv/x.go", "package conv\nfunc f() { go g() }\nfunc (o *Owner) Run() { o.run() }\nfunc (o *Owner) stop() { time.AfterFunc(1, f) }\n"},
			{"internal/conv/x.go", "package conv\nfunc f() { go g() }\nfunc (o *Owner) Run() { wg.Go(o.run) }\nfunc (o *Owner) stop() { func() { g.Go(o.run) }() }\nfunc (o *Other) stop() { func() { g.Go(o.run) }() }\n"},
		},
		good: []file{{"internal/conv/x.go", "package conv\nfunc f() { go g() }\nfunc (o *Owner) Run() { wg.Go(o.run) }\nfunc (o *Owner) stop() { func() { g.Go(o.run) }() }\nfunc g() { Go(f) }\n"}},
		also: []file{
			{"internal/app/app.go", "package app\nimport _ \"" + module + "/internal/inbox\"\n"},
			{"internal/inbox/inbox.go", "package inbox\nimport _ \"" + module + "/internal/conv\"\n"},
			{"internal/imtest/x.go", "package imtest\nfunc h() { go h() }\n"},
			{"internal/client/x.go", "package client\nfunc h() { go h() }\n"},
			{"internal/conv/x_test.go", "package conv\nfunc h() { go h() }\n"},
			{concurrencyPage, "# Goroutines\n\n| started by | does |\n|---|---|\n| `conv.f` | a |\n| `conv.Owner.Run`, `conv.Owner.stop` | b |\n| net/http | c |\n\n# Locks\n\n| lock | started by |\n|---|---|\n| a | `x` |\n"},
		},
	},
	{
		name: "questions are answered", rule: questions,
		bad: []file{
			{"internal/api/x.go", "package api\nfunc f() { route.Ask(ctx, r, by, (*conv.Owner).State, &convpb.GetState{}) }\n"},
			{"internal/api/x.go", "package api\nfunc f() { route.Ask(ctx, r, by, (*conv.Owner).History, q); route.Ask(ctx, r, by, (*conv.Owner).Record, q) }\n"},
			{"internal/route/x.go", "package route\nfunc f() { Ask(ctx, r, by, r.other, q); Ask(ctx, r, by, (*conv.Owner).History, q) }\n"},
			{"internal/route/x.go", "package route\nfunc f() { request[convpb.ListOther, convpb.Other](ctx, c, f, by, q); Ask(ctx, r, by, (*conv.Owner).History, q) }\n"},
		},
		good: []file{{"internal/api/x.go", "package api\nfunc f() { a, err := route.Ask(ctx, r, by, (*conv.Owner).History, q) }\n"}},
		also: []file{
			{"internal/route/router.go", "package route\nfunc (r *Router) answers() []question { return []question{ofOwner((*conv.Owner).History), ofOwner(r.mine), ofNode(serve)} }\nfunc g() { Ask(ctx, r, by, r.mine, q) }\n"},
			{"internal/route/y.go", "package route\nfunc serve(ctx context.Context, q *convpb.ListChanges) {}\nfunc g() { request[convpb.ListChanges, convpb.Changes](ctx, c, f, by, q); request[Q, A, PQ, PA](ctx, c, feed, by, q) }\n"},
		},
	},
	{
		name: "goroutines are waited for", rule: unawaited,
		bad: []file{
			{"internal/conv/x.go", "package conv\nfunc f() {\n\tgo g()\n}\nfunc h() {\n\tgo g() // it ends soon\n}\n"},
			{"internal/conv/x.go", "package conv\nfunc f() {\n\tgo g() // f waits for it\n}\n"},
			{"internal/conv/x.go", "package conv\n"},
		},
		good: []file{{"internal/conv/x.go", "package conv\nfunc f() {\n\tgo g()\n}\nfunc (o *Owner) h() {\n\tgo func() { // counted in tasks\n\t}()\n\tgo g() // h waits for it\n\ttasks.Go(g)\n}\n"}},
		also: []file{
			{"internal/app/app.go", "package app\nimport _ \"" + module + "/internal/conv\"\n"},
			{concurrencyPage, "### Goroutines that nobody waits for\n\n| started by | why |\n|---|---|\n| `conv.f` | a |\n"},
		},
	},
	{
		name: "bounds of queues are those of the code", rule: bounds,
		bad: []file{
			{"internal/conv/x.go", "package conv\nconst maxA = 9_000\nconst maxB = 1 << 16\n"},
			{"internal/conv/x.go", "package conv\nconst maxA = 8_000\nconst maxB = 1 << 15\n"},
			{"internal/conv/x.go", "package conv\nconst maxA = 8_000\n"},
		},
		good: []file{{"internal/conv/x.go", "package conv\nconst maxA = 8_000\nconst (\n\tmaxB = 1 << 16 // of all\n)\n"}},
		also: []file{
			{"internal/app/app.go", "package app\nimport _ \"" + module + "/internal/conv\"\n"},
			{concurrencyPage, "## Queues\n\n| queue | bound | when it is full |\n|---|---|---|\n| a | 8,000 (`conv.maxA`); 7 | b |\n| c | 65,536 (`conv.maxB`), 1 minute | d |\n"},
		},
	},
	{
		name: "schedules have tests", rule: schedules,
		bad: []file{
			{"internal/conv/x_test.go", "package conv\nfunc TestF1Once(t *testing.T) {}\n"},
			{"internal/conv/x_test.go", "package conv\nfunc TestF1Once(t *testing.T) {}\nfunc TestF2bTwice(t *testing.T) {}\nfunc TestF3(t *testing.T) {}\n"},
		},
		good: []file{{"internal/conv/x_test.go", "package conv\nfunc TestF1Once(t *testing.T) {}\nfunc TestF2bTwice(t *testing.T) {}\nfunc TestForm(t *testing.T) {}\n"}},
		also: []file{{concurrencyPage, "# Schedules that must not break it\n\n| | schedule |\n|---|---|\n| F1 | a |\n| F2 | b |\n"}},
	},
	{
		name: "locks are listed", rule: lockTable,
		bad: []file{
			{"internal/conv/x.go", lockSource("type Owner struct { mu sync.Mutex // guards a\na int }\ntype part struct { mu sync.RWMutex // tier 0\n}")},
			{"internal/conv/x.go", lockSource("type Owner struct { mu sync.Mutex // tier 1; guards a\na int }\ntype part struct { mu sync.RWMutex // tier 0\n}")},
			{"internal/conv/x.go", lockSource("type Owner struct { mu sync.Mutex // tier 2; guards b\na int }\ntype part struct { mu sync.RWMutex // tier 0\n}")},
			{"internal/conv/x.go", lockSource("type Owner struct { mu sync.Mutex // tier 2; guards a\na int }")},
			{"internal/conv/x.go", lockSource("type Owner struct { mu sync.Mutex // tier 2; guards a\na int }\ntype part struct { mu sync.RWMutex // tier 0\nother sync.Mutex // tier 0\n}")},
			{"internal/conv/x.go", lockSource("type Owner struct { mu sync.Mutex // tier 2; guards a\na int }\ntype part struct { mu sync.RWMutex // tier 0\n}\nfunc f() { var mu sync.Mutex }")},
			{"internal/conv/x.go", lockSource("type Owner struct { mu sync.Mutex // tier 2; guards a\na int }\ntype part struct { mu sync.RWMutex // tier 0\n}\nfunc f() { var mu sync.Mutex // tier 0; guards a and b\na := 1 }")},
		},
		good: []file{{"internal/conv/x.go", lockSource("type Owner struct { mu sync.Mutex // tier 2; guards a\na int }\ntype part struct { mu sync.RWMutex // tier 0; guards the fields below\n}\nfunc f() { var mu sync.Mutex // tier 0; guards a and b\nvar a, b int }")}},
		also: []file{
			{"internal/app/app.go", "package app\nimport _ \"" + module + "/internal/conv\"\n"},
			{"bench/x.go", "package bench\nimport \"sync\"\ntype a struct { mu sync.Mutex // tier 0\n}\n"},
			{"internal/conv/x_test.go", "package conv\nimport \"sync\"\ntype a struct { mu sync.Mutex }\n"},
			{concurrencyPage, "# Locks\n\n| tier | lock | guards |\n|---|---|---|\n| 2 | `conv.Owner.mu` | `conv.no.mu` |\n| 0 | `conv.part.mu`, a turn of `conv.turns` | b |\n"},
		},
	},
	{
		name: "locks are held as is said", rule: lockOrder,
		bad: []file{
			{"internal/conv/x.go", lockSource("func f(o *Owner, p *part) { p.mu.Lock(); o.mu.Lock() }")},
			{"internal/conv/x.go", lockSource("func f(o, q *Owner) { o.mu.Lock(); q.mu.Lock() }")},
			{"internal/conv/x.go", lockSource("func f(o *Owner, p *part) { p.mu.RLock(); defer p.mu.RUnlock(); if true { return }; o.mu.Lock() }")},
			{"internal/conv/x.go", lockSource("func f(o *Owner, p *part) { if true { p.mu.RLock() }; o.mu.Lock() }")},
			{"internal/conv/x.go", lockSource("func f(o *Owner, p *part) { p.mu.Lock(); o.set() }")},
			{"internal/conv/x.go", lockSource("func f(o *Owner, p *part) { p.mu.Lock(); g(o) }\nfunc g(o *Owner) { for range 3 { o.set() } }")},
			{"internal/conv/x.go", lockSource("func f(o *Owner, p *part) { p.each(func() { o.set() }) }\nfunc (p *part) each(do func()) { p.mu.Lock(); do() }")},
			{"internal/conv/x.go", lockSource("func (p *part) fLocked() { new(Owner).set() }")},
			{"internal/conv/x.go", lockSource("type a struct {\n\tb int // guarded by Owner.mu\n}\nfunc f(o *Owner, x *a) { o.mu.Lock(); o.mu.Unlock(); x.b++ }")},
			{"internal/conv/x.go", lockSource("type a struct {\n\t// Guarded by Owner.mu.\n\tb int\n\tc int\n\n\t// Not.\n\td int\n}\nfunc f(o *Owner, x *a) { x.c++; o.mu.Lock(); x.d++ }")},
			{"internal/conv/x.go", lockSource("// a is a part. Owner.mu guards all of it.\ntype a struct { b int }\nfunc f(p *part, x *a) { p.mu.Lock(); x.b++ }")},
			{"internal/conv/x.go", lockSource("func f(os map[string]*Owner, p *part) { for _, o := range os { p.mu.Lock(); o.set() } }")},
			{"internal/conv/x.go", lockSource("func f(p *part) { p.mu.Lock(); elsewhere().mu.Lock() }")},
			{"internal/im/x.go", "package im\nimport (\"sync\"; \"" + module + "/internal/conv\")\nfunc f(o *conv.Owner) { var mu sync.Mutex // tier 0\nmu.Lock(); o.Set() }"},
		},
		good: []file{
			{"internal/conv/x.go", lockSource("func f(o *Owner, p *part) { o.mu.Lock(); p.mu.Lock(); p.mu.Unlock(); o.mu.Unlock(); p.mu.Lock() }")},
			{"internal/conv/x.go", lockSource("func f(o *Owner, p *part) { if true { p.mu.Lock(); p.mu.Unlock() }; o.mu.Lock() }")},
			{"internal/conv/x.go", lockSource("func f(o *Owner, p *part) { if true { p.mu.Lock(); return }; o.mu.Lock() }")},
			{"internal/conv/x.go", lockSource("func f(o *Owner, p *part) { p.mu.Lock(); go o.set(); go func() { o.set() }(); var wg sync.WaitGroup; wg.Go(func() { o.set() }) }")},
			{"internal/conv/x.go", lockSource("func f(o *Owner, p *part) { p.each(func() { o.set() }) }\nfunc (p *part) each(do func()) { p.mu.Lock(); p.mu.Unlock(); do() }")},
			{"internal/conv/x.go", lockSource("func (o *Owner) fLocked() { new(part).mu.Lock() }")},
			{"internal/conv/x.go", lockSource("// a is a part. Guarded by Owner.mu.\ntype a struct { b int }\nfunc (x *a) add() { x.b++ }\nfunc f(o *Owner, x *a) { o.mu.Lock(); x.add() }")},
			{"internal/conv/x.go", lockSource("// a is a part. Owner.mu guards it.\ntype a struct { b, c int }\nfunc (o *Owner) fLocked(x *a) { x.b++ }\nfunc f(x *a) { x.c++ }")},
			{"internal/conv/x.go", lockSource("type a struct {\n\t// Guarded by Owner.mu.\n\tb int\n\tc int\n\n\t// Not.\n\td int\n}\nfunc f(o *Owner, x *a) { x.d++; o.mu.Lock(); x.c++ }")},
			{"internal/conv/x_test.go", lockSource("func f(o *Owner, p *part) { p.mu.Lock(); o.mu.Lock() }")},
		},
		also: []file{
			{"internal/conv/owner.go", "package conv\nimport \"sync\"\ntype Owner struct {\n\tmu sync.Mutex // tier 2\n}\ntype part struct {\n\tmu sync.RWMutex // tier 0\n}\nfunc (o *Owner) set() { o.mu.Lock(); defer o.mu.Unlock() }\nfunc (o *Owner) Set() { o.set() }\n"},
		},
	},
	{
		name: "table of features", rule: featureRows,
		bad: []file{
			{featuresPage, "# x\n"},
			{featuresPage, featuresOf("| x | P-1.1 | `send` | `Client.Send` | `Client.send` | `test/scenario/x.txt` |")},
			{featuresPage, featuresOf("| x | 1.1 | `send` | `Client.Send` | `Client.send` | `test/scenario/x.txt` | [x](y.md) |")},
			{featuresPage, featuresOf("| x | P-1.1 | `gone` | `Client.Send` | `Client.send` | `test/scenario/x.txt` | [x](y.md) |")},
			{featuresPage, featuresOf("| x | P-1.1 | `X/Gone` | `Client.Send` | `Client.send` | `test/scenario/x.txt` | [x](y.md) |")},
			{featuresPage, featuresOf("| x | P-1.1 | `Send.gone` | `Client.Send` | `Client.send` | `test/scenario/x.txt` | [x](y.md) |")},
			{featuresPage, featuresOf("| x | P-1.1 | `petrel gone` | `Client.Send` | `Client.send` | `test/scenario/x.txt` | [x](y.md) |")},
			{featuresPage, featuresOf("| x | P-1.1 | send | `Client.Send` | `Client.send` | `test/scenario/x.txt` | [x](y.md) |")},
			{featuresPage, featuresOf("| x | P-1.1 | `send` | `Client.Gone` | `Client.send` | `test/scenario/x.txt` | [x](y.md) |")},
			{featuresPage, featuresOf("| x | P-1.1 | `send` | `Gone` | `Client.send` | `test/scenario/x.txt` | [x](y.md) |")},
			{featuresPage, featuresOf("| x | P-1.1 | `send` | `Client.Send` | `Client.gone` | `test/scenario/x.txt` | [x](y.md) |")},
			{featuresPage, featuresOf("| x | P-1.1 | `send` | `Client.Send` | `gone` | `test/scenario/x.txt` | [x](y.md) |")},
			{featuresPage, featuresOf("| x | P-1.1 | `send` | `Client.Send` | `Client.send` | `test/scenario/gone.txt` | [x](y.md) |")},
			{featuresPage, featuresOf("| x | P-1.1 | `send` | `Client.Send` | `Client.send` | – | [x](y.md) |")},
			{featuresPage, featuresOf("| x | P-1.1 | `send` | `Client.Send` | `Client.send` | `test/scenario/x.txt` | |")},
		},
		good: []file{
			{featuresPage, featuresOf("| **y** | | | | | | |\n| x | P-1.1, P-1.2 | `send`, `X/Send`, `Send.text`, `petrel serve` | `Client.Send`, `New` | `Client.send`, `Client.mute`, `use` | `test/scenario/x.txt` | [x](y.md) |")},
			{featuresPage, featuresOf("| x | – | – | – | – | `test/scenario/x.txt` | – |") + "\n## Others\n\n| x | y |\n"},
		},
		also: []file{
			{"proto/a.proto", "message ClientFrame {\n  Send send = 3;\n}\nmessage Send {\n  string text = 1;\n}\nservice X {\n  rpc Send(A) returns (B);\n}\n"},
			{"sdk/go/x.go", "package petrel\ntype Client struct{}\nfunc (c *Client) Send() {}\nfunc New() *Client { return nil }\n"},
			{"sdk/ts/src/x.ts", "export class Client extends Views {\n  send(): void {}\n}\nexport class Views {\n  mute(): void {}\n}\nexport function use(): void {}\n"},
			{"test/scenario/x.txt", ""},
			{"docs/reference/cli.md", "\n## petrel serve\n"},
		},
	},
	{
		name: "cited clauses exist", rule: citedClauses,
		bad: []file{
			{"internal/conv/x.go", "package conv\n// Spec: P-9.9.\n"},
			{"docs/x.md", "P-7 says so\n"},
		},
		good: []file{{"internal/conv/x.go", "package conv\n// Spec: P-1.2, P-2.\n"}, {"docs/x.md", "P-256 is a curve, XP-9 is not\n"}},
		also: []file{{specification, spec + "## P-256 \n"}},
	},
	{
		name: "every MUST is cited", rule: uncitedMusts,
		bad: []file{
			{"internal/conv/x.go", "package conv\n// Spec: P-1.1.\n"},
			{"docs/x.md", "P-1.1 and P-2.1\n"},
			{"internal/conv/x.go", "// Code generated by x. DO NOT EDIT.\npackage conv\n// P-1.1 P-2.1\n"},
		},
		good: []file{
			{"internal/conv/x_test.go", "package conv\n// Spec: P-1.1, P-2.1.\n"},
			{"test/foreign/x.py", "# P-1.1 P-2.1\n"},
		},
		also: []file{{specification, spec}},
	},
	{
		name: "clauses of the catalogue exist", rule: catalogueClauses,
		bad:  []file{{catalogue, "errors:\n  - {code: a, text: x, clause: P-1.3}\n"}, {catalogue, "errors:\n  - {code: a, text: x}\n"}},
		good: []file{{catalogue, "errors:\n  - {code: a, text: x, clause: P-1.2}\n"}},
		also: []file{{specification, spec}},
	},
	{
		name: "what pages say of security is tested", rule: securityClaims,
		bad: []file{
			{securityPage, "## What is protected, and how\n\n- **Keys.** They are random (`TestA`). They are long.\n"},
			{securityPage, "## What is protected, and how\n\n- **Keys.** They are random (`TestGone`).\n"},
			{securityPage, "## What is safe\n\nKeys.\n"},
			{asvsPage, "| id | state |\n"},
			{asvsPage, strings.Replace(wholeASVS(), "| kept | x | `TestA` |", "| kept | x | |", 1)},
			{asvsPage, strings.Replace(wholeASVS(), "| kept | x |", "| done | x |", 1)},
			{asvsPage, strings.Replace(wholeASVS(), "| kept | x |", "| kept | |", 1)},
			{asvsPage, wholeASVS() + "| V1.1.1 | not yet | x | |\n"},
			{asvsPage, wholeASVS() + "| V1.1.9 | not yet | x | |\n"},
		},
		good: []file{
			{securityPage, "## What is protected, and how\n\nWords.\n\n- **Keys.** They are random (`TestA`). In version 1.2 they\n  are long (`TestA`).\n\n## What is not\n\n- Nothing.\n"},
			{asvsPage, wholeASVS()},
		},
		also: []file{{"internal/x/x_test.go", "package x\nfunc TestA(t *testing.T) {}\n"}},
	},
}

// featuresOf is a page with a table of features.
func featuresOf(rows string) string {
	return "# x\n\n## Features\n\n| feature | clauses |\n|---|---|\n" + rows + "\n"
}

// wholeASVS is a table with every requirement, a row for each part.
func wholeASVS() string {
	var b strings.Builder
	for section, n := range asvsSections {
		fmt.Fprintf(&b, "| %s.1–%s.%d | kept | x | `TestA` |\n", section, section, n)
	}
	return b.String()
}

func TestEveryRuleFindsWhatItForbids(t *testing.T) {
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			for _, f := range r.bad {
				if got := r.rule(append([]file{f}, r.also...)); len(got) == 0 {
					t.Errorf("nothing found in %s:\n%s", f.path, f.text)
				}
			}
			for _, f := range r.good {
				if got := r.rule(append([]file{f}, r.also...)); len(got) != 0 {
					t.Errorf("found %q in %s:\n%s", got, f.path, f.text)
				}
			}
			if len(r.bad) == 0 || len(r.good) == 0 {
				t.Error("the rule has no examples")
			}
		})
	}
}
