package petrel

import (
	"cmp"
	"slices"
	"strings"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Conversation is the client's state of a conversation, at one moment.
type Conversation struct {
	ID    string
	Kind  petrelv1.ConvKind
	Title string // of a group
	Peer  string // the other user of a direct conversation
	// PeerProfile is the version of the profile of Peer that the server has told last; "": it has told none.
	// Compare it for equality only. Spec: P-14.5.
	PeerProfile string
	Role        petrelv1.Role
	Left        bool   // the user is no member any more
	Head        uint64 // the highest seq heard of
	// Have is the seq up to which the client has all that the user may read; below Head: more is coming.
	Have     uint64
	Unread   int                          // unread messages of others, P-8.7
	Read     uint64                       // the user's own read cursor
	Known    bool                         // false: the server has not said yet what it is
	Last     *Message                     // the newest held message: a text, data, or a recalled one; nil: none
	Receipts map[string]*petrelv1.Receipt // known cursors of other users, by user; must not be changed
	Typing   []string                     // others who are typing now, sorted
	// Damaged are the entries that the server cannot read at present, oldest first:
	// holes among those that Messages returns. An operator has to repair the store.
	// Spec: P-9.5.
	Damaged []Range

	Mentions []uint64 // seqs of unread messages that mention the user, ascending; of very many the oldest
	Personal Personal // the user's settings of it
}

// Range is the range of seqs from From to To, both included.
type Range struct {
	From uint64 `json:"from"` // seq
	To   uint64 `json:"to"`   // seq
}

// Message is an entry of a conversation with its reactions and pin. The embedded message is shared and must
// not be modified.
type Message struct {
	*petrelv1.Message
	Reactions []Reaction
	Pinned    bool
	// Ticks of the user's own messages: how many others are known to hold it,
	// and to have read it. Others' messages have none.
	Delivered, Read int
}

// NeedsNewerVersion reports whether the message has a body that this version of the SDK does not know. It is not
// a recalled message: show that a newer version of the application can display it. Spec: P-2.7.
func (m Message) NeedsNewerVersion() bool {
	return m.Body == nil && m.RecalledBy == 0 && m.EditedBy == 0 && !m.Withheld && !m.Lost
}

// conversations returns all conversations that the client has heard of, those with the newest messages first.
func (c *core) conversations() []Conversation {
	out := make([]Conversation, 0, len(c.convs))
	for _, v := range c.convs {
		out = append(out, c.snapshot(v))
	}
	slices.SortFunc(out, func(a, b Conversation) int {
		return cmp.Or(cmp.Compare(lastMs(b), lastMs(a)), strings.Compare(a.ID, b.ID))
	})
	return out
}

func lastMs(v Conversation) uint64 {
	if v.Last == nil {
		return 0
	}
	return v.Last.TimeMs
}

func (c *core) snapshot(v *conv) Conversation {
	s := Conversation{
		ID: v.id, Kind: v.kind, Title: v.title, Peer: v.peer, PeerProfile: v.peerProfile, Role: v.role,
		Left: v.left, Head: v.head, Have: v.have,
		Unread: v.unread(), Read: v.read, Known: v.known, Typing: c.typists(v), Damaged: slices.Clone(v.damaged),
		Personal: c.personal(v),
		Mentions: slices.Clone(v.mentions.seqs),
	}
	if len(v.receipts) > 0 {
		s.Receipts = make(map[string]*petrelv1.Receipt, len(v.receipts))
		for u, r := range v.receipts {
			s.Receipts[u] = r
		}
	}
	for i := len(v.entries) - 1; i >= 0; i-- {
		if m := v.entries[i].m; m.GetText() != "" || counts(m) {
			last := c.message(v, v.entries[i])
			s.Last = &last
			break
		}
	}
	return s
}

func (c *core) message(v *conv, e *entry) Message {
	m := Message{Message: e.m}
	m.Reactions, m.Pinned = v.noteOf(e.m)
	if e.m.From == c.meta.User {
		for _, r := range v.receipts {
			if r.Delivered >= e.m.Seq {
				m.Delivered++
			}
			if r.Read >= e.m.Seq {
				m.Read++
			}
		}
	}
	return m
}

func (c *core) messages(v *conv, after uint64, limit int) []Message {
	i, found := v.find(after)
	if found {
		i++
	}
	es := v.entries[i:]
	if limit > 0 && len(es) > limit {
		es = es[:limit]
	}
	out := make([]Message, len(es))
	for i, e := range es {
		out[i] = c.message(v, e)
	}
	return out
}

func (c *core) pending(conv, peer string) []*outgoing {
	var out []*outgoing
	for _, l := range c.lanesOf(conv, peer) {
		out = append(out, l.show...)
	}
	slices.SortFunc(out, func(a, b *outgoing) int { return cmp.Compare(a.n, b.n) })
	return out
}

// olderThan returns the seq below which the next page of older entries ends; 0: there are none, or the client
// does not know the conversation.
func (c *core) olderThan(conv string) uint64 {
	v := c.convs[conv]
	if v == nil || !v.known || v.low <= v.floor() {
		return 0
	}
	return v.low + 1
}

// takeOlder applies the answer to a page of entries below before.
func (c *core) takeOlder(conv string, before uint64, p *petrelv1.HistoryPage, damage Range) (more bool) {
	v := c.convs[conv]
	switch {
	case v == nil:
		return false
	case damage.From != 0:
		more = c.passOlderDamage(v, before, damage)
	default:
		more = c.prepend(v, before, p)
	}
	c.out.woken = true
	return more
}

// passOlderDamage moves the beginning of the held entries of v past entries that the server cannot read.
func (c *core) passOlderDamage(v *conv, before uint64, damage Range) (more bool) {
	if v.low+1 == before && damage.From < before {
		v.damaged = append([]Range{{From: damage.From, To: v.low}}, v.damaged...)
		v.low = max(damage.From-1, v.floor())
		c.touch(v)
	}
	return v.low > v.floor()
}

// prepend puts a page of older entries in front of the held ones. It drops a page that does not end where the
// held entries begin, as when Older was called twice at once.
func (c *core) prepend(v *conv, before uint64, p *petrelv1.HistoryPage) (more bool) {
	if v.low+1 != before {
		return v.low > v.floor()
	}
	older := make([]*entry, 0, len(p.Messages)+len(v.entries))
	for _, m := range p.Messages {
		older = append(older, &entry{m: m})
		c.keep(m)
		if m.From == c.meta.User {
			v.countOwn(m)
			c.arrived(v.id, m)
		}
	}
	n := len(older)
	v.entries = append(older, v.entries...)
	v.takeQuotes(p.Refs)
	v.paged += n
	v.low = v.floor()
	if p.More && n > 0 {
		v.low = p.Messages[0].Seq - 1
	}
	c.takeNotes(v, p.Notes)
	for _, e := range v.entries[:n] {
		c.applyChange(v, e.m)
	}
	c.reapplyChanges(v, n)
	c.touch(v)
	return v.low > v.floor()
}
