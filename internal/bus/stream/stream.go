// Package stream makes numbered streams between nodes on a bus that may lose, double and delay messages. A
// frame that one process sends to another is applied there once and in order, or it is replaced by a newer hint
// about the same subject, or the receiver gets a reset, after which it has to read the state itself. Only a
// frame that is marked optional may be lost without a sign.
//
// A stream lives as long as both processes know each other. Each end has a ring of the frames that the other has
// not applied yet, bounded in bytes and age; a frame that leaves it becomes its hint. Beacons have the last
// numbers sent and applied, and the last beacon heard, so both ends notice a lost last frame and a cut in one
// direction.
package stream

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/petrel-im/petrel/internal/bus"
	"github.com/petrel-im/petrel/internal/im"
)

// Subject is the subject of the bus that carries the streams.
const Subject bus.Subject = "stream"

// MaxFrame is the largest payload of a frame, and of a hint, in bytes.
const MaxFrame = bus.MaxMessage - 1<<10

// ErrEnded is returned for a Mark of a stream that has ended: one of the processes was restarted, or the two have
// agreed on a new stream.
var ErrEnded = errors.New("the stream has ended")

// Options tune Streams; zero values are the defaults.
type Options struct {
	// Ring is how long a frame waits to be applied before it becomes its hint; 3 s, so that nothing older is
	// ever served.
	Ring      time.Duration
	RingBytes int           // of one peer's ring, and of its hints; 16 MiB
	Hints     int           // of one peer; 65,536
	Beacon    time.Duration // 500 ms
	// Forget is how long a peer may be silent before it counts as down; 30 s. It is counted in beacons: a
	// process that stood still forgets nobody.
	Forget time.Duration
}

func (o *Options) forget() int { return int(o.Forget / o.Beacon) }

// Mark is the place of a frame: a number in a stream. It may travel in a request
// to the same node, so that the request is served after the frame.
type Mark struct {
	Stream uint64
	Num    uint64 // 1, 2, 3, …
}

// Hint is a frame that replaces one that was not applied in time. Of several with the same key the
// last one stands for all.
type Hint struct {
	Kind    byte   // of the frame that carries the hint, 1 to 255; 0: there is no hint, the receiver gets a reset
	Key     string // the subject of the hint, among those of its kind
	Payload []byte // never modified

	// Optional, with Kind 0: the frame may be dropped without a reset. A receiver that needs it
	// asks again.
	Optional bool
}

// Peer is the state of the streams with a peer.
type Peer struct {
	Node        im.Node
	Incarnation uint64        // of its process; 0: it is down
	Silent      time.Duration // since we heard it, in whole beacons
	Deaf        time.Duration // since it heard us, as far as it has told us
	Waiting     time.Duration // since the oldest frame that it has not applied was sent; 0: it has applied all
	Sent        uint64        // number of our last frame
	AppliedByIt uint64        // as far as it has told us
	Applied     uint64        // its last frame that we have applied
}

// Streams are a node's ends of all its streams.
type Streams struct {
	o           Options
	bus         bus.Bus
	incarnation uint64

	handlers [256]func(from im.Node, payload []byte) // set before Run
	onPeer   []func(n im.Node, up bool)
	onReset  []func(from im.Node)
	onBatch  []func(from im.Node)

	wake  chan struct{}                     // capacity 1; a token means that something is to be sent
	peers atomic.Pointer[map[im.Node]*peer] // replaced as a whole, under mu

	mu  sync.Mutex      // tier 1; guards the fields below
	ctx context.Context // of Run; nil: it does not run
	wg  sync.WaitGroup  // a goroutine for each peer

	SentFrames, SentPackets        atomic.Uint64 // each repeat counts again
	AppliedFrames, ReceivedPackets atomic.Uint64
	Again                          atomic.Uint64 // times that a peer asked for lost frames
	Hinted                         atomic.Uint64 // hints and resets sent in place of frames
	Resets                         atomic.Uint64 // resets sent to peers
	Garbled                        atomic.Uint64 // packets that made no sense
	Unknown                        atomic.Uint64 // frames of a kind nobody handles
}

// peer is another node.
type peer struct {
	node  im.Node
	dirty atomic.Bool   // something is to be sent
	work  chan struct{} // capacity 1; a token means that something waits for the handlers

	stop context.CancelFunc // ends its goroutine

	mu      sync.Mutex // tier 0; guards the fields below
	pair    pair
	gone    bool // the node has another peer now, or will have
	waiters []waiter
}

type waiter struct {
	mark Mark
	done chan struct{} // closed when the frame was applied, or never will be
}

// New makes the streams of this process over a bus. It sets the handler of Subject, so it is called before the
// bus runs.
func New(b bus.Bus, incarnation uint64, o Options) *Streams {
	if o.Ring == 0 {
		o.Ring = 3 * time.Second
	}
	if o.RingBytes == 0 {
		o.RingBytes = 16 << 20
	}
	if o.Hints == 0 {
		o.Hints = 64 << 10
	}
	if o.Beacon == 0 {
		o.Beacon = 500 * time.Millisecond
	}
	if o.Forget == 0 {
		o.Forget = 30 * time.Second
	}
	s := &Streams{o: o, bus: b, incarnation: incarnation, wake: make(chan struct{}, 1)}
	s.peers.Store(&map[im.Node]*peer{})
	b.Handle(Subject, s.receive)
	return s
}

// Handle sets the handler of a kind of frames, 1 to 255, before Run. Each peer has a goroutine that handles its
// frames, hints and changes one after the other. A handler may keep payload and must not modify it. It must not
// wait for the same peer.
func (s *Streams) Handle(kind byte, h func(from im.Node, payload []byte)) {
	im.Assert(kind != kindReset && s.handlers[kind] == nil, "stream kind %d has a handler", kind)
	s.handlers[kind] = h
}

// OnPeer adds a function that is called with up when the streams with a peer have begun, before any frame of them
// is handled. Both ends know nothing of each other then, so the state is sent again. The function is called
// without up when the streams have ended. OnPeer is called before Run.
func (s *Streams) OnPeer(f func(n im.Node, up bool)) { s.onPeer = append(s.onPeer, f) }

// OnReset adds a function that is called when frames of a peer are lost for which there is no hint. OnReset is
// called before Run.
func (s *Streams) OnReset(f func(from im.Node)) { s.onReset = append(s.onReset, f) }

// OnBatch adds a function that is called when all frames of one packet of a peer have been handled, before they
// count as applied. OnBatch is called before Run.
func (s *Streams) OnBatch(f func(from im.Node)) { s.onBatch = append(s.onBatch, f) }

// Send adds a frame to the stream to a node, and never waits. payload must not be modified any more; it may go to
// several nodes. The node applies the frame once, in the order of Sends, or its hint. Errors: bus.ErrNoNode while
// there is no stream; when one begins, OnPeer makes the caller send the state again. bus.ErrTooLarge.
func (s *Streams) Send(to im.Node, kind byte, payload []byte, hint Hint) (Mark, error) {
	im.Assert(kind != kindReset, "a frame of kind 0")
	if len(payload) > MaxFrame || len(hint.Payload) > MaxFrame {
		return Mark{}, fmt.Errorf("send frame to %s: %d bytes: %w", to, max(len(payload), len(hint.Payload)),
			bus.ErrTooLarge)
	}
	p := (*s.peers.Load())[to]
	if p == nil {
		return Mark{}, fmt.Errorf("send frame to %s: %w", to, bus.ErrNoNode)
	}
	p.mu.Lock()
	m, ok := p.pair.send(kind, payload, hint, time.Now())
	p.mu.Unlock()
	if !ok {
		return Mark{}, fmt.Errorf("send frame to %s: %w", to, bus.ErrNoNode)
	}
	s.flushSoon(p)
	return m, nil
}

// Applied returns the place of the last frame of a peer that was applied; the zero Mark: there is no stream.
func (s *Streams) Applied(from im.Node) Mark {
	p := (*s.peers.Load())[from]
	if p == nil {
		return Mark{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.pair.link
	if l == nil {
		return Mark{}
	}
	return Mark{Stream: streamID(l.them, l.us), Num: l.applied}
}

// WaitApplied waits until this node has applied the frame m of the peer from, where Send returned m. For the
// zero Mark it does not wait. Errors: ErrEnded, bus.ErrNoNode, and that of ctx.
func (s *Streams) WaitApplied(ctx context.Context, from im.Node, m Mark) error {
	if m == (Mark{}) {
		return nil
	}
	for {
		p := s.peer(from)
		if p == nil {
			return fmt.Errorf("wait for frame %d of %s: %w", m.Num, from, bus.ErrNoNode)
		}
		p.mu.Lock()
		if p.gone {
			p.mu.Unlock()
			return fmt.Errorf("wait for frame %d of %s: %w", m.Num, from, bus.ErrNoNode)
		}
		reached, over := p.pair.reached(m)
		if reached || over {
			p.mu.Unlock()
			if over {
				return fmt.Errorf("wait for frame %d of %s: %w", m.Num, from, ErrEnded)
			}
			return nil
		}
		w := waiter{m, make(chan struct{})}
		p.waiters = append(p.waiters, w)
		p.mu.Unlock()
		select {
		case <-w.done:
		case <-ctx.Done():
			p.mu.Lock()
			p.waiters = slices.DeleteFunc(p.waiters, func(o waiter) bool { return o.done == w.done })
			p.mu.Unlock()
			return fmt.Errorf("wait for frame %d of %s: %w", m.Num, from, ctx.Err())
		}
	}
}

// Peers lists the peers, sorted by node, with the state of their streams.
func (s *Streams) Peers() []Peer {
	var all []Peer
	for _, p := range *s.peers.Load() {
		p.mu.Lock()
		state := Peer{Node: p.node}
		if l := p.pair.link; l != nil {
			state = Peer{
				Node: p.node, Incarnation: l.incarnation, Silent: time.Duration(l.silent) * s.o.Beacon,
				Deaf: time.Duration(l.clock-l.echoed) * s.o.Beacon, Waiting: l.out.waiting(time.Now()),
				Sent: l.out.last, AppliedByIt: l.out.applied, Applied: l.applied,
			}
		}
		p.mu.Unlock()
		all = append(all, state)
	}
	slices.SortFunc(all, func(a, b Peer) int { return cmp.Compare(a.Node, b.Node) })
	return all
}

func random() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return max(binary.BigEndian.Uint64(b[:]), 1)
}
