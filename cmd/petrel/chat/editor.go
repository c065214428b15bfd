package chat

import (
	"slices"
	"strings"
)

// editor is the line that a person writes in. A character is a grapheme
// cluster: one press of a key passes or removes what looks like one.
type editor struct {
	w    metrics
	text []string // clusters; "\n" is one
	at   int      // the cursor stands before text[at]

	past  []string // what was sent, oldest first
	back  int      // how far up the past the editor shows; 0: its own text
	draft string   // its own text meanwhile
}

const maxPast = 100 // lines

func (e *editor) value() string { return strings.Join(e.text, "") }

func (e *editor) set(s string) {
	e.text = slices.Collect(e.w.clusters(s))
	e.at = len(e.text)
}

// insert puts s at the cursor. The clusters are cut anew: what is typed may
// join what stands there, as an accent does.
func (e *editor) insert(s string) {
	s = strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
	left := strings.Join(e.text[:e.at], "") + seen(s)
	right := strings.Join(e.text[e.at:], "")
	e.at = 0
	for range e.w.clusters(left) {
		e.at++
	}
	e.text = slices.Collect(e.w.clusters(left + right))
	e.at = min(e.at, len(e.text))
	e.back = 0
}

func (e *editor) remove(from, to int) {
	e.text = append(e.text[:from:from], e.text[to:]...)
	e.at = from
	e.back = 0
}

// word is where the word beside the cursor ends, in direction by (-1, 1).
func (e *editor) word(by int) int {
	i := e.at
	next := func() int { return i + min(by, 0) }
	for blank := true; 0 <= next() && next() < len(e.text); i += by {
		space := strings.TrimSpace(e.text[next()]) == ""
		if space && !blank {
			break
		}
		blank = blank && space
	}
	return i
}

// lineEnds are the first cluster of the line with the cursor and the one behind
// its last.
func (e *editor) lineEnds() (int, int) {
	from, to := e.at, e.at
	for from > 0 && e.text[from-1] != "\n" {
		from--
	}
	for to < len(e.text) && e.text[to] != "\n" {
		to++
	}
	return from, to
}

// key does what a key means in the line; false: nothing.
func (e *editor) key(name string) bool {
	from, to := e.lineEnds()
	switch name {
	case "left", "ctrl+b":
		e.at = max(0, e.at-1)
	case "right", "ctrl+f":
		e.at = min(len(e.text), e.at+1)
	case "ctrl+left", "alt+left", "alt+b":
		e.at = e.word(-1)
	case "ctrl+right", "alt+right", "alt+f":
		e.at = e.word(1)
	case "home", "ctrl+a":
		e.at = from
	case "end", "ctrl+e":
		e.at = to
	case "backspace", "ctrl+h":
		e.remove(max(0, e.at-1), e.at)
	case "delete":
		e.remove(e.at, min(len(e.text), e.at+1))
	case "ctrl+w", "alt+backspace":
		e.remove(e.word(-1), e.at)
	case "alt+d":
		e.remove(e.at, e.word(1))
	case "ctrl+u":
		e.remove(from, e.at)
	case "ctrl+k":
		e.remove(e.at, to)
	case "up":
		return e.up()
	case "down":
		return e.down()
	default:
		return false
	}
	return true
}

// up moves to the line above, or, from the first one, to what was sent before.
func (e *editor) up() bool {
	if from, _ := e.lineEnds(); from > 0 {
		column := e.at - from
		e.at = from - 1
		above, end := e.lineEnds()
		e.at = min(above+column, end)
		return true
	}
	if e.back == len(e.past) {
		return false
	}
	if e.back == 0 {
		e.draft = e.value()
	}
	e.recall(e.back + 1)
	return true
}

func (e *editor) down() bool {
	if from, to := e.lineEnds(); to < len(e.text) {
		column := e.at - from
		e.at = to + 1
		_, end := e.lineEnds()
		e.at = min(to+1+column, end)
		return true
	}
	if e.back == 0 {
		return false
	}
	e.recall(e.back - 1)
	return true
}

func (e *editor) recall(back int) {
	if back == 0 {
		e.set(e.draft)
	} else {
		e.set(e.past[len(e.past)-back])
	}
	e.back = back
}

// take empties the editor and remembers what stood there.
func (e *editor) take() string {
	s := e.value()
	if s != "" && (len(e.past) == 0 || e.past[len(e.past)-1] != s) {
		e.past = append(e.past, s)
		e.past = e.past[max(0, len(e.past)-maxPast):]
	}
	e.set("")
	e.back, e.draft = 0, ""
	return s
}

// lay breaks the text into rows of n cells and says where the cursor is.
func (e *editor) lay(n int) (rows []string, row, column int) {
	line, used := "", 0
	for i, c := range e.text {
		cw := e.w.width(c)
		if c != "\n" && used+cw > n {
			rows, line, used = append(rows, line), "", 0
		}
		if i == e.at {
			row, column = len(rows), used
		}
		if c == "\n" {
			rows, line, used = append(rows, line), "", 0
			continue
		}
		line, used = line+e.w.shown(c), used+cw
	}
	if used >= n { // the cursor needs a cell behind the last one
		rows, line, used = append(rows, line), "", 0
	}
	if e.at == len(e.text) {
		row, column = len(rows), used
	}
	return append(rows, line), row, column
}
