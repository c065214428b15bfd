package im

import (
	"strings"
	"testing"
)

func TestNamesThatNobodyCanReadAreRefused(t *testing.T) {
	for _, c := range []struct {
		text string
		ok   bool
	}{
		{"", true},
		{"Ann", true},
		{"Ann Lee 🦜", true},
		{"🏳\ufe0f\u200d🌈", true}, // one sign, of four characters
		{"安娜", true},
		{"אנה", true},
		{"نگار\u200cخانه", true}, // joined in Persian as written
		{"e\u0301", true},
		{strings.Repeat("a", 64), true},
		{strings.Repeat("a", 65), false},
		{"\xff", false},
		{"a\x00b", false},
		{"a\nb", false},
		{"a\u2028b", false},
		{"\u202enimda", false},
		{"a\u200fb", false},
		{"a\u2067b", false},
		{" ", false},
		{"\u200b\u200d", false},
		{"\u3164", false},
		{"\u2800", false},
		{"\ufe0f", false},
		{"\u0301", false},
	} {
		if err := CheckShown("title", c.text, 64); (err == nil) != c.ok {
			t.Errorf("%q: %v, want it taken: %t", c.text, err, c.ok)
		}
	}
}
