package im

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// blank are characters that Unicode calls letters or symbols, but that are invisible.
const blank = "\u115f\u1160\u2800\u3164\uffa0\U0001d159"

// CheckShown refuses a display name or a title that is longer than limit, in bytes, that is not UTF-8, or that is
// not readable: it has a control character, a line break or a control of direction, or only blanks and invisible
// characters. "" means no name, and is allowed. Codes: invalid.
func CheckShown(field, text string, limit int) error {
	if len(text) > limit || !utf8.ValidString(text) {
		return Errorf(CodeInvalid, "%s has at most %d bytes of UTF-8", field, limit)
	}
	visible := text == ""
	for _, r := range text {
		switch {
		case unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp, unicode.Bidi_Control):
			return Errorf(CodeInvalid, "%s has no control characters, as %U is one", field, r)
		case unicode.IsGraphic(r) && !unicode.In(r, unicode.Zs, unicode.Mn, unicode.Me) &&
			!strings.ContainsRune(blank, r):
			visible = true
		}
	}
	if !visible {
		return Errorf(CodeInvalid, "%s has only blanks and invisible characters", field)
	}
	return nil
}

// CheckLine refuses a text that people would not write in one line, or that has more characters than limit. Codes:
// invalid.
func CheckLine(field, text string, limit int) error {
	if err := CheckShown(field, text, limit*utf8.UTFMax); err != nil {
		return err
	}
	if n := utf8.RuneCountInString(text); n > limit {
		return Errorf(CodeInvalid, "%s has at most %d characters, not %d", field, limit, n)
	}
	return nil
}
