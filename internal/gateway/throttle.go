package gateway

import (
	"net"
	"time"

	"github.com/petrel-im/petrel/internal/im"
)

// A frame of HTTP/2 has as few as nine bytes and costs microseconds of CPU: a client that sends at full speed
// could keep a core busy. So reads of connections before a login take tokens, and the kernel slows down a client
// that sends faster.
const (
	tokenBytes   = 1 << 10 // most bytes of one read, which takes one token
	vouchedBytes = 8 << 20 // bytes read without tokens after a request with a valid token or key
)

// errTooMuch is the error of a read without a token. The HTTP server takes it for a network error and closes
// without an answer, which would be one more write.
var errTooMuch error = &net.OpError{Op: "read", Net: "tcp", Err: &im.Error{Code: im.CodeRateLimited}}

// read reads from nc, a client's connection of the HTTP server. A read that is not free takes a token. It may wait
// for the token before it returns. If the wait would be longer than longestWait, the read fails, and its bytes are
// lost.
func (p *place) read(nc net.Conn, b []byte) (int, error) {
	if p.free.Load() > 0 {
		n, err := nc.Read(b)
		p.free.Add(-int64(n))
		return n, err
	}
	n, err := nc.Read(b[:min(len(b), tokenBytes)])
	if n == 0 || p.free.Load() > 0 {
		return n, err
	}
	wait, ok := p.l.takeRead(time.Now(), p)
	if !ok {
		p.l.onRefused(limitOfNew)
		return 0, errTooMuch
	}
	if wait > 0 {
		select {
		case <-time.After(wait):
		case <-p.l.gone:
		}
	}
	return n, err
}
