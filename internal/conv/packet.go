package conv

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/petrel-im/petrel/internal/bus/stream"
	"github.com/petrel-im/petrel/internal/cluster"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

const (
	packetSize = 128 << 10 // bytes of sends in one frame of the stream
	sendsField = 1         // the number of Sends.sends
)

// packet is what one node asks of another at once: frames of bounded size, each
// a convpb.Sends, whose messages are written one behind the other.
type packet struct{ frames [][]byte }

func (p *packet) add(s *Send) {
	m := convpb.Send{
		Ticket: s.ticket, Tenant: uint32(s.Conv.Tenant), Conv: s.Conv.Conv[:], Peer: string(s.Peer), After: uint64(s.After), Keyed: s.Keyed,
		Entry: &s.Entry, Create: s.Create,
	}
	n := m.SizeVT()
	if last := len(p.frames) - 1; last < 0 || len(p.frames[last])+n > packetSize {
		p.frames = append(p.frames, nil)
	}
	b := &p.frames[len(p.frames)-1]
	*b = protowire.AppendTag(*b, sendsField, protowire.BytesType)
	*b = protowire.AppendVarint(*b, uint64(n))
	*b = slices.Grow(*b, n)
	*b = (*b)[:len(*b)+n]
	_, err := m.MarshalToSizedBufferVT((*b)[len(*b)-n:])
	im.Assert(err == nil, "encode a send: %v", err)
}

// post sends a packet. What is lost is asked again.
func (cs *Convs) post(to im.Node, p *packet) {
	for _, b := range p.frames {
		if _, err := cs.o.Streams.Send(to, cluster.KindSends, b, stream.Hint{Optional: true}); err != nil {
			cs.o.Log.Debug("forward sends failed", "to", to, "err", err)
		}
	}
}

// receiveSends submits what another node has sent for the feeds here.
func (cs *Convs) receiveSends(from im.Node, payload []byte) {
	p, err := readSends(payload)
	if err != nil {
		cs.o.Log.Error("read forwarded sends failed", "from", from, "err", err)
		return
	}
	var k fanout.Kicks
	defer k.Flush()
	sends := make([]*Send, 0, len(p))
	for len(p) > 0 {
		f := cs.feedOf(keyOf(p[0]))
		n := 0
		for sends = sends[:0]; n < len(p) && cs.feedOf(keyOf(p[n])) == f; n++ {
			sends = append(sends, cs.received(from, p[n]))
		}
		if ow := cs.owners[f].Load(); ow == nil || !ow.submit(sends, &k) {
			cs.giveBack(from, f, p[:n])
		}
		p = p[n:]
	}
}

// readSends decodes a frame. Messages, of which nothing is kept when they are
// stored, share its bytes; of other entries names and titles stay in memory for
// long, so they get their own.
func readSends(payload []byte) ([]*convpb.Send, error) {
	var p convpb.Sends
	if err := p.UnmarshalVTUnsafe(payload); err != nil {
		return nil, err
	}
	for _, s := range p.Sends {
		switch s.Entry.GetBody().(type) {
		case *petrelv1.Message_Text, *petrelv1.Message_Data:
		default:
			p = convpb.Sends{}
			err := p.UnmarshalVT(payload)
			return p.Sends, err
		}
	}
	return p.Sends, nil
}

func keyOf(s *convpb.Send) im.Key {
	return im.Key{Tenant: im.Tenant(s.Tenant), Conv: im.ConvID(s.Conv)}
}

// forwarded is a send of another node.
type forwarded struct {
	Send
	caller fanout.Caller
}

func (cs *Convs) received(from im.Node, m *convpb.Send) *Send {
	f := &forwarded{
		Send: Send{
			Conv: keyOf(m), Peer: im.User(strings.Clone(m.Peer)), // a member of a conversation that it makes come to be, as is From
			After: im.Seq(m.After), Keyed: m.Keyed, Create: m.Create,
		},
		caller: fanout.Caller{Nodes: cs.o.Nodes, Node: from, Ticket: m.Ticket},
	}
	f.caller.Conv, f.Origin.Caller = f.Conv, &f.caller
	if e := m.Entry; e != nil {
		f.Entry = petrelv1.Message{From: strings.Clone(e.From), ClientMsgId: e.ClientMsgId, Type: e.Type, Body: e.Body}
		f.caller.User = im.User(f.Entry.From)
	}
	return &f.Send
}
