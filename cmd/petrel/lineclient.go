package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/petrel-im/petrel/internal/terminal"
	sdk "github.com/petrel-im/petrel/sdk/go"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

const (
	defaultLast = 20               // entries
	requestTime = 10 * time.Second // for the server to answer a command
	settleTime  = 30 * time.Second // for the server to store the messages, after the end of the input
	nameTime    = time.Second      // for the profile of a user to arrive before a line with the user is printed
)

const lineHelp = `TEXT             send a message; one that begins with a slash is written with two
/list            list the conversations, and how many unread messages they have
/open NAME       open a conversation: its number in the list, @USER, or the beginning of its title
/history         print older messages
/reply N TEXT    answer message number N
/edit N TEXT     replace the text of your message number N
/recall N        recall your message number N
/react N EMOJI   put a reaction on message number N; /unreact takes it away
/quit            end, as the end of the input does
`

// lineClient is `petrel chat`: it prints entries as they come, and reads messages and commands. Only the goroutine of
// run uses it.
type lineClient struct {
	c      *cli
	client *sdk.Client
	person bool   // the input is a terminal
	first  string // a line that is executed before those of the input
	last   int    // entries that opening a conversation prints

	conv, user string          // the open conversation: its id, or the other user; both "": none
	oldest     uint64          // seq of the oldest entry of it that is printed; 0: none is
	listed     []string        // ids of conversations, in the order of the last /list
	sent       []*sdk.Outgoing // messages whose fate is not known yet
	failed     int             // lines and messages that failed
	awaited    map[string]bool // users whose profile a line has waited for
}

// run prints and reads until the input ends and the fate of all messages is known, or ctx ends. It returns an error if
// settleTime after the end of the input is not enough for that, or if the input is no terminal and a line has failed.
func (l *lineClient) run(ctx context.Context) error {
	changes := l.client.Subscribe()
	defer changes.Close()
	f := &follower{client: l.client, newOnly: true, seen: map[string]uint64{}}
	f.show = func(m *petrelv1.Message, v sdk.Conversation) error { return l.show(ctx, m, v) }
	l.awaited = map[string]bool{}
	f.online = func(user string) { fmt.Fprintf(l.c.err, "connected as %s; /help lists the commands\n", user) }
	f.offline = func(err error) { fmt.Fprintf(l.c.err, "offline: %v; connecting again\n", err) }
	lines := make(chan string)    // no capacity: at most one line is read ahead
	go l.read(ctx, lines)         // ends with the input, or with the process: its read cannot be stopped
	var input <-chan string       // nil before the conversations are known, and after the end of lines
	var deadline <-chan time.Time // nil before the end of lines
	for deadline == nil || len(l.sent) > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline:
			return fmt.Errorf("messages that may be stored or not: %d; they are sent at the next start", len(l.sent))
		case <-changes.Ready():
			if err := f.follow(ctx, changes.Take()); err != nil {
				return err
			}
			if f.begun && input == nil && deadline == nil {
				input = lines
				l.do(ctx, l.first)
			}
		case line, ok := <-input:
			if !ok || strings.TrimSpace(line) == "/quit" {
				input, deadline = nil, time.After(settleTime)
				break
			}
			l.do(ctx, line)
		}
		l.checkSent()
	}
	if l.failed > 0 && !l.person {
		return fmt.Errorf("lines that failed: %d", l.failed)
	}
	return f.follow(ctx, changes.Take()) // the messages that were stored last
}

func (l *lineClient) read(ctx context.Context, lines chan<- string) {
	defer close(lines)
	r := bufio.NewScanner(l.c.in)
	r.Buffer(nil, 1<<20)
	for r.Scan() {
		select {
		case lines <- r.Text():
		case <-ctx.Done():
			return
		}
	}
}

// show prints a new entry, unless the user has hidden it. In the open conversation it marks the entry as read.
func (l *lineClient) show(ctx context.Context, m *petrelv1.Message, v sdk.Conversation) error {
	if v.Personal.Hides(m.Seq) {
		return nil
	}
	if v.ID == l.opened() {
		l.client.MarkRead(v.ID, m.Seq)
	}
	l.learn(ctx, v.ID, v.Peer, m.From)
	return l.print(m, v)
}

func (l *lineClient) print(m *petrelv1.Message, v sdk.Conversation) error {
	from := sender(m)
	if from == m.From {
		from = l.named(from)
	}
	v.Peer = l.named(v.Peer)
	return l.c.printEntry(m, v, from)
}

// learn asks for the profiles of users who are in a conversation ("" among them is nobody). A line that is printed
// gets no name later, so learn waits for the profiles, but for each user only once.
func (l *lineClient) learn(ctx context.Context, conv string, users ...string) {
	users = slices.DeleteFunc(users, func(u string) bool { return u == "" })
	if len(users) == 0 || l.c.json {
		return
	}
	profiles := l.client.Profiles()
	profiles.Want(conv, users...)
	if l.client.Status().State != sdk.Live {
		return
	}
	ctx, stop := context.WithTimeout(ctx, nameTime)
	defer stop()
	changes := l.client.Subscribe()
	defer changes.Close()
	for slices.ContainsFunc(users, func(u string) bool {
		_, known := profiles.Get(u)
		return !known && !l.awaited[u]
	}) {
		if _, err := changes.Next(ctx); err != nil {
			break
		}
	}
	for _, u := range users {
		l.awaited[u] = true
	}
}

// named returns the id of a user, with the display name if the client knows one.
func (l *lineClient) named(user string) string {
	p, _ := l.client.Profiles().Get(user)
	if name := p.GetDisplayName(); name != "" && name != user {
		return fmt.Sprintf("%s (%s)", user, name)
	}
	return user
}

// do executes one line, and prints the error of a failed one.
func (l *lineClient) do(ctx context.Context, line string) {
	ctx, stop := context.WithTimeout(ctx, requestTime)
	defer stop()
	err := l.line(ctx, line)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("the server has not answered for %v", requestTime)
	}
	l.fail(err)
}

func (l *lineClient) fail(err error) {
	if err != nil {
		l.failed++
		fmt.Fprintf(l.c.err, "error: %s\n", terminal.Line(err.Error()))
	}
}

func (l *lineClient) line(ctx context.Context, line string) error {
	name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	switch rest = strings.TrimSpace(rest); {
	case name == "":
		return nil
	case name == "/help":
		_, err := io.WriteString(l.c.out, lineHelp)
		return err
	case name == "/list":
		l.list(ctx)
		return nil
	case name == "/open":
		return l.openNamed(ctx, rest)
	case name == "/history":
		if _, err := l.client.Older(ctx, l.opened(), defaultLast); err != nil {
			return err
		}
		return l.printOlder(ctx, defaultLast)
	case slices.Contains([]string{"/reply", "/edit", "/recall", "/react", "/unreact"}, name):
		return l.about(ctx, name, rest)
	case strings.HasPrefix(line, "//"):
		return l.send(sdk.Draft{Text: line[1:]})
	case strings.HasPrefix(line, "/"):
		return fmt.Errorf("there is no command %s; /help lists all", name)
	}
	return l.send(sdk.Draft{Text: line})
}

// list prints the conversations with numbers, those with the newest messages first, and keeps the numbers for /open.
func (l *lineClient) list(ctx context.Context) {
	l.listed = nil
	all := l.client.Conversations()
	var peers []string
	for _, v := range all {
		peers = append(peers, v.Peer)
	}
	l.learn(ctx, "", peers...)
	for _, v := range all {
		if v.Known && (v.Last != nil || !v.Personal.Blocked) { // Spec: P-5.4
			l.listed = append(l.listed, v.ID)
			v.Peer = l.named(v.Peer)
			name := terminal.Line(place(&petrelv1.Message{Conv: v.ID}, v))
			fmt.Fprintf(l.c.out, "%3d  %s  %d unread\n", len(l.listed), name, v.Unread)
		}
	}
}

// opened returns the id of the open conversation; "": none is open, or it has no message yet.
func (l *lineClient) opened() string { return cmp.Or(l.conv, l.client.Direct(l.user)) }

// openNamed opens a conversation and prints its newest entries.
func (l *lineClient) openNamed(ctx context.Context, name string) error {
	all := l.client.Conversations()
	named := slices.IndexFunc(all, func(v sdk.Conversation) bool {
		return v.ID == name || name != "" && strings.HasPrefix(strings.ToLower(v.Title), strings.ToLower(name))
	})
	user, isUser := strings.CutPrefix(name, "@")
	n, err := strconv.Atoi(name)
	switch {
	case err == nil && 0 < n && n <= len(l.listed):
		l.conv, l.user = l.listed[n-1], ""
	case isUser && user != "":
		l.conv, l.user = "", user
	case named >= 0:
		l.conv, l.user = all[named].ID, ""
	default:
		return fmt.Errorf("there is no conversation %q; /list shows all, and /open @USER begins one", name)
	}
	l.oldest = 0
	return l.printOlder(ctx, l.last)
}

// printOlder prints entries of the open conversation that the client holds: the newest n of those older than the
// printed ones. It marks all entries of the conversation as read.
func (l *lineClient) printOlder(ctx context.Context, n int) error {
	v, _ := l.client.Conversation(l.opened())
	l.client.MarkRead(v.ID, v.Have)
	older := slices.DeleteFunc(l.client.Messages(v.ID, 0, 0), func(m sdk.Message) bool {
		return l.oldest > 0 && m.Seq >= l.oldest || v.Personal.Hides(m.Seq)
	})
	older = older[max(0, len(older)-n):]
	users := []string{v.Peer}
	for _, m := range older {
		users = append(users, m.From)
	}
	l.learn(ctx, v.ID, users...)
	for i, m := range older {
		if i == 0 {
			l.oldest = m.Seq
		}
		if err := l.print(m.Message, v); err != nil {
			return err
		}
		for _, r := range m.Reactions {
			fmt.Fprintf(l.c.out, "          %s %d\n", terminal.Line(r.Emoji), r.Count)
		}
	}
	return nil
}

// send sends a message to the open conversation.
func (l *lineClient) send(d sdk.Draft) error {
	if d.Conv, d.User = l.conv, l.user; l.conv == "" && l.user == "" {
		return errors.New("no conversation is open; /list shows all, and /open @USER begins one")
	}
	o, err := l.client.Send(d)
	if err == nil {
		l.sent = append(l.sent, o)
	}
	return err
}

// about executes a command on a message. rest is the number of the message and, except for /recall, a text.
func (l *lineClient) about(ctx context.Context, command, rest string) error {
	number, text, _ := strings.Cut(strings.TrimPrefix(rest, "#"), " ")
	seq, err := strconv.ParseUint(number, 10, 64)
	if text = strings.TrimSpace(text); err != nil || seq == 0 || (text == "") != (command == "/recall") {
		return fmt.Errorf("%s needs the number of a message, and a text after it unless it recalls; see /help", command)
	}
	d := sdk.Draft{ReplyTo: seq, Text: text}
	switch command {
	case "/edit":
		d = sdk.Draft{Edit: &petrelv1.Edit{Target: seq, Body: &petrelv1.Edit_Text{Text: text}}}
	case "/recall":
		d = sdk.Draft{Recall: &petrelv1.Recall{Target: seq}}
	case "/react", "/unreact":
		return l.client.React(ctx, l.opened(), seq, text, command == "/unreact")
	}
	return l.send(d)
}

// checkSent removes from l.sent the messages whose fate is known. It prints an error for each that was rejected, or of
// which nobody can know whether it is stored.
func (l *lineClient) checkSent() {
	l.sent = slices.DeleteFunc(l.sent, func(o *sdk.Outgoing) bool {
		state, _, _, err := o.State()
		if state == sdk.Rejected || state == sdk.Unknowable {
			l.fail(fmt.Errorf("not sent: %s: %v", o.Draft().Text, err))
			o.Discard()
		}
		return state != sdk.Sending
	})
}
