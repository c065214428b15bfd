package bench

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gobwas/ws"

	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// greeted is a connection that has been welcomed and has synced.
type greeted struct {
	fd      int // non-blocking; the caller closes it
	welcome *petrelv1.Welcome
	token   []byte
	convs   []*petrelv1.ConvState
	early   []byte        // frames that the server sent besides its answers, and the beginning of a further one
	began   time.Time     // of the dial
	took    time.Duration // from the dial to the sync page
}

const (
	dialers     = 32
	dialTimeout = 30 * time.Second // for one connection, from the dial to the sync page
)

// dialer makes connections to servers.
type dialer struct {
	e            wire.Encoding
	capabilities []string
	every        time.Duration // least time from the start of one dial to that of the next
	atOnce       int
	tls          *tls.Config // nil: in the clear
	bridges      *bridges    // with TLS

	net     *sockets
	sources uint64        // loopback addresses from which to connect in turn; 0, 1: the system chooses
	dialed  atomic.Uint64 // connections so far
}

// portsOfSource is about how many connections come from one address. An address has about 60,000 ports for each
// address of a server.
const portsOfSource = 20_000

// source returns the address from which the next connection to addr comes; nil: the system chooses.
func (d *dialer) source(addr string) net.Addr {
	if d.sources < 2 || !strings.HasPrefix(addr, "127.") {
		return nil
	}
	n := d.dialed.Add(1) % d.sources
	return &net.TCPAddr{IP: net.IPv4(127, 0, 1+byte(n>>8), byte(n))}
}

// dialAll makes a connection for each token, atOnce at a time: connection i goes to addr(i). After each it calls
// done with the number made so far. If one fails, it closes the others.
func (d *dialer) dialAll(ctx context.Context, addr func(i int) string, tokens []string,
	done func(n int)) ([]greeted, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	all := make([]greeted, len(tokens))
	next := make(chan int)
	var wg sync.WaitGroup
	var mu sync.Mutex // tier 0; guards finished, and makes calls of done follow each other
	finished := 0
	for range d.atOnce {
		wg.Go(func() {
			for i := range next {
				g, err := d.dial(ctx, addr(i), tokens[i], fmt.Sprintf("bench-%d", i), nil)
				if err != nil {
					cancel(fmt.Errorf("connection %d: %w", i, err))
					continue
				}
				all[i] = g
				mu.Lock()
				finished++
				done(finished)
				mu.Unlock()
			}
		})
	}
	began := time.Now()
	for i := range tokens {
		all[i].fd = -1
		if d.every > 0 {
			select {
			case <-time.After(time.Until(began.Add(time.Duration(i) * d.every))):
			case <-ctx.Done():
			}
		}
		if ctx.Err() == nil {
			next <- i
		}
	}
	close(next)
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		for _, g := range all {
			if g.fd >= 0 {
				d.net.close(g.fd)
			}
		}
		return nil, err
	}
	return all, nil
}

// dial connects, says hello, and syncs from the sync token since; nil: from the beginning.
func (d *dialer) dial(ctx context.Context, addr, token, device string, since []byte) (g greeted, err error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	plain := net.Dialer{KeepAlive: -1, LocalAddr: d.source(addr)} // the protocol has its own keep-alive
	var nc net.Conn
	if d.tls == nil {
		nc, err = d.net.dial(ctx, &plain, addr)
	} else {
		nc, err = (&tls.Dialer{NetDialer: &plain, Config: d.tls}).DialContext(ctx, "tcp", addr)
	}
	if err != nil {
		return greeted{}, fmt.Errorf("connect: %w", err)
	}
	bridged := false
	defer func() {
		if !bridged {
			_ = nc.Close() // the generator has a duplicate of the socket
		}
	}()
	stop := context.AfterFunc(ctx, func() { _ = nc.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	p := &talk{nc: nc, e: d.e}
	if d.e.Framing == wire.WebSocket {
		if err := p.upgrade(addr); err != nil {
			return greeted{}, err
		}
	}
	if g, err = p.greet(token, d.capabilities, device, since); err != nil {
		return greeted{}, err
	}
	g.early, g.began, g.took = append(p.events, p.in...), began, time.Since(began)
	if d.tls != nil {
		if !stop() {
			return greeted{}, context.Cause(ctx)
		}
		if g.fd, err = d.bridges.add(nc); err != nil {
			return greeted{}, err
		}
		bridged = true
		return g, nil
	}
	if g.fd, err = d.net.take(nc); err != nil {
		return greeted{}, fmt.Errorf("take socket: %w", err)
	}
	return g, nil
}

// takeSocket duplicates the socket of c. The caller closes c afterwards.
func takeSocket(c *net.TCPConn) (fd int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return -1, err
	}
	if err2 := raw.Control(func(old uintptr) {
		syscall.ForkLock.RLock() // no child process gets it
		defer syscall.ForkLock.RUnlock()
		if fd, err = syscall.Dup(int(old)); err == nil {
			syscall.CloseOnExec(fd)
		}
	}); err2 != nil {
		return -1, err2
	}
	return fd, err
}

// talk is a connection on which requests and answers alternate.
type talk struct {
	nc net.Conn
	e  wire.Encoding
	in []byte // bytes that were read and are no part of a handled frame

	events []byte // frames that are no answers
}

// upgrade asks for a WebSocket.
func (t *talk) upgrade(host string) error {
	br, _, err := ws.Dialer{}.Upgrade(t.nc, &url.URL{Scheme: "ws", Host: host, Path: "/v1/ws"})
	if err != nil {
		return fmt.Errorf("ask for a WebSocket: %w", err)
	}
	if br != nil { // something came with the answer
		b, _ := br.Peek(br.Buffered()) // never fails: the bytes are there
		t.in = bytes.Clone(b)
		ws.PutReader(br)
	}
	return nil
}

func (t *talk) fill() error {
	var b [4096]byte
	n, err := t.nc.Read(b[:])
	t.in = append(t.in, b[:n]...)
	if n > 0 {
		return nil
	}
	return err
}

// ask sends a frame and waits for the answer.
func (t *talk) ask(f *petrelv1.ClientFrame) (*petrelv1.ServerFrame, error) {
	b, err := appendClientFrame(nil, t.e, f, ws.NewMask())
	if err != nil {
		return nil, err
	}
	if _, err := t.nc.Write(b); err != nil {
		return nil, err
	}
	for {
		content, n, op, err := split(t.e, t.in)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			if err := t.fill(); err != nil {
				return nil, err
			}
			continue
		}
		if op == ws.OpClose {
			return nil, fmt.Errorf("the server closed the connection: %q", content)
		}
		s, err := decodeServerFrame(t.e.Codec, content)
		if err != nil {
			return nil, err
		}
		if s.Id == 0 && s.GetKick() == nil { // events can come before the answer. P-6.3
			t.events = append(t.events, t.in[:n]...)
		}
		t.in = append([]byte(nil), t.in[n:]...)
		if k := s.GetKick(); k != nil {
			return nil, fmt.Errorf("kicked: %s: %s", k.Code, k.Message)
		}
		if s.Id != f.Id {
			continue
		}
		if e := s.GetError(); e != nil {
			return nil, fmt.Errorf("%s: %s", e.Code, e.Message)
		}
		return s, nil
	}
}

// greet says hello and syncs all pages.
func (t *talk) greet(token string, capabilities []string, device string, since []byte) (g greeted, err error) {
	g.token = since
	answer, err := t.ask(&petrelv1.ClientFrame{Id: 1, Body: &petrelv1.ClientFrame_Hello{Hello: &petrelv1.Hello{
		VersionMin: 1, VersionMax: 1, Token: token, Device: device, DeviceKind: "bench", Client: "petrel bench",
		Capabilities: capabilities,
	}}})
	if err != nil {
		return g, fmt.Errorf("say hello: %w", err)
	}
	if g.welcome = answer.GetWelcome(); g.welcome == nil {
		return g, errors.New("say hello: the answer is no welcome")
	}
	for id := uint64(2); ; id++ {
		answer, err := t.ask(&petrelv1.ClientFrame{Id: id,
			Body: &petrelv1.ClientFrame_Sync{Sync: &petrelv1.Sync{Token: g.token}}})
		if err != nil {
			return g, fmt.Errorf("sync: %w", err)
		}
		page := answer.GetSync()
		if page == nil {
			return g, errors.New("sync: the answer is no sync page")
		}
		g.token = page.Token
		g.convs = append(g.convs, page.Convs...)
		if !page.More {
			return g, nil
		}
	}
}
