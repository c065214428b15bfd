package fanout

import (
	"github.com/petrel-im/petrel/internal/bus/stream"
	"github.com/petrel-im/petrel/internal/cluster"
	"github.com/petrel-im/petrel/internal/cluster/clusterpb"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Notes sends users the changed notes of entries of one conversation. Only sessions with the capability, with
// the conversation in their focus, and with room get them. A lost note needs no sync: the next one of the same
// entry replaces it, and a page of history has the notes of its entries. Frames for other nodes wait for Flush.
//
// Only one goroutine at a time may call it, as with Deliver. Spec: P-5.11.
func (f *Fan) Notes(key im.Key, to []im.User, notes []*petrelv1.Note) {
	if len(notes) == 0 || len(to) == 0 {
		return
	}
	var encoded [wire.Encodings][]byte
	batch := f.remoteBatch()
	for _, u := range to {
		a := im.Account{Tenant: key.Tenant, User: u}
		h := f.Table.hash(a)
		if batch != nil {
			batch.addRecipient(u, h)
		}
		for _, o := range f.Table.of(a, h) {
			if !o.Notes {
				continue
			}
			i := o.enc.Index()
			if encoded[i] == nil {
				e := &petrelv1.Events{Notes: notes}
				encoded[i] = wire.AppendFrame(nil, o.enc,
					&petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Events{Events: e}})
			}
			o.pushNotes(encoded[i], key.Conv, &f.wakeUps)
		}
	}
	if batch != nil {
		batch.packNotes(key, notes)
	}
}

// pushNotes adds encoded notes, if there is room. Other outboxes get the same slice.
func (o *Outbox) pushNotes(b []byte, id im.ConvID, k *WakeUps) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.takesNoEventsLocked(k) || !o.focus.has(id) || !o.roomLocked(len(b)) {
		return
	}
	o.addLocked(b, true)
	o.markLocked(k)
}

// packNotes makes the frames of notes for the recipients that were added.
func (b *remoteBatch) packNotes(key im.Key, notes []*petrelv1.Note) {
	m := clusterpb.Notes{Tenant: uint32(key.Tenant), Conv: key.Conv[:]}
	for _, n := range notes {
		payload, err := n.MarshalVT()
		im.Assert(err == nil, "encode a note: %v", err)
		m.Notes = append(m.Notes, payload)
	}
	b.eachNode(func(to *node, n *nodeBatch) {
		for users := n.users; len(users) > 0; {
			fit := usersInOneFrame(users)
			m.Users, users = users[:fit], users[fit:]
			payload, err := m.MarshalVT()
			im.Assert(err == nil, "encode notes: %v", err)
			b.frames = append(b.frames, frame{to.id, cluster.KindNotes, payload, stream.Hint{Optional: true}})
		}
	})
}

// handleNotes delivers notes of another node to users on this node.
func (n *Nodes) handleNotes(from im.Node, payload []byte) {
	var m clusterpb.Notes
	err := m.UnmarshalVT(payload)
	if err != nil || len(m.Conv) != len(im.ConvID{}) {
		n.garbled(from, "notes", err)
		return
	}
	notes := make([]*petrelv1.Note, len(m.Notes))
	for i, b := range m.Notes {
		notes[i] = &petrelv1.Note{}
		if err := notes[i].UnmarshalVT(b); err != nil {
			n.garbled(from, "notes", err)
			return
		}
	}
	r := &n.node(from).receiver
	r.fan.Notes(im.Key{Tenant: im.Tenant(m.Tenant), Conv: im.ConvID(m.Conv)}, r.usersOf(m.Users), notes)
}
