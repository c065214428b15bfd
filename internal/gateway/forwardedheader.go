package gateway

import (
	"log/slog"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/petrel-im/petrel/internal/im"
)

// Headers in which a proxy says whom it speaks for.
const (
	xForwardedFor = "X-Forwarded-For"
	forwarded     = "Forwarded" // RFC 7239
)

// trusted tells whether we believe this peer's X-Forwarded-For.
func (g *Gateway) trusted(a netip.Addr) bool {
	return slices.ContainsFunc(g.access.Load().Proxies, func(p netip.Prefix) bool { return p.Contains(a) })
}

// setClient puts the client's address into a request that came through a trusted
// proxy, for limits that go by it. Each proxy adds whom it got a request from
// at the end, so the last one that is not trusted itself is the client: what
// stands before it is the client's own word. If no client is named, the request keeps
// the address of the proxy: all that come so are limited as one address, and the log says it.
func (g *Gateway) setClient(r *http.Request) {
	peer, ok := remote(r.RemoteAddr)
	if !ok {
		return
	}
	if !g.trusted(peer) {
		if !slices.Contains(probes, r.URL.Path) { // the doctor claims an address, to see who believes it
			g.warnUntrusted(peer, r)
		}
		return
	}
	client, named := peer, false
	all := hops(g.o.ProxyHeader, r.Header)
	for _, hop := range slices.Backward(all) {
		a, ok := hopAddr(hop)
		if !ok {
			break // the proxy in front of it does not say, or not to us
		}
		if client, named = a, true; !g.trusted(a) {
			break
		}
	}
	if client != peer {
		r.RemoteAddr = netip.AddrPortFrom(client, 0).String()
	}
	switch {
	case !g.trusted(client) || slices.Contains(probes, r.URL.Path):
	case client == peer && (named || peer.IsLoopback() && isLoopback(hostName(r.Host))):
		g.logProxyHost(client)
	default:
		g.warnNoClient(client, g.o.ProxyHeader, unread(g.o.ProxyHeader, r.Header))
	}
}

// isLocal logs the first time that a request seems to come from the host of a proxy: the proxy
// names itself, or nobody is named and the request is for a name of the loopback. A person or
// a program there is limited by the address of the host, which is right.
func (g *Gateway) logProxyHost(proxy netip.Addr) {
	g.logOnce(slog.LevelInfo,
		"a request seems to come from the host of a trusted proxy itself; if it came from elsewhere, "+
			"a proxy on its way passes neither the name nor the address of the client on", "proxy", proxy, "header",
		g.o.ProxyHeader)
}

// warnNoClient logs the first time that a trusted proxy does not say for whom it speaks: the header
// in which it has to, and another one in which it may have done so.
func (g *Gateway) warnNoClient(proxy netip.Addr, header, unread string) {
	g.logOnce(slog.LevelWarn,
		"a trusted proxy names no client: the limits for an IP address hold for all that come through it "+
			"together, until it does so in this header", "proxy", proxy, "header", header, "unread", unread)
}

// unread is another header with addresses that came in place of the one that is read; "": none.
func unread(read string, h http.Header) string {
	for _, name := range []string{xForwardedFor, forwarded, "X-Real-Ip"} {
		if name != read && h.Get(name) != "" {
			return name
		}
	}
	return ""
}

// warnUntrusted logs the first time that a neighbour names a client, and is no trusted proxy. What
// strangers write into their headers is not logged.
func (g *Gateway) warnUntrusted(peer netip.Addr, r *http.Request) {
	if r.Header.Get(g.o.ProxyHeader) == "" || !peer.IsLoopback() && !peer.IsPrivate() {
		return
	}
	g.logOnce(slog.LevelWarn,
		"requests name a client, but come from an address that is not in listen.trusted_proxies: if it is "+
			"a proxy of yours, add it there, else the limits for an IP address hold for all that come through it together",
		"header", g.o.ProxyHeader, "proxy", peer)
}

// lostUpgrade is the error of a request that was one for WebSocket until a proxy took the headers out
// that a proxy must pass on by itself (RFC 9110, 7.6.1), or sent it on over HTTP/1.0. It logs the first time.
// nil: the request was none.
func (g *Gateway) lostUpgrade(r *http.Request) *im.Error {
	if r.ProtoMajor != 1 || r.Header.Get("Sec-Websocket-Key") == "" {
		return nil
	}
	g.logOnce(slog.LevelWarn,
		"a request for WebSocket came without its headers Upgrade and Connection, or over HTTP/1.0: "+
			"a proxy on the way has to pass them on, over HTTP/1.1",
		"client", r.RemoteAddr, "protocol", r.Proto, "upgrade", r.Header.Get("Upgrade"))
	if r.ProtoMinor == 0 {
		return im.Errorf(im.CodeInvalid,
			"this request for WebSocket came over HTTP/1.0; a proxy on the way has to speak HTTP/1.1, and to pass on the headers Upgrade and Connection")
	}
	return im.Errorf(im.CodeInvalid,
		"this is a request for WebSocket without the headers Upgrade and Connection; a proxy on the way has to pass them on")
}

// probes are paths that balancers ask for on their own behalf.
var probes = []string{"/healthz", "/readyz", "/version"}

// forwardedPair is a pair of the header Forwarded, or none, and what ends it. Quotes stand around whole
// values only. A client that leaves one open would otherwise swap the meaning of what the proxy adds
// and of a text of its own that the proxy repeats.
var forwardedPair = regexp.MustCompile(`^[ \t]*(?:([^=",;\\ \t]+)=("(?:[^"\\]|\\.)*"|[^",;\\ \t]*))?[ \t]*([,;]|$)`)

// hops are the addresses in a header as they were written, the nearest last; none if it is malformed.
func hops(name string, h http.Header) (hops []string) {
	rest := strings.Join(h.Values(name), ",")
	if name != forwarded {
		return strings.Split(rest, ",")
	}
	for node, end := "", ","; end != ""; {
		pair := forwardedPair.FindStringSubmatch(rest)
		if pair == nil {
			return nil
		}
		if strings.EqualFold(pair[1], "for") {
			node = strings.Trim(pair[2], `"`)
		}
		rest, end = rest[len(pair[0]):], pair[3]
		if end != ";" {
			hops, node = append(hops, node), ""
		}
	}
	return hops
}

// hopAddr reads an address with or without a port.
func hopAddr(s string) (netip.Addr, bool) {
	s = strings.TrimSpace(s)
	if a, ok := remote(s); ok {
		return a, true
	}
	a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"))
	return a.Unmap().WithZone(""), err == nil
}
