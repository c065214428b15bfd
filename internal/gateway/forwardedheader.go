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

// Headers in which a proxy names the client.
const (
	xForwardedFor = "X-Forwarded-For"
	forwarded     = "Forwarded" // RFC 7239
)

// trusted reports whether an address is that of a trusted proxy.
func (g *Gateway) trusted(a netip.Addr) bool {
	return slices.ContainsFunc(g.access.Load().Proxies, func(p netip.Prefix) bool { return p.Contains(a) })
}

// setClient puts the client's address into a request that came through a trusted proxy, for the limits. Each
// proxy appends the address of its peer, so the last address that is no trusted proxy is the client: anybody can
// have written those before it. If no client is named, the request keeps the address of the proxy: all such
// requests are limited as one address, and the log warns of it.
func (g *Gateway) setClient(r *http.Request) {
	peer, ok := remote(r.RemoteAddr)
	if !ok {
		return
	}
	if !g.trusted(peer) {
		if !slices.Contains(probes, r.URL.Path) { // the doctor claims an address there, to see who believes it
			g.warnUntrusted(peer, r)
		}
		return
	}
	client, named := peer, false
	all := hops(g.o.ProxyHeader, r.Header)
	for _, hop := range slices.Backward(all) {
		a, ok := hopAddr(hop)
		if !ok {
			break // the proxy in front of it names no client, or not in this header
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

// logProxyHost logs the first time that a request seems to come from the host of a proxy: the proxy names itself
// as the client, or it names nobody, and the request came over the loopback for a name of the loopback. A person
// or a program there is limited by the address of the host, which is right.
func (g *Gateway) logProxyHost(proxy netip.Addr) {
	g.logOnce(slog.LevelInfo,
		"a request seems to come from the host of a trusted proxy itself; if it came from elsewhere, "+
			"a proxy on its way passes on neither Host nor the client's address", "proxy", proxy, "header",
		g.o.ProxyHeader)
}

// warnNoClient logs the first time that a trusted proxy names no client in header. unread is another header in
// which it may have named one; "": none.
func (g *Gateway) warnNoClient(proxy netip.Addr, header, unread string) {
	g.logOnce(slog.LevelWarn,
		"a trusted proxy names no client: all clients behind it share the limits of one IP address "+
			"until it names them in this header", "proxy", proxy, "header", header, "unread", unread)
}

// unread returns another header than read in which the request has addresses; "": none.
func unread(read string, h http.Header) string {
	for _, name := range []string{xForwardedFor, forwarded, "X-Real-Ip"} {
		if name != read && h.Get(name) != "" {
			return name
		}
	}
	return ""
}

// warnUntrusted logs the first time that a peer with a private or loopback address, which is no trusted proxy,
// names a client. It does not log the content of the header.
func (g *Gateway) warnUntrusted(peer netip.Addr, r *http.Request) {
	if r.Header.Get(g.o.ProxyHeader) == "" || !peer.IsLoopback() && !peer.IsPrivate() {
		return
	}
	g.logOnce(slog.LevelWarn,
		"requests name a client, but come from an address that is not in listen.trusted_proxies: if it is "+
			"a proxy of yours, add it there, else the limits for an IP address hold for all that come through it together",
		"header", g.o.ProxyHeader, "proxy", peer)
}

// lostUpgrade returns the error for a WebSocket request from which a proxy has removed the
// hop-by-hop headers (RFC 9110, 7.6.1), or that came over HTTP/1.0; nil for other requests. It logs
// the first time.
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

// probes are the paths that balancers request to check the server.
var probes = []string{"/healthz", "/readyz", "/version"}

// forwardedPair matches a pair of the header Forwarded, possibly empty, and its end. Quotes stand
// around whole values only. Otherwise a client with an open quote could turn the proxy's addition
// into text, and its own text into the address.
var forwardedPair = regexp.MustCompile(`^[ \t]*(?:([^=",;\\ \t]+)=("(?:[^"\\]|\\.)*"|[^",;\\ \t]*))?[ \t]*([,;]|$)`)

// hops returns the addresses in a header as they were written, the nearest last; none if it is a malformed
// Forwarded.
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

// hopAddr parses an address with or without a port.
func hopAddr(s string) (netip.Addr, bool) {
	s = strings.TrimSpace(s)
	if a, ok := remote(s); ok {
		return a, true
	}
	a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"))
	return a.Unmap().WithZone(""), err == nil
}
