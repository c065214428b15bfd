package chat

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// A long message is folded at the same place as in the web chat: its beginning says what it
// is about, and only that much is measured and drawn at each key.
const (
	fewLines  = 24
	mostLines = 36
	fewRunes  = 1500
	mostRunes = 2200
	wordRunes = 200 // the last word before the fold is not cut, unless it is longer
)

// fold returns the beginning of a text that is longer than mostLines or mostRunes, and how many
// bytes follow; a shorter text is returned whole. It reads no more than mostRunes.
func fold(s string) (shown string, rest int) {
	lines, runes := 1, 0
	line, word, end := -1, -1, -1 // positions in s: behind fewLines lines, before the last word, behind fewRunes
	for i, r := range s {
		switch {
		case runes == fewRunes:
			end = i
		case r == '\n' && lines == fewLines && runes < fewRunes:
			line = i
		}
		if runes <= fewRunes && runes > fewRunes-wordRunes && unicode.IsSpace(r) {
			word = i
		}
		if r == '\n' {
			lines++
		}
		if runes++; lines <= mostLines && runes <= mostRunes {
			continue
		}
		switch {
		case line >= 0 && lines > mostLines:
			end = line
		case word >= 0:
			end = word
		}
		return s[:end], len(s) - end
	}
	return s, 0
}

// moreText says below a folded message how to read the rest.
func (e *entry) moreText(rest int) string {
	number := ""
	if e.seq > 0 {
		number = fmt.Sprintf(" #%d", e.seq)
	}
	return fmt.Sprintf("… %.1f KiB more · /more%s", float64(rest)/1024, number)
}

// more lays a folded message over the others, whole: that with a seq, or the newest one.
func (v *view) more(seq uint64) {
	for _, e := range slices.Backward(v.entries) {
		if _, rest := fold(e.text); rest > 0 && !e.notice && (seq == 0 || seq == e.seq) {
			v.overlay, v.overTop = strings.Split(clean(e.text), "\n"), 0
			return
		}
	}
	v.said, v.wrong = "no such message is folded", true
}
