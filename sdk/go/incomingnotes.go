package petrel

import (
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Reaction is one emoji at a message, and how many users added it.
type Reaction struct {
	Emoji string
	Count uint64
	Mine  bool // the user is one of them
}

// maxNotes bounds the notes of one conversation that are kept for entries which the client does not hold yet;
// further notes come again with the entries.
const maxNotes = 256

// notesCame applies notes that the application has requested.
func (c *core) notesCame(conv string, notes []*petrelv1.Note) {
	if v := c.convs[conv]; v != nil {
		c.takeNotes(v, notes)
		c.out.woken = true
	}
}

// takeNotes applies those of the notes that are newer than the known ones: a page can be older than a push.
// Spec: P-5.11.
func (c *core) takeNotes(v *conv, notes []*petrelv1.Note) {
	for _, n := range notes {
		if v.takeNote(n) {
			c.changed.touch(v.id)
		}
	}
}

// takeNote applies a note, and reports whether it did. It drops a note that is older than the known one, one of
// an entry that the client has dropped, and one of an entry above have beyond maxNotes. A note for all members
// does not say which reactions are the user's own. Those are taken from the known note.
func (v *conv) takeNote(n *petrelv1.Note) bool {
	old := v.notes[n.Seq]
	switch {
	case n.Seq <= v.low && v.known:
		return false
	case old != nil && (n.Version < old.Version || n.Version == old.Version && n.ForAll):
		return false
	case old == nil && n.Seq > v.have && len(v.notes) >= len(v.entries)+maxNotes:
		return false
	}
	if n.ForAll && old != nil {
		mine := map[string]bool{}
		for _, r := range old.Reactions {
			mine[r.Emoji] = r.Mine
		}
		for _, r := range n.Reactions {
			r.Mine = mine[r.Emoji]
		}
	}
	if v.notes == nil {
		v.notes = map[uint64]*petrelv1.Note{}
	}
	v.notes[n.Seq] = n
	return true
}

// noteOf returns the reactions and the pin of an entry. A recalled entry has none.
func (v *conv) noteOf(m *petrelv1.Message) (rs []Reaction, pinned bool) {
	n := v.notes[m.Seq]
	if n == nil || m.RecalledBy != 0 {
		return nil, false
	}
	for _, r := range n.Reactions {
		rs = append(rs, Reaction{r.Emoji, r.Count, r.Mine})
	}
	return rs, n.Pinned
}

// forgetNotes drops the notes of entries up to low.
func (v *conv) forgetNotes() {
	for q := range v.notes {
		if q <= v.low {
			delete(v.notes, q)
		}
	}
}
