package gateway

import (
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"
)

// door is the listener of the HTTP server where a proxy's header or a TLS handshake
// comes first: the HTTP server gets connections that have it behind them.
type door struct {
	httpListener
	config *tls.Config // nil: no TLS
	ready  chan arrival
	closed chan struct{}

	mu       sync.Mutex // tier 0; guards the fields below
	shut     bool
	arriving map[*arrived]struct{}
}

// arrival is a connection, or what the listener says instead.
type arrival struct {
	nc  net.Conn
	err error
}

func newDoor(l httpListener, config *tls.Config) *door {
	return &door{httpListener: l, config: config, ready: make(chan arrival), closed: make(chan struct{}), arriving: map[*arrived]struct{}{}}
}

// run accepts until the listener is closed.
func (d *door) run() {
	for {
		if d.config != nil {
			d.g.awaitTurn()
		}
		nc, err := d.httpListener.Accept()
		if err != nil {
			d.pass(arrival{err: err})
			if errors.Is(err, net.ErrClosed) {
				return
			}
			continue
		}
		a := &arrived{TCPConn: nc.(*net.TCPConn)} // of the listener of New
		if !d.hold(a) || !d.g.begin() {
			d.lose(a)
			continue
		}
		go func() { // counted in d.g.tasks by begin
			defer d.g.tasks.Done()
			if nc := d.prepare(a); nc == nil || !d.letGo(a) || !d.pass(arrival{nc: nc}) {
				d.lose(a)
			}
		}()
	}
}

// prepare reads what comes before HTTP; nil: it was not as it has to be.
func (d *door) prepare(a *arrived) net.Conn {
	g := d.g
	if peer, _ := clientOf(a); g.announced(peer) {
		if g.readClient(a) != nil {
			return nil
		}
		client, _ := clientOf(a)
		g.limits.leaveHTTP(peer)
		if !g.limits.enterHTTP(client, g.trusted(client), time.Now()) || g.shutOut(client) {
			return nil
		}
	}
	if d.config == nil {
		return g.throttled(a)
	}
	t := tls.Server(g.throttled(a), d.config)
	client, _ := clientOf(a)
	if !g.shake(t, func(since time.Time) bool {
		g.limits.rest(a, client, !since.IsZero(), since)
		return true
	}) {
		return nil
	}
	return t
}

// hold notes that a connection is arriving, so that Close ends it.
func (d *door) hold(a *arrived) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.arriving[a] = struct{}{}
	return !d.shut
}

// letGo is the end of hold. It reports whether the door is open still.
func (d *door) letGo(a *arrived) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.arriving, a)
	return !d.shut
}

// lose closes a connection that the HTTP server does not get.
func (d *door) lose(a *arrived) {
	d.letGo(a)
	client, _ := clientOf(a)
	d.g.limits.leaveHTTP(client)
	if !d.g.shutOut(client) {
		d.g.wasBarren(client, d.g.trusted(client))
	}
	_ = a.TCPConn.Close() // whoever it is would not listen
}

// pass gives an arrival to the HTTP server, unless that listens no more.
func (d *door) pass(a arrival) bool {
	select {
	case d.ready <- a:
		return true
	case <-d.closed:
		return false
	}
}

// Accept implements net.Listener.
func (d *door) Accept() (net.Conn, error) {
	select {
	case a := <-d.ready:
		return a.nc, a.err
	case <-d.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. It ends what is arriving.
func (d *door) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.shut {
		return nil
	}
	d.shut = true
	close(d.closed)
	for a := range d.arriving {
		_ = a.TCPConn.Close() // it has not said anything yet
	}
	return d.Listener.Close()
}
