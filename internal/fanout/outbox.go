package fanout

import (
	"math"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Outbox holds the bytes that wait to be written to one connection. Any goroutine may add to it. Only the
// writer of the connection calls Take and Wrote; the Flusher wakes the writer.
//
// The limit bounds the bytes that wait, so that events do not pile up for a slow client. If an entry does not
// fit, the outbox owes the client a hint instead. If the client takes no hints, the entry is of an inbox, or
// MaxHints are owed, the outbox queues `lagged` once, and drops all events until the client syncs. Receipts and
// notes that do not fit are dropped without `lagged`. Signals and presences wait until there is room.
//
// An answer is never dropped for the limit, but the bytes of waiting answers leave less room for events. The
// gateway closes a connection with too many unread answers.
type Outbox struct {
	Conn    conn       // set by the gateway before the outbox is used
	Account im.Account // set before the outbox enters the online table
	Device  string     // set with Account; empty: the token is bound to no device
	// Login is set with Account: the number of the device's login, or, without a device, the epoch of the
	// user's tokens.
	Login uint64
	ID    uint64 // set by Table.Enter; no other outbox of the table has it

	standing atomic.Uint64 // of the user; see Standing

	// The capabilities in the client's hello. Set with Account. Spec: P-2.6.
	Receipts  bool // capability cursor
	Hints     bool // capability focus
	Refs      bool // capability rel
	Signals   bool // capability signal
	Presences bool // capability presence
	Notes     bool // capability notes
	Profiles  bool // capability profiles
	Personal  bool // capability personal
	Mentions  bool // capability mentions
	Large     bool // capability large, on WebSocket

	enc      wire.Encoding
	borrowed bool // pending is shared with other outboxes: copy before a write. Guarded by mu; here to save padding
	flusher  *Flusher

	mu      sync.Mutex // tier 1; guards the fields below
	pending []byte     // from bufPool, unless borrowed
	limit   int32      // bytes; negative: no limit; never changes
	backlog int32      // bytes that the transport still holds, because the socket is full
	end     *im.Error  // set once: the writer closes the connection with it after the pending bytes
	dirty   bool       // is in the flusher's list
	lagged  bool       // the client was told that it lags, and has not synced yet
	// the welcome is not sent yet: events are dropped, since the client reads everything after the welcome
	unwelcomed bool
	closed     bool

	// The send window: the sends of this connection that have no answer yet. Only Window and answerSend change
	// these fields.
	unansweredSends int32 // an int32, to fill the gap after the flags
	unansweredBytes int

	focus     *focus     // nil: the client wants everything whole, and no hint is owed
	ephemeral *ephemeral // nil: no signal or presence has come yet
	validity  *validity  // nil: there are no other nodes, so nobody else revokes tokens
}

// conn is a connection of the gateway, which imports this package. The client's address stays in the
// connection: a copy here would make every session larger.
type conn interface {
	ClientAddr() netip.Addr // of the client; the zero value: not known
}

// NewOutbox makes the outbox of a connection. limit is in bytes; negative means no
// limit.
func NewOutbox(enc wire.Encoding, f *Flusher, limit int) *Outbox {
	o := &Outbox{}
	o.Init(enc, f, limit)
	return o
}

// Init does what NewOutbox does, for an Outbox that is part of a larger struct.
func (o *Outbox) Init(enc wire.Encoding, f *Flusher, limit int) {
	o.enc, o.flusher, o.limit, o.unwelcomed = enc, f, int32(min(limit, math.MaxInt32)), true
}

var bufPool = sync.Pool{New: func() any { b := make([]byte, 0, 4096); return &b }}

// maxPooled is the largest buffer, in bytes, that goes back to the pool. A larger
// one would keep the memory of one burst for ever.
const maxPooled = 64 << 10

// Encoding returns how frames are encoded for this connection.
func (o *Outbox) Encoding() wire.Encoding { return o.enc }

// Answer adds a frame. It drops the frame only if the connection is closed or being ended. It encodes the frame
// before it takes the lock: a large frame takes milliseconds, and commits and the writers of other connections
// must not wait for that.
func (o *Outbox) Answer(f *petrelv1.ServerFrame, k *WakeUps) {
	b := wire.AppendFrame(*bufPool.Get().(*[]byte), o.enc, f)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || o.end != nil {
		release(b)
		return
	}
	if o.pending == nil {
		o.pending = b
	} else {
		o.ownLocked()
		o.pending = append(o.pending, b...)
		release(b)
	}
	o.markLocked(k)
}

// Welcome adds the answer to the hello. From here on the outbox takes events. It must be in the online table
// already: then everything that the client reads after the welcome includes the entries whose events were
// dropped before the welcome.
func (o *Outbox) Welcome(f *petrelv1.ServerFrame, k *WakeUps) {
	o.mu.Lock()
	o.unwelcomed = false
	o.appendLocked(f)
	o.markLocked(k)
	o.mu.Unlock()
}

// answerSend answers a send and gives its room in the window back. The answer is
// f, or, if f is nil, the ack a.
func (o *Outbox) answerSend(f *petrelv1.ServerFrame, a wire.Ack, bytes int, k *WakeUps) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.unansweredSends--
	o.unansweredBytes -= bytes
	if f != nil {
		o.appendLocked(f)
	} else if !o.closed && o.end == nil {
		o.ownLocked()
		o.pending = wire.AppendAck(o.pending, o.enc, a)
	}
	o.markLocked(k)
}

// Window takes room in the send window for one send of so many bytes. A negative maximum is no limit. A send
// that is alone has room whatever its size: escapes of JSON can make it larger than the whole window. Window
// returns false if there is no room, or if the connection is closed or being ended. Spec: P-4.6.
func (o *Outbox) Window(bytes, maxSends, maxBytes int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || o.end != nil || maxSends >= 0 && int(o.unansweredSends) >= maxSends ||
		maxBytes >= 0 && o.unansweredSends > 0 && o.unansweredBytes+bytes > maxBytes {
		return false
	}
	o.unansweredSends++
	o.unansweredBytes += bytes
	return true
}

// push adds the encoded entries b of one delivery. If they do not fit, or their conversation is out of focus,
// it queues a hint instead, or `lagged` if no hint is possible. Both results are false if it adds neither
// entries nor a hint. newest is the newest of the entries. named has the entries that mention the user; nil:
// none does. shared means that other outboxes get the same slice, so nobody may change it.
func (o *Outbox) push(b []byte, newest *newestRow, named *namedRows, shared bool, k *WakeUps) (pushed, hinted bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.takesNoEventsLocked(k) {
		return false, false
	}
	if (o.focus == nil || o.focus.convs == nil) && o.roomLocked(len(b)) {
		o.addLocked(b, shared)
		o.markLocked(k)
		return true, false
	}
	if o.Hints {
		return o.pushOrHintLocked(b, newest, named, shared, k)
	}
	o.lagLocked(k)
	return false, false
}

// takesNoEventsLocked returns whether events are dropped now. If the only reason is that the session is
// unconfirmed (its validity was unknown for too long), it also queues `lagged`. The client's sync is then
// refused until the session is confirmed.
func (o *Outbox) takesNoEventsLocked(k *WakeUps) bool {
	if o.closed || o.end != nil || o.lagged || o.unwelcomed {
		return true
	}
	if o.unconfirmedLocked() {
		o.lagLocked(k)
		return true
	}
	return false
}

// lagLocked queues `lagged`, so that the client syncs. It drops the owed hints: the answer to the sync has the
// same heads.
func (o *Outbox) lagLocked(k *WakeUps) {
	o.lagged = true
	if o.focus != nil {
		o.focus.owed = nil
	}
	o.appendLocked(laggedFrame)
	o.markLocked(k)
}

// Lag queues `lagged` for a client for which events were not pushed, so that the client syncs. It does nothing
// if the client lags already or the connection ends. Before the welcome it does nothing either, because the
// client reads everything after the welcome.
func (o *Outbox) Lag(k *WakeUps) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed && o.end == nil && !o.lagged && !o.unwelcomed {
		o.lagLocked(k)
	}
}

// roomLocked returns whether n more bytes of events fit.
func (o *Outbox) roomLocked(n int) bool {
	return o.limit < 0 || o.waitingLocked()+n <= int(o.limit)
}

// waitingLocked returns how many bytes wait, including those that the transport holds.
func (o *Outbox) waitingLocked() int { return len(o.pending) + int(o.backlog) }

func (o *Outbox) addLocked(b []byte, shared bool) {
	if shared && o.pending == nil {
		o.pending, o.borrowed = b, true
		return
	}
	o.ownLocked()
	o.pending = append(o.pending, b...)
}

var laggedFrame = &petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Lagged{Lagged: &petrelv1.Lagged{}}}

// Resume lets a lagged outbox take events again, and returns whether it lagged. The
// caller reads heads after this call. An entry that is committed between an earlier
// read and this call would be in no head and no event. Spec: P-6.3.
func (o *Outbox) Resume() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	was := o.lagged
	o.lagged = false
	return was
}

// Pending returns how many bytes wait, including those that the transport holds.
func (o *Outbox) Pending() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.waitingLocked()
}

// End tells the client that the connection closes with e. The writer closes it after the pending bytes. End
// does nothing and returns false if the connection is closed already, or has such an error from an earlier
// call.
func (o *Outbox) End(e *im.Error, k *WakeUps) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.end != nil || o.closed {
		return false
	}
	o.appendLocked(wire.KickFrame(e))
	o.end = e
	o.markLocked(k)
	return true
}

// EndAfterAnswer does what End does, for a reason that the client has got already, in an answer.
func (o *Outbox) EndAfterAnswer(e *im.Error, k *WakeUps) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.end == nil && !o.closed {
		o.end = e
		o.markLocked(k)
	}
}

// Close drops the pending bytes: the connection is gone.
func (o *Outbox) Close() {
	o.mu.Lock()
	o.closed = true
	if o.pending != nil && !o.borrowed {
		release(o.pending)
	}
	o.pending, o.focus, o.ephemeral = nil, nil, nil
	o.mu.Unlock()
}

// Piece is the result of Take. Its bytes must not be changed.
type Piece struct {
	Bytes  []byte
	pooled bool
}

// Take returns the pending bytes that may be written, and the reason to close the
// connection after them; nil: it stays open. The writer gives the piece back with Wrote.
func (o *Outbox) Take() (p Piece, end *im.Error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.dirty = false
	if o.closed {
		return Piece{}, nil
	}
	if o.pending != nil && o.unconfirmedLocked() {
		o.withholdLocked()
	}
	if o.hintsDueLocked() {
		o.writeHintsLocked()
	}
	if o.ephemeral != nil && o.ephemeralDueLocked() {
		o.writeEphemeralLocked()
	}
	p = Piece{o.pending, o.pending != nil && !o.borrowed}
	o.pending, o.borrowed = nil, false
	// len first: Large is set without a lock during the hello, before any large frame
	if len(p.Bytes) > wire.LargeFrame && o.Large {
		p = p.announced(o.enc.Codec)
	}
	o.backlog += int32(len(p.Bytes)) // until Wrote says how much of it the transport still holds
	return p, o.end
}

// announced returns p with the announcements of its large frames.
func (p Piece) announced(c wire.Codec) Piece {
	b := wire.AnnounceLarge(p.Bytes, c)
	if len(b) == len(p.Bytes) {
		return p
	}
	if p.pooled {
		release(p.Bytes)
	}
	return Piece{b, true}
}

// Wrote ends a Take: the memory of p may be used again. backlog is how
// many bytes the transport still holds in its own buffers.
func (o *Outbox) Wrote(p Piece, backlog int) {
	o.Backlog(backlog)
	if p.pooled {
		release(p.Bytes)
	}
}

// Backlog sets how many bytes the transport still holds. It wakes the writer if that makes hints or ephemeral
// events due.
func (o *Outbox) Backlog(bytes int) {
	var k WakeUps
	o.mu.Lock()
	o.backlog = int32(bytes)
	if o.hintsDueLocked() || o.ephemeral != nil && o.ephemeralDueLocked() {
		o.markLocked(&k)
	}
	o.mu.Unlock()
	k.Flush()
}

// hintsDueLocked returns whether hints wait and may be written now. They may be written when at most half of
// the limit waits. While they are not written, newer hints replace older ones of the same conversation.
func (o *Outbox) hintsDueLocked() bool {
	return o.focus != nil && len(o.focus.owed) > 0 && o.end == nil && !o.closed &&
		(o.limit < 0 || o.waitingLocked() <= int(o.limit/2))
}

func (o *Outbox) writeHintsLocked() {
	if o.unconfirmedLocked() {
		o.lagged, o.focus.owed = true, nil
		o.appendLocked(laggedFrame)
		return
	}
	o.appendLocked(o.focus.takeOwed())
}

// TrackValidity has the outbox drop events while its session is unconfirmed. validAt is a moment of r at which
// the session was valid. TrackValidity is called before the outbox enters the online table, and only if there
// are other nodes.
func (o *Outbox) TrackValidity(r *Revocations, validAt time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.validity = &validity{revocations: r, validAt: validAt}
}

// Doubt notes that the session may have become void at a moment, unless it is known to have been valid at that
// moment or later. While the session is in doubt, only Confirm can show that it is valid.
func (o *Outbox) Doubt(at time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.validity != nil {
		o.validity.doubt(at)
	}
}

// Confirm notes that the session was valid at a moment, as the store has said. It ends a doubt of that moment
// or an earlier one.
func (o *Outbox) Confirm(at time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.validity != nil {
		o.validity.confirm(at)
	}
}

// Unconfirmed returns whether the validity of the session was unknown
// for too long. Then nothing that is meant for the user may be written.
func (o *Outbox) Unconfirmed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.unconfirmedLocked()
}

func (o *Outbox) unconfirmedLocked() bool { return o.validity != nil && o.validity.expired() }

func (o *Outbox) appendLocked(f *petrelv1.ServerFrame) {
	if o.closed || o.end != nil {
		return
	}
	o.ownLocked()
	o.pending = wire.AppendFrame(o.pending, o.enc, f)
}

// ownLocked makes pending a buffer of this outbox.
func (o *Outbox) ownLocked() {
	if o.pending == nil || o.borrowed {
		o.pending, o.borrowed = append(*bufPool.Get().(*[]byte), o.pending...), false
	}
}

func release(b []byte) {
	if cap(b) <= maxPooled {
		b = b[:0]
		bufPool.Put(&b)
	}
}

func (o *Outbox) markLocked(k *WakeUps) {
	if o.dirty || o.closed {
		return
	}
	o.dirty = true
	o.flusher.add(o, k)
}
