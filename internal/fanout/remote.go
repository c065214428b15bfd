package fanout

import (
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/petrel-im/petrel/internal/bus"
	"github.com/petrel-im/petrel/internal/bus/stream"
	"github.com/petrel-im/petrel/internal/cluster"
	"github.com/petrel-im/petrel/internal/cluster/clusterpb"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/wire"
)

// maxUserBytes of names go into one frame; with the rows of one delivery it
// stays below 256 KiB, unless a row is larger than that.
const maxUserBytes = 128 << 10

// parcel is what the delivery at hand has for another node.
type parcel struct {
	users []string
	bytes int
	set   uint64 // sum of the users' hashes: names who they are
}

// far is what a Fan has for other nodes.
type far struct {
	nodes   *Nodes
	parcels [maxNodes]parcel // of the delivery at hand
	used    uint64           // bits of those with something in them
	frames  []frame          // until Flush
}

// frame is for one node.
type frame struct {
	to      im.Node
	kind    byte
	payload []byte
	hint    stream.Hint
}

func (f *Fan) farOf(n *Nodes) *far {
	if f.far == nil {
		f.far = &far{nodes: n}
	}
	return f.far
}

// remote are the other nodes, if there are any.
func (f *Fan) remote() *Nodes {
	if f.Remote == nil || f.Remote.joined.Load() == 0 {
		return nil
	}
	return f.Remote
}

// address notes that a user, by hash, gets what is at hand at other nodes.
func (f *Fan) address(n *Nodes, u im.User, h uint64) {
	nodes := n.of(h)
	if nodes == 0 {
		return
	}
	f.farOf(n).used |= nodes
	for nodes != 0 {
		p := &f.far.parcels[next(&nodes)]
		p.users, p.bytes, p.set = append(p.users, string(u)), p.bytes+len(u)+2, p.set+h
	}
}

// addressCaller notes that an answer goes to a node.
func (f *Fan) addressCaller(c *Caller) {
	p := (*c.Nodes.nodes.Load())[c.Node]
	if p == nil {
		return
	}
	i := p.index.Load()
	if i < 0 {
		return // its streams have ended: it knows that answers are lost
	}
	f.farOf(c.Nodes).used |= 1 << i
}

// each calls f for the nodes that the delivery at hand has something for, and
// empties their parcels.
func (a *far) each(f func(to *node, p *parcel)) {
	for a.used != 0 {
		i := next(&a.used)
		p := &a.parcels[i]
		if to := a.nodes.byIndex[i].Load(); to != nil {
			f(to, p)
		}
		*p = parcel{users: p.users[:0]}
	}
}

// pack makes the frames of the delivery at hand, one for each node unless the
// users are too many.
func (f *Fan) pack(tenant im.Tenant) {
	f.far.each(func(to *node, p *parcel) {
		answers, conv, senders := f.answersTo(to.id)
		head := clusterpb.Delivery{Tenant: uint32(tenant)}
		rows := clusterpb.Delivery{Answers: answers}
		if len(p.users) > 0 {
			h := f.hint()
			conv, head.Head, head.Counted = h.conv, h.head, h.counted
			rows.Rows = f.rows
		}
		head.Conv = conv[:]
		if p.bytes > maxUserBytes {
			// Who gets an answer must get the rows around it in the same frame.
			slices.SortStableFunc(p.users, func(a, b string) int { return rank(senders, a) - rank(senders, b) })
		}
		for users := p.users; ; {
			n := fit(users)
			head.Users = users[:n]
			f.far.frames = append(f.far.frames, delivery(to.id, &head, &rows, p.set+uint64(len(p.users)-len(users))))
			if users = users[n:]; len(users) == 0 {
				return
			}
			rows.Answers = nil
		}
	})
}

func rank(first []im.User, u string) int {
	if slices.Contains(first, im.User(u)) {
		return 0
	}
	return 1
}

// fit is how many users go into one frame.
func fit(users []string) int {
	bytes := 0
	for i, u := range users {
		if bytes += len(u) + 2; bytes > maxUserBytes {
			return i
		}
	}
	return len(users)
}

// delivery makes a frame whose hint is its beginning: so far has the
// conversation moved, for these users, of whom set is a name. A later one for
// the same users says it all.
func delivery(to im.Node, head, rest *clusterpb.Delivery, set uint64) frame {
	n := head.SizeVT()
	payload := make([]byte, n+rest.SizeVT())
	_, err := head.MarshalToSizedBufferVT(payload[:n])
	im.Assert(err == nil, "encode a delivery: %v", err)
	_, err = rest.MarshalToSizedBufferVT(payload[n:])
	im.Assert(err == nil, "encode a delivery: %v", err)
	var key [4 + len(im.ConvID{}) + 8]byte
	binary.BigEndian.PutUint32(key[:], head.Tenant)
	copy(key[4:], head.Conv)
	binary.BigEndian.PutUint64(key[len(key)-8:], set)
	return frame{to, cluster.KindDelivery, payload, stream.Hint{Kind: cluster.KindDelivery, Key: string(key[:]), Payload: payload[:n:n]}}
}

// answersTo are the answers of the delivery at hand that go to a node, what
// they are about, and who gets them.
func (f *Fan) answersTo(id im.Node) (answers []*clusterpb.Answer, conv im.ConvID, senders []im.User) {
	rows := uint32(0)
	for i := range f.items {
		it := &f.items[i]
		if c := it.Sender.Caller; c != nil && c.Node == id {
			a := answer(c.Ticket, it.Ack, it.Repeat, it.Err)
			a.At, a.Own = rows, it.Row != nil
			answers, conv, senders = append(answers, a), c.Conv.Conv, append(senders, c.User)
		}
		if it.Row != nil {
			rows++
		}
	}
	return answers, conv, senders
}

func answer(ticket uint64, ack wire.Ack, repeat bool, err *im.Error) *clusterpb.Answer {
	if err != nil {
		return &clusterpb.Answer{Ticket: ticket, Failure: &clusterpb.Answer_Failure{
			Code: string(err.Code), Message: err.Message, RetryAfterMs: uint64(err.RetryAfter.Milliseconds()), Head: uint64(err.Head), Request: err.Request,
		}}
	}
	return &clusterpb.Answer{Ticket: ticket, Seq: ack.Seq, TimeMs: ack.TimeMs, Conv: ack.Conv, Repeat: repeat}
}

func answerOf(a *clusterpb.Answer) Answer {
	if e := a.Failure; e != nil {
		return Answer{Err: &im.Error{
			Code: im.Code(e.Code), Message: e.Message, RetryAfter: time.Duration(e.RetryAfterMs) * time.Millisecond, Head: im.Seq(e.Head), Request: e.Request,
		}}
	}
	return Answer{Ack: wire.Ack{Conv: a.Conv, Seq: a.Seq, TimeMs: a.TimeMs}, Repeat: a.Repeat}
}

// reply answers a send outside of a delivery.
func (c *Caller) reply(ack wire.Ack, err *im.Error) {
	head := clusterpb.Delivery{Tenant: uint32(c.Conv.Tenant), Conv: c.Conv.Conv[:]}
	rest := clusterpb.Delivery{Answers: []*clusterpb.Answer{answer(c.Ticket, ack, false, err)}}
	c.Nodes.dispatch(delivery(c.Node, &head, &rest, 0))
}

// Hint tells members how far a conversation has moved, in place of entries: for
// an owner who does not know what they were told. Like Deliver it is for who
// publishes, who has published the head. Spec: P-6.5.
func (f *Fan) Hint(key im.Key, members []im.User, head im.Seq, counted uint64) {
	if remote := f.choose(); remote != nil {
		for _, u := range members {
			f.address(remote, u, f.Table.hash(im.Account{Tenant: key.Tenant, User: u}))
		}
	}
	f.hintTo(key.Tenant, members, hint{key.Conv, uint64(head), counted})
	if f.far == nil {
		return
	}
	f.far.each(func(to *node, p *parcel) {
		m := clusterpb.Delivery{Tenant: uint32(key.Tenant), Conv: key.Conv[:], Head: uint64(head), Counted: counted}
		for users := p.users; len(users) > 0; {
			n := fit(users)
			set := p.set + uint64(len(p.users)-len(users))
			m.Users, users = users[:n], users[n:]
			f.far.frames = append(f.far.frames, delivery(to.id, &m, &clusterpb.Delivery{}, set))
		}
	})
}

// packReceipts makes the frames of receipts.
func (f *Fan) packReceipts(key im.Key, receipts []Receipt) {
	m := clusterpb.Receipts{Tenant: uint32(key.Tenant), Conv: key.Conv[:]}
	for _, r := range receipts {
		m.Receipts = append(m.Receipts, &clusterpb.Receipts_Receipt{User: r.User, Delivered: r.Delivered, Read: r.Read})
	}
	f.far.each(func(to *node, p *parcel) {
		for i, r := range receipts {
			m.Receipts[i].Askers = r.askersAt(to.id)
		}
		for users := p.users; len(users) > 0; {
			n := fit(users)
			m.Users, users = users[:n], users[n:]
			payload, err := m.MarshalVT()
			im.Assert(err == nil, "encode receipts: %v", err)
			f.far.frames = append(f.far.frames, frame{to.id, cluster.KindReceipts, payload, stream.Hint{Optional: true}})
		}
	})
}

// askersAt are the sessions at a node that asked.
func (r *Receipt) askersAt(id im.Node) (ids []uint64) {
	for _, a := range r.Origins {
		if a.Node == id {
			ids = append(ids, a.ID)
		}
	}
	return ids
}

// dispatch gives a frame to the stream. What is too large for one goes as its
// hint.
func (n *Nodes) dispatch(f frame) {
	_, err := n.streams.Send(f.to, f.kind, f.payload, f.hint)
	if errors.Is(err, bus.ErrTooLarge) && f.hint.Kind != 0 {
		n.TooLarge.Add(1)
		_, err = n.streams.Send(f.to, f.hint.Kind, f.hint.Payload, f.hint)
	}
	if err != nil && !errors.Is(err, bus.ErrNoNode) { // a node whose streams have ended notices by itself
		n.log.Error("send to another node failed", "node", f.to, "err", err)
	}
}
