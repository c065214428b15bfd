package app

import (
	"context"
	"time"

	"github.com/petrel-im/petrel/internal/cluster"
	"github.com/petrel-im/petrel/internal/im"
)

// cutOffAfter is how long a node must reach neither the store nor
// another node. Then it sends its clients to other nodes.
const cutOffAfter = 2 * time.Second

// watchWays sends the clients of this node away while it is cut off, or apart. A node that is cut off can
// neither store sends nor check who may still read, and would only refuse its clients. A node that is
// apart owns nothing and does not reach all owners. When the state is over, the node takes clients again.
func (a *App) watchWays(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var since time.Time // zero: it is not cut off
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		status := a.node.cluster.Status()
		switch cut := cutOff(a.node.cluster.Self(), status); {
		case !cut:
			since = time.Time{}
			if a.cut.Swap(false) {
				a.log.Info("node reaches the others again and takes clients")
				a.takeClients()
			}
		case since.IsZero():
			since = time.Now()
		case !a.cut.Load() && (status.Apart || time.Since(since) >= cutOffAfter):
			a.cut.Store(true)
			a.log.Warn("node is apart or cut off: its clients are sent to other nodes", "sessions", a.hub.SendAway())
		}
	}
}

// takeClients lets clients come again, unless the node is cut off, apart, drained or stopping.
func (a *App) takeClients() {
	if !a.cut.Load() && !a.away.Load() && !a.draining.Load() {
		a.hub.Resume()
	}
}

// cutOff tells whether a node is apart, or reaches neither the store nor
// any other node. It is false if no other node is known that takes clients.
func cutOff(self im.Node, s cluster.Status) bool {
	reached, others := false, false
	for _, n := range s.Nodes {
		if n.Node == self || !n.Alive {
			continue
		}
		reached = reached || n.Reachable
		others = others || n.Roles&cluster.Gateway != 0 && !n.Draining && !n.Apart
	}
	return others && (s.Apart || s.StoreGone && !reached)
}
