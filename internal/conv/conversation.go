package conv

import (
	"slices"
	"sync/atomic"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// conv is one conversation in memory. It has two sides. The log's side has all entries that the
// committer has numbered; it runs ahead of the store. The readers' side has those that are durable;
// it moves when a commit is published.
type conv struct {
	key  im.Key
	id   string        // text form of key.Conv
	done chan struct{} // closed when loading has ended; err and the rest are valid then
	err  error         // why it could not be loaded; the conv is not in memory.convs then

	// Guarded by memory.mu.
	queue       []*Send
	queueBytes  int
	state       state
	uses        int          // readers, commits under way, cursors to write: it must stay in memory while there are any
	lastUse     int64        // Unix seconds
	seen        int64        // lastUse when the hand of memory.clock was here last
	place       int          // in memory.clock
	bytes       int          // its share of node.convBytes
	cursors     *userCursors // nil: nobody has moved a cursor lately
	read        threads      // that a loader has read for the committer; nil: none
	signals     []*Signal    // that wait for the load
	signalRates *signalRates // nil: there was no signal lately

	kept atomic.Int32 // uses by package note; the first one begins while uses is above 0

	// The log's side. Only the committer touches it, or a loader: before done is closed, and while state is
	// scanning.
	log logState

	// The readers' side. A publisher stores the info before the point, and a reader loads the point first. So
	// a reader never judges an entry by a list of members that is older than the entry.
	point atomic.Pointer[point]
	info  atomic.Pointer[info]
}

// point is the head of a conversation for its readers, with its counters. It never changes; a
// commit makes a new one.
type point struct {
	head    im.Seq
	counted uint64 // at head
	pos     im.Pos // of the newest row
	hidden  *hidden
}

// countedFor returns how many entries up to the head count as unread for v.
func (p *point) countedFor(v viewer) uint64 { return p.counted - min(p.counted, p.hidden.of(v.side)) }

// state tells who may touch a conv's log.
type state uint8

const (
	loading  state = iota // a loader
	idle                  // nobody; nothing is queued
	ready                 // in the ring, or in the batch being built
	scanning              // a loader extends the tail or reads threads; the queue waits
)

// logState is the newest state of a conversation, durable or not.
type logState struct {
	head    im.Seq
	counted uint64
	hidden  *hidden // up to head
	info    *info
	tail    tail
	threads threads // that the committer knows
}

// info is the state of a conversation beside its rows. It never changes; a change makes a new one.
type info struct {
	record  *storepb.Conversation // nil: nothing was ever written
	members *Members
}

func (i *info) firstSeq() im.Seq {
	if i.record == nil || i.record.FirstSeq == 0 {
		return 1
	}
	return im.Seq(i.record.FirstSeq)
}

// mayRead tells whether u may read the entry q. u = "" is the server, which may read all entries from the
// first seq to head.
func (i *info) mayRead(u im.User, q, head im.Seq) bool {
	return q <= head && q >= i.firstSeq() && (u == "" || len(i.members.readable(u, q, q)) > 0)
}

// blockOf returns the block of u by the other user of a direct conversation; nil: there is none.
func (i *info) blockOf(u im.User) *storepb.Block {
	for _, b := range i.record.GetBlocks() {
		if b.Blocked && b.User != string(u) {
			return b
		}
	}
	return nil
}

// sides returns the side of u in the record, and that of the other user; nil: there is none.
func (i *info) sides(u im.User) (own, other *storepb.Side) { return SidesOf(i.record, u) }

// isApart reports whether first messages of one of the users wait or are withheld. The users exchange nothing then.
func (i *info) isApart() bool {
	return slices.ContainsFunc(i.record.GetSides(), func(s *storepb.Side) bool { return s.First > FirstOpen })
}

// isWaiting reports whether messages of u wait for the other user of a direct conversation.
func (i *info) isWaiting(u im.User) bool {
	_, other := i.sides(u)
	return other.GetFirst() == FirstWaits
}

// mayWithhold reports whether rows of the conversation may be withheld, or count for one user only.
func (i *info) mayWithhold() bool {
	return len(i.record.GetBlocks()) > 0 ||
		slices.ContainsFunc(i.record.GetSides(), func(s *storepb.Side) bool { return s.FirstMs > 0 })
}

// isWithheld reports whether messages of u do not reach the other user of a direct conversation.
func (i *info) isWithheld(u im.User) bool {
	_, other := i.sides(u)
	return other.GetFirst() > FirstWaits || i.blockOf(u) != nil
}

// deafTo returns the other user of a direct conversation if signals and mentions of u do not reach them: they block u,
// or first messages of one of the two are not accepted. "": they do.
func (i *info) deafTo(u im.User) im.User {
	if b := i.blockOf(u); b != nil {
		return im.User(b.User)
	}
	if side := sideOf(i.record, u); side >= 0 && i.isApart() {
		return im.User(i.record.Participants[1-side])
	}
	return ""
}

// receipt returns the cursor of another user as u may see it; at is the real one. In a direct conversation,
// the cursor of a user who blocks u stays where it was when the block began. The cursor is zero if its user
// has read nothing, and in a direct conversation has written nothing: a delivered cursor alone would tell
// strangers when a device is online. It is zero while first messages are not accepted, and after an acceptance
// without a word until its user reads a later one. hidden: u gets no receipts of this user. Spec: P-5.4, P-8.6,
// P-14.12, P-14.13.
func (i *info) receipt(u im.User, at Cursor) (_ Cursor, hidden bool) {
	side, at := sideOf(i.record, u), at.shown()
	b := i.blockOf(u)
	if b != nil { // before the question whether the user has read: what they read while they block does not count
		at.Delivered, at.Read = min(at.Delivered, im.Seq(b.Delivered)), min(at.Read, im.Seq(b.Read))
	}
	wrote := side >= 0 && i.record.Wrote&(1<<(1-side)) != 0
	if _, of := i.sides(u); !wrote && at.Read <= im.Seq(of.GetQuietTo()) || i.isApart() {
		return Cursor{}, true
	}
	return at, b != nil
}

// viewer returns u as a viewer of the rows.
func (i *info) viewer(u im.User) viewer { return viewer{u, sideOf(i.record, u), i.members} }

// published returns the readers' side.
func (c *conv) published() (point, *info) {
	at := *c.point.Load() // before the info, see conv
	return at, c.info.Load()
}

// known tells whether u is or was a member, as published.
func (c *conv) known(u im.User) bool {
	_, known := c.info.Load().members.standing(u)
	return known
}

// Keep, Standing and Audience implement an interface of package note.

func (c *conv) Keep(n int32) { c.kept.Add(n) }

func (c *conv) Standing(u im.User) (head im.Seq, unseenBy im.User) {
	at, in := c.published()
	if in.isWithheld(u) {
		unseenBy = in.deafTo(u)
	}
	return at.head, unseenBy
}

func (c *conv) Audience() (members []im.User, mayRead func(u im.User, q im.Seq) bool) {
	m := c.info.Load().members
	return m.current, m.memberReads
}

// publish sets the readers' side to a new info and point.
func (c *conv) publish(in *info, at point) {
	c.info.Store(in) // before the point, see conv
	c.point.Store(&at)
}

// rollBack resets the log's side to the readers' side.
func (c *conv) rollBack() {
	at, in := c.published()
	c.log.head, c.log.counted, c.log.hidden, c.log.info = at.head, at.counted, at.hidden, in
	c.log.tail.cut(at.head)
	c.log.threads = nil // they are read again
}

// convBytes is about how many bytes of memory a conversation takes beside its members, cursors and
// tail, measured by the growth of the heap when many are loaded.
const convBytes = 1024 // with its key, record and points, and its place in the map

// mentionAllBytes is about how many bytes of memory an entry that mentions everybody takes in the
// record of its conversation.
const mentionAllBytes = 128

// size returns how many bytes c takes in memory. The caller may touch the log of c, and holds
// memory.mu.
func (c *conv) size() int {
	n := convBytes + 8*cap(c.log.tail.hashes) + threadBytes*len(c.log.threads)
	if c.log.info != nil {
		n += c.log.info.members.bytes + mentionAllBytes*len(c.log.info.record.GetMentionAll())
	}
	if c.cursors != nil {
		n += len(c.cursors.of) * cursorBytes
	}
	return n
}

// unusedLocked tells whether c may leave memory.
func (c *conv) unusedLocked() bool {
	return c.state == idle && c.uses == 0 && len(c.queue) == 0 && c.kept.Load() == 0
}
