package app

import (
	"context"
	"sync"
	"time"

	"github.com/petrel-im/petrel/internal/bus"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
)

// ErrRewound is returned by Run when a client has proved that the store has gone
// back to an earlier state.
var ErrRewound = store.ErrRewound

// ErrDamaged is in the error of New and Run when a part of the store that they need
// cannot be read.
var ErrDamaged = store.ErrCorrupt

// refuted is the subject of the message that ends all nodes: the store that they
// share has gone back to an earlier state.
const refuted bus.Subject = "refuted"

// refuteTime is how long a node waits until the others have stopped. A node that
// does not answer meets the note in the store.
const refuteTime = 300 * time.Millisecond

// refute stops this node and all others. Spec: P-6.8.
func (a *App) refute(proof string) {
	ctx, cancel := context.WithTimeout(context.Background(), refuteTime)
	defer cancel()
	var wg sync.WaitGroup
	for _, to := range a.node.bus.Peers() {
		wg.Go(func() {
			if _, err := a.node.bus.Request(ctx, to, refuted, []byte(proof)); err != nil {
				a.log.Warn("tell a node that the store is an earlier state failed", "node", string(to), "err", err)
			}
		})
	}
	wg.Wait()
	a.store.Refute(proof)
}

// hearRefuted stops this node. It answers at once: the note may take longer.
func (a *App) hearRefuted(_ im.Node, payload []byte, reply func([]byte)) {
	if reply != nil {
		reply(nil)
	}
	a.store.Refute(string(payload))
}
