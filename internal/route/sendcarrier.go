package route

import (
	"bytes"
	"context"
	"time"

	"github.com/petrel-im/petrel/internal/bus/stream"
	"github.com/petrel-im/petrel/internal/cluster"
	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/route/routepb"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/wake"
)

const (
	resendAfter = 2 * time.Second // without an answer; the time doubles with each repeat
	// so long without an answer to any send of a conversation: then the outcome of its sends is unknown
	giveUp = 10 * time.Second
	// like giveUp, if the store is out of reach as well: this node may be cut off
	giveUpAlone = 2 * time.Second
	lookAgain   = 100 * time.Millisecond // between two looks at all waiting sends, even without a wake-up
	gather      = time.Millisecond       // between two rounds of packets, to gather sends
)

// carrier brings sends to owners on other nodes. They wait in lanes, one for each
// feed. When a feed comes to this node, the sends in its lane go to the Owner
// here. The sends to one conversation keep their order all the way. Spec: P-4.3.
type carrier struct {
	owners
	store   store.Store
	streams *stream.Streams
	nodes   *fanout.Nodes
	lanes   []lane        // by feed
	wakes   chan struct{} // capacity 1; a token: a lane has something to do
}

func newCarrier(o owners, st store.Store, streams *stream.Streams, nodes *fanout.Nodes) *carrier {
	last := store.Feed(0)
	for _, f := range st.Feeds() {
		last = max(last, f)
	}
	ca := &carrier{owners: o, store: st, streams: streams, nodes: nodes, lanes: make([]lane, int(last)+1),
		wakes: make(chan struct{}, 1)}
	for i := range ca.lanes {
		l := &ca.lanes[i]
		l.queues, l.tickets = map[im.Key]*queue{}, map[uint64]asked{}
		// An owner may still answer sends of the former process with this node's
		// id. Their tickets must differ from those of new sends.
		l.last = o.cluster.Incarnation() >> (64 - ticketShift + 1)
	}
	streams.Handle(cluster.KindSends, ca.receiveSends)
	streams.Handle(cluster.KindNotOwner, ca.receiveNotOwner)
	nodes.Answered, nodes.Lost = ca.answered, ca.lostAnswers
	return ca
}

// waits tells whether the lane of a feed has sends.
func (ca *carrier) waits(f store.Feed) bool { return ca.lanes[f].n.Load() > 0 }

// submit puts sends, all for feed f, into its lane, or gives them to an Owner that
// is here by now. It refuses those for which there is no room with overloaded.
func (ca *carrier) submit(f store.Feed, sends []*conv.Send, k *fanout.WakeUps) {
	l := &ca.lanes[f]
	var refused []*conv.Send
	l.mu.Lock()
	for _, s := range sends {
		if !ca.queueLocked(l, f, s, k) {
			refused = append(refused, s)
		}
	}
	l.mu.Unlock()
	ca.convs.Refuse(refused, &im.Error{Code: im.CodeOverloaded, RetryAfter: 200 * time.Millisecond}, k)
	ca.wake()
}

// queueLocked puts a send into the lane. If the Owner is on this node by now, and
// no send of the same conversation waits, the Owner gets the send instead. It
// returns false when the sends of this node have reached their limit of bytes.
func (ca *carrier) queueLocked(l *lane, f store.Feed, s *conv.Send, k *fanout.WakeUps) bool {
	if l.queues[s.Conv] == nil {
		if ow := ca.convs.Owner(f); ow != nil && ow.Submit([]*conv.Send{s}, k) {
			return true
		}
	}
	bytes := s.Size()
	if !ca.convs.Reserve(bytes) {
		return false
	}
	l.addLocked(s, bytes)
	return true
}

// takeFrom puts the sends that an Owner has not answered into the lane, in front of those that came after them.
// If the Owner is lost, it tells the cluster.
func (ca *carrier) takeFrom(ow *conv.Owner, retire func() []*conv.Send) {
	l := &ca.lanes[ow.Feed()]
	l.mu.Lock()
	sends := retire()
	for _, s := range sends {
		ca.convs.Hold(s.Size())
	}
	l.prependLocked(sends)
	l.mu.Unlock()
	ca.wake()
	if ow.Lost() {
		ca.cluster.Lost(ow.Feed(), ow.Epoch())
	}
}

// Carrying returns how many sends wait for owners on other nodes.
func (ca *carrier) Carrying() int {
	n := 0
	for i := range ca.lanes {
		n += int(ca.lanes[i].n.Load())
	}
	return n
}

// wake has run look at the lanes.
func (ca *carrier) wake() {
	wake.Set(ca.wakes)
}

// run moves the sends in the lanes until ctx ends. Those that are left
// then get no answer, and their senders send them again.
func (ca *carrier) run(ctx context.Context) {
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	var posted time.Time
	for {
		all := false
		select {
		case <-ctx.Done():
			return
		case <-ca.wakes:
			if rest := gather - time.Since(posted); rest > 0 {
				time.Sleep(rest)
			}
		case <-tick.C:
			all = true
		}
		var k fanout.WakeUps
		packets := map[im.Node]*packet{}
		for f := range ca.lanes {
			if ca.waits(store.Feed(f)) {
				ca.moveLane(store.Feed(f), all, packets, &k)
			}
		}
		for to, p := range packets {
			ca.post(to, p)
			posted = time.Now()
		}
		k.Flush()
	}
}

// moveLane gives the waiting sends of a feed to the Owner here, or by a packet to the node of the owner. It
// refuses those that have waited too long with store_stalled. With all, it also looks at sends under way.
func (ca *carrier) moveLane(f store.Feed, all bool, packets map[im.Node]*packet, k *fanout.WakeUps) {
	l := &ca.lanes[f]
	var over []pending
	l.mu.Lock()
	ow := ca.convs.Owner(f)
	node, epoch, known := ca.cluster.Route(f)
	list := l.takeReadyLocked(all || ow != nil || epoch != l.epoch)
	l.epoch = epoch
	for _, q := range list {
		switch {
		case ow != nil && !ow.Sealed():
			ca.enterLocked(l, q, ow, k)
		case ca.waitedTooLong(q):
			ca.log.Debug("sends have waited too long for their owner", "feed", f, "sends", len(q.out)+len(q.wait),
				"owner", node, "epoch", epoch, "leaving", ow != nil)
			over = append(over, l.takeLocked(q)...)
		case ow != nil:
			// The Owner is about to leave, and may have earlier sends: the lane waits.
		default:
			if len(q.out) > 0 && (!known || q.epoch != epoch || time.Since(q.at) > resendAfter<<q.resends) {
				ca.log.Debug("sends go out again", "feed", f, "sends", len(q.out), "asked", q.epoch, "owner", node,
					"epoch", epoch)
				if q.epoch == epoch {
					q.resends++
				}
				q.resend()
			}
			if len(q.out) == 0 && known && node != ca.cluster.Self() {
				q.epoch, q.at = epoch, time.Now()
				if packets[node] == nil {
					packets[node] = &packet{}
				}
				l.sendLocked(f, q, packets[node])
			}
		}
	}
	l.mu.Unlock()
	ca.release(over)
	ca.convs.Refuse(sendsOf(over), &im.Error{Code: im.CodeStoreStalled, RetryAfter: retryAfter}, k)
}

// enterLocked gives the sends of a queue to the Owner here.
func (ca *carrier) enterLocked(l *lane, q *queue, ow *conv.Owner, k *fanout.WakeUps) {
	// Keep n above 0 until Submit returns: otherwise a new send would see an
	// empty lane and overtake these. Spec: P-4.3.
	n := int64(len(q.out) + len(q.wait))
	l.n.Add(n)
	defer l.n.Add(-n)
	list := l.takeLocked(q)
	ca.release(list)
	for _, p := range list {
		p.s.Asked = p.s.Asked || p.asked > 0
		p.s.Tried = p.s.Tried || p.asked > 0
	}
	if ow.Submit(sendsOf(list), k) {
		return
	}
	for _, p := range list { // the Owner is leaving
		ca.convs.Hold(p.bytes)
		l.addLocked(p.s, p.bytes)
	}
}

// waitedTooLong tells whether a queue has waited so long that the outcome of its sends counts as unknown.
func (ca *carrier) waitedTooLong(q *queue) bool {
	wait := time.Since(q.since)
	return wait > giveUp || wait > giveUpAlone && ca.store.Writable() != nil
}

func (ca *carrier) release(list []pending) {
	for _, p := range list {
		ca.convs.Release(p.bytes)
	}
}

// post sends a packet. If it is lost, its sends go out again.
func (ca *carrier) post(to im.Node, p *packet) {
	for _, b := range p.frames {
		if _, err := ca.streams.Send(to, cluster.KindSends, b, stream.Hint{Optional: true}); err != nil {
			ca.log.Debug("carry sends failed", "node", to, "err", err)
		}
	}
}

// receiveSends submits the sends of another node for the feeds here.
func (ca *carrier) receiveSends(from im.Node, payload []byte) {
	p, err := readSends(payload)
	if err != nil {
		ca.log.Error("read sends of another node failed", "node", from, "err", err)
		return
	}
	var k fanout.WakeUps
	defer k.Flush()
	sends := make([]*conv.Send, 0, len(p))
	for len(p) > 0 {
		f := ca.convs.FeedOf(im.ConvID(p[0].Conv))
		n := 0
		for sends = sends[:0]; n < len(p) && ca.convs.FeedOf(im.ConvID(p[n].Conv)) == f; n++ {
			sends = append(sends, sendOf(p[n], from, ca.nodes))
		}
		if ow := ca.convs.Owner(f); ow == nil || !ow.Submit(sends, &k) {
			ca.giveBack(from, f, p[:n])
		}
		p = p[n:]
	}
}

// giveBack tells a node that this one does not own the feed of its sends.
func (ca *carrier) giveBack(to im.Node, f store.Feed, sends []*routepb.Send) {
	r := &routepb.NotOwner{Feed: uint32(f)}
	for _, s := range sends {
		r.Tickets = append(r.Tickets, s.Ticket)
	}
	if node, epoch, ok := ca.elsewhere(f); ok {
		r.Owner, r.Epoch = string(node), uint64(epoch)
	}
	b, err := r.MarshalVT()
	if err == nil {
		_, err = ca.streams.Send(to, cluster.KindNotOwner, b, stream.Hint{Optional: true})
	}
	if err != nil {
		ca.log.Debug("give sends back failed", "node", to, "err", err)
	}
}

// receiveNotOwner is called when another node has not taken sends, because it does not own their feed.
// They go out again soon, to the owner that this node knows then. The message may name the owner.
func (ca *carrier) receiveNotOwner(from im.Node, payload []byte) {
	r := &routepb.NotOwner{}
	if err := r.UnmarshalVT(payload); err != nil || int(r.Feed) >= len(ca.lanes) {
		ca.log.Error("read returned sends failed", "node", from, "err", err)
		return
	}
	if r.Owner != "" {
		ca.cluster.Learn(store.Feed(r.Feed), im.Node(r.Owner), im.Epoch(r.Epoch))
		defer ca.wake()
	}
	l := &ca.lanes[r.Feed]
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range r.Tickets {
		a, ok := l.tickets[t]
		if !ok {
			continue
		}
		l.undecidedLocked(t, a)
		if len(a.q.out) > 0 && a.q.out[0].s == a.p.s {
			// They go out again in about 50 ms, or as soon as a newer owner is known:
			// the route that led to the wrong node may take as long to change.
			a.q.at, a.q.resends = time.Now().Add(lookAgain/2-resendAfter), 0
		}
	}
}

// answered removes from its lane a send that another node has decided. It returns the origin to
// answer on a connection; for a send of the server itself it calls Done. A send that came from a
// third node is not answered from here: that node sends it again, to the owner that it knows then.
func (ca *carrier) answered(from im.Node, ticket uint64, r *fanout.Answer) (fanout.Origin, bool) {
	f := ticket >> ticketShift
	if f >= uint64(len(ca.lanes)) {
		ca.log.Error("answer names a feed that is none", "node", from)
		return fanout.Origin{}, false
	}
	l := &ca.lanes[f]
	l.mu.Lock()
	p, next, ok := l.answeredLocked(ticket)
	l.mu.Unlock()
	if !ok {
		return fanout.Origin{}, false
	}
	ca.convs.Release(p.bytes)
	if next {
		ca.wake()
	}
	if r.Err != nil && r.Err.Code.Info().Settled && (p.asked > 1 || p.s.Asked) {
		// Another copy of the send may be decided later, after a change of the
		// conversation, and be stored. Spec: P-4.8.
		r.Err = &im.Error{Code: im.CodeStoreStalled, RetryAfter: retryAfter}
	}
	if p.s.Origin.Out == nil && p.s.Done != nil {
		a := r.Ack
		p.s.Done(conv.Result{Seq: im.Seq(a.Seq), TimeMs: a.TimeMs, Counted: a.Counted, ThreadN: a.ThreadN,
			Message: bytes.Clone(a.Message), Repeat: r.Repeat, Err: r.Err})
	}
	return p.s.Origin, p.s.Origin.Out != nil
}

// lostAnswers is called when answers of another node may be lost: those about one conversation, or, with the zero
// key, about all. It has all unanswered sends to this conversation, or to all, sent again, whichever node was
// asked.
func (ca *carrier) lostAnswers(_ im.Node, about im.Key) {
	for f := range ca.lanes {
		l := &ca.lanes[f]
		if l.n.Load() == 0 || about != (im.Key{}) && ca.convs.FeedOf(about.Conv) != store.Feed(f) {
			continue
		}
		l.mu.Lock()
		for key, q := range l.queues {
			if about == (im.Key{}) || about == key {
				q.at, q.resends = time.Time{}, 0
				l.readyLocked(q)
			}
		}
		l.mu.Unlock()
	}
	ca.wake()
}
