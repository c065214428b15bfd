package scenario

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// line is one line of a scenario file.
type line struct {
	no       int
	raw      string
	kind     kind
	from, to int    // repeat from..to; 1, 1 without
	repeats  bool   // has a repeat, even of one
	actor    string // session, or admin
	text     string // behind the actor's mark; of a directive the whole line
}

// kind tells what a line is.
type kind uint8

const (
	blank     kind = iota // empty or a comment
	directive             // "group g1 alice bob"
	command               // "alice> send g1 "hi""
	expected              // "bob< message g1 seq=1 from=alice "hi""
)

var (
	repeatMark = regexp.MustCompile(`^repeat (?:(\d+)\.\.)?(\d+): *`)
	actorMark  = regexp.MustCompile(`^([A-Za-z0-9._+/@-]+)([<>])\s+`)
	countLine  = regexp.MustCompile(`(?m)^count N=(\d+) long=(\d+)$`)
	countMark  = regexp.MustCompile(`\{N([+-]\d+)?\}`)
)

// parseFile reads the lines of a file. long: with the large count of its line "count …".
func parseFile(text string, long bool) ([]line, error) {
	count := 0
	if m := countLine.FindStringSubmatch(text); m != nil {
		count, _ = strconv.Atoi(m[1]) // digits only
		if long {
			count, _ = strconv.Atoi(m[2])
		}
	}
	var lines []line
	for i, raw := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		l, err := parseLine(countMark.ReplaceAllStringFunc(raw, func(m string) string {
			arg, _ := strconv.Atoi(m[2 : len(m)-1]) // 0 without
			return strconv.Itoa(count + arg)
		}))
		if err == nil && count == 0 && countMark.MatchString(raw) {
			err = fmt.Errorf("{N}, and there is no line: count N=… long=…")
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		l.no, l.raw = i+1, raw
		lines = append(lines, l)
	}
	return lines, nil
}

func parseLine(raw string) (line, error) {
	l := line{raw: raw, from: 1, to: 1}
	s := strings.TrimSpace(raw)
	if s == "" || s[0] == '#' {
		return l, nil
	}
	if m := repeatMark.FindStringSubmatch(s); m != nil {
		l.repeats = true
		if m[1] != "" {
			l.from, _ = strconv.Atoi(m[1]) // digits only
		}
		l.to, _ = strconv.Atoi(m[2])
		if l.to < l.from {
			return l, fmt.Errorf("repeat %d..%d is empty", l.from, l.to)
		}
		s = s[len(m[0]):]
	}
	l.kind, l.text = directive, s
	if m := actorMark.FindStringSubmatch(s); m != nil {
		l.kind, l.actor, l.text = command, m[1], s[len(m[0]):]
		if m[2] == "<" {
			l.kind = expected
		}
	}
	return l, nil
}

var counterMark = regexp.MustCompile(`\{(n|x|q|c|0)([+*-]\d+)?\}`)

// expand puts the counter n into a text: {n}, {n+5}, {n-1}, and {x*1000} for a
// thousand times the letter x. {0*1000}, {q*1000} and {c*1000} are as many zeros, quotes
// and control characters; the last two are for texts in quotes.
func expand(text string, n int) string {
	return counterMark.ReplaceAllStringFunc(text, func(m string) string {
		arg, _ := strconv.Atoi(strings.TrimLeft(m[2:len(m)-1], "*")) // 0 without
		if of, ok := map[byte]string{'x': "x", '0': "0", 'q': `\"`, 'c': `\x01`}[m[1]]; ok {
			return strings.Repeat(of, arg)
		}
		return strconv.Itoa(n + arg)
	})
}

// args are the words of a command: plain ones, quoted ones, and key=value.
type args struct {
	words  []string
	bodies []string // the quoted ones, unquoted
	values map[string]string
}

func parseArgs(s string) (args, error) {
	a := args{values: map[string]string{}}
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimSpace(s) {
		end := strings.IndexAny(s, " \t\"")
		if end < 0 {
			end = len(s)
		}
		word, quoted := s[:end], ""
		if end < len(s) && s[end] == '"' {
			q, err := strconv.QuotedPrefix(s[end:])
			if err != nil {
				return a, fmt.Errorf("quotes of %s do not end", s[end:])
			}
			end += len(q)
			quoted, _ = strconv.Unquote(q) // QuotedPrefix has checked it
			if word == "" {
				a.bodies = append(a.bodies, quoted)
				s = s[end:]
				continue
			}
		}
		s = s[end:]
		if key, value, ok := strings.Cut(word, "="); ok {
			a.values[key] = value + quoted
		} else {
			a.words = append(a.words, span(word)...)
		}
	}
	return a, nil
}

var spanMark = regexp.MustCompile(`^([a-z]+)(\d+)\.\.([a-z]+)(\d+)$`)

// span is all of "u1..u100", and any other word itself.
func span(word string) []string {
	m := spanMark.FindStringSubmatch(word)
	if m == nil || m[1] != m[3] {
		return []string{word}
	}
	from, _ := strconv.Atoi(m[2]) // digits only
	to, _ := strconv.Atoi(m[4])
	var list []string
	for n := from; n <= to; n++ {
		list = append(list, m[1]+strconv.Itoa(n))
	}
	return list
}

// body is the first quoted one, "" if there is none.
func (a args) body() string {
	if len(a.bodies) == 0 {
		return ""
	}
	return a.bodies[0]
}

// word is the i-th plain word, "" if there are fewer.
func (a args) word(i int) string {
	if i < len(a.words) {
		return a.words[i]
	}
	return ""
}

func TestParseFindsActorsRepeatsAndArguments(t *testing.T) {
	l, err := parseLine(`  repeat 51..100: bob/phone< message d:alice seq={n+1} from=alice "m{n}"  `)
	if err != nil || l.kind != expected || l.actor != "bob/phone" || l.from != 51 || l.to != 100 {
		t.Errorf("got %+v, %v", l, err)
	}
	if got := expand(l.text, 60); got != `message d:alice seq=61 from=alice "m60"` {
		t.Errorf("expand: got %s", got)
	}
	a, err := parseArgs(`send g1 "a \"b\" c" k=x1 after=none type="app x"`)
	if err != nil || a.word(1) != "g1" || a.bodies[0] != `a "b" c` || a.values["k"] != "x1" || a.values["type"] != "app x" {
		t.Errorf("got %+v, %v", a, err)
	}
	if a, _ := parseArgs("users bob u9..u11 2..3"); strings.Join(a.words, " ") != "users bob u9 u10 u11 2..3" {
		t.Errorf("span: got %v", a.words)
	}
	if _, err := parseLine("repeat 5..4: alice> sync"); err == nil {
		t.Error("an empty repeat was accepted")
	}
	for long, want := range map[bool]string{false: "u1001 u1002", true: "u1001 u1002 u1003"} {
		lines, err := parseFile("count N=2 long=3\nusers u1001..u{N+1000}\nrepeat {N}: alice> sync", long)
		if err != nil {
			t.Fatal(err)
		}
		if a, _ := parseArgs(lines[1].text); strings.Join(a.words[1:], " ") != want || lines[2].to != len(a.words)-1 {
			t.Errorf("long=%v: got %v and %d syncs, want users %s", long, a.words, lines[2].to, want)
		}
	}
	if _, err := parseFile("repeat {N}: alice> sync", false); err == nil {
		t.Error("{N} was accepted in a file without a count")
	}
	if l, _ := parseLine(`group g1 alice bob`); l.kind != directive {
		t.Errorf("directive: got %+v", l)
	}
}
