package chat

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	"github.com/petrel-im/petrel/internal/terminal"
)

// metrics measure text in cells, the way the terminal at hand does: most add up
// the runes of an emoji, some (mode 2027) know that it is one.
type metrics ansi.Method

func (w metrics) width(s string) int {
	if len(s) == 1 && isPrintable(s[0]) {
		return 1
	}
	return stringWidth(ansi.Method(w), s)
}

// isPrintable tells whether c is a character of ASCII that takes one cell.
func isPrintable(c byte) bool { return ' ' <= c && c < 0x7f }

// Two functions measure texts. They are variables so that tests count their work.
var (
	stringWidth  = ansi.Method.StringWidth
	firstCluster = func(m ansi.Method, s string) string {
		c, _ := ansi.FirstGraphemeCluster(s, m)
		return c
	}
)

// shown is s as it is drawn. All texts of users pass here, so none steers the terminal.
// Terminals disagree about U+FE0F: many draw a sign and this selector, which makes an
// emoji of it, in one cell, many in two.
func (w metrics) shown(s string) string {
	if len(s) == 1 && isPrintable(s[0]) {
		return s
	}
	s = clean(s)
	if ansi.Method(w) == ansi.WcWidth {
		return strings.ReplaceAll(s, "\ufe0f", "")
	}
	return s
}

// cut is s, a text without colours, in at most n cells; what is cut ends in an
// ellipsis.
func (w metrics) cut(s string, n int) string {
	s = terminal.Line(w.shown(s))
	at, end, used := 0, 0, 0 // end: where a text that is too long is cut
	for c := range w.clusters(s) {
		if used += w.width(c); used > n {
			if n <= 0 {
				return ""
			}
			return s[:end] + "…"
		}
		if at += len(c); used < n {
			end = at
		}
	}
	return s
}

// fill is s in exactly n cells.
func (w metrics) fill(s string, n int) string {
	s = w.cut(s, n)
	return s + strings.Repeat(" ", max(0, n-w.width(s)))
}

// clusters are what a person takes for the characters of s.
func (w metrics) clusters(s string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for s != "" {
			c := s[:1]
			if !isPrintable(s[0]) || len(s) > 1 && s[1] >= utf8.RuneSelf {
				c = cmp.Or(firstCluster(ansi.Method(w), s), c) // not UTF-8: none
			}
			if !yield(c) {
				return
			}
			s = s[len(c):]
		}
	}
}

// noLineStart are characters that a line does not begin with.
const noLineStart = "，。！？；：、）」』】》〉”’…～·,.!?;:)]}"

// wrap breaks s into lines of at most n cells: at line feeds, behind spaces,
// beside wide characters, and where nothing else helps, anywhere.
func (w metrics) wrap(s string, n int) []string {
	var lines []string
	for part := range strings.SplitSeq(w.shown(s), "\n") {
		lines = append(lines, w.wrapLine(part, max(n, 2))...)
	}
	return lines
}

func (w metrics) wrapLine(s string, n int) []string {
	cs := slices.Collect(w.clusters(s))
	var lines []string
	begin, used, brk := 0, 0, 0 // of the line: its first cluster, its cells, where it may be broken last
	for i, c := range cs {
		cw := w.width(c)
		if i > begin && mayBreak(cs[i-1], c, w) {
			brk = i
		}
		if used+cw > n && i > begin {
			if c == " " { // hangs over the edge
				continue
			}
			if brk <= begin {
				brk = i
			}
			lines = append(lines, strings.TrimRight(strings.Join(cs[begin:brk], ""), " "))
			begin = brk
			used = w.width(strings.Join(cs[begin:i], ""))
		}
		used += cw
	}
	return append(lines, strings.Join(cs[begin:], ""))
}

// mayBreak tells whether a line may end between two neighbours.
func mayBreak(before, after string, w metrics) bool {
	if strings.Contains(noLineStart, after) || after == " " {
		return false
	}
	return before == " " || wide(before) || wide(after)
}

// wide tells whether c is a character of a script without spaces between words.
func wide(c string) bool {
	if c[0] < utf8.RuneSelf {
		return false
	}
	for _, r := range c {
		return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul) || strings.ContainsRune(noLineStart[:strings.IndexByte(noLineStart, ',')], r)
	}
	return false
}

// clean keeps a text of somebody else from steering the terminal; line feeds stay.
func clean(s string) string { return strings.ReplaceAll(terminal.Text(s), "\t", " ") }

// seen leaves out of a text for the editor what nobody sees, but for what makes up
// characters with their neighbours: those may not be there yet.
func seen(s string) string {
	return strings.Map(func(r rune) rune {
		switch one := string(r); {
		case ' ' <= r && r < 0x7f:
			return r
		case r == '\t':
			return ' '
		case r == 0x200c, r == 0x200d, r == 0xfe0e, r == 0xfe0f, terminal.Text(one) == one:
			return r
		}
		return -1
	}, s)
}

// lineRunes is how much of a text a place that has one line shows: more than any terminal is wide.
const lineRunes = 1000

// oneLine is s for a place that has one line. Of a long text it reads and returns the beginning.
func oneLine(s string) string {
	n := 0
	for i := range s {
		if n++; n > lineRunes {
			s = s[:i] + "…"
			break
		}
	}
	return strings.Join(strings.Fields(clean(s)), " ")
}
