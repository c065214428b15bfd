package gateway

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/petrel-im/petrel/internal/config"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/session"
	"github.com/petrel-im/petrel/internal/wire"
)

// entrance is limits that a test enters.
type entrance struct {
	limits
	t   *testing.T
	lim session.Limits
	now time.Time
}

func newEntrance(t *testing.T) *entrance {
	e := &entrance{t: t, lim: noLimits(), now: time.Unix(1_000_000, 0)}
	e.limits = newLimits(func() *session.Limits { return &e.lim })
	e.minSilence = time.Second
	return e
}

// come makes a connection; want is what refuses it, "": nothing.
func (e *entrance) come(addr, want string) *place {
	e.t.Helper()
	got := ""
	p, err := e.enter(waiting, netip.MustParseAddr(addr), false, e.now)
	if err != nil {
		got = err.Message
		if err.Code != im.CodeTooManyConnections || err.RetryAfter <= 0 {
			e.t.Errorf("%s is refused by %s after %s", addr, err.Code, err.RetryAfter)
		}
	}
	if (want == "") != (got == "") || !strings.Contains(got, want) {
		e.t.Fatalf("%s: got %q, want %q", addr, got, want)
	}
	return p
}

func TestLimitsAreCountedForEachSource(t *testing.T) {
	e := newEntrance(t)
	e.lim.Connections, e.lim.ConnectionsPerIP, e.lim.Unauthenticated, e.lim.UnauthenticatedPerIP = 6, 3, 5, 2
	a, b := e.come("2001:db8::1", ""), e.come("2001:db8::2", "")
	e.come("2001:db8::3", "have not said hello yet") // the same /64
	e.come("2001:db8:0:1::1", "")
	v4 := e.come("192.0.2.1", "")
	e.come("::ffff:192.0.2.1", "")
	e.come("192.0.2.2", "too many connections have not said hello")
	a.welcome()
	b.welcome()
	c := e.come("2001:db8::3", "")
	e.come("2001:db8::3", "limit of connections")
	v4.leave()
	c.welcome()
	e.come("2001:db8::4", "IP address has all the connections")
	e.come("192.0.2.1", "")
}

func TestNewConnectionsOfASourceAreRateLimited(t *testing.T) {
	e := newEntrance(t)
	e.lim.NewPerIPPerSecond = 10
	burst := func(a string) (n int) {
		for {
			p, err := e.enter(waiting, netip.MustParseAddr(a), false, e.now)
			if err != nil {
				return n
			}
			p.leave()
			if n++; n > 1000 {
				t.Fatal("no limit")
			}
		}
	}
	for _, from := range []string{"192.0.2.1", "192.0.2.2", "2001:db8::1"} {
		if n := burst(from); n != 10 {
			t.Errorf("at once %d connections of %s get in, want 10", n, from)
		}
	}
	e.now = e.now.Add(500 * time.Millisecond)
	if n := burst("192.0.2.1"); n != 5 {
		t.Errorf("after half a second %d connections get in, want 5", n)
	}
	if len(e.sources) != 0 {
		t.Errorf("%d sources are remembered although they have nothing", len(e.sources))
	}
	e.now = e.now.Add(time.Minute)
	n := 0
	for i := range 256 {
		n += burst(fmt.Sprintf("2001:db8:1:%x::1", i))
	}
	if n != 40 {
		t.Errorf("a /56 gets %d connections at once, want 4 times as many as a /64", n)
	}
	e.lim.NewPerIPPerSecond = 0 // at run time
	e.come("203.0.113.1", "too many new connections")
}

// A client that opens connections and says nothing keeps nobody out: the oldest connections that are silent for
// long enough make room.
func TestSilentConnectionMakesRoom(t *testing.T) {
	for _, c := range []struct {
		name        string
		set         func(l *session.Limits)
		first, late string
	}{
		{"of one address", func(l *session.Limits) { l.UnauthenticatedPerIP = 3 }, "192.0.2.1", "192.0.2.1"},
		{"of all", func(l *session.Limits) { l.Unauthenticated = 3 }, "192.0.2.1", "198.51.100.1"},
	} {
		e := newEntrance(t)
		c.set(&e.lim)
		var ended []int
		var places []*place
		for i := range 3 {
			p := e.come(c.first, "")
			if !p.attach(func() { ended = append(ended, i) }) {
				t.Fatal("a new connection has lost its place")
			}
			places = append(places, p)
			e.now = e.now.Add(100 * time.Millisecond)
		}
		e.come(c.late, "have not said hello") // all are young
		places[0].await(time.Time{})          // its hello is being checked
		e.now = e.now.Add(850 * time.Millisecond)
		e.come(c.late, "")
		e.come(c.late, "have not said hello") // the third is too young, and so is the new one
		if !slices.Equal(ended, []int{1}) {
			t.Errorf("%s: connections %v are ended, want the second", c.name, ended)
		}
		if places[1].attach(nil) {
			t.Errorf("%s: the connection that was ended has its place still", c.name)
		}
		if total, waiting := e.counts(); total != 3 || waiting != 3 {
			t.Errorf("%s: %d connections are counted, and %d waiting, want 3 of each", c.name, total, waiting)
		}
		// It was welcomed in the moment in which it was ended.
		places[1].welcome()
		e.leave(places[1].addr)
		for _, p := range places {
			p.leave()
		}
		if total, waiting := e.counts(); total != 1 || waiting != 1 || len(e.sources) != 1 {
			t.Errorf("%s: %d connections of %d sources are left, and %d waiting, want the late one", c.name, total, len(e.sources), waiting)
		}
	}
}

// Spec: P-9.1.
func TestWholeOfficeGetsInBehindOneAddress(t *testing.T) {
	cfg, err := config.Load(config.Source{})
	must(t, err)
	e := newEntrance(t)
	e.lim.ConnectionsPerIP, e.lim.UnauthenticatedPerIP, e.lim.Unauthenticated, e.lim.NewPerIPPerSecond =
		int(cfg.Limits.ConnectionsPerIP), int(cfg.Limits.UnauthenticatedPerIP), int(cfg.Limits.Unauthenticated), int(cfg.Limits.NewConnectionsPerIPPerS)
	for range 1000 {
		e.come("192.0.2.1", "").welcome()
		e.now = e.now.Add(10 * time.Millisecond)
	}
	for range cfg.Limits.UnauthenticatedPerIP {
		e.come("192.0.2.1", "")
	}
	e.come("192.0.2.1", "have not said hello")
}

func TestConnectionsOfTheHTTPServerAreBounded(t *testing.T) {
	e := newEntrance(t)
	e.maxHTTP = 8192
	addr := netip.MustParseAddr("192.0.2.1")
	enter := func(a string, proxy bool) *place {
		p, _ := e.enter(ofHTTP, netip.MustParseAddr(a), proxy, e.now)
		return p
	}
	var places []*place
	for p := enter("192.0.2.1", false); p != nil; p = enter("192.0.2.1", false) {
		p.await(time.Time{}) // it serves a request
		if places = append(places, p); len(places) > 10_000 {
			t.Fatal("no limit")
		}
	}
	if n := len(places); n != maxHTTPPerIP {
		t.Errorf("one source gets %d connections, want %d", n, maxHTTPPerIP)
	}
	for what, p := range map[string]*place{"another source": enter("192.0.2.2", false), "a proxy": enter("192.0.2.1", true)} {
		if p == nil {
			t.Errorf("%s gets no connection", what)
			continue
		}
		p.await(time.Time{})
		places = append(places, p)
	}
	// The one that has waited longest for a request makes room.
	var ended []int
	for i := range 3 {
		places[i].attach(func() { ended = append(ended, i) })
	}
	places[1].await(e.now)
	places[0].await(e.now)
	e.now = e.now.Add(time.Second)
	last := enter("192.0.2.1", false)
	if last == nil || !slices.Equal(ended, []int{1}) {
		t.Errorf("an idle connection keeps another one out: %t; connections %v are ended, want the second", last == nil, ended)
	}
	last.await(time.Time{})
	places[0].await(time.Time{})
	if enter("192.0.2.1", false) != nil {
		t.Error("a connection that answers a request has made room")
	}
	for _, p := range append(places, last) {
		p.leave()
	}
	if len(e.sources) != 0 || e.all != (usage{}) || e.places[ofHTTP].Len() != 0 {
		t.Errorf("%d sources and connections %v are left", len(e.sources), e.all)
	}
	if e.shutOut(e.now, addr) {
		t.Error("without a limit of new connections an address is shut out")
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
		{"a connection of two lines", "/v1/ws", http.Header{"Connection": {"keep-alive", "Upgrade"}}, 101, ""},
		{"a connection with two options", "/v1/ws", http.Header{"Connection": {"keep-alive, upgrade"}}, 101, ""},
		{"two protocols", "/v1/ws", http.Header{"Upgrade": {"h2c, WebSocket"}}, 101, ""},
		{"two protocols in two lines", "/v1/ws", http.Header{"Upgrade": {"h2c", "websocket"}}, 101, ""},
		{"a connection that is not upgraded", "/v1/ws", http.Header{"Connection": {"keep-alive"}}, 426, "invalid"},
		{"a protocol that only looks like it", "/v1/ws", http.Header{"Upgrade": {"websockets"}}, 426, "invalid"},
		{"no upgrade", "/v1/ws", http.Header{"Upgrade": {"h2c"}}, 426, "invalid"},
	} {
		if status, _, code := s.request(c.target, c.header); status != c.status || code != c.code {
			t.Errorf("%s: got %d %q, want %d %q", c.name, status, code, c.status, c.code)
		}
	}
}

// A proxy goes on to another server after a 503; a refused hello would bring the client back here.
// Spec: P-9.3.
func TestUpgradeIsRefusedWhileTheNodeIsDrained(t *testing.T) {
	s := serve(t, Options{}, noLimits())
	s.hub.Drain()
	if status, after, code := s.request("/v1/ws", nil); status != 503 || after == "" || code != "draining" {
		t.Errorf("while the node is drained: %d %q, Retry-After %q; want 503 draining and a time", status, code, after)
	}
	s.hub.Resume()
	if status, _, code := s.request("/v1/ws", nil); status != 101 {
		t.Errorf("after that: %d %q, want 101", status, code)
	}
}

func TestTooManyConnectionsAreRefused(t *testing.T) {
	lim := noLimits()
	lim.ConnectionsPerIP = 1
	s := serve(t, Options{}, lim)
	first := s.dial(wire.TCP)
	first.hello(s.token)
	eventually.True(t, "it is greeted", func() bool { return s.Stats().Unauthenticated == 0 })
	status, after, code := s.request("/v1/ws", nil)
	if status != 429 || after == "" || code != "too_many_connections" {
		t.Errorf("the upgrade ends with %d %q, Retry-After %q", status, code, after)
	}
	second := s.connect(wire.TCP)
	second.say(`{"id":"1","hello":{}}`) // its hello must not keep it from hearing why
	second.end(im.CodeTooManyConnections, 0)

	if n := strings.Count(s.logs.String(), "limits.connections_per_ip"); n != 1 {
		t.Errorf("the log names the option %d times, want once", n)
	}
	lim.ConnectionsPerIP = 2 // at run time
	s.hub.SetLimits(lim)
	s.dial(wire.WebSocket).hello(s.token)
	_ = first.nc.Close()
	eventually.True(t, "the place is free", func() bool { return s.Stats().Connections == 1 })
	s.dial(wire.WebSocket).hello(s.token)
	if n := counted(s.RefusedFor, ""); n != 2 {
		t.Errorf("%d are counted as refused, want 2", n)
	}
}

// More are refused at once than there are file descriptors for it, and none of them
// closes by itself. Spec: P-9.1.
func TestEveryRefusedConnectionGetsTheReason(t *testing.T) {
	transports(t, Options{MaxRefusals: 2}, func(t *testing.T, s *server, fr wire.Framing) {
		if fr == wire.WebSocket {
			return // the HTTP server answers those
		}
		lim := noLimits()
		lim.Connections = 0
		s.hub.SetLimits(lim)
		for i := range 8 {
			s.connect(fr).end(im.CodeTooManyConnections, 0)
			if n := len(s.refusals.open); n > 2 {
				t.Errorf("connection %d: %d refused ones are open, want at most 2", i, n)
			}
		}
	})
	s := serve(t, Options{MaxHTTP: 4, MaxRefusals: 2, MinSilence: time.Hour}, noLimits())
	for range 2 { // half of MaxHTTP: they say nothing, and stay
		s.connect(wire.WebSocket)
	}
	eventually.True(t, "they are counted", func() bool {
		s.limits.mu.Lock()
		defer s.limits.mu.Unlock()
		return s.limits.all[ofHTTP] == 2
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
	if n := counted(s.RefusedFor, ""); n != 8 {
		t.Errorf("%d are counted as refused, want 8", n)
	}
}

func TestUnauthenticatedConnectionsAreFew(t *testing.T) {
	transports(t, Options{HelloTimeout: time.Hour, MinSilence: time.Hour}, func(t *testing.T, s *server, fr wire.Framing) {
		lim := noLimits()
		lim.UnauthenticatedPerIP = 2
		s.hub.SetLimits(lim)
		first, second := s.dial(fr), s.dial(fr)
		third := s.connect(fr)
		if fr == wire.WebSocket {
			third.write([]byte(upgradeRequest))
			if status := third.readResponse(); status != 429 {
				t.Errorf("the third upgrade ends with %d, want 429", status)
			}
		} else {
			third.end(im.CodeTooManyConnections, 0)
		}
		_, _ = first.nc.Close(), second.nc.Close()
		eventually.True(t, "their places are free", func() bool { return s.Stats().Unauthenticated == 0 })
		p := s.dial(fr)
		p.hello(s.token)
		eventually.True(t, "the greeted one does not count", func() bool { return s.Stats().Unauthenticated == 0 })
	})
}

// How long it may be silent: TestHelloTimeoutIsExact and TestLoopKeepsTheTimesOfItsConnections.
// Spec: P-3.1.
func TestConnectionWithoutAHelloIsEnded(t *testing.T) {
	t.Parallel()
	transports(t, Options{HelloTimeout: 300 * time.Millisecond}, func(t *testing.T, s *server, fr wire.Framing) {
		if fr == wire.WebSocket {
			return // its upgrade would have to come in that time
		}
		s.dial(fr).end(im.CodeHelloTimeout, 4408)
		ended := map[string]uint64{}
		s.EndedFor.Each(func(code string, n uint64) { ended[code] = n })
		if len(ended) != 1 || ended[string(im.CodeHelloTimeout)] != 1 {
			t.Errorf("connections are counted as ended for %v", ended)
		}
		if n := counted(s.EndedFor, im.CodeHelloTimeout); n != 1 {
			t.Errorf("%d hello timeouts are counted, want 1", n)
		}
	})
}

// Spec: P-9.1.
func TestSilentConnectionIsEndedForAnother(t *testing.T) {
	transports(t, Options{HelloTimeout: time.Hour, MinSilence: time.Nanosecond}, func(t *testing.T, s *server, fr wire.Framing) {
		lim := noLimits()
		lim.UnauthenticatedPerIP = 1
		s.hub.SetLimits(lim)
		silent := s.dial(fr)
		noise := []byte("{")
		if fr == wire.WebSocket {
			noise = masked(opText, "{")
		}
		silent.write(noise) // no whole message, so it is as good as silent
		eventually.True(t, "it has its place", func() bool { return s.Stats().Unauthenticated == 1 })
		getsIn := func() bool {
			p := s.connect(fr)
			if fr == wire.WebSocket {
				p.write([]byte(upgradeRequest))
				if p.readResponse() != http.StatusSwitchingProtocols {
					return false
				}
			}
			hello := `{"id":"1","hello":{"versionMin":1,"versionMax":1,"device":"d","token":"` + s.token + `"}}`
			frame := []byte(hello + "\n")
			if fr == wire.WebSocket {
				frame = masked(text, hello)
			}
			if _, err := p.nc.Write(frame); err != nil {
				return false
			}
			m, err := p.read()
			return err == nil && strings.Contains(m.payload, "welcome")
		}
		for tries := 1; !getsIn(); tries++ { // not while the server has to do something for the silent one
			if tries == 300 {
				t.Fatal("no other connection gets in")
			}
		}
		silent.end(im.CodeHelloTimeout, 4408)
	})
	s := serve(t, Options{MaxHTTP: 2, MinSilence: time.Nanosecond}, noLimits())
	var silent []net.Conn
	for range 5 {
		silent = append(silent, s.connect(wire.WebSocket).nc)
	}
	s.dial(wire.WebSocket).hello(s.token)
	for i, nc := range silent[:4] {
		if n, err := nc.Read(make([]byte, 1)); n > 0 || err == nil {
			t.Errorf("silent connection %d reads %d bytes, %v", i, n, err)
		}
	}
}

// Bytes that drip end no silence: a handshake has waited for the peer as long as all its
// reads together.
func TestSilenceOfAHandshakeIsThatOfAllItsReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nc, peer := net.Pipe()
		var silences []time.Duration
		turns := newTurns()
		turns.Begin()
		a := &clientConn{turns: turns, budget: handshakeTimeout, await: func(since time.Time) bool {
			if !since.IsZero() {
				silences = append(silences, time.Since(since))
			}
			return true
		}}
		go func() {
			for range 2 {
				time.Sleep(2 * time.Second)
				_, _ = peer.Write([]byte("x"))
			}
		}()
		for range 2 {
			_, err := a.readInHandshake(nc, make([]byte, 1))
			must(t, err)
		}
		begun := time.Now()
		if _, err := a.readInHandshake(nc, make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begun) != time.Second {
			t.Errorf("after 4 s of silence a read ends after %s with %v, want the rest of the 5 s", time.Since(begun), err)
		}
		turns.End()
		if want := []time.Duration{0, 2 * time.Second, 4 * time.Second}; !slices.Equal(silences, want) {
			t.Errorf("silences %v, want %v", silences, want)
		}
	})
}

// While memory is full, no connection for HTTP comes in from where nobody is logged in.
func TestFullMemoryLetsNoStrangersIn(t *testing.T) {
	e, full := newEntrance(t), true
	e.maxHTTP, e.pressed = 10, func() bool { return full }
	e.come("192.0.2.2", "").welcome()
	enter := func(a string, proxy bool) bool {
		p, _ := e.enter(ofHTTP, netip.MustParseAddr(a), proxy, e.now)
		return p != nil
	}
	for _, c := range []struct {
		what, from  string
		proxy, want bool
	}{
		{"a stranger", "192.0.2.1", false, false},
		{"a proxy", "192.0.2.1", true, true},
		{"an address with people", "192.0.2.2", false, true},
	} {
		if got := enter(c.from, c.proxy); got != c.want {
			t.Errorf("%s: %t, want %t", c.what, got, c.want)
		}
	}
	if full = false; !enter("192.0.2.1", false) {
		t.Error("memory is free, and a stranger does not come in")
	}
}
