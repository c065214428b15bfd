// Package fanout copies committed entries to the outboxes of those who are
// online: recipients by the online table, one encoding per codec and framing,
// one wake-up per writer and commit.
package fanout

import (
	"slices"
	"sync/atomic"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Fan delivers. Deliver, Receipts and Flush are for one goroutine at a time, the
// one that publishes commits.
type Fan struct {
	Table  *Table
	Remote *Nodes // nil: there are no other nodes

	kicks   Kicks
	encoded [wire.Encodings][]byte // the entries of the delivery at hand
	rows    [][]byte
	senders []*Outbox
	own     []byte
	items   []Item // of the delivery at hand
	newest  hint   // of these; head 0: not looked up yet
	far     *far   // nil: there was nothing for other nodes yet

	Delivered atomic.Uint64 // events put into outboxes
	Hinted    atomic.Uint64 // events told by a hint
	Lagged    atomic.Uint64 // events refused by an outbox
}

// New makes a Fan over a table.
func New(t *Table) *Fan { return &Fan{Table: t} }

// Item is one outcome of a commit, in the order of the conversation: an entry,
// an answer, or both.
type Item struct {
	Row    []byte // the wire part of the entry; nil: only an answer
	Sender Origin
	Ack    wire.Ack  // the answer, unless Err is set
	Repeat bool      // with Ack: the entry was stored before; only other nodes are told
	Err    *im.Error // the answer
}

// Origin is the connection that waits for an answer.
type Origin struct {
	Out   *Outbox // nil: nobody waits on a connection of this node
	ID    uint64  // of the frame
	Bytes int     // that the answer gives back to the window

	Caller *Caller // instead of all these: another node waits
}

// Waits tells whether anybody does.
func (g Origin) Waits() bool { return g.Out != nil || g.Caller != nil }

// Reply answers the origin of a send.
func (g Origin) Reply(ack wire.Ack, err *im.Error, k *Kicks) {
	if g.Caller != nil {
		g.Caller.reply(ack, err)
		return
	}
	if err != nil {
		g.Out.answerSend(&petrelv1.ServerFrame{Id: g.ID, Body: &petrelv1.ServerFrame_Error{Error: wire.ErrorFrame(err)}}, wire.Ack{}, g.Bytes, k)
		return
	}
	ack.ID = g.ID
	g.Out.answerSend(nil, ack, g.Bytes, k)
}

// Deliver puts the items of one conversation into the outboxes of its members
// and answers the senders. It reads the online table, so the caller has
// published the head before. A connection that sent an item gets the answer in
// the item's place and no event for it. Nothing blocks.
func (f *Fan) Deliver(tenant im.Tenant, members []im.User, items []Item) {
	f.rows, f.senders = f.rows[:0], f.senders[:0]
	f.items, f.newest = items, hint{}
	for i := range items {
		if items[i].Row != nil {
			f.rows = append(f.rows, items[i].Row)
		}
		if o := items[i].Sender.Out; o != nil && !slices.Contains(f.senders, o) {
			f.senders = append(f.senders, o)
		} else if c := items[i].Sender.Caller; c != nil {
			f.addressCaller(c)
		}
	}
	if len(f.rows) > 0 {
		f.deliverToOthers(tenant, members)
	}
	if f.far != nil && f.far.used != 0 {
		f.pack(tenant)
	}
	for _, o := range f.senders {
		f.deliverToSender(o, o.Account.Tenant == tenant && slices.Contains(members, o.Account.User), items)
	}
	f.items = nil
}

// tally counts what became of the entries of one delivery.
type tally struct{ delivered, hinted, lagged int }

func (f *Fan) count(t tally) {
	f.Delivered.Add(uint64(t.delivered))
	f.Lagged.Add(uint64(t.lagged))
	if t.hinted > 0 {
		f.Hinted.Add(uint64(t.hinted))
	}
}

// give pushes encoded entries to o, or tells it of them in its own way.
func (f *Fan) give(o *Outbox, b []byte, shared bool, entries int, t *tally) {
	var pushed, hinted bool
	if o.Hints {
		pushed, hinted = o.pushOrHint(f, b, shared, &f.kicks)
	} else {
		pushed = o.push(b, shared, &f.kicks)
	}
	switch {
	case pushed:
		t.delivered += entries
	case hinted:
		t.hinted += entries
	default:
		t.lagged += entries
	}
}

func (f *Fan) deliverToOthers(tenant im.Tenant, members []im.User) {
	var t tally
	remote := f.choose()
	for _, u := range members {
		a := im.Account{Tenant: tenant, User: u}
		h := f.Table.hash(a)
		if remote != nil {
			f.address(remote, u, h)
		}
		for _, o := range f.Table.at(h, a) {
			if slices.Contains(f.senders, o) {
				continue
			}
			i := o.enc.Index()
			if f.encoded[i] == nil {
				f.encoded[i] = wire.AppendEvents(nil, o.enc, f.rows)
			}
			f.give(o, f.encoded[i], true, len(f.rows), &t)
		}
	}
	f.encoded = [wire.Encodings][]byte{}
	f.count(t)
}

// choose notes that recipients are chosen from here on, and returns the nodes
// where there may be some.
func (f *Fan) choose() *Nodes {
	if f.Remote != nil && !f.Remote.chosen.Load() {
		f.Remote.chosen.Store(true)
	}
	return f.remote()
}

// deliverToSender gives o its answers and, if it is a member's, the entries of
// others between them.
func (f *Fan) deliverToSender(o *Outbox, member bool, items []Item) {
	var t tally
	others := f.rows[:0]
	flush := func() {
		if len(others) == 0 {
			return
		}
		f.own = wire.AppendEvents(f.own[:0], o.enc, others)
		f.give(o, f.own, false, len(others), &t)
		others = others[:0]
	}
	for i := range items {
		it := &items[i]
		if it.Sender.Out == o {
			flush()
			it.Sender.Reply(it.Ack, it.Err, &f.kicks)
		} else if it.Row != nil && member {
			others = append(others, it.Row)
		}
	}
	flush()
	f.count(t)
}

// Flush sends what other nodes get, and wakes the writers of everything that
// was delivered here.
func (f *Fan) Flush() {
	if f.far != nil {
		for i := range f.far.frames {
			f.far.nodes.dispatch(f.far.frames[i])
		}
		clear(f.far.frames)
		f.far.frames = f.far.frames[:0]
	}
	f.kicks.Flush()
}
