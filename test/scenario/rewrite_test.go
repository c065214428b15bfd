package scenario

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// version orders the copies of one entry: a higher one rewrites a lower.
func version(m *petrelv1.Message) uint64 { return max(m.EditedBy, m.RecalledBy) }

// rewritten tells whether the body of m is no more the one that was sent.
func rewritten(m *petrelv1.Message) bool {
	return version(m) > 0 || m.GetEdit() != nil && m.GetEdit().Body == nil
}

// hidden tells whether m is without its body because its reader may not read the edit
// (P-8.3).
func hidden(m *petrelv1.Message) bool {
	return m.EditedBy > 0 && m.RecalledBy == 0 && m.Body == nil
}

// hide is m for somebody who may not read the edit.
func hide(m *petrelv1.Message) *petrelv1.Message {
	c := proto.CloneOf(m)
	c.Type, c.Body, c.Rel = "", nil, nil
	return c
}

// bare is the edit m for somebody who may not read its target (P-8.3).
func bare(m *petrelv1.Message) *petrelv1.Message {
	c := proto.CloneOf(m)
	c.Body = &petrelv1.Message_Edit{Edit: &petrelv1.Edit{Target: m.GetEdit().Target}}
	return c
}

// sameEntry tells whether a and b are copies of one entry: of one version they
// are equal, but for the body of an edit that a later one took the place of, and for one that
// is hidden.
func sameEntry(a, b *petrelv1.Message) bool {
	if hidden(a) != hidden(b) {
		a, b = hide(a), hide(b)
	}
	if version(a) == version(b) && !(a.GetEdit() != nil && rewritten(a) != rewritten(b)) {
		return proto.Equal(a, b)
	}
	return proto.Equal(fixed(a), fixed(b))
}

// same is sameEntry, for users who may block each other: the one who blocks sees some
// entries without what they say, and another counted (P-5.4).
func (l *ledger) same(a, b *petrelv1.Message) bool {
	if !l.blocks || !strings.HasPrefix(a.Conv, "d") {
		return sameEntry(a, b)
	}
	if cut(a) || cut(b) {
		return a.Seq == b.Seq && a.TimeMs == b.TimeMs
	}
	a, b = proto.CloneOf(a), proto.CloneOf(b)
	a.Counted, b.Counted = 0, 0
	return sameEntry(a, b)
}

// cut tells whether an entry is without what it says for who was told it.
func cut(m *petrelv1.Message) bool {
	return m.Withheld || m.EditedBy != 0 && m.RecalledBy == 0 && m.Body == nil
}

// fixed is what no edit or recall changes of an entry.
func fixed(m *petrelv1.Message) *petrelv1.Message {
	c := proto.CloneOf(m)
	c.EditedBy, c.RecalledBy, c.Type, c.Body, c.Rel = 0, 0, "", nil, nil
	if r := m.Rel; r.GetThread() != 0 {
		c.Rel = &petrelv1.Relations{Thread: r.Thread, AlsoMain: r.AlsoMain}
	}
	if e := m.GetEdit(); e != nil {
		c.Body = &petrelv1.Message_Edit{Edit: &petrelv1.Edit{Target: e.Target}}
	}
	return c
}

// counts tells whether a send counts as unread (P-5.1, P-5.12).
func (x *sent) counts() bool {
	if r := x.frame.Rel; r.GetThread() != 0 && !r.AlsoMain {
		return false
	}
	switch x.frame.Body.(type) {
	case *petrelv1.Send_Text, *petrelv1.Send_Data, nil: // nil: a forward
		return true
	}
	return false
}

func sendBody(s *petrelv1.Send) string {
	return bodyString(s, s.GetEdit(), s.GetRecall())
}

func messageBody(m *petrelv1.Message) string {
	return bodyString(m, m.GetEdit(), m.GetRecall())
}

// bodyString is all of a body that a send and a message can have.
func bodyString(m bodied, e *petrelv1.Edit, r *petrelv1.Recall) string {
	switch {
	case e != nil:
		return fmt.Sprintf("edit %d %s|%s%s", e.Target, normalType(e.Type), e.GetText(), e.GetData())
	case r != nil:
		return fmt.Sprintf("recall %d", r.Target)
	}
	return normalType(m.GetType()) + "|" + m.GetText() + string(m.GetData())
}

// normalType is a type as dedupe sees it: one that is left out means text (P-4.2).
func normalType(t string) string {
	if t == "text" {
		return ""
	}
	return t
}

// auditRewrites replays edits and recalls: every target is as the newest one
// left it, and no former body is anywhere (P-5.3, P-5.6).
func (w *world) auditRewrites(p place, rows []*petrelv1.Message) {
	w.t.Helper()
	edits, recalls := map[uint64][]*petrelv1.Message{}, map[uint64]*petrelv1.Message{}
	emptied := map[uint64]uint64{} // an edit → what took its place
	for _, m := range rows {
		target := max(m.GetEdit().GetTarget(), m.GetRecall().GetTarget())
		switch {
		case target == 0:
			continue
		case target >= m.Seq || recalls[target] != nil:
			w.fatalf("audit of %v: seq %d rewrites %d, which it cannot", p, m.Seq, target)
		case len(edits[target]) > 0:
			emptied[edits[target][len(edits[target])-1].Seq] = m.Seq
		}
		if m.GetRecall() != nil {
			recalls[target] = m
		} else {
			edits[target] = append(edits[target], m)
		}
	}
	for _, m := range rows {
		list := edits[m.Seq]
		switch r, by := recalls[m.Seq], emptied[m.Seq]; {
		case r != nil:
			if m.RecalledBy != r.Seq || m.Body != nil || m.Type != "" || !proto.Equal(m.Rel, fixed(m).Rel) {
				w.fatalf("audit of %v: seq %d was recalled by %d and is %v", p, m.Seq, r.Seq, m)
			}
		case by > 0:
			if e := m.GetEdit(); m.EditedBy != by || e.Body != nil || e.Type != "" {
				w.fatalf("audit of %v: edit %d was emptied by %d and is %v", p, m.Seq, by, m)
			}
		case len(list) > 0:
			e := list[len(list)-1].GetEdit()
			if m.EditedBy != list[len(list)-1].Seq || e.Body == nil || messageBody(m) != e.Type+"|"+e.GetText()+string(e.GetData()) {
				w.fatalf("audit of %v: seq %d was edited by %v and is %v", p, m.Seq, list[len(list)-1], m)
			}
		case m.EditedBy > 0 || m.RecalledBy > 0:
			w.fatalf("audit of %v: nothing has rewritten seq %d, and it is %v", p, m.Seq, m)
		}
	}
}

// auditSenders checks that everybody wrote while they were members (P-4.5).
func (w *world) auditSenders(p place, rows []*petrelv1.Message, stays map[string][]stay) {
	w.t.Helper()
	for _, m := range rows {
		in := func(s stay) bool { return s.from <= m.Seq && m.Seq <= s.to }
		if m.From != "" && !slices.ContainsFunc(stays[m.From], in) {
			w.fatalf("audit of %v: seq %d is of %s, who was no member", p, m.Seq, m.From)
		}
	}
}
