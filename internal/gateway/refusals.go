package gateway

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/wire"
)

// refusals are the connections that are being refused. Each is told the reason, and is closed: without the reason,
// a client would take the close for a broken network, and come back at once. Each has a file descriptor until it is
// gone, so their number is bounded. A further one closes the oldest, which has its reason by then: the first write
// to a new socket does not block, and a TLS connection has had minTLSRefusal.
type refusals struct {
	time time.Duration // refusalTime; tests change it
	open chan *refusal // capacity MaxRefusals; oldest first, also some that are gone; full: the oldest is closed
}

// refusal is one connection that is being refused.
type refusal struct {
	nc    net.Conn
	since time.Time
	gone  chan struct{} // closed after the connection
}

const (
	refusalTime = time.Second // for the peer to read the reason, and to close

	// minTLSRefusal is how long a refused TLS connection stays at least, for its handshake. Further connections
	// wait meanwhile in the queue of the kernel.
	minTLSRefusal = 100 * time.Millisecond
)

// add adds nc. If there is no room, it closes the oldest connection; if that has TLS, not before minTLSRefusal.
func (r *refusals) add(nc net.Conn) *refusal {
	x := &refusal{nc, time.Now(), make(chan struct{})}
	for {
		select {
		case r.open <- x:
			return x
		default:
		}
		select {
		case oldest := <-r.open:
			if _, ok := oldest.nc.(*tls.Conn); ok {
				select {
				case <-oldest.gone:
				case <-time.After(minTLSRefusal - time.Since(oldest.since)):
				}
			}
			_ = bottom(oldest.nc).Close() // the reason is written
		default: // the other listener has made room
		}
	}
}

// turnAway refuses a connection: it writes the reason to the client, and a goroutine closes the connection. With
// TLS that goroutine also does the handshake and the write. why is the reason, encoded for the port. The caller has
// called begin and does not use nc any more.
func (g *Gateway) turnAway(nc net.Conn, client netip.Addr, proxy bool, why []byte) {
	g.limits.noteShortLived(time.Now(), client, proxy)
	if g.o.TLS != nil {
		nc = tls.Server(nc, g.o.TLS)
	}
	x := g.refusals.add(nc)
	_ = nc.SetDeadline(time.Now().Add(g.refusals.time))
	written := false
	if g.o.TLS == nil { // else the handshake waits for the peer
		_, err := nc.Write(why)
		written = err == nil
	}
	go func() { // counted in g.tasks by begin
		defer g.tasks.Done()
		defer close(x.gone)
		defer nc.Close()
		if !written {
			if _, err := nc.Write(why); err != nil {
				return
			}
		}
		if c, ok := nc.(interface{ CloseWrite() error }); ok {
			_ = c.CloseWrite()
		}
		// Unread bytes would make the kernel reset the connection before the peer has read the
		// reason.
		buf := make([]byte, maxReadBuffer)
		for range maxEarlyExcess {
			if _, err := nc.Read(buf); err != nil {
				return
			}
		}
	}()
}

// kickOverTCP encodes a refusal for a client of the TCP port. Spec: P-1.3, P-9.1.
func kickOverTCP(e *im.Error) []byte {
	return wire.AppendFrame(nil, wire.Encoding{Codec: wire.JSON, Framing: wire.TCP}, wire.KickFrame(e))
}

// responseOverHTTP encodes a refusal as a complete HTTP response, the same for every request. Spec: P-9.1.
func responseOverHTTP(e *im.Error) []byte {
	body := errorJSON(e)
	return fmt.Appendf(nil,
		"HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nCache-Control: no-store\r\nRetry-After: %d\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s",
		e.Code.Info().HTTP, http.StatusText(e.Code.Info().HTTP), retryAfter(e), len(body), body)
}

// errorJSON encodes an error as the body of an HTTP response.
func errorJSON(e *im.Error) []byte {
	b, err := protojson.Marshal(wire.ErrorFrame(e))
	if err != nil {
		b = []byte(`{"code":"internal"}`)
	}
	return append(b, '\n')
}

// retryAfter returns the time to wait in whole seconds, rounded up.
func retryAfter(e *im.Error) int { return int((e.RetryAfter + time.Second - 1) / time.Second) }

func writeError(w http.ResponseWriter, status int, e *im.Error) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(retryAfter(e)))
	}
	if e.Code == im.CodeTooManyConnections && w.Header().Get("Connection") == "" {
		h.Set("Connection", "close") // else the connection would keep its file descriptor
	}
	w.WriteHeader(status)
	_, _ = w.Write(errorJSON(e)) // the peer may be gone
}
