package convtest

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Screen is a connection whose frames a test reads.
type Screen struct {
	t   testing.TB
	Out *fanout.Outbox
}

// Online enters a user into the online table. wants set the wishes of the client before its outbox is in the
// table: from then on other goroutines read them.
func (n *Node) Online(u im.User, wants ...func(*fanout.Outbox)) *Screen {
	f := fanout.NewFlusher(func() {})
	s := &Screen{t: n.T, Out: fanout.NewOutbox(wire.Encoding{Codec: wire.Proto, Framing: wire.TCP}, f, 1<<20)}
	s.Out.Account = im.Account{Tenant: im.DefaultTenant, User: u}
	for _, want := range wants {
		want(s.Out)
	}
	n.Table.Enter(s.Out.Account, s.Out, -1)
	var k fanout.WakeUps
	s.Out.Welcome(&petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Welcome{Welcome: &petrelv1.Welcome{}}}, &k)
	_ = s.Frames()
	return s
}

// Notes asks for notes, as a client does in its hello.
func Notes(o *fanout.Outbox) { o.Notes = true }

// Receipts asks for receipts.
func Receipts(o *fanout.Outbox) { o.Receipts = true }

// Signals asks for signals.
func Signals(o *fanout.Outbox) { o.Signals = true }

// Mentions asks for hints, also for those of mentions.
func Mentions(o *fanout.Outbox) { o.Hints, o.Mentions = true, true }

// Frames takes the waiting frames out of the outbox.
func (s *Screen) Frames() []*petrelv1.ServerFrame {
	p, _ := s.Out.Take()
	defer s.Out.Wrote(p, 0)
	var frames []*petrelv1.ServerFrame
	for b := p.Bytes; len(b) > 0; {
		n := binary.BigEndian.Uint32(b)
		f := &petrelv1.ServerFrame{}
		if err := f.UnmarshalVT(b[4 : 4+n]); err != nil {
			s.t.Fatal(err)
		}
		frames = append(frames, f)
		b = b[4+n:]
	}
	return frames
}

// Got returns the pushes and answers since the last look, as "seq:body", "ack seq" or a code.
func (s *Screen) Got() []string {
	var all []string
	for _, f := range s.Frames() {
		switch b := f.Body.(type) {
		case *petrelv1.ServerFrame_Events:
			for _, m := range b.Events.Messages {
				all = append(all, show(m))
			}
			for _, h := range b.Events.Hints {
				all = append(all, fmt.Sprintf("hint %d mention %d", h.Head, h.MentionSeq))
			}
		case *petrelv1.ServerFrame_Ack:
			all = append(all, fmt.Sprintf("ack %d", b.Ack.Seq))
		case *petrelv1.ServerFrame_Error:
			all = append(all, b.Error.Code)
		default:
			all = append(all, fmt.Sprintf("%T", b))
		}
	}
	return all
}
