package gateway

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/wire"
)

// refusals tells connections for which there is no room why, and closes them. A
// connection that is closed without a word looks like a network that is broken, and its
// client comes back at once. Each refused connection has a file descriptor until it is
// gone, so only max of them are there at once. When one more comes, the oldest is
// closed. It has its code by then: the first write to a new socket does not block.
type refusals struct {
	max  int           // files that are kept for them
	time time.Duration // refusalTime, but for tests

	mu   sync.Mutex // tier 0; guards open
	open []*refusal // oldest first, at most max
}

// refusal is one connection that is being refused.
type refusal struct {
	nc    net.Conn
	since time.Time
}

const (
	refusalTime = time.Second // for the peer to read why, and to close

	// minTLSRefusal is how long a refused TLS connection may stay in any case, for the
	// handshake. The others wait for a place meanwhile, in the queue of the kernel.
	minTLSRefusal = 100 * time.Millisecond
)

// add makes room for nc and takes it in.
func (r *refusals) add(nc net.Conn) *refusal {
	x := &refusal{nc, time.Now()}
	for {
		r.mu.Lock()
		if len(r.open) < r.max {
			r.open = append(r.open, x)
			r.mu.Unlock()
			return x
		}
		oldest := r.open[0]
		wait := time.Duration(0)
		if _, ok := oldest.nc.(*tls.Conn); ok {
			wait = minTLSRefusal - time.Since(oldest.since)
		}
		if wait <= 0 {
			r.open = slices.Delete(r.open, 0, 1)
		}
		r.mu.Unlock()
		if wait <= 0 {
			_ = bottom(oldest.nc).Close() // it has been told why
			continue
		}
		<-time.After(wait)
	}
}

func (r *refusals) remove(x *refusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(r.open, x); i >= 0 {
		r.open = slices.Delete(r.open, i, i+1)
	}
}

// turnAway tells a connection why there is no room, and closes it. why is in the
// framing of its port. The caller has called begin and lets go of nc.
func (g *Gateway) turnAway(nc net.Conn, why []byte) {
	g.stats.refused.Add(1)
	if g.o.TLS != nil {
		nc = tls.Server(nc, g.o.TLS)
	}
	x := g.refusals.add(nc)
	_ = nc.SetDeadline(time.Now().Add(g.refusals.time))
	told := false
	if g.o.TLS == nil { // else the handshake waits for the peer
		_, err := nc.Write(why)
		told = err == nil
	}
	go func() { // counted in g.tasks by begin
		defer g.tasks.Done()
		defer g.refusals.remove(x)
		defer nc.Close()
		if !told {
			if _, err := nc.Write(why); err != nil {
				return
			}
		}
		if c, ok := nc.(interface{ CloseWrite() error }); ok {
			_ = c.CloseWrite()
		}
		// What the peer has sent would make the kernel reset the connection before the
		// peer has read why.
		buf := make([]byte, maxReadBuffer)
		for range maxEarlyExcess {
			if _, err := nc.Read(buf); err != nil {
				return
			}
		}
	}()
}

// kickOverTCP is a refusal as a client of the TCP port reads it. Spec: P-1.3, P-9.1.
func kickOverTCP(e *im.Error) []byte {
	return wire.AppendFrame(nil, wire.Encoding{Codec: wire.JSON, Framing: wire.TCP}, wire.KickFrame(e))
}

// responseOverHTTP is a refusal as a client of the HTTP port reads it, whatever it asks
// for. Spec: P-9.1.
func responseOverHTTP(e *im.Error) []byte {
	body := errorJSON(e)
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nCache-Control: no-store\r\nRetry-After: %d\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s",
		e.Code.Info().HTTP, http.StatusText(e.Code.Info().HTTP), retryAfter(e), len(body), body)
}

// errorJSON is an error as the body of an HTTP response.
func errorJSON(e *im.Error) []byte {
	b, err := protojson.Marshal(wire.ErrorFrame(e))
	if err != nil {
		b = []byte(`{"code":"internal"}`)
	}
	return append(b, '\n')
}

// retryAfter is in whole seconds.
func retryAfter(e *im.Error) int { return int((e.RetryAfter + time.Second - 1) / time.Second) }

func writeError(w http.ResponseWriter, status int, e *im.Error) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(retryAfter(e)))
	}
	if e.Code == im.CodeTooManyConnections && w.Header().Get("Connection") == "" {
		h.Set("Connection", "close") // or it would keep its file descriptor
	}
	w.WriteHeader(status)
	_, _ = w.Write(errorJSON(e)) // the peer may be gone
}

// httpListener refuses the connections that the HTTP server has no room for.
type httpListener struct {
	net.Listener
	g *Gateway
}

// Accept implements net.Listener.
func (l httpListener) Accept() (net.Conn, error) {
	for {
		nc, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		addr, _ := clientOf(nc)
		if l.g.limits.enterHTTP(addr, l.g.trusted(addr), time.Now()) {
			return nc, nil
		}
		l.g.limits.leaveHTTP(addr)
		if !l.g.begin() {
			_ = nc.Close() // the gateway has stopped
			continue
		}
		l.g.wasBarren(addr, l.g.trusted(addr))
		l.g.RefusedFor.Add(limitOfHTTP)
		l.g.turnAway(nc, responseOverHTTP(tooMany("the server has all the HTTP connections it takes", spread(time.Second))))
	}
}

// plain is the listener of the HTTP server where nothing comes before HTTP.
type plain struct{ httpListener }

// Accept implements net.Listener.
func (p plain) Accept() (net.Conn, error) {
	nc, err := p.httpListener.Accept()
	if t, ok := nc.(*net.TCPConn); ok {
		return p.g.throttled(&arrived{TCPConn: t}), nil
	}
	return nc, err
}
