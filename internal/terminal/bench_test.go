package terminal_test

import (
	"io"
	"strings"
	"testing"

	"github.com/petrel-im/petrel/internal/terminal"
)

// BenchmarkHostileText shows 60 kB of what others wrote. Each case repeats signs for which the parser
// looks at its neighbours or writes an escape.
func BenchmarkHostileText(b *testing.B) {
	for _, c := range []struct{ name, signs string }{
		{"Letters", "a"}, {"Ideographs", "海"}, {"Escapes", "\x1b"}, {"NoUTF8", "\xff"}, {"Joiners", "\u200d"},
		{"JoinedEmoji", "👩\u200d"}, {"Directions", "\u202e"}, {"Tags", "\U000e0041"}, {"Selectors", "a\ufe0f"},
		{"CutRunes", "\xf0\x9f"}, {"Lines", "\n"},
	} {
		text := strings.Repeat(c.signs, 60_000/len(c.signs))
		b.Run(c.name, func(b *testing.B) {
			w := terminal.NewWriter(io.Discard)
			for b.Loop() {
				_ = terminal.Line(text)
				_, _ = io.WriteString(w, text) // io.Discard takes everything
			}
		})
	}
}
