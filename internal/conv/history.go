package conv

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/im"
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

// Query says about which conversation an Owner is asked, and for whom. What is
// asked follows as a message of convpb, since another node may ask.
type Query struct {
	Conv im.Key
	User im.User // "": the operator, who may read everything
	Node im.Node // where the question comes from; "": this node
}

// reader answers questions about the history and the state of conversations.
// It reads what is published, and changes nothing.
type reader struct {
	mem     *memory
	formers *formers
}

// open returns a conversation that exists, where it stands, and a function that
// ends the use of it. Codes: no_conversation.
func (r *reader) open(ctx context.Context, key im.Key) (c *conv, at point, in *info, end func(), err error) {
	if c, err = r.mem.acquire(ctx, key); err != nil {
		return nil, point{}, nil, nil, err
	}
	at, in = c.published()
	if in.record == nil {
		r.mem.release(c)
		return nil, point{}, nil, nil, noConversation()
	}
	return c, at, in, func() { r.mem.release(c) }, nil
}

// History reads a page of entries: upwards from q.After, or, with q.Before set,
// downwards from q.Before; both ends are exclusive. A q.Limit of 0 or above MaxPage
// means MaxPage. Entries outside of the user's stays are left out. Every read ends at
// the published head. Codes: no_conversation. Spec: P-5.2.
func (r *reader) History(ctx context.Context, by Query, q *convpb.GetHistory) (*convpb.History, error) {
	c, at, in, end, err := r.enter(ctx, by)
	if err != nil {
		return nil, err
	}
	defer end()
	first, last := im.Seq(1), at.head
	if by.User != "" {
		first, last = in.members.reach(by.User, at.head)
		last = min(last, at.head)
	}
	p := &page{limit: MaxPage}
	if 0 < q.Limit && q.Limit < MaxPage {
		p.limit = int(q.Limit)
	}
	from, to := bounds(q, max(first, in.firstSeq()), last)
	parts := []stay{{from, to}}
	if by.User != "" {
		parts = in.members.readable(by.User, from, to)
	}
	read := r.readUp
	if q.Before > 0 {
		read = r.readDown
	}
	err = read(ctx, c, parts, p)
	if errors.Is(err, store.ErrCorrupt) {
		err = r.aroundDamage(ctx, c, parts, p, q.Before > 0)
	}
	if err == nil && by.User != "" && in.members.Role(by.User) == 0 {
		err = emptyEditedAfter(p.rows, last)
	}
	if err != nil {
		return nil, err
	}
	return &convpb.History{Rows: p.rows, Head: uint64(last), FirstSeq: uint64(in.firstSeq()), More: p.more}, nil
}

// bounds is the range of seqs that q asks for, cut to first..last.
func bounds(q *convpb.GetHistory, first, last im.Seq) (from, to im.Seq) {
	from, to = first, last
	if im.Seq(q.After) >= last {
		return 1, 0
	}
	if q.Before > 0 {
		to = min(last, im.Seq(q.Before)-1)
	}
	return max(first, im.Seq(q.After)+1), to
}

// emptyEditedAfter takes the body from the rows that were edited after last, the
// end of the reader's last stay. The new body is not theirs to read, and the
// former one is served nowhere. Spec: P-8.3.
func emptyEditedAfter(rows [][]byte, last im.Seq) error {
	for i, row := range rows {
		var m petrelv1.Message
		if err := wire.ParseMessage(row, &m); err != nil {
			return err
		}
		if im.Seq(m.EditedBy) > last {
			m.Type, m.Body = "", nil
			rows[i] = wire.AppendMessage(nil, &m)
		}
	}
	return nil
}

// HistoryPage is h as the content of a frame.
func HistoryPage(id im.ConvID, h *convpb.History) (*petrelv1.HistoryPage, error) {
	page := &petrelv1.HistoryPage{Conv: id.String(), Head: h.Head, FirstSeq: h.FirstSeq, More: h.More, Messages: make([]*petrelv1.Message, len(h.Rows))}
	for i, row := range h.Rows {
		m := &petrelv1.Message{}
		if err := wire.ParseMessage(row, m); err != nil {
			return nil, fmt.Errorf("read %s: %w", id, err)
		}
		page.Messages[i] = m
	}
	return page, nil
}

// page gathers rows.
type page struct {
	rows  [][]byte // wire parts, ascending by seq
	bytes int
	limit int  // of rows
	more  bool // the range goes on where this page ends
}

// readUp reads the first rows of parts. A page that leaves rows out has at
// least one, so that the reader can go on after it. Spec: P-5.2.
func (r *reader) readUp(ctx context.Context, c *conv, parts []stay, p *page) error {
	for _, s := range parts {
		if s.from > s.to {
			continue
		}
		if len(p.rows) >= p.limit {
			p.more = true
			return nil
		}
		end := s.to
		if n := im.Seq(p.limit - len(p.rows)); end-s.from >= n {
			end = s.from + n - 1
		}
		if err := r.readRows(ctx, c, stay{s.from, end}, p.add); err != nil || p.more {
			return err
		}
		p.more = end < s.to
	}
	return nil
}

// readDown reads the last rows of parts, from the last one down, so that it reads
// what it answers. A page that leaves rows out has at least one.
func (r *reader) readDown(ctx context.Context, c *conv, parts []stay, p *page) error {
	defer func() { slices.Reverse(p.rows) }() // also of a page that damage ends
	for i := len(parts) - 1; i >= 0 && !p.more; i-- {
		s := parts[i]
		if s.from > s.to {
			continue
		}
		if len(p.rows) >= p.limit {
			p.more = true
			break
		}
		begin := s.from
		if n := im.Seq(p.limit - len(p.rows)); s.to-begin >= n {
			begin = s.to - n + 1
		}
		if err := r.readRowsBy(ctx, r.mem.store.RowsDown, c, stay{begin, s.to}, p.add); err != nil {
			return err
		}
		p.more = p.more || begin > s.from
	}
	return nil
}

// add takes a row, if it fits or is the first one.
func (p *page) add(stored []byte) bool {
	if len(p.rows) > 0 && p.bytes+len(stored) > MaxPageBytes {
		p.more = true
		return false
	}
	p.bytes += len(stored)
	p.rows = append(p.rows, stored)
	return true
}

// readRows passes copies of the wire parts of s, ascending, until fn returns
// false.
func (r *reader) readRows(ctx context.Context, c *conv, s stay, fn func(stored []byte) bool) error {
	return r.readRowsBy(ctx, r.mem.store.Rows, c, s, fn)
}

// rowsOf is Rows of the store, or RowsDown.
type rowsOf func(ctx context.Context, c im.Key, from, to im.Seq, fn func(store.Row) bool) error

// readRowsBy is readRows in the order of rows.
func (r *reader) readRowsBy(ctx context.Context, rows rowsOf, c *conv, s stay, fn func(stored []byte) bool) error {
	var bad error
	err := rows(ctx, c.key, s.from, s.to, func(row store.Row) bool {
		head, stored, err := store.SplitRow(row.Value)
		if err != nil {
			bad = err
			return false
		}
		if head.Flags&store.RowWithheld != 0 {
			return true
		}
		if head.Flags&store.RowRewritten != 0 {
			stored = r.durable(c, row.Seq, head.Pos, stored)
		}
		return fn(append([]byte(nil), stored...))
	})
	if err == nil {
		err = bad
	}
	if err != nil {
		return fmt.Errorf("read %s from %d to %d: %w", c.key, s.from, s.to, err)
	}
	return nil
}

// durable is the wire part of a row as its newest published commit left it.
// stored is what the store shows, written by the commit at pos.
func (r *reader) durable(c *conv, q im.Seq, pos im.Pos, stored []byte) []byte {
	for at := c.point.Load().pos; at < pos; {
		if old := r.formers.at(c.key, q, at); old != nil {
			return old
		}
		// The former row was dropped, so its commit has been published meanwhile.
		now := c.point.Load().pos
		im.Assert(now > at, "row %d of %s is of commit %d, published is %d, and nobody kept what it said", q, c.id, pos, at)
		at = now
	}
	return stored
}

// readMessage reads the entry q, below the published head. nil: it is withheld.
func (r *reader) readMessage(ctx context.Context, c *conv, q im.Seq) (m *petrelv1.Message, err error) {
	var parse error
	err = r.readRows(ctx, c, stay{q, q}, func(stored []byte) bool {
		m = &petrelv1.Message{}
		parse = wire.ParseMessage(stored, m)
		return true
	})
	if err == nil && parse != nil {
		err = fmt.Errorf("read %s seq %d: %w", c.key, q, parse)
	}
	return m, err
}

// counted is the number of entries up to and including q that count as unread.
func (r *reader) counted(ctx context.Context, c *conv, at point, in *info, q im.Seq) (uint64, error) {
	first := in.firstSeq()
	switch {
	case q >= at.head:
		return at.counted, nil
	case q == 0 || first == 1 && q < first:
		return 0, nil
	}
	row := max(q, first)
	m, err := r.readMessage(ctx, c, row)
	if err != nil || m == nil {
		return 0, err
	}
	if row > q && countsAsUnread(m) { // retention has removed q, or what came before it
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
