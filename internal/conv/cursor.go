package conv

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// MaxReceipts is up to how many members all of them learn how far each one is;
// above it only read is kept, and told to the user's own devices. Spec: P-8.6.
const MaxReceipts = 100

// flushEvery is how often the cursors of one conversation are written at most.
const flushEvery = time.Second

// flushSize is how many cursors one commit writes.
const flushSize = 4096

// keepPlaces is how many places of a conversation stay in memory when nobody
// waits for them; more are read again when their users move on.
const keepPlaces = 256

// CursorMove asks to move a user's cursors in a conversation forward. It
// belongs to Convs from Move until its answer. Spec: P-8.6.
type CursorMove struct {
	Conv            im.Key
	User            im.User
	Delivered, Read im.Seq

	// Origin is the session that asked, whose answer is its receipt; the zero
	// Asker: none. Done is called once, when what it says is durable; it must not
	// block.
	Origin fanout.Asker
	Done   func(c Cursor, err *im.Error, k *fanout.Kicks)
}

// Cursor is how far a user is in a conversation.
type Cursor struct {
	Delivered, Read im.Seq
	Counted         uint64 // at Read
	Pos             im.Pos // of the commit that wrote it; 0: never written
}

// raise moves c forward to d; false: it was there.
func (c *Cursor) raise(d Cursor) bool {
	moved := false
	if d.Read > c.Read {
		c.Read, c.Counted, moved = d.Read, d.Counted, true
	}
	if d := max(d.Delivered, c.Read); d > c.Delivered {
		c.Delivered, moved = d, true
	}
	return moved
}

// cursors are the places of a conversation's users that somebody has moved
// lately. A conversation in which nobody did has none. Guarded by Convs.mu.
//
// A move is dirty until a commit takes it, at most once in flushEvery for one
// conversation. The conversation stays in memory meanwhile, and flushEvery
// longer.
type cursors struct {
	places  map[im.User]*place
	dirty   []*place
	flushed time.Time // when a commit last took from dirty
	queued  bool      // in Convs.due or Convs.cooling
	loading int       // reads of places under way: none may be dropped
}

// place is one user's cursor.
type place struct {
	user    im.User
	newest  Cursor // with the moves that are not durable yet
	stored  Cursor // durable: what others are told
	dirty   bool
	waiting []*CursorMove // answered when newest is stored
}

// flush is one place on its way in a commit.
type flush struct {
	c       *conv
	p       *place
	to      Cursor
	waiting []*CursorMove
}

// MoveCursor moves a's cursors forward, cut to what is published and to what a
// may read, and returns them when they are durable.
//
// Codes: no_conversation, not_member (never was one); unsettled: overloaded,
// disk_full, store_stalled. Spec: P-8.6.
func (ow *Owner) MoveCursor(ctx context.Context, a im.Account, key im.Key, delivered, read im.Seq) (*petrelv1.CursorMoved, error) {
	return ow.moveFor(ctx, fanout.Asker{}, a, key, delivered, read)
}

// moveFor is MoveCursor for a session.
func (ow *Owner) moveFor(ctx context.Context, asker fanout.Asker, a im.Account, key im.Key, delivered, read im.Seq) (*petrelv1.CursorMoved, error) {
	type answer struct {
		c   Cursor
		err *im.Error
	}
	ch := make(chan answer, 1)
	err := ow.Move(ctx, &CursorMove{
		Conv: key, User: a.User, Delivered: delivered, Read: read, Origin: asker,
		Done: func(c Cursor, err *im.Error, _ *fanout.Kicks) { ch <- answer{c, err} },
	})
	if err != nil {
		return nil, err
	}
	select {
	case r := <-ch:
		if r.err != nil {
			return nil, r.err
		}
		return r.c.Frame(key.Conv), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Frame is c as the answer to a move.
func (c Cursor) Frame(id im.ConvID) *petrelv1.CursorMoved {
	return &petrelv1.CursorMoved{Conv: id.String(), Delivered: uint64(c.Delivered), Read: uint64(c.Read)}
}

// Move takes m; with an error it does not, and m gets no other answer. It may
// wait for the store to read, never for a write.
func (ow *Owner) Move(ctx context.Context, m *CursorMove) error {
	if err := refusalOf(ow.store.Writable()); err != nil {
		return err
	}
	c, err := ow.acquire(ctx, m.Conv)
	if err != nil {
		return err
	}
	defer ow.releaseOne(c)
	at, in := c.readable()
	if in.record == nil {
		return &im.Error{Code: im.CodeNoConversation}
	}
	if _, _, ok := in.members.reach(m.User, at.head); !ok {
		return &im.Error{Code: im.CodeNotMember}
	}
	to := Cursor{Delivered: in.members.readableUpTo(m.User, min(m.Delivered, at.head)), Read: in.members.readableUpTo(m.User, min(m.Read, at.head))}
	if len(in.members.current) > MaxReceipts {
		to.Delivered = 0
	}
	p, stored, err := ow.place(ctx, c, m.User)
	if err != nil {
		return err
	}
	defer ow.placed(c)
	if to.Read > stored.Read {
		if to.Counted, err = ow.counted(ctx, c, at, in, to.Read); err != nil {
			return err
		}
	}
	return ow.move(c, p, to, m)
}

// readableUpTo is the last seq that u may read among those up to q, 0 without
// one.
func (m *Members) readableUpTo(u im.User, q im.Seq) im.Seq {
	i, ok := m.find(u)
	if !ok {
		return 0
	}
	last := im.Seq(0)
	for _, w := range m.all[i].windows {
		if w.from > q {
			break
		}
		if last = q; w.to != 0 {
			last = min(q, w.to)
		}
	}
	return last
}

// place finds u's place, or reads it, and keeps it in memory until placed. It
// returns what is durable of it.
func (ow *Owner) place(ctx context.Context, c *conv, u im.User) (*place, Cursor, error) {
	ow.mu.Lock()
	if c.cursors == nil {
		c.cursors = &cursors{places: map[im.User]*place{}}
	}
	cu := c.cursors
	cu.loading++
	p := cu.places[u]
	if p != nil {
		defer ow.mu.Unlock()
		return p, p.stored, nil
	}
	ow.mu.Unlock()
	rec, err := ow.store.Cursor(ctx, c.key, u)
	ow.mu.Lock()
	defer ow.mu.Unlock()
	if err != nil {
		cu.loading--
		return nil, Cursor{}, err
	}
	if p = cu.places[u]; p == nil { // nobody has moved it meanwhile: what was read is durable
		p = &place{user: u, stored: cursorOf(rec)}
		p.newest = p.stored
		cu.places[u] = p
	}
	return p, p.stored, nil
}

func (ow *Owner) placed(c *conv) {
	ow.mu.Lock()
	c.cursors.loading--
	ow.mu.Unlock()
}

func cursorOf(r *storepb.Cursor) Cursor {
	return Cursor{im.Seq(r.GetDelivered()), im.Seq(r.GetRead()), r.GetCounted(), im.Pos(r.GetChangedPos())}
}

// move moves p and lets m wait for it, if it has to.
func (ow *Owner) move(c *conv, p *place, to Cursor, m *CursorMove) error {
	ow.mu.Lock()
	next := p.newest
	moved := next.raise(to)
	if next.same(p.stored) {
		next = p.stored
		ow.mu.Unlock()
		m.answer(next)
		return nil
	}
	if ow.sealed {
		ow.mu.Unlock()
		return errNotOwner
	}
	if int(ow.node.moves.Load()) >= ow.o.WaitingMoves {
		ow.mu.Unlock()
		return &im.Error{Code: im.CodeOverloaded, RetryAfter: time.Second}
	}
	p.newest = next
	if cu := c.cursors; moved && !p.dirty {
		p.dirty = true
		if cu.dirty = append(cu.dirty, p); !cu.queued {
			cu.queued = true
			c.users++ // until it has cooled down
			ow.due = append(ow.due, c)
		}
	}
	ow.moves++
	ow.node.moves.Add(1)
	p.waiting = append(p.waiting, m)
	ow.mu.Unlock()
	ow.signal()
	return nil
}

// answer answers m on its own goroutine.
func (m *CursorMove) answer(c Cursor) {
	var k fanout.Kicks
	m.Done(c, nil, &k)
	k.Flush()
}

func (c Cursor) same(d Cursor) bool { return c.Delivered == d.Delivered && c.Read == d.Read }

// counted is the number of entries up to and including q that count as unread.
func (ow *Owner) counted(ctx context.Context, c *conv, at point, in *info, q im.Seq) (uint64, error) {
	first := in.firstSeq()
	switch {
	case q >= at.head:
		return at.counted, nil
	case q == 0 || first == 1 && q < first:
		return 0, nil
	}
	var n uint64
	var parse error
	row := max(q, first)
	err := ow.readRows(ctx, c, stay{row, row}, func(stored []byte) bool {
		var m petrelv1.Message
		parse = wire.ParseMessage(stored, &m)
		n = m.Counted
		if row > q && countsAsUnread(&m) { // retention has removed q, or what came before it
			n--
		}
		return true
	})
	if err == nil && parse != nil {
		err = fmt.Errorf("read %s seq %d: %w", c.key, row, parse)
	}
	return n, err
}

// countsAsUnread tells whether m is an entry with a text or data, or was one.
func countsAsUnread(m *petrelv1.Message) bool {
	switch m.Body.(type) {
	case *petrelv1.Message_Text, *petrelv1.Message_Data:
		return true
	}
	return m.RecalledBy != 0
}

// takeCursors moves the moves whose conversations may be written now to cm,
// and plans when to come again. Only the committer.
func (ow *Owner) takeCursors(cm *commit) {
	ow.mu.Lock()
	defer ow.mu.Unlock()
	if len(ow.due) == 0 && len(ow.cooling) == 0 {
		return
	}
	now := time.Now()
	for len(ow.cooling) > 0 && (ow.hurry || now.Sub(ow.cooling[0].cursors.flushed) >= flushEvery) {
		c := ow.cooling[0]
		ow.cooling = ow.cooling[1:]
		if len(c.cursors.dirty) > 0 {
			ow.due = append(ow.due, c)
			continue
		}
		c.cursors.queued = false
		c.users--
	}
	taken := 0
	for _, c := range ow.due {
		cu := c.cursors
		n := min(len(cu.dirty), flushSize-len(cm.flushes))
		for _, p := range cu.dirty[:n] {
			cm.flushes = append(cm.flushes, flush{c, p, p.newest, p.waiting})
			p.dirty, p.waiting = false, nil
		}
		if cu.dirty = append(cu.dirty[:0], cu.dirty[n:]...); len(cu.dirty) > 0 {
			ow.signal() // the next commit goes on here
			break
		}
		cu.flushed = now
		ow.cooling = append(ow.cooling, c)
		taken++
	}
	ow.due = slices.Delete(ow.due, 0, taken)
	if len(ow.cooling) > 0 {
		ow.cooled.Reset(flushEvery - now.Sub(ow.cooling[0].cursors.flushed))
	}
}

// buildCursors adds the cursors taken to the batch.
func (b *builder) buildCursors() {
	cm, pos := b.cm, b.cm.batch.From+1
	for i := range cm.flushes {
		f := &cm.flushes[i]
		f.to.Pos = pos
		cm.batch.Cursors = append(cm.batch.Cursors, store.CursorPut{Conv: f.c.key, User: f.p.user, Record: &storepb.Cursor{
			Delivered: uint64(f.to.Delivered), Read: uint64(f.to.Read), Counted: f.to.Counted, ChangedPos: uint64(pos),
		}})
		if i == 0 || cm.flushes[i-1].c != f.c {
			cm.feed = append(cm.feed, storepb.FeedItem{Tenant: uint32(f.c.key.Tenant), Conv: f.c.key.Conv[:], Kinds: FeedCursors})
		}
	}
}

// showCursors makes the cursors of a durable commit those that others see.
func (ow *Owner) showCursors(cm *commit) {
	if len(cm.flushes) == 0 {
		return
	}
	ow.mu.Lock()
	defer ow.mu.Unlock()
	for i := range cm.flushes {
		f := &cm.flushes[i]
		f.p.stored = f.to
		if !f.p.dirty { // who came meanwhile with nothing new waits for this too
			f.waiting = append(f.waiting, f.p.waiting...)
			f.p.waiting = nil
		}
		ow.moves -= len(f.waiting)
		ow.node.moves.Add(-int64(len(f.waiting)))
		if i+1 == len(cm.flushes) || cm.flushes[i+1].c != f.c {
			f.c.cursors.drop() // once for each conversation: it looks at all places
		}
	}
}

// drop forgets places that are at rest, when there are many.
func (cu *cursors) drop() {
	if len(cu.places) <= keepPlaces || cu.loading > 0 {
		return
	}
	for u, p := range cu.places {
		if !p.dirty && len(p.waiting) == 0 && p.newest.same(p.stored) {
			delete(cu.places, u)
		}
	}
}

// tellCursors sends the receipts of a commit, and the answers behind them.
func (ow *Owner) tellCursors(cm *commit) {
	for from := 0; from < len(cm.flushes); {
		to := from + 1
		for to < len(cm.flushes) && cm.flushes[to].c == cm.flushes[from].c {
			to++
		}
		ow.tellReceipts(cm.flushes[from:to])
		from = to
	}
	for i := range cm.flushes {
		f := &cm.flushes[i]
		for _, m := range f.waiting {
			m.Done(f.to, nil, &ow.answered)
		}
	}
	ow.answered.Flush()
}

// tellReceipts sends the receipts of one conversation.
func (ow *Owner) tellReceipts(moved []flush) {
	c := moved[0].c
	members := c.info.Load().members
	if len(members.current) <= MaxReceipts {
		all := make([]fanout.Receipt, 0, len(moved))
		for i := range moved {
			if members.Role(moved[i].p.user) != 0 {
				all = append(all, moved[i].receipt(c.id))
			}
		}
		ow.fan.Receipts(c.key, members.current, all)
	}
	for i := range moved {
		f := &moved[i]
		if len(members.current) > MaxReceipts || members.Role(f.p.user) == 0 {
			ow.fan.Receipts(c.key, []im.User{f.p.user}, []fanout.Receipt{f.receipt(c.id)})
		}
	}
}

func (f *flush) receipt(id string) fanout.Receipt {
	r := fanout.Receipt{Receipt: &petrelv1.Receipt{Conv: id, User: string(f.p.user), Delivered: uint64(f.to.Delivered), Read: uint64(f.to.Read)}}
	for _, m := range f.waiting {
		if m.Origin.ID != 0 {
			r.Origins = append(r.Origins, m.Origin)
		}
	}
	return r
}

// refuseCursors answers moves of which nothing was written, and forgets them
// and all that came on top of them.
func (ow *Owner) refuseCursors(cm *commit, e *im.Error) {
	if len(cm.flushes) == 0 {
		return
	}
	ow.mu.Lock()
	ow.stale = true
	for i := range cm.flushes {
		f := &cm.flushes[i]
		f.waiting = append(f.waiting, f.p.waiting...)
		f.p.newest, f.p.waiting = f.p.stored, nil // if dirty, the next commit writes what is stored
		ow.moves -= len(f.waiting)
		ow.node.moves.Add(-int64(len(f.waiting)))
	}
	ow.mu.Unlock()
	for _, f := range cm.flushes {
		for _, m := range f.waiting {
			m.Done(Cursor{}, e, &ow.answered)
		}
	}
	ow.answered.Flush()
}

// dropMovesLocked takes the moves that wait, those of cm, if there is one, among them.
func (ow *Owner) dropMovesLocked(cm *commit) []*CursorMove {
	var all []*CursorMove
	if cm != nil {
		for i := range cm.flushes {
			all = append(all, cm.flushes[i].waiting...)
		}
	}
	for _, c := range ow.convs {
		if c.cursors == nil {
			continue
		}
		for _, p := range c.cursors.places {
			all = append(all, p.waiting...)
			p.waiting = nil
		}
	}
	ow.moves -= len(all)
	ow.node.moves.Add(-int64(len(all)))
	return all
}

// MovesWaiting is how many moves of cursors have no answer yet.
func (ow *Owner) MovesWaiting() int {
	ow.mu.Lock()
	defer ow.mu.Unlock()
	return ow.moves
}
