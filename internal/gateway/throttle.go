package gateway

import (
	"net"
	"time"

	"github.com/petrel-im/petrel/internal/im"
)

// A frame of HTTP/2 has as few as nine bytes and costs microseconds of CPU. A connection that is
// read at its own speed could keep a core busy. So reads of connections before a login take tokens,
// and the kernel slows down a client that sends faster.
const (
	tokenBytes   = 1 << 10 // of one read, which takes one token
	vouchedBytes = 8 << 20 // read without counting after a request with a token or key that is right
)

// errTooMuch is the error of a read, as the HTTP server knows them. The server closes without an
// answer, which would be one more write.
var errTooMuch error = &net.OpError{Op: "read", Net: "tcp", Err: &im.Error{Code: im.CodeRateLimited}}

// read reads from nc, a client's connection of the HTTP server, and waits for a token.
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
