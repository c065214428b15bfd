package sabotage

import (
	"strings"
	"testing"
)

const source = `package x

// Twice is 2n.
func Twice(n int) int {
	if n > 0 {
		return n + n
	}
	return -Twice(-n)
}

func (b *Box) put(from string, all ...int) {
	for _, n := range all {
		b.sum += n
	}
	b.sum += 1
}

func nameless(int) { println(0) }

var zero = 0
`

func TestPatchThatDoesNotApply(t *testing.T) {
	for _, c := range []struct{ name, old, want string }{
		{
			"a line has changed", "if n >= 0 {",
			"x.go:5: the patch does not apply\n\tit looks for if n >= 0 {\n\tthe line is  if n > 0 {",
		},
		{
			"the second line has changed", "if n > 0 {\nreturn 2 * n",
			"x.go:6: the patch does not apply\n\tit looks for return 2 * n\n\tthe line is  return n + n",
		},
		{
			"a line has gone", "b.sum += n\nb.n++\n}",
			"x.go:14: the patch does not apply\n\tit looks for b.n++\n\tthe line is  }",
		},
		{
			"it is there twice", "b.sum +=",
			"x.go:13: the patch applies here and at line 15, give it more text: b.sum +=",
		},
		{"it is outside all functions", "zero = 0", "x.go:20: the patch is not inside a function"},
		{"it is in the head of a function", "Twice(n int)", "x.go:4: the patch is not inside a function"},
		{"an argument has no name", "println(0)", "x.go:18:1: the parameters of nameless need names"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := breakable("x.go", source, []rule{{name: "break-it", patches: []patch{{"x.go", c.old, "panic(0)"}}}})
			if want := "rule break-it: " + c.want; err == nil || err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		})
	}
}

func TestPatchedFunctionStandsBesideItsOriginal(t *testing.T) {
	got, pkg, err := breakable("x.go", source, []rule{
		{name: "no-sum", patches: []patch{
			{"x.go", "for _, n := range all {\n  b.sum += n", "for range all {"},
			{"x.go", "b.sum += 1", "b.sum += 2"},
			{"y.go", "elsewhere", ""},
		}},
		{name: "no-one", patches: []patch{{"x.go", "b.sum += 1", ""}, {"x.go", "n + n", "n"}}},
	})
	if err != nil || pkg != "x" {
		t.Fatal(pkg, err)
	}
	want := strings.Replace(source, "n int) int {", `n int) int { if brokenRule == "no-one" { return Twice_broken_no_one(n) };`, 1)
	want = strings.Replace(want, "all ...int) {", `all ...int) { if brokenRule == "no-sum" { b.put_broken_no_sum(from, all...); return };`+
		` if brokenRule == "no-one" { b.put_broken_no_one(from, all...); return };`, 1)
	want += `
func (b *Box) put_broken_no_sum(from string, all ...int) {
	for range all {
	}
	b.sum += 2
}

func Twice_broken_no_one(n int) int {
	if n > 0 {
		return n
	}
	return -Twice(-n)
}

func (b *Box) put_broken_no_one(from string, all ...int) {
	for _, n := range all {
		b.sum += n
	}
	
}
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
