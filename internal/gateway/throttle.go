package gateway

import (
	"context"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	xrate "golang.org/x/time/rate"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/rate"
)

// How much is read of strangers. A frame of HTTP/2 has as few as nine bytes
// and costs microseconds of CPU, so a connection that is read as fast as it sends keeps a
// core busy, whatever limits there are for requests. A stranger who sends more than this
// waits, and the kernel makes them wait too.
const (
	tokenBytes    = 1 << 10         // of one read, which takes one token
	throttleBurst = 4               // burst of an address: as many tokens as its rate gives in so many seconds
	freeReads     = 4               // of a connection that count for its address only: requests and headers of browsers fit into them, and hellos
	allReads      = 1000            // tokens per second of all further reads together
	longestWait   = 5 * time.Second // a stranger who would have to wait for longer is cut off
	vouchedBytes  = 8 << 20         // read without counting after a request of somebody who is known
)

// throttles are what all throttles of a gateway share: the tokens of each address, and
// those of all together.
type throttles struct {
	of  rate.Addresses
	all *xrate.Limiter
}

// errTooMuch is the error of a read, as the HTTP server knows them.
var errTooMuch error = &net.OpError{Op: "read", Net: "tcp", Err: &im.Error{Code: im.CodeRateLimited}}

func newThrottles() throttles { return throttles{all: xrate.NewLimiter(allReads, 2*allReads)} }

// throttle makes one connection of the HTTP server wait that sends much. Only the
// goroutine that reads the connection calls read. Any goroutine may call Vouched.
type throttle struct {
	g       *Gateway
	addr    netip.Addr
	reads   int          // so far, at most freeReads
	known   atomic.Int64 // bytes that are not counted
	vouched atomic.Bool  // somebody who is known has sent a request over it
}

// Vouched is called when somebody who is known has sent a request.
func (r *throttle) Vouched() {
	r.known.Store(vouchedBytes)
	r.vouched.Store(true)
}

// read reads from nc, and waits for as long as the tokens say.
func (r *throttle) read(nc net.Conn, b []byte) (int, error) {
	if r.known.Load() > 0 {
		n, err := nc.Read(b)
		r.known.Add(-int64(n))
		return n, err
	}
	n, err := nc.Read(b[:min(len(b), tokenBytes)])
	if n == 0 || r.known.Load() > 0 {
		return n, err
	}
	wait, ok := r.g.throttles.take(time.Now(), r, r.g.hub.Limits().NewPerIPPerSecond)
	if !ok {
		r.g.countRefused(1)
		return 0, errTooMuch // the HTTP server closes without a word, which would be one more to write
	}
	if wait > 0 {
		select {
		case <-time.After(wait):
		case <-r.g.gone.Done():
		}
	}
	return n, err
}

// take takes a token for a read, and returns how long to wait for it; false: too long.
// perS is how many an address has in a second; negative: there is no limit.
func (t *throttles) take(now time.Time, r *throttle, perS int) (wait time.Duration, ok bool) {
	if perS >= 0 {
		if wait = t.of.Reserve(now, longestWait, r.addr, rate.Per(perS, time.Second, throttleBurst*perS)); wait > longestWait {
			return wait, false
		}
	}
	if r.reads < freeReads {
		r.reads++
		return wait, true
	}
	all := t.all.ReserveN(now, 1)
	if wait = max(wait, all.DelayFrom(now)); wait > longestWait {
		all.CancelAt(now)
		return wait, false
	}
	return wait, true
}

// throttled gives a connection of the HTTP server a throttle, unless a proxy sends over it
// for many clients.
func (g *Gateway) throttled(a *clientConn) *clientConn {
	if client, ok := clientOf(a); ok && !g.trusted(client) {
		a.throttle = &throttle{g: g, addr: client}
	}
	return a
}

// withVoucher is the context of the requests of a connection.
func withVoucher(ctx context.Context, nc net.Conn) context.Context {
	if a, ok := clientConnOf(nc); ok && a.throttle != nil {
		return rate.WithVoucher(ctx, a.throttle)
	}
	return ctx
}
