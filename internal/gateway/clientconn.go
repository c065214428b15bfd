package gateway

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"runtime"
	"time"

	"github.com/petrel-im/petrel/internal/share"
)

// clientConn is the TCP connection of a client, which may come through a proxy. TLS, if there is any, lies above
// it. It belongs to one goroutine until the header of the proxy and the handshake are read, and then to its
// reader; only its writer calls Write.
type clientConn struct {
	*net.TCPConn
	client net.Addr      // nil: the peer
	place  *place        // of a connection of the HTTP server; else nil
	stall  time.Duration // of a stream: how long its peer may take no bytes; 0: the write deadline counts

	turns share.Turns // while the handshake is under way
	// notes since when the server waits for the peer; the zero time: the peer waits for the server. false: the
	// connection has to end
	await  func(time.Time) bool
	budget time.Duration // time that the peer has for its part of the handshake
}

// RemoteAddr returns the address of the client.
func (a *clientConn) RemoteAddr() net.Addr {
	if a.client != nil {
		return a.client
	}
	return a.TCPConn.RemoteAddr()
}

// Read reads from the TCP connection. During the handshake it gives its core back while it waits for the peer.
// Later, on an HTTP connection, it may wait for tokens (place.read).
func (a *clientConn) Read(b []byte) (int, error) {
	switch {
	case a.turns != nil:
		return a.readInHandshake(a.TCPConn, b)
	case a.place != nil && !a.place.proxy:
		return a.place.read(a.TCPConn, b)
	}
	return a.TCPConn.Read(b)
}

// readInHandshake reads from nc during the handshake, for as long as the budget allows.
func (a *clientConn) readInHandshake(nc net.Conn, b []byte) (int, error) {
	a.turns.End()
	defer a.turns.Begin()
	begun := time.Now()
	if err := nc.SetReadDeadline(begun.Add(a.budget)); err != nil {
		return 0, err
	}
	// Single bytes do not end the silence: the time waited before counts, too.
	if !a.await(begun.Add(a.budget - handshakeTimeout)) {
		return 0, os.ErrDeadlineExceeded
	}
	n, err := nc.Read(b)
	a.budget -= time.Since(begun)
	a.await(time.Time{})
	return n, err
}

// Write writes b. The peer of a stream may be slow, as long as it makes progress. Only this layer
// sees the progress: TLS reports a whole record or none. Spec: P-6.4.
func (a *clientConn) Write(b []byte) (int, error) {
	if a.stall == 0 {
		return a.TCPConn.Write(b)
	}
	return a.writeMoving(a.TCPConn, b)
}

// writeMoving writes b to nc. It fails if the peer takes nothing for a.stall.
func (a *clientConn) writeMoving(nc net.Conn, b []byte) (n int, err error) {
	moved := time.Now()
	for {
		_ = nc.SetWriteDeadline(time.Now().Add(a.stall / 8)) // short, to see when the peer took something last
		m, err := nc.Write(b[n:])
		n += m
		switch {
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return n, err
		case m > 0:
			moved = time.Now()
		case time.Since(moved) >= a.stall:
			return n, err
		}
	}
}

// clientConnOf returns the clientConn of a connection, below TLS if there is any.
func clientConnOf(nc net.Conn) (*clientConn, bool) {
	if t, ok := nc.(*tls.Conn); ok {
		nc = t.NetConn()
	}
	a, ok := nc.(*clientConn)
	return a, ok
}

// placeOf returns the place of a connection of an HTTP server.
func placeOf(nc net.Conn) *place {
	a, _ := clientConnOf(nc) // each HTTP listener returns connections with one
	return a.place
}

// newTurns returns the turns in which TLS handshakes compute, in the order of arrival: one for each core but one,
// at least one. When ten thousand clients come back at once, a handshake that has begun ends soon, and others begin
// later. If all were under way together, most would time out and begin anew.
func newTurns() share.Turns { return share.NewTurns(runtime.NumCPU() - 1) }

// awaitTurn waits until the handshakes that came before have begun. Until then nothing is accepted:
// connections in the queue of the kernel cost nothing.
func (g *Gateway) awaitTurn() {
	g.turns.Begin()
	g.turns.End()
}

// handshakeTLS does the TLS handshake of a TLS connection, and reports whether it succeeded; true without TLS. The
// wait for a core does not count against the time that the peer has. await is that of clientConn.
func (g *Gateway) handshakeTLS(nc net.Conn, await func(time.Time) bool) bool {
	t, ok := nc.(*tls.Conn)
	if !ok || t.ConnectionState().HandshakeComplete {
		return true
	}
	a, ok := clientConnOf(t)
	if !ok {
		return false
	}
	a.turns, a.await, a.budget = g.turns, await, handshakeTimeout
	g.turns.Begin()
	err := a.SetWriteDeadline(time.Now().Add(handshakeTimeout))
	if err == nil {
		err = t.Handshake()
	}
	g.turns.End()
	a.turns, a.await = nil, nil
	return err == nil && a.SetDeadline(time.Time{}) == nil
}
