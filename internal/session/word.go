package session

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/petrel-im/petrel/internal/bus"
	"github.com/petrel-im/petrel/internal/bus/stream"
	"github.com/petrel-im/petrel/internal/cluster"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/sabotage"
	"github.com/petrel-im/petrel/internal/session/sessionpb"
)

// Within 5 s of a change that ends tokens nothing more reaches the sessions that
// began with them, on whichever node they are (P-11.5). Who made the change ends
// them by a request to all nodes (close.go), and tells all nodes through the
// numbered streams whose they are, behind which every node asks the store
// (again.go). A node asks all others twice a second for a word that comes behind
// all they have told: so it knows up to when it has been told of everything.
// While one of them does not answer, it asks the store about all its sessions.
// While the store does not answer either, a session gets nothing (fanout.Trust).

const (
	askEvery = 500 * time.Millisecond

	// silence is how long a node goes without the word of another one before it
	// looks at all its sessions; so often it looks again.
	silence = 2 * time.Second

	// slice is what the looks at all sessions are spread in.
	slice = 20 * time.Millisecond
)

// nodes are the other nodes.
type nodes struct {
	streams *stream.Streams // nil: there are none
	others  func() []im.Node
	sweep   chan struct{} // capacity 1; a token: all sessions are to be looked at

	mu     sync.Mutex                // tier 0; guards the fields below
	alive  []im.Node                 // whose word counts
	named  map[im.Node]bool          // on the bus, and others has said so since
	told   map[im.Node]time.Duration // up to when each has told of everything
	is     map[im.Node]uint64        // which process each was last
	wanted time.Duration             // a sweep that begins behind it is wanted; 0: none is
}

// AttachStreams connects the hub with those of the other nodes. It is called
// once, before the streams and the hub run. others are the nodes that may end
// tokens, without this one: all that live by their heartbeats, whether the bus
// has them or not. It is called twice a second.
func (h *Hub) AttachStreams(s *stream.Streams, others func() []im.Node) {
	h.nodes = nodes{streams: s, others: others, sweep: make(chan struct{}, 1), named: map[im.Node]bool{}, told: map[im.Node]time.Duration{}, is: map[im.Node]uint64{}}
	s.Handle(cluster.KindWord, h.handleWord)
	s.OnPeer(h.onPeer)
	s.OnReset(func(im.Node) { h.doubtAll() })
}

// The rules of this file that the sabotage build can break.
var (
	sabotageTellsNobody   = sabotage.On("tell-nobody")
	sabotageTrustsSilence = sabotage.On("trust-silence")
)

// Changed has every node look whether the sessions of an account may stay, since
// tokens of theirs may have ended. It does not block. It is for user.Options.
func (h *Hub) Changed(a im.Account) {
	h.lookAgain(a)
	s := h.nodes.streams
	if s == nil || sabotageTellsNobody {
		return
	}
	w := &sessionpb.Word{Changed: account(a)}
	payload := encode(w)
	hint := stream.Hint{Kind: cluster.KindWord, Key: string(payload), Payload: payload}
	for _, p := range s.Peers() {
		h.send(p.Node, payload, hint)
	}
}

// send gives a frame to a stream. A node without one looks at all its sessions
// when there is one again.
func (h *Hub) send(to im.Node, payload []byte, hint stream.Hint) {
	if _, err := h.nodes.streams.Send(to, cluster.KindWord, payload, hint); err != nil && !errors.Is(err, bus.ErrNoNode) {
		h.o.Log.Error("send about sessions failed", "node", to, "err", err)
	}
}

// nobody misses a frame that is asked for again.
var nobody = stream.Hint{Optional: true}

func (h *Hub) handleWord(from im.Node, payload []byte) {
	var w sessionpb.Word
	if err := w.UnmarshalVT(payload); err != nil {
		h.o.Log.Error("read frame of another node failed: its release may be too old or too new", "node", from, "frame", "word", "err", err)
		return
	}
	if w.Changed != nil {
		h.lookAgain(accountOf(w.Changed))
	}
	if w.Ask != 0 {
		h.send(from, encode(&sessionpb.Word{Answer: w.Ask}), nobody)
	}
	if w.Answer != 0 {
		n := &h.nodes
		n.mu.Lock()
		n.told[from] = max(n.told[from], min(time.Duration(w.Answer), h.trust.Now()))
		h.tellLocked()
		n.mu.Unlock()
	}
}

// tellLocked notes up to when all nodes have told of everything. Where the store
// is to be asked as well, as behind a death, it must have begun to answer.
func (h *Hub) tellLocked() {
	n := &h.nodes
	if n.wanted != 0 && time.Duration(h.said.Load()) < n.wanted {
		return
	}
	at := h.trust.Now()
	for _, x := range n.alive {
		if !sabotageTrustsSilence {
			at = min(at, n.told[x])
		}
	}
	h.trust.Tell(at)
}

// onPeer is told that the streams with a node begin or end. What a process told
// between two of them was told to nobody; what another one did before it died is
// in the store, and nobody was told that it is done.
func (h *Hub) onPeer(id im.Node, up bool) {
	if !up {
		return
	}
	for _, p := range h.nodes.streams.Peers() {
		if p.Node != id || p.Incarnation == 0 {
			continue
		}
		n := &h.nodes
		n.mu.Lock()
		same := n.is[id] == p.Incarnation
		n.is[id] = p.Incarnation
		if !same {
			delete(n.named, id)
		}
		n.mu.Unlock()
		if same {
			h.doubtAll()
		} else {
			h.sweepSoon()
		}
	}
}

// doubtAll has all sessions look whether they may stay: it is not known whose
// tokens have ended.
func (h *Hub) doubtAll() {
	h.table.Each(func(o *fanout.Outbox) bool {
		o.Doubt(h.trust.Now())
		return true
	})
	h.sweepSoon()
}

func (h *Hub) sweepSoon() {
	h.nodes.mu.Lock()
	h.nodes.wanted = h.trust.Now()
	h.nodes.mu.Unlock()
	signal(h.nodes.sweep)
}

// of are the nodes whose word counts: those that live by their heartbeats, and
// those on the bus whose heartbeats were not seen yet, if the store cannot be
// read.
func (n *nodes) of(bus []im.Node) []im.Node {
	alive := slices.Clone(n.others())
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, x := range alive {
		n.named[x] = true
	}
	maps.DeleteFunc(n.named, func(x im.Node, _ bool) bool { return !slices.Contains(bus, x) })
	for _, x := range bus {
		if !n.named[x] {
			alive = append(alive, x)
		}
	}
	return alive
}

// runAsks keeps the word of the other nodes fresh until ctx ends.
func (h *Hub) runAsks(ctx context.Context) {
	n := &h.nodes
	for {
		alive := n.of(h.bus.Peers())
		now := h.trust.Now()
		n.mu.Lock()
		if slices.ContainsFunc(n.alive, func(x im.Node) bool { return !slices.Contains(alive, x) }) {
			n.wanted = now // one that died may have ended tokens, and told nobody
		}
		n.alive = alive
		h.tellLocked()
		due := n.wanted != 0 || now-h.trust.Told() > silence
		n.mu.Unlock()
		if due {
			signal(n.sweep)
		}
		ask := encode(&sessionpb.Word{Ask: uint64(max(now, 1))})
		for _, x := range alive {
			h.send(x, ask, nobody)
		}
		if !pause(ctx, askEvery) {
			return
		}
	}
}

// runSweeps looks at all sessions whenever that is due, until ctx ends.
func (h *Hub) runSweeps(ctx context.Context) {
	n := &h.nodes
	for {
		select {
		case <-n.sweep:
		case <-ctx.Done():
			return
		}
		began := h.trust.Now()
		h.sweepAll(ctx)
		n.mu.Lock()
		if n.wanted <= began {
			n.wanted = 0
		}
		n.mu.Unlock()
		if !pause(ctx, silence-(h.trust.Now()-began)) {
			return
		}
	}
}

// sweepAll looks at all sessions. Those of which the store does not say are
// looked at again.
func (h *Hub) sweepAll(ctx context.Context) {
	var list []*fanout.Outbox
	look := func() bool {
		began := h.trust.Now()
		for _, o := range h.check(ctx, list) {
			h.lookAgain(o.Account)
		}
		list = list[:0]
		return pause(ctx, slice-(h.trust.Now()-began))
	}
	most := max(1, int(time.Duration(h.o.Checks)*slice/time.Second))
	h.table.Each(func(o *fanout.Outbox) bool {
		list = append(list, o)
		return len(list) < most || look()
	})
	look()
}
