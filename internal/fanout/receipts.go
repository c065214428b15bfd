package fanout

import (
	"slices"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Receipt is a cursor that has moved.
type Receipt struct {
	*petrelv1.Receipt
	Origins []Asker // that learn of it by the answer to their move
}

// Asker is a session that asked for something.
type Asker struct {
	Node im.Node // where it is; empty: here
	ID   uint64  // of its Outbox
}

// Receipts tells users how far others, or themselves, are in one conversation.
// Only sessions with the capability hear of it, and one that has no room, or
// has the conversation out of its focus, only of its own user's: a lost receipt
// is no gap. Like Deliver it is for who publishes. Spec: P-8.6.
func (f *Fan) Receipts(key im.Key, to []im.User, receipts []Receipt) {
	if len(receipts) == 0 {
		return
	}
	var encoded [wire.Encodings][]byte
	remote := f.remote()
	for _, u := range to {
		a := im.Account{Tenant: key.Tenant, User: u}
		h := f.Table.hash(a)
		if remote != nil {
			f.address(remote, u, h)
		}
		for _, o := range f.Table.at(h, a) {
			if !o.Receipts || len(receipts) == 1 && slices.Contains(receipts[0].Origins, Asker{ID: o.ID}) {
				continue
			}
			i := o.enc.Index()
			if encoded[i] == nil {
				encoded[i] = wire.AppendFrame(nil, o.enc, receiptsFrame(receipts))
			}
			own := slices.ContainsFunc(receipts, func(r Receipt) bool { return r.User == string(u) })
			o.pushReceipts(encoded[i], key.Conv, own, &f.kicks)
		}
	}
	if f.far != nil && f.far.used != 0 {
		f.packReceipts(key, receipts)
	}
}

func receiptsFrame(receipts []Receipt) *petrelv1.ServerFrame {
	e := &petrelv1.Events{Receipts: make([]*petrelv1.Receipt, len(receipts))}
	for i := range receipts {
		e.Receipts[i] = receipts[i].Receipt
	}
	return &petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Events{Events: e}}
}

// pushReceipts adds encoded receipts, which all outboxes share, if there is
// room.
func (o *Outbox) pushReceipts(b []byte, id im.ConvID, own bool, k *Kicks) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.deafLocked(k) || !own && !o.focus.has(id) || !o.roomLocked(len(b)) {
		return
	}
	o.addLocked(b, true)
	o.markLocked(k)
}
