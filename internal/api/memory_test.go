package api

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// memoryListener accepts connections that stay in this process, so that an HTTP server fits
// into a bubble.
type memoryListener struct {
	arrived chan net.Conn
	closed  chan struct{}
	close   func()
}

func newMemoryListener() *memoryListener {
	l := &memoryListener{arrived: make(chan net.Conn), closed: make(chan struct{})}
	l.close = sync.OnceFunc(func() { close(l.closed) })
	return l
}

var loopback net.Addr = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}

// dial is that of an http.Transport.
func (l *memoryListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	r1, w1 := net.Pipe()
	r2, w2 := net.Pipe()
	select {
	case l.arrived <- &memoryConn{r1, w2}:
		return &memoryConn{r2, w1}, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case nc := <-l.arrived:
		return nc, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Addr implements net.Listener.
func (l *memoryListener) Addr() net.Addr { return loopback }

// Close implements net.Listener.
func (l *memoryListener) Close() error {
	l.close()
	return nil
}

// memoryConn is an end of a connection, whose directions end one by one as those of TCP do.
type memoryConn struct{ r, w net.Conn }

func (c *memoryConn) Read(b []byte) (int, error)         { return c.r.Read(b) }
func (c *memoryConn) Write(b []byte) (int, error)        { return c.w.Write(b) }
func (c *memoryConn) CloseWrite() error                  { return c.w.Close() }
func (c *memoryConn) Close() error                       { return errors.Join(c.w.Close(), c.r.Close()) }
func (c *memoryConn) LocalAddr() net.Addr                { return loopback }
func (c *memoryConn) RemoteAddr() net.Addr               { return loopback }
func (c *memoryConn) SetReadDeadline(t time.Time) error  { return c.r.SetReadDeadline(t) }
func (c *memoryConn) SetWriteDeadline(t time.Time) error { return c.w.SetWriteDeadline(t) }
func (c *memoryConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// serveInMemory serves until the end of the test. dial connects to the server.
func serveInMemory(t testing.TB, h http.Handler, tune func(*http.Server)) (s *httptest.Server, dial func(context.Context, string, string) (net.Conn, error)) {
	t.Helper()
	s = httptest.NewUnstartedServer(h)
	if err := s.Listener.Close(); err != nil {
		t.Fatal(err)
	}
	l := newMemoryListener()
	s.Listener = l
	tune(s.Config)
	s.Start()
	s.Client().Transport = &http.Transport{DialContext: l.dial}
	t.Cleanup(func() {
		s.Client().CloseIdleConnections()
		s.CloseClientConnections()
		s.Close()
	})
	return s, l.dial
}
