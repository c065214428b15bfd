package conv

import (
	"errors"

	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// commit is one batch on its way: built by the committer, made durable by the
// store, published and answered by the store's callback. Commits are reused.
type commit struct {
	work    []work
	batch   store.Batch
	entry   storepb.FeedEntry
	feed    []storepb.FeedItem
	arena   []byte // the encoded rows; a full one is left to them and replaced
	items   []fanout.Item
	answers []answer // of the sends that wait outside a connection
	spans   []span
	moves   []move
	scans   []scan
	flushes []flush
	bytes   int // of all sends taken and not put back
	rows    int
	repeats int
}

type answer struct {
	done func(Result)
	r    Result
}

// span is a run of items of one conversation with the same recipients.
type span struct {
	tenant   im.Tenant
	members  []im.User
	from, to int // in items
}

// move is what one conversation publishes.
type move struct {
	c       *conv
	head    im.Seq
	counted uint64
	info    *info
	kinds   uint32
}

// scan is work for a loader: the sends wait until the tail of c reaches after.
type scan struct {
	c     *conv
	sends []*Send
	after im.Seq
}

// Kinds of entries in the feed, as bits of FeedItem.kinds.
const (
	FeedMessages   = 1
	FeedMembership = 2
	FeedRewrites   = 4
	FeedInbox      = 8
	FeedCursors    = 16
)

var errScan = errors.New("the tail does not reach down to after")

// commitQueued takes what is queued, within bounds, and commits it once.
func (ow *Owner) commitQueued() error {
	var cm *commit
	for cm == nil {
		if err := ow.rollBack(); err != nil {
			return err
		}
		select {
		case cm = <-ow.free:
		case <-ow.store.Failed():
			return errFailed
		}
		if ow.isLost() { // what is in memory may be behind the one that was under way
			ow.free <- cm
			return errGone
		}
		if ow.mustRollBack() { // the store has refused one that was under way
			ow.free <- cm
			cm = nil
		}
	}
	cm.reset()
	cm.work = ow.take(cm.work)
	ow.takeCursors(cm)
	if len(cm.work) == 0 && len(cm.flushes) == 0 {
		ow.free <- cm
		return nil
	}
	b := builder{ow: ow, cm: cm}
	b.build()
	ow.settle(cm)
	if cm.rows == 0 && len(cm.flushes) == 0 {
		return ow.answerOnly(cm)
	}
	ow.pos++
	ow.store.Append(&cm.batch, func(err error) { ow.publish(cm, err) })
	return nil
}

// answerOnly publishes a batch without rows behind those that its answers may
// rest on. With all other commits in hand nobody else publishes. No append
// tells whether this still is the feed's owner, so the store is asked: a refusal
// of what another owner has stored would never be taken back.
func (ow *Owner) answerOnly(cm *commit) error {
	return ow.alone(commitsInFlight-1, func() {
		if ow.mustRollBack() {
			ow.publish(cm, errRests)
			return
		}
		ow.publish(cm, ow.confirm())
	})
}

// alone runs f when n other commits are done and publication rests.
func (ow *Owner) alone(n int, f func()) error {
	held := make([]*commit, 0, n)
	for len(held) < n {
		select {
		case other := <-ow.free:
			held = append(held, other)
		case <-ow.store.Failed():
			return errFailed
		}
	}
	f()
	for _, other := range held {
		ow.free <- other
	}
	return nil
}

func (cm *commit) reset() {
	clear(cm.answers)
	clear(cm.flushes)
	clear(cm.batch.Cursors)
	*cm = commit{
		work: cm.work[:0], arena: cm.arena[:0], items: cm.items[:0], answers: cm.answers[:0],
		spans: cm.spans[:0], moves: cm.moves[:0], feed: cm.feed[:0], scans: cm.scans[:0], flushes: cm.flushes[:0],
		batch: store.Batch{Rows: cm.batch.Rows[:0], Dedupe: cm.batch.Dedupe[:0], Cursors: cm.batch.Cursors[:0]},
	}
}

// builder stages one batch.
type builder struct {
	ow     *Owner
	cm     *commit
	now    uint64   // Unix milliseconds
	staged []staged // rows of the conversation at hand

	targets []*target // rows that the send at hand rewrites
}

func (b *builder) build() {
	ow, cm := b.ow, b.cm
	b.now = uint64(ow.o.Now().UnixMilli())
	cm.batch.Feed, cm.batch.Epoch, cm.batch.Holder, cm.batch.From = ow.feed, ow.epoch, ow.holder, ow.pos
	for i := range cm.work {
		b.buildConv(&cm.work[i])
	}
	b.buildCursors()
	cm.entry.TimeMs = b.now
	cm.entry.Items = make([]*storepb.FeedItem, len(cm.feed))
	for i := range cm.feed {
		cm.entry.Items[i] = &cm.feed[i]
	}
	cm.batch.Entry = &cm.entry
}

// buildConv settles, admits and numbers the sends of one conversation, each
// against the state that those before it leave.
func (b *builder) buildConv(w *work) {
	c, cm := w.c, b.cm
	first := c.log.head + 1
	b.staged = b.staged[:0]
	var kinds uint32
	from := len(cm.items)
	for i, s := range w.sends {
		before, at := c.log.info, len(cm.items)
		kind, err := b.stage(c, s)
		if errors.Is(err, errScan) {
			cm.scans = append(cm.scans, scan{c, w.sends[i:], s.After})
			w.sends = w.sends[:i]
			break
		}
		cm.bytes += s.bytes
		kinds |= kind
		if after := c.log.info; after != before {
			b.endSpan(c, before.members.current, from, at)
			b.endSpan(c, union(before.members, after.members), at, len(cm.items)) // both see the change itself
			from = len(cm.items)
		}
	}
	b.endSpan(c, c.log.info.members.current, from, len(cm.items))
	if c.log.head < first {
		return
	}
	cm.moves = append(cm.moves, move{c, c.log.head, c.log.counted, c.log.info, kinds})
	cm.feed = append(cm.feed, storepb.FeedItem{
		Tenant: uint32(c.key.Tenant), Conv: c.key.Conv[:], From: uint64(first), Count: uint64(c.log.head - first + 1), Kinds: kinds,
	})
}

// endSpan closes a run of items with the same recipients.
func (b *builder) endSpan(c *conv, members []im.User, from, to int) {
	if from == to {
		return
	}
	b.cm.spans = append(b.cm.spans, span{c.key.Tenant, members, from, to})
}

// stage decides one send: a repeat, a refusal, or a row. It returns the kind of
// the row, 0 without one.
func (b *builder) stage(c *conv, s *Send) (uint32, error) {
	s.Entry.Conv = c.id
	hash, mac := b.ow.hash.id(im.User(s.Entry.From), s.Entry.ClientMsgId), b.ow.hash.first(s)
	r, found, slot, err := b.repeat(c, s, hash, mac)
	if errors.Is(err, errScan) {
		return 0, err
	}
	if err == nil && found {
		b.cm.repeats++
		b.answer(s, nil, r)
		return 0, nil
	}
	var next *info
	if err == nil {
		next, err = b.admit(c, s)
	}
	if err != nil {
		b.answer(s, nil, Result{Err: b.ow.refusal(c, err)})
		return 0, nil
	}
	return b.number(c, s, next, hash, mac, slot), nil
}

// refusal is err as the sender sees it; what is not meant for them is logged.
func (ow *Owner) refusal(c *conv, err error) *im.Error {
	if e, ok := errors.AsType[*im.Error](err); ok {
		return e
	}
	if errors.Is(err, store.ErrStalled) {
		return refusalOf(err)
	}
	ow.o.Log.Error("decide send failed", "conv", c.id, "err", err)
	return &im.Error{Code: im.CodeInternal}
}

// answer adds the outcome of s to the batch.
func (b *builder) answer(s *Send, row []byte, r Result) {
	it := fanout.Item{Row: row, Sender: s.Origin}
	if s.Origin.Waits() {
		it.Ack, it.Repeat, it.Err = s.ack(r), r.Repeat, r.Err
	}
	b.cm.items = append(b.cm.items, it)
	if !s.Origin.Waits() && s.Done != nil {
		b.cm.answers = append(b.cm.answers, answer{s.Done, r})
	}
}

// number gives s the next place and encodes its row. next is what s makes of
// the conversation's info. It returns the kind of the row.
func (b *builder) number(c *conv, s *Send, next *info, hash, mac uint64, slot uint8) uint32 {
	l, cm := &c.log, b.cm
	l.head++
	kind := uint32(FeedMessages)
	switch s.Entry.Body.(type) {
	case *petrelv1.Message_Text, *petrelv1.Message_Data:
		l.counted++
	case *petrelv1.Message_Inbox:
		kind = FeedInbox
	case *petrelv1.Message_Edit, *petrelv1.Message_Recall:
		kind |= FeedRewrites
	}
	s.Entry.Seq, s.Entry.TimeMs, s.Entry.Counted = uint64(l.head), b.now, l.counted
	if next != l.info {
		if next.members != l.info.members {
			kind |= FeedMembership
		}
		b.write(c, s, next)
		l.info = next
	}
	head := store.RowHead{Pos: cm.batch.From + 1, After: s.After, MAC: mac}
	if s.Keyed {
		head.Flags, head.After = store.RowKeyed, 0
		cm.batch.Dedupe = append(cm.batch.Dedupe, store.DedupePut{Conv: c.key, Hash: hash, Slot: slot, Seq: l.head})
	}
	value, wirePart := b.encode(head, &s.Entry)
	cm.batch.Rows = append(cm.batch.Rows, store.RowPut{Conv: c.key, Seq: l.head, Value: value})
	cm.rows++
	l.tail.add(hash)
	b.staged = append(b.staged, staged{l.head, value, len(cm.batch.Rows) - 1, len(cm.items)})
	b.answer(s, wirePart, Result{Seq: l.head, TimeMs: b.now})
	if kind&FeedRewrites != 0 {
		b.rewrite(c, s)
	}
	return kind
}

// encode writes a row into the arena.
func (b *builder) encode(h store.RowHead, m *petrelv1.Message) (value, wirePart []byte) {
	need := store.MaxRowHead + 11 + m.SizeVT()
	if cap(b.cm.arena)-len(b.cm.arena) < need {
		b.cm.arena = make([]byte, 0, max(64<<10, need)) // the rows keep the old one
	}
	from := len(b.cm.arena)
	b.cm.arena = store.AppendRowHead(b.cm.arena, h)
	at := len(b.cm.arena)
	b.cm.arena = wire.AppendMessage(b.cm.arena, m)
	end := len(b.cm.arena)
	return b.cm.arena[from:end:end], b.cm.arena[at:end:end]
}

// write adds the records that s changes beside its row.
func (b *builder) write(c *conv, s *Send, next *info) {
	pos, q := b.cm.batch.From+1, c.log.head
	if next.record != c.log.info.record {
		b.cm.batch.Convs = append(b.cm.batch.Convs, store.ConvPut{Conv: c.key, Record: next.record})
	}
	for _, u := range changed(c, s, next) {
		b.cm.batch.Members = append(b.cm.batch.Members, store.MemberPut{Conv: c.key, User: u, Record: next.members.record(u, q, pos)})
	}
}

// changed lists the users whose member records s writes.
func changed(c *conv, s *Send, next *info) []im.User {
	switch before := c.log.info; {
	case next.members == before.members:
		return nil
	case before.record == nil:
		return next.members.users()
	default:
		return before.members.touched(s.Entry.GetMembers())
	}
}
