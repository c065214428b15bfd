package conv

import (
	"context"
	"fmt"

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

// Range asks for a page: upwards from After, or, with Before set, downwards
// from Before. Both ends are exclusive.
type Range struct {
	After, Before im.Seq
	Limit         int // 1..MaxPage; others are cut
}

// Page is a part of a conversation's history.
type Page struct {
	Rows     [][]byte // wire parts, ascending by seq; the caller's
	Head     im.Seq   // the published head, or the last entry a former member may read
	FirstSeq im.Seq
	More     bool // the range goes on behind this page
}

// History reads a page for a user; user "" is the operator, who reads
// everything. Entries outside the user's memberships are left out. Every read
// ends at the published head. Codes: no_conversation, not_member. Spec: P-5.2.
func (ow *Owner) History(ctx context.Context, key im.Key, user im.User, r Range) (*Page, error) {
	c, err := ow.acquire(ctx, key)
	if err != nil {
		return nil, err
	}
	defer ow.releaseOne(c)
	at, in := c.readable()
	head := at.head
	if in.record == nil {
		return nil, &im.Error{Code: im.CodeNoConversation}
	}
	first, last := im.Seq(1), head
	if user != "" {
		var ok bool
		if first, last, ok = in.members.reach(user, head); !ok {
			return nil, &im.Error{Code: im.CodeNotMember}
		}
		last = min(last, head)
	}
	p := &Page{Head: last, FirstSeq: in.firstSeq()}
	from, to := r.bounds(max(first, p.FirstSeq), last)
	parts := []stay{{from, to}}
	if user != "" {
		parts = in.members.stays(user, from, to)
	}
	if r.Before == 0 {
		err = ow.readUp(ctx, c, parts, r.limit(), p)
	} else {
		err = ow.readDown(ctx, c, parts, r.limit(), p)
	}
	if err == nil && user != "" && in.members.Role(user) == 0 {
		err = emptyEditedBehind(p.Rows, last)
	}
	return p, err
}

// emptyEditedBehind takes the body from the rows that were edited behind last,
// the end of the reader's last stay: the new one is not theirs to read, and the
// former one is served nowhere. Spec: P-8.3.
func emptyEditedBehind(rows [][]byte, last im.Seq) error {
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

// historyPage is what history reads as a frame's content; pages have at most max
// entries.
func historyPage(a im.Account, f *petrelv1.GetHistory, max int, history func(im.Key, Range) (*Page, error)) (*petrelv1.HistoryPage, error) {
	id, err := im.ParseConvID(f.Conv)
	if err != nil {
		return nil, err
	}
	if f.Limit > 0 {
		max = min(max, int(f.Limit))
	}
	p, err := history(im.Key{Tenant: a.Tenant, Conv: id}, Range{After: im.Seq(f.After), Before: im.Seq(f.Before), Limit: max})
	if err != nil {
		return nil, err
	}
	page := &petrelv1.HistoryPage{Conv: id.String(), Head: uint64(p.Head), FirstSeq: uint64(p.FirstSeq), More: p.More, Messages: make([]*petrelv1.Message, len(p.Rows))}
	for i, row := range p.Rows {
		m := &petrelv1.Message{}
		if err := wire.ParseMessage(row, m); err != nil {
			return nil, fmt.Errorf("read %s: %w", id, err)
		}
		page.Messages[i] = m
	}
	return page, nil
}

// readable is the published state: the point first, the info behind it.
func (c *conv) readable() (point, *info) {
	at := *c.point.Load()
	return at, c.info.Load()
}

// stay is a range of seqs that a user may read, both ends included; empty when from > to.
type stay struct{ from, to im.Seq }

// bounds is the range of seqs asked for, cut to first..last.
func (r Range) bounds(first, last im.Seq) (from, to im.Seq) {
	from, to = first, last
	if r.After >= last {
		return 1, 0
	}
	if r.Before > 0 {
		to = min(last, r.Before-1)
	}
	return max(first, r.After+1), to
}

func (r Range) limit() int {
	if 0 < r.Limit && r.Limit < MaxPage {
		return r.Limit
	}
	return MaxPage
}

// readUp reads the first rows of parts. A page that leaves rows out has at
// least one, so that the reader can go on behind it. Spec: P-5.2.
func (ow *Owner) readUp(ctx context.Context, c *conv, parts []stay, limit int, p *Page) error {
	bytes := 0
	for _, s := range parts {
		if s.from > s.to {
			continue
		}
		if len(p.Rows) >= limit {
			p.More = true
			return nil
		}
		end := s.to
		if n := im.Seq(limit - len(p.Rows)); end-s.from >= n {
			end = s.from + n - 1
		}
		err := ow.readRows(ctx, c, stay{s.from, end}, func(stored []byte) bool {
			if p.More = len(p.Rows) > 0 && bytes+len(stored) > MaxPageBytes; p.More {
				return false
			}
			bytes += len(stored)
			p.Rows = append(p.Rows, stored)
			return true
		})
		if err != nil || p.More {
			return err
		}
		p.More = end < s.to
	}
	return nil
}

// readDown reads the last rows of parts; at least one of a page with more.
func (ow *Owner) readDown(ctx context.Context, c *conv, parts []stay, limit int, p *Page) error {
	bytes := 0
	for i := len(parts) - 1; i >= 0; i-- {
		s := parts[i]
		if s.from > s.to {
			continue
		}
		if len(p.Rows) >= limit || bytes > MaxPageBytes {
			p.More = true
			break
		}
		begin := s.from
		if n := im.Seq(limit - len(p.Rows)); s.to-begin >= n {
			begin = s.to - n + 1
		}
		var rows [][]byte
		err := ow.readRows(ctx, c, stay{begin, s.to}, func(stored []byte) bool {
			bytes += len(stored)
			rows = append(rows, stored)
			return true
		})
		if err != nil {
			return err
		}
		p.Rows = append(rows, p.Rows...)
		if begin > s.from {
			p.More = true
			break
		}
	}
	cut := 0
	for ; bytes > MaxPageBytes && cut < len(p.Rows)-1; cut++ {
		bytes -= len(p.Rows[cut])
	}
	p.Rows, p.More = p.Rows[cut:], p.More || cut > 0
	return nil
}

// readRows passes copies of the wire parts of s, ascending, until fn returns
// false.
func (ow *Owner) readRows(ctx context.Context, c *conv, s stay, fn func(stored []byte) bool) error {
	var bad error
	err := ow.store.Rows(ctx, c.key, s.from, s.to, func(row store.Row) bool {
		head, stored, err := store.SplitRow(row.Value)
		if err != nil {
			bad = err
			return false
		}
		if head.Flags&store.RowWithheld != 0 {
			return true
		}
		if head.Flags&store.RowRewritten != 0 {
			stored = ow.durable(c, row.Seq, head.Pos, stored)
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

// State is what a sync says of one conversation to one user.
type State struct {
	Head     im.Seq // the last entry the user may read
	Counted  uint64 // at Head
	FirstSeq im.Seq
	Joined   im.Seq // the first entry the user may read
	Pos      im.Pos // of the newest row
	Role     petrelv1.Role
	Title    string
}

// Look reads the state of a conversation for a user, below the published head.
// Codes: no_conversation, not_member.
func (ow *Owner) Look(ctx context.Context, key im.Key, user im.User) (State, error) {
	c, err := ow.acquire(ctx, key)
	if err != nil {
		return State{}, err
	}
	defer ow.releaseOne(c)
	at, in := c.readable()
	if in.record == nil {
		return State{}, &im.Error{Code: im.CodeNoConversation}
	}
	first, last, ok := in.members.reach(user, at.head)
	if !ok {
		return State{}, &im.Error{Code: im.CodeNotMember}
	}
	st := State{
		Head: min(last, at.head), Counted: at.counted, FirstSeq: in.firstSeq(), Joined: first, Pos: at.pos,
		Role: in.members.Role(user), Title: in.record.Title,
	}
	if st.Role != 0 {
		return st, nil
	}
	st.Title = ""
	// A former member is not told of what came later, by its count either.
	st.Counted = 0
	if st.Head < st.FirstSeq {
		return st, nil
	}
	var parse error
	err = ow.readRows(ctx, c, stay{st.Head, st.Head}, func(stored []byte) bool {
		var m petrelv1.Message
		parse = wire.ParseMessage(stored, &m)
		st.Counted = m.Counted
		return true
	})
	if err == nil && parse != nil {
		err = fmt.Errorf("read %s seq %d: %w", c.key, st.Head, parse)
	}
	return st, err
}

// Peers returns the users of a direct conversation, and the kind and title of
// any. Codes: no_conversation.
func (ow *Owner) Peers(ctx context.Context, key im.Key) (kind petrelv1.ConvKind, title string, users []string, err error) {
	c, err := ow.acquire(ctx, key)
	if err != nil {
		return 0, "", nil, err
	}
	defer ow.releaseOne(c)
	_, in := c.readable()
	if in.record == nil {
		return 0, "", nil, &im.Error{Code: im.CodeNoConversation}
	}
	return petrelv1.ConvKind(in.record.Kind), in.record.Title, in.record.Participants, nil
}
