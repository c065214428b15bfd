package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/petrel-im/petrel/internal/wire"
)

// accept accepts the connections of a listener until it is closed. For each it calls take with the address of the
// client. proxy is true if that is the address of a trusted proxy which has not named its client. Each call of
// take is counted in g.tasks; take, or a goroutine that it starts, calls tasks.Done.
func (g *Gateway) accept(ln net.Listener, take func(c *clientConn, client netip.Addr, proxy bool)) error {
	pause := time.Duration(0)
	for {
		if g.o.TLS != nil {
			g.awaitTurn()
		}
		nc, err := ln.Accept()
		switch {
		case err == nil:
			pause = 0
			g.identify(&clientConn{TCPConn: nc.(*net.TCPConn)}, take) // New makes TCP listeners
		case errors.Is(err, net.ErrClosed):
			return nil
		default: // probably no file descriptors are left
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			g.log.Warn("accept failed", "err", err)
			<-time.After(pause)
		}
	}
}

// identify calls take with the client of a connection. If the peer is a proxy that names its client first, a
// goroutine reads the header of the PROXY protocol and calls take then. Instead of that, identify closes the
// connection if the gateway has ended or the header is wrong, and resets it if the header names a client that is shut
// out. The listener has reset other clients that are shut out.
func (g *Gateway) identify(c *clientConn, take func(c *clientConn, client netip.Addr, proxy bool)) {
	peer, ok := clientOf(c)
	if !ok || !g.begin() {
		_ = c.Close()
		return
	}
	if !g.namesClientFirst(peer) {
		take(c, peer, g.trusted(peer))
		return
	}
	g.announcing <- struct{}{}
	go func() { // counted in g.tasks by begin
		stop := context.AfterFunc(g.gone, func() { _ = c.Close() })
		err := g.readClient(c)
		stop()
		<-g.announcing
		client, _ := clientOf(c)
		switch {
		case err != nil:
			_ = c.Close()
			g.tasks.Done()
		case g.shutOut(client):
			g.reset(c.TCPConn)
			g.tasks.Done()
		default:
			take(c, client, g.trusted(client))
		}
	}()
}

// takeTCP admits a connection of the raw TCP port, or tells it why it is refused.
func (g *Gateway) takeTCP(c *clientConn, client netip.Addr, proxy bool) {
	if proxy {
		g.warnNoClient(client, "listen.proxy_protocol", "")
	}
	p, e := g.limits.enter(waiting, client, proxy, time.Now())
	switch {
	case e != nil:
		g.turnAway(c.TCPConn, client, proxy, kickOverTCP(e))
	case g.o.TLS != nil:
		p.await(time.Time{}) // the peer waits until its handshake begins
		g.hold(tls.Server(c, g.o.TLS), p, wire.TCP, nil)
	case len(g.loops) == 0:
		g.hold(c, p, wire.TCP, nil)
	default:
		g.enrolling <- struct{}{}
		go g.enroll(c.TCPConn, p, wire.TCP, nil) // counted in g.tasks by begin
	}
}

// serveHTTP serves the HTTP port until srv ends.
func (g *Gateway) serveHTTP(srv *http.Server) error {
	l := &httpListener{g.http, g, srv.TLSConfig, make(chan net.Conn)}
	var accepting sync.WaitGroup
	accepting.Go(func() { _ = g.accept(l.Listener, l.take) }) // it returns when l is closed
	err := ended(srv.Serve(l))
	g.goAway()
	_ = l.Close() // a second time, unless the server has not started
	accepting.Wait()
	return err
}

// httpListener is the listener of the HTTP server. It returns admitted connections, after their TLS handshake.
type httpListener struct {
	net.Listener
	g      *Gateway
	config *tls.Config   // nil: no TLS
	ready  chan net.Conn // without capacity
}

// Accept implements net.Listener.
func (l *httpListener) Accept() (net.Conn, error) {
	select {
	case nc := <-l.ready:
		return nc, nil
	case <-l.g.gone.Done():
		return nil, net.ErrClosed
	}
}

// take admits a connection of the HTTP port, or tells it why it is refused. With TLS the handshake comes next.
func (l *httpListener) take(c *clientConn, client netip.Addr, proxy bool) {
	p, e := l.g.limits.enter(ofHTTP, client, proxy, time.Now())
	if e != nil {
		l.g.turnAway(c.TCPConn, client, proxy, responseOverHTTP(e))
		return
	}
	p.attach(func() { _ = c.TCPConn.Close() })
	c.place = p
	if l.config == nil {
		l.pass(c, c)
		return
	}
	p.await(time.Time{}) // the peer waits until its handshake begins
	go func() {          // counted in g.tasks by begin
		stop := context.AfterFunc(l.g.gone, func() { _ = c.TCPConn.Close() })
		t := tls.Server(c, l.config)
		if l.g.handshakeTLS(t, p.await) && stop() {
			l.pass(t, c)
			return
		}
		l.drop(c)
	}()
}

// pass gives a connection to the HTTP server, unless the gateway ends.
func (l *httpListener) pass(nc net.Conn, c *clientConn) {
	select {
	case l.ready <- nc:
		l.g.tasks.Done()
	case <-l.g.gone.Done():
		l.drop(c)
	}
}

// drop closes a connection that the HTTP server does not get.
func (l *httpListener) drop(c *clientConn) {
	c.place.leave()
	_ = c.TCPConn.Close() // the client would not read an answer
	l.g.tasks.Done()
}
