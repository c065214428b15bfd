package wiretest

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/gobwas/ws"
	"go.uber.org/goleak"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// peer plays the server's side of one connection.
type peer struct {
	t    *testing.T
	conn net.Conn
	br   *bufio.Reader
	enc  wire.Encoding
}

func (p *peer) read() *petrelv1.ClientFrame {
	p.t.Helper()
	var b []byte
	var err error
	switch {
	case p.enc.Framing == wire.WebSocket:
		var h ws.Header
		if h, err = ws.ReadHeader(p.br); err == nil {
			b = make([]byte, h.Length)
			_, err = io.ReadFull(p.br, b)
			if !h.Masked {
				p.t.Error("the client's frame is not masked")
			}
			ws.Cipher(b, h.Mask, 0)
		}
		if want := map[wire.Codec]ws.OpCode{wire.JSON: ws.OpText, wire.Proto: ws.OpBinary}[p.enc.Codec]; h.OpCode != want {
			p.t.Errorf("opcode: got %v, want %v", h.OpCode, want)
		}
	case p.enc.Codec == wire.JSON:
		b, err = p.br.ReadBytes('\n')
	default:
		var n [4]byte
		if _, err = io.ReadFull(p.br, n[:]); err == nil {
			b = make([]byte, binary.BigEndian.Uint32(n[:]))
			_, err = io.ReadFull(p.br, b)
		}
	}
	if err != nil {
		p.t.Errorf("read at the server: %v", err)
		return &petrelv1.ClientFrame{}
	}
	f := new(petrelv1.ClientFrame)
	if err := wire.Decode(p.enc.Codec, b, f); err != nil {
		p.t.Errorf("decode %q: %v", b, err)
	}
	return f
}

func (p *peer) write(fs ...*petrelv1.ServerFrame) {
	var b []byte
	for _, f := range fs {
		b = wire.AppendFrame(b, p.enc, f)
	}
	_, _ = p.conn.Write(b) // a lost frame shows at the client
}

func (p *peer) welcome() {
	f := p.read()
	if f.GetHello() == nil {
		p.t.Errorf("first frame: got %v, want a hello", f)
	}
	p.write(&petrelv1.ServerFrame{Id: f.Id, Body: &petrelv1.ServerFrame_Welcome{Welcome: &petrelv1.Welcome{Version: 1, User: "alice"}}})
}

// serve runs play for one connection in each encoding and use as its client.
func serve(t *testing.T, play func(*peer), use func(t *testing.T, o Options)) {
	for _, c := range []struct {
		name, scheme string
		enc          wire.Encoding
	}{
		{"WebSocketJSON", "ws", wire.Encoding{Codec: wire.JSON, Framing: wire.WebSocket}},
		{"WebSocketProto", "ws", wire.Encoding{Codec: wire.Proto, Framing: wire.WebSocket}},
		{"TCPJSON", "tcp", wire.Encoding{Codec: wire.JSON, Framing: wire.TCP}},
		{"TCPProto", "tcp", wire.Encoding{Codec: wire.Proto, Framing: wire.TCP}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				conn, err := ln.Accept()
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				if c.enc.Framing == wire.WebSocket {
					if _, err := ws.Upgrade(conn); err != nil {
						t.Error(err)
						return
					}
				}
				play(&peer{t, conn, bufio.NewReader(conn), c.enc})
			}()
			use(t, Options{URL: c.scheme + "://" + ln.Addr().String(), Codec: c.enc.Codec, Token: "pt_x"})
			<-done
			_ = ln.Close() // nobody is connecting
		})
	}
}

func TestSendGetsItsAckAndEventsGoToRecv(t *testing.T) {
	serve(t, func(p *peer) {
		p.welcome()
		f := p.read()
		p.write(
			&petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Ping{Ping: &petrelv1.Ping{}}},
			&petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Events{Events: &petrelv1.Events{Messages: []*petrelv1.Message{{Seq: 6}}}}},
			&petrelv1.ServerFrame{Id: f.Id, Body: &petrelv1.ServerFrame_Ack{Ack: &petrelv1.Ack{Seq: 7}}},
		)
		if f := p.read(); f.GetPong() == nil {
			p.t.Errorf("after a ping: got %v, want a pong", f)
		}
		f = p.read()
		p.write(&petrelv1.ServerFrame{Id: f.Id, Body: &petrelv1.ServerFrame_Error{Error: &petrelv1.Error{Code: "conflict", Settled: true}}})
		f = p.read()
		p.write(&petrelv1.ServerFrame{Id: f.Id, Body: &petrelv1.ServerFrame_Ack{Ack: &petrelv1.Ack{Seq: 8}}})
	}, func(t *testing.T, o Options) {
		c, err := Dial(eventually.Context(t), o)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if c.Welcome.User != "alice" {
			t.Errorf("welcome: got %v", c.Welcome)
		}
		a, err := c.Send(eventually.Context(t), &petrelv1.Send{ClientMsgId: "k"})
		if err != nil || a.Seq != 7 {
			t.Fatalf("send: got %v, %v, want seq 7", a, err)
		}
		f, err := c.Recv(eventually.Context(t))
		if err != nil || len(f.GetEvents().GetMessages()) != 1 {
			t.Fatalf("recv: got %v, %v, want the event", f, err)
		}
		_, err = c.Send(eventually.Context(t), &petrelv1.Send{ClientMsgId: "k"})
		if im.CodeOf(err) != im.CodeConflict || Unknown(err) {
			t.Errorf("refused send: got %v (unknown %v), want a settled conflict", err, Unknown(err))
		}
		id, err := c.SendAsync(&petrelv1.Send{ClientMsgId: "k2"})
		if err != nil {
			t.Fatal(err)
		}
		f, err = c.Recv(eventually.Context(t))
		if err != nil || f.Id != id || f.GetAck().GetSeq() != 8 {
			t.Errorf("answer to %d: got %v, %v", id, f, err)
		}
	})
}

func TestKickEndsEverythingThatWaits(t *testing.T) {
	serve(t, func(p *peer) {
		p.welcome()
		p.read()
		p.write(&petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Kick{Kick: &petrelv1.Kick{Code: "window_exceeded", Message: "too many"}}})
		if p.enc.Framing == wire.WebSocket {
			_ = ws.WriteFrame(p.conn, ws.NewCloseFrame(ws.NewCloseFrameBody(4409, "window_exceeded"))) // shows at the client
		}
	}, func(t *testing.T, o Options) {
		c, err := Dial(eventually.Context(t), o)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, err = c.Send(eventually.Context(t), &petrelv1.Send{ClientMsgId: "k"})
		closed, ok := errors.AsType[*Closed](err)
		if !ok || im.CodeOf(err) != im.CodeWindowExceeded || !Unknown(err) {
			t.Fatalf("send: got %v, want a close with window_exceeded that leaves the send unknown", err)
		}
		if o.URL[0] == 'w' && (closed.Code != 4409 || closed.Reason != "window_exceeded") {
			t.Errorf("close: got %d %q, want 4409 window_exceeded", closed.Code, closed.Reason)
		}
		if _, err := c.Recv(eventually.Context(t)); im.CodeOf(err) != im.CodeWindowExceeded {
			t.Errorf("recv after the end: got %v", err)
		}
	})
}

func TestRefusedHelloSaysCodeAndCloseCode(t *testing.T) {
	serve(t, func(p *peer) {
		f := p.read()
		p.write(&petrelv1.ServerFrame{Id: f.Id, Body: &petrelv1.ServerFrame_Error{Error: &petrelv1.Error{Code: "unauthenticated"}}})
		if p.enc.Framing == wire.WebSocket {
			_ = ws.WriteFrame(p.conn, ws.NewCloseFrame(ws.NewCloseFrameBody(4401, "unauthenticated"))) // shows at the client
		}
	}, func(t *testing.T, o Options) {
		_, err := Dial(eventually.Context(t), o)
		closed, ok := errors.AsType[*Closed](err)
		if !ok || im.CodeOf(err) != im.CodeUnauthenticated || !strings.Contains(err.Error(), "unauthenticated") {
			t.Fatalf("dial: got %v, want unauthenticated", err)
		}
		if o.URL[0] == 'w' && closed.Code != 4401 {
			t.Errorf("close code: got %d, want 4401", closed.Code)
		}
	})
}
