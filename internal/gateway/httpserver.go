package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/petrel-im/petrel/internal/rate"
)

// server makes the HTTP server of the HTTP address.
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
	if config = config.Clone(); config != nil { // a copy: the TCP port offers no protocols
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

// idleTimeout is how long a connection may wait for its next request. A client or a balancer with a longer
// timeout would send a request into a closing connection, and not know whether it arrived. So it is longer than
// theirs (Go 90 s, balancers of AWS 60 s, of Google 600 s). If there are too many connections, the limits of HTTP
// connections close the oldest silent ones earlier.
const idleTimeout = 620 * time.Second

// boundHTTP2 bounds the memory of one HTTP/2 connection. The library itself bounds streams that are reset at
// once, and endless headers.
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

// note follows the states of a connection of an HTTP server. awaits: in this state the server waits for the peer.
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

// ended returns the error that ended a server; nil if it was shut down.
func ended(err error) error {
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
