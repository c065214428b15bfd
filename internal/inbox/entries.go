package inbox

import (
	"context"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/route"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Write appends one entry to a user's inbox and returns its seq when it is durable. k names the cause, in 1
// to 64 bytes: the same entry under the same k is written once, however often Write is called. Codes:
// conflict (another entry has this k), store_stalled (unknown: ctx ended), and those of conv.Convs.Submit.
// Spec: P-8.5.
func Write(ctx context.Context, cs *conv.Convs, a im.Account, e *petrelv1.InboxEntry, k string) (im.Seq, error) {
	s := &conv.Send{Conv: im.Key{Tenant: a.Tenant, Conv: cs.IDs().Inbox(a.Tenant, a.User)}, Peer: a.User, Keyed: true}
	s.Entry.ClientMsgId = k
	s.Entry.Body = &petrelv1.Message_Inbox{Inbox: e}
	return send(ctx, cs, s)
}

// eachEntry calls f for the entries of a user's inbox above last, oldest first, with their seqs and
// sizes, and returns the seq of the newest one; 0: the inbox is empty. The arguments of f are valid
// only during the call.
func eachEntry(ctx context.Context, r *route.Router, a im.Account, last im.Seq,
	f func(*petrelv1.InboxEntry, im.Seq, int)) (im.Seq, error) {
	key := im.Key{Tenant: a.Tenant, Conv: r.IDs().Inbox(a.Tenant, a.User)}
	for more := true; more; {
		p, err := route.Ask(ctx, r, conv.Query{Conv: key}, (*conv.Owner).History,
			&convpb.GetHistory{After: uint64(last)})
		if err != nil && im.CodeOf(err) == im.CodeNoConversation {
			return 0, nil // nothing was ever written
		}
		if err != nil {
			return 0, err
		}
		for _, row := range p.Rows {
			var m petrelv1.Message
			if err := wire.ParseMessage(row, &m); err != nil {
				return 0, err
			}
			last = im.Seq(m.Seq)
			f(m.GetInbox(), last, len(row))
		}
		more = p.More && len(p.Rows) > 0
	}
	return last, nil
}
