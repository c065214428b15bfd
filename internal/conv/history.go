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

// Extras are the optional parts of a page of history beside its entries.
type Extras struct {
	Refs  bool // the entries that they answer
	Notes bool // their reactions and pins
}

// History reads a page of entries: upwards from q.After, or with q.Before downwards from q.Before, which is
// exclusive like q.After. With q.Around or q.AtMs it reads on both sides of a place. A q.Limit of 0 or above
// MaxPage means MaxPage. Entries outside of the user's stays are left out, and no page goes above the
// published head. Codes: no_conversation. Spec: P-5.2, P-8.3.
func (r *reader) History(ctx context.Context, by Query, q *convpb.GetHistory) (*convpb.History, error) {
	c, at, in, end, err := r.enter(ctx, by)
	if err != nil {
		return nil, err
	}
	defer end()
	for {
		h, err := r.historyOf(ctx, c, at, in, by, q)
		before := in.firstSeq()
		if at, in = c.published(); in.firstSeq() == before {
			return h, err
		} // rows were removed meanwhile, which looks like damage
	}
}

// historyOf reads the page of History from the published state at and in.
func (r *reader) historyOf(ctx context.Context, c *conv, at point, in *info, by Query,
	q *convpb.GetHistory) (*convpb.History, error) {
	first, last := im.Seq(1), at.head
	if by.User != "" {
		first, last = in.members.reach(by.User, at.head)
		last = min(last, at.head)
	}
	p := &page{limit: MaxPage, as: in.viewer(by.User)}
	if 0 < q.Limit && q.Limit < MaxPage {
		p.limit = int(q.Limit)
	}
	first = max(first, in.firstSeq())
	within := func(from, to im.Seq) []stay {
		if by.User == "" {
			return []stay{{from, to}}
		}
		return in.members.readable(by.User, from, to)
	}
	var err error
	from, to := bounds(q, first, last)
	switch {
	case q.Around > 0 || q.AtMs > 0:
		from, to, err = r.readAround(ctx, c, within, stay{first, last}, q, p)
	case q.Before > 0:
		from, to, err = r.readPart(ctx, c, within(from, to), stay{from, to}, true, p)
	default:
		from, to, err = r.readPart(ctx, c, within(from, to), stay{from, to}, false, p)
	}
	if err == nil && in.members.hasBeenAway(by.User) {
		err = hideEdits(p.rows, in.members, by.User)
	}
	h := &convpb.History{Rows: p.rows, Head: uint64(last), FirstSeq: uint64(in.firstSeq()), More: p.more}
	if from <= to {
		h.CoveredFrom, h.CoveredTo = uint64(from), uint64(to)
	}
	if err == nil && q.Refs {
		h.Refs, err = r.quotes(ctx, c, in, by.User, last, p)
	}
	if err == nil && q.Notes && len(p.rows) > 0 {
		h.Notes, err = r.notesOf(ctx, c, in, by.User, last, from, to, p.rows)
		if errors.Is(err, store.ErrCorrupt) { // the messages can be read
			h.NotesMissing, err = true, nil
		}
	}
	if err != nil {
		return nil, err
	}
	return h, nil
}

// readPart reads the first rows of parts, or with down the last ones. parts are the readable ranges within all.
// readPart returns the range within all that the page covers.
func (r *reader) readPart(ctx context.Context, c *conv, parts []stay, all stay, down bool,
	p *page) (from, to im.Seq, err error) {
	read := r.readUp
	if down {
		read = r.readDown
	}
	err = read(ctx, c, parts, p)
	if errors.Is(err, store.ErrCorrupt) {
		err = r.aroundDamage(ctx, c, parts, p, down)
	}
	if err != nil || !p.more {
		return all.from, all.to, err
	}
	if down {
		all.from, err = seqOfRow(p.rows[0])
	} else {
		all.to, err = seqOfRow(p.rows[len(p.rows)-1])
	}
	return all.from, all.to, err
}

func seqOfRow(row []byte) (im.Seq, error) {
	var m petrelv1.Message
	err := wire.ParseMessage(row, &m)
	return im.Seq(m.Seq), err
}

// readAround reads rows on both sides of a place, which q names by a seq or a time. Half of the
// rows are from before it, if there are as many. Spec: P-5.2.
func (r *reader) readAround(ctx context.Context, c *conv, within func(from, to im.Seq) []stay, all stay,
	q *convpb.GetHistory, p *page) (from, to im.Seq, err error) {
	if all.from > all.to {
		return 1, 0, nil
	}
	at := min(max(im.Seq(q.Around), all.from), all.to)
	if q.Around == 0 {
		if at, err = r.firstAt(ctx, c, within(all.from, all.to), q.AtMs); err != nil {
			return 0, 0, err
		}
	}
	below := &page{limit: p.limit / 2, as: p.as}
	from = at
	if at > all.from && below.limit > 0 {
		from, _, err = r.readPart(ctx, c, within(all.from, at-1), stay{all.from, at - 1}, true, below)
		if im.CodeOf(err) == im.CodeDamaged { // there is damage right before the place: the page begins at the place
			from, err = at, nil
		}
		if err != nil {
			return 0, 0, err
		}
	}
	above := &page{limit: p.limit - len(below.rows), bytes: below.bytes, as: p.as}
	_, to, err = r.readPart(ctx, c, within(at, all.to), stay{at, all.to}, false, above)
	if im.CodeOf(err) == im.CodeDamaged && len(below.rows) > 0 {
		to, above.more, err = at-1, true, nil
	}
	if err != nil {
		return 0, 0, err
	}
	p.rows, p.related, p.bytes = append(below.rows, above.rows...), append(below.related, above.related...), above.bytes
	p.more = above.more
	return from, to, nil
}

// firstAt returns the seq of the first row of parts from the time ms on, or of the last row if all are
// earlier. If the clock of the server went back, several rows are possible; it returns one of them.
func (r *reader) firstAt(ctx context.Context, c *conv, parts []stay, ms uint64) (im.Seq, error) {
	n := uint64(0)
	for _, s := range parts {
		n += uint64(s.to-s.from) + 1
	}
	place := func(i uint64) im.Seq {
		for _, s := range parts {
			if size := uint64(s.to-s.from) + 1; i < size {
				return s.from + im.Seq(i)
			} else {
				i -= size
			}
		}
		return parts[len(parts)-1].to
	}
	low, high := uint64(0), n // the row is between them
	for low < high {
		mid := low + (high-low)/2
		earlier, err := r.isBefore(ctx, c, place(mid), ms)
		if err != nil {
			return 0, err
		}
		if earlier {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return place(min(low, n-1)), nil
}

// isBefore tells whether the row q is older than a time. A lost or damaged row has no time and counts as not
// older, so the page begins at it.
func (r *reader) isBefore(ctx context.Context, c *conv, q im.Seq, ms uint64) (bool, error) {
	m, err := r.readMessage(ctx, c, viewer{side: -1}, q)
	if errors.Is(err, store.ErrCorrupt) {
		return false, nil
	}
	return m.GetTimeMs() != 0 && m.GetTimeMs() < ms, err
}

// bounds returns the range of seqs that q asks for, cut to first..last. The range may be empty.
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

// hideEdits removes the content of edits that u may not read from the rows of a page.
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

// HistoryPage returns h as the content of a frame.
func HistoryPage(id im.ConvID, h *convpb.History) (*petrelv1.HistoryPage, error) {
	page := &petrelv1.HistoryPage{Conv: id.String(), Head: h.Head, FirstSeq: h.FirstSeq, More: h.More, Refs: h.Refs,
		Notes: h.Notes, NotesMissing: h.NotesMissing,
		CoveredFrom: h.CoveredFrom, CoveredTo: h.CoveredTo, Messages: make([]*petrelv1.Message, len(h.Rows))}
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
		if err := r.readRows(ctx, c, p.as, stay{s.from, end}, p.add); err != nil || p.more {
			return err
		}
		p.more = end < s.to
	}
	return nil
}

// readDown reads the last rows of parts, from the last one down, and no row beside those of the
// page. A page that leaves rows out has at least one.
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
		if err := r.readRowsBy(ctx, r.store.RowsDown, c, p.as, stay{begin, s.to}, p.add); err != nil {
			return err
		}
		p.more = p.more || begin > s.from
	}
	return nil
}
