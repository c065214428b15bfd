package app

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/petrel-im/petrel/internal/bus"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
)

// ErrRewound is in the error of Run when a client or another node has proved that the store has gone back to an
// earlier state.
var ErrRewound = store.ErrRewound

// ErrDamaged is in the error of New and Run when a part of the store that they need
// cannot be read.
var ErrDamaged = store.ErrCorrupt

// refuteTime bounds how long this node waits for the answers of the
// others. A node that does not answer finds the note in the store.
const refuteTime = 300 * time.Millisecond

// refutations tell the other nodes to stop, because the store that they
// share has gone back to an earlier state. The string names the evidence.
var refutations = bus.Request[*wrapperspb.StringValue, *emptypb.Empty]{Subject: "refuted", Timeout: refuteTime}

// refute stops this node and all others. Spec: P-6.8.
func (a *App) refute(proof string) {
	for _, r := range refutations.AskAll(context.Background(), a.node.bus, a.node.bus.Peers(),
		wrapperspb.String(proof)) {
		if r.Err != nil {
			a.log.Warn("tell a node that the store is an earlier state failed", "node", string(r.Node), "err", r.Err)
		}
	}
	a.store.Refute(proof)
}

// hearRefuted stops this node. It answers first, because writing the note may take longer than refuteTime.
func (a *App) hearRefuted(_ im.Node, proof *wrapperspb.StringValue, reply func(*emptypb.Empty, error)) {
	reply(&emptypb.Empty{}, nil)
	a.store.Refute(proof.Value)
}
