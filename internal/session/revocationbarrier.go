package session

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/petrel-im/petrel/internal/bus"
	"github.com/petrel-im/petrel/internal/bus/stream"
	"github.com/petrel-im/petrel/internal/cluster"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/session/sessionpb"
	"github.com/petrel-im/petrel/internal/wake"
)

const (
	barrierEvery = 500 * time.Millisecond

	// maxSilence is how long a node may leave barriers unanswered. Then all sessions are rechecked.
	maxSilence = 2 * time.Second
)

// barrier makes sure that within 5 s of a revocation nothing more reaches the sessions of the revoked tokens, on
// whichever node they are (P-11.5).
//
// A node that revokes tokens ends their sessions by a request to all nodes (close.go). The node may die before
// the request, or the request may be lost. So the node also announces the account to all nodes, through the
// numbered streams, and every node then rechecks the sessions of that account (sessionrechecks.go).
//
// A node must notice a lost announcement. Twice a second it sends a barrier into the streams to all other nodes.
// A stream keeps its order, so the answer to a barrier proves that all revocations which the other node announced
// earlier have been applied here. A node announces a revocation as soon as the store has answered the write, or
// when it gives the write up, after the timeout of the store (user.Users.change). If the node dies in between, it
// answers no barrier. While a node does not answer, all sessions are rechecked. While the store does not answer
// either, sessions get nothing (fanout.Revocations).
type barrier struct {
	streams     *stream.Streams
	otherNodes  func() []im.Node
	rechecks    *rechecker
	revocations *fanout.Revocations
	log         *slog.Logger

	mu           sync.Mutex                // tier 0; guards the fields below
	asked        []im.Node                 // the nodes that must answer barriers
	hadHeartbeat map[im.Node]bool          // nodes on the bus whose heartbeat was seen since they joined it
	answered     map[im.Node]time.Duration // by node: when this one sent the newest barrier that the node has answered
	incarnations map[im.Node]uint64        // the last known process of each node
}

func newBarrier(s *stream.Streams, otherNodes func() []im.Node, rechecks *rechecker, r *fanout.Revocations,
	log *slog.Logger) *barrier {
	b := &barrier{
		streams: s, otherNodes: otherNodes, rechecks: rechecks, revocations: r, log: log,
		hadHeartbeat: map[im.Node]bool{}, answered: map[im.Node]time.Duration{}, incarnations: map[im.Node]uint64{},
	}
	s.Handle(cluster.KindRevocations, b.handle)
	s.OnPeer(b.onPeer)
	s.OnReset(func(im.Node) { rechecks.everybody() })
	return b
}

// tellOthers has the other nodes recheck the sessions of an account.
func (b *barrier) tellOthers(a im.Account) {
	payload := encode(&sessionpb.Revocations{Recheck: encodeAccount(a)})
	hint := stream.Hint{Kind: cluster.KindRevocations, Key: string(payload), Payload: payload}
	for _, p := range b.streams.Peers() {
		b.send(p.Node, payload, hint)
	}
}

// send gives a frame to the stream to a node. If there is no stream to it, nothing is
// lost: that node rechecks all its sessions when a stream begins.
func (b *barrier) send(to im.Node, payload []byte, hint stream.Hint) {
	if _, err := b.streams.Send(to, cluster.KindRevocations, payload, hint); err != nil &&
		!errors.Is(err, bus.ErrNoNode) {
		b.log.Error("send revocations to another node failed", "node", to, "err", err)
	}
}

// repeated is the hint of barriers and of their answers. The stream may drop the frame: the next barrier asks the
// same.
var repeated = stream.Hint{Optional: true}

func (b *barrier) handle(from im.Node, payload []byte) {
	var m sessionpb.Revocations
	if err := m.UnmarshalVT(payload); err != nil {
		b.log.Error("read frame of another node failed: the releases of the two nodes differ by more than one", "node",
			from, "frame", "revocations", "err", err)
		return
	}
	if m.Recheck != nil {
		b.rechecks.account(decodeAccount(m.Recheck))
	}
	if m.Barrier != 0 {
		b.send(from, encode(&sessionpb.Revocations{Answer: m.Barrier}), repeated)
	}
	if m.Answer != 0 {
		b.mu.Lock()
		b.answered[from] = max(b.answered[from], min(time.Duration(m.Answer), b.revocations.Now()))
		b.advanceLocked()
		b.mu.Unlock()
	}
}

// advanceLocked notes the moment up to which all revocations are known. It takes the newest barrier that
// each asked node has answered: the moment is when the oldest of these barriers was sent. While a sweep is
// wanted, it does nothing until the store has answered a recheck that began after the sweep was wanted.
func (b *barrier) advanceLocked() {
	if wanted := b.rechecks.sweepWanted.Load(); wanted != 0 && b.rechecks.storeAnswered.Load() < wanted {
		return
	}
	at := b.revocations.Now()
	for _, n := range b.asked {
		at = min(at, b.answered[n])
	}
	b.revocations.Advance(at)
}

// onPeer is called when the streams with a node begin or end. If they begin again with the same process,
// announcements between the two streams are lost: all sessions are in doubt. A new process does not know which
// tokens its former process revoked just before it died, but the store does: all sessions are rechecked.
func (b *barrier) onPeer(id im.Node, up bool) {
	if !up {
		return
	}
	for _, p := range b.streams.Peers() {
		if p.Node != id || p.Incarnation == 0 {
			continue
		}
		b.mu.Lock()
		same := b.incarnations[id] == p.Incarnation
		b.incarnations[id] = p.Incarnation
		if !same {
			delete(b.hadHeartbeat, id)
		}
		b.mu.Unlock()
		if same {
			b.rechecks.everybody()
		} else {
			b.rechecks.sweepSoon()
		}
	}
}

// nodesToAsk returns the nodes that may revoke tokens: those with a heartbeat,
// and those on the bus whose heartbeat was not seen yet. The latter matter
// while heartbeats cannot be read, because the store does not answer.
func (b *barrier) nodesToAsk(onBus []im.Node) []im.Node {
	nodes := slices.Clone(b.otherNodes())
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, n := range nodes {
		b.hadHeartbeat[n] = true
	}
	maps.DeleteFunc(b.hadHeartbeat, func(n im.Node, _ bool) bool { return !slices.Contains(onBus, n) })
	for _, n := range onBus {
		if !b.hadHeartbeat[n] {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// run sends barriers to the other nodes until ctx ends.
func (b *barrier) run(ctx context.Context, onBus bus.Bus) {
	for {
		nodes := b.nodesToAsk(onBus.Peers())
		now := b.revocations.Now()
		b.mu.Lock()
		if slices.ContainsFunc(b.asked, func(n im.Node) bool { return !slices.Contains(nodes, n) }) {
			// A node has died. It may have revoked tokens without an announcement.
			b.rechecks.wantSweep()
		}
		b.asked = nodes
		b.advanceLocked()
		b.mu.Unlock()
		if b.rechecks.sweepWanted.Load() != 0 || now-b.revocations.KnownUntil() > maxSilence {
			wake.Set(b.rechecks.sweep)
		}
		question := encode(&sessionpb.Revocations{Barrier: uint64(max(now, 1))})
		for _, n := range nodes {
			b.send(n, question, repeated)
		}
		if !pause(ctx, barrierEvery) {
			return
		}
	}
}
