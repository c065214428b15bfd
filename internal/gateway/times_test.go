package gateway

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/wire"
)

// pipe makes a connection of a server in a bubble, with a goroutine of its own. On WebSocket
// the upgrade is behind it.
func (s *server) pipe(fr wire.Framing) *peer {
	s.t.Helper()
	nc, ours := net.Pipe()
	p, refused := s.limits.enter(waiting, netip.MustParseAddr("192.0.2.1"), false, time.Now())
	if refused != nil {
		s.t.Fatal(refused)
	}
	if !s.begin() {
		s.t.Fatal("the gateway has stopped")
	}
	s.hold(ours, p, fr, nil)
	s.t.Cleanup(func() { _ = nc.Close() })
	return &peer{t: s.t, nc: nc, r: bufio.NewReader(nc), fr: fr}
}

// inBubbles runs a test in a bubble for each framing, with the times that a server has unless
// o has others.
func inBubbles(t *testing.T, o Options, f func(t *testing.T, s *server, fr wire.Framing)) {
	o.Loops = -1
	for name, fr := range map[string]wire.Framing{"ws": wire.WebSocket, "tcp": wire.TCP} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serveAt(t, o, noLimits())
				synctest.Wait() // it serves
				f(t, s, fr)
			})
		})
	}
}

// after checks how long ago something was.
func after(t *testing.T, what string, since time.Time, want time.Duration) {
	t.Helper()
	if got := time.Since(since); got != want {
		t.Errorf("%s after %s, want %s", what, got, want)
	}
}

// Spec: P-7.1, P-7.2.
func TestHeartbeatIsExact(t *testing.T) {
	inBubbles(t, Options{}, func(t *testing.T, s *server, fr wire.Framing) {
		p := s.pipe(fr)
		p.hello(s.token)
		for range 3 { // together longer than a dead link may be
			heard := time.Now()
			p.hear(`{"ping":{}}`)
			after(t, "a probe", heard, 30*time.Second)
			p.say(`{"pong":{}}`)
			synctest.Wait()
		}
		for range 5 { // traffic puts off the probe
			time.Sleep(29 * time.Second)
			p.say(`{"id":"5","ping":{}}`)
			p.hear(`{"id":"5","pong":{}}`)
		}
		heard := time.Now()
		for i := range 2 {
			p.hear(`{"ping":{}}`)
			after(t, "a probe of silence", heard, time.Duration(i+1)*30*time.Second)
		}
		p.hear(string(im.CodeDeadLink))
		after(t, "the link is dead", heard, 90*time.Second)
		if n := counted(s.EndedFor, im.CodeDeadLink); n != 1 {
			t.Errorf("%d dead links are counted, want 1", n)
		}
		p.gone()
	})
}

// Spec: P-3.1.
func TestHelloTimeoutIsExact(t *testing.T) {
	inBubbles(t, Options{}, func(t *testing.T, s *server, fr wire.Framing) {
		begun := time.Now()
		silent := s.pipe(fr)
		if fr == wire.WebSocket {
			chatty := s.pipe(fr) // pings do not prolong it
			for range 9 {
				time.Sleep(time.Second)
				synctest.Wait()
				chatty.write(masked(fin|opPing, "x"))
				chatty.hear("x")
			}
			chatty.hear(string(im.CodeHelloTimeout))
			after(t, "the end of a connection that pings", begun, 10*time.Second)
		}
		silent.hear(string(im.CodeHelloTimeout))
		after(t, "the end of a silent connection", begun, 10*time.Second)
		silent.gone()
	})
}

// A connection that takes nothing and does not close holds up the end for 2 s, and for no longer
// than the timeout of the drain. The end comes with the tick after these.
func TestDrainDoesNotWaitForEver(t *testing.T) {
	for timeout, want := range map[time.Duration]time.Duration{5 * time.Second: 2200 * time.Millisecond, time.Second: 1200 * time.Millisecond} {
		inBubbles(t, Options{DrainTimeout: timeout}, func(t *testing.T, s *server, fr wire.Framing) {
			s.pipe(fr).hello(s.token)
			begun := time.Now()
			s.shutdown()
			after(t, "the end", begun, want)
		})
	}
}

// A peer that goes on taking may be as slow as it is; one that takes nothing has the time of
// a stall. Spec: P-6.4.
func TestStallIsExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nc, peer := net.Pipe()
		defer peer.Close()
		a := &clientConn{stall: 10 * time.Second}
		go func() {
			for range 16 {
				time.Sleep(9 * time.Second)
				if _, err := io.ReadFull(peer, make([]byte, writeChunk/16)); err != nil {
					t.Error(err)
				}
			}
		}()
		begun := time.Now()
		n, err := a.writeMoving(nc, make([]byte, writeChunk)) // of which it takes a sixteenth every 9 s
		must(t, err)
		after(t, "a chunk is taken", begun, 16*9*time.Second)
		if n != writeChunk {
			t.Errorf("%d bytes are written, want %d", n, writeChunk)
		}
		begun = time.Now()
		if n, err = a.writeMoving(nc, make([]byte, writeChunk)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%d bytes are written, %v; want none and the deadline", n, err)
		}
		after(t, "the write ends", begun, 10*time.Second)
	})
}
