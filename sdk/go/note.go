package petrel

import (
	"context"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Reaction is one emoji at a message, and how many users added it.
type Reaction struct {
	Emoji string
	Count uint64
	Mine  bool // the user is one of them
}

// maxNotes bounds the notes of one conversation that are kept for entries which the client
// does not hold yet; those beyond come again with the entries.
const maxNotes = 256

// takeNotes takes what is new of the notes of a conversation. A page can be older than
// what was pushed. Spec: P-5.11.
func (c *Client) takeNotes(v *conv, notes []*petrelv1.Note) {
	for _, n := range notes {
		if v.takeNote(n) {
			c.changed.touch(v.id)
		}
	}
}

// takeNote takes a note, if it is newer than the one that is known. One for everybody says
// nothing about the user's own reactions: those stay.
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

// noteOf is what members have made of an entry. What was recalled has no note.
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

// React adds a reaction of the user to a message, or takes it away. It waits until the
// client is live. To say twice the same does no harm. Codes: no_target, forbidden (too many
// of them), rate_limited. Spec: P-5.11.
func (c *Client) React(ctx context.Context, conv string, seq uint64, emoji string, removed bool) error {
	r := new(petrelv1.NoteResponse)
	q := &petrelv1.ReactRequest{Conv: conv, Seq: seq, Emoji: emoji, Removed: removed}
	return c.changeNote(conv, r, c.Call(ctx, messageService+"React", q, r))
}

// Pin pins a message for all members, or unpins it. In a group it takes an admin or the
// owner. Codes: no_target, forbidden, rate_limited. Spec: P-5.11.
func (c *Client) Pin(ctx context.Context, conv string, seq uint64, removed bool) error {
	r := new(petrelv1.NoteResponse)
	return c.changeNote(conv, r, c.Call(ctx, messageService+"Pin", &petrelv1.PinRequest{Conv: conv, Seq: seq, Removed: removed}, r))
}

func (c *Client) changeNote(conv string, r *petrelv1.NoteResponse, err error) error {
	if err != nil || r.Note == nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if v := c.convs[conv]; v != nil {
		c.takeNotes(v, []*petrelv1.Note{r.Note})
		c.notify()
	}
	return nil
}

// WhoReacted lists who reacted to a message, with emoji "" whichever way, ascending by
// user: all pages of them.
func (c *Client) WhoReacted(ctx context.Context, conv string, seq uint64, emoji string) ([]*petrelv1.UserReactions, error) {
	var out []*petrelv1.UserReactions
	q := &petrelv1.ListReactionsRequest{Conv: conv, Seq: seq, Emoji: emoji}
	for {
		r := new(petrelv1.ListReactionsResponse)
		if err := c.Call(ctx, messageService+"ListReactions", q, r); err != nil {
			return nil, err
		}
		out = append(out, r.Users...)
		if !r.More || r.Next == "" {
			return out, nil
		}
		q.After = r.Next
	}
}

// Pins lists the pinned messages of a conversation, the newest first.
func (c *Client) Pins(ctx context.Context, conv string) ([]*petrelv1.PinnedMessage, error) {
	r := new(petrelv1.ListPinsResponse)
	err := c.Call(ctx, messageService+"ListPins", &petrelv1.ListPinsRequest{Conv: conv}, r)
	return r.Pins, err
}

// LoadNotes asks for the reactions and pins of the messages that Messages returns. They come
// with each message that is loaded, and are pushed while the conversation is in focus. So an
// application calls LoadNotes when it shows a conversation that was not in focus, or not
// connected, for a while. Spec: P-5.11.
func (c *Client) LoadNotes(ctx context.Context, conv string) error {
	c.mu.Lock()
	v := c.convs[conv]
	if v == nil || len(v.entries) == 0 {
		c.mu.Unlock()
		return nil
	}
	after, before := v.entries[0].m.Seq-1, v.entries[len(v.entries)-1].m.Seq+1
	c.mu.Unlock()
	for before > after+1 {
		p, err := c.History(ctx, &petrelv1.GetHistory{Conv: conv, After: after, Before: before, OnlyNotes: true})
		if err != nil {
			return err
		}
		c.mu.Lock()
		if v := c.convs[conv]; v != nil {
			c.takeNotes(v, p.Notes)
			c.notify()
		}
		c.mu.Unlock()
		if !p.More || p.CoveredFrom == 0 || p.CoveredFrom >= before {
			return nil
		}
		before = p.CoveredFrom
	}
	return nil
}
