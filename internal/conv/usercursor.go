package conv

import (
	"time"

	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// CursorMove asks to move a user's cursors in a conversation forward. It
// belongs to the owner from Move until its answer. Spec: P-8.6.
type CursorMove struct {
	Conv            im.Key
	User            im.User
	Delivered, Read im.Seq
	Private         bool // others are not shown how far the user reads. Spec: P-14.14

	// Origin is the session that asked; the answer replaces the receipt for it. The zero Asker: there is
	// none. Done is called once, when the cursor is durable or with an error; it must not block.
	Origin fanout.Asker
	Done   func(c Cursor, err *im.Error, k *fanout.WakeUps)

	// WantMentions asks for the unread mentions: they are in Mentions before Done is called. Spec:
	// P-5.13.
	WantMentions bool
	Mentions     Mentions
}

// Mentions are the entries above a user's read cursor that mention the user.
type Mentions struct {
	Seqs []im.Seq // ascending, at most 50: the oldest ones
	Head im.Seq   // later entries were not searched, or may not be read by the user; 0: not searched
}

// seqsAbove returns the seqs of m above read, as a frame has them.
func (m Mentions) seqsAbove(read im.Seq) []uint64 {
	var all []uint64
	for _, q := range m.Seqs {
		if q > read {
			all = append(all, uint64(q))
		}
	}
	return all
}

// Frame returns the answer to m, after which the cursor is c.
func (m *CursorMove) Frame(c Cursor) *petrelv1.CursorMoved {
	return &petrelv1.CursorMoved{
		Conv: m.Conv.Conv.String(), Delivered: uint64(c.Delivered), Read: uint64(c.Read),
		Mentions: m.Mentions.seqsAbove(c.Read), Head: uint64(m.Mentions.Head),
	}
}

// Cursor is the pair of cursors of a user in a conversation.
type Cursor struct {
	Delivered, Read im.Seq
	Counted         uint64 // at Read
	Pos             im.Pos // of the commit that wrote it; 0: never written

	// With private, the user reads without showing it: others see the cursors shown, where these two stood when that
	// began; delivered moves on with what the client says itself. Spec: P-14.14.
	private                   bool
	shownDelivered, shownRead im.Seq
	shownPos                  im.Pos // of the commit that moved last what others see
}

func cursorOf(r *storepb.Cursor) Cursor {
	return Cursor{im.Seq(r.GetDelivered()), im.Seq(r.GetRead()), r.GetCounted(), im.Pos(r.GetChangedPos()),
		r.GetPrivate(), im.Seq(r.GetShownDelivered()), im.Seq(r.GetShownRead()), im.Pos(r.GetShownPos())}
}

// record is c as it is stored.
func (c Cursor) record() *storepb.Cursor {
	return &storepb.Cursor{Delivered: uint64(c.Delivered), Read: uint64(c.Read), Counted: c.Counted,
		ChangedPos: uint64(c.Pos), Private: c.private, ShownDelivered: uint64(c.shownDelivered),
		ShownRead: uint64(c.shownRead), ShownPos: uint64(c.shownPos)}
}

// ShownCursors returns the cursors of a record as others see them. Spec: P-14.14.
func ShownCursors(r *storepb.Cursor) (delivered, read im.Seq) {
	c := cursorOf(r).shown()
	return c.Delivered, c.Read
}

// shown returns c as others see it.
func (c Cursor) shown() Cursor {
	if c.private {
		c.Delivered, c.Read, c.Pos = c.shownDelivered, c.shownRead, c.shownPos
	}
	return c
}

// receipt returns c as a receipt of u; id is that of the conversation.
func (c Cursor) receipt(id string, u im.User) *petrelv1.Receipt {
	return &petrelv1.Receipt{Conv: id, User: string(u), Delivered: uint64(c.Delivered), Read: uint64(c.Read)}
}

// raise moves each cursor of c forward to that of d, and delivered at least to read; none goes
// back. It returns false if none moved, also none of those that others see. A public move shows all that was read
// before. A private one shows what the client says of delivery, also if the reader has read as far already: otherwise
// others would see by it that the reader has. Spec: P-8.6, P-14.14.
func (c *Cursor) raise(d Cursor) bool {
	moved, before := false, *c
	if d.Read > c.Read {
		c.Read, c.Counted, moved = d.Read, d.Counted, true
	}
	if d := max(d.Delivered, c.Read); d > c.Delivered {
		c.Delivered, moved = d, true
	}
	switch was := before.shown(); {
	case !d.private && moved:
		c.private, c.shownDelivered, c.shownRead = false, 0, 0
	case d.private && (moved || d.Delivered > was.Delivered):
		c.private, c.shownDelivered, c.shownRead = true, max(was.Delivered, d.Delivered), was.Read
		moved = true
	}
	return moved
}

// same reports whether the cursors of c and d are the same, whatever others see.
func (c Cursor) same(d Cursor) bool { return c.Delivered == d.Delivered && c.Read == d.Read }

// equal reports whether the records of c and d differ in their positions at most.
func (c Cursor) equal(d Cursor) bool {
	d.Pos, d.shownPos = c.Pos, c.shownPos
	return c == d
}

// userCursors holds the cursors of those users of a conversation who have moved one lately. Guarded by memory.mu.
//
// A moved cursor is dirty until a commit takes it. Commits take the dirty cursors of a conversation at most once
// in flushEvery. The conversation stays in memory until a commit has taken all of them, and flushEvery longer.
type userCursors struct {
	of      map[im.User]*userCursor
	dirty   []*userCursor
	flushed time.Time // when a commit last took from dirty
	queued  bool      // in cursors.due or cursors.cooling
	loading int       // reads under way: no cursor may be dropped
}

// userCursor is one user's cursor.
type userCursor struct {
	user    im.User
	newest  Cursor // with the moves that are not durable yet
	stored  Cursor // durable: others get this one
	dirty   bool
	waiting []*CursorMove // answered when newest is stored
}

// cursorBytes is about how many bytes of memory a cursor takes.
const cursorBytes = 192

// keepCursors is how many cursors of a conversation may stay in memory when nobody waits for them. Dropped
// ones are read again when their users move on.
const keepCursors = 256

// drop forgets all cursors that nobody waits for if more than keepCursors are in memory, and returns how many
// it has dropped.
func (all *userCursors) drop() int {
	before := len(all.of)
	if before <= keepCursors || all.loading > 0 {
		return 0
	}
	for u, p := range all.of {
		if !p.dirty && len(p.waiting) == 0 && p.newest.equal(p.stored) {
			delete(all.of, u)
		}
	}
	return before - len(all.of)
}
