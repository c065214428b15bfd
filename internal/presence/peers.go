package presence

import (
	"context"
	"errors"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/user"
)

const (
	fewPeers = 8    // that are looked up one by one
	maxPeers = 1000 // of one watcher that one read returns
)

// readPeers sets the field sees of each of asks: true if the user shows themselves to peers and has written to
// the watcher. asks are ascending by user. Spec: P-13.6.
func (p *Presence) readPeers(ctx context.Context, watcher im.Account, asks []*reading) error {
	if len(asks) > fewPeers {
		rest, err := p.scanPeers(ctx, watcher, asks)
		if err != nil {
			return err
		}
		asks = rest
	}
	for _, r := range asks {
		v, err := p.o.Store.Record(ctx, store.Peers, watcher.Tenant, im.PairKey(watcher.User, r.t.account.User))
		if err != nil && !errors.Is(err, store.ErrCorrupt) { // a retry would find the same damage
			return err
		}
		r.sees = v != nil && r.policy == user.ToPeers
	}
	return nil
}

// scanPeers does what readPeers does, with one read. It returns the asks that it could not
// decide, because the watcher has more peers than one read returns, or because of damage.
func (p *Presence) scanPeers(ctx context.Context, watcher im.Account, asks []*reading) (rest []*reading, err error) {
	prefix := im.PairKey(watcher.User, "")
	n, next := 0, 0
	err = p.o.Store.Records(ctx, store.Peers, watcher.Tenant, prefix, func(key, _ []byte) bool {
		key = key[len(prefix):]
		for next < len(asks) && string(asks[next].t.account.User) < string(key) {
			next++
		}
		if next < len(asks) && string(asks[next].t.account.User) == string(key) {
			asks[next].sees = asks[next].policy == user.ToPeers
			next++
		}
		n++
		return next < len(asks) && n < maxPeers
	})
	switch {
	case errors.Is(err, store.ErrCorrupt):
		return asks[next:], nil
	case err != nil || n < maxPeers:
		return nil, err
	}
	return asks[next:], nil
}

// recheckPeer asks the store again for the sessions of a watcher that may not see t, that are not told of the profile,
// or whose standing was read. It is called when t has written to the watcher, or t's contacts have changed.
func (p *Presence) recheckPeer(t *target, watcher im.User) {
	t.pairs++
	for _, x := range t.watchers {
		if x.w.out.Account.User == watcher && (x.view == hidden || !x.told || x.standing != unread) {
			p.askFor(question{x.w, x})
		}
	}
}
