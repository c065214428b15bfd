package petrel

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

const (
	writeTimeout = 15 * time.Second
	maxFrame     = 16<<20 - 1 // bytes of a frame of the server, P-2.5
	framesAhead  = 256        // decoded frames that wait; then nothing more is read from the socket
	writeChunk   = 16 << 10   // bytes given to the socket at once
	wsPath       = "/v1/ws"
)

// link carries frames over one socket in one codec. Its reader and writer run until the socket ends.
type link struct {
	json  bool
	recv  func(ctx context.Context) ([]byte, error)
	send  func(ctx context.Context, b []byte) error
	close func()

	ready chan struct{} // capacity 1; a token means there is something to write
	begun time.Time
	heard atomic.Int64  // nanoseconds from begun to the last bytes that came
	moved atomic.Int64  // the same, to the last bytes that the socket took
	took  atomic.Uint64 // id of the last request of which the socket took all

	mu  sync.Mutex // tier 0; guards the fields below
	out []frame    // bounded, as the window and the slots bound the requests without an answer
	err error      // what ended the link
}

// heardConn records when bytes arrive, and when the socket takes bytes: a sign that its send buffer has room.
// Spec: P-7.1.
type heardConn struct {
	net.Conn
	l *link
}

func (c heardConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.l.heard.Store(int64(time.Since(c.l.begun)))
	}
	return n, err
}

func (c heardConn) Write(b []byte) (written int, err error) {
	for len(b) > 0 && err == nil {
		n := 0
		n, err = c.Conn.Write(b[:min(len(b), writeChunk)])
		written += n
		b = b[n:]
		c.l.moved.Store(int64(time.Since(c.l.begun)))
	}
	return written, err
}

// dialLink connects to an address.
func dialLink(ctx context.Context, o *Options, addr string) (*link, error) {
	l := &link{json: o.JSON, ready: make(chan struct{}, 1), begun: time.Now()}
	u, err := url.Parse(addr)
	if err != nil {
		return nil, err
	}
	dial := o.NetDial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	noted := func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return heardConn{conn, l}, nil
	}
	switch u.Scheme {
	case "ws", "wss", "http", "https":
		err = l.dialWebSocket(ctx, u, o.TLS, noted)
	case "tcp", "tls":
		err = l.dialTCP(ctx, u, o.TLS, noted)
	default:
		err = fmt.Errorf("a URL begins with ws, wss, http, https, tcp or tls, not %q", u.Scheme)
	}
	if err != nil {
		return nil, fmt.Errorf("connect %s: %w", addr, err)
	}
	return l, nil
}

type dialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

func (l *link) dialWebSocket(ctx context.Context, u *url.URL, t *tls.Config, dial dialFunc) error {
	at := *u
	if at.Path == "" || at.Path == "/" {
		at.Path = wsPath
	}
	// No idle connections are kept: one whose upgrade is refused, or comes too late, is closed.
	one := &http.Transport{DialContext: dial, TLSClientConfig: t, MaxIdleConnsPerHost: -1}
	conn, answer, err := websocket.Dial(ctx, at.String(),
		&websocket.DialOptions{HTTPClient: &http.Client{Transport: one}})
	if err != nil {
		return upgradeRefusal(answer, err)
	}
	conn.SetReadLimit(maxFrame)
	l.recv = func(ctx context.Context) ([]byte, error) {
		_, b, err := conn.Read(ctx)
		return b, err
	}
	kind := websocket.MessageBinary
	if l.json {
		kind = websocket.MessageText
	}
	l.send = func(ctx context.Context, b []byte) error { return conn.Write(ctx, kind, b) }
	l.close = func() { _ = conn.CloseNow() } // the error does not matter: the connection is over
	return nil
}

// resumable returns a TLS configuration that keeps the session tickets of the server, so that reconnecting costs
// both sides less. t is not changed.
func resumable(t *tls.Config) *tls.Config {
	if t == nil {
		t = &tls.Config{}
	}
	if t.ClientSessionCache != nil {
		return t
	}
	t = t.Clone()
	t.ClientSessionCache = tls.NewLRUClientSessionCache(0)
	return t
}

// upgradeRefusal returns the error in the server's answer to a refused upgrade, or err if there is none.
// Spec: P-9.1.
func upgradeRefusal(r *http.Response, err error) error {
	if r == nil || r.Body == nil {
		return err
	}
	b, _ := io.ReadAll(io.LimitReader(r.Body, 4096)) // a cut answer fails to parse below
	var e petrelv1.Error
	if (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(b, &e) != nil || e.Code == "" {
		return err
	}
	return fromWire(&e)
}

func (l *link) dialTCP(ctx context.Context, u *url.URL, t *tls.Config, dial dialFunc) error {
	conn, err := dial(ctx, "tcp", u.Host)
	if err != nil {
		return err
	}
	if u.Scheme == "tls" {
		if t.ServerName == "" {
			t = t.Clone()
			t.ServerName = u.Hostname()
		}
		secured := tls.Client(conn, t)
		if err := secured.HandshakeContext(ctx); err != nil {
			return errors.Join(err, conn.Close())
		}
		conn = secured
	}
	br := bufio.NewReaderSize(conn, 64<<10)
	if l.json {
		l.recv = func(context.Context) ([]byte, error) { return readLine(br) }
	} else {
		l.recv = func(context.Context) ([]byte, error) { return readCounted(br) }
	}
	l.send = func(_ context.Context, b []byte) error {
		if l.json {
			b = append(b, '\n')
		} else {
			b = append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(b)), uint32(len(b))), b...)
		}
		if err := conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
			return err
		}
		_, err := conn.Write(b)
		return err
	}
	l.close = func() { _ = conn.Close() } // the error does not matter: the connection is over
	return nil
}

// readCounted reads the length of a frame, in 4 bytes, and the frame. Spec: P-1.2.
func readCounted(r *bufio.Reader) ([]byte, error) {
	var n [4]byte
	if _, err := io.ReadFull(r, n[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(n[:])
	if size > maxFrame {
		return nil, fmt.Errorf("frame of %d bytes", size)
	}
	b := make([]byte, size)
	_, err := io.ReadFull(r, b)
	return b, err
}

func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxFrame:
			return nil, errors.New("line longer than any frame")
		case err == bufio.ErrBufferFull:
			continue
		case err != nil:
			return nil, err
		}
		return line, nil
	}
}

// run reads and writes until the socket or ctx ends.
func (l *link) run(ctx context.Context, conn uint64, to chan<- arrival) {
	ctx, stop := context.WithCancel(ctx)
	var writer sync.WaitGroup
	writer.Go(func() {
		l.end(l.write(ctx))
		stop()
	})
	unhook := context.AfterFunc(ctx, l.close) // wakes the reader
	l.end(l.read(ctx, conn, to))
	stop()
	unhook()
	l.close()
	writer.Wait()
}

// end records the reason for the end of the link; the first reason stays.
func (l *link) end(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
	}
}

func (l *link) read(ctx context.Context, conn uint64, to chan<- arrival) error {
	for {
		b, err := l.recv(ctx)
		if err != nil {
			return err
		}
		f, err := decode(l.json, b)
		if err != nil {
			return fmt.Errorf("decode a frame: %w", err)
		}
		select {
		case to <- arrival{conn, f, nil}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (l *link) write(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.ready:
		}
		l.mu.Lock()
		out := l.out
		l.out = nil
		l.mu.Unlock()
		for _, f := range out {
			wctx, cancel := context.WithTimeout(ctx, writeTimeout)
			err := l.send(wctx, f.b)
			cancel()
			if err != nil {
				return err
			}
			if f.id > 0 {
				l.took.Store(f.id)
			}
		}
	}
}

// push queues a frame. After the end of the socket it is lost; the reader reports that end.
func (l *link) push(f frame) {
	l.mu.Lock()
	l.out = append(l.out, f)
	l.mu.Unlock()
	signal(l.ready)
}

// ended returns the reason for the end of the link. A close frame with a code of the server becomes an *Error;
// the client needs it only if the kick with the same code was lost. Spec: P-1.6.
func (l *link) ended() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ce, ok := errors.AsType[websocket.CloseError](l.err); ok && ce.Code >= 4000 {
		return &Error{Code: ce.Reason, Message: "the server closed the connection",
			Retryable: !finalClose(int(ce.Code))}
	}
	return l.err
}
