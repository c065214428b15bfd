//go:build linux

package gateway

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/panjf2000/gnet/v2"

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

// What comes after the end of a connection is thrown away, so that the peer can read why
// it ended. Somebody who never was welcomed is not read for long then.
func TestPeersAreReadForAWhileAfterTheEnd(t *testing.T) {
	l := &loop{}
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
				c.g = nil // a broken invariant
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
	if n := s.Stats().Panics; n != 1 || !strings.Contains(s.logs.String(), "connection panicked") {
		t.Errorf("%d panics are counted, want 1; the log: %s", n, s.logs)
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
	until(t, "all but one are gone", func() bool { return s.Stats().Connections == 1 })
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
