package gateway

import (
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// resetMany accepts what waits, and resets it while it is of clients that are shut out, at
// most n. It returns the first connection of somebody else, if it comes to one, and how
// many were reset. A connection that is reset here costs half of one that net has accepted.
func (l *resettingListener) resetMany(n int) (other net.Conn, done int) {
	raw, err := l.SyscallConn()
	if err != nil {
		return nil, 0 // Accept says why
	}
	taken, from := -1, netip.Addr{}
	_ = raw.Control(func(fd uintptr) { // of a listener that is closed, as Accept says
		for ; done < n && taken < 0; done++ {
			c, peer, err := unix.Accept4(int(fd), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
			if err != nil {
				return // nobody waits, or Accept says why
			}
			if client, ok := clientAt(peer); !ok || !l.g.shutOut(client) {
				taken, from = c, client
				return
			}
			_ = unix.SetsockoptLinger(c, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}) // it is closed either way
			_ = unix.Close(c)
		}
	})
	if taken < 0 {
		return nil, done
	}
	if other = connOf(taken); other == nil {
		l.g.limits.noteShortLived(time.Now(), from, l.g.trusted(from))
	}
	return other, done
}

// connOf makes a connection like those that the listener accepts; nil: it is closed.
func connOf(fd int) net.Conn {
	f := os.NewFile(uintptr(fd), "connection")
	defer func() { _ = f.Close() }() // the connection has a descriptor of its own
	nc, err := net.FileConn(f)
	if err != nil {
		return nil // no file descriptors left, most likely
	}
	if nc.RemoteAddr() == nil { // the client has reset it already
		_ = nc.Close()
		return nil
	}
	_ = nc.(*net.TCPConn).SetKeepAlive(false) // the heartbeat is enough
	return nc
}

// clientAt is the address that a connection comes from.
func clientAt(peer unix.Sockaddr) (netip.Addr, bool) {
	switch a := peer.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrFrom4(a.Addr), true
	case *unix.SockaddrInet6:
		return netip.AddrFrom16(a.Addr).Unmap(), true
	}
	return netip.Addr{}, false
}
