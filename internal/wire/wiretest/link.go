package wiretest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"time"

	"github.com/gobwas/ws"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// link is the transport: frames on a socket in one encoding. One goroutine
// reads; any may write.
type link struct {
	conn net.Conn
	br   *bufio.Reader
	enc  wire.Encoding

	mu  sync.Mutex   // tier 0; held while a frame is written, so that frames do not mix
	out bytes.Buffer // guarded by mu
}

// dialLink connects as the scheme of o.URL says.
func dialLink(ctx context.Context, o Options) (*link, error) {
	u, err := url.Parse(o.URL)
	if err != nil {
		return nil, err
	}
	if u.Host == "" {
		return nil, fmt.Errorf("the address has no host")
	}
	dial := o.NetDial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	switch u.Scheme {
	case "http":
		u.Scheme = "ws"
	case "https":
		u.Scheme = "wss"
	}
	switch u.Scheme {
	case "ws", "wss":
		if u.Path == "" || u.Path == "/" {
			u.Path = "/v1/ws"
		}
		d := ws.Dialer{NetDial: dial, TLSConfig: o.TLS}
		conn, br, _, err := d.Dial(ctx, u.String())
		if err != nil {
			return nil, err
		}
		if br == nil { // nothing came after the handshake
			br = bufio.NewReader(conn)
		}
		return &link{conn: conn, br: br, enc: wire.Encoding{Codec: o.Codec, Framing: wire.WebSocket}}, nil
	case "tcp", "tls":
		conn, err := dial(ctx, "tcp", u.Host)
		if err != nil {
			return nil, err
		}
		if u.Scheme == "tls" {
			cfg := &tls.Config{}
			if o.TLS != nil {
				cfg = o.TLS.Clone()
			}
			if cfg.ServerName == "" {
				cfg.ServerName = u.Hostname()
			}
			t := tls.Client(conn, cfg)
			if err := t.HandshakeContext(ctx); err != nil {
				_ = conn.Close() // never used
				return nil, err
			}
			conn = t
		}
		return &link{conn: conn, br: bufio.NewReader(conn), enc: wire.Encoding{Codec: o.Codec, Framing: wire.TCP}}, nil
	}
	return nil, fmt.Errorf("the scheme %q is none of ws, wss, http, https, tcp, tls", u.Scheme)
}

// write writes frames in their order with one system call.
func (l *link) write(fs ...*petrelv1.ClientFrame) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out.Reset()
	for _, f := range fs {
		var b []byte
		var err error
		if l.enc.Codec == wire.JSON {
			b, err = protojson.Marshal(f)
		} else {
			b, err = f.MarshalVT()
		}
		if err != nil {
			return fmt.Errorf("encode frame %d: %w", f.Id, err)
		}
		l.frameLocked(b)
	}
	return l.flushLocked()
}

// writeRaw writes b as the content of one frame.
func (l *link) writeRaw(b []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out.Reset()
	l.frameLocked(b)
	return l.flushLocked()
}

func (l *link) frameLocked(b []byte) {
	switch {
	case l.enc.Framing == wire.WebSocket:
		op := ws.OpBinary
		if l.enc.Codec == wire.JSON {
			op = ws.OpText
		}
		l.maskedLocked(op, b)
	case l.enc.Codec == wire.JSON:
		l.out.Write(b)
		l.out.WriteByte('\n')
	default:
		l.out.Write(binary.BigEndian.AppendUint32(nil, uint32(len(b))))
		l.out.Write(b)
	}
}

func (l *link) flushLocked() error {
	_ = l.conn.SetWriteDeadline(time.Now().Add(writeTimeout)) // a socket that takes none shows in the write
	_, err := l.conn.Write(l.out.Bytes())
	return err
}

// maskedLocked puts one whole WebSocket frame as a client sends it into out.
func (l *link) maskedLocked(op ws.OpCode, b []byte) {
	_ = ws.WriteFrame(&l.out, ws.MaskFrame(ws.NewFrame(op, true, b))) // memory takes it
}

// goodbye sends a close frame, if the socket still takes it.
func (l *link) goodbye() {
	if l.enc.Framing != wire.WebSocket || !l.mu.TryLock() { // a write that hangs is not waited for
		return
	}
	defer l.mu.Unlock()
	l.out.Reset()
	l.maskedLocked(ws.OpClose, ws.NewCloseFrameBody(ws.StatusNormalClosure, ""))
	_ = l.conn.SetWriteDeadline(time.Now().Add(time.Second)) // shorter than flushLocked's: nothing depends on it
	_, _ = l.conn.Write(l.out.Bytes())                       // the socket is closed next
}

// read reads the next frame, and returns a *Closed for a close frame. It waits at most silence (0: for ever).
func (l *link) read(f *petrelv1.ServerFrame, silence time.Duration) error {
	var t time.Time
	if silence > 0 {
		t = time.Now().Add(silence)
	}
	if err := l.conn.SetReadDeadline(t); err != nil {
		return err
	}
	b, err := l.readRaw()
	if err != nil {
		return err
	}
	if l.enc.Codec == wire.JSON {
		err = (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(b, f)
	} else {
		err = f.UnmarshalVT(b)
	}
	if err != nil {
		return fmt.Errorf("read frame of %d bytes: %w", len(b), err)
	}
	return nil
}

func (l *link) readRaw() ([]byte, error) {
	switch {
	case l.enc.Framing == wire.WebSocket:
		return l.readWebSocket()
	case l.enc.Codec == wire.JSON:
		return l.readLine()
	}
	var n [4]byte
	if _, err := io.ReadFull(l.br, n[:]); err != nil {
		return nil, err
	}
	return readPayload(l.br, int64(binary.BigEndian.Uint32(n[:])))
}

func (l *link) readLine() ([]byte, error) {
	var line []byte
	for {
		b, err := l.br.ReadSlice('\n')
		line = append(line, b...)
		if err != bufio.ErrBufferFull {
			return line, err
		}
		if len(line) > maxFrameBytes {
			return nil, fmt.Errorf("read frame: over %d bytes", maxFrameBytes)
		}
	}
}

// readWebSocket reads one message, answering the pings of the transport.
func (l *link) readWebSocket() ([]byte, error) {
	var message []byte
	for {
		h, err := ws.ReadHeader(l.br)
		if err != nil {
			return nil, err
		}
		b, err := readPayload(l.br, h.Length)
		if err != nil {
			return nil, err
		}
		switch h.OpCode {
		case ws.OpClose:
			code, reason := ws.ParseCloseFrameData(b)
			return nil, &Closed{Code: int(code), Reason: reason}
		case ws.OpPing:
			l.mu.Lock()
			l.out.Reset()
			l.maskedLocked(ws.OpPong, b)
			_ = l.flushLocked() // a broken socket shows at the next read
			l.mu.Unlock()
			continue
		case ws.OpPong:
			continue
		}
		if message = append(message, b...); len(message) > maxFrameBytes {
			return nil, fmt.Errorf("read frame: over %d bytes", maxFrameBytes)
		}
		if h.Fin {
			return message, nil
		}
	}
}

func readPayload(r io.Reader, n int64) ([]byte, error) {
	if n < 0 || n > maxFrameBytes {
		return nil, fmt.Errorf("read frame: %d bytes are more than %d", n, maxFrameBytes)
	}
	b := make([]byte, n)
	_, err := io.ReadFull(r, b)
	return b, err
}
