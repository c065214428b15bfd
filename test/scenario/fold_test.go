package scenario

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// fold writes lines that differ only in numbers that count up as one repeat
// line each, as a person would.
func fold(actor string, lines []string) []string {
	var out []string
	for len(lines) > 0 {
		n, text, from := run(lines)
		if n < 3 {
			out = append(out, actor+"< "+lines[0])
			lines = lines[1:]
			continue
		}
		head := fmt.Sprintf("repeat %d:", n)
		if from != 1 {
			head = fmt.Sprintf("repeat %d..%d:", from, from+n-1)
		}
		out = append(out, fmt.Sprintf("%s %s< %s", head, actor, text))
		lines = lines[n:]
	}
	for i := range out {
		out[i] = longRun.ReplaceAllStringFunc(out[i], func(x string) string { return fmt.Sprintf("{x*%d}", len(x)) })
	}
	return out
}

var longRun = regexp.MustCompile(`x{20,}`)

// run finds how many of the first lines one template makes, the template, and
// the counter's first value.
func run(lines []string) (n int, text string, from int) {
	if len(lines) < 2 {
		return 1, "", 0
	}
	first, second := split(lines[0]), split(lines[1])
	if len(first) != len(second) {
		return 1, "", 0
	}
	counts := make([]bool, len(first)) // the parts that count up
	moving := false
	for i := range first {
		if first[i] == second[i] {
			continue
		}
		a, errA := strconv.Atoi(first[i])
		b, errB := strconv.Atoi(second[i])
		if errA != nil || errB != nil || b != a+1 {
			return 1, "", 0
		}
		if !moving {
			from = a
		}
		moving, counts[i] = true, true
	}
	if !moving { // the same line again and again: it counts itself
		from = 1
	}
	var t strings.Builder
	for i, p := range first {
		if !counts[i] {
			t.WriteString(p)
			continue
		}
		v, _ := strconv.Atoi(p) // was one above
		switch d := v - from; {
		case d == 0:
			t.WriteString("{n}")
		default:
			fmt.Fprintf(&t, "{n%+d}", d)
		}
	}
	text = t.String()
	for n = 0; n < len(lines) && expand(text, from+n) == lines[n]; n++ {
	}
	return n, text, from
}

// split cuts s between digits and other characters.
func split(s string) []string {
	var parts []string
	digit := func(c byte) bool { return '0' <= c && c <= '9' }
	for i := 0; i < len(s); {
		j := i + 1
		for j < len(s) && digit(s[j]) == digit(s[i]) {
			j++
		}
		parts = append(parts, s[i:j])
		i = j
	}
	return parts
}

func TestFoldIsUndoneByExpand(t *testing.T) {
	var lines []string
	for i := 7; i <= 20; i++ {
		lines = append(lines, fmt.Sprintf(`message d:bob seq=%d from=alice "m%d"`, i+100, i))
	}
	lines = append(lines, "lagged", "ack seq=1", "ack seq=2", "same", "same", "same", strings.Repeat("x", 30))
	var again []string
	for _, f := range fold("bob", lines) {
		l, err := parseLine(f)
		if err != nil {
			t.Fatal(err)
		}
		for n := l.from; n <= l.to; n++ {
			again = append(again, expand(l.text, n))
		}
	}
	if strings.Join(again, "\n") != strings.Join(lines, "\n") {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(again, "\n"), strings.Join(lines, "\n"))
	}
	if got := fold("bob", lines); len(got) != 6 {
		t.Errorf("fold: got %d lines, want 6: %q", len(got), got)
	}
}
