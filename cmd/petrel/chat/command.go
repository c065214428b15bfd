package chat

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// order is a line that begins with a slash, read.
type order struct {
	verb  string
	users []string
	seq   uint64 // of the message that is meant; 0: the last own one, of those that can be changed
	text  string
	wait  time.Duration // how long; 0: not said
}

// verbs are the commands, with what stands behind them and what they do.
var verbs = []struct{ verb, args, does string }{
	{"/dm", "USER [TEXT]", "open the direct conversation with a user, and write to them"},
	{"/open", "NAME", "open the conversation whose name begins with NAME"},
	{"/group", "TITLE USER...", "make a group; put a title of several words in quotes"},
	{"/members", "", "list the members"},
	{"/add", "USER...", "add members to this group"},
	{"/remove", "USER...", "remove members from this group"},
	{"/rename", "TITLE", "give this group another title"},
	{"/leave", "", "leave this group"},
	{"/reply", "#N TEXT", "answer message number N"},
	{"/forward", "#N NAME", "copy message number N to the conversation whose name begins with NAME"},
	{"/react", "#N EMOJI", "put a reaction on message number N, or take yours away"},
	{"/pin", "#N", "pin message number N, or unpin it"},
	{"/edit", "[#N] TEXT", "change your last message, or your message number N"},
	{"/recall", "[#N]", "recall your last message, or your message number N"},
	{"/mute", "[TIME|off]", "be disturbed by this conversation no more: for ever, or for 8h or 2d"},
	{"/top", "[off]", "put this conversation at the top of the list"},
	{"/archive", "[off]", "put this conversation away, to the end of the list"},
	{"/mention", "", "go to the next message that mentions you"},
	{"/unread", "", "mark this conversation as unread"},
	{"/clear", "", "show nothing of what is here now, on your devices"},
	{"/block", "[USER]", "get nothing more from a user in your direct conversation"},
	{"/unblock", "[USER]", "get what the user writes from now on"},
	{"/numbers", "", "show or hide the numbers of messages"},
	{"/more", "[#N]", "show the whole of the newest folded message, or of message number N"},
	{"/retry", "", "send again what was refused"},
	{"/drop", "", "delete what was refused"},
	{"/help", "", "show this help"},
	{"/quit", "", "end the client"},
}

// parse reads a line; of one that begins with two slashes the first is left
// out, and it is a message.
func parse(s string) (o order, isOrder bool, err error) {
	if !strings.HasPrefix(s, "/") || strings.HasPrefix(s, "//") {
		return order{}, false, nil
	}
	verb, rest, _ := strings.Cut(strings.TrimSpace(s), " ")
	rest = strings.TrimSpace(rest)
	i := slices.IndexFunc(verbs, func(v struct{ verb, args, does string }) bool { return v.verb == verb })
	if i < 0 {
		return order{}, true, fmt.Errorf("there is no %s; /help shows what there is", verb)
	}
	o = order{verb: verb}
	if ok, bad := o.parseSet(rest); ok && !bad {
		return o, true, nil
	} else if bad {
		return o, true, fmt.Errorf("write %s %s", verb, verbs[i].args)
	}
	wrong := fmt.Errorf("write %s %s", verb, verbs[i].args)
	switch verb {
	case "/dm":
		user, text, _ := strings.Cut(rest, " ")
		o.users, o.text = []string{strings.TrimPrefix(user, "@")}, strings.TrimSpace(text)
		if user == "" {
			return o, true, wrong
		}
	case "/group":
		words, err := fields(rest)
		if err != nil || len(words) < 2 {
			return o, true, wrong
		}
		o.text, o.users = words[0], names(words[1:])
	case "/add", "/remove":
		if o.users = names(strings.Fields(rest)); len(o.users) == 0 {
			return o, true, wrong
		}
	case "/rename", "/open":
		if o.text = strings.Trim(rest, `"`); o.text == "" {
			return o, true, wrong
		}
	case "/edit", "/recall", "/more", "/reply", "/forward", "/react", "/pin":
		if o.text = rest; strings.HasPrefix(rest, "#") {
			number, text, _ := strings.Cut(rest[1:], " ")
			if o.seq, err = strconv.ParseUint(number, 10, 64); err != nil || o.seq == 0 {
				return o, true, wrong
			}
			o.text = strings.TrimSpace(text)
		}
		takesText, needsSeq := true, true
		switch verb {
		case "/edit":
			needsSeq = false
		case "/recall", "/more":
			takesText, needsSeq = false, false
		case "/pin":
			takesText = false
		}
		if takesText != (o.text != "") || needsSeq && o.seq == 0 {
			return o, true, wrong
		}
	default:
		if rest != "" {
			return o, true, fmt.Errorf("write %s without anything after it", verb)
		}
	}
	return o, true, nil
}

// unescape leaves out the first of two slashes.
func unescape(s string) string {
	if strings.HasPrefix(s, "//") {
		return s[1:]
	}
	return s
}

func names(words []string) []string {
	for i, w := range words {
		words[i] = strings.Trim(strings.TrimPrefix(w, "@"), ",")
	}
	return words
}

// fields splits s at spaces that do not stand in quotes.
func fields(s string) ([]string, error) {
	var words []string
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimSpace(s) {
		if s[0] != '"' {
			word, rest, _ := strings.Cut(s, " ")
			words, s = append(words, word), rest
			continue
		}
		word, rest, ok := strings.Cut(s[1:], `"`)
		if !ok {
			return nil, fmt.Errorf("a closing quote is missing")
		}
		words, s = append(words, word), rest
	}
	return words, nil
}

// helpLines are /help: the text after a tab explains what stands before it.
func helpLines() []string {
	lines := []string{"", "Commands"}
	for _, v := range verbs {
		lines = append(lines, strings.TrimSpace(v.verb+" "+v.args)+"\t"+v.does)
	}
	return append(lines, "", "Keys",
		"Enter\tsend; Alt+Enter or Ctrl+J begins a new line",
		"Tab, Shift+Tab\tnext, previous conversation; also Alt+↓, Alt+↑",
		"Alt+A\tthe next conversation with something new",
		"Alt+M\tthe next message that mentions you",
		"Esc\tto the list and back; ↑ ↓ and Enter choose",
		"PgUp, PgDn, End\tmove through the messages; also Shift+↑ ↓, Ctrl+Home",
		"↑ ↓\twhat you sent before",
		"Ctrl+C\tquit",
		"", "Marks",
		"…\ton its way", "✓\tstored", "✓✓\ton a device of every member; in colour: read", "✗\trefused",
		"", "To send a message that begins with a slash, write two slashes.")
}

// columns lays lines out in n cells: what stands behind a tab in a column of its
// own, or where that gets too narrow, below.
func (w metrics) columns(lines []string, n int) []string {
	const left = 24 // cells
	var rows []string
	for _, s := range lines {
		term, about, two := strings.Cut(s, "\t")
		switch {
		case !two:
			rows = append(rows, w.wrap(term, n)...)
		case n < 2*left:
			rows = append(rows, w.wrap("  "+term, n)...)
			for _, part := range w.wrap(about, n-6) {
				rows = append(rows, "      "+part)
			}
		default:
			head := w.fill("  "+term, left+2)
			for _, part := range w.wrap(about, n-left-2) {
				rows = append(rows, head+part)
				head = strings.Repeat(" ", left+2)
			}
		}
	}
	return rows
}
