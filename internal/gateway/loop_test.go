//go:build linux

package gateway

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/wire"
)

func TestWheelLooksAtEachConnectionInTime(t *testing.T) {
	var w wheel
	conns := make([]*loopConn, 500)
	due := map[*loopConn]uint32{}
	rnd := rand.New(rand.NewPCG(1, 2))
	plan := func(c *loopConn, ahead uint32) {
		w.put(c, w.now+ahead)
		due[c] = w.now + min(max(ahead, 1), wheelSlots-1)
	}
	for i := range conns {
		conns[i] = &loopConn{}
		plan(conns[i], rnd.Uint32N(2*wheelSlots))
	}
	looks := 0
	look := func(c *loopConn) {
		if due[c] != w.now {
			t.Fatalf("looked at %d, planned for %d", w.now, due[c])
		}
		looks++
		delete(due, c)
		switch rnd.IntN(4) {
		case 0: // closed
		default:
			plan(c, rnd.Uint32N(300))
		}
		other := conns[rnd.IntN(len(conns))]
		if _, ok := due[other]; ok && other != c {
			if rnd.IntN(2) == 0 {
				w.remove(other)
				delete(due, other)
			} else {
				plan(other, rnd.Uint32N(300))
			}
		}
	}
	for w.now < 3*wheelSlots {
		w.advance(w.now+1+rnd.Uint32N(20), look)
		for c, at := range due {
			if int32(at-w.now) <= 0 {
				t.Fatalf("at %d nobody has looked at a connection planned for %d: %+v", w.now, at, c.planned)
			}
		}
	}
	left := 0
	w.each(func(*loopConn) { left++ })
	if left != len(due) || looks == 0 {
		t.Errorf("%d connections are in the wheel, want %d; %d looks", left, len(due), looks)
	}
}

// sending is the connection of a peer that goes on sending.
type sending struct {
	gnet.Conn
	c *loopConn
}

func (s sending) Context() any             { return s.c }
func (s sending) Peek(int) ([]byte, error) { return []byte("more"), nil }
func (s sending) Discard(int) (int, error) { return 4, nil }

// Bytes that come after the end of a connection are thrown away, so that the peer can read
// why it ended. From a peer that was never welcomed the server does not read for long then.
func TestPeersAreReadForAWhileAfterTheEnd(t *testing.T) {
	l := &loop{g: &Gateway{}}
	l.g.o.setDefaults()
	stranger, friend := &loopConn{state: stateShut}, &loopConn{state: stateShut}
	stranger.place = &place{}
	slow := &stream{conn: conn{place: &place{}}}
	for n := 1; n <= maxExcess/readBuffer+1; n++ {
		wantStranger, wantFriend := n <= maxEarlyExcess, n <= maxExcess/readBuffer
		if got := l.OnTraffic(sending{c: stranger}) == gnet.None; got != wantStranger {
			t.Fatalf("read %d of a stranger goes on: %t, want %t", n, got, wantStranger)
		}
		if got := !slow.tooMuch(4); got != wantStranger {
			t.Fatalf("read %d of a stranger with a goroutine goes on: %t, want %t", n, got, wantStranger)
		}
		if got := l.OnTraffic(sending{c: friend}) == gnet.None; got != wantFriend {
			t.Fatalf("read %d of somebody who was welcomed goes on: %t, want %t", n, got, wantFriend)
		}
	}
}

func TestPanicEndsOneConnection(t *testing.T) {
	s := serve(t, Options{Loops: 1}, noLimits())
	broken, other := s.dial(wire.WebSocket), s.dial(wire.WebSocket)
	broken.hello(s.token)
	done := make(chan struct{})
	s.loops[0].execute(task(func() {
		s.loops[0].wheel.each(func(c *loopConn) {
			if c.sess != nil {
				c.lp = nil // a broken invariant
			}
		})
		close(done)
	}))
	<-done
	broken.say(`{"id":"2","ping":{}}`)
	broken.gone()
	other.hello(s.token)
	other.say(`{"id":"2","ping":{}}`)
	other.hear(`"pong"`)
	if n := strings.Count(s.logs.String(), "connection panicked"); n != 1 {
		t.Errorf("%d panics are logged, want 1; the log: %s", n, s.logs)
	}
	s.panics = true
}

func TestClosedConnectionsLeaveTheWheel(t *testing.T) {
	s := serve(t, Options{Loops: 1}, noLimits())
	stays := s.dial(wire.TCP)
	stays.hello(s.token)
	for range 20 {
		p := s.dial(wire.WebSocket)
		p.hello(s.token)
		must(t, p.nc.Close())
	}
	eventually.True(t, "all but one are gone", func() bool { return s.Stats().Connections == 1 })
	planned := make(chan int)
	s.loops[0].execute(task(func() {
		n := 0
		s.loops[0].wheel.each(func(*loopConn) { n++ })
		planned <- n
	}))
	if n := <-planned; n != 1 {
		t.Errorf("%d connections are in the wheel, want 1", n)
	}
}

// handDriven is an event loop with real sockets, whose time passes only by its method pass.
type handDriven struct {
	t  *testing.T
	s  *server
	g  *Gateway
	l  *loop
	ln net.Listener
}

func newHandDriven(t *testing.T) *handDriven {
	t.Helper()
	s := serve(t, Options{}, noLimits()) // for its hub
	g, err := New(Options{Loops: -1}, s.hub)
	must(t, err)
	g.tick = 1000 * time.Hour // of the clock; the times in ticks are those of the defaults
	l, err := newLoop(g)
	must(t, err)
	g.loops = []*loop{l}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	h := &handDriven{t: t, s: s, g: g, l: l, ln: ln}
	t.Cleanup(func() {
		_ = ln.Close()
		l.stop()
	})
	return h
}

// enter makes a connection that has its handshake behind it. The kernel holds little of what
// is written to it.
func (h *handDriven) enter(fr wire.Framing) (*peer, *loopConn) {
	h.t.Helper()
	narrow := func(_, _ string, rc syscall.RawConn) error {
		var bad error
		err := rc.Control(func(fd uintptr) { bad = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4<<10) })
		return errors.Join(err, bad)
	}
	nc, err := (&net.Dialer{Control: narrow}).Dial("tcp", h.ln.Addr().String())
	must(h.t, err)
	h.t.Cleanup(func() { _ = nc.Close() })
	must(h.t, nc.SetDeadline(eventually.Deadline()))
	ours, err := h.ln.Accept()
	must(h.t, err)
	must(h.t, ours.(*net.TCPConn).SetWriteBuffer(16<<10))
	p, refused := h.g.limits.enter(waiting, netip.MustParseAddr("127.0.0.1"), false, time.Unix(1_000_000, 0))
	if refused != nil {
		h.t.Fatal(refused)
	}
	c := &loopConn{conn: newConn(p, fr)}
	must(h.t, h.l.enroll(c, ours.(*net.TCPConn), nil))
	return &peer{t: h.t, nc: nc, r: bufio.NewReader(nc), fr: fr}, c
}

// do runs f on the loop.
func (h *handDriven) do(f func()) {
	h.t.Helper()
	done := make(chan struct{})
	if !h.l.execute(task(func() { f(); close(done) })) {
		h.t.Fatal("the loop has stopped")
	}
	eventually.Receive(h.t, "the loop runs a task", done)
}

// pass lets n ticks pass.
func (h *handDriven) pass(n uint32) {
	h.t.Helper()
	for range n {
		h.do(func() {
			h.l.wheel.advance(h.l.wheel.now+1, h.l.look)
			h.l.reader.wakeUps.Flush()
		})
	}
}

// taken is how much the peer has acknowledged.
func (h *handDriven) taken(c *loopConn) (n uint32) {
	h.t.Helper()
	h.do(func() { n = c.acknowledged(c.held()) })
	return n
}

// is returns whether f holds on the loop.
func (h *handDriven) is(f func() bool) (ok bool) {
	h.t.Helper()
	h.do(func() { ok = f() })
	return ok
}

// after checks that something happens with the n-th tick from now, and not before.
func (h *handDriven) after(n uint32, what string, f func() bool) {
	h.t.Helper()
	if h.pass(n - 1); h.is(f) {
		h.t.Fatalf("%s: before %d ticks have passed", what, n)
	}
	if h.pass(1); !h.is(f) {
		h.t.Fatalf("%s: not after %d ticks", what, n)
	}
}

// The ticks of the defaults: 30 s of silence, two times more of it, 10 s for the hello, and 10 s
// for a socket that takes nothing. Spec: P-3.1, P-6.4, P-7.
func TestLoopKeepsTheTimesOfItsConnections(t *testing.T) {
	for name, fr := range map[string]wire.Framing{"ws": wire.WebSocket, "tcp": wire.TCP} {
		t.Run(name, func(t *testing.T) {
			h := newHandDriven(t)
			if h.g.beatTicks != 150 || h.g.helloTicks != 50 || h.g.stallTicks != 50 || h.g.graceTicks != 10 {
				t.Fatalf("ticks of 200 ms: heartbeat %d, hello %d, stall %d, grace %d", h.g.beatTicks, h.g.helloTicks, h.g.stallTicks, h.g.graceTicks)
			}
			for part, f := range map[string]func(wire.Framing){"heartbeat": h.heartbeat, "hello": h.hello, "stall": h.stall} {
				t.Run(part, func(t *testing.T) {
					h.t = t
					f(fr)
				})
			}
		})
	}
}

func (h *handDriven) heartbeat(fr wire.Framing) {
	p, c := h.enter(fr)
	p.hello(h.s.token)
	eventually.True(h.t, "the connection is under the heartbeat", func() bool { return h.is(func() bool { return c.live }) })
	heard := func() {
		h.t.Helper()
		eventually.True(h.t, "the loop hears the client", func() bool { return h.is(func() bool { return c.probes == 0 && c.mark == h.l.wheel.now }) })
	}
	for range 3 { // together longer than a dead link may be
		h.after(150, "a probe", func() bool { return c.probes == 1 })
		p.hear(`{"ping":{}}`)
		p.say(`{"pong":{}}`)
		heard()
	}
	for range 5 { // traffic puts off the probe
		h.pass(149)
		p.say(`{"id":"5","ping":{}}`)
		p.hear(`{"id":"5","pong":{}}`)
		heard()
	}
	h.after(150, "a probe of silence", func() bool { return c.probes == 1 })
	h.after(150, "a second one", func() bool { return c.probes == 2 })
	h.after(150, "the end of a dead link", func() bool { return c.deaf })
	p.hear(`{"ping":{}}`)
	p.hear(`{"ping":{}}`)
	p.end(im.CodeDeadLink, 4410)
	if n := counted(h.g.EndedFor, im.CodeDeadLink); n != 1 {
		h.t.Errorf("%d dead links are counted, want 1", n)
	}
}

func (h *handDriven) hello(fr wire.Framing) {
	silent, a := h.enter(fr)
	chatty, b := h.enter(fr)
	if fr == wire.WebSocket { // pings do not prolong it
		h.pass(10)
		chatty.write(masked(fin|opPing, "x"))
		chatty.hear("x")
		h.pass(15)
		chatty.write(masked(fin|opPing, "y"))
		chatty.hear("y")
	} else {
		h.pass(25)
	}
	h.after(25, "the end without a hello", func() bool { return a.deaf && b.deaf })
	silent.end(im.CodeHelloTimeout, 4408)
	chatty.end(im.CodeHelloTimeout, 4408)
	if n := counted(h.g.EndedFor, im.CodeHelloTimeout); n != 2 {
		h.t.Errorf("%d hello timeouts are counted, want 2", n)
	}
}

// A peer that goes on taking may be as slow as it is; one that takes nothing has the time of
// a stall.
func (h *handDriven) stall(fr wire.Framing) {
	p, c := h.enter(fr)
	p.hello(h.s.token)
	request := []byte(`{"id":"9","call":{}}` + "\n")
	if fr == wire.WebSocket {
		request = masked(text, `{"id":"9","call":{}}`)
	}
	p.write(bytes.Repeat(request, 4000)) // some 760 KB of answers
	eventually.True(h.t, "answers wait that the socket does not take", func() bool { return h.is(func() bool { return c.backlog && c.held() > 100_000 }) })
	h.pass(1) // and the loop has seen it
	for range 3 {
		h.pass(48)
		before := h.taken(c)
		eventually.True(h.t, "the peer has taken something", func() bool {
			_, err := io.ReadFull(p.nc, make([]byte, 256))
			must(h.t, err)
			return h.taken(c) != before
		})
		h.pass(1)
		if !h.is(func() bool { return c.state == stateOpen && !c.deaf }) {
			h.t.Fatal("a connection that moves is ended")
		}
	}
	for ended := false; !ended; { // what is on its way to the peer still moves
		h.pass(1)
		h.do(func() {
			quiet := h.l.wheel.now - c.moved
			if ended = c.deaf; ended != (quiet >= 50) {
				h.t.Errorf("after %d ticks in which nothing moved the connection is ended: %t", quiet, ended)
				ended = true
			}
		})
	}
	if n := counted(h.g.EndedFor, im.CodeSlowConsumer); n != 1 {
		h.t.Errorf("%d slow consumers are counted, want 1", n)
	}
}
