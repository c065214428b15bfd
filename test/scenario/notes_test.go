package scenario

import (
	"slices"
	"strconv"
	"strings"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// noteCommand runs a call about reactions and pins; false: it is none.
func (s *session) noteCommand(a args) bool {
	s.w.t.Helper()
	verb := a.word(0)
	if !slices.Contains(strings.Fields("react unreact pin unpin reactions pins"), verb) {
		return false
	}
	conv, _ := s.w.resolve(s.user, a.word(1))
	q, _ := strconv.ParseUint(a.word(2), 10, 64)
	switch verb {
	case "reactions":
		s.whoReacted(&petrelv1.ListReactionsRequest{Conv: conv, Seq: q, Emoji: a.word(3), Limit: uint32(a.number(s.w, "limit"))})
		return true
	case "pins":
		r, err := invoke[petrelv1.ListPinsRequest, petrelv1.ListPinsResponse](s, "MessageService/ListPins", &petrelv1.ListPinsRequest{Conv: conv})
		var list []string
		for _, p := range r.GetPins() {
			list = append(list, itoa(p.Message.Seq)+" by "+p.By+bodyText(p.Message))
		}
		s.reply(err, "%s", strings.Join(list, ", "))
		return true
	}
	var r *petrelv1.NoteResponse
	var err error
	if verb == "react" || verb == "unreact" {
		r, err = invoke[petrelv1.ReactRequest, petrelv1.NoteResponse](s, "MessageService/React", &petrelv1.ReactRequest{Conv: conv, Seq: q, Emoji: a.word(3), Removed: verb == "unreact"})
	} else {
		r, err = invoke[petrelv1.PinRequest, petrelv1.NoteResponse](s, "MessageService/Pin", &petrelv1.PinRequest{Conv: conv, Seq: q, Removed: verb == "unpin"})
	}
	unchanged := ""
	if r.GetUnchanged() {
		unchanged = "unchanged "
	}
	s.reply(err, "%s%s", unchanged, noteText(r.GetNote()))
	return true
}

// whoReacted reads all pages.
func (s *session) whoReacted(q *petrelv1.ListReactionsRequest) {
	s.w.t.Helper()
	var list []string
	for {
		r, err := invoke[petrelv1.ListReactionsRequest, petrelv1.ListReactionsResponse](s, "MessageService/ListReactions", q)
		for _, u := range r.GetUsers() {
			list = append(list, u.User+" "+strings.Join(u.Emojis, ""))
		}
		if q.After = r.GetNext(); err != nil || !r.GetMore() {
			s.reply(err, "%s", strings.Join(list, ", "))
			return
		}
	}
}

// noteText is what members have made of an entry: each emoji with how many users, * with
// the reader among them.
func noteText(n *petrelv1.Note) string {
	l := "seq=" + itoa(n.GetSeq()) + " version=" + itoa(n.GetVersion())
	for _, r := range n.GetReactions() {
		l += " " + r.Emoji + itoa(r.Count)
		if r.Mine {
			l += "*"
		}
	}
	if n.GetPinned() {
		l += " pinned"
	}
	if n.GetForAll() {
		l += " for all"
	}
	return l
}

func noteTexts(notes []*petrelv1.Note) []string {
	var lines []string
	for _, n := range notes {
		lines = append(lines, "noted "+noteText(n))
	}
	return lines
}
