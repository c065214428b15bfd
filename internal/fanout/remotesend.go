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

// maxUserBytes is how many bytes of user ids go into one frame. Together with the
// rows of one delivery the frame stays below 256 KiB, unless a row is larger.
const maxUserBytes = 128 << 10

// remoteBatch gathers the frames of a Fan for other nodes: first the recipients and answers
// of the present delivery, then, packed, the frames that Flush sends.
type remoteBatch struct {
	nodes  *Nodes
	byNode [maxNodes]nodeBatch // of the present delivery, by the index of the node
	used   uint64              // bits of the nodes whose nodeBatch is not empty
	frames []frame
}

// nodeBatch is the part of the present delivery for one node.
type nodeBatch struct {
	users     []string // recipients
	userBytes int
	hashSum   uint64 // of the users' hashes: names this set of users

	caller  *node // the node that gets the answers
	conv    im.ConvID
	answers []*clusterpb.Answer
	senders []im.User // of the answers
}

// frame is a frame for one node.
type frame struct {
	to      im.Node
	kind    byte
	payload []byte
	hint    stream.Hint
}

// addRecipient adds a user, whose hash is h, for each node where the user is online.
func (b *remoteBatch) addRecipient(u im.User, h uint64) {
	nodes := b.nodes.online.nodesOf(h)
	b.used |= nodes
	for nodes != 0 {
		n := &b.byNode[takeLowestBit(&nodes)]
		n.users, n.userBytes, n.hashSum = append(n.users, string(u)), n.userBytes+len(u)+2, n.hashSum+h
	}
}

// addAnswer adds an answer for the node that waits for it. rowsBefore is how many rows of
// the delivery come before the answer. own means that the next row is the entry of the send.
func (b *remoteBatch) addAnswer(c *Caller, a Answer, rowsBefore int, own bool) {
	to := c.Nodes.known(c.Node)
	if to == nil {
		return
	}
	i := to.index.Load()
	if i < 0 {
		return // the streams have ended: that node knows that it may have lost answers
	}
	b.used |= 1 << i
	n := &b.byNode[i]
	if n.caller != to { // the answers are for the former node with this index
		n.caller, n.answers, n.senders = to, nil, nil
	}
	m := encodeAnswer(c.Ticket, a)
	m.At, m.Own = uint32(rowsBefore), own
	n.answers, n.senders, n.conv = append(n.answers, m), append(n.senders, c.User), c.Conv.Conv
}

// eachNode calls f for each node for which the present delivery has
// something, and then empties the batch of the node.
func (b *remoteBatch) eachNode(f func(to *node, n *nodeBatch)) {
	for b.used != 0 {
		i := takeLowestBit(&b.used)
		n := &b.byNode[i]
		if to := b.nodes.byIndex[i].Load(); to != nil {
			if n.caller != to {
				n.answers, n.senders = nil, nil
			}
			f(to, n)
		}
		*n = nodeBatch{users: n.users[:0]}
	}
}

// packDelivery makes the frames of the present delivery: one for each node, or more
// if the users are too many for one frame.
func (b *remoteBatch) packDelivery(tenant im.Tenant, rows [][]byte, newest *newestRow, named *named) {
	b.eachNode(func(to *node, n *nodeBatch) {
		if len(n.users) == 0 && len(n.answers) == 0 {
			return
		}
		head := clusterpb.Delivery{Tenant: uint32(tenant)}
		rest := clusterpb.Delivery{Answers: n.answers}
		conv := n.conv
		if len(n.users) > 0 {
			h := newest.hint()
			conv, head.Head, head.Counted = h.conv, h.head, h.counted
			rest.Rows, head.Names = rows, named.frames()
		}
		head.Conv = conv[:]
		if n.userBytes > maxUserBytes {
			// The senders go into the first frame, which has the answers. A sender
			// in another frame would get its answers before the rows around them.
			slices.SortStableFunc(n.users, func(a, b string) int {
				return senderFirst(n.senders, a) - senderFirst(n.senders, b)
			})
		}
		for users := n.users; ; {
			fit := usersInOneFrame(users)
			head.Users = users[:fit]
			b.frames = append(b.frames, deliveryFrame(to.id, &head, &rest,
				n.hashSum+uint64(len(n.users)-len(users))+named.hash()))
			if users = users[fit:]; len(users) == 0 {
				return
			}
			rest.Answers = nil
		}
	})
}

// senderFirst is the sort key that puts senders before other users.
func senderFirst(senders []im.User, u string) int {
	if slices.Contains(senders, im.User(u)) {
		return 0
	}
	return 1
}

// usersInOneFrame returns how many of the users go into one frame.
func usersInOneFrame(users []string) int {
	bytes := 0
	for i, u := range users {
		if bytes += len(u) + 2; bytes > maxUserBytes {
			return i
		}
	}
	return len(users)
}

// deliveryFrame makes a frame out of head and rest. If the stream cannot keep the frame, it sends the
// frame's hint instead. The hint is head alone: the users, and the newest head of the conversation. The
// key of the hint names the conversation and, by set, the users and the mentioned users. So the hint of
// a later frame replaces only hints of earlier frames with the same users and the same mentions.
func deliveryFrame(to im.Node, head, rest *clusterpb.Delivery, set uint64) frame {
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
	return frame{to, cluster.KindDelivery, payload, stream.Hint{Kind: cluster.KindDelivery, Key: string(key[:]),
		Payload: payload[:n:n]}}
}

func encodeAnswer(ticket uint64, a Answer) *clusterpb.Answer {
	if err := a.Err; err != nil {
		return &clusterpb.Answer{Ticket: ticket, Failure: &clusterpb.Answer_Failure{
			Code: string(err.Code), Message: err.Message, RetryAfterMs: uint64(err.RetryAfter.Milliseconds()),
			Head: uint64(err.Head), User: string(err.User), Request: err.Request,
		}}
	}
	return &clusterpb.Answer{
		Ticket: ticket, Seq: a.Ack.Seq, TimeMs: a.Ack.TimeMs, Conv: a.Ack.Conv, Repeat: a.Repeat,
		Counted: a.Ack.Counted, ThreadN: a.Ack.ThreadN, Message: a.Ack.Message,
	}
}

func decodeAnswer(a *clusterpb.Answer) Answer {
	if e := a.Failure; e != nil {
		return Answer{Err: &im.Error{
			Code: im.Code(e.Code), Message: e.Message, RetryAfter: time.Duration(e.RetryAfterMs) * time.Millisecond,
			Head: im.Seq(e.Head), User: im.User(e.User), Request: e.Request,
		}}
	}
	return Answer{Ack: wire.Ack{Conv: a.Conv, Seq: a.Seq, TimeMs: a.TimeMs, Counted: a.Counted, ThreadN: a.ThreadN,
		Message: a.Message}, Repeat: a.Repeat}
}

// reply sends the node of c the answer to a send. It is for answers that are not part of a delivery.
func (c *Caller) reply(ack wire.Ack, err *im.Error) {
	head := clusterpb.Delivery{Tenant: uint32(c.Conv.Tenant), Conv: c.Conv.Conv[:]}
	rest := clusterpb.Delivery{Answers: []*clusterpb.Answer{encodeAnswer(c.Ticket, Answer{Ack: ack, Err: err})}}
	c.Nodes.dispatch(deliveryFrame(c.Node, &head, &rest, 0))
}

// flush gives the frames to the streams.
func (b *remoteBatch) flush() {
	for i := range b.frames {
		b.nodes.dispatch(b.frames[i])
	}
	clear(b.frames)
	b.frames = b.frames[:0]
}

// dispatch gives a frame to the stream of its node. If the frame is too large for the bus, its hint goes
// instead. Failures are logged, except that the stream has ended.
func (n *Nodes) dispatch(f frame) {
	_, err := n.streams.Send(f.to, f.kind, f.payload, f.hint)
	if errors.Is(err, bus.ErrTooLarge) && f.hint.Kind != 0 {
		n.TooLarge.Add(1)
		_, err = n.streams.Send(f.to, f.hint.Kind, f.hint.Payload, f.hint)
	}
	if err != nil && !errors.Is(err, bus.ErrNoNode) { // a node whose streams have ended resyncs when they begin again
		n.log.Error("send to another node failed", "node", f.to, "err", err)
	}
}
