package passenger

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
	"github.com/petrel-im/petrel/test/crowd"
)

// Link is a TCP proxy in front of a server. It counts the frames of the WebSocket connections through it, and can
// be slow. It ends with the test.
type Link struct {
	Addr string // host:port, where clients connect

	t    *testing.T
	to   string
	rate int // bits per second in each direction; 0: as fast as it goes

	mu     sync.Mutex // tier 0; guards the fields below
	conns  []net.Conn
	frames [2]map[string]int // that clients, and the server, have sent, by kind
}

// Frames counts frames by kind: "ping", "pong", "send", …
type Frames map[string]int

const (
	fromClient = iota
	fromServer
)

const (
	// A slow link buffers little, so that bytes wait at the client that has written them.
	slowBuffer = 4 << 10 // bytes
	slowStep   = 20      // parts of a second in which a slow link passes bytes on
	fastBuffer = 64 << 10
)

// NewLink starts a link to a server at host:port.
func NewLink(t *testing.T, to string, rate int) *Link {
	t.Helper()
	listen := net.ListenConfig{}
	if rate > 0 { // connections get the buffer of their listener
		listen.Control = func(_, _ string, c syscall.RawConn) error {
			var refused error
			err := c.Control(func(fd uintptr) {
				refused = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, slowBuffer)
			})
			return errors.Join(err, refused)
		}
	}
	l, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	k := &Link{Addr: l.Addr().String(), t: t, to: to, rate: rate}
	k.Forget()
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // it is closed
			}
			running.Go(func() { k.serve(ctx, conn) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close() // nobody connects any more
		stop()
		k.mu.Lock()
		for _, c := range k.conns {
			_ = c.Close() // the same
		}
		k.mu.Unlock()
		running.Wait()
	})
	return k
}

// Sent returns the frames that clients have sent since the last Forget, and those that the server has sent.
func (k *Link) Sent() (client, server Frames) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Clone(k.frames[fromClient]), maps.Clone(k.frames[fromServer])
}

// Forget sets the counts to 0.
func (k *Link) Forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.frames = [2]map[string]int{{}, {}}
}

func (k *Link) serve(ctx context.Context, client net.Conn) {
	server, err := (&net.Dialer{}).DialContext(ctx, "tcp", k.to)
	if err != nil {
		_ = client.Close() // it has no server
		return
	}
	k.mu.Lock()
	k.conns = append(k.conns, client, server)
	k.mu.Unlock()
	var back sync.WaitGroup
	back.Go(func() { k.carry(ctx, client, server, fromServer) })
	k.carry(ctx, server, client, fromClient)
	back.Wait()
}

// carry passes bytes on in one direction, until one of the connections ends, and ends both.
func (k *Link) carry(ctx context.Context, to, from net.Conn, direction int) {
	defer func() { _, _ = to.Close(), from.Close() }() // the end of one connection ends the other
	size := fastBuffer
	if k.rate > 0 {
		size = k.rate / 8 / slowStep
		if c, ok := to.(*net.TCPConn); ok {
			_ = c.SetWriteBuffer(slowBuffer) // otherwise the kernel buffers more
		}
	}
	seen, b := &frameReader{count: func(opcode byte, payload []byte) { k.count(direction, opcode, payload) }},
		make([]byte, size)
	free := time.Now() // when the link will have passed on all bytes so far
	for {
		idle := k.rate > 0 && !waits(from)
		n, err := from.Read(b)
		if err != nil {
			return
		}
		seen.read(b[:n])
		if k.rate > 0 {
			if idle {
				free = later(free, time.Now())
			}
			free = free.Add(time.Duration(n) * 8 * time.Second / time.Duration(k.rate))
			crowd.Wait(ctx, time.Until(free))
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}

// waits reports whether bytes wait to be read. While they do, the link is busy. So the time in which the machine
// stands still counts as busy, and the link catches up afterwards and keeps its rate.
func waits(from net.Conn) bool {
	c, ok := from.(*net.TCPConn)
	if !ok {
		return false
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	n := 0
	err = raw.Read(func(fd uintptr) bool {
		n, _, _ = syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return true
	})
	return err == nil && n > 0
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (k *Link) count(direction int, opcode byte, payload []byte) {
	kind := kindOf(direction, opcode, payload)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.frames[direction][kind]++
}

// Opcodes of WebSocket.
const (
	opText   = 1
	opBinary = 2
)

// kindOf returns the kind of a frame: the name of its body's field. For frames of WebSocket itself, and for
// payloads that are no frames of the protocol, it is the number of the opcode.
func kindOf(direction int, opcode byte, payload []byte) string {
	var m proto.Message = &petrelv1.ClientFrame{}
	if direction == fromServer {
		m = &petrelv1.ServerFrame{}
	}
	err := errors.New("no frame of the protocol")
	switch opcode {
	case opText:
		err = protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(payload, m)
	case opBinary:
		err = proto.Unmarshal(payload, m)
	}
	if err == nil {
		if body := m.ProtoReflect().WhichOneof(m.ProtoReflect().Descriptor().Oneofs().Get(0)); body != nil {
			return string(body.Name())
		}
	}
	return fmt.Sprintf("opcode %d", opcode)
}

// frameReader divides the bytes of one direction of a WebSocket connection into frames. It does not know
// fragmented frames: nobody sends such frames here.
type frameReader struct {
	count    func(opcode byte, payload []byte)
	upgraded bool // the header of HTTP is over
	held     []byte
}

func (r *frameReader) read(b []byte) {
	r.held = append(r.held, b...)
	if !r.upgraded {
		_, rest, ok := bytes.Cut(r.held, []byte("\r\n\r\n"))
		if !ok {
			return
		}
		r.held, r.upgraded = rest, true
	}
	for r.cut() {
	}
}

// cut removes the first frame from held and counts it. It returns false if held has no whole frame. RFC 6455,
// section 5.2.
func (r *frameReader) cut() bool {
	b := r.held
	if len(b) < 14 && (len(b) < 2 || len(b) < headerSize(b[1])) {
		return false
	}
	size, at := int(b[1]&0x7f), 2
	switch size {
	case 126:
		size, at = int(binary.BigEndian.Uint16(b[2:])), 4
	case 127:
		size, at = int(binary.BigEndian.Uint64(b[2:])), 10
	}
	var mask []byte
	if b[1]&0x80 != 0 {
		mask = b[at : at+4]
		at += 4
	}
	if len(b) < at+size {
		return false
	}
	payload := bytes.Clone(b[at : at+size])
	for i := range payload {
		if mask != nil {
			payload[i] ^= mask[i%4]
		}
	}
	r.count(b[0]&0x0f, payload)
	r.held = b[at+size:]
	return true
}

// headerSize returns the length of the header of a frame whose second byte is b.
func headerSize(b byte) int {
	n := 2
	switch b & 0x7f {
	case 126:
		n += 2
	case 127:
		n += 8
	}
	if b&0x80 != 0 {
		n += 4
	}
	return n
}

// String lists the kinds in the order of the alphabet.
func (f Frames) String() string {
	return strings.TrimSuffix(strings.TrimPrefix(fmt.Sprint(map[string]int(f)), "map["), "]")
}
