// Package localbus is the bus inside one process, for a cluster of one node, and for tests with several nodes in
// one process.
package localbus

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/petrel-im/petrel/internal/bus"
	"github.com/petrel-im/petrel/internal/im"
)

// Net connects the nodes of one process.
type Net struct {
	mu    sync.RWMutex // tier 1; guards the field below
	nodes map[im.Node]*Bus
}

// New makes a Net without nodes.
func New() *Net { return &Net{nodes: map[im.Node]*Bus{}} }

// maxWaiting is how many messages may wait for a node. While so many wait, a Send is lost, as the contract
// allows, and a Request waits.
const maxWaiting = 1024

// Bus is the bus of one node.
type Bus struct {
	net      *Net
	self     im.Node
	handlers map[bus.Subject]bus.Handler // set before Run
	inbox    chan message                // capacity maxWaiting
	gone     chan struct{}               // closed when Run ends
}

type message struct {
	from    im.Node
	subject bus.Subject
	payload []byte
	reply   chan []byte // capacity 1: a second answer is dropped; nil for a Send
}

// Join adds a node. Its messages wait until it runs.
func (n *Net) Join(self im.Node) (*Bus, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.nodes[self]; ok {
		return nil, fmt.Errorf("join %s: the node is there", self)
	}
	b := &Bus{net: n, self: self, handlers: map[bus.Subject]bus.Handler{}, inbox: make(chan message, maxWaiting),
		gone: make(chan struct{})}
	n.nodes[self] = b
	return b, nil
}

var _ bus.Bus = (*Bus)(nil)

// Self implements bus.Bus.
func (b *Bus) Self() im.Node { return b.self }

// Peers implements bus.Bus.
func (b *Bus) Peers() []im.Node {
	b.net.mu.RLock()
	defer b.net.mu.RUnlock()
	var peers []im.Node
	for n := range b.net.nodes {
		if n != b.self {
			peers = append(peers, n)
		}
	}
	slices.Sort(peers)
	return peers
}

// Handle implements bus.Bus.
func (b *Bus) Handle(s bus.Subject, h bus.Handler) { b.handlers[s] = h }

// Send implements bus.Bus.
func (b *Bus) Send(to im.Node, s bus.Subject, payload []byte) error {
	m, peer, err := b.message(to, s, payload)
	if err != nil {
		return err
	}
	select {
	case peer.inbox <- m:
	default: // full: lost
	}
	return nil
}

// Request implements bus.Bus.
func (b *Bus) Request(ctx context.Context, to im.Node, s bus.Subject, payload []byte) ([]byte, error) {
	m, peer, err := b.message(to, s, payload)
	if err == nil {
		err = ctx.Err() // the request must not be sent any more
	}
	if err != nil {
		return nil, err
	}
	m.reply = make(chan []byte, 1)
	select {
	case peer.inbox <- m:
	case <-peer.gone:
		return nil, fmt.Errorf("request %s of %s: %w", s, to, bus.ErrNoNode)
	case <-ctx.Done():
		return nil, fmt.Errorf("request %s of %s: %w", s, to, ctx.Err())
	}
	select {
	case r := <-m.reply:
		if len(r) > bus.MaxMessage {
			return nil, fmt.Errorf("request %s of %s: answer of %d bytes: %w", s, to, len(r), bus.ErrTooLarge)
		}
		return r, nil
	case <-peer.gone:
		return nil, fmt.Errorf("request %s of %s: %w", s, to, bus.ErrNoNode)
	case <-ctx.Done():
		return nil, fmt.Errorf("request %s of %s: %w", s, to, ctx.Err())
	}
}

func (b *Bus) message(to im.Node, s bus.Subject, payload []byte) (message, *Bus, error) {
	if len(payload) > bus.MaxMessage {
		return message{}, nil, fmt.Errorf("send %s to %s: %d bytes: %w", s, to, len(payload), bus.ErrTooLarge)
	}
	b.net.mu.RLock()
	peer := b.net.nodes[to]
	b.net.mu.RUnlock()
	if peer == nil {
		return message{}, nil, fmt.Errorf("send %s to %s: %w", s, to, bus.ErrNoNode)
	}
	return message{from: b.self, subject: s, payload: append([]byte(nil), payload...)}, peer, nil
}

// Run implements bus.Bus. When it returns, the node has left the Net.
func (b *Bus) Run(ctx context.Context) error {
	defer func() {
		b.net.mu.Lock()
		delete(b.net.nodes, b.self)
		b.net.mu.Unlock()
		close(b.gone)
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case m := <-b.inbox:
			b.serve(m)
		}
	}
}

func (b *Bus) serve(m message) {
	var reply func([]byte)
	if m.reply != nil {
		reply = func(r []byte) {
			select {
			case m.reply <- r:
			default:
			}
		}
	}
	if h := b.handlers[m.subject]; h != nil {
		h(m.from, m.payload, reply)
	} else if reply != nil {
		reply(nil)
	}
}
