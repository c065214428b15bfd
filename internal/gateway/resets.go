package gateway

import (
	"net"
	"net/netip"
	"runtime"
	"time"
)

// shutOut reports whether new connections of a client are reset. Those of a proxy never are, because it
// speaks for many.
func (g *Gateway) shutOut(client netip.Addr) bool {
	return !g.trusted(client) && g.limits.shutOut(time.Now(), client)
}

// resettingListener is a listener that resets the connections of clients that are shut out.
type resettingListener struct {
	*net.TCPListener
	g    *Gateway
	many bool // the last connection was of a client that is shut out
}

// resetsAtOnce is how many connections are reset before others get the core.
const resetsAtOnce = 16

// Accept implements net.Listener. One goroutine may call it.
func (l *resettingListener) Accept() (net.Conn, error) {
	for {
		for l.many {
			nc, n := l.resetMany(resetsAtOnce)
			if l.many = n == resetsAtOnce; n > 0 {
				l.g.countRefused(n)
				runtime.Gosched()
			}
			if nc != nil {
				return nc, nil
			}
		}
		nc, err := l.AcceptTCP()
		if err != nil {
			return nil, err
		}
		client, ok := clientOf(nc)
		if !ok || !l.g.shutOut(client) {
			return nc, nil
		}
		l.g.reset(nc)
		l.many = true
	}
}

// reset ends a connection of a client that is shut out. The kernel keeps nothing of it.
func (g *Gateway) reset(nc *net.TCPConn) {
	_ = nc.SetLinger(0) // it is closed either way
	_ = nc.Close()
	g.countRefused(1)
}

// countRefused notes that n connections were ended for the rate of their address.
func (g *Gateway) countRefused(n int) {
	for range n {
		g.limits.onRefused(limitOfNew)
	}
}
