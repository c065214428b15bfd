package route

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/route/routepb"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

const (
	packetSize = 128 << 10 // bytes of sends in one frame of the stream
	sendsField = 1         // the number of Sends.sends
)

// packet has the sends for one node that go out together: frames of bounded size, each a
// routepb.Sends, to which messages are appended.
type packet struct{ frames [][]byte }

func (p *packet) add(s *conv.Send, ticket uint64) {
	m := routepb.Send{
		Ticket: ticket, Tenant: uint32(s.Conv.Tenant), Conv: s.Conv.Conv[:], Peer: string(s.Peer),
		After: uint64(s.After), Keyed: s.Keyed,
		Entry: &s.Entry, Create: s.Create, Block: s.Block, Source: s.Source, Tried: s.Tried, Contact: s.Contact,
		BackEnd: s.BackEnd, MutedMs: s.MutedMs,
	}
	if s.Refusal != nil {
		m.Refusal = wire.ErrorFrame(s.Refusal)
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

// readSends decodes a frame of a packet. The sends share the bytes of the frame,
// since nothing of a text or data stays in memory after the commit. Names and
// titles in other entries stay for long, so a frame with such entries is copied.
func readSends(payload []byte) ([]*routepb.Send, error) {
	var p routepb.Sends
	if err := p.UnmarshalVTUnsafe(payload); err != nil {
		return nil, err
	}
	for _, s := range p.Sends {
		if len(s.Conv) != len(im.ConvID{}) {
			return nil, fmt.Errorf("the id of a conversation has %d bytes", len(s.Conv))
		}
	}
	for _, s := range p.Sends {
		switch s.Entry.GetBody().(type) {
		case *petrelv1.Message_Text, *petrelv1.Message_Data:
		default:
			p = routepb.Sends{}
			err := p.UnmarshalVT(payload)
			return p.Sends, err
		}
	}
	return p.Sends, nil
}

func keyOf(s *routepb.Send) im.Key {
	return im.Key{Tenant: im.Tenant(s.Tenant), Conv: im.ConvID(s.Conv)}
}

// received is a send of another node, which waits for the answer.
type received struct {
	conv.Send
	caller fanout.Caller
}

// sendOf makes a Send of a message from another node.
func sendOf(m *routepb.Send, from im.Node, nodes *fanout.Nodes) *conv.Send {
	r := &received{
		Send: conv.Send{
			// a copy, like From: a send that creates its conversation keeps both in memory
			Conv: keyOf(m), Peer: im.User(strings.Clone(m.Peer)),
			After: im.Seq(m.After), Keyed: m.Keyed, Create: m.Create, Block: m.Block, Source: m.Source, Tried: m.Tried,
			Contact: m.Contact, BackEnd: m.BackEnd, MutedMs: m.MutedMs,
		},
		caller: fanout.Caller{Nodes: nodes, Node: from, Ticket: m.Ticket},
	}
	if m.Refusal != nil {
		r.Refusal = wire.ErrorOf(m.Refusal)
	}
	r.caller.Conv, r.Origin.Caller = r.Conv, &r.caller
	if e := m.Entry; e != nil {
		r.Entry = petrelv1.Message{From: strings.Clone(e.From), ClientMsgId: e.ClientMsgId, Type: e.Type, Body: e.Body,
			Rel: e.Rel}
		r.caller.User = im.User(r.Entry.From)
	}
	return &r.Send
}
