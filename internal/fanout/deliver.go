// Package fanout adds committed entries to the outboxes of their recipients, which it finds in the online
// table. Entries are encoded once for each codec and framing, and each writer is woken once for a commit.
//
// Read the files in this order. For one node: deliver.go, onlinetable.go, outbox.go, flusher.go; then
// focus.go and hint.go (clients that want only some conversations whole), mentions.go (entries that name
// a user: these come whole, also outside the focus), receipts.go (moves of cursors), notes.go (reactions
// and pins), and signal.go, ephemeral.go and heldsignals.go (events that may be lost). For other nodes:
// remotesend.go (frames of a delivery for them), remotereceive.go (frames from them), nodes.go with
// remoteonline.go (which users are online there), resync.go (users who may have missed something),
// presencepolicy.go (nodes tell each other who may see when a user is online), and sessionvalidity.go
// with unconfirmed.go (a session gets nothing while nobody knows whether it is valid). standing.go knows
// whether the user of a session is muted or reads privately. inspect.go shows an operator the state of an
// outbox.
//
// The package owns the online table and the bytes that wait for each connection. It may not know the
// meaning of an entry, the members, or the owner of a conversation: its callers name the recipients. It
// never reads the store, and never blocks.
package fanout

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Fan delivers entries. Only one goroutine at a time may call Deliver, Receipts, Notes and Flush: the one
// that publishes commits, or, for the Fan of a receiver, the one that handles the frames of its node.
type Fan struct {
	Table  *Table
	Remote *Nodes // nil: there are no other nodes

	wakeUps   WakeUps
	encoded   [wire.Encodings][]byte // the rows of the present delivery
	announced [wire.Encodings][]byte // the same, with announcements of large frames
	rows      [][]byte               // of the present delivery
	named     named                  // the rows that mention users
	newest    newestRow              // of the present delivery
	senders   []*Outbox              // the connections that wait for an answer in the present delivery
	own       []byte
	batch     *remoteBatch // nil: this Fan has had nothing for other nodes yet

	Delivered atomic.Uint64 // entries put into outboxes, counted for each outbox
	Hinted    atomic.Uint64 // entries that became a hint in an outbox, and hints from other nodes
	Lagged    atomic.Uint64 // entries and hints that an outbox dropped
}

// New makes a Fan over a table.
func New(t *Table) *Fan { return &Fan{Table: t} }

// Item is one outcome of a commit, in the order of the conversation: an entry, an
// answer, or both.
type Item struct {
	Row    []byte // the wire part of the entry; nil: only an answer
	Names  *Names // the users whom the entry mentions; nil: none
	Sender Origin
	Ack    wire.Ack  // the answer, unless Err is set
	Repeat bool      // with Ack: the entry was stored before; not sent to clients
	Err    *im.Error // the answer
}

// Origin is the connection that waits for an answer to a send.
type Origin struct {
	Out   *Outbox       // nil: no connection of this node waits
	ID    uint64        // of the frame
	Bytes int           // size of the send, which the answer gives back to the window
	At    time.Duration // of measure.Now, when the frame came

	Caller *Caller // another node waits; the fields above are not set
}

// Waits returns whether anybody waits for an answer.
func (g Origin) Waits() bool { return g.Out != nil || g.Caller != nil }

// Reply answers a send with ack, or, unless err is nil, with err. Somebody must wait for the answer.
func (g Origin) Reply(ack wire.Ack, err *im.Error, k *WakeUps) {
	if g.Caller != nil {
		g.Caller.reply(ack, err)
		return
	}
	m := g.Out.flusher.Meter
	if err != nil {
		m.refused(err.Code)
		g.Out.answerSend(&petrelv1.ServerFrame{Id: g.ID,
			Body: &petrelv1.ServerFrame_Error{Error: wire.ErrorFrame(err)}}, wire.Ack{}, g.Bytes, k)
		return
	}
	m.acked(k.Now() - g.At)
	ack.ID = g.ID
	g.Out.answerSend(nil, ack, g.Bytes, k)
}

// Deliver puts the items of one conversation into the outboxes of its members and answers the senders. A
// connection that sent an item gets the answer in the place of the item, and no event for it. Frames for other
// nodes, and the wake-ups of writers, wait for Flush.
//
// Deliver reads the online table, so the caller must have published the head: a session that enters the table
// after Deliver has read it finds the entry in the head. Deliver never blocks.
func (f *Fan) Deliver(tenant im.Tenant, members []im.User, items []Item) {
	f.rows, f.senders = f.rows[:0], f.senders[:0]
	for i := range items {
		it := &items[i]
		if o := it.Sender.Out; o != nil && !slices.Contains(f.senders, o) {
			f.senders = append(f.senders, o)
		} else if c := it.Sender.Caller; c != nil {
			f.batchFor(c.Nodes).addAnswer(c, Answer{it.Ack, it.Repeat, it.Err}, len(f.rows), it.Row != nil)
		}
		if it.Row != nil {
			if it.Names != nil {
				f.named.add(it.Names, len(f.rows), it.Row)
			}
			f.rows = append(f.rows, it.Row)
		}
	}
	if n := len(f.rows); n > 0 {
		f.newest = newestRow{row: f.rows[n-1]}
		f.deliverToOthers(tenant, members)
	}
	if f.batch != nil {
		f.batch.packDelivery(tenant, f.rows, &f.newest, &f.named)
	}
	for _, o := range f.senders {
		f.deliverToSender(o, o.Account.Tenant == tenant && slices.Contains(members, o.Account.User), items)
	}
	f.newest = newestRow{}
	if len(f.named.all) > 0 {
		f.named.reset()
	}
}

// deliveryCount counts the outcomes of the entries of one delivery.
type deliveryCount struct{ delivered, hinted, lagged int }

func (f *Fan) count(c deliveryCount) {
	f.Delivered.Add(uint64(c.delivered))
	f.Lagged.Add(uint64(c.lagged))
	if c.hinted > 0 {
		f.Hinted.Add(uint64(c.hinted))
	}
}

// pushTo pushes b, an Events frame with some rows of the delivery, to o, or a hint in its place.
// from is the index of the first of these rows, and entries is their number. c counts the outcome.
func (f *Fan) pushTo(o *Outbox, b []byte, shared bool, from, entries int, c *deliveryCount) {
	var named *namedRows
	if len(f.named.all) > 0 {
		named = f.named.of(o.Account.User, from, entries)
	}
	switch pushed, hinted := o.push(b, &f.newest, named, shared, &f.wakeUps); {
	case pushed:
		c.delivered += entries
	case hinted:
		c.hinted += entries
	default:
		c.lagged += entries
	}
}

// deliverToOthers delivers the rows to the members' connections here that sent none of the items, and adds to
// the batch the members who are online at other nodes.
func (f *Fan) deliverToOthers(tenant im.Tenant, members []im.User) {
	var c deliveryCount
	batch := f.beginRecipients()
	for _, u := range members {
		a := im.Account{Tenant: tenant, User: u}
		h := f.Table.hash(a)
		if batch != nil {
			batch.addRecipient(u, h)
		}
		for _, o := range f.Table.of(a, h) {
			if slices.Contains(f.senders, o) {
				continue
			}
			i := o.enc.Index()
			if f.encoded[i] == nil {
				f.encoded[i] = wire.AppendEvents(nil, o.enc, f.rows)
			}
			b := f.encoded[i]
			// Announce once for all: otherwise each of these outboxes would make its own copy with the
			// announcement.
			if o.Large && len(b) > wire.LargeFrame {
				if f.announced[i] == nil {
					f.announced[i] = wire.AnnounceLarge(b, o.enc.Codec)
				}
				b = f.announced[i]
			}
			f.pushTo(o, b, true, 0, len(f.rows), &c)
		}
	}
	f.encoded, f.announced = [wire.Encodings][]byte{}, [wire.Encodings][]byte{}
	f.count(c)
}

// deliverToSender gives o its answers and, if its user is a member, the entries of
// others between them.
func (f *Fan) deliverToSender(o *Outbox, member bool, items []Item) {
	var c deliveryCount
	from, to := 0, 0 // the rows from:to are of others, and not delivered yet
	flush := func() {
		if from < to {
			f.own = wire.AppendEvents(f.own[:0], o.enc, f.rows[from:to])
			f.pushTo(o, f.own, false, from, to-from, &c)
		}
		from = to
	}
	for i := range items {
		it := &items[i]
		own := it.Sender.Out == o
		if own || !member {
			flush()
		}
		if it.Row != nil {
			to++
		}
		if own {
			it.Sender.Reply(it.Ack, it.Err, &f.wakeUps)
		}
		if own || !member { // the row is not for o
			from = to
		}
	}
	flush()
	f.count(c)
}

// hintHere gives a hint to users on this node. named has the entries that mention some of them.
func (f *Fan) hintHere(tenant im.Tenant, users []im.User, h hint, named *named) {
	hinted, lagged := 0, 0
	for _, u := range users {
		h.mention = named.newestOf(u)
		for _, o := range f.Table.Of(im.Account{Tenant: tenant, User: u}) {
			if o.pushHint(h, &f.wakeUps) {
				hinted++
			} else {
				lagged++
			}
		}
	}
	f.Hinted.Add(uint64(hinted))
	f.Lagged.Add(uint64(lagged))
}

// Reaches tells whether any of users is online, here or at another node, so that Deliver would have a
// recipient. Like Deliver, it counts as a choice of recipients: if a user was already online at another node,
// and the announcement comes after this call, the sessions of that user have to sync.
func (f *Fan) Reaches(tenant im.Tenant, users []im.User) bool {
	if f.Remote != nil {
		f.Remote.noteRecipientsChosen()
	}
	return slices.ContainsFunc(users, func(u im.User) bool {
		a := im.Account{Tenant: tenant, User: u}
		h := f.Table.hash(a)
		return len(f.Table.of(a, h)) > 0 || f.Remote != nil && f.Remote.online.nodesOf(h) != 0
	})
}

// beginRecipients notes that this process chooses recipients of entries now. It returns the batch for the
// recipients at other nodes; nil: there are no other nodes now.
func (f *Fan) beginRecipients() *remoteBatch {
	if f.Remote == nil {
		return nil
	}
	f.Remote.noteRecipientsChosen()
	return f.remoteBatch()
}

// remoteBatch returns the batch for other nodes; nil: there are none now.
func (f *Fan) remoteBatch() *remoteBatch {
	if f.Remote == nil || f.Remote.joined.Load() == 0 {
		return nil
	}
	return f.batchFor(f.Remote)
}

func (f *Fan) batchFor(n *Nodes) *remoteBatch {
	if f.batch == nil {
		f.batch = &remoteBatch{nodes: n}
	}
	return f.batch
}

// Flush sends the deliveries for other nodes, and wakes the writers of the outboxes that were
// filled here.
func (f *Fan) Flush() {
	if f.batch != nil {
		f.batch.flush()
	}
	f.wakeUps.Flush()
}
