package bench

import (
	"fmt"

	"github.com/gobwas/ws"

	"github.com/petrel-im/petrel/internal/checker"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// conn is the connection of one user. It is open when the generator has taken over a socket that was welcomed and has
// synced; a user who comes back gets another socket in the same conn.
type conn struct {
	index   int
	fd      int    // -1: closed
	in      []byte // the beginning of a frame that is not complete
	out     []byte // bytes that the socket did not take yet
	place   reader // position in the script
	sender  *sender
	again   []uint64        // numbers of messages to send once more
	token   []byte          // of the last sync page
	unread  []string        // conversations whose histories are to be requested
	behind  map[string]bool // conversations that were not read to their ends
	askID   uint64          // id of the request of a request series that has no answer yet; 0: none
	asked   int64           // when it was made; of a sync of several pages, when the first was requested
	left    int             // requests of the request series that are still to be made
	got     uint64          // messages received, each counted once
	kicked  string          // code of the Kick frame that the server sent, after "kicked: "; empty: it sent none
	dirty   bool            // is in generator.dirty: the next flush writes to it
	back    bool            // was lost, and has come back
	joined  bool            // is to sync because of a new conversation
	refused bool            // the server put off a request of it other than a send
	later   bool            // is in generator.later: not read at each event, so its latencies do not count
}

// sender is the sending side of a connection.
type sender struct {
	conn    *conn
	ordinal uint32
	peers   []peer           // message 1 goes to the first, message 2 to the second, and so on in turn
	known   map[string]*peer // of groups, by id

	window, windowBytes         int // how many sends, and bytes of them, may be unanswered
	largest                     int // bytes to reserve for the next send: the largest so far, first an estimate
	unanswered, unansweredBytes int
	slots                       []slot // unanswered sends, by number modulo the length, a power of two
}

// peer is a user or group that a sender writes to.
type peer struct {
	user string // named in sends until the id of the conversation is known
	book *convBook
	head uint64 // highest seq of the conversation that the sender knows
}

// peer returns the recipient of a message.
func (s *sender) peer(number uint64) *peer { return &s.peers[(number-1)%uint64(len(s.peers))] }

// slot is one unanswered send, with everything needed to repeat it unchanged.
type slot struct {
	number   uint64 // 0: free
	sentNs   int64
	after    uint64
	bytes    int
	attempts int
	byUser   bool
}

func (s *sender) slot(number uint64) *slot { return &s.slots[number&uint64(len(s.slots)-1)] }

// controlID is added to the ids of requests that are not sends; the id of a send is its number.
const controlID = 1 << 40

// received handles bytes from a connection: by follow while c follows the script, otherwise by frames. It keeps the
// beginning of an incomplete frame in c.in.
func (g *generator) received(c *conn, b []byte, now int64) {
	if len(c.in) == 0 && c.place.part != nil {
		b = g.follow(c, b, now)
	}
	if len(c.in) == 0 {
		n := g.frames(c, b, now)
		c.in = append(c.in, b[n:]...)
		return
	}
	c.in = append(c.in, b...)
	n := g.frames(c, c.in, now)
	c.in = c.in[:copy(c.in, c.in[n:])]
}

// follow books the bytes of b that equal the script, and returns those behind the end of the script. If b
// differs, it moves the current frame and the rest of b into c.in, and returns nil.
func (g *generator) follow(c *conn, b []byte, now int64) []byte {
	for len(b) > 0 {
		rest, diverged := c.place.match(b)
		if diverged {
			c.in = append(append(c.in[:0], c.place.open()...), rest...)
			c.place.rewind()
			g.deliver(c, c.place.passed(), now)
			return nil
		}
		g.deliver(c, c.place.passed(), now)
		if len(rest) == len(b) {
			return rest
		}
		b = rest
	}
	return nil
}

// deliver books messages of the script as delivered to c. Their content is audited already. deliver audits their
// seqs: a message that comes late or twice is a finding. A message that c had already does not count as delivered.
func (g *generator) deliver(c *conn, msgs []scriptMessage, now int64) {
	if len(msgs) == 0 {
		return
	}
	st := g.group.stream(c.index)
	for len(msgs) > 0 {
		// Messages that one turn composed have the same time of sending. Those with consecutive seqs are booked
		// together, if they continue the stream.
		n := 1
		for n < len(msgs) && msgs[n].sentNs == msgs[0].sentNs && msgs[n].seq == msgs[0].seq+uint64(n) {
			n++
		}
		first := msgs[0]
		msgs = msgs[n:]
		if st.PushRun(first.seq, uint64(n)) {
			g.arrived(c, first.sentNs, now, n)
			continue
		}
		for i := range uint64(n) {
			came := st.Push(first.seq + i)
			g.audit.count(g.group, c.index, first.seq+i, came)
			if came <= checker.Late {
				g.arrived(c, first.sentNs, now, 1)
			}
		}
	}
}

// arrived counts n messages as delivered to c. A negative sentNs says that the audit did not take them as new and
// right; then they do not count. Latencies are recorded unless c is in later or the phase is measured.
func (g *generator) arrived(c *conn, sentNs, now int64, n int) {
	if sentNs < 0 {
		return
	}
	g.tally.delivered += uint64(n)
	c.got += uint64(n)
	if !c.later && g.at != measured {
		g.endToEnd.record(sentNs, now, n)
	}
}

// frames handles the complete frames of b and returns their length. If the connection ends, it returns that of b.
func (g *generator) frames(c *conn, b []byte, now int64) (n int) {
	for c.fd >= 0 {
		content, size, op, err := split(g.enc, b[n:])
		if err != nil {
			g.lose(c, err.Error())
			return len(b)
		}
		if size == 0 {
			return n
		}
		g.frame(c, b[n:n+size], content, op, now)
		n += size
	}
	return len(b)
}

func (g *generator) frame(c *conn, raw, content []byte, op ws.OpCode, now int64) {
	switch op {
	case ws.OpText, ws.OpBinary:
	case ws.OpPing:
		g.beats.Add(1)
		mask := g.mask()
		c.out = beginFrame(c.out, g.enc, ws.OpPong, len(content), mask)
		c.out = endFrame(append(c.out, content...), g.enc, len(c.out), mask)
		g.mark(c)
		return
	case ws.OpClose:
		code, reason := ws.ParseCloseFrameData(content)
		g.lose(c, fmt.Sprintf("closed by the server: %d %s", code, reason))
		return
	default:
		return
	}
	if c.place.part != nil && g.sameAsScript(c, raw, now) {
		return
	}
	var f frame
	if err := scan(g.enc.Codec, content, &f); err != nil {
		g.lose(c, err.Error())
		return
	}
	switch f.kind {
	case ackFrame:
		g.acked(c, &f, now)
	case eventsFrame:
		if g.presences != nil {
			if s, err := decodeServerFrame(g.enc.Codec, content); err == nil { // cannot fail: scan has read the frame
				g.presences.take(s.GetEvents().GetPresences())
			}
		}
		g.events(c, raw, &f, now)
	default:
		s, err := decodeServerFrame(g.enc.Codec, content)
		if err != nil {
			g.lose(c, err.Error())
			return
		}
		g.other(c, s, now)
	}
}

// sameAsScript books a frame if it is the next one in the script, and reports whether it is.
func (g *generator) sameAsScript(c *conn, raw []byte, now int64) bool {
	r := &c.place
	if r.atEnd() || !bytesBegin(r.part.data[r.off:], raw) {
		return false
	}
	r.off += len(raw)
	g.deliver(c, r.passed(), now)
	return true
}

func bytesBegin(b, prefix []byte) bool {
	return len(b) >= len(prefix) && string(b[:len(prefix)]) == string(prefix)
}

// events handles an Events frame.
func (g *generator) events(c *conn, raw []byte, f *frame, now int64) {
	leads := c.place.part != nil && c.place.atEnd()
	if !leads {
		c.place.part = nil
	}
	g.noted = g.noted[:0]
	for {
		var e entry
		more, err := f.next(g.enc.Codec, &e)
		if err != nil {
			g.lose(c, err.Error())
			return
		}
		if !more {
			break
		}
		// an entry of the inbox may announce a conversation that the sync page did not have. P-6.3
		if len(e.conv) > 0 && e.conv[0] == inboxConv && g.gone != nil && (c.back || !g.seldom) {
			c.joined = true
		}
		g.logEntry(checker.Deliver, c.index, &e, 0, now)
		sentNs, first := g.audit.pushed(c.index, &e)
		if first {
			g.arrived(c, sentNs, now, 1)
		} else {
			sentNs = -1
		}
		if leads {
			g.noted = append(g.noted, scriptMessage{e.seq, sentNs})
		}
		if s := c.sender; s != nil {
			s.saw(&e)
		}
	}
	if leads {
		g.script.write(&c.place, raw, g.noted)
	}
}

// saw raises the head that the sender knows of the conversation of e.
func (s *sender) saw(e *entry) {
	if p := s.known[string(e.conv)]; p != nil {
		p.head = max(p.head, e.seq)
		return
	}
	for i := range s.peers {
		if p := &s.peers[i]; p.book.id == string(e.conv) {
			p.head = max(p.head, e.seq)
		}
	}
}

// acked handles the ack of a send.
func (g *generator) acked(c *conn, f *frame, now int64) {
	s := c.sender
	if s == nil {
		g.audit.ghostAck(c.index, f.id)
		return
	}
	sl := s.slot(f.id)
	if f.id == 0 || sl.number != f.id {
		g.audit.ghostAck(c.index, f.id)
		return
	}
	to := s.peer(f.id)
	if to.book.id == "" && len(f.conv) > 0 {
		g.audit.learn(to.book, string(f.conv))
	}
	g.logAnswer(checker.OK, s, sl, f.seq, now)
	g.audit.ack(s.ordinal, f.id, f.seq, sl.attempts > 1)
	to.head = max(to.head, f.seq)
	g.tally.accepted++
	if last := g.lastAck.Swap(now); now-last >= int64(shortestSilence) {
		g.silences = append(g.silences, span{last, now})
	}
	g.ackTime.record(sl.sentNs, now, 1)
	g.settle(s, sl)
}

// settle frees the slot of a send, and lets the sender compose in the next flush.
func (g *generator) settle(s *sender, sl *slot) {
	s.unanswered--
	s.unansweredBytes -= sl.bytes
	g.unanswered--
	sl.number = 0
	g.mark(s.conn)
}

// mark queues a connection for the next flush.
func (g *generator) mark(c *conn) {
	if !c.dirty {
		c.dirty = true
		g.dirty = append(g.dirty, c)
	}
}

// lose closes a connection. Unless it is to come back, its streams end, and its unanswered sends stay unknown.
func (g *generator) lose(c *conn, reason string) {
	if c.fd < 0 {
		return
	}
	g.net.close(c.fd)
	c.fd = -1
	g.open--
	if c.askID != 0 {
		c.askID = 0
		defer g.advance(c) // the request series continues with another connection
	}
	if c.kicked != "" {
		reason = c.kicked
	}
	if g.gone != nil {
		g.leave(c, reason)
		return
	}
	g.logEnd(c.index, g.now())
	g.lost = append(g.lost, fmt.Sprintf("connection %d: %s", c.index, reason))
	for _, v := range g.audit.convs {
		if st := v.stream(c.index); st != nil {
			st.Gone = true
		}
	}
	if s := c.sender; s != nil {
		g.unanswered -= s.unanswered
	}
}

// other handles all frames except acks and events.
func (g *generator) other(c *conn, f *petrelv1.ServerFrame, now int64) {
	if c.askID != 0 && c.askID == f.Id {
		if began := c.asked; f.GetSync().GetMore() { // several pages are one sync
			c.askID = 0
			defer func() { c.asked = began }()
		} else {
			g.answered(c, now)
			defer g.advance(c) // the code below first handles the answer
		}
	}
	switch b := f.Body.(type) {
	case *petrelv1.ServerFrame_Error:
		g.refusal(c, f.Id, b.Error, now)
	case *petrelv1.ServerFrame_History:
		g.historyPage(c, b.History, now)
	case *petrelv1.ServerFrame_Sync:
		g.syncPage(c, b.Sync)
	case *petrelv1.ServerFrame_Lagged:
		g.lagged++
		g.request(c, syncRequest(c.token))
	case *petrelv1.ServerFrame_Cursor:
		g.moved++
	case *petrelv1.ServerFrame_Ping:
		g.beats.Add(1)
		g.send(c, &petrelv1.ClientFrame{Id: f.Id, Body: &petrelv1.ClientFrame_Pong{Pong: &petrelv1.Pong{}}})
	case *petrelv1.ServerFrame_Kick:
		c.kicked = "kicked: " + b.Kick.Code
	}
}
