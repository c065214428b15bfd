package fanout

import (
	"slices"

	"github.com/petrel-im/petrel/internal/bus/stream"
	"github.com/petrel-im/petrel/internal/cluster"
	"github.com/petrel-im/petrel/internal/cluster/clusterpb"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Receipt says that the cursors of a member have moved.
type Receipt struct {
	*petrelv1.Receipt
	Origins []Asker // sessions that moved them and get an answer; they do not get a frame with this receipt alone
}

// Asker is the session behind a request.
type Asker struct {
	Node im.Node // where it is; empty: on this node
	ID   uint64  // of its Outbox
}

// Receipts sends users the receipts of members of one conversation. Only sessions with the capability and with
// room get them. A session that does not have the conversation in its focus gets the frame only if one of the
// receipts is of its own user. A lost receipt needs no sync: the next one of the same member replaces it.
// Frames for other nodes wait for Flush.
//
// Only one goroutine at a time may call it, as with Deliver. Spec: P-8.6.
func (f *Fan) Receipts(key im.Key, to []im.User, receipts []Receipt) {
	if len(receipts) == 0 {
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
			if !o.Receipts || len(receipts) == 1 && slices.Contains(receipts[0].Origins, Asker{ID: o.ID}) {
				continue
			}
			own := slices.IndexFunc(receipts, func(r Receipt) bool { return r.User == string(u) })
			if o.Standing().PrivateReading { // sees the own one alone. Spec: P-14.14
				if own >= 0 {
					b := wire.AppendFrame(nil, o.enc, receiptsFrame(receipts[own:own+1]))
					o.pushReceipts(b, key.Conv, true, &f.wakeUps)
				}
				continue
			}
			i := o.enc.Index()
			if encoded[i] == nil {
				encoded[i] = wire.AppendFrame(nil, o.enc, receiptsFrame(receipts))
			}
			o.pushReceipts(encoded[i], key.Conv, own >= 0, &f.wakeUps)
		}
	}
	if batch != nil {
		batch.packReceipts(key, receipts)
	}
}

func receiptsFrame(receipts []Receipt) *petrelv1.ServerFrame {
	e := &petrelv1.Events{Receipts: make([]*petrelv1.Receipt, len(receipts))}
	for i := range receipts {
		e.Receipts[i] = receipts[i].Receipt
	}
	return &petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Events{Events: e}}
}

// pushReceipts adds encoded receipts, if there is room. Other outboxes get the same
// slice. own means that one of the receipts is of the session's user.
func (o *Outbox) pushReceipts(b []byte, id im.ConvID, own bool, k *WakeUps) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.takesNoEventsLocked(k) || !own && !o.focus.has(id) || !o.roomLocked(len(b)) {
		return
	}
	o.addLocked(b, true)
	o.markLocked(k)
}

// packReceipts makes the frames of receipts for the recipients that were added.
func (b *remoteBatch) packReceipts(key im.Key, receipts []Receipt) {
	m := clusterpb.Receipts{Tenant: uint32(key.Tenant), Conv: key.Conv[:]}
	for _, r := range receipts {
		m.Receipts = append(m.Receipts, &clusterpb.Receipts_Receipt{User: r.User, Delivered: r.Delivered, Read: r.Read})
	}
	b.eachNode(func(to *node, n *nodeBatch) {
		for i, r := range receipts {
			m.Receipts[i].Askers = r.askersAt(to.id)
		}
		for users := n.users; len(users) > 0; {
			fit := usersInOneFrame(users)
			m.Users, users = users[:fit], users[fit:]
			payload, err := m.MarshalVT()
			im.Assert(err == nil, "encode receipts: %v", err)
			b.frames = append(b.frames, frame{to.id, cluster.KindReceipts, payload, stream.Hint{Optional: true}})
		}
	})
}

// askersAt returns the sessions at a node that moved the cursors.
func (r *Receipt) askersAt(id im.Node) (ids []uint64) {
	for _, a := range r.Origins {
		if a.Node == id {
			ids = append(ids, a.ID)
		}
	}
	return ids
}
