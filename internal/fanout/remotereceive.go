package fanout

import (
	"github.com/petrel-im/petrel/internal/cluster/clusterpb"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// receiver delivers the frames of one other node to the users on this node. The frames of one node
// are handled one after the other, so a session gets its events in the order in which it would get
// them if this node owned the conversation.
type receiver struct {
	fan Fan

	// Of the present frame; kept to be used again.
	items    []Item
	users    []im.User
	receipts []Receipt
}

func newReceiver(t *Table) receiver { return receiver{fan: Fan{Table: t}} }

// handleDelivery delivers entries and answers, or, in place of frames that were not
// kept, a hint. Writers are woken after all frames that came together.
func (n *Nodes) handleDelivery(from im.Node, payload []byte) {
	var m clusterpb.Delivery
	err := m.UnmarshalVTUnsafe(payload)
	if err != nil || len(m.Conv) != len(im.ConvID{}) {
		n.garbled(from, "delivery", err)
		return
	}
	n.Frames.Add(1)
	r := &n.node(from).receiver
	key := im.Key{Tenant: im.Tenant(m.Tenant), Conv: im.ConvID(m.Conv)}
	if len(m.Rows) == 0 && len(m.Answers) == 0 {
		n.Hints.Add(1)
		var all named
		for _, x := range m.Names {
			all.add(namesOf(x), int(x.Row), nil)
		}
		r.fan.hintHere(key.Tenant, r.usersOf(m.Users), hint{conv: key.Conv, head: m.Head, counted: m.Counted}, &all)
		n.lost(from, key)
	} else {
		r.fan.Deliver(key.Tenant, r.usersOf(m.Users), n.itemsOf(r, from, &m))
		clear(r.items) // otherwise the payload stays in memory until the next frame
	}
}

func (r *receiver) usersOf(names []string) []im.User {
	r.users = r.users[:0]
	for _, u := range names {
		r.users = append(r.users, im.User(u))
	}
	return r.users
}

// itemsOf puts the rows and the answers of a frame into one list, each answer in its order among
// the rows.
func (n *Nodes) itemsOf(r *receiver, from im.Node, m *clusterpb.Delivery) []Item {
	items, row := r.items[:0], 0
	for _, a := range m.Answers {
		for ; row < min(int(a.At), len(m.Rows)); row++ {
			items = append(items, Item{Row: m.Rows[row]})
		}
		got, it := decodeAnswer(a), Item{}
		if a.Own && row < len(m.Rows) {
			it.Row = m.Rows[row]
			row++
		}
		if n.Answered != nil {
			if o, ok := n.Answered(from, a.Ticket, &got); ok {
				it.Sender = o
			}
		}
		it.Ack, it.Repeat, it.Err = got.Ack, got.Repeat, got.Err
		items = append(items, it)
	}
	for ; row < len(m.Rows); row++ {
		items = append(items, Item{Row: m.Rows[row]})
	}
	for _, x := range m.Names {
		giveNames(items, x)
	}
	r.items = items
	return items
}

// giveNames sets Names of the item with row number x.Row of the frame.
func giveNames(items []Item, x *clusterpb.Names) {
	row := uint32(0)
	for i := range items {
		if items[i].Row == nil {
			continue
		}
		if row == x.Row {
			items[i].Names = namesOf(x)
			return
		}
		row++
	}
}

func namesOf(x *clusterpb.Names) *Names {
	return &Names{Seq: x.Seq, Users: x.Users, All: x.All, But: im.User(x.But)}
}

// handleReceipts delivers receipts of another node to users on this node.
func (n *Nodes) handleReceipts(from im.Node, payload []byte) {
	var m clusterpb.Receipts
	err := m.UnmarshalVTUnsafe(payload)
	if err != nil || len(m.Conv) != len(im.ConvID{}) {
		n.garbled(from, "receipts", err)
		return
	}
	r := &n.node(from).receiver
	key := im.Key{Tenant: im.Tenant(m.Tenant), Conv: im.ConvID(m.Conv)}
	id := key.Conv.String()
	r.receipts = r.receipts[:0]
	for _, x := range m.Receipts {
		got := Receipt{Receipt: &petrelv1.Receipt{Conv: id, User: x.User, Delivered: x.Delivered, Read: x.Read}}
		for _, id := range x.Askers {
			got.Origins = append(got.Origins, Asker{ID: id})
		}
		r.receipts = append(r.receipts, got)
	}
	r.fan.Receipts(key, r.usersOf(m.Users), r.receipts)
}
