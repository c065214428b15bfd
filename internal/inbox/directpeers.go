package inbox

import (
	"context"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
)

// The record of a direct conversation says which of its users have sent a message. The consumer of its feed
// carries that, at least once, into the table Peers. There, one read finds which of many users have written
// to a user. Spec: P-13.6.

// peer is a user who has written to another one.
type peer struct {
	from im.Account
	to   im.User
}

// peers returns the users of a direct conversation who have written.
func (c *Consumer) peers(ctx context.Context, key im.Key) ([]peer, error) {
	rec, err := c.owner.Record(ctx, conv.Query{Conv: key}, nil)
	if err != nil && im.CodeOf(err) == im.CodeNoConversation {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []peer
	for i, u := range rec.Users {
		if other := rec.Users[1-i]; other != u && rec.Wrote&(1<<i) != 0 {
			all = append(all, peer{im.Account{Tenant: key.Tenant, User: im.User(u)}, im.User(other)})
		}
	}
	return all, nil
}

// notePeers stores pairs of a writer and a reader, and calls Hooks.Wrote.
func (c *Consumer) notePeers(ctx context.Context, peers []peer) error {
	if len(peers) == 0 {
		return nil
	}
	puts := make([]store.RecordPut, len(peers))
	for i, x := range peers {
		puts[i] = store.RecordPut{Table: store.Peers, Tenant: x.from.Tenant, Key: im.PairKey(x.to, x.from.User),
			Value: []byte{1}}
	}
	if err := c.store.Update(ctx, puts); err != nil {
		return err
	}
	for _, x := range peers {
		c.Wrote(x.from, x.to)
	}
	return nil
}
