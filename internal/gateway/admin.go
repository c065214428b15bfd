package gateway

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/netutil"

	"github.com/petrel-im/petrel/internal/im"
)

// AdminOptions say where and how an Admin listens.
type AdminOptions struct {
	Addr    string      // host:port
	TLS     *tls.Config // nil: plaintext. It is not used where only this machine reaches the address: no certificate is for that
	Handler http.Handler
	Access  func() *Access // its Origins do not count: only pages of the listener itself may call it
	MaxHTTP int            // connections at once; more wait in the queue of the kernel
	Log     *slog.Logger
}

// Admin is the listener of operators. Clients have no business there, so it does
// without what the Gateway does against floods.
type Admin struct {
	o   AdminOptions
	ln  net.Listener
	one sync.Once // closes ln
}

// adminDrain is how long the end of an Admin waits for answers under way.
const adminDrain = time.Second

// NewAdmin binds the address; Run serves it. Errors name the address and what to
// do.
func NewAdmin(o AdminOptions) (*Admin, error) {
	ln, err := listen(o.Addr, "--listen-admin")
	if err != nil {
		return nil, err
	}
	if onLoopback(ln.Addr()) {
		o.TLS = nil
	}
	return &Admin{o: o, ln: ln}, nil
}

// Addr is the address that is bound, with the real port.
func (a *Admin) Addr() net.Addr { return a.ln.Addr() }

// TLS tells whether it speaks TLS.
func (a *Admin) TLS() bool { return a.o.TLS != nil }

// Close frees the address of an Admin that does not run.
func (a *Admin) Close() { a.one.Do(func() { _ = a.ln.Close() }) } // nobody is connected

// Run serves until ctx ends.
func (a *Admin) Run(ctx context.Context) error {
	srv := newServer(context.WithoutCancel(ctx), a.o.TLS, a.o.Log, a.handler())
	ended := make(chan error, 1)
	go func() { ended <- serveOn(srv, netutil.LimitListener(a.ln, a.o.MaxHTTP)) }() // Run waits for ended
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.Background(), adminDrain)
	defer cancel()
	if srv.Shutdown(end) != nil {
		_ = srv.Close() // what is still under way has had its time
	}
	return <-ended
}

// handler refuses names that are not ours, and what pages of strangers ask for: a
// browser on this machine reaches the address, whatever page it shows.
func (a *Admin) handler() http.Handler {
	own := http.NewCrossOriginProtection()
	own.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := im.Errorf(im.CodeForbidden, "pages of %.100q may not call this address", r.Header.Get("Origin"))
		writeError(w, e.Code.Info().HTTP, e)
	}))
	var once sync.Once
	warn := func(host string) {
		once.Do(func() { strangeHost(a.o.Log, "listen.admin", host) })
	}
	return checkHost(a.o.Access, onLoopback(a.ln.Addr()), warn, own.Handler(linked(a.o.Handler)))
}

// linked lets pages of strangers only link to this address, which a person may follow. The
// protection against other origins lets every GET pass, and a page can learn from that too,
// such as how long /metrics takes.
func linked(next http.Handler) http.Handler {
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
