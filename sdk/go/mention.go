package petrel

import (
	"slices"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// mentions are the unread entries of one conversation that mention the user.
type mentions struct {
	seqs  []uint64 // ascending
	to    uint64   // seq up to which the server has listed them; later ones come from entries
	asked bool     // the server has to list them again: an entry was not pushed
}

// NextMention returns the seq of the first unread message after seq that mentions the user; 0: there is none.
func (v Conversation) NextMention(seq uint64) uint64 {
	for _, q := range v.Mentions {
		if q > seq {
			return q
		}
	}
	return 0
}

// PreviousMention returns the seq of the last unread message before seq that mentions the user; 0: there is
// none.
func (v Conversation) PreviousMention(seq uint64) uint64 {
	for _, q := range slices.Backward(v.Mentions) {
		if q < seq {
			return q
		}
	}
	return 0
}

// Mentions reports whether the message mentions a user: it names them, or all members. Spec: P-5.13.
func (m Message) Mentions(user string) bool { return mentionsUser(m.Message, user) }

func mentionsUser(m *petrelv1.Message, user string) bool {
	return m.From != user && (m.Rel.GetMentionAll() || slices.Contains(m.Rel.GetMentions(), user))
}

// takeMentions replaces the mentions in the entries up to a seq, `to`, by seqs: the server's list, or none. Mentions in
// later entries stay. A list that ends below the former one is ignored. Spec: P-5.13.
func (c *core) takeMentions(v *conv, seqs []uint64, to uint64) {
	m := &v.mentions
	if to < m.to {
		return
	}
	later := slices.DeleteFunc(m.seqs, func(q uint64) bool { return q <= to })
	m.seqs = slices.Compact(slices.Sorted(slices.Values(append(later, seqs...))))
	m.to = to
	v.prune()
	c.touch(v)
}

// mention adds e if it mentions the user. If e is a recall, it removes the recalled entry.
func (c *core) mention(v *conv, e *petrelv1.Message) {
	m := &v.mentions
	if r := e.GetRecall(); r != nil {
		if i, found := slices.BinarySearch(m.seqs, r.Target); found {
			m.seqs = slices.Delete(m.seqs, i, i+1)
			c.touch(v)
		}
		return
	}
	if e.Seq <= max(v.read, m.to) || !mentionsUser(e, c.meta.User) || c.firstMessages(v.peer) != "" {
		return
	}
	if i, found := slices.BinarySearch(m.seqs, e.Seq); !found {
		m.seqs = slices.Insert(m.seqs, i, e.Seq)
		c.touch(v)
	}
}

// missMention asks the server to list the mentions again, since the entry at seq was not pushed: it mentions the
// user, or recalls an entry that does.
func (c *core) missMention(v *conv, seq uint64) {
	_, known := slices.BinarySearch(v.mentions.seqs, seq)
	if known || seq <= max(v.read, v.mentions.to) || !c.live.offers(capMentions) {
		return
	}
	v.mentions.asked = true
	c.move(v)
}
