package gateway

import (
	"net"
	"net/netip"
	"runtime"
	"time"
)

// shutOut reports whether new connections of a client are reset. Those of a proxy never are,
// because it has many clients.
func (g *Gateway) shutOut(client netip.Addr) bool {
	return !g.trusted(client) && g.limits.shutOut(time.Now(), client)
}

// resettingListener is a listener that resets the connections of clients that are shut out.
type resettingListener struct {
	*net.TCPListener
	g *Gateway
}

// Accept implements net.Listener.
func (l *resettingListener) Accept() (net.Conn, error) {
	for {
		nc, err := l.AcceptTCP()
		if err != nil {
			return nil, err
		}
		client, ok := clientOf(nc)
		if !ok || !l.g.shutOut(client) {
			return nc, nil
		}
		l.g.reset(nc)
		runtime.Gosched() // a flood must not keep others from the core
	}
}

// reset closes the connection of a client that is shut out. The kernel keeps nothing of it.
func (g *Gateway) reset(nc *net.TCPConn) {
	_ = nc.SetLinger(0) // it is closed either way
	_ = nc.Close()
	g.limits.onRefused(limitOfNew)
}
