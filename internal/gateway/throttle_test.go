package gateway

import (
	"bufio"
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/rate"
	"github.com/petrel-im/petrel/internal/wire"
)

// oneReadASecond has four reads of an address at once, and then one a second.
func oneReadASecond(t *testing.T, h http.HandlerFunc) *server {
	lim := noLimits()
	lim.NewPerIPPerSecond = 1
	return serve(t, Options{Handler: h}, lim)
}

// A client that has sent too much waits, and is cut off if the wait would be too long: the
// server reads as much as an address may send, over however many connections.
func TestStrangersAreReadSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := noLimits()
		lim.NewPerIPPerSecond = 1
		s := serveAt(t, Options{Loops: -1}, lim)
		waits, cut := map[time.Duration]int{}, 0
		var mu sync.Mutex
		begun := time.Now()
		for range 40 {
			nc, peer := net.Pipe()
			go func() { _, _ = peer.Write([]byte("GET / HTTP/1.1\r\n")) }()
			go func() {
				r := &place{l: &s.limits, addr: netip.MustParseAddr("192.0.2.1")}
				_, err := r.read(nc, make([]byte, tokenBytes))
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					cut++
				} else {
					waits[time.Since(begun)]++
				}
			}()
		}
		time.Sleep(time.Minute)
		want := map[time.Duration]int{0: 4, time.Second: 1, 2 * time.Second: 1, 3 * time.Second: 1, 4 * time.Second: 1, longestWait: 1}
		mu.Lock()
		defer mu.Unlock()
		if !maps.Equal(waits, want) || cut != 31 {
			t.Errorf("of 40 connections of one address %d are cut off, want 31; the reads of the others wait %v, want %v", cut, waits, want)
		}
	})
}

// The HTTP server reads strangers so.
func TestStrangersWhoSendTooMuchAreCutOff(t *testing.T) {
	t.Parallel()
	s := oneReadASecond(t, func(http.ResponseWriter, *http.Request) {})
	cut := make(chan struct{}, 1)
	var all sync.WaitGroup
	defer all.Wait()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	eventually.True(t, "of many connections of one address one is cut off", func() bool {
		nc, err := net.Dial("tcp", s.HTTPAddr().String())
		if err != nil {
			return len(cut) > 0 // the address is shut out
		}
		context.AfterFunc(ctx, func() { _ = nc.Close() })
		all.Go(func() {
			_, err := nc.Write([]byte("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"))
			if err == nil {
				_, err = http.ReadResponse(bufio.NewReader(nc), nil)
			}
			if errors.Is(err, io.ErrUnexpectedEOF) {
				select {
				case cut <- struct{}{}:
				default:
				}
			}
		})
		return len(cut) > 0
	})
}

// Bytes of others that come after a request of a known user do not wait.
func TestWhoIsVouchedForIsReadAtOnce(t *testing.T) {
	t.Parallel()
	s := oneReadASecond(t, func(_ http.ResponseWriter, r *http.Request) { rate.Vouch(r.Context()) })
	nc, err := net.Dial("tcp", s.HTTPAddr().String())
	must(t, err)
	defer func() { _ = nc.Close() }()
	must(t, nc.SetDeadline(eventually.Deadline()))
	in := bufio.NewReader(nc)
	for range 60 { // a stranger would need a minute
		_, err := nc.Write([]byte("POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2000\r\n\r\n" + strings.Repeat("x", 2000)))
		must(t, err)
		r, err := http.ReadResponse(in, nil)
		must(t, err)
		_, err = io.Copy(io.Discard, r.Body)
		must(t, err)
	}
}

func TestTokensOfStrangers(t *testing.T) {
	e := newEntrance(t)
	e.lim.NewPerIPPerSecond = 10
	conn := func() *place { return &place{addr: netip.MustParseAddr("192.0.2.1")} }
	take := func(what string, p *place, n int, want time.Duration) {
		t.Helper()
		for range n - 1 {
			e.takeRead(e.now, p)
		}
		if wait, ok := e.takeRead(e.now, p); !ok || wait.Round(time.Millisecond) != want {
			t.Errorf("%s: waits %v, %t; want %v", what, wait, ok, want)
		}
	}
	a, b := conn(), conn()
	take("the burst of an address", a, 20, 0)
	take("on another connection", b, 20, 0)
	take("one more", a, 1, 100*time.Millisecond)
	take("the last one that is of use", b, 49, longestWait)
	if _, ok := e.takeRead(e.now, b); ok {
		t.Error("a stranger waits for longer than is of use")
	}
	e.now = e.now.Add(time.Hour)
	e.lim.NewPerIPPerSecond = -1
	free := conn()
	take("all together", free, freeReads+2*allReads, 0)
	take("one too many of all", free, 1, time.Second/allReads)
	take("the first reads of a connection", conn(), freeReads, 0)
}

// Before its hello a connection has few reads. Others are those of all strangers together,
// and a connection that finds none of these ends.
func TestReadsBeforeTheHelloAreFew(t *testing.T) {
	t.Parallel()
	const shared = 3
	for _, o := range []Options{{}, {Loops: -1}} {
		s := serve(t, o, noLimits())
		s.limits.furtherLimit = rate.Per(1, time.Hour, shared)
		p := s.dial(wire.WebSocket)
		for range freeReads + shared {
			p.write(masked(fin|opPing, ""))
			if m, err := p.read(); err != nil || m.op != opPong {
				t.Fatalf("got %v, %v; want a pong", m, err)
			}
		}
		p.write(masked(fin|opPing, ""))
		p.end(im.CodeTooManyConnections, 4429)
		s.dial(wire.WebSocket).hello(s.token) // takes no read of these
	}
}

// A connection has a hello to say, whatever else it says.
func TestConnectionThatTalksBeforeItsHelloEnds(t *testing.T) {
	t.Parallel()
	for _, o := range []Options{{}, {Loops: -1}} {
		p := serve(t, o, noLimits()).dial(wire.WebSocket)
		ping := masked(fin|opPing, strings.Repeat("x", maxControl))
		for range 189 { // a few bytes more than it may
			if _, err := p.nc.Write(ping); err != nil {
				break // it has ended already
			}
		}
		p.end(im.CodeFrameTooLarge, 1009)
	}
}
