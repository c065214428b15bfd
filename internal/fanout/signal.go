package fanout

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/petrel-im/petrel/internal/bus/stream"
	"github.com/petrel-im/petrel/internal/cluster"
	"github.com/petrel-im/petrel/internal/cluster/clusterpb"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/policy"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

const (
	// MaxFocused bounds the sessions that get a signal that is only for those in focus. The last places are
	// given out as at least one for each other node, so a few more sessions may get it.
	MaxFocused = 100

	// maxSignalUsers is how many users of another node such a signal names. Only that node knows
	// which of them have the conversation in their focus.
	maxSignalUsers = 1000
)

// Signal is a signal of a user with its delivery options.
type Signal struct {
	Key     im.Key
	Signal  *petrelv1.Signal // not modified any more
	Sender  Asker            // gets no copy
	Focused bool             // only sessions that have the conversation in their focus get it, at most MaxFocused
}

// Signals delivers signals. Only one goroutine at a time may call Deliver.
type Signals struct {
	table *Table
	nodes *Nodes // nil: there are no other nodes
	batch *remoteBatch
	turn  int // number of focused signals; it says with which user the next one begins

	Delivered atomic.Uint64 // to sessions on this node, by Deliver
}

// NewSignals makes a Signals that delivers to the sessions of a table, and, unless n is nil, to other nodes.
func NewSignals(t *Table, n *Nodes) *Signals {
	g := &Signals{table: t, nodes: n}
	if n != nil {
		g.batch = &remoteBatch{nodes: n}
	}
	return g
}

// Deliver queues a signal for the sessions of users on this node, and sends it to the other nodes where they
// are online. If the signal asks for it, every node holds it for devices that connect soon. A lost signal is
// not sent again. Spec: P-13.1.
func (g *Signals) Deliver(s *Signal, to []im.User) {
	if len(to) == 0 {
		return
	}
	everywhere := g.hold(s, to)
	room, first := math.MaxInt, 0
	if s.Focused {
		// In a large conversation such a signal does not reach all users. Each signal begins with other users,
		// so that not always the same ones get it.
		g.turn++
		room, first = MaxFocused, g.turn*MaxFocused%len(to)
	}
	var k WakeUps
	own := uint64(0)
	if s.Sender.Node == "" {
		own = s.Sender.ID
	}
	for i := range to {
		u := to[(first+i)%len(to)]
		a := im.Account{Tenant: s.Key.Tenant, User: u}
		h := g.table.hash(a)
		n := g.table.signal(a, h, s, own, room, &k)
		room -= n
		g.Delivered.Add(uint64(n))
		if g.nodes == nil || room <= 0 {
			continue
		}
		if everywhere {
			g.batch.addEverywhere(u, h)
		} else {
			g.batch.addRecipient(u, h)
		}
	}
	k.Flush()
	if g.nodes != nil {
		g.batch.packSignal(s, room)
		g.batch.flush()
	}
}

// hold holds a signal for users, or ends a held one. It returns whether all other nodes need the signal,
// including those at which none of the users is online.
func (g *Signals) hold(s *Signal, to []im.User) (everywhere bool) {
	if !s.mayBeHeld() {
		return false
	}
	now := time.Now()
	for _, u := range to {
		if string(u) == s.Signal.From {
			continue
		}
		if g.table.held.replace(im.Account{Tenant: s.Key.Tenant, User: u}, s.Signal, now) {
			everywhere = true
		}
	}
	return everywhere || s.Signal.HoldMs > 0
}

// mayBeHeld returns whether signals of the conversation may be held. Those of groups
// are not: a user who was removed must get nothing of the group when a device connects.
func (s *Signal) mayBeHeld() bool { return policy.Of(s.Key.Conv.Kind()).HeldSignals }

// signal queues s for the sessions of a, but for at most room of them, and not for the session
// with the id own, which sent it (0: it is not on this node). It returns how many sessions get it.
func (t *Table) signal(a im.Account, hash uint64, s *Signal, own uint64, room int, k *WakeUps) (n int) {
	for _, o := range t.of(a, hash) {
		if n < room && (own == 0 || o.ID != own) && o.pushSignal(s.Key.Conv, s.Signal, s.Focused, k) {
			n++
		}
	}
	return n
}

// addEverywhere adds a user for each node whose streams run.
func (b *remoteBatch) addEverywhere(u im.User, h uint64) {
	for i := range b.nodes.byIndex {
		if b.nodes.byIndex[i].Load() != nil {
			n := &b.byNode[i]
			b.used |= 1 << i
			n.users, n.userBytes, n.hashSum = append(n.users, string(u)), n.userBytes+len(u)+2, n.hashSum+h
		}
	}
}

// packSignal makes the frames of a signal for the recipients that were added, one for each node. Users that do
// not fit into the frame of their node do not get the signal. room is how many sessions at all these nodes
// together may get a focused signal; each node may give it to at least one.
func (b *remoteBatch) packSignal(s *Signal, room int) {
	payload, err := s.Signal.MarshalVT()
	im.Assert(err == nil, "encode a signal: %v", err)
	nodes := 0
	for used := b.used; used != 0; nodes++ {
		takeLowestBit(&used)
	}
	b.eachNode(func(to *node, n *nodeBatch) {
		m := clusterpb.Signal{Tenant: uint32(s.Key.Tenant), Users: n.users[:usersInOneFrame(n.users)], Signal: payload}
		if s.Focused {
			m.Users = m.Users[:min(len(m.Users), maxSignalUsers)]
			m.Most = uint32(max(1, room/nodes))
		}
		if s.Sender.Node == to.id {
			m.Session = s.Sender.ID
		}
		p, err := m.MarshalVT()
		im.Assert(err == nil, "encode a signal: %v", err)
		b.frames = append(b.frames, frame{to.id, cluster.KindSignal, p, stream.Hint{Optional: true}})
	})
}

// handleSignal delivers a signal of another node to users on this node, and holds it if it may be held.
func (n *Nodes) handleSignal(from im.Node, payload []byte) {
	var m clusterpb.Signal
	got := &petrelv1.Signal{}
	err := m.UnmarshalVT(payload)
	if err == nil {
		err = got.UnmarshalVT(m.Signal)
	}
	id, bad := im.ParseConvID(got.Conv)
	if err != nil || bad != nil {
		n.garbled(from, "signal", err)
		return
	}
	s := &Signal{Key: im.Key{Tenant: im.Tenant(m.Tenant), Conv: id}, Signal: got, Focused: m.Most > 0}
	room, now := math.MaxInt, time.Now()
	if s.Focused {
		room = int(m.Most)
	}
	k := &n.node(from).receiver.fan.wakeUps // flushed after all frames that came together
	for _, u := range m.Users {
		a := im.Account{Tenant: s.Key.Tenant, User: im.User(u)}
		if u != got.From && s.mayBeHeld() {
			n.table.held.replace(a, got, now)
		}
		room -= n.table.signal(a, n.table.hash(a), s, m.Session, room, k)
	}
}
