package gateway

import (
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/gobwas/ws"
	"golang.org/x/net/http/httpguts"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/wire"
)

// Path is the path of the WebSocket endpoint. Spec: P-1.1.
const Path = "/v1/ws"

// Upgrade makes a WebSocket connection out of a request, and gives it to an event loop or to a goroutine of its
// own. It answers a refused request with an Error in JSON. Spec: P-1.1, P-3.3, P-9.1.
func (g *Gateway) Upgrade(w http.ResponseWriter, r *http.Request) {
	addr, ok := remote(r.RemoteAddr)
	if e := g.checkUpgrade(r); e != nil {
		g.RefusedFor.Add(string(e.Code))
		g.refuse(w, e)
		return
	}
	if !ok || !isUpgrade(r) {
		if r.ProtoMajor == 1 {
			w.Header().Set("Connection", "Upgrade")
			w.Header().Set("Upgrade", "websocket")
		}
		e := im.Errorf(im.CodeInvalid, "this address speaks WebSocket only")
		if lost := g.lostUpgrade(r); lost != nil {
			e = lost
		}
		writeError(w, http.StatusUpgradeRequired, e)
		return
	}
	if !g.begin() {
		g.RefusedFor.Add(string(im.CodeDraining))
		g.refuse(w, g.draining())
		return
	}
	if g.deaf.Load() || g.hub.Draining() { // a proxy goes on to another server after a 503
		g.tasks.Done()
		g.RefusedFor.Add(string(im.CodeDraining))
		g.refuse(w, g.draining())
		return
	}
	defer g.upgrades.Add(-1)
	if int(g.upgrades.Add(1)) > g.o.MaxUpgrades {
		g.tasks.Done()
		g.refuse(w, g.limits.refuse(handshakes))
		return
	}
	p, e := g.limits.enter(waiting, addr, g.trusted(addr), time.Now())
	if e != nil {
		g.tasks.Done()
		g.refuse(w, e)
		return
	}
	onlyWebSocket(r)
	nc, rw, _, err := ws.HTTPUpgrader{Timeout: handshakeTimeout}.Upgrade(r, w)
	if err != nil {
		if nc != nil {
			_ = nc.Close() // the client has the reason
		}
		p.known.Store(nc == nil) // nil: the HTTP connection goes on, and is counted by its own place
		p.leave()
		g.tasks.Done()
		return
	}
	if a, ok := clientConnOf(nc); ok {
		a.place = nil // the WebSocket connection has a place of its own
	}
	var early []byte // frames sent right after the request
	if n := rw.Reader.Buffered(); n > 0 {
		early, _ = rw.Reader.Peek(n)
	}
	g.hold(nc, p, wire.WebSocket, early)
}

// checkUpgrade refuses requests that must not become connections, before the limits count them.
func (g *Gateway) checkUpgrade(r *http.Request) *im.Error {
	if wire.SecretInQuery(r.URL.RawQuery) {
		return &im.Error{Code: im.CodeTokenInURL}
	}
	return g.checkOrigin(r)
}

// isUpgrade reports whether a request asks for WebSocket, which HTTP/1.0 does not have (RFC 6455, 4.1). Both
// headers are lists, which may take several lines (RFC 9110, 5.3).
func isUpgrade(r *http.Request) bool {
	return r.ProtoMajor == 1 && r.ProtoMinor > 0 && httpguts.HeaderValuesContainsToken(r.Header["Upgrade"],
		"websocket") &&
		httpguts.HeaderValuesContainsToken(r.Header["Connection"], "upgrade")
}

// onlyWebSocket removes other protocols from the headers of a request: the upgrader looks only at
// their first lines, and takes only one protocol.
func onlyWebSocket(r *http.Request) {
	r.Header.Set("Upgrade", "websocket")
	r.Header.Set("Connection", "Upgrade")
}

// clientOf returns the address of a connection's client: the client that a proxy has named, or else the peer.
func clientOf(nc net.Conn) (netip.Addr, bool) {
	a := nc.RemoteAddr()
	if t, ok := a.(*net.TCPAddr); ok {
		return t.AddrPort().Addr().Unmap().WithZone(""), t.IP != nil
	}
	return remote(a.String())
}

// remote parses the host:port of a peer.
func remote(hostport string) (netip.Addr, bool) {
	ap, err := netip.ParseAddrPort(hostport)
	return ap.Addr().Unmap().WithZone(""), err == nil
}

// refuse answers an upgrade request that gets no connection.
func (g *Gateway) refuse(w http.ResponseWriter, e *im.Error) {
	writeError(w, e.Code.Info().HTTP, e)
}
