package fanout

import (
	"encoding/binary"
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var protoTCP = wire.Encoding{Codec: wire.Proto, Framing: wire.TCP}

const team = "gKQtYt3wSdI4pbTbl9KK9"

// row returns the entry with seq q of the team, as the store keeps it.
func row(q im.Seq, from im.User, text string) []byte {
	return wire.AppendMessage(nil, &petrelv1.Message{Conv: team, Seq: uint64(q), From: string(from), Body: &petrelv1.Message_Text{Text: text}})
}

// screen is a connection of which a test reads the frames.
type screen struct {
	t   testing.TB
	out *Outbox
}

// connect returns a connection that was welcomed and has read its welcome.
func connect(t testing.TB, u im.User, limit int) *screen {
	s := &screen{t, NewOutbox(protoTCP, NewFlusher(func() {}), limit)}
	s.out.Account = im.Account{Tenant: im.DefaultTenant, User: u}
	s.out.Welcome(&petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Welcome{Welcome: &petrelv1.Welcome{}}}, &WakeUps{})
	if got := fmt.Sprint(s.got()); got != "[welcome]" {
		t.Fatalf("a new connection got %s", got)
	}
	return s
}

// online returns a connection as connect does, and enters it into the online table.
func online(t testing.TB, f *Fan, u im.User) *screen {
	s := connect(t, u, 1<<20)
	f.Table.Enter(s.out.Account, s.out, -1)
	return s
}

// got takes what waits, as lines: "seq:text", "ack seq", codes, names of frames.
func (s *screen) got() []string {
	p, _ := s.out.Take()
	defer s.out.Wrote(p, 0)
	return show(s.t, p.Bytes)
}

// frames decodes the frames in b.
func frames(t testing.TB, b []byte) []*petrelv1.ServerFrame {
	t.Helper()
	var all []*petrelv1.ServerFrame
	for len(b) > 0 {
		n := binary.BigEndian.Uint32(b)
		f := &petrelv1.ServerFrame{}
		if err := f.UnmarshalVT(b[4 : 4+n]); err != nil {
			t.Fatal(err)
		}
		all = append(all, f)
		b = b[4+n:]
	}
	return all
}

func show(t testing.TB, b []byte) []string {
	t.Helper()
	var all []string
	for _, f := range frames(t, b) {
		switch body := f.Body.(type) {
		case *petrelv1.ServerFrame_Events:
			for _, m := range body.Events.Messages {
				all = append(all, fmt.Sprintf("%d:%s", m.Seq, m.GetText()))
			}
			for _, r := range body.Events.Receipts {
				all = append(all, "receipt of "+r.User)
			}
			for _, h := range body.Events.Hints {
				all = append(all, fmt.Sprintf("hint %d", h.Head))
			}
			for _, x := range body.Events.Signals {
				all = append(all, "signal of "+x.From)
			}
			for _, x := range body.Events.Presences {
				all = append(all, "presence of "+x.User)
			}
		case *petrelv1.ServerFrame_Ack:
			all = append(all, fmt.Sprintf("ack %d of %d", body.Ack.Seq, f.Id))
		case *petrelv1.ServerFrame_Error:
			all = append(all, fmt.Sprintf("%s of %d", body.Error.Code, f.Id))
		case *petrelv1.ServerFrame_Kick:
			all = append(all, "kick "+body.Kick.Code)
		case *petrelv1.ServerFrame_Welcome:
			all = append(all, "welcome")
		case *petrelv1.ServerFrame_Lagged:
			all = append(all, "lagged")
		case *petrelv1.ServerFrame_History:
			all = append(all, "history")
		case *petrelv1.ServerFrame_Pong:
			all = append(all, fmt.Sprintf("pong %d", f.Id))
		default:
			t.Fatalf("frame %v", f)
		}
	}
	return all
}

func pong(id uint64) *petrelv1.ServerFrame {
	return &petrelv1.ServerFrame{Id: id, Body: &petrelv1.ServerFrame_Pong{Pong: &petrelv1.Pong{}}}
}

// event returns an encoded Events frame of about n bytes.
func event(q im.Seq, n int) []byte {
	return wire.AppendEvents(nil, protoTCP, [][]byte{row(q, "eve", string(make([]byte, n)))})
}

// pushed pushes events for which no hint is needed, and returns whether they were
// taken.
func (o *Outbox) pushed(b []byte, shared bool, k *WakeUps) bool {
	pushed, _ := o.push(b, nil, nil, shared, k)
	return pushed
}
