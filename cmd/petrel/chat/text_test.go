package chat

import (
	"slices"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
)

func TestWrapBreaksWherePeopleWould(t *testing.T) {
	w := metrics(ansi.GraphemeWidth)
	for _, tc := range []struct {
		text string
		n    int
		want string
	}{
		{"", 10, ""},
		{"one two three", 7, "one two|three"},
		{"one two three", 8, "one two|three"},
		{"one  two", 4, "one|two"},
		{"abcdefghij", 4, "abcd|efgh|ij"},
		{"a\n\nb", 4, "a||b"},
		{"海燕在暴风雨中", 6, "海燕在|暴风雨|中"},
		{"海燕在暴风雨中", 7, "海燕在|暴风雨|中"},
		{"好的，我来。", 5, "好|的，|我|来。"}, // the comma does not begin a line
		{"see 海燕 fly", 6, "see 海|燕 fly"},
		{"👩‍👩‍👧‍👦👩‍👩‍👧‍👦", 2, "👩‍👩‍👧‍👦|👩‍👩‍👧‍👦"},
		{"e\u0301e\u0301e\u0301", 2, "e\u0301e\u0301|e\u0301"},
	} {
		got := w.wrap(tc.text, tc.n)
		if strings.Join(got, "|") != tc.want {
			t.Errorf("wrap(%q, %d): got %q, want %q", tc.text, tc.n, strings.Join(got, "|"), tc.want)
		}
		for _, line := range got {
			if n := w.width(line); n > tc.n {
				t.Errorf("wrap(%q, %d): line %q has %d cells", tc.text, tc.n, line, n)
			}
		}
	}
}

func TestFillTakesItsCells(t *testing.T) {
	for _, w := range []metrics{metrics(ansi.GraphemeWidth), metrics(ansi.WcWidth)} {
		for _, s := range []string{"", "a", "海燕", "海燕海燕海燕", "⛵☀️👩‍👩‍👧‍👦", "a海b燕c"} {
			for n := range 12 {
				if got := w.width(w.fill(s, n)); got != n {
					t.Errorf("fill(%q, %d) takes %d cells", s, n, got)
				}
			}
		}
	}
}

func TestTextsCannotSteerTheTerminal(t *testing.T) {
	if got, want := clean("a\x1b[2J\u009b\u202eb\nc\td"), `a\u001b[2J\u009b\u202eb`+"\nc d"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// typed makes an editor and does what the words say: a key in brackets, or text.
func typed(words ...string) *editor {
	e := &editor{w: metrics(ansi.GraphemeWidth)}
	for _, s := range words {
		if name, ok := strings.CutPrefix(s, "["); ok {
			e.key(strings.TrimSuffix(name, "]"))
		} else {
			e.insert(s)
		}
	}
	return e
}

func TestEditorEditsWhatLooksLikeOneCharacter(t *testing.T) {
	for _, tc := range []struct {
		words []string
		want  string // the cursor is |
	}{
		{[]string{"海燕"}, "海燕|"},
		{[]string{"海燕", "[left]", "x"}, "海x|燕"},
		{[]string{"👩‍👩‍👧‍👦", "[backspace]"}, "|"},
		{[]string{"e", "\u0301", "[left]"}, "|e\u0301"},
		{[]string{"one two", "[ctrl+w]"}, "one |"},
		{[]string{"one two ", "[alt+b]"}, "one |two "},
		{[]string{"one two", "[home]", "[alt+f]"}, "one| two"},
		{[]string{"one\r\ntwo", "[home]"}, "one\n|two"},
		{[]string{"one\ntwo", "[up]"}, "one|\ntwo"},
		{[]string{"one\ntw", "[up]", "[down]"}, "one\ntw|"},
		{[]string{"one\ntwo", "[ctrl+u]"}, "one\n|"},
		{[]string{"one two", "[home]", "[ctrl+k]"}, "|"},
		{[]string{"ab", "[left]", "[delete]", "[delete]"}, "a|"},
	} {
		e := typed(tc.words...)
		got := strings.Join(e.text[:e.at], "") + "|" + strings.Join(e.text[e.at:], "")
		if got != tc.want {
			t.Errorf("%q: got %q, want %q", tc.words, got, tc.want)
		}
	}
}

func TestEditorRemembersWhatWasSent(t *testing.T) {
	e := typed("first")
	e.take()
	e.insert("second")
	e.take()
	e.insert("draft")
	var seen []string
	for _, key := range []string{"up", "up", "up", "down", "down", "down"} {
		e.key(key)
		seen = append(seen, e.value())
	}
	if want := []string{"second", "first", "first", "second", "draft", "draft"}; !slices.Equal(seen, want) {
		t.Errorf("got %q, want %q", seen, want)
	}
}

func TestEditorLaysOutItsRows(t *testing.T) {
	for _, tc := range []struct {
		words       []string
		n           int
		rows        string
		row, column int
	}{
		{nil, 4, "", 0, 0},
		{[]string{"abcd"}, 4, "abcd|", 1, 0},
		{[]string{"abcd", "[left]"}, 4, "abcd|", 0, 3},
		{[]string{"海燕海"}, 5, "海燕|海", 1, 2},
		{[]string{"a\nb"}, 5, "a|b", 1, 1},
		{[]string{"a\n"}, 5, "a|", 1, 0},
	} {
		rows, row, column := typed(tc.words...).lay(tc.n)
		if strings.Join(rows, "|") != tc.rows || row != tc.row || column != tc.column {
			t.Errorf("%q: got %q, %d, %d, want %q, %d, %d", tc.words, strings.Join(rows, "|"), row, column, tc.rows, tc.row, tc.column)
		}
	}
}
