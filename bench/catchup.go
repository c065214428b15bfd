package bench

import (
	"github.com/petrel-im/petrel/internal/checker"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// This file has what a real client does to recover: it repeats sends that were put off, syncs when it lags, and
// reads its missed messages.

// retry is a message to be sent again.
type retry struct {
	due    int64 // ns of the generator's clock
	sender *sender
	number uint64
}

// defaultRetryMs is the least pause before a repeat, also if the server names a shorter one or none.
const defaultRetryMs = 100

// refusal handles an error frame. It ends a settled send as rejected, repeats a send that was behind or put off, and
// leaves any other send unknown. It has a request that was put off repeated too.
func (g *generator) refusal(c *conn, id uint64, e *petrelv1.Error, now int64) {
	g.errors[e.Code]++
	if id > controlID && e.Retryable && (g.gone != nil || g.series == nil) {
		c.refused = true // comeAndGo makes the requests again, at the next joinTurn
		g.asksPutOff[e.Code]++
	}
	s := c.sender
	if s == nil || id >= controlID || id == 0 || s.slot(id).number != id {
		return
	}
	sl := s.slot(id)
	g.logRefusal(s, sl, e, now)
	switch {
	case e.Settled:
		g.audit.reject(s.ordinal, id)
		g.tally.rejected++
		g.settle(s, sl)
	case im.Code(e.Code) == im.CodeBehind && sl.attempts == 1:
		// This was the first attempt, so there is no stored message to look for. P-4.7
		sl.after = max(sl.after, e.Head)
		c.again = append(c.again, id)
		g.mark(c)
	case e.Retryable:
		g.retries = append(g.retries, retry{now + int64(max(e.RetryAfterMs, defaultRetryMs))*1e6, s, id})
	default:
		g.settle(s, sl) // the audit counts it as unknown
	}
}

// dueRetries queues the due repeats on their connections.
func (g *generator) dueRetries(now int64) {
	rest := g.retries[:0]
	for _, r := range g.retries {
		if r.due > now {
			rest = append(rest, r)
			continue
		}
		r.sender.conn.again = append(r.sender.conn.again, r.number)
		g.mark(r.sender.conn)
	}
	g.retries = rest
}

// request queues a frame under a new id. If the frame belongs to the request series, the time to its answer is
// measured.
func (g *generator) request(c *conn, f *petrelv1.ClientFrame) {
	g.controls++
	f.Id = controlID + g.controls
	if g.series != nil && g.series.is(f) {
		c.askID, c.asked = f.Id, g.now()
	}
	g.send(c, f)
}

// syncRequest returns a request for a page of the list of conversations: the changes since token; nil: all.
func syncRequest(token []byte) *petrelv1.ClientFrame {
	return &petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_Sync{Sync: &petrelv1.Sync{Token: token}}}
}

func (g *generator) send(c *conn, f *petrelv1.ClientFrame) {
	out, err := appendClientFrame(c.out, g.enc, f, g.mask())
	if err != nil { // a frame of ours that cannot be written
		g.lose(c, err.Error())
		return
	}
	c.out = out
	g.mark(c)
}

// syncPage requests the entries that a sync page shows as missing, and the next page. During a request series whose
// requests are not those of generator.live, it requests no entries of known conversations.
func (g *generator) syncPage(c *conn, p *petrelv1.SyncPage) {
	c.token = p.Token
	for _, state := range p.Convs {
		v := g.audit.named([]byte(state.Conv))
		if v == nil {
			if g.gone != nil && state.Conv[0] == directConv { // new: the audit learns its id from the first message
				g.fallBehind(c, state.Conv)
				g.askHistory(c, state.Conv, 0)
			}
			continue
		}
		v.Head = max(v.Head, state.Head)
		if st := v.stream(c.index); st != nil && st.Lowest() <= state.Head && (g.series == nil || g.series.free) {
			g.fallBehind(c, state.Conv)
			g.askHistory(c, state.Conv, st.Lowest()-1)
		}
	}
	if p.More {
		g.request(c, syncRequest(c.token))
	}
}

func (g *generator) askHistory(c *conn, conv string, after uint64) {
	g.request(c, &petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_History{History: &petrelv1.GetHistory{Conv: conv,
		After: after}}})
}

// historyPage handles a page of history, and requests the next one, or after the last one the next conversation of
// c.unread. Missed messages count as delivered, unless the request series only compares.
func (g *generator) historyPage(c *conn, p *petrelv1.HistoryPage, now int64) {
	g.pages++
	last, compares := uint64(0), g.series != nil && g.series.compares
	for _, m := range p.Messages {
		e := entryOf(m)
		since := uint64(0)
		if last > 0 {
			since = last + 1
		}
		g.logEntry(checker.Read, c.index, &e, since, now)
		last = e.seq
		if compares {
			if g.audit.stored(&e) {
				g.read++
			}
			continue
		}
		sentNs, first := g.audit.readBack(c.index, &e)
		if first && string(e.from) != g.nameOf(c) { // a sender that was away also reads its own messages
			g.read++
			g.arrived(c, sentNs, now, 1)
		}
	}
	v := g.audit.named([]byte(p.Conv))
	if st := streamOf(v, c.index); st == nil || st.Complete(p.Head) {
		delete(c.behind, p.Conv)
	}
	if v != nil && last > 0 {
		v.Head = max(v.Head, p.Head)
		if st := v.stream(c.index); st != nil && (p.More || !compares && st.Lowest() <= p.Head) {
			if !compares { // the entries below Lowest are there already
				last = max(last, st.Lowest()-1)
			}
			g.askHistory(c, p.Conv, last)
			return
		}
	}
	g.readNext(c)
}

// historiesAtOnce is how many pages of history a connection that came back requests at a time.
const historiesAtOnce = 4

// readSome requests the histories of the next historiesAtOnce conversations that a connection has to read.
func (g *generator) readSome(c *conn) {
	for range historiesAtOnce {
		g.readNext(c)
	}
}

// readNext requests the history of the next conversation that a connection has to read: from its lowest missing entry
// on, or all of it if the request series compares or the audit does not know the conversation.
func (g *generator) readNext(c *conn) {
	if len(c.unread) == 0 {
		return
	}
	after := uint64(0)
	if v := g.audit.named([]byte(c.unread[0])); v != nil && (g.series == nil || !g.series.compares) {
		after = v.stream(c.index).Lowest() - 1
	}
	g.askHistory(c, c.unread[0], after)
	c.unread = c.unread[1:]
}

// nameOf returns the user name of a sending connection; empty: it does not send.
func (g *generator) nameOf(c *conn) string {
	if c.sender == nil {
		return ""
	}
	return g.audit.senders[c.sender.ordinal].user
}

func entryOf(m *petrelv1.Message) entry {
	e := entry{conv: []byte(m.Conv), from: []byte(m.From), id: []byte(m.ClientMsgId), seq: m.Seq}
	if t, ok := m.Body.(*petrelv1.Message_Text); ok {
		e.text, e.hasText = []byte(t.Text), true
	}
	return e
}

// streamOf returns the stream of a connection in a conversation; nil: it has none.
func streamOf(v *convBook, conn int) *checker.Stream {
	if v == nil {
		return nil
	}
	return v.stream(conn)
}
