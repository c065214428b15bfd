package conv

import (
	"context"
	"fmt"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/internal/wire/petrelv1"
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
func (cs *Convs) History(ctx context.Context, key im.Key, user im.User, r Range) (*Page, error) {
	c, err := cs.acquire(ctx, key)
	if err != nil {
		return nil, err
	}
	defer cs.releaseOne(c)
	head, in := c.readable()
	if in.record == nil {
		return nil, &im.Error{Code: im.CodeNoConversation}
	}
	first, last := im.Seq(1), head
	if user != "" && !sabotageSkipsAdmission {
		var ok bool
		if first, last, ok = in.members.span(user, head); !ok {
			return nil, &im.Error{Code: im.CodeNotMember}
		}
		last = min(last, head)
	}
	p := &Page{Head: last, FirstSeq: in.firstSeq()}
	from, to := r.bounds(max(first, p.FirstSeq), last)
	if from > to {
		return p, nil
	}
	return p, cs.readPage(ctx, c, user, in, r, from, to, p)
}

// HistoryPage is History as a frame's content; pages have at most max entries.
func (cs *Convs) HistoryPage(ctx context.Context, a im.Account, f *petrelv1.GetHistory, max int) (*petrelv1.HistoryPage, error) {
	id, err := im.ParseConvID(f.Conv)
	if err != nil {
		return nil, err
	}
	if f.Limit > 0 {
		max = min(max, int(f.Limit))
	}
	p, err := cs.History(ctx, im.Key{Tenant: a.Tenant, Conv: id}, a.User, Range{After: im.Seq(f.After), Before: im.Seq(f.Before), Limit: max})
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

// readable is the published state: the head first, the members behind it.
func (c *conv) readable() (im.Seq, *info) {
	head := im.Seq(c.head.Load())
	if sabotageReadsOn {
		head = c.log.head
	}
	return head, c.info.Load()
}

// bounds is the range of seqs to read, both ends included.
func (r Range) bounds(first, last im.Seq) (from, to im.Seq) {
	limit := im.Seq(MaxPage)
	if 0 < r.Limit && r.Limit < MaxPage {
		limit = im.Seq(r.Limit)
	}
	if r.Before == 0 {
		from = max(first, r.After+1)
		return from, min(last, from+limit-1)
	}
	to = min(last, r.Before-1)
	from = max(first, r.After+1)
	if to >= limit {
		from = max(from, to-limit+1)
	}
	return from, to
}

func (cs *Convs) readPage(ctx context.Context, c *conv, user im.User, in *info, r Range, from, to im.Seq, p *Page) error {
	var bad error
	bytes, next := 0, from
	err := cs.store.Rows(ctx, c.key, from, to, func(row store.Row) bool {
		head, stored, err := store.SplitRow(row.Value)
		if err != nil {
			bad = err
			return false
		}
		if r.Before == 0 && bytes > 0 && bytes+len(stored) > MaxPageBytes {
			return false
		}
		next = row.Seq + 1
		if head.Flags&store.RowWithheld == 0 && (user == "" || in.members.May(user, row.Seq) || sabotageSkipsAdmission) {
			bytes += len(stored)
			p.Rows = append(p.Rows, append([]byte(nil), stored...))
		}
		return true
	})
	if err == nil {
		err = bad
	}
	if err != nil {
		return fmt.Errorf("read %s from %d to %d: %w", c.key, from, to, err)
	}
	if r.Before == 0 {
		p.More = next <= p.Head
		return nil
	}
	cut := 0
	for ; bytes > MaxPageBytes && cut < len(p.Rows)-1; cut++ {
		bytes -= len(p.Rows[cut])
	}
	p.Rows = p.Rows[cut:]
	p.More = cut > 0 || from > max(p.FirstSeq, r.After+1)
	return nil
}

// State is what a sync says of one conversation to one user.
type State struct {
	Head     im.Seq // the last entry the user may read
	Counted  uint64 // at the published head
	FirstSeq im.Seq
	Joined   im.Seq // the first entry the user may read
	Pos      im.Pos // of the newest row
	Role     petrelv1.Role
	Title    string
}

// Look reads the state of a conversation for a user, below the published head.
// Codes: no_conversation, not_member.
func (cs *Convs) Look(ctx context.Context, key im.Key, user im.User) (State, error) {
	c, err := cs.acquire(ctx, key)
	if err != nil {
		return State{}, err
	}
	defer cs.releaseOne(c)
	pos := im.Pos(c.pos.Load())
	head, in := c.readable()
	if in.record == nil {
		return State{}, &im.Error{Code: im.CodeNoConversation}
	}
	first, last, ok := in.members.span(user, head)
	if !ok {
		return State{}, &im.Error{Code: im.CodeNotMember}
	}
	return State{
		Head: min(last, head), Counted: c.counted.Load(), FirstSeq: in.firstSeq(), Joined: first, Pos: pos,
		Role: in.members.Role(user), Title: in.record.Title,
	}, nil
}

// Peers returns the users of a direct conversation, and the kind and title of
// any. Codes: no_conversation.
func (cs *Convs) Peers(ctx context.Context, key im.Key) (kind petrelv1.ConvKind, title string, users []string, err error) {
	c, err := cs.acquire(ctx, key)
	if err != nil {
		return 0, "", nil, err
	}
	defer cs.releaseOne(c)
	_, in := c.readable()
	if in.record == nil {
		return 0, "", nil, &im.Error{Code: im.CodeNoConversation}
	}
	return petrelv1.ConvKind(in.record.Kind), in.record.Title, in.record.Participants, nil
}
