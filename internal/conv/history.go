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
	if err == nil && in.members.hasBeenAway(by.User) {
		err = hideEdits(p.rows, in.members, by.User)
	}
	h := &convpb.History{Rows: p.rows, Head: uint64(last), FirstSeq: uint64(in.firstSeq()), More: p.more}
	if err == nil && q.Refs {
		h.Refs, err = r.quotes(ctx, c, in, by.User, last, p)
	}
	if err != nil {
		return nil, err
	}
	return h, nil
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

// hideEdits takes the text of edits that u may not read from the rows of a page.
func hideEdits(rows [][]byte, members *Members, u im.User) error {
	for i, row := range rows {
		var m petrelv1.Message
		if err := wire.ParseMessage(row, &m); err != nil {
			return err
		}
		if members.hideEdit(u, &m) {
			rows[i] = wire.AppendMessage(nil, &m)
		}
	}
	return nil
}

// HistoryPage is h as the content of a frame.
func HistoryPage(id im.ConvID, h *convpb.History) (*petrelv1.HistoryPage, error) {
	page := &petrelv1.HistoryPage{Conv: id.String(), Head: h.Head, FirstSeq: h.FirstSeq, More: h.More, Refs: h.Refs, Messages: make([]*petrelv1.Message, len(h.Rows))}
	for i, row := range h.Rows {
		m := &petrelv1.Message{}
		if err := wire.ParseMessage(row, m); err != nil {
			return nil, fmt.Errorf("read %s: %w", id, err)
		}
		page.Messages[i] = m
	}
	return page, nil
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
		if err := r.readRowsBy(ctx, r.store.RowsDown, c, stay{begin, s.to}, p.add); err != nil {
			return err
		}
		p.more = p.more || begin > s.from
	}
	return nil
}
