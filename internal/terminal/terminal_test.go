package terminal_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/petrel-im/petrel/internal/terminal"
)

func TestWhatNobodySeesIsShownAsAnEscape(t *testing.T) {
	for _, c := range []struct{ what, in, want string }{
		{"a text", "Hello, 海燕! ¿Qué? 1 < 2", "Hello, 海燕! ¿Qué? 1 < 2"},
		{"a control of a terminal", "a\x1b[2Jb\x07\x7f", `a\u001b[2Jb\u0007\u007f`},
		{"a control of C1", "a\u009b31mb", `a\u009b31mb`},
		{"the byte of a control of C1", "a\x9b31mb", "a\ufffd31mb"},
		{"a carriage return", "right\rwrong", `right\u000dwrong`},
		{"controls of direction", "\u202eevil\u202c \u2066x\u2069 \u200e\u200f\u061c", `\u202eevil\u202c \u2066x\u2069 \u200e\u200f\u061c`},
		{"characters without width", "al\u200bice\ufeff\u2060\u00ad", `al\u200bice\ufeff\u2060\u00ad`},
		{"a joiner between letters", "al\u200dice\u200c", `al\u200dice\u200c`},
		{"fillers", "\u3164\u115f\uffa0\u034f", `\u3164\u115f\uffa0\u034f`},
		{"tags", "x\U000e0041", `x\udb40\udc41`},
		{"lines of Unicode", "a\u2028b\u2029c\u0085d", `a\u2028b\u2029c\u0085d`},
		{"a selector without a sign", "a\ufe0f", `a\ufe0f`},
		{"emoji", "👨\u200d👩\u200d👧 ❤\ufe0f 👩🏽\u200d🚀 🏳\ufe0f\u200d🌈 1\ufe0f\u20e3 ↔\ufe0f", "👨\u200d👩\u200d👧 ❤\ufe0f 👩🏽\u200d🚀 🏳\ufe0f\u200d🌈 1\ufe0f\u20e3 ↔\ufe0f"},
		{"Persian", "می\u200cخواهم", "می\u200cخواهم"},
		{"Hindi", "क्\u200dष", "क्\u200dष"},
		{"an ideograph of its own form", "葛\U000e0100城", "葛\U000e0100城"},
		{"a sign before a number", "\u0600١", "\u0600١"},
		{"not UTF-8", "a\xff\xc3", "a\ufffd\ufffd"},
	} {
		if got := terminal.Line(c.in); got != c.want {
			t.Errorf("%s: got %+q, want %+q", c.what, got, c.want)
		}
		if got := terminal.Text(c.in); got != c.want {
			t.Errorf("%s, as a text: got %+q, want %+q", c.what, got, c.want)
		}
	}
	if got, want := terminal.Line("a\nb\tc"), "a⏎b c"; got != want {
		t.Errorf("in one line: got %q, want %q", got, want)
	}
	if got, want := terminal.Text("a\nb\tc"), "a\nb\tc"; got != want {
		t.Errorf("as a text: got %q, want %q", got, want)
	}
}

// A shown text has no character that has to be an escape, and JSON has the same values
// after it was shown.
func FuzzText(f *testing.F) {
	f.Add("a\u202eb\x1b[2J")
	f.Add("👨\u200d👩 \U000e0041")
	f.Fuzz(func(t *testing.T, s string) {
		shown := terminal.Text(s)
		if !utf8.ValidString(shown) || strings.ContainsFunc(shown, func(r rune) bool {
			return unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r) || r == 0x200b || r == 0xfeff
		}) || terminal.Text(shown) != shown {
			t.Errorf("%+q is shown as %+q", s, shown)
		}
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		_, _ = terminal.NewWriter(&out).Write(b) // a buffer takes everything
		var back, was string
		if err := json.Unmarshal(out.Bytes(), &back); err != nil || json.Unmarshal(b, &was) != nil || back != was {
			t.Errorf("%+q is %+q after it was shown: %v", was, back, err)
		}
	})
}
