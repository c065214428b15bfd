package gateway

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/rate"
)

// longAgo is a time at which an address is shut out if any of its connections was counted.
var longAgo = time.Unix(1_000_000, 0)

func TestAddressOfShortLivedConnectionsIsShutOut(t *testing.T) {
	e := newEntrance(t)
	e.lim.NewPerIPPerSecond = 100
	addr, now := netip.MustParseAddr("192.0.2.1"), e.now
	end := func(a netip.Addr, n int) {
		for range n {
			e.noteShortLived(now, a, false)
		}
	}
	want := func(what string, a netip.Addr, shut bool) {
		t.Helper()
		if got := e.shutOut(now, a); got != shut {
			t.Errorf("%s: %s is shut out: %t, want %t", what, a, got, shut)
		}
	}
	want("at the beginning", addr, false)
	end(addr, 99)
	want("after 99", addr, false)
	end(addr, 1)
	want("after 100", addr, true)
	want("after 100 of another one", netip.MustParseAddr("192.0.2.2"), false)
	now = now.Add(199 * time.Millisecond)
	want("199 ms later", addr, true)
	now = now.Add(time.Millisecond)
	want("a fifth of a second later", addr, false)

	end(addr, 10_000)
	now = now.Add(maxShutOut)
	want("5 s after 10,000", addr, true)
	now = now.Add(200 * time.Millisecond)
	want("another one later", addr, false)

	office := netip.MustParseAddr("198.51.100.1")
	e.come(office.String(), "").welcome()
	end(office, 399)
	want("after 399 where somebody is logged in", office, false)
	end(office, 1)
	want("after 400 where somebody is logged in", office, true)

	for i := range 256 { // networks of a /48
		end(netip.MustParseAddr(fmt.Sprintf("2001:db8:0:%x00::1", i)), 10)
	}
	want("after 2,560 of one /48", netip.MustParseAddr("2001:db8:0:ffff::1"), true)
	want("after those", netip.MustParseAddr("2001:db8:1::1"), false)
	e.lim.NewPerIPPerSecond = -1
	want("without a limit", addr, false)
	end(addr, 10_000)
	want("without a limit", addr, false)
}

// Connections over which somebody who is known has sent a request are not short-lived.
func TestConnectionsOfTheKnownAreNotShortLived(t *testing.T) {
	t.Parallel()
	lim := noLimits()
	lim.NewPerIPPerSecond = 10
	s := serve(t, Options{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { rate.Vouch(r.Context()) })}, lim)
	for i := range 20 { // whose reads have no need to wait
		nc, err := net.Dial("tcp", s.HTTPAddr().String())
		must(t, err)
		must(t, nc.SetDeadline(eventually.Deadline()))
		_, err = nc.Write([]byte("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"))
		must(t, err)
		if _, err := http.ReadResponse(bufio.NewReader(nc), nil); err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
		must(t, nc.Close())
	}
	eventually.True(t, "they are gone", func() bool {
		s.limits.mu.Lock()
		defer s.limits.mu.Unlock()
		return s.limits.all[ofHTTP] == 0
	})
	if s.limits.shutOut(longAgo, netip.MustParseAddr("127.0.0.1")) {
		t.Error("a connection counts as short-lived")
	}
}
