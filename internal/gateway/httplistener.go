package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"
)

// httpListener is the listener of the HTTP server. It refuses the connections for which there is
// no room. Where the header of a proxy or a TLS handshake comes first, a goroutine for each
// connection does that, and the HTTP server gets the connection afterwards.
type httpListener struct {
	net.Listener
	g      *Gateway
	config *tls.Config   // nil: no TLS
	ready  chan accepted // without capacity; used where something comes first
}

// accepted is a connection, or why there is none.
type accepted struct {
	nc  net.Conn
	err error
}

// preparesHTTP tells whether something comes before HTTP.
func (g *Gateway) preparesHTTP() bool { return g.o.TLS != nil || g.o.ProxyProtocol }

// Accept implements net.Listener.
func (l *httpListener) Accept() (net.Conn, error) {
	if !l.g.preparesHTTP() {
		c, err := l.admit()
		if err != nil {
			return nil, err
		}
		return c, nil
	}
	select {
	case a := <-l.ready:
		return a.nc, a.err
	case <-l.g.gone.Done():
		return nil, net.ErrClosed
	}
}

// admit accepts the next connection for which there is room.
func (l *httpListener) admit() (*clientConn, error) {
	g := l.g
	for {
		nc, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		addr, _ := clientOf(nc)
		p, e := g.limits.enter(ofHTTP, addr, g.trusted(addr), time.Now())
		if e == nil {
			p.attach(func() { _ = nc.Close() })
			return &clientConn{TCPConn: nc.(*net.TCPConn), place: p}, nil // of the listener of New
		}
		if !g.begin() {
			_ = nc.Close() // the gateway has stopped
			continue
		}
		g.limits.noteShortLived(time.Now(), addr, g.trusted(addr))
		g.turnAway(nc, responseOverHTTP(e))
	}
}

// run prepares connections until the listener is closed or nothing is taken any more.
func (l *httpListener) run() {
	for l.g.gone.Err() == nil {
		if l.config != nil {
			l.g.awaitTurn()
		}
		c, err := l.admit()
		if err != nil {
			l.pass(accepted{err: err})
			if errors.Is(err, net.ErrClosed) {
				return
			}
			continue
		}
		if !l.g.begin() {
			l.lose(c)
			continue
		}
		go func() { // counted in g.tasks by begin
			defer l.g.tasks.Done()
			stop := context.AfterFunc(l.g.gone, func() { _ = c.TCPConn.Close() })
			nc := l.prepare(c)
			if stop() && nc != nil && l.pass(accepted{nc: nc}) {
				return
			}
			l.lose(c)
		}()
	}
}

// prepare reads what comes before HTTP; nil: it was not as it has to be.
func (l *httpListener) prepare(c *clientConn) net.Conn {
	g := l.g
	c.place.await(time.Time{})
	if peer, _ := clientOf(c); g.announced(peer) {
		if g.readClient(c) != nil {
			return nil
		}
		c.place.leave()
		client, _ := clientOf(c)
		if g.shutOut(client) {
			return nil
		}
		p, e := g.limits.enter(ofHTTP, client, g.trusted(client), time.Now())
		if e != nil {
			g.limits.noteShortLived(time.Now(), client, g.trusted(client))
			return nil
		}
		p.await(time.Time{})
		p.attach(func() { _ = c.TCPConn.Close() })
		c.place = p
	}
	if l.config == nil {
		return c
	}
	t := tls.Server(c, l.config)
	if !g.shake(t, c.place.await) {
		return nil
	}
	return t
}

// lose closes a connection that the HTTP server does not get.
func (l *httpListener) lose(c *clientConn) {
	c.place.leave()
	_ = c.TCPConn.Close() // the client would not read an answer
}

// pass gives the HTTP server what it accepts next, unless that listens no more.
func (l *httpListener) pass(a accepted) bool {
	select {
	case l.ready <- a:
		return true
	case <-l.g.gone.Done():
		return false
	}
}
