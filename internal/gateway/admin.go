package gateway

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/wake"
)

// AdminOptions say where and how an Admin listens.
type AdminOptions struct {
	Addr string // host:port
	// nil: plaintext. Not used on a loopback address, which no certificate names
	TLS     *tls.Config
	Handler http.Handler
	Access  func() *Access // its Origins do not count: only pages of the listener itself may call it
	// connections at once. If a new one comes, the one that is silent longest is closed; if none is silent, the
	// new one waits
	MaxHTTP int
	Log     *slog.Logger
}

// Admin is the listener of operators. Clients do not use it, so it lacks most of the Gateway's
// protection against floods. But every program of this host reaches it, so silent connections make
// room for others, as at the Gateway.
type Admin struct {
	o      AdminOptions
	ln     net.Listener
	one    sync.Once // closes ln
	limits limits
	freed  chan struct{} // capacity 1; a token means that a connection has ended, or can make room from now on
}

// adminDrain is how long the end of an Admin waits for answers under way.
const adminDrain = time.Second

// NewAdmin binds the address; Run serves it. Errors name the address and the remedy.
func NewAdmin(o AdminOptions) (*Admin, error) {
	ln, err := listen(o.Addr, "--listen-admin")
	if err != nil {
		return nil, err
	}
	if onLoopback(ln.Addr()) {
		o.TLS = nil
	}
	a := &Admin{o: o, ln: ln, limits: newLimits(nil), freed: make(chan struct{}, 1)}
	a.limits.maxHTTP = o.MaxHTTP
	return a, nil
}

// Addr is the address that is bound, with the real port.
func (a *Admin) Addr() net.Addr { return a.ln.Addr() }

// TLS reports whether the listener speaks TLS.
func (a *Admin) TLS() bool { return a.o.TLS != nil }

// Close frees the address of an Admin that does not run.
func (a *Admin) Close() { a.one.Do(func() { _ = a.ln.Close() }) } // nobody is connected

// Run serves until ctx ends, and then waits up to adminDrain for answers under way.
func (a *Admin) Run(ctx context.Context) error {
	srv := newServer(context.WithoutCancel(ctx), a.o.TLS, a.o.Log, a.handler())
	srv.ConnState = func(nc net.Conn, state http.ConnState) { a.note(placeOf(nc), state) }
	ended := make(chan error, 1)
	go func() { ended <- serveOn(srv, adminListener{a.ln, a, ctx.Done()}) }() // Run waits for ended
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.Background(), adminDrain)
	defer cancel()
	if srv.Shutdown(end) != nil {
		_ = srv.Close() // requests still under way have had their time
	}
	return <-ended
}

// adminListener closes the connection that has been silent longest if there is no room for a
// new one.
type adminListener struct {
	net.Listener
	a    *Admin
	done <-chan struct{} // closed at the end of Run
}

// Accept implements net.Listener.
func (l adminListener) Accept() (net.Conn, error) {
	for {
		nc, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		addr, _ := clientOf(nc)
		if p := l.a.enter(addr, func() { _ = nc.Close() }, l.done); p != nil {
			return &clientConn{TCPConn: nc.(*net.TCPConn), place: p}, nil // NewAdmin makes a TCP listener
		}
		_ = nc.Close() // the server ends
	}
}

// enter takes a place for a new connection. end closes that connection, if it has to make room for another one.
// While requests of operators have all places, enter waits; it returns nil when done is closed.
func (a *Admin) enter(addr netip.Addr, end func(), done <-chan struct{}) *place {
	for {
		// Operators and other programs share an address, as behind a proxy.
		if p, _ := a.limits.enter(ofHTTP, addr, true, time.Now()); p != nil {
			p.attach(end)
			return p
		}
		select {
		case <-a.freed:
		case <-done:
			return nil
		}
	}
}

// note follows the states of a connection. It counts as silent from each change on, until a request comes with a
// valid key: else a client without a key could keep its place for ever.
func (a *Admin) note(p *place, state http.ConnState) {
	p.note(state, true)
	wake.Set(a.freed)
}

// handler refuses requests for foreign host names, and those of foreign pages: a browser on this machine reaches
// the address, whatever page it shows.
func (a *Admin) handler() http.Handler {
	own := http.NewCrossOriginProtection()
	own.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := im.Errorf(im.CodeForbidden, "pages of %.100q may not call this address", r.Header.Get("Origin"))
		writeError(w, e.Code.Info().HTTP, e)
	}))
	return checkHost(a.o.Access, onLoopback(a.ln.Addr()), a.o.Log, "listen.admin", own.Handler(linksOnly(a.o.Handler)))
}

// linksOnly refuses requests from pages of other sites, unless the browser navigates, as after a click on a link.
// The protection against other origins lets every GET pass, and a page can learn from a GET, for example from the
// time that /metrics takes.
func linksOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.Header.Get("Sec-Fetch-Mode") != "navigate" {
			e := im.Errorf(im.CodeForbidden, "pages of strangers may only link to this address")
			writeError(w, e.Code.Info().HTTP, e)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// serveOn serves ln until it is closed.
func serveOn(srv *http.Server, ln net.Listener) error {
	if srv.TLSConfig != nil {
		return ended(srv.ServeTLS(ln, "", ""))
	}
	return ended(srv.Serve(ln))
}
