package gateway

import (
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/session"
	"github.com/petrel-im/petrel/internal/wire"
)

// conn is one connection of any transport: it turns bytes into frames for its session, and faults into an end with
// a code.
//
// Its fields belong to the goroutine that calls input, its reading goroutine: an event loop, or the connection's
// own. Writers use sess.Out and call closing. A conn is small, since each idle connection has one: it has no
// pointer to its transport.
type conn struct {
	sess *session.Session // nil before the first frame
	framer
	addr  [16]byte      // as netip.Addr.As16 makes it, which is smaller than a netip.Addr
	place *place        // in the limits; nil once the session is welcomed
	marks atomic.Uint32 // flags below; the writing goroutine reads them
	proxy bool          // addr is that of a proxy, and so not the client's
	deaf  bool          // the end is decided: later input is ignored
	left  bool          // the session knows that the connection is gone
}

// newConn makes a connection that has a place in the limits.
func newConn(p *place, f wire.Framing) conn {
	return conn{addr: p.addr.As16(), place: p, proxy: p.proxy, framer: framer{framing: f}}
}

// peer returns the address that counts for the limits: the client's, or that of a proxy which names none.
func (c *conn) peer() netip.Addr { return netip.AddrFrom16(c.addr).Unmap() }

// Flags about the end of a connection, which its reading goroutine sets and its writing goroutine reads.
const (
	markBroken  = 1 << iota // the WebSocket framing is broken
	markCounted             // the end is counted in Gateway.EndedFor
)

// link is the connection with its socket: a loopConn or a stream. Only the conn's reading goroutine calls put,
// finish and busy.
type link interface {
	put(b []byte)        // writes b after all earlier bytes; does not keep b
	finish(quick bool)   // closes the socket after the bytes of put; quick: the peer sends nothing more
	busy(limit int) bool // reports whether more than limit bytes wait to be written; a loop first writes what it can
}

// reader has what the connections with the same reading goroutine share: all of an event loop, or one stream.
type reader struct {
	g       *Gateway
	flusher *fanout.Flusher
	wakeUps fanout.WakeUps // flushed after each read
}

const (
	closeInternal = 1011

	maxUnread = 64 << 10 // waiting bytes above which WebSocket pings go unanswered
	// bytes of answers that may wait beyond the outbox's limit for events: of one connection, and of all
	// connections of its user together
	maxAnswers = 4 << 20

	// maxExcess is how many bytes are read and thrown away after the end of a connection, before its socket is
	// closed. An event loop counts each read as readBuffer bytes, also a shorter one.
	maxExcess = 16 << 20

	// maxEarlyExcess is how many reads of a connection that was not welcomed are thrown away after its end: each
	// packet costs a wake-up, and a peer can send thousands of packets while its end is on the way.
	maxEarlyExcess = 4
)

// input handles the bytes of one read, unless the end is decided. It may change b and does not keep it. The caller
// flushes r.wakeUps.
func (c *conn) input(b []byte, r *reader, l link) {
	if c.deaf || r.g.deaf.Load() {
		return
	}
	c.limit = c.frameLimit(r.g.hub.Limits())
	var ctl control
	if ft := c.tooEarly(len(b), r.g); ft != nil {
		c.end(ft, r, l)
		return
	}
	ft := c.cut(b, func(f frame) *fault { return c.frame(f, r, l, &ctl) })
	if c.sess != nil && !c.left {
		c.sess.ReadDone(&r.wakeUps)
		c.noteWelcome()
	}
	if ft != nil && ft != stopped {
		if ft.broken {
			c.marks.Or(markBroken)
		}
		c.end(ft.err, r, l)
		return
	}
	c.answer(&ctl, l)
}

// tooEarly counts a read of n bytes, and returns an error if the client sends too much before its welcome. A client
// needs few reads: for one hello, some pings, and frames that are refused. Reads beyond freeReads come from one
// budget of all strangers. When that is used up, the connection ends: an event loop cannot delay it.
func (c *conn) tooEarly(n int, g *Gateway) *im.Error {
	if c.greeted() {
		return nil
	}
	limit := g.hub.Limits().FrameBytesBeforeHello
	if c.place.bytes += n; limit >= 0 && c.place.bytes > 2*limit+maxReadBuffer {
		return im.Errorf(im.CodeFrameTooLarge, "the connection has sent more than a hello")
	}
	if c.place.reads++; c.place.reads > freeReads && g.limits.takeFurtherRead(time.Now(), 0) > 0 {
		return tooMany("connections without a hello send too much", spread(time.Second))
	}
	return nil
}

// control has the control frames of one read that need an answer: a close, or else the newest ping.
// Older pings get none (RFC 6455 5.5.3), so a flood of pings costs one write for each read.
type control struct {
	op      byte
	n       uint8
	payload [maxControl]byte
}

// answer answers the control frames of one read.
func (c *conn) answer(ctl *control, l link) {
	switch {
	case c.deaf:
	case ctl.op == opClose:
		c.answerClose(ctl.payload[:ctl.n], l)
	case ctl.op == opPing && !l.busy(maxUnread):
		l.put(appendPong(nil, ctl.payload[:ctl.n]))
	}
}

// frame handles one frame of the peer. It passes a message to the session, which the first message opens. It notes
// a ping or a close in ctl, and ignores a pong. stopped means that no further frame is taken.
func (c *conn) frame(f frame, r *reader, l link, ctl *control) *fault {
	switch f.op {
	case opPing, opClose:
		ctl.op, ctl.n = f.op, uint8(copy(ctl.payload[:], f.payload))
		if f.op == opClose {
			return stopped
		}
		return nil
	case opPong:
		return nil
	}
	if c.sess == nil {
		if f.op == opText && !beginsObject(f.payload) {
			c.codec = noCodec // the answer is in JSON either way
			return &fault{err: &im.Error{Code: im.CodeUnknownCodec}}
		}
		if c.place != nil {
			c.place.await(time.Time{}) // from now on the peer waits for us
		}
		c.sess = r.g.hub.Open(c.encoding(), r.flusher)
		c.sess.Out.Conn = l.(interface{ ClientAddr() netip.Addr }) // the embedded conn has it
	}
	if c.readsNoAnswers(r.g.hub.Limits().OutboxBytes, l) {
		return &fault{err: im.Errorf(im.CodeSlowConsumer, "too many answers wait to be read")}
	}
	if !c.sess.Receive(f.payload, &r.wakeUps) {
		c.deaf = true
		return stopped
	}
	return nil
}

// readsNoAnswers reports whether the connection has to end because its client does not read answers: too many
// wait for this connection, or for all connections of its user on this node.
func (c *conn) readsNoAnswers(limit int, l link) bool {
	return limit >= 0 && c.sess.Out.Pending() > limit &&
		(l.busy(limit+maxAnswers) || c.sess.Unread() > limit+maxAnswers)
}

// frameLimit returns the size of the largest message, in bytes, that is taken in this read. It does not change
// within a read: a client waits for its welcome before it sends larger ones. Spec: P-2.5, P-3.1.
func (c *conn) frameLimit(l *session.Limits) int32 {
	limit := l.FrameBytesBeforeHello
	if c.sess != nil && c.sess.Ready() {
		limit = wire.FrameLimit(l.BodyBytes)
	}
	return int32(min(limit, maxLength))
}

// greeted reports whether the session was welcomed and the connection is counted so.
func (c *conn) greeted() bool { return c.place == nil }

// noteWelcome counts the connection as greeted, once, when its session is welcomed.
func (c *conn) noteWelcome() {
	if !c.greeted() && c.sess.Ready() {
		c.place.welcome()
		c.place = nil
	}
}

// release gives the place of the connection back, at its end.
func (c *conn) release(l *limits) {
	if c.greeted() {
		l.leave(c.peer())
	} else {
		c.place.leave()
	}
}

// ClientAddr is the address of the client; the zero value: only a proxy knows it.
func (c *conn) ClientAddr() netip.Addr {
	if c.proxy {
		return netip.Addr{}
	}
	return c.peer()
}

// encoding returns the encoding of the server's frames; JSON while the client has not chosen. Spec: P-1.3.
func (c *conn) encoding() wire.Encoding {
	e := wire.Encoding{Codec: wire.JSON, Framing: c.framing}
	if c.codec == protoCodec {
		e.Codec = wire.Proto
	}
	return e
}

// beginsObject reports whether a text begins as a JSON object does.
func beginsObject(b []byte) bool {
	for _, c := range b {
		switch c {
		case ' ', '\t', '\r', '\n':
		default:
			return c == '{'
		}
	}
	return false
}

// end ends the connection with e: through the outbox, after what waits in it,
// or at once while there is no session.
func (c *conn) end(e *im.Error, r *reader, l link) {
	c.deaf = true
	c.part = nil
	c.marks.Or(markCounted)
	r.g.ended(e)
	if c.sess != nil {
		c.sess.Out.End(e, &r.wakeUps)
		return
	}
	l.put(c.closing(wire.AppendFrame(nil, c.encoding(), wire.KickFrame(e)), e, r.g))
	l.finish(false)
}

// closing appends the last bytes of the transport: a close frame of WebSocket, nothing on TCP. It counts the end,
// unless end has counted it. Spec: P-1.6.
func (c *conn) closing(dst []byte, e *im.Error, g *Gateway) []byte {
	marks := c.marks.Load()
	if marks&markCounted == 0 {
		g.ended(e)
	}
	if c.framing != wire.WebSocket {
		return dst
	}
	code := e.Code.Info().Close
	if marks&markBroken != 0 && e.Code == im.CodeBadFrame {
		code = closeProtocol
	}
	if code == 0 {
		code = closeInternal
	}
	return appendClose(dst, code, string(e.Code))
}

// tooLate reports whether a connection that was not welcomed has had so many reads after its end that its socket is
// closed, without waiting until the peer reads the end.
func (c *conn) tooLate(reads int) bool { return !c.greeted() && reads > maxEarlyExcess }

// answerClose ends the connection as the peer asked.
func (c *conn) answerClose(payload []byte, l link) {
	c.deaf = true
	c.part = nil
	var b [4]byte
	switch code := closeAnswer(payload); code {
	case 0:
		l.put([]byte{0x80 | opClose, 0})
	default:
		l.put(appendClose(b[:0], code, ""))
	}
	l.finish(true)
}

// leave notifies the session, once, that the connection is gone.
func (c *conn) leave() {
	c.deaf = true
	c.part = nil
	if c.sess != nil && !c.left {
		c.left = true
		c.sess.Closed()
	}
}

// pressedPause is how long each read waits while memory is full: it slows the input, so that the
// garbage collector gets ahead.
const pressedPause = 5 * time.Millisecond

// pauseWhilePressed waits if memory is full.
func (g *Gateway) pauseWhilePressed() {
	if g.o.Pressed() {
		time.Sleep(pressedPause)
	}
}
