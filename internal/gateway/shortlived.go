package gateway

import (
	"net"
	"net/netip"
	"runtime"
	"time"

	"github.com/petrel-im/petrel/internal/rate"
)

// A connection is short-lived if it ends before anybody has logged in on it. It
// costs the server much more than the client: the server accepts it, waits for what it
// says, and says why it ends it. So an address with too many of them is shut out for a while: its connections are reset as soon as they are accepted, which
// takes no goroutine, no buffer and no place.
const (
	shortLivedShare = 20              // of the new connections that an address may have in a second, one in twenty may be short-lived in the long run
	maxShutOut      = 5 * time.Second // an address is shut out for no longer after its last short-lived connection
	peopleTimes     = 4               // factor of both for an address from which somebody is logged in
)

// shortLived counts the short-lived connections of each address.
type shortLived struct {
	of   rate.Addresses
	perS func() int // new connections that an address may have in a second; negative: there is no limit
}

// limit is how many short-lived connections an address may have. people: somebody is logged in
// from there.
func (b *shortLived) limit(people bool) rate.Limit {
	n := b.perS()
	if n < 0 {
		return rate.Per(n, time.Second, n)
	}
	l := rate.Per(max(1, n/shortLivedShare), time.Second, max(1, n))
	if people {
		l = l.Times(peopleTimes)
	}
	return l
}

// count notes a short-lived connection of an address.
func (b *shortLived) count(now time.Time, a netip.Addr, people bool) {
	b.of.Reserve(now, maxShutOut, a, b.limit(people))
}

// shut reports whether an address is shut out.
func (b *shortLived) shut(now time.Time, a netip.Addr, people bool) bool {
	return b.of.Wait(now, maxShutOut, a, b.limit(people)) > 0
}

// wasShortLived notes that a connection has ended before anybody has logged in on it.
func (g *Gateway) wasShortLived(client netip.Addr, proxy bool) {
	if !proxy {
		g.shortLived.count(time.Now(), client, g.limits.people(client))
	}
}

// shutOut reports whether a client is shut out. Proxies never are: they come for many.
func (g *Gateway) shutOut(client netip.Addr) bool {
	return !g.trusted(client) && g.shortLived.shut(time.Now(), client, g.limits.people(client))
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
		g.limits.noteRefused(limitOfNew)
	}
}
