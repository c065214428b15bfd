package fanout

import (
	"github.com/petrel-im/petrel/internal/cluster/clusterpb"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// handleDelivery delivers what a node has for users here. It runs in the order
// of that node's frames, so every session sees what it would see if its
// conversation were owned here. Writers are woken behind all frames that came
// together.
func (n *Nodes) handleDelivery(from im.Node, payload []byte) {
	var m clusterpb.Delivery
	err := m.UnmarshalVTUnsafe(payload)
	if err != nil || len(m.Conv) != len(im.ConvID{}) {
		n.garbled(from, "delivery", err)
		return
	}
	n.Told.Add(1)
	p := n.node(from)
	key := im.Key{Tenant: im.Tenant(m.Tenant), Conv: im.ConvID(m.Conv)}
	if len(m.Rows) == 0 && len(m.Answers) == 0 {
		n.Hints.Add(1)
		p.fan.hintTo(key.Tenant, p.usersOf(m.Users), hint{key.Conv, m.Head, m.Counted})
		n.lost(from, key)
	} else {
		p.fan.Deliver(key.Tenant, p.usersOf(m.Users), n.itemsOf(p, &m))
		clear(p.items) // or the payload would live until the next one
	}
}

// usersOf are the users of the frame at hand.
func (p *node) usersOf(names []string) []im.User {
	p.users = p.users[:0]
	for _, u := range names {
		p.users = append(p.users, im.User(u))
	}
	return p.users
}

// itemsOf are the items of the frame at hand.
func (n *Nodes) itemsOf(p *node, m *clusterpb.Delivery) []Item {
	items, row := p.items[:0], 0
	for _, a := range m.Answers {
		for ; row < min(int(a.At), len(m.Rows)); row++ {
			items = append(items, Item{Row: m.Rows[row]})
		}
		got := answerOf(a)
		it := Item{Ack: got.Ack, Repeat: got.Repeat, Err: got.Err}
		if a.Own && row < len(m.Rows) {
			it.Row = m.Rows[row]
			row++
		}
		if n.Answered != nil {
			if o, ok := n.Answered(p.id, a.Ticket, got); ok {
				it.Sender = o
			}
		}
		items = append(items, it)
	}
	for ; row < len(m.Rows); row++ {
		items = append(items, Item{Row: m.Rows[row]})
	}
	p.items = items
	return items
}

// hintTo tells users that a conversation has moved: by a hint those who
// understand it, the others have to sync.
func (f *Fan) hintTo(tenant im.Tenant, users []im.User, h hint) {
	hinted, lagged := 0, 0
	for _, u := range users {
		for _, o := range f.Table.Of(im.Account{Tenant: tenant, User: u}) {
			if o.pushHint(h, &f.kicks) {
				hinted++
			} else {
				lagged++
			}
		}
	}
	f.Hinted.Add(uint64(hinted))
	f.Lagged.Add(uint64(lagged))
}

// pushHint adds a hint; false: the client has to sync, or is about to.
func (o *Outbox) pushHint(h hint, k *Kicks) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.deafLocked(k):
		return false
	case !o.Hints || h.conv.Kind() == im.Inbox:
		o.lagLocked(k)
		return false
	}
	return o.hintLocked(h, k)
}

// handleReceipts tells users here of receipts.
func (n *Nodes) handleReceipts(from im.Node, payload []byte) {
	var m clusterpb.Receipts
	err := m.UnmarshalVTUnsafe(payload)
	if err != nil || len(m.Conv) != len(im.ConvID{}) {
		n.garbled(from, "receipts", err)
		return
	}
	p := n.node(from)
	key := im.Key{Tenant: im.Tenant(m.Tenant), Conv: im.ConvID(m.Conv)}
	id := key.Conv.String()
	p.receipts = p.receipts[:0]
	for _, r := range m.Receipts {
		got := Receipt{Receipt: &petrelv1.Receipt{Conv: id, User: r.User, Delivered: r.Delivered, Read: r.Read}}
		for _, id := range r.Askers {
			got.Origins = append(got.Origins, Asker{ID: id})
		}
		p.receipts = append(p.receipts, got)
	}
	p.fan.Receipts(key, p.usersOf(m.Users), p.receipts)
}
