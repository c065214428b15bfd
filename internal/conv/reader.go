package conv

import (
	"context"
	"fmt"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/note"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// MaxPage is the most entries of one page of history, MaxPageBytes about the
// most bytes.
const (
	MaxPage      = 200
	MaxPageBytes = 48 << 10
)

// Query names the conversation of a question to an Owner, and the user who asks. The question
// itself is a message of convpb, since another node may ask.
type Query struct {
	Conv im.Key
	User im.User // "": the operator, who may read everything
	Node im.Node // where the question comes from; "": this node
}

// reader answers questions about the history and the state of conversations. It reads published
// entries, and changes nothing.
type reader struct {
	fetch     *fetcher
	outsiders *outsiders
	store     store.Store
	formers   *formers
	notes     *note.Notes
}

// open returns a conversation that exists, its point and info, and a function that ends its use. Codes:
// no_conversation, overloaded.
func (r *reader) open(ctx context.Context, key im.Key) (c *conv, at point, in *info, end func(), err error) {
	if c, err = r.fetch.acquire(ctx, key); err != nil {
		return nil, point{}, nil, nil, err
	}
	at, in = c.published()
	if in.record == nil {
		r.fetch.release(c)
		return nil, point{}, nil, nil, noConversation()
	}
	return c, at, in, func() { r.fetch.release(c) }, nil
}

// enter is open for the user who asks. A user who never was a member gets the same answer as for a conversation
// that does not exist, after the same work: one look for the user's record. Codes: no_conversation, overloaded.
// Spec: P-8.9.
func (r *reader) enter(ctx context.Context, by Query) (c *conv, at point, in *info, end func(), err error) {
	if by.User != "" && !r.outsiders.knows(by.Conv, by.User) {
		outsider, err := r.outsiders.isOutsider(ctx, by.Conv, by.User)
		if err == nil && outsider {
			err = noConversation()
		}
		if err != nil {
			return nil, point{}, nil, nil, err
		}
	}
	return r.enterKnown(ctx, by.Conv, by.User)
}

// enterKnown is enter for a user who is already known to be or have been a member: it does not look into the
// store for the user's record. Codes: no_conversation, overloaded.
func (r *reader) enterKnown(ctx context.Context, key im.Key,
	u im.User) (c *conv, at point, in *info, end func(), err error) {
	if c, at, in, end, err = r.open(ctx, key); err != nil {
		return nil, point{}, nil, nil, err
	}
	if _, known := in.members.standing(u); u != "" && !known { // not published yet
		end()
		return nil, point{}, nil, nil, noConversation()
	}
	return c, at, in, end, nil
}

// enterAsMember is enter for a member or the operator. Codes: no_conversation, overloaded, not_member (of a
// former member).
func (r *reader) enterAsMember(ctx context.Context, by Query) (c *conv, at point, in *info, end func(), err error) {
	if c, at, in, end, err = r.enter(ctx, by); err != nil {
		return nil, point{}, nil, nil, err
	}
	if by.User != "" && in.members.Role(by.User) == 0 {
		end()
		return nil, point{}, nil, nil, &im.Error{Code: im.CodeNotMember}
	}
	return c, at, in, end, nil
}

// page gathers rows.
type page struct {
	rows    [][]byte // wire parts, ascending by seq
	related [][]byte // those of rows that answer other entries
	bytes   int
	limit   int    // of rows
	as      viewer // who reads them
	more    bool   // the range goes on where this page ends
}

// add takes a row, if it fits or is the first one.
func (p *page) add(stored []byte, flags byte) bool {
	if len(p.rows) > 0 && p.bytes+len(stored) > MaxPageBytes {
		p.more = true
		return false
	}
	p.take(stored, flags)
	return true
}

func (p *page) take(stored []byte, flags byte) {
	p.bytes += len(stored)
	p.rows = append(p.rows, stored)
	if flags&store.RowRelated != 0 {
		p.related = append(p.related, stored)
	}
}

// readRows calls fn with the rows of s, ascending, until fn returns false. fn gets a copy of the wire part,
// as v may see it, and the flags of the row.
func (r *reader) readRows(ctx context.Context, c *conv, v viewer, s stay,
	fn func(stored []byte, flags byte) bool) error {
	return r.readRowsBy(ctx, r.store.Rows, c, v, s, fn)
}

// rowsOf is Rows of the store, or RowsDown.
type rowsOf func(ctx context.Context, c im.Key, from, to im.Seq, fn func(store.Row) bool) error

// readRowsBy is readRows in the order of rows.
func (r *reader) readRowsBy(ctx context.Context, rows rowsOf, c *conv, v viewer, s stay,
	fn func(stored []byte, flags byte) bool) error {
	var bad error
	err := rows(ctx, c.key, s.from, s.to, func(row store.Row) bool {
		head, stored, err := store.SplitRow(row.Value)
		if err != nil {
			bad = err
			return false
		}
		if head.Flags&store.RowRewritten != 0 {
			head, stored = r.durable(c, row.Seq, head, stored)
		}
		if stored, bad = v.see(&head, stored); bad != nil {
			return false
		}
		return fn(append([]byte(nil), stored...), head.Flags)
	})
	if err == nil {
		err = bad
	}
	if err != nil {
		return fmt.Errorf("read %s from %d to %d: %w", c.key, s.from, s.to, err)
	}
	return nil
}

// durable returns a row as its newest published commit left it. head and stored are the row in the
// store.
func (r *reader) durable(c *conv, q im.Seq, head store.RowHead, stored []byte) (store.RowHead, []byte) {
	pos := head.Pos
	for at := c.point.Load().pos; at < pos; {
		if old := r.formers.at(c.key, q, at); old != nil {
			head.Flags = old.flags
			return head, old.wire
		}
		// The former row was dropped, so its commit has been published meanwhile.
		now := c.point.Load().pos
		im.Assert(now > at, "row %d of %s is of commit %d, published is %d, and its former row is missing", q, c.id, pos,
			at)
		at = now
	}
	return head, stored
}

// readFor reads the entry q, which is not above the published head, as u may read it now: without the content of
// an edit outside of their stays. Every single entry that is shown to a user comes from here. Spec: P-8.3.
func (r *reader) readFor(ctx context.Context, c *conv, in *info, u im.User, q im.Seq) (*petrelv1.Message, error) {
	m, err := r.readMessage(ctx, c, in.viewer(u), q)
	if err == nil {
		in.members.hideEdit(u, m)
	}
	return m, err
}

// readMessage is readFor without hideEdit, for decisions of the server.
func (r *reader) readMessage(ctx context.Context, c *conv, v viewer, q im.Seq) (m *petrelv1.Message, err error) {
	var parse error
	err = r.readRows(ctx, c, v, stay{q, q}, func(stored []byte, _ byte) bool {
		m = &petrelv1.Message{}
		parse = wire.ParseMessage(stored, m)
		return true
	})
	if err == nil && parse != nil {
		err = fmt.Errorf("read %s seq %d: %w", c.key, q, parse)
	}
	return m, err
}

// counted returns the number of entries up to and including q that count as unread for v.
func (r *reader) counted(ctx context.Context, c *conv, at point, in *info, v viewer, q im.Seq) (uint64, error) {
	first := in.firstSeq()
	switch {
	case q >= at.head:
		return at.countedFor(v), nil
	case q == 0 || first == 1 && q < first:
		return 0, nil
	}
	row := max(q, first)
	m, err := r.readMessage(ctx, c, v, row)
	if err != nil {
		return 0, err
	}
	if row > q && countsAsUnread(m) { // retention has removed q, or rows before it
		return m.Counted - 1, nil
	}
	return m.Counted, nil
}

// countsAsUnread tells whether m is an entry with a text or data, or was one.
func countsAsUnread(m *petrelv1.Message) bool {
	switch m.Body.(type) {
	case *petrelv1.Message_Text, *petrelv1.Message_Data:
		return true
	}
	return m.RecalledBy != 0
}
