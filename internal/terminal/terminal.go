// Package terminal makes texts of users harmless for a terminal or a log. A text may hold control characters,
// which steer a terminal, controls of direction, which show its parts in another order, and characters that
// nobody sees. Each of them is shown as an escape, as in JSON: \u202e.
//
// Writer is for all output of a command or a log. Line is for a name or a text within a line: without it a line
// feed in a name would begin a new line.
package terminal

import (
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line returns Text of s in one line: a line feed becomes ⏎, and a tab a space.
func Line(s string) string {
	if !strings.ContainsAny(s, "\n\t") {
		return Text(s)
	}
	return lines.Replace(Text(s))
}

var lines = strings.NewReplacer("\n", "⏎", "\t", " ")

// Text returns s with control and invisible characters as escapes, and U+FFFD for bytes that are no character.
// Line feeds and tabs stay.
func Text(s string) string {
	if plain(s) {
		return s
	}
	return string(appendShown(make([]byte, 0, len(s)+16), []byte(s)))
}

// Writer passes on what is written to it, in the form that Text returns. Its escapes are those of JSON, so a JSON
// text keeps its values. Each character must come in one write: a part of it is shown as U+FFFD.
type Writer struct{ to io.Writer }

// NewWriter makes a Writer that writes to w.
func NewWriter(w io.Writer) *Writer { return &Writer{to: w} }

// Unwrap returns the writer to which w writes.
func (w *Writer) Unwrap() io.Writer { return w.to }

// Write implements io.Writer.
func (w *Writer) Write(b []byte) (int, error) {
	if plain(b) {
		return w.to.Write(b)
	}
	if _, err := w.to.Write(appendShown(make([]byte, 0, len(b)+16), b)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// plain reports whether s has only characters of ASCII that are shown as they are.
func plain[S string | []byte](s S) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' && c != '\n' && c != '\t' || c >= 0x7f {
			return false
		}
	}
	return true
}

func appendShown(to, b []byte) []byte {
	before := rune(-1)
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		b = b[n:]
		after, _ := utf8.DecodeRune(b)
		if hidden(before, r, after) {
			to = appendEscape(to, r)
			before = -1
		} else {
			to = utf8.AppendRune(to, r) // U+FFFD for bytes that are no character
			before = r
		}
	}
	return to
}

const digits = "0123456789abcdef"

// appendEscape appends the escape of r in JSON: two escapes if r is beyond U+FFFF.
func appendEscape(to []byte, r rune) []byte {
	if r > 0xffff {
		r -= 0x10000
		return appendEscape(appendEscape(to, 0xd800+r>>10), 0xdc00+r&0x3ff)
	}
	return append(to, '\\', 'u', digits[r>>12&0xf], digits[r>>8&0xf], digits[r>>4&0xf], digits[r&0xf])
}

// unseen are the characters that are invisible, or change how others are shown. hidden decides about those that
// form a character together with their neighbours.
var unseen = []*unicode.RangeTable{unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Variation_Selector,
	unicode.Other_Default_Ignorable_Code_Point}

// joining are the scripts that are written with U+200C and U+200D.
var joining = []*unicode.RangeTable{unicode.Arabic, unicode.Syriac, unicode.Mongolian, unicode.Nko, unicode.Devanagari,
	unicode.Bengali, unicode.Gurmukhi,
	unicode.Gujarati, unicode.Oriya, unicode.Tamil, unicode.Telugu, unicode.Kannada, unicode.Malayalam, unicode.Sinhala,
	unicode.Khmer, unicode.Myanmar}

// hidden reports whether r is shown as an escape between its neighbours. Emoji and some scripts need characters
// that are invisible alone. Only there these characters stay.
func hidden(before, r, after rune) bool {
	switch {
	case r == '\n', r == '\t':
		return false
	case r < 0x7f:
		return r < ' '
	case !unicode.In(r, unseen...), unicode.Is(unicode.Prepended_Concatenation_Mark, r):
		return false // the marks are visible signs before a number
	case r == 0x200c, r == 0x200d: // non-joiner, joiner
		emoji := r == 0x200d && (unicode.In(before, unicode.So, unicode.Sk) || before == 0xfe0f) &&
			unicode.Is(unicode.So, after)
		return !emoji && !(unicode.In(before, joining...) && unicode.In(after, joining...))
	case r == 0xfe0e, r == 0xfe0f: // as text, as emoji
		keycap := after == 0x20e3 && before > ' ' && before < 0x7f
		return !keycap && !unicode.In(before, unicode.So, unicode.Sm, unicode.Po)
	case 0xe0100 <= r && r <= 0xe01ef: // variants of ideographs
		return !unicode.Is(unicode.Han, before)
	}
	return true
}
