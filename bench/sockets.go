package bench

import (
	"context"
	"net"
	"runtime"
	"time"
)

// sockets are the functions through which a run reaches its servers, and its generator reads and writes. A run
// uses those of the system; tests use some in memory, where time is fake.
type sockets struct {
	dial func(ctx context.Context, d *net.Dialer, addr string) (net.Conn, error)
	// returns a socket for the generator with the connection of nc; the caller closes nc afterwards
	take  func(nc net.Conn) (fd int, err error)
	read  func(fd int, b []byte) (n int, again bool, err error)
	write func(fd int, b []byte) (n int, err error)
	close func(fd int)
	watch func() (watching, error)
}

// watching is a set of watched sockets. Its functions are those of poller. Only the goroutine that made the set may
// call them.
type watching struct {
	add   func(fd, conn int) error
	wait  func(d time.Duration, out []ready) ([]ready, error)
	pause func(d time.Duration)
	close func()
}

// system returns the sockets of the system.
func system() *sockets {
	return &sockets{
		dial: func(ctx context.Context, d *net.Dialer, addr string) (net.Conn, error) {
			return d.DialContext(ctx, "tcp", addr)
		},
		take: func(nc net.Conn) (fd int, err error) { return takeSocket(nc.(*net.TCPConn)) },
		read: readSocket, write: writeSocket, close: closeSocket, watch: watchSystem,
	}
}

func watchSystem() (watching, error) {
	runtime.LockOSThread() // the poller works on this thread only
	p, err := newPoller()
	if err != nil {
		runtime.UnlockOSThread()
		return watching{}, err
	}
	return watching{p.add, p.wait, p.pause, func() { p.close(); runtime.UnlockOSThread() }}, nil
}

// sockets returns the sockets of the run.
func (p *Params) sockets() *sockets {
	if p.net == nil {
		return system()
	}
	return p.net
}
