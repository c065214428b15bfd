package scenario

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// relate sets what the words of a line say of other messages: "reply=3 silent=yes
// mentions=bob needs=rel".
func (x *sent) relate(s *session, a args) {
	s.w.t.Helper()
	if needs, ok := a.values["needs"]; ok {
		x.frame.Needs = strings.Split(needs, ",")
	}
	rel := x.frame.Rel
	if e := x.frame.GetEdit(); e != nil {
		rel = e.Rel
	}
	set := func(f func(*petrelv1.Relations)) {
		if rel = proto.CloneOf(rel); rel == nil {
			rel = &petrelv1.Relations{}
		}
		f(rel)
	}
	if _, ok := a.values["reply"]; ok {
		set(func(r *petrelv1.Relations) { r.ReplyTo = a.number(s.w, "reply") })
	}
	if _, ok := a.values["silent"]; ok {
		set(func(r *petrelv1.Relations) { r.Silent = true })
	}
	if _, ok := a.values["thread"]; ok {
		set(func(r *petrelv1.Relations) { r.Thread = a.number(s.w, "thread") })
	}
	if v, ok := a.values["main"]; ok {
		set(func(r *petrelv1.Relations) { r.AlsoMain = v == "yes" })
	}
	if users, ok := a.values["mentions"]; ok {
		set(func(r *petrelv1.Relations) {
			for _, u := range strings.Split(users, ",") {
				if u == "all" {
					r.MentionAll = true
				} else {
					r.Mentions = append(r.Mentions, u)
				}
			}
		})
	}
	if e := x.frame.GetEdit(); e != nil {
		e.Rel = rel
	} else {
		x.frame.Rel = rel
	}
}

// forward makes x one that copies an entry: "forward TARGET SOURCE SEQ".
func (x *sent) forward(s *session, a args) {
	s.w.t.Helper()
	conv, _ := s.w.resolve(s.user, a.word(2))
	q, err := strconv.ParseUint(a.word(3), 10, 64)
	if err != nil {
		s.w.fatalf("want: forward TARGET SOURCE SEQ …")
	}
	x.frame.Rel = &petrelv1.Relations{ForwardOf: &petrelv1.Ref{Conv: conv, Seq: q}}
}

// toldOwn notes the entry as its sender makes it of the send and the ack (P-4.3). If
// nobody was told the entry before it, the sender cannot make one that has no rel.
func (l *ledger) toldOwn(x *sent, a *petrelv1.Ack) error {
	if a.Message != nil {
		return l.told(x.by, a.Message)
	}
	m := x.ownCopy(a)
	if m.Rel.SizeVT() == 0 {
		if a.Counted != 0 {
			return fmt.Errorf("the ack of a message without rel has counted %d", a.Counted)
		}
		before := l.entries[x.conv][a.Seq-1]
		if a.Seq > 1 && before == nil {
			return nil
		}
		if m.Counted = before.GetCounted(); x.counts() {
			m.Counted++
		}
	}
	return l.told(x.by, m)
}

// ownCopy is the entry as the send and the ack tell it.
func (x *sent) ownCopy(a *petrelv1.Ack) *petrelv1.Message {
	f := x.frame
	m := &petrelv1.Message{
		Conv: x.conv, Seq: a.Seq, From: x.by.name, ClientMsgId: f.ClientMsgId, TimeMs: a.TimeMs, Counted: a.Counted, ThreadN: a.ThreadN, Type: f.Type, Rel: f.Rel,
	}
	switch b := f.Body.(type) {
	case *petrelv1.Send_Text:
		m.Body = &petrelv1.Message_Text{Text: b.Text}
	case *petrelv1.Send_Data:
		m.Body = &petrelv1.Message_Data{Data: b.Data}
	case *petrelv1.Send_Edit:
		m.Body = &petrelv1.Message_Edit{Edit: b.Edit}
	case *petrelv1.Send_Recall:
		m.Body = &petrelv1.Message_Recall{Recall: b.Recall}
	}
	return m
}

const forwardText = "forward "

// sentText is all of a send that makes it the same one (P-4.4).
func sentText(f *petrelv1.Send) string {
	if r := f.Rel.GetForwardOf(); r != nil {
		return fmt.Sprintf(forwardText+"%s %d", r.Conv, r.Seq) + relText(f.Rel)
	}
	return sendBody(f) + relText(f.Rel)
}

// storedText is sentText of the entry that a send has become, if it forwards nothing.
func storedText(m *petrelv1.Message) string { return messageBody(m) + relText(m.Rel) }

// relText is what a message says of others.
func relText(r *petrelv1.Relations) string {
	l := ""
	if q := r.GetReplyTo(); q > 0 {
		l += " reply=" + itoa(q)
	}
	if q := r.GetThread(); q > 0 {
		l += " thread=" + itoa(q)
	}
	if r.GetAlsoMain() {
		l += " main"
	}
	if r.GetSilent() {
		l += " silent"
	}
	if f := r.GetForwarded(); f != nil {
		l += " forwarded=" + f.From
	}
	if users := r.GetMentions(); r.GetMentionAll() {
		l += " mentions=" + strings.Join(append([]string{"all"}, users...), ",")
	} else if len(users) > 0 {
		l += " mentions=" + strings.Join(users, ",")
	}
	return l
}

// mentionsText are the unread entries that mention a user.
func mentionsText(seqs []uint64) string {
	if len(seqs) == 0 {
		return ""
	}
	return " mentions=" + strings.Trim(strings.ReplaceAll(fmt.Sprint(seqs), " ", ","), "[]")
}

// editRelText is what an edit says that its target answers from now on.
func editRelText(e *petrelv1.Edit) string {
	if e.Rel == nil {
		return ""
	}
	return " reply=" + itoa(e.Rel.ReplyTo)
}

// quotes are the lines of what a page quotes. Nobody may be shown in a quote what they
// may not read.
func (s *session) quotes(conv string, list []*petrelv1.Quote) []string {
	var lines []string
	for _, q := range list {
		if s.user != nil {
			s.w.ledger.shown(s.user, conv, q.Seq)
		}
		lines = append(lines, "quote "+quoteText(q))
	}
	return lines
}

// shown notes that a user was told something of an entry.
func (l *ledger) shown(u *user, conv string, seq uint64) {
	if l.toWhom[u] == nil {
		l.toWhom[u] = map[string]map[uint64]bool{}
	}
	if l.toWhom[u][conv] == nil {
		l.toWhom[u][conv] = map[uint64]bool{}
	}
	l.toWhom[u][conv][seq] = true
}

func quoteText(q *petrelv1.Quote) string {
	l := "seq=" + itoa(q.Seq)
	if q.From != "" {
		l += " from=" + q.From
	}
	if q.EditedBy > 0 {
		l += " edited=" + itoa(q.EditedBy)
	}
	if q.RecalledBy > 0 {
		l += " recalled=" + itoa(q.RecalledBy)
	}
	if f := q.Forwarded; f != nil {
		l += " forwarded=" + f.From
	}
	if k := q.Type; k != "" {
		l += " type=" + k
	}
	switch b := q.Body.(type) {
	case *petrelv1.Quote_Text:
		l += " " + strconv.Quote(b.Text)
	case *petrelv1.Quote_Data:
		l += " data=" + hex.EncodeToString(b.Data)
	default:
		l += " empty"
	}
	if q.Cut {
		l += " cut"
	}
	return l
}
