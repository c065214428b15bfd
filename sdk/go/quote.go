package petrel

import (
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

const (
	maxQuotes     = 512 // quotes kept for one conversation; one more empties the cache
	maxQuoteBytes = 256 // of a body, P-5.9
)

// quotes are the quoted entries of a conversation that the client does not hold.
type quotes struct {
	// by seq; shared with snapshots: replaced, never changed. nil: the user may not read it
	quoted map[uint64]*petrelv1.Quote
	wanted map[uint64]bool // quotes to be loaded, by seq; true: the request is under way
}

// quote returns the known quote of the entry seq, which an entry of the conversation answers. An unknown one
// is requested.
func (c *core) quote(conv string, seq uint64) (q *petrelv1.Quote, known bool) {
	v := c.convs[conv]
	if v == nil || seq == 0 {
		return nil, true
	}
	if i, found := v.find(seq); found {
		return quoteOf(v.entries[i].m), true
	}
	if q, known = v.quoted[seq]; known {
		return q, true
	}
	if _, asked := v.wanted[seq]; !asked {
		if v.wanted == nil {
			v.wanted = map[uint64]bool{}
		}
		v.wanted[seq] = false
		c.asking[v] = struct{}{}
		c.out.woken = true
	}
	return nil, false
}

// takeQuotes keeps the quotes that come with a page. The entries of the page have been applied before.
func (v *conv) takeQuotes(list []*petrelv1.Quote) {
	for _, q := range list {
		v.keepQuote(q.Seq, q)
	}
}

// keepQuote stores a quote, unless the stored one is newer. Then it applies the held edits and recalls, which may
// be newer still.
func (v *conv) keepQuote(seq uint64, q *petrelv1.Quote) {
	old := v.quoted[seq]
	if old != nil && q != nil && max(old.EditedBy, old.RecalledBy) > max(q.EditedBy, q.RecalledBy) {
		return
	}
	if v.quoted == nil || len(v.quoted) >= maxQuotes {
		v.quoted = map[uint64]*petrelv1.Quote{}
	}
	v.quoted[seq] = q
	for _, e := range v.entries {
		v.foldQuote(e.m)
	}
}

// foldQuote applies m to the stored quote of its target, if m is an edit or a recall. Spec: P-5.9.
func (v *conv) foldQuote(m *petrelv1.Message) {
	switch b := m.Body.(type) {
	case *petrelv1.Message_Edit:
		q := v.quoted[b.Edit.GetTarget()]
		if q == nil || q.RecalledBy != 0 || m.Seq <= q.EditedBy || b.Edit.Body == nil {
			return
		}
		n := &petrelv1.Message{Seq: q.Seq, From: q.From, TimeMs: q.TimeMs, Type: b.Edit.Type, EditedBy: m.Seq}
		switch b := b.Edit.Body.(type) {
		case *petrelv1.Edit_Text:
			n.Body = &petrelv1.Message_Text{Text: b.Text}
		case *petrelv1.Edit_Data:
			n.Body = &petrelv1.Message_Data{Data: b.Data}
		}
		v.quoted[q.Seq] = quoteOf(n)
	case *petrelv1.Message_Recall:
		if q := v.quoted[b.Recall.GetTarget()]; q != nil && m.Seq > q.RecalledBy {
			v.quoted[q.Seq] = &petrelv1.Quote{Seq: q.Seq, From: q.From, TimeMs: q.TimeMs, EditedBy: q.EditedBy,
				RecalledBy: m.Seq}
		}
	}
}

// quoteOf returns the part of m that a quote shows.
func quoteOf(m *petrelv1.Message) *petrelv1.Quote {
	q := &petrelv1.Quote{
		Seq: m.Seq, From: m.From, TimeMs: m.TimeMs, Type: m.Type, EditedBy: m.EditedBy, RecalledBy: m.RecalledBy,
		Lost: m.Lost, Forwarded: m.Rel.GetForwarded(),
	}
	switch body := m.Body.(type) {
	case *petrelv1.Message_Text:
		n := min(len(body.Text), maxQuoteBytes)
		for n > 0 && n < len(body.Text) && !utf8.RuneStart(body.Text[n]) {
			n--
		}
		q.Body, q.Cut = &petrelv1.Quote_Text{Text: body.Text[:n]}, n < len(body.Text)
	case *petrelv1.Message_Data:
		if q.Cut = len(body.Data) > maxQuoteBytes; !q.Cut {
			q.Body = &petrelv1.Quote_Data{Data: body.Data}
		}
	}
	return q
}

// askQuotes requests the wanted quotes, as many at once as allowed.
func (c *core) askQuotes() {
	for v := range c.asking {
		if c.now.Before(v.repairAt) {
			c.alarmAt(v.repairAt)
			continue
		}
		for _, seq := range slices.Sorted(maps.Keys(v.wanted)) {
			if c.live.readsFull() {
				return
			}
			if !v.wanted[seq] {
				c.askQuote(v, seq)
			}
		}
		delete(c.asking, v)
	}
}

func (c *core) askQuote(v *conv, seq uint64) {
	lv := c.live
	lv.reads++
	v.wanted[seq] = true
	q := &petrelv1.GetHistory{Conv: v.id, After: seq - 1, Before: seq + 1, Limit: 1}
	c.ask(&petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_History{History: q}}, func(f *petrelv1.ServerFrame) {
		if f != nil {
			lv.reads--
			lv.pages++
		}
		e := f.GetError()
		later := e.GetRetryable() && e.GetCode() != CodeDamaged
		if later {
			v.repairAt = c.retryAt(e)
		}
		if f == nil || later { // ask again on the next connection, or after the wait
			v.wanted[seq] = false
			c.asking[v] = struct{}{}
			return
		}
		delete(v.wanted, seq)
		var quote *petrelv1.Quote
		for _, m := range f.GetHistory().GetMessages() {
			if m.Seq == seq {
				quote = quoteOf(m)
			}
		}
		v.keepQuote(seq, quote)
		c.changed.touch(v.id)
	})
}
