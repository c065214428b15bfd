package pgstore

import (
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// fault is what a proxy does to the next bytes that pass.
type fault int

const (
	none      fault = iota
	noRequest       // the next bytes to the server are swallowed, and the connection ends
	noAnswer        // the next bytes from the server are swallowed, and the connection ends
)

// proxy stands between a store and its server.
type proxy struct {
	to string
	l  net.Listener

	mu    sync.Mutex // tier 0; guards the fields below
	next  fault
	sent  func() // is called when bytes go to the server; nil: nothing is
	shut  bool   // new connections are refused
	conns map[net.Conn]net.Conn
}

// newProxy returns a proxy to the server of dsn, and the DSN through it.
func newProxy(t testing.TB, dsn string) (*proxy, string) {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{to: u.Host, l: l, conns: map[net.Conn]net.Conn{}}
	var wg sync.WaitGroup
	wg.Go(func() { p.accept(&wg) })
	t.Cleanup(func() {
		_ = l.Close() // ends accept
		p.cut()
		wg.Wait()
	})
	u.Host = l.Addr().String()
	return p, u.String()
}

func (p *proxy) accept(wg *sync.WaitGroup) {
	for {
		c, err := p.l.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		shut := p.shut
		p.mu.Unlock()
		s, err := net.Dial("tcp", p.to)
		if shut || err != nil {
			_ = c.Close() // refused
			if s != nil {
				_ = s.Close() // was never used
			}
			continue
		}
		p.mu.Lock()
		p.conns[c] = s
		p.mu.Unlock()
		wg.Go(func() { p.carry(c, s, noRequest) })
		wg.Go(func() { p.carry(s, c, noAnswer) })
	}
}

// carry copies bytes until an end, or until it is told to swallow them.
func (p *proxy) carry(from, to net.Conn, drop fault) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err == nil && (drop == noRequest && isCancel(buf[:n]) || p.hit(drop)) {
			err = io.EOF
		}
		if err == nil && drop == noRequest {
			p.tell()
		}
		if err == nil {
			_, err = to.Write(buf[:n])
		}
		if err != nil {
			_, _ = from.Close(), to.Close() // the connection has ended
			return
		}
	}
}

// isCancel tells whether b asks the server to cancel a statement. A store that
// loses a connection does so; a network that lost it would not carry that.
func isCancel(b []byte) bool { return len(b) >= 8 && binary.BigEndian.Uint32(b[4:]) == 80877102 }

func (p *proxy) hit(f fault) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next != f {
		return false
	}
	p.next = none
	return true
}

// sends has f called each time that bytes go to the server.
func (p *proxy) sends(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent = f
}

func (p *proxy) tell() {
	p.mu.Lock()
	f := p.sent
	p.mu.Unlock()
	if f != nil {
		f()
	}
}

func (p *proxy) arm(f fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = f
}

// cut ends all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c, s := range p.conns {
		_, _ = c.Close(), s.Close() // on purpose
	}
	clear(p.conns)
}

// close refuses new connections, or takes them again.
func (p *proxy) close(shut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shut = shut
}
