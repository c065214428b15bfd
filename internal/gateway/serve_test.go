package gateway

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/inbox"
	"github.com/petrel-im/petrel/internal/measure"
	"github.com/petrel-im/petrel/internal/route"
	"github.com/petrel-im/petrel/internal/session"
	"github.com/petrel-im/petrel/internal/store/pebblestore"
	"github.com/petrel-im/petrel/internal/user"
	"github.com/petrel-im/petrel/internal/wire"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, // gnet makes a pool of goroutines when it is imported
		goleak.IgnoreAnyFunction("github.com/panjf2000/ants/v2.(*poolCommon).purgeStaleWorkers"),
		goleak.IgnoreAnyFunction("github.com/panjf2000/ants/v2.(*poolCommon).ticktock"))
}

// server is a gateway with real sessions behind it, on a store in memory.
type server struct {
	*Gateway
	t     *testing.T
	hub   *session.Hub
	table *fanout.Table
	users *user.Users
	token string // of alice
	tls   *tls.Config
	logs  *logBuffer
	// panics: the test wants one
	panics bool
	// narrowPeers: the kernel holds little for the peers that connect from now on
	narrowPeers bool
	stop        context.CancelFunc
	ended       chan error // capacity 1
	over        bool       // ended was received from
}

// noLimits lets a test do what it wants from one address.
func noLimits() session.Limits {
	return session.Limits{
		Connections: -1, ConnectionsPerUser: -1, ConnectionsPerIP: -1, NewPerIPPerSecond: -1, Unauthenticated: -1, UnauthenticatedPerIP: -1,
		SendsPerSecond: -1, SendBurst: -1, WindowSends: 64, WindowBytes: 256 << 10, OutboxBytes: 256 << 10,
		FrameBytesBeforeHello: 4 << 10, BodyBytes: 48 << 10, HistoryMessages: 200,
	}
}

func serve(t *testing.T, o Options, l session.Limits) *server {
	t.Helper()
	o.HTTPAddr, o.TCPAddr = "127.0.0.1:0", "127.0.0.1:0"
	return serveAt(t, o, l)
}

// serveAt serves on the addresses that o names. Without any the server fits into a bubble.
func serveAt(t *testing.T, o Options, l session.Limits) *server {
	t.Helper()
	s := &server{t: t, logs: &logBuffer{}, ended: make(chan error, 1)}
	o.Log = slog.New(slog.NewTextHandler(s.logs, &slog.HandlerOptions{Level: slog.LevelInfo}))
	st, err := pebblestore.Open(pebblestore.Options{Dir: "data", FS: vfs.NewMem(), MinFreeBytes: -1, BallastBytes: -1, CacheBytes: 8 << 20, MemTableBytes: 1 << 20})
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.users, err = user.New(ctx, user.Options{}, st)
	must(t, err)
	s.table = fanout.NewTable()
	convs, err := conv.New(ctx, conv.Options{LookUp: s.users.LookUp}, st, s.table)
	must(t, err)
	router := route.New(route.Options{}, convs, st)
	s.hub = session.New(session.Options{IDs: convs.IDs(), Heartbeat: o.Heartbeat, Misses: o.Misses}, s.users, convs, router, &inbox.Syncer{Router: router, Store: st}, s.table, l)
	s.token = s.newUsers("alice")[0]
	s.Gateway, err = New(o, s.hub)
	must(t, err)
	s.Gateway.refusals.time = eventually.Limit // a handshake may take as long as the machine needs
	behind, stopBehind := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = convs.Run(behind) })
	wg.Go(func() { _ = s.hub.Run(behind) })
	go func() { s.ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		s.shutdown()
		stopBehind()
		wg.Wait()
		must(t, st.Close())
		if total, waiting := s.limits.counts(); total != 0 || waiting != 0 {
			t.Errorf("at the end %d connections are counted, %d of them not greeted", total, waiting)
		}
		if n := s.hub.Sessions.Load(); n != 0 {
			t.Errorf("at the end %d sessions are left", n)
		}
		if text := s.logs.String(); t.Failed() || strings.Contains(text, "panicked") && !s.panics {
			t.Errorf("the log: %s", text)
		}
	})
	return s
}

// unread is how many bytes wait for alice's connections.
func (s *server) unread() (n int) {
	for _, o := range s.table.Of(im.Account{Tenant: im.DefaultTenant, User: "alice"}) {
		n += o.Pending()
	}
	return n
}

// narrow makes the kernel hold little for the server's connections from now on,
// so that a peer that does not read is soon noticed.
func (s *server) narrow() {
	for _, ln := range []net.Listener{s.http, s.tcp} {
		rc, err := ln.(*resettingListener).SyscallConn()
		must(s.t, err)
		var bad error
		must(s.t, rc.Control(func(fd uintptr) {
			bad = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_SNDBUF, 16<<10) // inherited by what is accepted
		}))
		must(s.t, bad)
	}
}

// shutdown ends the gateway, once.
func (s *server) shutdown() {
	s.stop()
	if s.over {
		return
	}
	must(s.t, eventually.Receive(s.t, "the gateway ends", s.ended))
	s.over = true
}

func (s *server) newUsers(names ...im.User) []string {
	issued, err := s.users.Create(context.Background(), "", names)
	must(s.t, err)
	var tokens []string
	for _, i := range issued {
		tokens = append(tokens, i.Token)
	}
	return tokens
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

type logBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// peer is a client that can do everything wrong.
type peer struct {
	t  testing.TB
	nc net.Conn
	r  *bufio.Reader
	fr wire.Framing
}

// dial connects and, on WebSocket, upgrades; more is sent in the same packet as
// the request.
func (s *server) dial(fr wire.Framing, more ...byte) *peer {
	s.t.Helper()
	p := s.connect(fr)
	if fr == wire.WebSocket {
		p.write(append([]byte(upgradeRequest), more...))
		if status := p.readResponse(); status != 101 {
			s.t.Fatalf("the upgrade ends with %d", status)
		}
	} else if len(more) > 0 {
		p.write(more)
	}
	return p
}

const upgradeRequest = "GET /v1/ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"

// connect makes the socket only.
func (s *server) connect(fr wire.Framing) *peer {
	s.t.Helper()
	addr := s.HTTPAddr()
	if fr == wire.TCP {
		addr = s.TCPAddr()
	}
	var d net.Dialer
	if s.narrowPeers {
		d.Control = func(_, _ string, rc syscall.RawConn) error {
			var bad error
			err := rc.Control(func(fd uintptr) {
				bad = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4<<10)
			})
			return errors.Join(err, bad)
		}
	}
	nc, err := d.Dial("tcp", addr.String())
	must(s.t, err)
	must(s.t, nc.SetDeadline(eventually.Deadline()))
	if s.tls != nil {
		c := tls.Client(nc, s.tls)
		must(s.t, c.Handshake())
		nc = c
	}
	s.t.Cleanup(func() { _ = nc.Close() })
	return &peer{t: s.t, nc: nc, r: bufio.NewReader(nc), fr: fr}
}

// readResponse reads an HTTP response's head and returns its status.
func (p *peer) readResponse() (status int) {
	p.t.Helper()
	for {
		line, err := p.r.ReadString('\n')
		if err != nil {
			p.t.Fatalf("read a response: %v", err)
		}
		if line == "\r\n" {
			return status
		}
		if status == 0 {
			_, _ = fmt.Sscanf(line, "HTTP/1.1 %d", &status)
		}
	}
}

func (p *peer) write(b []byte) {
	p.t.Helper()
	_, err := p.nc.Write(b)
	must(p.t, err)
}

// say sends a JSON frame.
func (p *peer) say(json string) {
	p.t.Helper()
	if p.fr == wire.TCP {
		p.write([]byte(json + "\n"))
		return
	}
	p.write(masked(text, json))
}

// message is what the server sends: on TCP a line or length frame counts as
// text or binary.
type message struct {
	op      byte
	payload string
}

// read reads one message; an error is the end of the connection.
func (p *peer) read() (message, error) {
	if p.fr == wire.TCP {
		first, err := p.r.Peek(1)
		if err != nil {
			return message{}, err
		}
		if first[0] == '{' {
			line, err := p.r.ReadString('\n')
			return message{opText, strings.TrimSuffix(line, "\n")}, err
		}
		var head [4]byte
		if _, err := io.ReadFull(p.r, head[:]); err != nil {
			return message{}, err
		}
		return p.body(opBinary, uint64(binary.BigEndian.Uint32(head[:])))
	}
	var head [8]byte
	if _, err := io.ReadFull(p.r, head[:2]); err != nil {
		return message{}, err
	}
	op, n := head[0], uint64(head[1])
	if op&fin == 0 || op&0x70 != 0 || n > 127 {
		p.t.Fatalf("the server sent a frame that begins with % x", head[:2])
	}
	switch n {
	case 126:
		if _, err := io.ReadFull(p.r, head[:2]); err != nil {
			return message{}, err
		}
		n = uint64(binary.BigEndian.Uint16(head[:]))
	case 127:
		if _, err := io.ReadFull(p.r, head[:8]); err != nil {
			return message{}, err
		}
		n = binary.BigEndian.Uint64(head[:])
	}
	return p.body(op&0xF, n)
}

func (p *peer) body(op byte, n uint64) (message, error) {
	b := make([]byte, n)
	_, err := io.ReadFull(p.r, b)
	return message{op, string(b)}, err
}

// hear reads one message that has to contain a text; spaces do not count, the
// JSON library sets them at random.
func (p *peer) hear(part string) message {
	p.t.Helper()
	m, err := p.read()
	if err != nil || !strings.Contains(strings.ReplaceAll(m.payload, " ", ""), part) {
		p.t.Fatalf("got %d %.300q, %v; want a message with %q", m.op, m.payload, err, part)
	}
	return m
}

// hello logs in with JSON.
func (p *peer) hello(token string) {
	p.t.Helper()
	p.say(`{"id":"1","hello":{"versionMin":1,"versionMax":1,"device":"d","token":"` + token + `"}}`)
	p.hear(`"welcome"`)
}

// end reads to the end and checks that it is the one of a code: a kick (or the
// error that answers a hello) and the close code.
func (p *peer) end(code im.Code, closeCode int) {
	p.t.Helper()
	told := false
	for {
		m, err := p.read()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				p.t.Fatalf("the end for %s: %v", code, err)
			}
			break
		}
		if m.op == opClose {
			want := string(appendClose(nil, closeCode, string(code))[2:])
			if m.payload != want {
				p.t.Fatalf("the connection closed with %q, want %q", m.payload, want)
			}
			if !told {
				p.t.Fatalf("the connection closed without a word before")
			}
			if _, err := p.read(); !errors.Is(err, io.EOF) {
				p.t.Fatalf("behind the close frame: %v, want EOF", err)
			}
			return
		}
		told = told || strings.Contains(m.payload, string(code))
	}
	if p.fr == wire.WebSocket || !told {
		p.t.Fatalf("the connection ended without %s", code)
	}
}

// gone reads until the connection is over, however.
func (p *peer) gone() {
	p.t.Helper()
	for {
		if _, err := p.read(); err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				p.t.Fatal("the connection stays")
			}
			return
		}
	}
}

// withTLS makes a certificate for o and returns what a client needs.
func withTLS(t *testing.T, o *Options) *tls.Config {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	o.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	return &tls.Config{RootCAs: roots, ServerName: "127.0.0.1"}
}

// counted is how often a name was counted; "": all names together.
func counted[T ~string](c *measure.Counts, name T) (count uint64) {
	c.Each(func(other string, n uint64) {
		if name == "" || other == string(name) {
			count += n
		}
	})
	return count
}
