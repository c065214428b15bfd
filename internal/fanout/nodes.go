package fanout

import (
	"errors"
	"log/slog"
	"maps"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/petrel-im/petrel/internal/bus"
	"github.com/petrel-im/petrel/internal/bus/stream"
	"github.com/petrel-im/petrel/internal/cluster"
	"github.com/petrel-im/petrel/internal/cluster/clusterpb"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/wire"
)

const (
	maxNodes = 64           // others that can have sessions
	allParts = 1<<parts - 1 // of the table, as bits
)

// Nodes are the other nodes: who is online there, what they are told, and what
// comes from them. Set its functions before the streams run.
//
// Everything between two nodes goes through their numbered streams. So a login
// is announced, and then its head requests wait at the owner until the
// announcement is applied (Mark): the rule of Table, across nodes. Where
// announcements were missed, the owner gets the whole list again, and tells
// which of those on it were new to it: they look for what they missed.
type Nodes struct {
	// Answered is given an answer of another node to a send of this one. It
	// returns the connection that the answer is for; false: there is none, or it
	// has done all there is to do. It must not block.
	Answered func(from im.Node, ticket uint64, a Answer) (Origin, bool)

	// Lost is told that answers of a node may have been lost: about one
	// conversation, or, with the zero key, about all. Who waits for one sends
	// again, to the owner there is now. It must not block.
	Lost func(from im.Node, about im.Key)

	log     *slog.Logger
	table   *Table
	streams *stream.Streams
	shards  [parts]nodeShard               // who is online where
	byIndex [maxNodes]atomic.Pointer[node] // those whose streams run
	joined  atomic.Int32                   // how many these are
	chosen  atomic.Bool                    // recipients have been chosen here
	missed  missed
	lostOf  [parts]stream.Hint // what is told when something about a part of the table was given up

	mu    sync.Mutex                        // tier 0; guards changes of byIndex and nodes
	nodes atomic.Pointer[map[im.Node]*node] // all that were met; replaced as a whole, under mu

	Told     atomic.Uint64 // frames with events or answers that came
	Hints    atomic.Uint64 // those of them that had become hints
	Missed   atomic.Uint64 // sessions that had to look for what they missed
	Garbled  atomic.Uint64 // frames that made no sense
	TooLarge atomic.Uint64 // deliveries that went as hints because they fit no frame
}

// node is another node.
type node struct {
	id    im.Node
	index atomic.Int32 // of its bit; negative: its streams do not run

	// What is at hand of what came from it; only the handlers of its frames.
	fan      Fan
	items    []Item
	users    []im.User
	receipts []Receipt

	mu   sync.Mutex  // tier 0, held while the streams are given a frame; guards the fields below
	up   bool        // it is told who comes and goes
	mark stream.Mark // of the last announcement
}

// Answer is what an owner at another node says to a send.
type Answer struct {
	Ack    wire.Ack // its ID is not set
	Repeat bool     // the entry was stored before
	Err    *im.Error
}

// Caller waits at another node for an answer.
type Caller struct {
	Nodes  *Nodes
	Node   im.Node
	Ticket uint64  // that node's name for it
	Conv   im.Key  // that the answer is about
	User   im.User // who sent; empty: the server
}

// NewNodes connects a table, nobody being in it, with those of the other nodes.
// The streams do not run yet, and secret is the store's.
func NewNodes(t *Table, s *stream.Streams, secret [16]byte, log *slog.Logger) *Nodes {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	n := &Nodes{log: log, table: t, streams: s, missed: missed{due: make(chan struct{}, 1)}}
	n.nodes.Store(&map[im.Node]*node{})
	for i := range n.shards {
		n.shards[i].at = map[uint64]uint64{}
		n.lostOf[i] = stream.Hint{Kind: cluster.KindOnline, Key: string([]byte{byte(i)}), Payload: encode(&clusterpb.Online{Again: 1 << i})}
	}
	t.setKey(secret)
	t.nodes = n
	s.OnPeer(n.onPeer)
	s.OnReset(n.onReset)
	s.OnBatch(func(from im.Node) { n.node(from).fan.Flush() })
	s.Handle(cluster.KindOnline, n.handleOnline)
	s.Handle(cluster.KindDelivery, n.handleDelivery)
	s.Handle(cluster.KindReceipts, n.handleReceipts)
	return n
}

// Mark is the place of the newest announcement to a node. A request for heads
// that is made for a session goes there with it, and is served when it has been
// applied (Streams.WaitApplied); if its stream has ended, ask again with a new
// one.
func (n *Nodes) Mark(to im.Node) stream.Mark {
	p := (*n.nodes.Load())[to]
	if p == nil {
		return stream.Mark{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mark
}

// Counts are those of the Fans that deliver what came from other nodes.
func (n *Nodes) Counts() (delivered, hinted, lagged uint64) {
	for _, p := range *n.nodes.Load() {
		delivered += p.fan.Delivered.Load()
		hinted += p.fan.Hinted.Load()
		lagged += p.fan.Lagged.Load()
	}
	return delivered, hinted, lagged
}

// node finds or makes a node.
func (n *Nodes) node(id im.Node) *node {
	if p := (*n.nodes.Load())[id]; p != nil {
		return p
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if p := (*n.nodes.Load())[id]; p != nil {
		return p
	}
	p := &node{id: id, fan: Fan{Table: n.table}}
	p.index.Store(-1)
	nodes := maps.Clone(*n.nodes.Load())
	nodes[id] = p
	n.nodes.Store(&nodes)
	return p
}

// onPeer is told that the streams with a node begin or end.
func (n *Nodes) onPeer(id im.Node, up bool) {
	p := n.node(id)
	p.mu.Lock()
	p.up = up
	p.mu.Unlock()
	if !up {
		n.leave(p)
		n.lost(id, im.Key{})
		return
	}
	// If these are not the first streams between two processes, the former ones
	// took along what was on its way. Who sent it has forgotten this node, so all
	// who are online are new to it, and will look for what they missed. A new
	// process has sent nothing: what its former one did not get told is told by
	// who took its feeds over.
	n.join(p)
	n.sendParts(p, allParts)
}

// onReset is told that frames of a node were missed.
func (n *Nodes) onReset(from im.Node) {
	n.ask(n.node(from), allParts)
	n.missed.everybody()
	n.lost(from, im.Key{})
}

func (n *Nodes) lost(from im.Node, about im.Key) {
	if n.Lost != nil {
		n.Lost(from, about)
	}
}

// announce tells the other nodes that users with a hash are online, or are no
// longer. The lock of their part of the table is held, so whoever gets that part
// as a whole gets it before or behind this.
func (n *Nodes) announce(h uint64, online bool) {
	nodes := *n.nodes.Load()
	if len(nodes) == 0 {
		return
	}
	m := &clusterpb.Online{Gone: []uint64{h}}
	if online {
		m = &clusterpb.Online{Came: []uint64{h}}
	}
	payload := encode(m)
	for _, p := range nodes {
		n.announceTo(p, payload, n.lostOf[h%parts])
	}
}

func (n *Nodes) announceTo(p *node, payload []byte, hint stream.Hint) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.up {
		return // it will get the whole table
	}
	switch m, err := n.streams.Send(p.id, cluster.KindOnline, payload, hint); {
	case err == nil:
		p.mark = m
	case !errors.Is(err, bus.ErrNoNode): // those that have ended are told to onPeer
		n.log.Error("announce online users failed", "node", p.id, "err", err)
	}
}

// sendParts tells a node all who are online here, in parts of the table: 8 bytes
// for each user, so the streams' ring has room for two million.
func (n *Nodes) sendParts(p *node, which uint64) {
	for which != 0 {
		n.sendPart(p, next(&which))
	}
}

func (n *Nodes) sendPart(p *node, i int) {
	s := &n.table.shards[i]
	s.mu.RLock() // nobody comes or goes meanwhile
	defer s.mu.RUnlock()
	m := &clusterpb.Online{Part: &clusterpb.Online_Part{Index: uint32(i), Users: slices.Collect(maps.Keys(s.online))}}
	n.announceTo(p, encode(m), n.lostOf[i])
}

// ask has a node tell who is online there, in parts of the table. If that is
// given up, all are asked for.
func (n *Nodes) ask(p *node, which uint64) {
	n.send(p, &clusterpb.Online{Ask: which}, stream.Hint{Kind: cluster.KindOnline, Key: "ask", Payload: encode(&clusterpb.Online{Ask: allParts})})
}

func encode(m *clusterpb.Online) []byte {
	payload, err := m.MarshalVT()
	im.Assert(err == nil, "encode who is online: %v", err)
	return payload
}

// send tells a node something about sessions.
func (n *Nodes) send(p *node, m *clusterpb.Online, hint stream.Hint) {
	if _, err := n.streams.Send(p.id, cluster.KindOnline, encode(m), hint); err != nil && !errors.Is(err, bus.ErrNoNode) {
		n.log.Error("send about online users failed", "node", p.id, "err", err)
	}
}

// handleOnline takes what a node says about sessions.
func (n *Nodes) handleOnline(from im.Node, payload []byte) {
	var m clusterpb.Online
	if err := m.UnmarshalVT(payload); err != nil || m.Part != nil && m.Part.Index >= parts {
		n.garbled(from, "sessions", err)
		return
	}
	p := n.node(from)
	n.sendParts(p, m.Ask)
	if m.Again != 0 {
		n.ask(p, m.Again)
	}
	if len(m.Missed) > 0 {
		n.missed.some(m.Missed)
	}
	i := p.index.Load()
	if i < 0 {
		return // there is no place for it
	}
	bit := uint64(1) << i
	for _, h := range m.Came {
		n.set(h, bit)
	}
	for _, h := range m.Gone {
		n.clear(h, bit)
	}
	if m.Part == nil {
		return
	}
	if fresh := n.replace(int(m.Part.Index), m.Part.Users, bit); len(fresh) > 0 && n.chosen.Load() && !sabotageHidesBlindness {
		n.send(p, &clusterpb.Online{Missed: fresh}, stream.Hint{})
	}
}

func (n *Nodes) garbled(from im.Node, what string, err error) {
	n.Garbled.Add(1)
	n.log.Error("read frame of another node failed: its release may be too old or too new", "node", from, "frame", what, "err", err)
}

// nodeShard is a part of the table of who is online at other nodes.
type nodeShard struct {
	mu sync.RWMutex      // tier 0
	at map[uint64]uint64 // hash → bits of nodes
}

// of are the bits of the nodes where users with a hash are online.
func (n *Nodes) of(h uint64) uint64 {
	s := &n.shards[h%parts]
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.at[h]
}

func (n *Nodes) set(h, bit uint64) {
	s := &n.shards[h%parts]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at[h] |= bit
}

func (n *Nodes) clear(h, bit uint64) {
	s := &n.shards[h%parts]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clearLocked(h, bit)
}

func (s *nodeShard) clearLocked(h, bit uint64) {
	if rest := s.at[h] &^ bit; rest != 0 {
		s.at[h] = rest
	} else {
		delete(s.at, h)
	}
}

// replace makes users those of a part who are online at a node, and returns who
// of them was not known to be.
func (n *Nodes) replace(part int, users []uint64, bit uint64) (fresh []uint64) {
	slices.Sort(users)
	s := &n.shards[part]
	s.mu.Lock()
	defer s.mu.Unlock()
	for h, at := range s.at {
		if _, there := slices.BinarySearch(users, h); at&bit != 0 && !there {
			s.clearLocked(h, bit)
		}
	}
	for _, h := range users {
		if h%parts == uint64(part) && s.at[h]&bit == 0 {
			s.at[h] |= bit
			fresh = append(fresh, h)
		}
	}
	return fresh
}

// join gives a node a bit.
func (n *Nodes) join(p *node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range n.byIndex {
		if n.byIndex[i].Load() == nil {
			n.byIndex[i].Store(p)
			p.index.Store(int32(i))
			n.joined.Add(1)
			return
		}
	}
	n.log.Error("too many nodes: sessions on the new one get no events from this one", "node", p.id)
}

// leave forgets who is online at a node, and frees its bit.
func (n *Nodes) leave(p *node) {
	i := p.index.Swap(-1)
	if i < 0 {
		return
	}
	for part := range n.shards {
		n.replace(part, nil, 1<<i)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.byIndex[i].Store(nil)
	n.joined.Add(-1)
}

// next takes the lowest bit that is left and returns its index.
func next(left *uint64) int {
	i := bits.TrailingZeros64(*left)
	*left &= *left - 1
	return i
}
