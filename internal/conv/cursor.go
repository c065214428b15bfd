package conv

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/policy"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/wake"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// MaxReceipts is how many members a conversation may have so that all get each other's receipts. In a larger
// one only the read cursor is kept, for the user's own devices. Spec: P-8.6.
const MaxReceipts = 100

// flushEvery is the shortest time from one write of the cursors of a conversation to the next.
const flushEvery = time.Second

// flushSize is the most cursors that one commit writes.
const flushSize = 4096

// cursorWrite is one cursor on its way in a commit.
type cursorWrite struct {
	c       *conv
	p       *userCursor
	was, to Cursor
	waiting []*CursorMove
}

// cursors moves the cursors of one feed's conversations. It gathers moves in memory. At most once a second
// for each conversation, they become a part of a commit. When that is durable, they are answered, and other
// users get receipts.
type cursors struct {
	mem    *memory
	reader *reader
	node   *node
	store  store.Store
	fan    *fanout.Fan
	wake   chan<- struct{} // capacity 1; a token makes the committer come

	cooled *time.Timer  // wakes the committer for the first of cooling
	queued atomic.Int64 // conversations in due and cooling

	// Guarded by memory.mu.
	due     []*conv // with cursors to write at once
	cooling []*conv // whose cursors were written less than flushEvery ago, oldest first
	waiting int     // moves without an answer
	hurry   bool    // the owner is about to end: cursors are written at once

	answered fanout.WakeUps // used only while a commit ends
}

// MoveCursor moves a user's cursors forward, at most to the published head and to the last entry that the
// user may read. It returns them when they are durable. Codes: no_conversation; unsettled: overloaded,
// disk_full, store_stalled. Spec: P-8.6.
func (cu *cursors) MoveCursor(ctx context.Context, by Query, q *convpb.MoveCursor) (*petrelv1.CursorMoved, error) {
	type answer struct {
		c   Cursor
		err *im.Error
	}
	ch := make(chan answer, 1)
	m := &CursorMove{
		Conv: by.Conv, User: by.User, Delivered: im.Seq(q.Delivered), Read: im.Seq(q.Read),
		Origin:       fanout.Asker{Node: by.Node, ID: q.Session},
		Done:         func(c Cursor, err *im.Error, _ *fanout.WakeUps) { ch <- answer{c, err} },
		WantMentions: q.Mentions,
		Private:      q.Private,
	}
	if err := cu.Move(ctx, m); err != nil {
		return nil, err
	}
	select {
	case r := <-ch:
		if r.err != nil {
			return nil, r.err
		}
		return m.Frame(r.c), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Move queues m, or calls m.Done at once if the durable cursor is as far already. If it returns an error, m is
// not queued, and m.Done is not called. It may wait for a read of the store, never for a write. ErrNotOwner: the
// feed was given away or lost.
func (cu *cursors) Move(ctx context.Context, m *CursorMove) error {
	if err := Refusal(cu.store.Writable()); err != nil {
		return err
	}
	c, at, in, end, err := cu.reader.enter(ctx, Query{Conv: m.Conv, User: m.User})
	if err != nil {
		return err
	}
	defer end()
	to := Cursor{Delivered: in.members.readableUpTo(m.User, min(m.Delivered, at.head)),
		Read: in.members.readableUpTo(m.User, min(m.Read, at.head)), private: m.Private}
	if len(in.members.current) > MaxReceipts {
		to.Delivered = 0
	}
	p, stored, err := cu.hold(ctx, c, m.User)
	if err != nil {
		return err
	}
	defer cu.letGo(c)
	if to.Read > stored.Read {
		if to.Counted, err = cu.reader.counted(ctx, c, at, in, in.viewer(m.User), to.Read); err != nil {
			return err
		}
	}
	if m.WantMentions {
		m.Mentions, err = cu.reader.mentions(ctx, c, at, in, m.User, max(stored.Read, to.Read))
		if err != nil && !errors.Is(err, store.ErrCorrupt) { // the cursor can move all the same
			return err
		}
	}
	return cu.move(c, p, to, m)
}

// hold finds the cursor of u, or reads it, and keeps it in memory until letGo. It also returns the
// durable cursor.
func (cu *cursors) hold(ctx context.Context, c *conv, u im.User) (*userCursor, Cursor, error) {
	cu.mem.mu.Lock()
	if c.cursors == nil {
		c.cursors = &userCursors{of: map[im.User]*userCursor{}}
	}
	all := c.cursors
	all.loading++
	p := all.of[u]
	if p != nil {
		defer cu.mem.mu.Unlock()
		return p, p.stored, nil
	}
	cu.mem.mu.Unlock()
	rec, err := cu.store.Cursor(ctx, c.key, u)
	cu.mem.mu.Lock()
	defer cu.mem.mu.Unlock()
	if err != nil {
		all.loading--
		return nil, Cursor{}, err
	}
	if p = all.of[u]; p == nil { // nobody has moved it meanwhile: the cursor that was read is durable
		p = &userCursor{user: u, stored: cursorOf(rec)}
		p.newest = p.stored
		all.of[u] = p
		cu.mem.growLocked(c, cursorBytes)
	}
	return p, p.stored, nil
}

// newestOf returns the cursor of u, with moves that are not durable yet; zero: it has not moved lately, so it
// is not in memory.
func (cu *cursors) newestOf(c *conv, u im.User) Cursor {
	cu.mem.mu.Lock()
	defer cu.mem.mu.Unlock()
	if c.cursors == nil || c.cursors.of[u] == nil {
		return Cursor{}
	}
	return c.cursors.of[u].newest
}

func (cu *cursors) letGo(c *conv) {
	cu.mem.mu.Lock()
	c.cursors.loading--
	cu.mem.mu.Unlock()
}

// move raises the newest cursor of p to the cursor to, and queues m until that is durable. If the durable cursor
// is as far already, it answers m at once. Errors: ErrNotOwner, overloaded.
func (cu *cursors) move(c *conv, p *userCursor, to Cursor, m *CursorMove) error {
	cu.mem.mu.Lock()
	next := p.newest
	moved := next.raise(to)
	if next.equal(p.stored) {
		next = p.stored
		cu.mem.mu.Unlock()
		var k fanout.WakeUps
		m.Done(next, nil, &k)
		k.Flush()
		return nil
	}
	if cu.mem.sealed {
		cu.mem.mu.Unlock()
		return ErrNotOwner
	}
	if cu.node.cursorMoves.Load() >= cu.node.moveBudget {
		cu.mem.mu.Unlock()
		return &im.Error{Code: im.CodeOverloaded, RetryAfter: time.Second}
	}
	p.newest = next
	if all := c.cursors; moved && !p.dirty {
		p.dirty = true
		if all.dirty = append(all.dirty, p); !all.queued {
			all.queued = true
			c.uses++ // until it has cooled down
			cu.due = append(cu.due, c)
			cu.queued.Add(1)
		}
	}
	cu.waiting++
	cu.node.cursorMoves.Add(1)
	p.waiting = append(p.waiting, m)
	cu.mem.mu.Unlock()
	wake.Set(cu.wake)
	return nil
}

// take appends the moved cursors of the conversations that may be written now, until into has flushSize, and sets
// the timer for the others. Only the committer calls it.
func (cu *cursors) take(into []cursorWrite) []cursorWrite {
	cu.mem.mu.Lock()
	defer cu.mem.mu.Unlock()
	now := time.Now()
	for len(cu.cooling) > 0 && (cu.hurry || now.Sub(cu.cooling[0].cursors.flushed) >= flushEvery) {
		c := cu.cooling[0]
		cu.cooling = cu.cooling[1:]
		if len(c.cursors.dirty) > 0 {
			cu.due = append(cu.due, c)
			continue
		}
		c.cursors.queued = false
		c.uses--
		cu.queued.Add(-1)
	}
	done := 0
	for _, c := range cu.due {
		all := c.cursors
		n := min(len(all.dirty), flushSize-len(into))
		for _, p := range all.dirty[:n] {
			into = append(into, cursorWrite{c, p, p.stored, p.newest, p.waiting})
			p.dirty, p.waiting = false, nil
		}
		if all.dirty = append(all.dirty[:0], all.dirty[n:]...); len(all.dirty) > 0 {
			wake.Set(cu.wake) // the next commit goes on here
			break
		}
		all.flushed = now
		cu.cooling = append(cu.cooling, c)
		done++
	}
	cu.due = slices.Delete(cu.due, 0, done)
	if len(cu.cooling) > 0 {
		cu.cooled.Reset(flushEvery - now.Sub(cu.cooling[0].cursors.flushed))
	}
	return into
}

// put returns the write of f in the commit at pos, and notes pos in f.
func (f *cursorWrite) put(pos im.Pos) store.CursorPut {
	f.to.Pos, f.to.shownPos = pos, 0
	if f.to.private {
		if f.to.shownPos = pos; f.to.shown().same(f.was.shown()) {
			f.to.shownPos = f.was.shown().Pos
		}
	}
	return store.CursorPut{Conv: f.c.key, User: f.p.user, Record: f.to.record()}
}

// show lets others see the cursors of a durable commit.
func (cu *cursors) show(writes []cursorWrite) {
	cu.mem.mu.Lock()
	defer cu.mem.mu.Unlock()
	for i := range writes {
		f := &writes[i]
		f.p.stored = f.to
		if !f.p.dirty { // a move that came meanwhile and moved nothing waits for this commit too
			f.waiting = append(f.waiting, f.p.waiting...)
			f.p.waiting = nil
		}
		cu.answeredLocked(len(f.waiting))
		if i+1 == len(writes) || writes[i+1].c != f.c {
			n := f.c.cursors.drop() // once for each conversation: it looks at all of them
			cu.mem.growLocked(f.c, -n*cursorBytes)
		}
	}
}

func (cu *cursors) answeredLocked(n int) {
	cu.waiting -= n
	cu.node.cursorMoves.Add(-int64(n))
}

// deliver sends the receipts of a commit, and the answers after them.
func (cu *cursors) deliver(writes []cursorWrite) {
	for from := 0; from < len(writes); {
		to := from + 1
		for to < len(writes) && writes[to].c == writes[from].c {
			to++
		}
		cu.sendReceipts(writes[from:to])
		from = to
	}
	for i := range writes {
		f := &writes[i]
		for _, m := range f.waiting {
			m.Done(f.to, nil, &cu.answered)
		}
	}
	cu.answered.Flush()
}

// sendReceipts sends the receipts of one conversation.
func (cu *cursors) sendReceipts(moved []cursorWrite) {
	c := moved[0].c
	in := c.info.Load()
	members := in.members
	if policy.OfRecord(petrelv1.ConvKind(in.record.GetKind())).Pair {
		cu.sendDirect(c, in, moved)
		return
	}
	if len(members.current) <= MaxReceipts {
		all := make([]fanout.Receipt, 0, len(moved))
		for i := range moved {
			if f := &moved[i]; members.Role(f.p.user) != 0 && !f.to.private && f.to.Read != 0 {
				all = append(all, f.receipt(c.id))
			}
		}
		cu.fan.Receipts(c.key, members.current, all)
	}
	for i := range moved {
		f := &moved[i]
		switch beside := len(members.current) > MaxReceipts || members.Role(f.p.user) == 0; {
		case beside || f.to.Read == 0:
			cu.fan.Receipts(c.key, []im.User{f.p.user}, []fanout.Receipt{f.receipt(c.id)})
		case f.to.private:
			cu.sendApart(c, f, members.current, f.to.shownRead != 0)
		}
	}
}

// sendDirect is sendReceipts in a direct conversation, where the other user may get none.
func (cu *cursors) sendDirect(c *conv, in *info, moved []cursorWrite) {
	for i := range moved {
		f, to := &moved[i], in.members.current
		for _, u := range to {
			if _, hidden := in.receipt(u, f.to); hidden && u != f.p.user {
				to = []im.User{f.p.user}
			}
		}
		if f.to.private {
			cu.sendApart(c, f, to, true)
			continue
		}
		cu.fan.Receipts(c.key, to, []fanout.Receipt{f.receipt(c.id)})
	}
}

// sendApart sends the receipts of a private reader: the real cursors to the reader's own devices, and to the others the
// shown ones, if show is set and these have moved.
func (cu *cursors) sendApart(c *conv, f *cursorWrite, to []im.User, show bool) {
	cu.fan.Receipts(c.key, []im.User{f.p.user}, []fanout.Receipt{f.receipt(c.id)})
	if is := f.to.shown(); show && !is.same(f.was.shown()) {
		others := slices.DeleteFunc(slices.Clone(to), func(u im.User) bool { return u == f.p.user })
		cu.fan.Receipts(c.key, others, []fanout.Receipt{{Receipt: is.receipt(c.id, f.p.user)}})
	}
}

func (f *cursorWrite) receipt(id string) fanout.Receipt {
	r := fanout.Receipt{Receipt: f.to.receipt(id, f.p.user)}
	for _, m := range f.waiting {
		if m.Origin.ID != 0 {
			r.Origins = append(r.Origins, m.Origin)
		}
	}
	return r
}

// refuse answers moves of a commit that was not written, and forgets them and all moves on top of
// them.
func (cu *cursors) refuse(writes []cursorWrite, e *im.Error) {
	cu.mem.mu.Lock()
	for i := range writes {
		f := &writes[i]
		f.waiting = append(f.waiting, f.p.waiting...)
		f.p.newest, f.p.waiting = f.p.stored, nil // if dirty, the next commit writes what is stored
		cu.answeredLocked(len(f.waiting))
	}
	cu.mem.mu.Unlock()
	for _, f := range writes {
		for _, m := range f.waiting {
			m.Done(Cursor{}, e, &cu.answered)
		}
	}
	cu.answered.Flush()
}

// abandonLocked takes out all waiting moves, and those of writes, the lost commit.
func (cu *cursors) abandonLocked(writes []cursorWrite) []*CursorMove {
	var all []*CursorMove
	for i := range writes {
		all = append(all, writes[i].waiting...)
	}
	for _, c := range cu.mem.convs {
		if c.cursors == nil {
			continue
		}
		for _, p := range c.cursors.of {
			all = append(all, p.waiting...)
			p.waiting = nil
		}
	}
	cu.answeredLocked(len(all))
	return all
}

// refuseMoves answers the moves that abandonLocked has taken.
func refuseMoves(moves []*CursorMove, e *im.Error) {
	var k fanout.WakeUps
	for _, m := range moves {
		m.Done(Cursor{}, e, &k)
	}
	k.Flush()
}

// rush has the committer write cursors at once from here on.
func (cu *cursors) rush() {
	cu.mem.mu.Lock()
	cu.hurry = true
	cu.mem.mu.Unlock()
}

// MovesWaiting returns how many moves of cursors have no answer yet.
func (cu *cursors) MovesWaiting() int {
	cu.mem.mu.Lock()
	defer cu.mem.mu.Unlock()
	return cu.waiting
}
