package fanout

import (
	"encoding/binary"
	"errors"

	"github.com/petrel-im/petrel/internal/bus"
	"github.com/petrel-im/petrel/internal/bus/stream"
	"github.com/petrel-im/petrel/internal/cluster"
	"github.com/petrel-im/petrel/internal/cluster/clusterpb"
	"github.com/petrel-im/petrel/internal/im"
)

// OnPresencePolicy sets the handlers of changes of presence policies. one is called for each change that
// another node announces: a is the user who is seen; watcher is the only user whom the change concerns,
// or empty if it concerns all; peer means that a has written to watcher, or has changed a contact. all is
// called when changes may have been missed. Neither handler may block. OnPresencePolicy is called before the
// streams run.
func (n *Nodes) OnPresencePolicy(one func(a im.Account, watcher im.User, peer bool), all func()) {
	n.streams.Handle(cluster.KindPresencePolicy, func(from im.Node, payload []byte) {
		var m clusterpb.PresencePolicy
		if err := m.UnmarshalVT(payload); err != nil {
			n.garbled(from, "presence policy", err)
			return
		}
		one(im.Account{Tenant: im.Tenant(m.Tenant), User: im.User(m.User)}, im.User(m.Watcher), m.Peer)
	})
	n.streams.OnReset(func(im.Node) { all() })
	n.streams.OnPeer(func(_ im.Node, up bool) {
		if up {
			all()
		}
	})
}

// TellPresencePolicy announces to all other nodes that a change concerns whether a watcher may see a user; an
// empty watcher stands for all. With peer, the user has written to the watcher, or has made or removed the watcher as
// a contact. Without peer, a block of the watcher or the user's policy has changed.
func (n *Nodes) TellPresencePolicy(a im.Account, watcher im.User, peer bool) {
	payload, err := (&clusterpb.PresencePolicy{Tenant: uint32(a.Tenant), User: string(a.User), Watcher: string(watcher),
		Peer: peer}).MarshalVT()
	im.Assert(err == nil, "encode a presence policy: %v", err)
	key := string(binary.BigEndian.AppendUint32(nil, uint32(a.Tenant))) + string(a.User) + "\x00" + string(watcher)
	if peer {
		key += "\x00"
	}
	for id := range *n.nodes.Load() {
		_, err := n.streams.Send(id, cluster.KindPresencePolicy, payload,
			stream.Hint{Kind: cluster.KindPresencePolicy, Key: key, Payload: payload})
		if err != nil && !errors.Is(err, bus.ErrNoNode) { // a node without a stream reads all anew when one begins
			n.log.Error("tell another node of a presence policy failed", "node", id, "err", err)
		}
	}
}
