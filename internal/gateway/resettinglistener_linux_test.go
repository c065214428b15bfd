package gateway

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/wire"
)

// from is a dialer of an address of the loopback.
func from(addr string) *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(addr)}}
}

// knock connects, says something that is no hello, and reports whether the answer is a
// reset.
func (s *server) knock(fr wire.Framing, addr string) bool {
	to := s.HTTPAddr()
	if fr == wire.TCP {
		to = s.TCPAddr()
	}
	nc, err := from(addr).DialContext(context.Background(), "tcp", to.String())
	if err != nil {
		return errors.Is(err, syscall.ECONNRESET)
	}
	defer func() { _ = nc.Close() }()
	_ = nc.SetDeadline(eventually.Deadline()) // of a connection that is open
	if _, err = nc.Write([]byte("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")); err == nil {
		_, err = nc.Read(make([]byte, 1))
	}
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// While one address floods both ports, others get in at once, and one that was shut out
// gets in later.
func TestFloodOfOneAddressIsResetAndOthersGetIn(t *testing.T) {
	t.Parallel()
	lim := noLimits()
	lim.NewPerIPPerSecond = 10
	s := serve(t, Options{}, lim)
	var end atomic.Bool
	var flood sync.WaitGroup
	defer flood.Wait()
	defer end.Store(true)
	var knocks, resets [2]atomic.Int32
	for i := range 4 {
		flood.Go(func() {
			for fr := wire.Framing(i % 2); !end.Load(); knocks[fr].Add(1) {
				if s.knock(fr, "127.0.0.2") {
					resets[fr].Add(1)
				}
			}
		})
	}
	const many = 3000 // of which one in thirty is reset, or nothing is
	eventually.True(t, "connections to both ports are reset", func() bool {
		for fr := range resets {
			if knocks[fr].Load() > many && resets[fr].Load() <= 100 {
				t.Fatalf("%d of %d connections were reset", resets[fr].Load(), many)
			}
		}
		return resets[0].Load() > 100 && resets[1].Load() > 100
	})
	for i := range 10 { // fewer would be enough for the limit of an address
		fr := wire.Framing(i % 2)
		p := s.dial(fr)
		p.hello(s.token)
		_ = p.nc.Close() // of one of many connections
	}
	end.Store(true)
	eventually.True(t, "the address is not shut out any more", func() bool { return !s.knock(wire.TCP, "127.0.0.2") })
	if counted(s.RefusedFor, "") < 200 {
		t.Errorf("%d are counted as refused, want all that were reset", counted(s.RefusedFor, ""))
	}
}

// An event loop takes few connections at once, so that those that it has do not wait.
func TestConnectionsWaitForTheirTurnAtTheLoop(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{Loops: 1}, noLimits())
	for range maxEnrolling {
		s.enrolling <- struct{}{}
	}
	var peers []*peer
	for _, fr := range []wire.Framing{wire.TCP, wire.WebSocket} {
		p := s.dial(fr)
		p.say(`{"id":"1","hello":{"versionMin":1,"versionMax":1,"device":"` + []string{"a", "b"}[fr] + `","token":"` + s.token + `"}}`)
		peers = append(peers, p)
	}
	eventually.True(t, "both have a place", func() bool { _, n := s.limits.counts(); return n == 2 })
	if n := s.quietest().connections(); n != 0 {
		t.Errorf("the event loop has %d connections, want none yet", n)
	}
	for range maxEnrolling {
		<-s.enrolling
	}
	for _, p := range peers {
		p.hear("welcome")
	}
}
