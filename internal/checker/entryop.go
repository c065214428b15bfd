package checker

import "github.com/petrel-im/petrel/sdk/go/petrelv1"

// Shown returns an op with the fields of the entry m, which a client or the operator was shown.
func Shown(kind Kind, m *petrelv1.Message) Op {
	op := Op{Kind: kind, Conv: m.Conv, Seq: m.Seq, From: m.From, ID: m.ClientMsgId,
		Rewritten: max(m.EditedBy, m.RecalledBy)}
	bare := false // an edit of what the client may not read
	switch b := m.Body.(type) {
	case *petrelv1.Message_Text:
		op.Body = Digest(m.Type, []byte(b.Text))
	case *petrelv1.Message_Data:
		op.Body = Digest(m.Type, b.Data)
	case *petrelv1.Message_Edit:
		bare = b.Edit.Body == nil && op.Rewritten == 0 // otherwise a later change has emptied it
		switch e := b.Edit.Body.(type) {
		case *petrelv1.Edit_Text:
			op.Body = Digest(b.Edit.Type, []byte(e.Text))
		case *petrelv1.Edit_Data:
			op.Body = Digest(b.Edit.Type, e.Data)
		}
	}
	op.Hidden = bare || m.Withheld || m.Lost || m.EditedBy > 0 && m.RecalledBy == 0 && m.Body == nil
	for _, a := range m.GetMembers().GetAdded() {
		op.Added = append(op.Added, a.User)
	}
	op.Removed = append(append(op.Removed, m.GetMembers().GetRemoved()...), m.GetMembers().GetLeft()...)
	return op
}
