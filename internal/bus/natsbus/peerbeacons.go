package natsbus

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/petrel-im/petrel/internal/bus/buspb"
	"github.com/petrel-im/petrel/internal/im"
)

// maxSilent is how many beacons a peer may leave out. They are counted by our own beacons, so that a process that
// stood still does not take all others for gone.
const maxSilent = 6

// peer is another node on the bus.
type peer struct {
	incarnation uint64
	subject     string
	silent      int           // our beacons since its last one
	gone        chan struct{} // closed when it is not there any more
}

// Peers implements bus.Bus.
func (b *Bus) Peers() []im.Node {
	b.mu.Lock()
	defer b.mu.Unlock()
	peers := make([]im.Node, 0, len(b.peers))
	for n := range b.peers {
		peers = append(peers, n)
	}
	slices.Sort(peers)
	return peers
}

// listen asks which nodes are there, and gathers them for a little more than a beacon. It fails if one has this
// node's id.
func (b *Bus) listen(ctx context.Context) error {
	if err := b.subscribe(b.presenceSubject(), b.heard); err != nil {
		return err
	}
	if err := b.subscribe(b.answerSubjectOf(b.self), b.answered); err != nil { // a node with peers may ask them
		return err
	}
	if err := b.conn.FlushTimeout(dialTime); err != nil {
		return fmt.Errorf("join cluster %s: %w", b.o.Cluster, err)
	}
	b.announce(buspb.Presence_JOINING)
	select {
	case err := <-b.rival:
		return err
	case <-time.After(b.o.Beacon + b.o.Beacon/5):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// announce sends the state of this node to all nodes. A lost announcement does no harm: the next one follows.
func (b *Bus) announce(s buspb.Presence_State) {
	p := buspb.Presence{Node: string(b.self), Incarnation: b.o.Incarnation, State: s, Process: b.o.Process}
	if err := b.publish(b.presenceSubject(), p.SizeVT(), p.MarshalToSizedBufferVT); err != nil {
		b.o.Log.Debug("announcement lost", "err", err)
	}
}

// heard applies an announcement: of another node, or of another process with this node's id.
func (b *Bus) heard(data []byte) {
	var p buspb.Presence
	if err := p.UnmarshalVT(data); err != nil || p.Node == "" {
		b.Garbled.Add(1)
		return
	}
	n := im.Node(p.Node)
	if n == b.self {
		b.met(&p)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	known := b.peers[n]
	if known != nil && p.Incarnation == known.incarnation && p.State == buspb.Presence_SERVING {
		known.silent = 0
		return
	}
	switch p.State {
	case buspb.Presence_SERVING:
		if known != nil {
			close(known.gone)
		}
		b.peers[n] = &peer{incarnation: p.Incarnation, subject: b.subjectOf(n), gone: make(chan struct{})}
	case buspb.Presence_LEFT:
		if known != nil && known.incarnation == p.Incarnation {
			close(known.gone)
			delete(b.peers, n)
		}
	}
}

// met applies an announcement of another process with this node's id. The process that serves stays; of two that
// serve, or two that join, the one with the lower incarnation.
func (b *Bus) met(p *buspb.Presence) {
	if p.Incarnation == b.o.Incarnation || p.State == buspb.Presence_LEFT {
		return
	}
	b.mu.Lock()
	serving := b.serving
	b.mu.Unlock()
	theyServe := p.State == buspb.Presence_SERVING
	if theyServe && !serving || theyServe == serving && p.Incarnation < b.o.Incarnation {
		select {
		case b.rival <- fmt.Errorf("join cluster %s: node id %s is %w by %s; stop it or choose another id", b.o.Cluster,
			b.self, ErrInUse, p.Process):
		default:
		}
		return
	}
	if serving {
		b.announce(buspb.Presence_SERVING)
	} else {
		b.announce(buspb.Presence_JOINING)
	}
}

// age counts a beacon of silence for all peers, and drops those that were silent for too long. It also updates
// the counter Dropped.
func (b *Bus) age() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for n, p := range b.peers {
		if p.silent++; p.silent > maxSilent {
			close(p.gone)
			delete(b.peers, n)
		}
	}
	dropped := 0
	for _, s := range b.subs {
		if n, err := s.Dropped(); err == nil {
			dropped += n
		}
	}
	b.Dropped.Store(uint64(dropped))
}
