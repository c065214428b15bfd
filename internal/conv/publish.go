package conv

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/measure"
	"github.com/petrel-im/petrel/internal/note"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/wake"
)

// publisher ends the commits of one feed, one at a time and in their order: it moves the heads,
// then fan-out chooses the recipients, then entries and answers go out.
type publisher struct {
	now     func() time.Time
	log     *slog.Logger
	shared  bool // other processes may take the feed
	node    *node
	mem     *memory
	tenure  *tenure
	queues  *queues
	cursors *cursors
	notes   *note.Notes
	formers *formers // the rows as they were before unpublished commits rewrote them
	changes *ChangeIndex
	fan     *fanout.Fan

	// commitLock holds a token while no commit is under way. The committer takes the token for a batch, and
	// finish or lose puts it back.
	commitLock chan struct{} // capacity 1

	published atomic.Uint64 // im.Pos: commits up to here are durable and their heads are out
	// im.Pos: of the newest published commit that the inbox consumer has to carry (FeedCarried); at the start that of
	// the takeover
	lastCarried  atomic.Uint64
	carriedMoved chan struct{} // capacity 1; a token: there is a commit for the inbox consumer

	// Guarded by commitLock.
	refused  []*conv // of the refused batch; the committer rolls them back
	posWrong bool    // a batch was refused: the committer's position is wrong
	refusals fanout.WakeUps
}

// finish ends a commit. The error of the store decides whether the batch is published, refused or lost. If a shared
// store takes nothing more for the feed (ErrFailed), the batch is refused and the feed is lost. After an error that
// finish does not know nothing is answered. The store calls finish; for a batch without an append, the committer does.
func (p *publisher) finish(b *batch, err error) {
	switch {
	case err == nil:
		p.publishHeads(b)
		p.deliver(b)
	case errors.Is(err, store.ErrFull), errors.Is(err, store.ErrStalled):
		p.refuse(b, err)
	case errors.Is(err, store.ErrStale):
		p.node.stale.Add(1)
		p.lose(b, err)
		return
	case errors.Is(err, store.ErrUnknown):
		p.node.refused.Add(1)
		p.lose(b, err)
		return
	case errors.Is(err, store.ErrFailed) && p.shared:
		// The feed takes nothing more until it is taken over. This Owner does not try the batch that broke it
		// again, but the senders may.
		p.refuse(b, err)
		p.lose(nil, err)
	default:
		// The outcome is unknown: nothing is answered, nothing moves, and the process ends
		// (Convs.Run sees the store's failure).
		p.log.Error("commit failed", "err", err, "rows", b.rows)
		return
	}
	for i := range b.heads {
		if m := &b.heads[i]; m.kinds&FeedRewrites != 0 {
			p.formers.drop(m.c.key, b.pos())
		}
	}
	p.queues.release(b.work, b.answered, b.bytes)
	clear(b.work) // or the sends would live until the next batch
	clear(b.items)
	p.release()
}

// release puts the token of commitLock back: another commit may begin.
func (p *publisher) release() { p.commitLock <- struct{}{} }

// publishHeads moves the readers' side of the conversations, cursors and notes that a batch changes.
func (p *publisher) publishHeads(b *batch) {
	if b.writes() {
		p.noteChanges(b) // first: a reader of a position must find all changes up to it
	}
	kinds := uint32(0)
	for i := range b.heads {
		m := &b.heads[i]
		pos := b.pos()
		if !m.rows { // it has nothing for others
			pos = m.c.point.Load().pos
		}
		m.c.publish(m.info, point{m.head, m.counted, pos, m.hidden})
		kinds |= m.kinds
	}
	if kinds&FeedCarried != 0 {
		p.lastCarried.Store(uint64(b.pos())) // before published: Owner.CarriedSince relies on it
	}
	if len(b.cursors) > 0 {
		p.cursors.show(b.cursors)
	}
	if len(b.notes) > 0 {
		p.notes.Show(b.notes)
	}
	if b.writes() {
		p.published.Store(uint64(b.pos()))
		p.node.taken.Add(1)
		p.node.commits.Observe(measure.Now() - b.appended)
		p.node.accepted.Add(uint64(b.rows))
	}
	p.node.repeats.Add(uint64(b.repeats))
	if kinds&FeedCarried != 0 {
		wake.Set(p.carriedMoved)
	}
}

// noteChanges writes into the index of changes the conversations in which a commit adds rows or moves cursors.
func (p *publisher) noteChanges(b *batch) {
	pos := b.pos()
	p.changes.mu.Lock()
	defer p.changes.mu.Unlock()
	for i := range b.heads {
		if b.heads[i].rows {
			p.changes.touch(b.heads[i].c.key, pos)
		}
	}
	for i := range b.cursors {
		p.changes.touch(b.cursors[i].c.key, pos)
	}
}

// deliver hands entries, receipts and answers to fan-out, and then answers callers without a connection. It runs
// after publishHeads: fan-out reads the online table, and a session that enters the table later reads the
// published head.
func (p *publisher) deliver(b *batch) {
	for _, sp := range b.spans {
		p.fan.Deliver(sp.tenant, sp.members, b.items[sp.from:sp.to])
	}
	if len(b.cursors) > 0 {
		p.cursors.deliver(b.cursors)
	}
	p.fan.Flush()
	for _, a := range b.answers {
		a.done(a.r)
	}
	if len(b.notes) > 0 {
		p.notes.Answer(b.notes)
		p.notes.Announce() // last: no ack waits for a part of a large group
	}
}

// refuse answers all sends, moves of cursors and changes of notes of a batch that was not committed. Its error
// settles nothing. The committer rolls back to the published state before it builds the next batch.
func (p *publisher) refuse(b *batch, err error) {
	p.node.refused.Add(1)
	if hidden, ok := p.node.warnings.due(p.now()); ok {
		p.log.Warn("commit refused", "err", err, "rows", b.rows, "before", hidden)
	}
	e := Refusal(err)
	p.posWrong = true
	for _, w := range b.work {
		p.refused = append(p.refused, w.c)
		for _, s := range w.sends {
			if s.Origin.Out != nil {
				p.node.noteRefused(s, e)
			}
		}
	}
	for i := range b.items {
		if o := b.items[i].Sender; o.Waits() {
			o.Reply(b.items[i].Ack, e, &p.refusals)
		}
	}
	p.refusals.Flush()
	if len(b.cursors) > 0 {
		p.cursors.refuse(b.cursors, e)
	}
	if len(b.notes) > 0 {
		p.notes.Refuse(b.notes, e)
	}
	for _, a := range b.answers {
		a.done(Result{Err: e})
	}
}

// lose ends the tenure of the feed. The sends of b get no answer and go back to the front of their queues: their
// outcome is unknown, or the store wrote nothing of them (ErrStale). All waiting moves of cursors and changes of
// notes are refused. b may be nil. When no commit is under way, the committer leaves with all queued sends
// (Owner.leave).
func (p *publisher) lose(b *batch, err error) {
	var writes []cursorWrite
	var notes []note.Write
	p.mem.mu.Lock()
	if b != nil {
		p.queues.restoreLocked(b.work)
		writes, notes = b.cursors, b.notes
	}
	first := p.tenure.loseLocked()
	moves, sends := p.cursors.abandonLocked(writes), p.queues.waiting
	p.mem.mu.Unlock()
	if b != nil {
		p.release()
	}
	refuseMoves(moves, Refusal(err))
	p.notes.Abandon(notes, Refusal(err))
	if first {
		p.log.Warn("feed is lost", "feed", p.tenure.feed, "epoch", p.tenure.epoch, "err", err, "sends", sends)
	}
}

// rollBack makes the log's side of conversations forget the batch that the store has refused. It returns false if
// the store has refused none since the last rollBack. It is called while no commit is under way.
func (p *publisher) rollBack() bool {
	for _, c := range p.refused {
		c.rollBack()
	}
	refused := p.posWrong
	p.refused, p.posWrong = nil, false
	return refused
}

// Published returns the position up to which commits are durable and readable.
func (p *publisher) Published() im.Pos { return im.Pos(p.published.Load()) }
