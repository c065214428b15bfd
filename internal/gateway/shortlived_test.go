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
	perS := 100
	b, now := shortLived{perS: func() int { return perS }}, time.Unix(1_000_000, 0)
	addr := netip.MustParseAddr("192.0.2.1")
	bear := func(a netip.Addr, n int, people bool) {
		for range n {
			b.count(now, a, people)
		}
	}
	want := func(what string, a netip.Addr, people, shut bool) {
		t.Helper()
		if got := b.shut(now, a, people); got != shut {
			t.Errorf("%s: %s is shut out: %t, want %t", what, a, got, shut)
		}
	}
	want("at the beginning", addr, false, false)
	bear(addr, 99, false)
	want("after 99", addr, false, false)
	bear(addr, 1, false)
	want("after 100", addr, false, true)
	want("after 100 of another one", netip.MustParseAddr("192.0.2.2"), false, false)
	now = now.Add(199 * time.Millisecond)
	want("199 ms later", addr, false, true)
	now = now.Add(time.Millisecond)
	want("a fifth of a second later", addr, false, false)

	bear(addr, 10_000, false)
	now = now.Add(maxShutOut)
	want("5 s after 10,000", addr, false, true)
	now = now.Add(200 * time.Millisecond)
	want("another one later", addr, false, false)

	office := netip.MustParseAddr("198.51.100.1")
	bear(office, 399, true)
	want("after 399 where somebody is logged in", office, true, false)
	bear(office, 1, true)
	want("after 400 where somebody is logged in", office, true, true)

	for i := range 256 { // networks of a /48
		bear(netip.MustParseAddr(fmt.Sprintf("2001:db8:0:%x00::1", i)), 10, false)
	}
	want("after 2,560 of one /48", netip.MustParseAddr("2001:db8:0:ffff::1"), false, true)
	want("after those", netip.MustParseAddr("2001:db8:1::1"), false, false)
	perS = -1
	want("without a limit", addr, false, false)
	bear(addr, 10_000, false)
	want("without a limit", addr, false, false)
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
		return s.limits.http == 0
	})
	if s.shortLived.shut(longAgo, netip.MustParseAddr("127.0.0.1"), false) {
		t.Error("a connection counts as short-lived")
	}
}
