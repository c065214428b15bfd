package route

import (
	"crypto/rand"
	"encoding/binary"

	"github.com/petrel-im/petrel/internal/bus/stream"
	"github.com/petrel-im/petrel/internal/cluster"
	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/route/routepb"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// signaller brings signals to the owners of conversations.
type signaller struct {
	owners  owners
	streams *stream.Streams
}

// bring brings a signal to the owner of its conversation.
//
// A signal is put into the stream to the owner at once, and a send waits in a lane first.
// So a signal can overtake a send, and no send overtakes a signal. Spec: P-13.3.
func (si *signaller) bring(key im.Key, s *petrelv1.Signal, session uint64) {
	feed := si.owners.convs.FeedOf(key.Conv)
	if ow := si.owners.convs.Owner(feed); ow != nil && ow.Signal(newSignal(key, s, fanout.Asker{ID: session})) {
		return
	}
	node, _, ok := si.owners.elsewhere(feed)
	if !ok {
		return
	}
	b, err := (&routepb.Signal{
		Tenant: uint32(key.Tenant), Conv: key.Conv[:], From: s.From, Session: session, Kind: s.Kind, Data: s.Data,
		HoldMs: s.HoldMs, TimeMs: s.TimeMs,
	}).MarshalVT()
	if err == nil {
		_, err = si.streams.Send(node, cluster.KindToSignal, b, stream.Hint{Optional: true})
	}
	if err != nil {
		si.owners.log.Debug("carry a signal failed", "node", node, "err", err)
	}
}

// newSignal makes a conv.Signal, with an id by which clients recognise repeats.
func newSignal(key im.Key, s *petrelv1.Signal, sender fanout.Asker) *conv.Signal {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	s.Conv, s.Id = key.Conv.String(), binary.BigEndian.Uint64(b[:])
	return &conv.Signal{Key: key, Signal: s, Sender: sender}
}

// receive gives a signal from another node to the Owner here. Without an Owner it drops the signal.
func (si *signaller) receive(from im.Node, payload []byte) {
	m := &routepb.Signal{}
	if err := m.UnmarshalVT(payload); err != nil || len(m.Conv) != len(im.ConvID{}) {
		si.owners.log.Error("read a signal of another node failed", "node", from, "err", err)
		return
	}
	key := im.Key{Tenant: im.Tenant(m.Tenant), Conv: im.ConvID(m.Conv)}
	if ow := si.owners.convs.Owner(si.owners.convs.FeedOf(key.Conv)); ow != nil {
		s := &petrelv1.Signal{From: m.From, Kind: m.Kind, Data: m.Data, HoldMs: m.HoldMs, TimeMs: m.TimeMs}
		ow.Signal(newSignal(key, s, fanout.Asker{Node: from, ID: m.Session}))
	}
}
