package petrel

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Conversation is what the client knows of a conversation, at one moment.
type Conversation struct {
	ID       string
	Kind     petrelv1.ConvKind
	Title    string // of a group
	Peer     string // the other user of a direct conversation
	Role     petrelv1.Role
	Left     bool                         // the user is no member any more
	Head     uint64                       // the highest seq heard of
	Have     uint64                       // the client holds what the user may read up to here; below Head: more is coming
	Unread   int                          // messages of others behind Read, P-8.7
	Read     uint64                       // the user's own read cursor
	Known    bool                         // false: the server has not said yet what it is
	Last     *Message                     // the newest message with a text or data that is held, or nil
	Receipts map[string]*petrelv1.Receipt // how far other users are, by user, as far as is known; must not be changed
	Typing   []string                     // others who are typing now, sorted
	// Damaged are the entries that the server cannot read at present, oldest first:
	// holes among those that Messages returns. An operator has to repair the store.
	// Spec: P-9.5.
	Damaged []Range

	Mentions []uint64 // seqs of unread messages that mention the user, ascending; of very many the oldest
	Personal Personal // what the user has set of it
}

// Range is From and To, and what is between them.
type Range struct {
	From uint64 `json:"from"` // seq
	To   uint64 `json:"to"`   // seq
}

// Message is an entry of a conversation with what members have made of it. The
// embedded message is shared and must not be modified.
type Message struct {
	*petrelv1.Message
	Reactions []Reaction
	Pinned    bool
	// Ticks of the user's own messages: how many others are known to hold it,
	// and to have read it. Others' messages have none.
	Delivered, Read int
}

// NeedsNewerVersion tells whether the message has a body that this version of the SDK does
// not know. Show that a newer version of the application can show it; it is not a
// recalled one. Spec: P-2.7.
func (m Message) NeedsNewerVersion() bool {
	return m.Body == nil && m.RecalledBy == 0 && m.EditedBy == 0 && !m.Withheld && !m.Lost
}

// Conversations are all that are known, those with the newest messages first.
func (c *Client) Conversations() []Conversation {
	c.mu.Lock()
	defer c.mu.Unlock()
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

// Conversation is the one with this id; ok is false if the client does not
// know it.
func (c *Client) Conversation(id string) (v Conversation, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.convs[id]
	if known == nil {
		return Conversation{}, false
	}
	return c.snapshot(known), true
}

// Direct is the id of the direct conversation with user; "" before anybody has
// written there.
func (c *Client) Direct(user string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.direct[user]
}

func (c *Client) snapshot(v *conv) Conversation {
	s := Conversation{
		ID: v.id, Kind: v.kind, Title: v.title, Peer: v.peer, Role: v.role, Left: v.left, Head: v.head, Have: v.have,
		Unread: v.unread(), Read: v.read, Known: v.known, Typing: c.typists(v), Damaged: slices.Clone(v.damaged), Personal: c.personal(v),
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

func (c *Client) message(v *conv, e *entry) Message {
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

// Messages are the entries of a conversation that the client holds above
// after, oldest first, at most limit (0: all). There is no hole among them but
// what the user may not read and what Conversation.Damaged names. Edits and recalls are applied to their targets
// and are entries of their own as well.
func (c *Client) Messages(conv string, after uint64, limit int) []Message {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.convs[conv]
	if v == nil {
		return nil
	}
	return c.messages(v, after, limit)
}

func (c *Client) messages(v *conv, after uint64, limit int) []Message {
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

// Pending are the messages to a conversation that are not among its Messages
// yet: on their way, or refused and not discarded. Oldest first.
func (c *Client) Pending(conv string) []*Outgoing {
	c.mu.Lock()
	defer c.mu.Unlock()
	peer := ""
	if v := c.convs[conv]; v != nil {
		peer = v.peer
	}
	return c.pending(conv, peer)
}

// PendingTo is Pending of the direct conversation with user, also before there
// is one.
func (c *Client) PendingTo(user string) []*Outgoing {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pending(c.direct[user], user)
}

func (c *Client) pending(conv, peer string) []*Outgoing {
	var out []*Outgoing
	for _, l := range c.lanesOf(conv, peer) {
		out = append(out, l.show...)
	}
	slices.SortFunc(out, func(a, b *Outgoing) int { return cmp.Compare(a.n, b.n) })
	return out
}

// Older reads up to limit entries (0: the server's page) from before those
// that Messages returns and puts them in front. more is false when there are
// none before them. It waits for the connection. What the server cannot read is
// passed over, and then stands in Conversation.Damaged.
func (c *Client) Older(ctx context.Context, conv string, limit int) (more bool, err error) {
	c.mu.Lock()
	v := c.convs[conv]
	if v == nil || !v.known || v.low <= v.floor() {
		c.mu.Unlock()
		return false, nil
	}
	before := v.low + 1
	c.mu.Unlock()
	p, err := c.History(ctx, &petrelv1.GetHistory{Conv: conv, Before: before, Limit: uint32(limit)})
	damage := Range{}
	if e := refusal(err); e != nil {
		damage = e.Damaged
	}
	if err != nil && damage.From == 0 {
		return false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	v = c.convs[conv]
	switch {
	case v == nil:
	case err != nil:
		more = c.passOlderDamage(v, before, damage)
		c.notify()
	default:
		more = c.prepend(v, before, p)
		c.notify()
	}
	return more, nil
}

// passOlderDamage moves the beginning of what v holds over entries that the server
// cannot read.
func (c *Client) passOlderDamage(v *conv, before uint64, damage Range) (more bool) {
	if v.low+1 == before && damage.From < before {
		v.damaged = append([]Range{{From: damage.From, To: v.low}}, v.damaged...)
		v.low = max(damage.From-1, v.floor())
		c.touch(v)
	}
	return v.low > v.floor()
}

// prepend puts a page of older entries in front. A page that does not end
// where v begins now, since two were asked for at once, is dropped.
func (c *Client) prepend(v *conv, before uint64, p *petrelv1.HistoryPage) (more bool) {
	if v.low+1 != before {
		return v.low > v.floor()
	}
	older := make([]*entry, 0, len(p.Messages)+len(v.entries))
	for _, m := range p.Messages {
		older = append(older, &entry{m: m})
		c.keep(m)
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
		c.fold(v, e.m)
	}
	c.refold(v, n)
	c.touch(v)
	return v.low > v.floor()
}

// Since reads entries of a conversation above after, oldest first, at most
// limit (0: the server's page): from what the client holds, or else from the
// history. A program that has to see every entry once keeps the last seq it has
// seen and asks again when a Change names the conversation, until nothing
// comes.
func (c *Client) Since(ctx context.Context, conv string, after uint64, limit int) ([]Message, error) {
	c.mu.Lock()
	v := c.convs[conv]
	if v != nil && v.known && after >= v.low {
		out := c.messages(v, after, limit)
		c.mu.Unlock()
		return out, nil
	}
	c.mu.Unlock()
	p, err := c.History(ctx, &petrelv1.GetHistory{Conv: conv, After: after, Limit: uint32(limit)})
	if err != nil {
		return nil, err
	}
	out := make([]Message, len(p.Messages))
	for i, m := range p.Messages {
		out[i] = Message{Message: m}
	}
	return out, nil
}

// History asks the server for a page of a conversation, past what the client
// holds. It waits for the connection and asks again when that ends. What the server
// cannot read is an error at once: an operator has to act first. Spec: P-5.2, P-9.5.
func (c *Client) History(ctx context.Context, q *petrelv1.GetHistory) (*petrelv1.HistoryPage, error) {
	for {
		f, err := c.request(ctx, "", func() *petrelv1.ClientFrame {
			return &petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_History{History: q}}
		})
		e := refusal(err)
		switch {
		case err == nil:
			return f.GetHistory(), nil
		case err == ErrConnectionLost:
		case e != nil && e.Retryable && e.Code != CodeDamaged:
			if err := wait(ctx, max(e.RetryAfter, retryWait)); err != nil {
				return nil, err
			}
		default:
			return nil, err
		}
	}
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
