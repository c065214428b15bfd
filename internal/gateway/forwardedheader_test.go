package gateway

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/wire"
)

func TestClientBehindTrustedProxies(t *testing.T) {
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8:aa::/48")}
	for _, c := range []struct {
		name, peer, header string
		lines              []string
		want               string
	}{
		{"nobody is believed but the proxies", "192.0.2.9:1", xForwardedFor, []string{"198.51.100.1"}, "192.0.2.9:1"},
		{"one proxy", "10.0.0.1:1", xForwardedFor, []string{"198.51.100.1"}, "198.51.100.1:0"},
		{"a proxy as IPv4 in IPv6", "[::ffff:10.0.0.1]:1", xForwardedFor, []string{"198.51.100.1"}, "198.51.100.1:0"},
		{"what the client says itself comes first", "10.0.0.1:1", xForwardedFor, []string{"203.0.113.7, 198.51.100.1"}, "198.51.100.1:0"},
		{"two lines", "10.0.0.1:1", xForwardedFor, []string{"203.0.113.7", "198.51.100.1"}, "198.51.100.1:0"},
		{"two proxies", "10.0.0.1:1", xForwardedFor, []string{"203.0.113.7, 198.51.100.1,10.0.0.2"}, "198.51.100.1:0"},
		{"proxies only", "10.0.0.1:1", xForwardedFor, []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3:0"},
		{"a client who speaks as a proxy", "10.0.0.1:1", xForwardedFor, []string{"10.0.0.3, 198.51.100.1"}, "198.51.100.1:0"},
		{"a port", "10.0.0.1:1", xForwardedFor, []string{"198.51.100.1:4711"}, "198.51.100.1:0"},
		{"IPv6", "[2001:db8:aa::1]:1", xForwardedFor, []string{"2001:db8::5"}, "[2001:db8::5]:0"},
		{"IPv6 and a port", "10.0.0.1:1", xForwardedFor, []string{"[2001:db8::5]:99"}, "[2001:db8::5]:0"},
		{"IPv6 in brackets", "10.0.0.1:1", xForwardedFor, []string{"[2001:db8::5]"}, "[2001:db8::5]:0"},
		{"nothing", "10.0.0.1:1", xForwardedFor, nil, "10.0.0.1:1"},
		{"empty", "10.0.0.1:1", xForwardedFor, []string{""}, "10.0.0.1:1"},
		{"garbage", "10.0.0.1:1", xForwardedFor, []string{"198.51.100.1, unknown"}, "10.0.0.1:1"},
		{"garbage behind a proxy", "10.0.0.1:1", xForwardedFor, []string{"198.51.100.1, unknown, 10.0.0.2"}, "10.0.0.2:0"},
		{"the other header is not read", "10.0.0.1:1", forwarded, nil, "10.0.0.1:1"},
		{"forwarded", "10.0.0.1:1", forwarded, []string{"for=198.51.100.1;proto=https;by=10.0.0.1"}, "198.51.100.1:0"},
		{"forwarded, with its own words", "10.0.0.1:1", forwarded, []string{`for=203.0.113.7, For="198.51.100.1:80" ; proto=https`}, "198.51.100.1:0"},
		{"forwarded, IPv6", "10.0.0.1:1", forwarded, []string{`for="[2001:db8::5]:80"`}, "[2001:db8::5]:0"},
		{"forwarded, hidden", "10.0.0.1:1", forwarded, []string{`for=203.0.113.7, for=_hidden`}, "10.0.0.1:1"},
		{"forwarded, without for", "10.0.0.1:1", forwarded, []string{`for=203.0.113.7, proto=https`}, "10.0.0.1:1"},
		{"forwarded, a comma in quotes", "10.0.0.1:1", forwarded, []string{`for=198.51.100.1;host="a, for=203.0.113.7"`}, "198.51.100.1:0"},
		{"forwarded, an escape in quotes", "10.0.0.1:1", forwarded, []string{`for=198.51.100.1;host="a\", for=203.0.113.7"`}, "198.51.100.1:0"},
		{"forwarded, a quote left open by the client", "10.0.0.1:1", forwarded, []string{`for=203.0.113.7;a="`, `for=198.51.100.1`}, "10.0.0.1:1"},
		{"forwarded, the proxy's quote closes it", "10.0.0.1:1", forwarded, []string{`a="`, `for=198.51.100.1;host="x, for=203.0.113.7"`}, "10.0.0.1:1"},
		{"forwarded, and opens again", "10.0.0.1:1", forwarded, []string{`a="`, `for=198.51.100.1;host=", for=203.0.113.7;x="`}, "10.0.0.1:1"},
		{"forwarded, escaped by the proxy", "10.0.0.1:1", forwarded, []string{`a="`, `for=198.51.100.1;host=", for=203.0.113.7;x=\""`}, "10.0.0.1:1"},
	} {
		var log strings.Builder
		g := &Gateway{o: Options{ProxyHeader: c.header}, log: slog.New(slog.NewTextHandler(&log, nil))}
		g.SetAccess(Access{Proxies: proxies})
		r := &http.Request{RemoteAddr: c.peer, URL: &url.URL{Path: "/v1/ws"}, Header: http.Header{xForwardedFor: c.lines}}
		if c.header == forwarded {
			r.Header = http.Header{forwarded: c.lines, xForwardedFor: {"203.0.113.99"}}
		}
		g.setClient(r)
		if r.RemoteAddr != c.want {
			t.Errorf("%s: the client is %s, want %s", c.name, r.RemoteAddr, c.want)
		}
		a, _ := remote(c.want)
		if told := strings.Count(log.String(), "names no client"); told != 0 != g.trusted(a) {
			t.Errorf("%s: the log says %d times that no client is named", c.name, told)
		}
	}
}

// The limits of an address are those of the client, not of the proxy.
func TestLimitsBehindAProxyAreTheClients(t *testing.T) {
	lim := noLimits()
	lim.ConnectionsPerIP = 1
	seen := make(chan string, 1)
	s := serve(t, Options{
		Names:   Access{Proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
		Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen <- r.RemoteAddr }),
	}, lim)
	up := func(client string) (int, string) {
		status, _, code := s.request("/v1/ws", http.Header{xForwardedFor: {client}})
		return status, code
	}
	c := s.dial(wire.TCP) // of the proxy's host itself, by TCP: nobody speaks for it
	c.hello(s.token)
	for _, client := range []string{"198.51.100.1", "198.51.100.2"} {
		if status, code := up(client); status != 101 {
			t.Errorf("%s: %d %s", client, status, code)
		}
	}
	eventually.True(t, "they have left", func() bool { return s.Stats().Connections == 1 })
	if status, _, code := s.request("/v1/ws", nil); status != 429 || code != "too_many_connections" {
		t.Errorf("a second one for which the proxy names nobody: %d %s, want 429", status, code)
	}
	refused := map[string]uint64{}
	s.RefusedFor.Each(func(reason string, n uint64) { refused[reason] = n })
	if len(refused) != 1 || refused["limits.connections_per_ip"] != 1 {
		t.Errorf("connections are counted as refused for %v", refused)
	}
	if status, code := up("198.51.100.1"); status != 101 {
		t.Errorf("of a client, beside one for which the proxy names nobody: %d %s", status, code)
	}
	r, err := http.NewRequest(http.MethodGet, "http://"+s.HTTPAddr().String()+"/x", nil)
	must(t, err)
	r.Header.Set(xForwardedFor, "203.0.113.7, 198.51.100.1")
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	must(t, err)
	_, _ = io.Copy(io.Discard, res.Body)
	must(t, res.Body.Close())
	if got := <-seen; !strings.HasPrefix(got, "198.51.100.1:") {
		t.Errorf("the handler sees %s", got)
	}
	res, err = (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get("http://" + s.HTTPAddr().String() + "/x")
	must(t, err)
	must(t, res.Body.Close())
	if got := <-seen; !strings.HasPrefix(got, "127.0.0.1:") {
		t.Errorf("of a call for which nobody is named the handler sees %s, want the proxy", got)
	}
}

// A proxy that is not named in listen.trusted_proxies is logged once. A header that a stranger
// writes is not logged.
func TestAProxyThatIsNotTrustedIsLoggedOnce(t *testing.T) {
	for _, c := range []struct {
		peer, header string
		logged       int
	}{
		{"127.0.0.1:1", "198.51.100.1", 1},
		{"10.0.0.7:1", "198.51.100.1", 1},
		{"[fd00::7]:1", "198.51.100.1", 1},
		{"127.0.0.1:1", "", 0},
		{"203.0.113.5:1", "198.51.100.1", 0},
		{"192.168.0.1:1", "198.51.100.1", 0}, // it is trusted
	} {
		var log strings.Builder
		g := &Gateway{o: Options{ProxyHeader: xForwardedFor}, log: slog.New(slog.NewTextHandler(&log, nil))}
		g.SetAccess(Access{Proxies: []netip.Prefix{netip.MustParsePrefix("192.168.0.1/32")}})
		for range 2 {
			r := &http.Request{RemoteAddr: c.peer, URL: &url.URL{Path: "/v1/ws"}, Header: http.Header{}}
			if c.header != "" {
				r.Header.Set(xForwardedFor, c.header)
			}
			g.setClient(r)
		}
		if n := strings.Count(log.String(), "not in listen.trusted_proxies"); n != c.logged {
			t.Errorf("%s names %q: logged %d times, want %d", c.peer, c.header, n, c.logged)
		}
	}
}

// A program on the host of the proxy is not taken for a proxy that names no client, and does not use up
// the one warning about that. The warning names the header that is read, and the one that came.
func TestAProxyThatNamesNoClientIsToldFromItsHost(t *testing.T) {
	for _, c := range []struct {
		name, peer, host string
		header           http.Header
		warned           bool
		unread           string
	}{
		{"a command on the host", "127.0.0.1:1", "127.0.0.1:8080", nil, false, ""},
		{"the same by name", "127.0.0.1:1", "localhost:8080", nil, false, ""},
		{"curl on the host, through the proxy", "127.0.0.1:1", "chat.example.org", http.Header{xForwardedFor: {"127.0.0.1"}}, false, ""},
		{"a proxy that names nobody", "127.0.0.1:1", "chat.example.org", nil, true, ""},
		{"a proxy of another host that names nobody", "10.0.0.7:1", "localhost", nil, true, ""},
		{"the proxy before it names nobody", "127.0.0.1:1", "chat.example.org", http.Header{xForwardedFor: {"10.0.0.7"}}, true, ""},
		{"another header", "127.0.0.1:1", "chat.example.org", http.Header{forwarded: {"for=198.51.100.1"}}, true, forwarded},
		{"one that is never read", "127.0.0.1:1", "chat.example.org", http.Header{"X-Real-Ip": {"198.51.100.1"}}, true, "X-Real-Ip"},
	} {
		var log strings.Builder
		g := &Gateway{o: Options{ProxyHeader: xForwardedFor}, log: slog.New(slog.NewTextHandler(&log, nil))}
		g.SetAccess(Access{Proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.7/32")}})
		if c.header == nil {
			c.header = http.Header{}
		}
		for range 2 {
			g.setClient(&http.Request{RemoteAddr: c.peer, Host: c.host, URL: &url.URL{Path: Path}, Header: c.header})
		}
		warned, told := strings.Count(log.String(), "names no client"), strings.Count(log.String(), "the host of a trusted proxy itself")
		if want := map[bool]int{true: 1}[c.warned]; warned != want || told != 1-want {
			t.Errorf("%s: warned %d times, and told %d times of the host itself\n%s", c.name, warned, told, log.String())
		}
		if c.warned && !strings.Contains(log.String(), "header="+xForwardedFor+` unread=`+map[string]string{"": `""`}[c.unread]+c.unread+"\n") {
			t.Errorf("%s: want the headers named: %s", c.name, log.String())
		}
	}
}

// A request for WebSocket over HTTP/1.0, as nginx sends it on by itself, is answered with that.
func TestAProxyThatSpeaksHTTP10IsNamed(t *testing.T) {
	s := serve(t, Options{}, noLimits())
	nc, err := net.Dial("tcp", s.HTTPAddr().String())
	must(t, err)
	defer nc.Close()
	_, err = io.WriteString(nc, "GET "+Path+" HTTP/1.0\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	must(t, err)
	answer, err := io.ReadAll(nc)
	must(t, err)
	if !strings.Contains(string(answer), " 426 ") || !strings.Contains(string(answer), "a proxy on the way has to speak HTTP/1.1") {
		t.Errorf("got %s", answer)
	}
	if n := strings.Count(s.logs.String(), "protocol=HTTP/1.0 upgrade=websocket"); n != 1 {
		t.Errorf("logged %d times: %s", n, s.logs.String())
	}
}

// A request for WebSocket from which a proxy has taken Upgrade and Connection is answered with
// that, and logged once. A request that only opens the address is not logged.
func TestAProxyThatDropsTheUpgradeIsNamed(t *testing.T) {
	s := serve(t, Options{}, noLimits())
	for i, key := range []string{"", "dGhlIHNhbXBsZSBub25jZQ==", "dGhlIHNhbXBsZSBub25jZQ=="} {
		r, err := http.NewRequest(http.MethodGet, "http://"+s.HTTPAddr().String()+Path, nil)
		must(t, err)
		if key != "" {
			r.Header.Set("Sec-WebSocket-Key", key)
		}
		res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
		must(t, err)
		body, err := io.ReadAll(res.Body)
		must(t, err)
		must(t, res.Body.Close())
		named := strings.Contains(string(body), "a proxy on the way has to pass them on")
		if res.StatusCode != http.StatusUpgradeRequired || named != (key != "") {
			t.Errorf("with the key %q: %s %s", key, res.Status, body)
		}
		if n := strings.Count(s.logs.String(), "came without its headers Upgrade and Connection"); n != min(i, 1) {
			t.Errorf("request %d, with the key %q: logged %d times", i, key, n)
		}
	}
}
