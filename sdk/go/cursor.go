package petrel

import (
	"slices"
	"time"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// moveEvery is how often the cursors of one conversation are sent. Spec: P-8.6.
const moveEvery = time.Second

// cursors are how far the users of one conversation are.
type cursors struct {
	read, readCounted uint64 // the user's own, wanted moves included
	deliveredTo       uint64
	wantRead          uint64 // not confirmed by the server; 0: nothing wanted
	wantDelivered     uint64
	own               []uint64 // seqs of the user's own counted messages above read, ascending
	receipts          map[string]*petrelv1.Receipt

	inMoves, moving bool // in Client.moves; a request is under way
	movedAt         time.Time
}

// mergeCursors applies what a sync says.
func (v *conv) mergeCursors(s *petrelv1.ConvState) {
	if s.Read >= v.read {
		v.read, v.readCounted = s.Read, s.ReadCounted
		v.prune()
	}
	v.deliveredTo = max(v.deliveredTo, s.Delivered, v.read)
	if r := s.PeerReceipt; r != nil && v.peer != "" {
		v.receipt(v.peer, r)
	}
}

// prune forgets what is read.
func (v *conv) prune() {
	isRead := func(q uint64) bool { return q <= v.read }
	v.own = slices.DeleteFunc(v.own, isRead)
	v.mentions.seqs = slices.DeleteFunc(v.mentions.seqs, isRead)
}

// receipt notes how far another user is; it replaces, never changes, the old
// one, which snapshots share.
func (v *conv) receipt(user string, r *petrelv1.Receipt) {
	if v.receipts == nil {
		v.receipts = map[string]*petrelv1.Receipt{}
	}
	old := v.receipts[user]
	v.receipts[user] = &petrelv1.Receipt{
		Conv: v.id, User: user, Read: max(old.GetRead(), r.Read), Delivered: max(old.GetDelivered(), r.Delivered, r.Read),
	}
}

// takeReceipt applies a move that somebody, perhaps another device of the
// user, has made.
func (c *Client) takeReceipt(r *petrelv1.Receipt) {
	v := c.convs[r.Conv]
	if v == nil {
		return // the sync that tells of the conversation has the newest
	}
	c.touch(v)
	if r.User != c.meta.User {
		v.receipt(r.User, r)
		return
	}
	v.deliveredTo = max(v.deliveredTo, r.Delivered, r.Read)
	if r.Read > v.read {
		c.readTo(v, r.Read)
	}
}

// readTo moves the own read cursor as the client shows it.
func (c *Client) readTo(v *conv, seq uint64) {
	v.read = seq
	v.prune()
	if n, told := v.countedOf(seq); told {
		v.readCounted = n
	} else { // the sync has the count
		c.startSync()
	}
	c.touch(v)
}

// MarkRead moves the user's read cursor up to seq, which the person has seen.
// It shows at once; the server, the other members and the user's other devices
// hear of it at most once a second, and after a restart too. A lower seq
// changes nothing. Spec: P-8.6.
func (c *Client) MarkRead(conv string, seq uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.convs[conv]
	if v == nil {
		return
	}
	if seq = min(seq, v.head); seq <= v.read {
		return
	}
	c.readTo(v, seq)
	v.wantRead = seq
	c.move(v)
	c.notify()
}

// MarkDelivered tells that this device holds the entries up to seq. It is
// needed only with Options.ManualDelivered. Spec: P-8.6.
func (c *Client) MarkDelivered(conv string, seq uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v := c.convs[conv]; v != nil {
		c.deliver(v, min(seq, v.have))
		c.notify()
	}
}

// delivered is MarkDelivered of what the client holds.
func (c *Client) delivered(v *conv) {
	if c.o.ManualDelivered || v.entries[len(v.entries)-1].m.From == c.meta.User {
		return
	}
	c.deliver(v, v.have)
}

func (c *Client) deliver(v *conv, seq uint64) {
	if seq > v.deliveredTo {
		v.deliveredTo, v.wantDelivered = seq, seq
		c.move(v)
	}
}

func (c *Client) move(v *conv) {
	if !v.inMoves {
		v.inMoves = true
		c.moves = append(c.moves, v)
	}
}

// moveAll sends the cursors that are due.
func (c *Client) moveAll(now time.Time) {
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

// wantsMove tells whether there is a cursor to be sent.
func (v *conv) wantsMove() bool { return v.wantRead != 0 || v.wantDelivered != 0 || v.mentions.asked }

func (c *Client) askMove(v *conv) {
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
			v.movedAt = retryAt(e).Add(-moveEvery)
		}
		if moved := f.GetCursor(); moved.GetHead() > 0 {
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

// unread is how many messages of others the user has not read. Spec: P-8.7.
func (v *conv) unread() int {
	before := v.readCounted
	if v.read == 0 && v.joined > 1 && len(v.entries) > 0 && v.entries[0].m.Seq == v.joined {
		before = max(before, v.entries[0].m.Counted) // joined itself does not count
	}
	n := int(v.counted) - int(before) - len(v.own)
	return max(n, 0)
}

// Focus names the conversations whose entries are wanted at once; of the
// others the client learns only that they have moved, and how much is unread,
// until it is told otherwise. It spares traffic where a user has many busy
// conversations. FocusAll undoes it. A server without the capability sends all
// as before. Spec: P-6.5.
func (c *Client) Focus(convs ...string) {
	c.setFocus(&petrelv1.SetFocus{Convs: convs})
}

// FocusAll wants the entries of all conversations at once, as at the start.
func (c *Client) FocusAll() { c.setFocus(nil) }

func (c *Client) setFocus(f *petrelv1.SetFocus) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.focus = f
	c.sendFocus()
	for _, v := range c.convs {
		c.repair(v)
	}
	c.notify()
}

// sendFocus tells the server, unless it knows. c.mu is held.
func (c *Client) sendFocus() {
	lv := c.live
	if lv == nil || lv.focused == c.focus || !lv.offers(capFocus) {
		return
	}
	lv.focused = c.focus
	q := c.focus
	if q == nil {
		q = &petrelv1.SetFocus{All: true}
	}
	c.ask(&petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_Focus{Focus: q}}, func(f *petrelv1.ServerFrame) {
		for _, h := range f.GetFocus().GetHeads() {
			c.takeHint(h)
		}
		if e := f.GetError(); e != nil && e.Retryable {
			lv.focused = &petrelv1.SetFocus{} // not the one that is wanted
			lv.focusAt = retryAt(e)
			c.alarmAt(lv.focusAt)
		}
	})
}

// wanted tells whether the entries of v are to be loaded when they are missing.
func (c *Client) wanted(v *conv) bool {
	return c.focus == nil || !c.live.offers(capFocus) || slices.Contains(c.focus.Convs, v.id)
}
