package gateway

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/wire"
)

func TestLimitsAreCountedForEachSource(t *testing.T) {
	var l limits
	lim := noLimits()
	lim.Connections, lim.ConnectionsPerIP, lim.Unauthenticated, lim.UnauthenticatedPerIP = 6, 3, 5, 2
	now := time.Unix(1_000_000, 0)
	enter := func(addr, want string) {
		t.Helper()
		got := ""
		if e := l.enter(netip.MustParseAddr(addr), &lim, now); e != nil {
			got = e.Message
			if e.Code != im.CodeTooManyConnections || e.RetryAfter <= 0 {
				t.Errorf("%s is refused by %s after %s", addr, e.Code, e.RetryAfter)
			}
		}
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Fatalf("%s: got %q, want %q", addr, got, want)
		}
	}
	enter("2001:db8::1", "")
	enter("2001:db8::2", "")
	enter("2001:db8::3", "have not said hello yet") // the same /64
	enter("2001:db8:0:1::1", "")
	enter("192.0.2.1", "")
	enter("::ffff:192.0.2.1", "")
	enter("192.0.2.2", "too many connections have not said hello")
	l.greeted(netip.MustParseAddr("2001:db8::1"))
	l.greeted(netip.MustParseAddr("2001:db8::2"))
	enter("2001:db8::3", "")
	enter("2001:db8::3", "all the connections it takes")
	l.leave(netip.MustParseAddr("192.0.2.1"), false)
	l.greeted(netip.MustParseAddr("2001:db8::3"))
	enter("2001:db8::4", "IP address has all the connections")
	enter("192.0.2.1", "")
}

func TestNewConnectionsOfASourceAreRateLimited(t *testing.T) {
	var l limits
	lim := noLimits()
	lim.NewPerIPPerSecond = 10
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	now := time.Unix(1_000_000, 0)
	burst := func(a netip.Addr) (n int) {
		for l.enter(a, &lim, now) == nil {
			l.leave(a, false)
			if n++; n > 100 {
				t.Fatal("no limit")
			}
		}
		return n
	}
	if n := burst(a); n != 10 {
		t.Errorf("at once %d connections get in, want 10", n)
	}
	if n := burst(b); n != 10 {
		t.Errorf("another source gets %d connections, want 10", n)
	}
	now = now.Add(500 * time.Millisecond)
	if n := burst(a); n != 5 {
		t.Errorf("after half a second %d connections get in, want 5", n)
	}
	l.forget(now)
	if len(l.sources) != 2 {
		t.Errorf("%d sources are remembered, want 2: their buckets are not full", len(l.sources))
	}
	l.forget(now.Add(2 * time.Second))
	if len(l.sources) != 0 || len(l.gone) != 0 {
		t.Errorf("%d sources are remembered although they have nothing", len(l.sources))
	}
	lim.NewPerIPPerSecond = 0 // at run time
	if l.enter(a, &lim, now) == nil {
		t.Error("a rate of 0 lets somebody in")
	}
}

func TestConnectionsOfTheHTTPServerAreBounded(t *testing.T) {
	l := limits{maxHTTP: 8192}
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	n := 0
	for l.enterHTTP(a, false) {
		if n++; n > 10_000 {
			t.Fatal("no limit")
		}
	}
	if n != maxHTTPPerIP {
		t.Errorf("one source gets %d connections, want %d", n, maxHTTPPerIP)
	}
	if !l.enterHTTP(b, false) {
		t.Error("another source gets none")
	}
	if !l.enterHTTP(a, true) {
		t.Error("a proxy has no more than a client")
	}
	l.leaveHTTP(a)
	l.leaveHTTP(b)
	for range n + 1 {
		l.leaveHTTP(a)
	}
	lim := noLimits()
	lim.NewPerIPPerSecond = 1 // a source known by HTTP only has a full bucket
	now := time.Unix(1_000_000, 0)
	if e := l.enter(a, &lim, now); e != nil {
		t.Error(e)
	}
	if e := l.enter(a, &lim, now); e == nil {
		t.Error("the bucket holds more than the rate")
	}
	l.leave(a, false)
	l.forget(now.Add(time.Minute))
	if len(l.sources) != 0 || l.http != 0 {
		t.Errorf("%d sources and %d HTTP connections are left", len(l.sources), l.http)
	}
}

// request asks for an upgrade and returns what refuses it.
func (s *server) request(target string, header http.Header) (status int, after string, code string) {
	s.t.Helper()
	r, err := http.NewRequest(http.MethodGet, "http://"+s.HTTPAddr().String()+target, nil)
	must(s.t, err)
	for k, v := range map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="} {
		r.Header.Set(k, v)
	}
	for k, v := range header {
		r.Header[k] = v
	}
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := c.Do(r)
	must(s.t, err)
	defer res.Body.Close()
	if res.StatusCode == http.StatusSwitchingProtocols {
		return res.StatusCode, "", ""
	}
	b, err := io.ReadAll(res.Body)
	must(s.t, err)
	var e struct{ Code, Message, Hint string }
	_ = json.Unmarshal(b, &e)
	if e.Message == "" || e.Hint == "" && e.Code != "invalid" {
		s.t.Errorf("%s is refused by %q, want code, message and hint", target, b)
	}
	return res.StatusCode, res.Header.Get("Retry-After"), e.Code
}

func TestUpgradeIsRefusedWithAReason(t *testing.T) {
	s := serve(t, Options{Names: Access{Origins: []string{"https://chat.example.org"}}}, noLimits())
	for _, c := range []struct {
		name, target string
		header       http.Header
		status       int
		code         string
	}{
		{"token", "/v1/ws?token=x", nil, 400, "token_in_url"},
		{"access token", "/v1/ws?a=b&access_token=", nil, 400, "token_in_url"},
		{"what looks like a token", "/v1/ws?x=pt_default.alice.zzz", nil, 400, "token_in_url"},
		{"token in a broken query", "/v1/ws?token=%zz", nil, 400, "token_in_url"},
		{"other query", "/v1/ws?room=1", nil, 101, ""},
		{"foreign origin", "/v1/ws", http.Header{"Origin": {"https://evil.example.org"}}, 403, "forbidden"},
		{"opaque origin", "/v1/ws", http.Header{"Origin": {"null"}}, 403, "forbidden"},
		{"origin with the allowed one as a prefix", "/v1/ws", http.Header{"Origin": {"https://chat.example.org.evil.org"}}, 403, "forbidden"},
		{"allowed origin", "/v1/ws", http.Header{"Origin": {"https://chat.example.org"}}, 101, ""},
		{"own origin", "/v1/ws", http.Header{"Origin": {"http://" + s.HTTPAddr().String()}}, 101, ""},
		{"no upgrade", "/v1/ws", http.Header{"Upgrade": {"h2c"}}, 426, "invalid"},
	} {
		if status, _, code := s.request(c.target, c.header); status != c.status || code != c.code {
			t.Errorf("%s: got %d %q, want %d %q", c.name, status, code, c.status, c.code)
		}
	}
}

func TestTooManyConnectionsAreRefused(t *testing.T) {
	lim := noLimits()
	lim.ConnectionsPerIP = 1
	s := serve(t, Options{}, lim)
	first := s.dial(wire.TCP)
	first.hello(s.token)
	status, after, code := s.request("/v1/ws", nil)
	if status != 429 || after == "" || code != "too_many_connections" {
		t.Errorf("the upgrade ends with %d %q, Retry-After %q", status, code, after)
	}
	second := s.connect(wire.TCP)
	second.say(`{"id":"1","hello":{}}`) // what it says must not keep it from hearing why
	second.end(im.CodeTooManyConnections, 0)

	lim.ConnectionsPerIP = 2 // at run time
	s.hub.SetLimits(lim)
	s.dial(wire.WebSocket).hello(s.token)
	_ = first.nc.Close()
	until(t, "the place is free", func() bool { return s.Stats().Connections == 1 })
	s.dial(wire.WebSocket).hello(s.token)
	if got := s.Stats(); got.Refused != 2 || got.Accepted != 3 {
		t.Errorf("counted %+v, want 2 refused of 5", got)
	}
}

// More are refused at once than there are file descriptors for it, and none of them
// closes by itself. Spec: P-9.1.
func TestEveryRefusedConnectionIsToldWhy(t *testing.T) {
	transports(t, Options{MaxRefusals: 2}, func(t *testing.T, s *server, fr wire.Framing) {
		if fr == wire.WebSocket {
			return // the HTTP server answers those
		}
		lim := noLimits()
		lim.Connections = 0
		s.hub.SetLimits(lim)
		for i := range 8 {
			s.connect(fr).end(im.CodeTooManyConnections, 0)
			s.refusals.mu.Lock()
			if n := len(s.refusals.open); n > 2 {
				t.Errorf("connection %d: %d refused ones are open, want at most 2", i, n)
			}
			s.refusals.mu.Unlock()
		}
	})
	s := serve(t, Options{MaxHTTP: 4, MaxRefusals: 2}, noLimits())
	for range 2 { // half of MaxHTTP: they say nothing, and stay
		s.connect(wire.WebSocket)
	}
	until(t, "they are counted", func() bool {
		s.limits.mu.Lock()
		defer s.limits.mu.Unlock()
		return s.limits.http == 2
	})
	for range 8 {
		nc, err := net.Dial("tcp", s.HTTPAddr().String())
		must(t, err)
		defer nc.Close()
		res, err := http.ReadResponse(bufio.NewReader(nc), nil)
		must(t, err)
		b, err := io.ReadAll(res.Body)
		must(t, err)
		if res.StatusCode != 429 || res.Header.Get("Retry-After") == "" || !strings.Contains(string(b), `"too_many_connections"`) {
			t.Errorf("got %s, Retry-After %q, %s", res.Status, res.Header.Get("Retry-After"), b)
		}
	}
	if n := s.Stats().Refused; n != 8 {
		t.Errorf("%d are counted as refused, want 8", n)
	}
}

func TestUnauthenticatedConnectionsAreFewAndShort(t *testing.T) {
	t.Parallel() // it mostly waits
	transports(t, Options{HelloTimeout: time.Second}, func(t *testing.T, s *server, fr wire.Framing) {
		lim := noLimits()
		lim.UnauthenticatedPerIP = 2
		s.hub.SetLimits(lim)
		silent, chatty := s.dial(fr), s.dial(fr)
		if fr == wire.WebSocket {
			stop := make(chan struct{})
			defer close(stop)
			go keepPinging(chatty.nc, stop) // pings do not prolong it
		}
		third := s.connect(fr)
		if fr == wire.WebSocket {
			third.write([]byte(upgradeRequest))
			if status := third.readResponse(); status != 429 {
				t.Errorf("the third upgrade ends with %d, want 429", status)
			}
		} else {
			third.end(im.CodeTooManyConnections, 0)
		}
		silent.end(im.CodeHelloTimeout, 4408)
		chatty.end(im.CodeHelloTimeout, 4408)
		_, _ = silent.nc.Close(), chatty.nc.Close()
		until(t, "their places are free", func() bool { return s.Stats().Unauthenticated == 0 })
		p := s.dial(fr)
		p.hello(s.token)
		until(t, "the greeted one does not count", func() bool { return s.Stats().Unauthenticated == 0 })
		if n := s.Stats().HelloTimeouts; n != 2 {
			t.Errorf("%d hello timeouts are counted, want 2", n)
		}
	})
}

func keepPinging(nc net.Conn, stop chan struct{}) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			if _, err := nc.Write(masked(fin|opPing, "")); err != nil {
				return
			}
		}
	}
}
