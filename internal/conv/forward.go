package conv

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/petrel-im/petrel/internal/bus/stream"
	"github.com/petrel-im/petrel/internal/cluster"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
)

// Sends whose conversation is not decided here wait in lanes, one for each
// feed. Of a conversation one request is under way to its owner, and the next
// one takes what was queued meanwhile, so that no send overtakes another
// whatever is lost on the way; a request without an answer is repeated as it
// was. When the feed comes here, its lane is emptied into the Owner.

const (
	askAgain    = 2 * time.Second        // after which a request is repeated; twice as long after each time
	giveUp      = 10 * time.Second       // without an answer to any send of a conversation: nothing is known of them then
	giveUpAlone = 2 * time.Second        // the same, where the store is out of reach as well: this node may be cut off from all
	lookAgain   = 100 * time.Millisecond // after which all that waits is looked at without a reason
	gather      = time.Millisecond       // between two packets to a node: what comes meanwhile goes along
	ticketShift = 48                     // tickets begin with their feed
)

// lane holds the sends for one feed.
type lane struct {
	n atomic.Int64 // sends in it

	mu      sync.Mutex // tier 3; guards the fields below. Owner.mu is taken under it
	queues  map[im.Key]*queue
	ready   []*queue // those with something to ask, each once
	epoch   im.Epoch // of the owner known when all of them were looked at last
	tickets map[uint64]asked
	last    uint64
}

// queue holds the sends to one conversation.
type queue struct {
	key   im.Key
	out   []*Send   // asked of an owner and not answered, in order
	wait  []*Send   // behind them
	ready bool      // it stands in the lane's list
	epoch im.Epoch  // of the owner asked
	at    time.Time // when it was asked
	again int       // how often it was repeated
	since time.Time // when the last answer came, or the first send
}

// readyLocked has a queue looked at by the next moveLane.
func (l *lane) readyLocked(q *queue) {
	if !q.ready {
		q.ready = true
		l.ready = append(l.ready, q)
	}
}

// asked is a send under way.
type asked struct {
	q *queue
	s *Send
}

// all are its sends in their order.
func (q *queue) all() []*Send {
	return append(q.out, q.wait...)
}

// submit gives sends, all for one feed, to the Owner here, or queues them.
func (cs *Convs) submit(f store.Feed, sends []*Send, k *fanout.Kicks) {
	l := &cs.lanes[f]
	if l.n.Load() == 0 {
		if ow := cs.owners[f].Load(); ow != nil && ow.submit(sends, k) {
			return
		}
	}
	if cs.o.Cluster == nil {
		refuseAll(sends, &im.Error{Code: im.CodeDraining, RetryAfter: time.Second}, k)
		return
	}
	var refused []*Send
	l.mu.Lock()
	for _, s := range sends {
		if !cs.queueLocked(l, f, s, k) {
			refused = append(refused, s)
		}
	}
	l.mu.Unlock()
	refuseAll(refused, &im.Error{Code: im.CodeOverloaded, RetryAfter: 200 * time.Millisecond}, k)
	cs.pump()
}

func refuseAll(sends []*Send, e *im.Error, k *fanout.Kicks) {
	for _, s := range sends {
		s.answer(Result{Err: e}, k)
	}
}

// queueLocked queues a send, or gives it to an Owner that has come meanwhile if
// none of its conversation waits. It reports false when a bound is reached.
func (cs *Convs) queueLocked(l *lane, f store.Feed, s *Send, k *fanout.Kicks) bool {
	q := l.queues[s.Conv]
	if q == nil {
		if ow := cs.owners[f].Load(); ow != nil && ow.submit([]*Send{s}, k) {
			return true
		}
	}
	s.bytes = overhead + bodySize(&s.Entry)
	if cs.node.inFlight.Load()+int64(s.bytes) > int64(cs.o.InFlightBytes) {
		return false
	}
	cs.addLocked(l, s)
	return true
}

func (cs *Convs) addLocked(l *lane, s *Send) {
	q := l.queues[s.Conv]
	if q == nil {
		q = &queue{key: s.Conv, since: time.Now()}
		l.queues[s.Conv] = q
	}
	q.wait = append(q.wait, s)
	if len(q.out) == 0 {
		l.readyLocked(q)
	}
	l.n.Add(1)
	cs.node.inFlight.Add(int64(s.bytes))
}

// forward takes an Owner out of service and queues the sends that it has not
// decided, in front of those that came behind them.
func (cs *Convs) forward(ow *Owner, orphans func() []*Send) {
	l := &cs.lanes[ow.feed]
	l.mu.Lock()
	sends := orphans()
	cs.owners[ow.feed].CompareAndSwap(ow, nil)
	later := l.queues
	l.queues, l.epoch = map[im.Key]*queue{}, 0
	for _, s := range sends {
		cs.addLocked(l, s)
	}
	for key, q := range later {
		if first := l.queues[key]; first != nil {
			q.wait = append(first.wait, q.all()...) // what is under way is asked again, behind them
			q.out = nil
		}
		l.queues[key] = q
	}
	l.mu.Unlock()
	cs.pump()
}

// forwarding is how many sends wait in lanes.
func (cs *Convs) forwarding() int {
	n := 0
	for i := range cs.lanes {
		n += int(cs.lanes[i].n.Load())
	}
	return n
}

// pump has the lanes looked at.
func (cs *Convs) pump() {
	select {
	case cs.pumps <- struct{}{}:
	default:
	}
}

// runLanes moves what is in the lanes until ctx ends; what is left then has no
// answer, and its senders send it again.
func (cs *Convs) runLanes(ctx context.Context) {
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	var posted time.Time
	for {
		all := false
		select {
		case <-ctx.Done():
			return
		case <-cs.pumps:
			if rest := gather - time.Since(posted); rest > 0 {
				time.Sleep(rest)
			}
		case <-tick.C:
			all = true
		}
		var k fanout.Kicks
		packets := map[im.Node]*packet{}
		for f := range cs.lanes {
			if cs.lanes[f].n.Load() > 0 {
				cs.moveLane(store.Feed(f), all, packets, &k)
			}
		}
		for to, p := range packets {
			cs.post(to, p)
			posted = time.Now()
		}
		k.Flush()
	}
}

// moveLane gives what waits for a feed to its owner: the one here, or by a
// packet to its node. While an Owner is about to leave, which may have sends
// that come first, the lane rests. all: what has been asked is looked at as
// well.
func (cs *Convs) moveLane(f store.Feed, all bool, packets map[im.Node]*packet, k *fanout.Kicks) {
	l, now := &cs.lanes[f], time.Now()
	var over []*Send
	l.mu.Lock()
	ow := cs.owners[f].Load()
	node, epoch, known := cs.o.Cluster.Route(f)
	takes := ow != nil && !ow.Sealed()
	look := l.ready
	if all || ow != nil || epoch != l.epoch {
		look = slices.Collect(maps.Values(l.queues))
	}
	l.ready, l.epoch = nil, epoch
	for _, q := range look {
		q.ready = false
		if l.queues[q.key] != q {
			continue // it was emptied meanwhile
		}
		if takes {
			sends := q.all()
			l.n.Add(int64(len(sends))) // until they are in: what comes now must not pass the lane by and be decided before them
			cs.takeLocked(l, q)
			if takes = ow.submit(sends, k); !takes {
				for _, s := range sends {
					cs.addLocked(l, s)
				}
			}
			l.n.Add(-int64(len(sends)))
			continue
		}
		if wait := now.Sub(q.since); wait > giveUp || wait > giveUpAlone && cs.store.Writable() != nil {
			over = append(over, q.all()...)
			cs.takeLocked(l, q)
			continue
		}
		if ow != nil {
			continue
		}
		if len(q.out) > 0 && (!known || q.epoch != epoch || now.Sub(q.at) > askAgain<<q.again) {
			if q.epoch == epoch {
				q.again++
			}
			q.wait, q.out = q.all(), nil
		}
		if len(q.out) == 0 && known && node != cs.o.Cluster.Self() {
			q.epoch, q.at = epoch, now
			if packets[node] == nil {
				packets[node] = &packet{}
			}
			cs.askLocked(l, f, q, packets[node])
		}
	}
	l.mu.Unlock()
	refuseAll(over, &im.Error{Code: im.CodeStoreStalled, RetryAfter: time.Second}, k)
}

// takeLocked takes a queue out of its lane.
func (cs *Convs) takeLocked(l *lane, q *queue) {
	for _, s := range q.all() {
		delete(l.tickets, s.ticket)
		s.ticket = 0
		cs.node.inFlight.Add(-int64(s.bytes))
		l.n.Add(-1)
	}
	delete(l.queues, q.key)
}

// askLocked puts the next sends of a queue into the packet for a node.
func (cs *Convs) askLocked(l *lane, f store.Feed, q *queue, to *packet) {
	const maxRows, maxBytes = 256, 64 << 10
	n, bytes := 0, 0
	for n < len(q.wait) && n < maxRows && (n == 0 || bytes+q.wait[n].bytes <= maxBytes) {
		bytes += q.wait[n].bytes
		n++
	}
	q.out, q.wait = q.wait[:n:n], q.wait[n:]
	for _, s := range q.out {
		if s.ticket == 0 {
			l.last++
			s.ticket = uint64(f)<<ticketShift | l.last
			l.tickets[s.ticket] = asked{q, s}
		}
		to.add(s)
	}
}

// answered ends the wait of a send that another node has decided. It returns
// whom to answer on a connection; what waits elsewhere has been told.
func (cs *Convs) answered(_ im.Node, ticket uint64, r fanout.Answer) (fanout.Origin, bool) {
	f := ticket >> ticketShift
	if f >= uint64(len(cs.lanes)) {
		return fanout.Origin{}, false
	}
	l := &cs.lanes[f]
	l.mu.Lock()
	a, ok := l.tickets[ticket]
	if !ok { // answered before
		l.mu.Unlock()
		return fanout.Origin{}, false
	}
	q := a.q
	delete(l.tickets, ticket)
	l.n.Add(-1)
	cs.node.inFlight.Add(-int64(a.s.bytes))
	q.out, q.wait = without(q.out, a.s), without(q.wait, a.s) // the answer may come when it is to be asked again
	q.since, q.again = time.Now(), 0
	more := len(q.wait) > 0
	if len(q.out) == 0 && !more {
		delete(l.queues, q.key)
	}
	next := len(q.out) == 0 && more
	if next {
		l.readyLocked(q)
	}
	l.mu.Unlock()
	if next {
		cs.pump()
	}
	if a.s.Origin.Out == nil && a.s.Done != nil {
		a.s.Done(Result{Seq: im.Seq(r.Ack.Seq), TimeMs: r.Ack.TimeMs, Repeat: r.Repeat, Err: r.Err})
	}
	return a.s.Origin, a.s.Origin.Out != nil
}

// without takes s out of list, where it usually is the first.
func without(list []*Send, s *Send) []*Send {
	for i := range list {
		if list[i] == s {
			if i == 0 {
				return list[1:]
			}
			return append(list[:i:i], list[i+1:]...)
		}
	}
	return list
}

// giveBack tells a node that its sends are not for this one.
func (cs *Convs) giveBack(to im.Node, f store.Feed, sends []*convpb.Send) {
	r := &convpb.NotOwner{Feed: uint32(f)}
	for _, s := range sends {
		r.Tickets = append(r.Tickets, s.Ticket)
	}
	if node, epoch, ok := cs.o.Cluster.Route(f); ok && node != cs.o.Cluster.Self() {
		r.Owner, r.Epoch = string(node), uint64(epoch)
	}
	b, err := r.MarshalVT()
	if err == nil {
		_, err = cs.o.Streams.Send(to, cluster.KindNotOwner, b, stream.Hint{Optional: true})
	}
	if err != nil {
		cs.o.Log.Debug("give sends back failed", "to", to, "err", err)
	}
}

// lostAnswers has the sends asked again whose answers may be lost: of one
// conversation, or, with the zero key, of all.
func (cs *Convs) lostAnswers(_ im.Node, about im.Key) {
	for f := range cs.lanes {
		l := &cs.lanes[f]
		if l.n.Load() == 0 || about != (im.Key{}) && cs.feedOf(about) != store.Feed(f) {
			continue
		}
		l.mu.Lock()
		for key, q := range l.queues {
			if about == (im.Key{}) || about == key {
				q.at, q.again = time.Time{}, 0
				l.readyLocked(q)
			}
		}
		l.mu.Unlock()
	}
	cs.pump()
}

// receiveNotOwner has sends asked again, of who is said to own their feed.
func (cs *Convs) receiveNotOwner(from im.Node, payload []byte) {
	r := &convpb.NotOwner{}
	if err := r.UnmarshalVT(payload); err != nil || int(r.Feed) >= len(cs.lanes) {
		cs.o.Log.Error("read returned sends failed", "from", from, "err", err)
		return
	}
	if r.Owner != "" {
		cs.o.Cluster.Learn(store.Feed(r.Feed), im.Node(r.Owner), im.Epoch(r.Epoch))
		defer cs.pump()
	}
	l := &cs.lanes[r.Feed]
	l.mu.Lock()
	for _, t := range r.Tickets {
		if a, ok := l.tickets[t]; ok && len(a.q.out) > 0 && a.q.out[0] == a.s {
			// Not at once: the route that led there is looked up again after a while.
			a.q.at, a.q.again = time.Now().Add(lookAgain/2-askAgain), 0
		}
	}
	l.mu.Unlock()
}
