package gateway

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/wire"
)

// proxyHeader is what a proxy sends for a client; extra follows the addresses.
func proxyHeader(client string, extra ...byte) []byte {
	a := netip.MustParseAddrPort(client)
	size, family := 4, byte(proxyTCP4)
	if a.Addr().Is6() {
		size, family = 16, proxyTCP6
	}
	addresses := append(a.Addr().AsSlice(), make([]byte, size)...)
	addresses = append(addresses, byte(a.Port()>>8), byte(a.Port()), 0, 0)
	addresses = append(addresses, extra...)
	b := append([]byte(proxySignature), proxyForClient, family, byte(len(addresses)>>8), byte(len(addresses)))
	return append(b, addresses...)
}

func TestProxyHeaderIsReadAndNothingBehindIt(t *testing.T) {
	local := append([]byte(proxySignature), proxyLocal, 0, 0, 0)
	other := append([]byte(proxySignature), proxyForClient, 0x31, 0, 3, 1, 2, 3) // a socket of a file
	for _, c := range []struct {
		name string
		b    []byte
		want string // the client; "": none
		bad  bool
	}{
		{"IPv4", proxyHeader("198.51.100.1:4711"), "198.51.100.1:4711", false},
		{"IPv6", proxyHeader("[2001:db8::5]:1"), "[2001:db8::5]:1", false},
		{"IPv4 in IPv6", proxyHeader("[::ffff:198.51.100.1]:1"), "198.51.100.1:1", false},
		{"more than addresses", proxyHeader("198.51.100.1:1", 3, 0, 4, 1, 2, 3, 4), "198.51.100.1:1", false},
		{"the proxy itself", local, "", false},
		{"another family", other, "", false},
		{"version 1", []byte("PROXY TCP4 198.51.100.1 192.0.2.1 1 2\r\n"), "", true},
		{"another version", append([]byte(proxySignature), 0x31, proxyTCP4, 0, 0), "", true},
		{"addresses that are cut", append([]byte(proxySignature), proxyForClient, proxyTCP4, 0, 4, 1, 2, 3, 4), "", true},
		{"too long", append([]byte(proxySignature), proxyForClient, proxyTCP4, 0xff, 0xff), "", true},
		{"the end", local[:10], "", true},
	} {
		r := bytes.NewReader(append(bytes.Clone(c.b), "behind"...))
		if c.name == "the end" {
			r = bytes.NewReader(c.b)
		}
		client, ok, err := readProxyHeader(r)
		if (err != nil) != c.bad || ok != (c.want != "") || ok && client.String() != c.want {
			t.Errorf("%s: %s, %t, %v; want %q", c.name, client, ok, err, c.want)
		}
		if rest, _ := io.ReadAll(r); !c.bad && string(rest) != "behind" {
			t.Errorf("%s: %q is left to read", c.name, rest)
		}
	}
}

// behindProxy connects as a proxy does for a client.
func (s *server) behindProxy(fr wire.Framing, header []byte) *peer {
	s.t.Helper()
	addr := s.HTTPAddr()
	if fr == wire.TCP {
		addr = s.TCPAddr()
	}
	nc, err := net.Dial("tcp", addr.String())
	must(s.t, err)
	s.t.Cleanup(func() { _ = nc.Close() })
	must(s.t, nc.SetDeadline(eventually.Deadline()))
	_, err = nc.Write(header)
	must(s.t, err)
	p := &peer{t: s.t, nc: nc, fr: fr}
	if s.tls != nil {
		p.nc = tls.Client(nc, s.tls)
	}
	p.r = bufio.NewReader(p.nc)
	return p
}

// Behind a balancer every limit for an address is the client's, on both ports, with
// and without TLS, and the balancer itself has none.
func TestProxyProtocolNamesTheClientOnBothPorts(t *testing.T) {
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("TLS=%t", secure), func(t *testing.T) {
			seen := make(chan string, 1)
			o := Options{
				Names: Access{Proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}, ProxyProtocol: true,
				Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen <- r.RemoteAddr }),
			}
			var client *tls.Config
			if secure {
				client = withTLS(t, &o)
			}
			lim := noLimits()
			lim.ConnectionsPerIP = 1
			s := serve(t, o, lim)
			s.tls = client
			for _, fr := range []wire.Framing{wire.TCP, wire.WebSocket} {
				for i := range 3 {
					p := s.behindProxy(fr, proxyHeader(fmt.Sprintf("198.51.%d.%d:1", fr, i)))
					if fr == wire.WebSocket {
						p.write([]byte(upgradeRequest))
						if status := p.readResponse(); status != 101 {
							t.Fatalf("the upgrade ends with %d", status)
						}
					}
					p.hello(s.token)
				}
			}
			eventually.True(t, "all are greeted", func() bool { return s.Stats().Unauthenticated == 0 })
			second := s.behindProxy(wire.TCP, proxyHeader("198.51.1.0:2"))
			second.end(im.CodeTooManyConnections, 0)
			must(t, second.nc.Close())
			again := s.behindProxy(wire.WebSocket, proxyHeader("198.51.0.1:2"))
			again.write([]byte(strings.Replace(upgradeRequest, "\r\n", "\r\nX-Forwarded-For: 203.0.113.7\r\n", 1))) // its own word
			if status := again.readResponse(); status != 429 {
				t.Errorf("the second upgrade of a client ends with %d, want 429", status)
			}
			call := s.behindProxy(wire.WebSocket, proxyHeader("[2001:db8::7]:99"))
			call.write([]byte("GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n"))
			if status := call.readResponse(); status != 200 {
				t.Errorf("a call ends with %d", status)
			}
			if got := <-seen; got != "[2001:db8::7]:99" {
				t.Errorf("the handler sees %s", got)
			}
			probe := s.behindProxy(wire.WebSocket, append([]byte(proxySignature), proxyLocal, 0, 0, 0))
			probe.write([]byte("GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n"))
			if status := probe.readResponse(); status != 200 {
				t.Errorf("a probe of the balancer ends with %d", status)
			}
			if got := <-seen; !strings.HasPrefix(got, "127.0.0.1:") {
				t.Errorf("of a call for which nobody is named the handler sees %s, want the balancer", got)
			}
			for _, fr := range []wire.Framing{wire.TCP, wire.WebSocket} {
				bare := s.behindProxy(fr, []byte(upgradeRequest))
				if n, err := bare.nc.Read(make([]byte, 1)); n > 0 || err == nil {
					t.Errorf("without the header: %d bytes, %v", n, err)
				}
			}
			s.behindProxy(wire.TCP, []byte(proxySignature)) // stays silent: the end of the server does not wait for it
			s.behindProxy(wire.WebSocket, []byte(proxySignature))
			s.shutdown()
			eventually.True(t, "nothing of the HTTP server is counted", func() bool {
				s.limits.mu.Lock()
				defer s.limits.mu.Unlock()
				return s.limits.all[ofHTTP] == 0 && len(s.limits.sources) == 0
			})
		})
	}
}

// A proxy that stays silent, or that names its client byte by byte, is waited for 5 s in all.
// After the header its client has other limits.
func TestAProxyThatStaysSilentIsWaitedForFiveSeconds(t *testing.T) {
	header := proxyHeader("198.51.100.1:4711")
	for _, c := range []struct {
		what  string
		sends int           // bytes of the header
		every time.Duration // between two of them
		ends  time.Duration
		err   error
	}{
		{"silent", 0, 0, 5 * time.Second, os.ErrDeadlineExceeded},
		{"silent after the signature", len(proxySignature), 0, 5 * time.Second, os.ErrDeadlineExceeded},
		{"byte by byte", len(header), time.Second, 5 * time.Second, os.ErrDeadlineExceeded},
		{"slow", len(header), 100 * time.Millisecond, time.Duration(len(header)) * 100 * time.Millisecond, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			server, proxy := net.Pipe()
			var sending sync.WaitGroup
			defer func() { _ = server.Close(); sending.Wait() }()
			sending.Go(func() {
				for i := range c.sends {
					time.Sleep(c.every)
					if _, err := proxy.Write(header[i : i+1]); err != nil {
						return // the server has ended the connection
					}
				}
			})
			begun := time.Now()
			client, ok, err := awaitProxyHeader(server)
			if took := time.Since(begun); took != c.ends || !errors.Is(err, c.err) || ok != (c.err == nil) {
				t.Errorf("%s: %s, %t, %v after %v; want %v after %v", c.what, client, ok, err, took, c.err, c.ends)
			}
			if c.err != nil {
				return
			}
			time.AfterFunc(time.Minute, func() { _ = proxy.Close() })
			if _, err := server.Read(make([]byte, 1)); !errors.Is(err, io.EOF) || time.Since(begun) != c.ends+time.Minute {
				t.Errorf("%s: afterwards a read ends with %v after %v, want the proxy's end after a minute", c.what, err, time.Since(begun)-c.ends)
			}
		})
	}
}

// From a peer that is no trusted proxy the header is not read: nobody speaks as
// somebody else.
func TestProxyHeaderOfAStrangerIsNotRead(t *testing.T) {
	o := Options{Names: Access{Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}, ProxyProtocol: true}
	g := &Gateway{o: o}
	g.SetAccess(o.Names)
	if g.namesClientFirst(netip.MustParseAddr("127.0.0.1")) {
		t.Fatal("a header is awaited from a peer that is not trusted")
	}
	s := serve(t, o, noLimits())
	s.behindProxy(wire.TCP, proxyHeader("198.51.100.1:1")).end(im.CodeUnknownCodec, 0)
	p := s.behindProxy(wire.WebSocket, append(proxyHeader("198.51.100.1:1"), upgradeRequest...)) // at once: the answer to the header ends the connection
	if status := p.readResponse(); status != 400 {
		t.Errorf("the upgrade ends with %d, want 400", status)
	}
	s.dial(wire.WebSocket).hello(s.token)
}

// Handshakes that wait for their peers take no core, and those that wait for a core
// lose no time.
func TestHandshakesTakeTurns(t *testing.T) {
	var o Options
	o.HelloTimeout = eventually.Limit
	client := withTLS(t, &o)
	s := serve(t, o, noLimits())
	s.tls = client
	for _, fr := range []wire.Framing{wire.TCP, wire.WebSocket} {
		for range 2 * cap(s.turns) {
			s.behindProxy(fr, nil) // TLS, and silent
		}
		s.dial(fr).hello(s.token)
	}
	for range cap(s.turns) {
		s.turns.Begin()
	}
	var given atomic.Bool // the cores are given back
	done := make(chan error, 2)
	for _, fr := range []wire.Framing{wire.TCP, wire.WebSocket} {
		p := s.behindProxy(fr, nil)
		go func() {
			err := p.nc.(*tls.Conn).Handshake()
			if !given.Load() {
				err = errors.Join(err, errors.New("a handshake takes no turn"))
			}
			done <- err
		}()
	}
	eventually.True(t, "both handshakes wait for a turn, or one has ended", func() bool {
		all := make([]byte, 1<<20)
		waiting := 0
		for stack := range strings.SplitSeq(string(all[:runtime.Stack(all, true)]), "\n\n") {
			if strings.Contains(stack, "share.Turns.Begin(") && strings.Contains(stack, "gateway.(*Gateway).handshakeTLS(") {
				waiting++
			}
		}
		return waiting == 2 || len(done) > 0
	})
	given.Store(true)
	for range cap(s.turns) {
		s.turns.End()
	}
	for range 2 {
		must(t, eventually.Receive(t, "a handshake ends", done))
	}
}

// A client that comes back resumes its session: that costs the server no signature.
func TestTLSSessionsAreResumed(t *testing.T) {
	var o Options
	client := withTLS(t, &o)
	client.ClientSessionCache = tls.NewLRUClientSessionCache(4)
	s := serve(t, o, noLimits())
	s.tls = client
	for _, fr := range []wire.Framing{wire.TCP, wire.WebSocket} {
		for i := range 2 {
			p := s.dial(fr)
			p.hello(s.token) // the tickets come with the first answer
			if got := p.nc.(*tls.Conn).ConnectionState().DidResume; got != (i > 0) {
				t.Errorf("%v, connection %d: resumed is %t", fr, i, got)
			}
		}
		client.ClientSessionCache = tls.NewLRUClientSessionCache(4)
	}
}
