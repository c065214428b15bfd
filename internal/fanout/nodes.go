package fanout

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
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

// maxNodes is the highest number of other nodes whose online users this node knows: each has a bit in a uint64.
const maxNodes = 64

// Nodes has the other nodes: their online users, and the frames to and from them. Answered and Lost are set
// before the streams run.
//
// Everything between two nodes goes through their numbered streams. That carries the rule of Table over
// to other nodes. When a user comes online, the node first sends the owner an announcement. Then it asks
// the owner for heads, with the Mark of the announcement, and the owner answers only when it has applied
// the announcement. So an entry is in the head, or its owner knows that the user is online.
//
// If announcements were lost, the owner gets a whole part of the table again. Some users in that part may
// be new to the owner: it may have chosen the recipients of entries without them. It answers which users
// these are, and their sessions have to sync.
//
// An announcement can come late to a node that is not asked, and that node can take a feed over
// meanwhile. Example: bob comes online here, and a former owner answers his sync. The new owner does not
// know of bob yet, and pushes an entry to others. So each node tells the others when it begins a tenure,
// and an announcement names the newest tenure of its receiver that the sender knows. If the receiver has
// begun a later one, the users have to sync.
type Nodes struct {
	// Answered gets the answer of another node to a send of this node. It returns the connection that
	// waits for the answer, or false if no connection does. It may change the answer. It must not block.
	Answered func(from im.Node, ticket uint64, a *Answer) (Origin, bool)

	// Lost is called when answers of a node may be lost: those about one conversation, or, with the zero
	// key, about all. Sends without an answer must be sent again, to the present owner. It must not block.
	Lost func(from im.Node, about im.Key)

	log              *slog.Logger
	table            *Table
	streams          *stream.Streams
	online           nodeTable                      // which users are online at which node
	byIndex          [maxNodes]atomic.Pointer[node] // the nodes whose streams run, by their bit in online
	joined           atomic.Int32                   // number of nodes in byIndex
	recipientsChosen atomic.Bool                    // this process has chosen recipients of entries
	tenure           atomic.Uint64                  // number of the newest tenure of this process
	resync           resync
	partHints        [tableParts]stream.Hint // by part of the table: has the receiver ask for the whole part

	mu    sync.Mutex                        // tier 0; guards changes of byIndex and nodes
	nodes atomic.Pointer[map[im.Node]*node] // all that were ever met; replaced as a whole, under mu

	Frames   atomic.Uint64 // frames with entries or answers that came, and hints of such frames
	Hints    atomic.Uint64 // of these, frames that had become hints
	Missed   atomic.Uint64 // sessions to which resync sent lagged frames, or that lagged already
	Garbled  atomic.Uint64 // frames that could not be decoded
	TooLarge atomic.Uint64 // delivery frames that were too large for the bus, so that their hints were sent
}

// node is another node.
type node struct {
	id       im.Node
	index    atomic.Int32 // its bit in Nodes.online; negative: its streams do not run
	receiver receiver     // only the handlers of its frames use it

	mu     sync.Mutex  // tier 1, held while the streams are given a frame; guards the fields below
	up     bool        // its streams run, so it gets announcements
	mark   stream.Mark // of the last announcement
	tenure uint64      // the newest one of the node that is known here; 0: none
}

// Caller names a send of another node that waits for an answer.
type Caller struct {
	Nodes  *Nodes
	Node   im.Node
	Ticket uint64  // by which that node recognizes the answer
	Conv   im.Key  // the conversation that the answer is about
	User   im.User // who sent; empty: the server
}

// Answer is how an owner at another node answers a send.
type Answer struct {
	Ack    wire.Ack // without its ID
	Repeat bool     // the entry was stored before
	Err    *im.Error
}

// NewNodes connects a table with those of the other nodes. It is called while the table is empty and before the
// streams run. secret is that of the store, and so the same on all nodes: a user has the same hash everywhere.
func NewNodes(t *Table, s *stream.Streams, secret [16]byte, log *slog.Logger) *Nodes {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	n := &Nodes{log: log, table: t, streams: s}
	n.resync.table, n.resync.sessions, n.resync.due = t, &n.Missed, make(chan struct{}, 1)
	n.nodes.Store(&map[im.Node]*node{})
	n.tenure.Store(rand.Uint64() >> 1) // grows, and does not overflow
	n.online.init()
	for i := range n.partHints {
		n.partHints[i] = stream.Hint{Kind: cluster.KindOnline, Key: string([]byte{byte(i)}),
			Payload: encodeOnline(&clusterpb.Online{Dropped: 1 << i})}
	}
	t.setKey(secret)
	t.announce, t.remote = n.announce, &n.online
	s.OnPeer(n.onPeer)
	s.OnReset(n.onReset)
	s.OnBatch(func(from im.Node) { n.node(from).receiver.fan.Flush() })
	s.Handle(cluster.KindOnline, n.handleOnline)
	s.Handle(cluster.KindDelivery, n.handleDelivery)
	s.Handle(cluster.KindReceipts, n.handleReceipts)
	s.Handle(cluster.KindSignal, n.handleSignal)
	s.Handle(cluster.KindNotes, n.handleNotes)
	return n
}

// Run sends lagged frames to users who may have missed events, until ctx ends.
func (n *Nodes) Run(ctx context.Context) error {
	n.resync.run(ctx)
	return nil
}

// Mark returns the place of the newest announcement in the stream to a node. A request
// for heads that is made for a session carries it to that node, which serves the
// request after it has applied the announcement (Streams.WaitApplied). If the stream
// has ended meanwhile, the request is refused, and is made again with a new mark.
func (n *Nodes) Mark(to im.Node) stream.Mark {
	p := n.known(to)
	if p == nil {
		return stream.Mark{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mark
}

// Counts returns the counters of the Fans that deliver what comes from other nodes.
func (n *Nodes) Counts() (delivered, hinted, lagged uint64) {
	for _, p := range *n.nodes.Load() {
		delivered += p.receiver.fan.Delivered.Load()
		hinted += p.receiver.fan.Hinted.Load()
		lagged += p.receiver.fan.Lagged.Load()
	}
	return delivered, hinted, lagged
}

// noteRecipientsChosen notes that this process chooses recipients of entries from now on. Before
// that no user can have missed an entry because of this node.
func (n *Nodes) noteRecipientsChosen() {
	if !n.recipientsChosen.Load() {
		n.recipientsChosen.Store(true)
	}
}

// known returns a node that was met before, or nil.
func (n *Nodes) known(id im.Node) *node { return (*n.nodes.Load())[id] }

// node returns a node, and adds it if it was not met before.
func (n *Nodes) node(id im.Node) *node {
	if p := n.known(id); p != nil {
		return p
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if p := n.known(id); p != nil {
		return p
	}
	p := &node{id: id, receiver: newReceiver(n.table)}
	p.index.Store(-1)
	nodes := maps.Clone(*n.nodes.Load())
	nodes[id] = p
	n.nodes.Store(&nodes)
	return p
}

// onPeer tells a node whose streams have begun which users are online here. If the streams have ended, it
// forgets the node's online users, and calls Lost for all answers of the node.
func (n *Nodes) onPeer(id im.Node, up bool) {
	p := n.node(id)
	p.mu.Lock()
	p.up, p.tenure = up, 0
	p.mu.Unlock()
	if !up {
		n.leave(p)
		n.lost(id, im.Key{})
		return
	}
	// Events that were under way when former streams ended are lost. onPeer has no session of this node sync
	// for that reason. If the other process is the same as before, it has forgotten who is online here. So all
	// users in the parts sent below are new to it, and it answers that they have to sync. If it is a new
	// process, it has sent no events yet, and the new owners of its feeds fan out again what the former process
	// may not have sent.
	n.join(p)
	n.sendParts(p, allParts)
}

// onReset is called when frames of a node were lost without a hint. It asks the node for its online users, has
// all sessions of this node sync, and calls Lost for all answers of the node.
func (n *Nodes) onReset(from im.Node) {
	n.ask(n.node(from), allParts)
	n.resync.everybody()
	n.lost(from, im.Key{})
}

func (n *Nodes) lost(from im.Node, about im.Key) {
	if n.Lost != nil {
		n.Lost(from, about)
	}
}

// announce tells the other nodes that users with a hash have come online here, or that none is online any
// more. The caller holds the lock of their part of the table. So a node that is sent the whole part at
// the same time gets the part without the change before the announcement, or with the change after it.
func (n *Nodes) announce(hash uint64, online bool) {
	nodes := *n.nodes.Load()
	if len(nodes) == 0 {
		return
	}
	for _, p := range nodes {
		n.announceTo(p, n.partHints[hash%tableParts], func() *clusterpb.Online {
			if online {
				return &clusterpb.Online{Came: []uint64{hash}, KnownTenure: &p.tenure}
			}
			return &clusterpb.Online{Gone: []uint64{hash}}
		})
	}
}

// announceTo sends p the result of compose, which it calls with p.mu held.
func (n *Nodes) announceTo(p *node, hint stream.Hint, compose func() *clusterpb.Online) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.up {
		return // it gets the whole table when its streams begin
	}
	switch m, err := n.streams.Send(p.id, cluster.KindOnline, encodeOnline(compose()), hint); {
	case err == nil:
		p.mark = m
	case !errors.Is(err, bus.ErrNoNode): // ErrNoNode: the streams have ended, and onPeer is about to be called
		n.log.Error("announce online users failed", "node", p.id, "err", err)
	}
}

// BeginTenure raises the number of this process's newest tenure, and announces it to the other nodes. It is
// called when this process has taken a feed over, before it chooses recipients of entries of that feed.
func (n *Nodes) BeginTenure() {
	n.tenure.Add(1)
	for _, p := range *n.nodes.Load() {
		n.sendTenure(p)
	}
}

func (n *Nodes) sendTenure(p *node) {
	p.mu.Lock() // so that the newest tenure is in the hint that is sent last
	defer p.mu.Unlock()
	m := &clusterpb.Online{Tenure: n.tenure.Load()}
	n.send(p, m, stream.Hint{Kind: cluster.KindOnline, Key: "tenure", Payload: encodeOnline(m)})
}

// sendParts sends a node the users who are online here, by parts of the table; which has the
// parts as bits. A user takes 8 bytes, so the ring of a stream has room for two million users.
func (n *Nodes) sendParts(p *node, which uint64) {
	for which != 0 {
		n.sendPart(p, takeLowestBit(&which))
	}
}

func (n *Nodes) sendPart(p *node, part int) {
	t := &n.table.parts[part]
	t.mu.RLock() // until it is sent: an announcement of a later change must come after it
	defer t.mu.RUnlock()
	users := slices.Collect(maps.Keys(t.online))
	n.announceTo(p, n.partHints[part], func() *clusterpb.Online {
		return &clusterpb.Online{Part: &clusterpb.Online_Part{Index: uint32(part), Users: users},
			Tenure: n.tenure.Load()}
	})
}

// ask asks a node for its online users in some parts of the table. If
// the stream does not keep the question, its hint asks for all parts.
func (n *Nodes) ask(p *node, which uint64) {
	n.send(p, &clusterpb.Online{Ask: which}, stream.Hint{Kind: cluster.KindOnline, Key: "ask",
		Payload: encodeOnline(&clusterpb.Online{Ask: allParts})})
}

func encodeOnline(m *clusterpb.Online) []byte {
	payload, err := m.MarshalVT()
	im.Assert(err == nil, "encode who is online: %v", err)
	return payload
}

func (n *Nodes) send(p *node, m *clusterpb.Online, hint stream.Hint) {
	if _, err := n.streams.Send(p.id, cluster.KindOnline, encodeOnline(m), hint); err != nil &&
		!errors.Is(err, bus.ErrNoNode) {
		n.log.Error("send online users failed", "node", p.id, "err", err)
	}
}

// handleOnline handles a frame of another node about online users. The frame may announce users, a whole part
// of the table, or a tenure; ask for parts of this node's table; or name users here who have to sync.
func (n *Nodes) handleOnline(from im.Node, payload []byte) {
	var m clusterpb.Online
	if err := m.UnmarshalVT(payload); err != nil || m.Part != nil && m.Part.Index >= tableParts {
		n.garbled(from, "online", err)
		return
	}
	p := n.node(from)
	n.sendParts(p, m.Ask)
	if m.Dropped != 0 {
		n.ask(p, m.Dropped)
	}
	if len(m.Resync) > 0 {
		n.resync.some(m.Resync)
	}
	if m.Tenure != 0 {
		p.noteTenure(m.Tenure)
	}
	i := p.index.Load()
	if i < 0 {
		return // its streams have ended, or there are too many nodes
	}
	bit := uint64(1) << i
	for _, h := range m.Came {
		n.online.add(h, bit)
		n.table.changed(im.Account{}, h, true)
	}
	// after the users were added: a tenure that begins later finds them
	if m.KnownTenure != nil && *m.KnownTenure != n.tenure.Load() {
		n.requestResync(p, m.Came)
	}
	for _, h := range m.Gone {
		n.online.remove(h, bit)
		n.table.changed(im.Account{}, h, false)
	}
	if m.Part == nil {
		return
	}
	added, gone := n.online.replace(int(m.Part.Index), m.Part.Users, bit)
	n.requestResync(p, added)
	for _, h := range added {
		n.table.changed(im.Account{}, h, true)
	}
	for _, h := range gone {
		n.table.changed(im.Account{}, h, false)
	}
}

// requestResync asks p to send lagged frames to users who are online there,
// if this process may have chosen recipients of entries without them.
func (n *Nodes) requestResync(p *node, users []uint64) {
	if len(users) > 0 && n.recipientsChosen.Load() {
		n.send(p, &clusterpb.Online{Resync: users}, stream.Hint{})
	}
}

// noteTenure notes a tenure that the node has begun. Frames with an older one can come later.
func (p *node) noteTenure(tenure uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tenure = max(p.tenure, tenure)
}

func (n *Nodes) garbled(from im.Node, what string, err error) {
	n.Garbled.Add(1)
	n.log.Error("read frame of another node failed: the releases of the two nodes differ by more than one", "node",
		from, "frame", what, "err", err)
}

// join gives a node a free bit of nodeTable, if there is one.
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

// leave forgets the online users of a node, and frees its bit.
func (n *Nodes) leave(p *node) {
	i := p.index.Swap(-1)
	if i < 0 {
		return
	}
	for _, h := range n.online.removeNode(1 << i) {
		n.table.changed(im.Account{}, h, false)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.byIndex[i].Store(nil)
	n.joined.Add(-1)
}
