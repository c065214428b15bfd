package chat

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// longest is what a message may have, in bytes, and more.
const longest = 60 << 10

// steps counts the bytes that measuring reads while f runs.
func steps(f func()) int {
	n := 0
	wasWidth, wasFirst := stringWidth, firstCluster
	defer func() { stringWidth, firstCluster = wasWidth, wasFirst }()
	stringWidth = func(m ansi.Method, s string) int {
		n += len(s) + 1
		return wasWidth(m, s)
	}
	firstCluster = func(m ansi.Method, s string) string {
		c := wasFirst(m, s)
		n += len(c) + 1
		return c
	}
	f()
	return n
}

// measured are the parsers that measure texts, whose steps are counted.
var measured = map[string]func(s string){
	"wrap, wide":   func(s string) { metrics(ansi.GraphemeWidth).wrap(s, 200) },
	"wrap, narrow": func(s string) { metrics(ansi.WcWidth).wrap(s, 20) },
	"cut":          func(s string) { metrics(ansi.GraphemeWidth).cut(s, 40) },
	"editor": func(s string) {
		e := editor{w: metrics(ansi.GraphemeWidth)}
		e.insert(s)
		e.lay(80)
	},
}

// others pass through a text once.
var others = map[string]func(s string){
	"line":     func(s string) { oneLine(s) },
	"fold":     func(s string) { fold(s) },
	"mentions": func(s string) { named(s) },
	"order": func(s string) {
		for _, v := range verbs {
			_, _, _ = parse(v.verb + " " + s) // a wrong one costs as much
		}
	},
}

// signs are the characters that are repeated: those of ASCII, and one of each kind that is
// measured in a way of its own.
func signs() []string {
	var list []string
	for c := rune(0); c < 0x80; c++ {
		list = append(list, string(c))
	}
	return append(list, "é", "e\u0301", "\u0301", "海", "，", "가", "\u1100", "👍", "👩\u200d", "\u200d", "\ufe0f", "🇩", "🇩🇪", "🏽", "\u202e", "\u2028", "ا", "क्", "\U000e0100", "\xff", "\xc3")
}

// Twice the text costs twice the steps, whatever it repeats: each sign, each pair of signs of
// ASCII, and mixtures that are drawn.
func TestLongTextsTakeStepsInProportion(t *testing.T) {
	all := signs()
	check := func(what string, n int, text func(n int) string) {
		t.Helper()
		for name, parse := range measured {
			one, two := steps(func() { parse(text(n)) }), steps(func() { parse(text(2 * n)) })
			if two > 2*one+one/4+200 || two > 60*n {
				t.Errorf("%s of %s: %d bytes take %d steps, %d bytes %d", name, what, n, one, 2*n, two)
			}
		}
	}
	repeated := func(s string, n int) {
		check(fmt.Sprintf("%+q", s), n, func(n int) string { return strings.Repeat(s, n/len(s)) })
	}
	for _, a := range all {
		repeated(a, 1200)
	}
	for a := ' '; a < 0x7f; a++ {
		for b := ' '; b < 0x7f; b++ {
			repeated(string(a)+string(b), 100)
		}
	}
	for seed := range uint64(40) {
		check(fmt.Sprintf("mixture %d", seed), 1200, func(n int) string {
			rng := rand.New(rand.NewPCG(seed, 39))
			few := make([]string, 1+rng.IntN(6))
			for i := range few {
				few[i] = all[rng.IntN(len(all))]
			}
			var b strings.Builder
			for b.Len() < n {
				b.WriteString(few[rng.IntN(len(few))])
			}
			return b.String()
		})
	}
}

func TestLongMessageIsFolded(t *testing.T) {
	for _, c := range []struct {
		text  string
		shown int // bytes
	}{
		{"", 0},
		{strings.Repeat("a", mostRunes), mostRunes},
		{strings.Repeat("\n", 35), 35},
		{strings.Repeat("\n", 36), 23},
		{strings.Repeat("line\n", 12_000), 24*5 - 1},
		{strings.Repeat("海", 20_000), 3 * fewRunes},
		{strings.Repeat("word ", 12_000), fewRunes - 1},
		{strings.Repeat("word ", 400) + strings.Repeat("\n", 60), fewRunes - 1},
		{strings.Repeat("\xff", 5000), fewRunes},
	} {
		shown, rest := fold(c.text)
		if len(shown) != c.shown || len(shown)+rest != len(c.text) || utf8.ValidString(c.text) && !utf8.ValidString(shown) {
			t.Errorf("%.20q of %d bytes: shown are %d, want %d; folded are %d", c.text, len(c.text), len(shown), c.shown, rest)
		}
	}
}

// Of a long message the screen shows the beginning and how to read the rest, and /more shows all
// of it.
func TestMoreShowsAFoldedMessage(t *testing.T) {
	v := newTestView(t, 76, 40)
	text := strings.Repeat("word ", 4000) + "END"
	v.entries = []entry{
		{key: "2", seq: 2, from: "bob", at: noon, text: text},
		{key: "3", seq: 3, from: "bob", at: noon, text: "short"},
	}
	said := func(want string) {
		t.Helper()
		if got := strings.Join(screen(v), "\n"); !strings.Contains(got, want) {
			t.Errorf("%q is not on the screen:\n%s", want, got)
		}
	}
	said("… 18.1 KiB more · /more #2")
	if got := strings.Join(screen(v), "\n"); strings.Contains(got, "END") {
		t.Error("the whole text is shown")
	}
	for _, order := range []string{"/more", "/more #2"} {
		v.overlay = nil
		v.edit.set(order)
		v.enter()
		v.overTop = 1 << 20
		said("END")
	}
	v.overlay = nil
	v.edit.set("/more #3")
	v.enter()
	said("no such message is folded")
}

// The characters of a long text are counted while somebody writes it.
func TestLongTextIsCountedWhileItIsWritten(t *testing.T) {
	v := newTestView(t, 76, 20)
	for text, want := range map[string]bool{strings.Repeat("海", countedFrom-1): false, strings.Repeat("👩\u200d👩\u200d👧", countedFrom): true} {
		v.edit.set(text)
		if got := slices.Contains(screen(v), " 1000 characters"); got != want {
			t.Errorf("%d characters: counted is %t", len(v.edit.text), got)
		}
	}
}

// A list of texts of the greatest length, and a conversation of them, cost little at each key.
func BenchmarkFrameOfLongTexts(b *testing.B) {
	v := newTestView(b, 200, 60)
	v.entries = nil
	for i := range 200 {
		v.entries = append(v.entries, entry{key: fmt.Sprint(i), seq: uint64(i + 1), from: "bob", at: noon.Add(time.Duration(i) * time.Second), text: strings.Repeat("海 a", longest/5)})
	}
	for b.Loop() {
		v.frame()
	}
}

func BenchmarkParsersOfLongTexts(b *testing.B) {
	all := maps.Clone(measured)
	maps.Copy(all, others)
	for name, parse := range all {
		b.Run(name, func(b *testing.B) {
			for _, sign := range []string{"a", "(", " ", "a ", "海", "👩\u200d", "\u0301"} {
				text := strings.Repeat(sign, longest/len(sign))
				b.Run(fmt.Sprintf("%+q", sign), func(b *testing.B) {
					for b.Loop() {
						parse(text)
					}
				})
			}
		})
	}
}
