package fanout

import (
	"sync"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Outbox holds the bytes waiting to be written to one connection.
//
// Any goroutine may add. Only the connection's writer, which its Flusher
// wakes, calls Take and Wrote. Events count against the limit: one that does
// not fit is dropped, the client is told once that it lags, and nothing more is
// pushed until it syncs. Answers are always taken; windows bound them.
type Outbox struct {
	Owner   any        // the gateway's connection; set once, before the outbox is used
	Account im.Account // set once, before the outbox enters the online table
	Device  string     // set with Account; empty: the token is bound to none
	Login   uint64     // set with Account; number of the device's login, or, without one, of the epoch of the user's tokens
	ID      uint64     // set when the outbox enters the online table; unlike that of every other one of this table

	// What the client's hello listed; set once, like Account. Spec: P-2.6.
	Receipts bool // capability cursor
	Hints    bool // capability focus

	enc     wire.Encoding
	flusher *Flusher
	limit   int // bytes; negative: none

	mu      sync.Mutex // tier 0; guards the fields below
	pend    []byte     // from bufPool
	ref     []byte     // shared bytes, instead of pend while there is only one piece
	backlog int        // bytes that the transport holds because the socket is full
	end     *im.Error  // set once: close with this after what is pending
	dirty   bool       // is in the flusher's list
	lagged  bool
	quiet   bool // not welcomed yet: events are dropped, and the client's first reads come later
	closed  bool
	focus   *focus // nil: everything is pushed whole, and no hint is owed

	standing *standing // nil: there are no other nodes, so nobody else ends tokens

	// The send window: what this connection sent and has no answer to. Only
	// Window and answers touch it.
	unansweredSends, unansweredBytes int
}

// NewOutbox makes the outbox of a connection. limit is in bytes; negative means
// that there is none.
func NewOutbox(enc wire.Encoding, f *Flusher, limit int, owner any) *Outbox {
	o := &Outbox{}
	o.Init(enc, f, limit, owner)
	return o
}

// Init is NewOutbox for one that is part of something larger.
func (o *Outbox) Init(enc wire.Encoding, f *Flusher, limit int, owner any) {
	o.enc, o.flusher, o.limit, o.Owner, o.quiet = enc, f, limit, owner, true
}

var bufPool = sync.Pool{New: func() any { b := make([]byte, 0, 4096); return &b }}

// maxPooled keeps a burst's buffer from staying in the pool for ever.
const maxPooled = 64 << 10

// Encoding is how frames are written for this connection.
func (o *Outbox) Encoding() wire.Encoding { return o.enc }

// Answer adds a frame that must not be dropped.
func (o *Outbox) Answer(f *petrelv1.ServerFrame, k *Kicks) {
	o.mu.Lock()
	o.appendLocked(f)
	o.markLocked(k)
	o.mu.Unlock()
}

// Welcome adds the answer to the hello and lets events in behind it. The
// outbox is in the online table already, so what the client reads from here on
// is newer than all that was dropped.
func (o *Outbox) Welcome(f *petrelv1.ServerFrame, k *Kicks) {
	o.mu.Lock()
	o.quiet = false
	o.appendLocked(f)
	o.markLocked(k)
	o.mu.Unlock()
}

// answerSend answers a send, with a frame or, f being nil, an ack, and gives
// the send's room in the window back.
func (o *Outbox) answerSend(f *petrelv1.ServerFrame, a wire.Ack, bytes int, k *Kicks) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.unansweredSends--
	o.unansweredBytes -= bytes
	if f != nil {
		o.appendLocked(f)
	} else if !o.closed && o.end == nil {
		o.ownLocked()
		o.pend = wire.AppendAck(o.pend, o.enc, a)
	}
	o.markLocked(k)
}

// Window takes room for one send of a number of bytes; false: there is none, or
// the connection is being ended.
func (o *Outbox) Window(bytes, maxSends, maxBytes int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || o.end != nil || maxSends >= 0 && o.unansweredSends+1 > maxSends || maxBytes >= 0 && o.unansweredBytes+bytes > maxBytes {
		return false
	}
	o.unansweredSends++
	o.unansweredBytes += bytes
	return true
}

// push adds encoded events; shared means that b is shared among outboxes and
// does not change. It reports whether they were taken.
func (o *Outbox) push(b []byte, shared bool, k *Kicks) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.deafLocked(k) {
		return false
	}
	if !o.roomLocked(len(b)) {
		o.lagLocked(k)
		return false
	}
	o.addLocked(b, shared)
	o.markLocked(k)
	return true
}

// lagLocked makes the client sync; what it is owed is in the page.
func (o *Outbox) lagLocked(k *Kicks) {
	o.lagged = true
	if o.focus != nil {
		o.focus.hints = nil
	}
	o.appendLocked(laggedFrame)
	o.markLocked(k)
}

// roomLocked tells whether n more bytes of events fit.
func (o *Outbox) roomLocked(n int) bool {
	return o.limit < 0 || len(o.pend)+len(o.ref)+o.backlog+n <= o.limit
}

func (o *Outbox) addLocked(b []byte, shared bool) {
	if shared && o.pend == nil && o.ref == nil {
		o.ref = b
		return
	}
	o.ownLocked()
	o.pend = append(o.pend, b...)
}

var laggedFrame = &petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Lagged{Lagged: &petrelv1.Lagged{}}}

// Resume makes a lagging outbox take events again and reports whether it
// lagged. The caller reads heads after it, never before. Spec: P-6.3.
func (o *Outbox) Resume() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	was := o.lagged
	o.lagged = false
	return was
}

// Pending is how many bytes wait, those that the transport holds included.
func (o *Outbox) Pending() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.pend) + len(o.ref) + o.backlog
}

// End announces that the connection closes with e; the writer closes it after
// what is pending. The first call counts.
func (o *Outbox) End(e *im.Error, k *Kicks) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.end != nil || o.closed {
		return
	}
	o.appendLocked(wire.KickFrame(e))
	o.end = e
	o.markLocked(k)
}

// EndQuietly is End when the reason has been told already, in an answer.
func (o *Outbox) EndQuietly(e *im.Error, k *Kicks) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.end == nil && !o.closed {
		o.end = e
		o.markLocked(k)
	}
}

// Close drops what is pending: the connection is gone.
func (o *Outbox) Close() {
	o.mu.Lock()
	o.closed = true
	if o.pend != nil {
		release(o.pend)
	}
	o.pend, o.ref, o.focus = nil, nil, nil
	o.mu.Unlock()
}

// Piece is what Take hands out. Its bytes must not be changed.
type Piece struct {
	Bytes  []byte
	pooled bool
}

// Take hands everything pending to the writer, and the reason to close behind
// it, if there is one. The writer gives the piece back with Wrote.
func (o *Outbox) Take() (p Piece, end *im.Error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.dirty = false
	if o.closed {
		return Piece{}, nil
	}
	if o.hintsDueLocked() {
		o.writeHintsLocked()
	}
	if o.pend != nil {
		p = Piece{o.pend, true}
	} else {
		p = Piece{o.ref, false}
	}
	o.pend, o.ref = nil, nil
	o.backlog += len(p.Bytes) // until Wrote says what is left of it
	return p, o.end
}

// Wrote ends a Take: the piece is free, and the transport still holds backlog
// bytes in buffers of its own.
func (o *Outbox) Wrote(p Piece, backlog int) {
	o.Backlog(backlog)
	if p.pooled {
		release(p.Bytes)
	}
}

// Backlog corrects what the transport still holds.
func (o *Outbox) Backlog(bytes int) {
	var k Kicks
	o.mu.Lock()
	o.backlog = bytes
	if o.hintsDueLocked() {
		o.markLocked(&k)
	}
	o.mu.Unlock()
	k.Flush()
}

func (o *Outbox) appendLocked(f *petrelv1.ServerFrame) {
	if o.closed || o.end != nil {
		return
	}
	o.ownLocked()
	o.pend = wire.AppendFrame(o.pend, o.enc, f)
}

// ownLocked makes pend usable and moves a shared piece into it.
func (o *Outbox) ownLocked() {
	if o.pend == nil {
		o.pend = *bufPool.Get().(*[]byte)
	}
	if o.ref != nil {
		o.pend = append(o.pend, o.ref...)
		o.ref = nil
	}
}

func release(b []byte) {
	if cap(b) <= maxPooled {
		b = b[:0]
		bufPool.Put(&b)
	}
}

func (o *Outbox) markLocked(k *Kicks) {
	if o.dirty || o.closed {
		return
	}
	o.dirty = true
	o.flusher.add(o, k)
}
