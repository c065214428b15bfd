package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/gobwas/ws"
	"golang.org/x/net/http/httpguts"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/rate"
	"github.com/petrel-im/petrel/internal/wire"
)

// Path is where WebSocket is. Spec: P-1.1.
const Path = "/v1/ws"

// server is the HTTP server of everything on the HTTP address.
func (g *Gateway) server(base context.Context) *http.Server {
	rest := g.allowOrigins(g.o.Handler)
	ours := checkHost(g.access.Load, onLoopback(g.HTTPAddr()), g.log, "listen.http",
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			g.setClient(r)
			if r.URL.Path == Path && !g.o.HTTPOnly {
				g.Upgrade(w, r)
				return
			}
			rest.ServeHTTP(w, r)
		}))
	srv := newServer(base, g.o.TLS, g.log, ours)
	srv.ConnState = func(nc net.Conn, state http.ConnState) {
		placeOf(nc).note(state, state == http.StateNew || state == http.StateIdle)
	}
	return srv
}

// newServer makes an HTTP server with the bounds that all listeners have.
func newServer(base context.Context, config *tls.Config, log *slog.Logger, h http.Handler) *http.Server {
	// gRPC needs HTTP/2: by ALPN with TLS, with prior knowledge without it.
	// WebSocket stays on HTTP/1.1.
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	if config = config.Clone(); config != nil { // the TCP port has no protocols to choose from
		config.NextProtos = []string{"h2", "http/1.1"}
	}
	protocols.SetUnencryptedHTTP2(config == nil)
	return &http.Server{
		Protocols:         protocols,
		HTTP2:             boundHTTP2(),
		Handler:           setSecurityHeaders(h),
		TLSConfig:         config,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       15 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug), // mistakes of strangers
		BaseContext:       func(net.Listener) context.Context { return base },
		ConnContext: func(ctx context.Context, nc net.Conn) context.Context {
			return rate.WithVoucher(ctx, placeOf(nc))
		},
	}
}

// idleTimeout is how long a connection may wait for its next request. A client or a
// balancer that keeps it for longer would send a request into a connection that is
// being closed, and cannot know whether it arrived: so this is longer than what they
// keep (Go 90 s, balancers of AWS 60 s, of Google 600 s). If they become too many,
// those that have waited longest are closed before (the limits of HTTP connections).
const idleTimeout = 620 * time.Second

// boundHTTP2 is what one connection of HTTP/2 may make the server hold. The
// library bounds streams that are reset at once, and headers that do not end.
func boundHTTP2() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams: 100,
		// the least that RFC 9113 allows: a frame is read whole, and its buffer kept with the connection
		MaxReadFrameSize:              16 << 10,
		MaxReceiveBufferPerStream:     64 << 10,
		MaxReceiveBufferPerConnection: 256 << 10,
		MaxDecoderHeaderTableSize:     4 << 10,
		MaxEncoderHeaderTableSize:     4 << 10,
	}
}

// note follows the states of a connection of an HTTP server. awaits: the server waits for the peer.
func (p *place) note(state http.ConnState, awaits bool) {
	switch {
	case state == http.StateHijacked:
		p.known.Store(true) // its WebSocket connection has a place of its own
		p.leave()
	case state == http.StateClosed:
		p.leave()
	case awaits:
		p.await(time.Now())
	default:
		p.await(time.Time{})
	}
}

// ended is the error with which a server has ended; nil: it was shut down.
func ended(err error) error {
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Upgrade makes a WebSocket connection out of a request, and hands it over.
// Refusals are an Error as JSON. Spec: P-1.1, P-3.3, P-9.1.
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
		p.known.Store(nc == nil) // else the HTTP connection counts
		p.leave()
		g.tasks.Done()
		return
	}
	if a, ok := clientConnOf(nc); ok {
		a.place = nil // the WebSocket connection has one of its own
	}
	var early []byte // frames sent right after the request
	if n := rw.Reader.Buffered(); n > 0 {
		early, _ = rw.Reader.Peek(n)
	}
	g.hold(nc, p, wire.WebSocket, early)
}

// checkUpgrade refuses requests that must not become connections, whatever else.
func (g *Gateway) checkUpgrade(r *http.Request) *im.Error {
	if wire.SecretInQuery(r.URL.RawQuery) {
		return &im.Error{Code: im.CodeTokenInURL}
	}
	return g.checkOrigin(r)
}

// isUpgrade tells whether a request asks for WebSocket, which HTTP/1.0 does not have (RFC 6455, 4.1).
// Both headers are lists, which may take several lines (RFC 9110, 5.3).
func isUpgrade(r *http.Request) bool {
	return r.ProtoMajor == 1 && r.ProtoMinor > 0 && httpguts.HeaderValuesContainsToken(r.Header["Upgrade"],
		"websocket") &&
		httpguts.HeaderValuesContainsToken(r.Header["Connection"], "upgrade")
}

// onlyWebSocket leaves in a request what it says of WebSocket: the upgrader looks at the first
// lines, and takes only one protocol.
func onlyWebSocket(r *http.Request) {
	r.Header.Set("Upgrade", "websocket")
	r.Header.Set("Connection", "Upgrade")
}

// clientOf is the address of a connection's client: its peer, or whom a proxy named.
func clientOf(nc net.Conn) (netip.Addr, bool) {
	a := nc.RemoteAddr()
	if t, ok := a.(*net.TCPAddr); ok {
		return t.AddrPort().Addr().Unmap().WithZone(""), t.IP != nil
	}
	return remote(a.String())
}

// remote reads the address of a peer.
func remote(hostport string) (netip.Addr, bool) {
	ap, err := netip.ParseAddrPort(hostport)
	return ap.Addr().Unmap().WithZone(""), err == nil
}

// refuse answers an upgrade request that gets no connection.
func (g *Gateway) refuse(w http.ResponseWriter, e *im.Error) {
	writeError(w, e.Code.Info().HTTP, e)
}
