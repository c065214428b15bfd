package flood

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// strangerEnv is set in the process of the strangers, and says what they do.
const strangerEnv = "PETREL_FLOOD_KIND"

// addresses of the loopback are shared by the strangers.
const addresses = 100

// flood is what one connection does until it ends. It counts what it writes.
type flood func(f *crowd, c net.Conn, tcp bool)

// floods by their names; with none the strangers are there and do nothing.
var floods = map[string]flood{
	"half-open":   (*crowd).sayNothing,
	"byte-a-time": (*crowd).sayLittle,
	"resets":      (*crowd).reset,
	"controls":    (*crowd).control,
	"calls":       (*crowd).call, // of users, as the next one
	"large calls": (*crowd).ask,
}

// busyCore strangers do not touch the server: they keep their core busy. Their cost for the
// others is the part of each flood that would be missing if the strangers were on another
// machine.
const busyCore = "busy core"

func kinds() []string { return append([]string{busyCore}, slices.Sorted(maps.Keys(floods))...) }

// crowd is the strangers.
type crowd struct {
	ctx    context.Context
	do     flood
	http   string // addresses of the server
	tcp    string
	opened atomic.Int64
	failed atomic.Int64
	wrote  atomic.Int64 // frames; of those who say little, bytes
}

// strangerChild is the process of the strangers, which does not return. It lasts until its
// standard input ends.
func strangerChild() {
	kind, ok := os.LookupEnv(strangerEnv)
	if !ok {
		return
	}
	n, err := strconv.Atoi(os.Getenv("PETREL_FLOOD_CONNECTIONS"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if most, ok := ofUsers[kind]; ok {
		n = min(n, most)
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	f := &crowd{ctx: ctx, do: floods[kind], http: os.Getenv("PETREL_FLOOD_HTTP"), tcp: os.Getenv("PETREL_FLOOD_TCP")}
	fmt.Println("begun") //nolint:forbidigo // what the parent waits for
	for kind == busyCore && ctx.Err() == nil {
		runtime.Gosched() // the goroutine that reads standard input needs the core too
	}
	if f.do == nil {
		<-ctx.Done()
		os.Exit(0)
	}
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { f.live(i) })
	}
	all.Wait()
	fmt.Printf("opened=%d refused=%d written=%d\n", f.opened.Load(), f.failed.Load(), f.wrote.Load())
	os.Exit(0)
}

// live has one connection, and another one when it ends.
func (f *crowd) live(i int) {
	d := net.Dialer{Timeout: 10 * time.Second, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 1, 0, byte(1+i%addresses))}}
	tcp := i%2 == 1
	addr := f.http
	if tcp {
		addr = f.tcp
	}
	for f.ctx.Err() == nil {
		c, err := d.DialContext(f.ctx, "tcp", addr)
		if err != nil {
			f.failed.Add(1)
			f.pause(100 * time.Millisecond)
			continue
		}
		f.opened.Add(1)
		stop := context.AfterFunc(f.ctx, func() { _ = c.Close() })
		f.do(f, c, tcp)
		stop()
		_ = c.Close() // the server may have closed it
		f.pause(10 * time.Millisecond)
	}
}

func (f *crowd) pause(d time.Duration) {
	select {
	case <-f.ctx.Done():
	case <-time.After(d):
	}
}

// write counts one frame; false: the connection has ended.
func (f *crowd) write(c net.Conn, b []byte) bool {
	_, err := c.Write(b)
	if err == nil {
		f.wrote.Add(1)
	}
	return err == nil
}

func (f *crowd) sayNothing(c net.Conn, tcp bool) {
	if !tcp && !f.write(c, []byte("GET /v1/ws HTTP/1.1\r\nHost: 127.0.0.1\r\n")) {
		return
	}
	_, _ = io.Copy(io.Discard, c) // until the server ends it
}

// sayLittle writes a byte a second: a header that does not end, or a frame of 4,000 bytes.
func (f *crowd) sayLittle(c net.Conn, tcp bool) {
	text := "POST /petrel.v1.AccountService/Login HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: " + strings.Repeat("a", 4000)
	if tcp {
		text = "\x00\x00\x0f\xa0" + strings.Repeat("a", 4000)
	}
	for i := range len(text) {
		if !f.write(c, []byte(text[i:i+1])) || f.ended(c) {
			return
		}
	}
}

// ended waits for a second, or for the end of the connection.
func (f *crowd) ended(c net.Conn) bool {
	_ = c.SetReadDeadline(time.Now().Add(time.Second))
	for {
		if _, err := c.Read(make([]byte, 256)); err != nil {
			ne, ok := err.(net.Error) //nolint:errorlint // of net itself
			return !ok || !ne.Timeout()
		}
	}
}

// reset begins requests and takes them back at once (HTTP/2), or has a connection end with
// a reset, again and again.
func (f *crowd) reset(c net.Conn, tcp bool) {
	if tcp {
		if f.write(c, []byte{0}) {
			_ = c.(*net.TCPConn).SetLinger(0)
		}
		return
	}
	go func() { _, _ = io.Copy(io.Discard, c) }()
	b := &bytes.Buffer{}
	fr := http2.NewFramer(b, nil)
	b.WriteString(http2.ClientPreface)
	_ = fr.WriteSettings()
	var head bytes.Buffer
	h := hpack.NewEncoder(&head)
	for _, field := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":authority", "127.0.0.1"}, {":path", "/petrel.v1.AccountService/Login"}} {
		_ = h.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]})
	}
	for id := uint32(1); ; id += 2 {
		_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: head.Bytes(), EndHeaders: true})
		_ = fr.WriteRSTStream(id, http2.ErrCodeCancel)
		if !f.write(c, b.Bytes()) {
			return
		}
		b.Reset()
		head.Reset() // indexed from the second time on
		_ = h.WriteField(hpack.HeaderField{Name: ":method", Value: "POST"})
		_ = h.WriteField(hpack.HeaderField{Name: ":scheme", Value: "http"})
		_ = h.WriteField(hpack.HeaderField{Name: ":authority", Value: "127.0.0.1"})
		_ = h.WriteField(hpack.HeaderField{Name: ":path", Value: "/petrel.v1.AccountService/Login"})
	}
}

// control writes pings and settings (HTTP/2), pings of a WebSocket, or frames that are no
// hello, without reading what comes back.
func (f *crowd) control(c net.Conn, tcp bool) {
	switch {
	case tcp:
		empty := binary.BigEndian.AppendUint32(nil, 0)
		for f.write(c, empty) {
		}
	case f.opened.Load()%2 == 0:
		b := &bytes.Buffer{}
		fr := http2.NewFramer(b, nil)
		b.WriteString(http2.ClientPreface)
		for {
			_ = fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 16})
			for range 16 {
				_ = fr.WritePing(false, [8]byte{1})
			}
			if !f.write(c, b.Bytes()) {
				return
			}
			b.Reset()
		}
	default:
		if !f.write(c, []byte("GET /v1/ws HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: petrel.v1.proto\r\n\r\n")) {
			return
		}
		r := bufio.NewReader(c)
		if line, err := r.ReadString('\n'); err != nil || !strings.Contains(line, "101") {
			return
		}
		ping := slices.Concat([]byte{0x89, 0x80 | 125, 0, 0, 0, 0}, make([]byte, 125))
		for f.write(c, ping) {
		}
	}
}

// stringWriter keeps what the process prints.
type stringWriter struct {
	mu    sync.Mutex
	b     strings.Builder
	first chan struct{} // closed at the first line
}

func (w *stringWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.b.Len() == 0 {
		close(w.first)
	}
	return w.b.Write(p)
}

func (w *stringWriter) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, after, _ := strings.Cut(w.b.String(), "\n")
	return strings.TrimSpace(after)
}
