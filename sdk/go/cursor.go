package petrel

import (
	"slices"
	"time"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// moveEvery is the shortest time between two requests that send the cursors of one conversation. Spec: P-8.6.
const moveEvery = time.Second

// cursors are the cursors of the users of one conversation.
type cursors struct {
	read uint64 // the user's own, with moves that the server has not confirmed
	// the count up to which nothing is unread: that at the read cursor, or at the beginning of the user's newest
	// stay
	readCounted   uint64
	deliveredTo   uint64
	wantRead      uint64 // not confirmed by the server; 0: nothing wanted
	wantDelivered uint64
	own           []uint64 // counted of the user's own messages that count, above readCounted, ascending
	receipts      map[string]*petrelv1.Receipt

	inMoves, moving bool // in core.moves; a request is under way
	movedAt         time.Time
}

// mergeCursors applies the cursors from a sync.
func (v *conv) mergeCursors(s *petrelv1.ConvState) {
	v.read = max(v.read, s.Read)
	v.heardRead(s.ReadCounted)
	v.deliveredTo = max(v.deliveredTo, s.Delivered, v.read)
	if r := s.PeerReceipt; r != nil && v.peer != "" {
		v.receipt(v.peer, r)
	}
}

// heardRead raises readCounted. It never goes back, in whatever order syncs, entries and moves come. Spec: P-8.7.
func (v *conv) heardRead(counted uint64) {
	v.readCounted = max(v.readCounted, counted)
	v.prune()
}

// prune drops own messages and mentions that are read.
func (v *conv) prune() {
	v.own = slices.DeleteFunc(v.own, func(n uint64) bool { return n <= v.readCounted })
	v.mentions.seqs = slices.DeleteFunc(v.mentions.seqs, func(q uint64) bool { return q <= v.read })
}

// receipt records the cursors of another user; it replaces, never changes, the old ones, which snapshots
// share.
func (v *conv) receipt(user string, r *petrelv1.Receipt) {
	if v.receipts == nil {
		v.receipts = map[string]*petrelv1.Receipt{}
	}
	old := v.receipts[user]
	v.receipts[user] = &petrelv1.Receipt{
		Conv: v.id, User: user,
		Read: max(old.GetRead(), r.Read), Delivered: max(old.GetDelivered(), r.Delivered, r.Read),
	}
}

// takeReceipt applies a move of the cursors of another user, or of this user on another device.
func (c *core) takeReceipt(r *petrelv1.Receipt) {
	v := c.convs[r.Conv]
	if v == nil {
		return // the sync that adds the conversation has its receipts
	}
	c.touch(v)
	if r.User != c.meta.User {
		v.receipt(r.User, r)
		return
	}
	v.deliveredTo = max(v.deliveredTo, r.Delivered, r.Read)
	if r.Read > v.read {
		c.readTo(v, r.Read, true)
	}
}

// readTo moves the read cursor that the client shows. told says that the server has stored this move.
func (c *core) readTo(v *conv, seq uint64, told bool) {
	v.read = seq
	n, known := v.countedOf(seq)
	v.heardRead(n)
	if told && !known { // the sync has the count
		c.startSync()
	}
	c.touch(v)
}

// delivered moves the delivered cursor over the held entries, unless the newest one is the user's own.
func (c *core) delivered(v *conv) {
	if c.o.manualDelivered || v.entries[len(v.entries)-1].m.From == c.meta.User {
		return
	}
	c.deliver(v, v.have)
}

func (c *core) deliver(v *conv, seq uint64) {
	if seq > v.deliveredTo {
		v.deliveredTo, v.wantDelivered = seq, seq
		c.move(v)
	}
}

func (c *core) move(v *conv) {
	if !v.inMoves {
		v.inMoves = true
		c.moves = append(c.moves, v)
	}
}

// moveAll sends the cursors that are due.
func (c *core) moveAll(now time.Time) {
	lv := c.live
	if !lv.offers(capCursor) || !lv.synced {
		return
	}
	waiting := c.moves[:0]
	for i, v := range c.moves {
		if lv.moving >= maxMoves {
			waiting = append(waiting, c.moves[i:]...)
			break
		}
		switch at := v.movedAt.Add(moveEvery); {
		case !v.wantsMove():
			v.inMoves = false
		case v.moving:
			waiting = append(waiting, v)
		case now.Before(at):
			c.alarmAt(at)
			waiting = append(waiting, v)
		default:
			v.inMoves = false
			v.movedAt = now
			c.askMove(v)
		}
	}
	c.moves = waiting
}

// wantsMove reports whether a cursor has to be sent, also to get the list of mentions.
func (v *conv) wantsMove() bool { return v.wantRead != 0 || v.wantDelivered != 0 || v.mentions.asked }

func (c *core) askMove(v *conv) {
	lv := c.live
	lv.moving++
	v.moving = true
	asked := v.mentions.asked
	v.mentions.asked = false
	q := &petrelv1.MoveCursor{Conv: v.id, Delivered: v.wantDelivered, Read: v.wantRead}
	c.ask(&petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_Cursor{Cursor: q}}, func(f *petrelv1.ServerFrame) {
		lv.moving--
		v.moving = false
		switch e := f.GetError(); {
		case f.GetCursor() != nil, e != nil && !e.Retryable: // stored, or it never will be
			if v.wantRead <= q.Read {
				v.wantRead = 0
			}
			if v.wantDelivered <= q.Delivered {
				v.wantDelivered = 0
			}
			c.dirty[v] = struct{}{}
		case e != nil:
			v.movedAt = c.retryAt(e).Add(-moveEvery)
		}
		moved := f.GetCursor()
		// The answer may name a later read of another device, whose receipt did not come. After a move of this
		// device the count at the cursor may be missing.
		if moved.GetRead() > v.read || q.Read > 0 && moved.GetRead() == v.read {
			c.readTo(v, moved.Read, true)
		}
		if moved.GetHead() > 0 {
			c.takeMentions(v, moved.Mentions, moved.Head)
		}
		if f == nil || f.GetError().GetRetryable() {
			v.mentions.asked = v.mentions.asked || asked
		}
		if v.wantsMove() {
			c.move(v)
		}
	})
}

// unread counts the messages of others that the user has not read. Spec: P-8.7.
func (v *conv) unread() int {
	return max(int(v.counted)-int(v.readCounted)-len(v.own), 0)
}

// markRead moves the own read cursor up to seq, which the person has seen.
func (c *core) markRead(conv string, seq uint64) {
	v := c.convs[conv]
	if v == nil {
		return
	}
	if seq = min(seq, v.head); seq <= v.read {
		return
	}
	c.readTo(v, seq, false)
	v.wantRead = seq
	c.move(v)
	c.out.woken = true
}

// markDelivered records that this device holds the entries up to seq.
func (c *core) markDelivered(conv string, seq uint64) {
	if v := c.convs[conv]; v != nil {
		c.deliver(v, min(seq, v.have))
		c.out.woken = true
	}
}
