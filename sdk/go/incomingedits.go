package petrel

import (
	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// applyChange applies m to its target, if m is an edit or a recall and the client holds the target, and to the
// stored quote of the target. Spec: P-5.3.
func (c *core) applyChange(v *conv, m *petrelv1.Message) {
	v.foldQuote(m)
	switch b := m.Body.(type) {
	case *petrelv1.Message_Edit:
		if e := v.target(b.Edit.GetTarget()); e != nil {
			c.edited(e, b.Edit, m.Seq)
		}
	case *petrelv1.Message_Recall:
		if e := v.target(b.Recall.GetTarget()); e != nil && m.Seq > e.m.RecalledBy {
			n := clone(e.m)
			n.Body, n.Type, n.Rel, n.RecalledBy = nil, "", placeIn(n.Rel), m.Seq
			e.m = n
			c.keep(n)
		}
	}
}

func (v *conv) target(seq uint64) *entry {
	if i, found := v.find(seq); found {
		return v.entries[i]
	}
	return nil
}

// edited rewrites e. An edit without a body rewrites nothing: another change of the same target followed it,
// or the user may not read the target. Nothing rewrites a recalled entry. Spec: P-5.6, P-8.3.
func (c *core) edited(e *entry, by *petrelv1.Edit, seq uint64) {
	if e.m.RecalledBy != 0 || seq <= e.m.EditedBy || by.Body == nil {
		return
	}
	n := clone(e.m)
	n.Type, n.EditedBy = by.Type, seq
	switch b := by.Body.(type) {
	case *petrelv1.Edit_Text:
		n.Body = &petrelv1.Message_Text{Text: b.Text}
	case *petrelv1.Edit_Data:
		n.Body = &petrelv1.Message_Data{Data: b.Data}
	}
	if by.Rel != nil {
		was := n.Rel
		n.Rel = &petrelv1.Relations{
			ReplyTo: by.Rel.ReplyTo, Silent: was.GetSilent(), Thread: was.GetThread(), AlsoMain: was.GetAlsoMain(),
			Mentions: was.GetMentions(), MentionAll: was.GetMentionAll(),
		}
		if n.Rel.SizeVT() == 0 {
			n.Rel = nil
		}
	}
	e.m = n
	c.keep(n)
}

// placeIn returns the part of a rel that places a message in its thread; nil: it is in no thread. A recalled
// message keeps only this part. Spec: P-5.12.
func placeIn(rel *petrelv1.Relations) *petrelv1.Relations {
	if rel.GetThread() == 0 {
		return nil
	}
	return &petrelv1.Relations{Thread: rel.Thread, AlsoMain: rel.AlsoMain}
}

func clone(m *petrelv1.Message) *petrelv1.Message { return proto.CloneOf(m) }

// reapplyChanges applies the edits and recalls from index n on to the older entries that were just added before n.
func (c *core) reapplyChanges(v *conv, n int) {
	if n == 0 || n >= len(v.entries) {
		return
	}
	first := v.entries[n].m.Seq
	for _, e := range v.entries[n:] {
		if t := targetOf(e.m); t != 0 && t < first {
			c.applyChange(v, e.m)
		}
	}
}

func targetOf(m *petrelv1.Message) uint64 {
	switch b := m.Body.(type) {
	case *petrelv1.Message_Edit:
		return b.Edit.GetTarget()
	case *petrelv1.Message_Recall:
		return b.Recall.GetTarget()
	}
	return 0
}
