package conv

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"unicode/utf8"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// MaxQuotes is the most quotes of one page, MaxQuoteBytes the most bytes of the body
// of each. Spec: P-5.9.
const (
	MaxQuotes     = 32
	MaxQuoteBytes = 256
)

// quotes reads the entries that the rows of a page answer, if u may read them now and they are not in the page.
// Of more than MaxQuotes it leaves out those that the oldest rows answer. Damaged and withheld ones are left out
// too. Spec: P-5.9.
func (r *reader) quotes(ctx context.Context, c *conv, in *info, u im.User, last im.Seq,
	p *page) ([]*petrelv1.Quote, error) {
	asked, err := p.answered(in.members, u)
	if err != nil || len(asked) == 0 {
		return nil, err
	}
	var quotes []*petrelv1.Quote
	for _, q := range asked {
		if !in.mayRead(u, q, last) {
			continue
		}
		m, err := r.readFor(ctx, c, in, u, q)
		if errors.Is(err, store.ErrCorrupt) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if !m.Withheld {
			quotes = append(quotes, quoteOf(m))
		}
	}
	return quotes, nil
}

// answered returns the seqs outside of the page that its rows answer, ascending, at most MaxQuotes. It leaves
// out those that an edit outside of the stays of u has set.
func (p *page) answered(members *Members, u im.User) ([]im.Seq, error) {
	if len(p.related) == 0 {
		return nil, nil
	}
	var first, last petrelv1.Message
	if err := errors.Join(wire.ParseMessage(p.rows[0], &first),
		wire.ParseMessage(p.rows[len(p.rows)-1], &last)); err != nil {
		return nil, err
	}
	type answer struct{ by, to uint64 }
	var answers []answer
	for _, row := range p.related {
		var m petrelv1.Message
		if err := wire.ParseMessage(row, &m); err != nil {
			return nil, err
		}
		members.hideEdit(u, &m)
		for _, q := range []uint64{m.Rel.GetReplyTo(), m.Rel.GetThread()} {
			if q != 0 && (q < first.Seq || q > last.Seq) {
				answers = append(answers, answer{m.Seq, q})
			}
		}
	}
	slices.SortFunc(answers, func(a, b answer) int { return cmp.Compare(b.by, a.by) })
	var asked []im.Seq
	for _, a := range answers {
		if q := im.Seq(a.to); len(asked) < MaxQuotes && !slices.Contains(asked, q) {
			asked = append(asked, q)
		}
	}
	slices.Sort(asked)
	return asked, nil
}

// quoteOf returns the part of m that a quote shows.
func quoteOf(m *petrelv1.Message) *petrelv1.Quote {
	q := &petrelv1.Quote{
		Seq: m.Seq, From: m.From, TimeMs: m.TimeMs, Type: m.Type, EditedBy: m.EditedBy, RecalledBy: m.RecalledBy,
		Lost: m.Lost, Forwarded: m.Rel.GetForwarded(),
	}
	switch body := m.Body.(type) {
	case *petrelv1.Message_Text:
		text := cutText(body.Text, MaxQuoteBytes)
		q.Body, q.Cut = &petrelv1.Quote_Text{Text: text}, len(text) < len(body.Text)
	case *petrelv1.Message_Data:
		if q.Cut = len(body.Data) > MaxQuoteBytes; !q.Cut {
			q.Body = &petrelv1.Quote_Data{Data: body.Data}
		}
	}
	return q
}

// cutText returns the beginning of s: no more bytes than most, and no part of a character.
func cutText(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}
