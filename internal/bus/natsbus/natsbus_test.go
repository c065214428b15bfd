package natsbus_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"go.uber.org/goleak"

	"github.com/petrel-im/petrel/internal/bus"
	"github.com/petrel-im/petrel/internal/bus/bustest"
	"github.com/petrel-im/petrel/internal/bus/natsbus"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest/proctest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	beacon = 50 * time.Millisecond
	wait   = 10 * time.Second
)

// embedded are nodes with a server each, all of which know the first one.
func embedded(t *testing.T, tls *tls.Config) func(im.Node) *natsbus.Bus {
	var first string
	return func(n im.Node) *natsbus.Bus {
		t.Helper()
		o := natsbus.Options{Cluster: "test", Beacon: beacon, Listen: "127.0.0.1:0", Secret: "a secret", TLS: tls}
		if first != "" {
			o.Routes = []string{first}
		}
		b, err := natsbus.Join(t.Context(), n, o)
		if err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first = b.ClusterAddr()
		}
		return b
	}
}

// nats runs a server of its own, whose user is u with password p.
func nats(t *testing.T, o server.Options) *server.Server {
	t.Helper()
	o.Host, o.NoSigs, o.Username, o.Password = "127.0.0.1", true, "u", "p"
	if o.Port == 0 {
		o.Port = -1
	}
	s, err := server.NewServer(&o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(wait) {
		t.Fatal("the server does not start")
	}
	return s
}

func url(s *server.Server) string { return strings.Replace(s.ClientURL(), "://", "://u:p@", 1) }

func external(t *testing.T, s *server.Server, cluster string) func(im.Node) *natsbus.Bus {
	return func(n im.Node) *natsbus.Bus {
		t.Helper()
		b, err := natsbus.Join(t.Context(), n, natsbus.Options{Cluster: cluster, Beacon: beacon, URL: url(s)})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
}

func TestEmbeddedServersAreABus(t *testing.T) {
	bustest.Run(t, func(t *testing.T) func(im.Node) bus.Bus {
		join := embedded(t, nil)
		return func(n im.Node) bus.Bus { return join(n) }
	})
}

func TestAnExternalServerIsABus(t *testing.T) {
	s := nats(t, server.Options{})
	bustest.Run(t, func(t *testing.T) func(im.Node) bus.Bus {
		join := external(t, s, "test")
		return func(n im.Node) bus.Bus { return bustest.Lossy(join(n), bustest.Rules{}) }
	})
}

// run runs a bus until the test ends, or stop is called.
func run(t *testing.T, b bus.Bus) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	stop = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() { _ = stop() })
	return stop
}

func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(wait); !f(); <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not after %s: %s", wait, what)
		}
	}
}

func peers(b bus.Bus) string {
	var all []string
	for _, n := range b.Peers() {
		all = append(all, string(n))
	}
	return strings.Join(all, " ")
}

func TestNodesFindEachOtherThroughOne(t *testing.T) {
	join := embedded(t, nil)
	a, b, c := join("a"), join("b"), join("c")
	run(t, a)
	run(t, b)
	stop := run(t, c)
	until(t, "each sees the two others", func() bool { return peers(a) == "b c" && peers(b) == "a c" && peers(c) == "a b" })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	until(t, "c has left", func() bool { return peers(a) == "b" && peers(b) == "a" })
}

// Who leaves says so: it is not waited for.
func TestANodeThatLeavesIsGoneAtOnce(t *testing.T) {
	s := nats(t, server.Options{})
	var both [2]*natsbus.Bus
	var wg sync.WaitGroup
	for i, n := range []im.Node{"a", "b"} {
		wg.Go(func() {
			var err error
			if both[i], err = natsbus.Join(t.Context(), n, natsbus.Options{Cluster: "test", URL: url(s)}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	a, b := both[0], both[1]
	run(t, a)
	stop := run(t, b)
	until(t, "a sees b", func() bool { return peers(a) == "b" })
	begin := time.Now()
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	until(t, "b is gone", func() bool { return peers(a) == "" })
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("it took %s, as long as silence would", took)
	}
}

func TestTwoClustersOnOneServerDoNotMix(t *testing.T) {
	s := nats(t, server.Options{})
	a, b := external(t, s, "one")("a"), external(t, s, "two")("b")
	run(t, a)
	run(t, b)
	other := external(t, s, "one")("c") // has listened for a beacon
	run(t, other)
	until(t, "c sees a", func() bool { return peers(other) == "a" })
	if got := peers(b); got != "" {
		t.Errorf("a node of another cluster has the peers %q", got)
	}
}

func TestANodeIDInUseIsRefused(t *testing.T) {
	s := nats(t, server.Options{})
	a, err := natsbus.Join(t.Context(), "a", natsbus.Options{Cluster: "test", Beacon: beacon, URL: url(s), Process: "host1 process 812"})
	if err != nil {
		t.Fatal(err)
	}
	stop := run(t, a)
	other := natsbus.Options{Cluster: "test", Beacon: 2 * time.Second, URL: url(s)} // how long it listens for another
	_, err = natsbus.Join(t.Context(), "a", other)
	if !errors.Is(err, natsbus.ErrInUse) || !strings.Contains(err.Error(), "node id a is in use by host1 process 812") {
		t.Errorf("join: %v", err)
	}
	if err := stop(); err != nil {
		t.Errorf("the first one ended: %v", err)
	}
	other.Beacon = beacon
	b, err := natsbus.Join(t.Context(), "a", other)
	if err != nil {
		t.Fatalf("after the first one has left: %v", err)
	}
	run(t, b)
}

// Two that join at once do not hear each other serve. They listen for a second, in which both
// have begun.
func TestOfTwoThatJoinUnderOneIDOneIsRefused(t *testing.T) {
	s := nats(t, server.Options{})
	var errs [2]error
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			b, err := natsbus.Join(t.Context(), "a", natsbus.Options{Cluster: "test", Beacon: time.Second, URL: url(s), Incarnation: uint64(i + 1)})
			if errs[i] = err; err == nil {
				errs[i] = run(t, b)()
			}
		})
	}
	wg.Wait()
	if errs[0] != nil || !errors.Is(errs[1], natsbus.ErrInUse) {
		t.Errorf("the first ended with %v, the second with %v", errs[0], errs[1])
	}
}

// Two that were cut from each other meet when they both serve.
func TestOfTwoThatServeUnderOneIDOneEnds(t *testing.T) {
	join := func(incarnation uint64, routes ...string) *natsbus.Bus {
		b, err := natsbus.Join(t.Context(), "a", natsbus.Options{
			Cluster: "test", Beacon: beacon, Listen: "127.0.0.1:0", Secret: "s", Incarnation: incarnation, Routes: routes,
		})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	a, b := join(1), join(2)
	ended := make(chan error, 1)
	stop := run(t, a)
	go func() { ended <- b.Run(t.Context()) }()
	c, err := natsbus.Join(t.Context(), "c", natsbus.Options{ // connects the two
		Cluster: "test", Beacon: beacon, Listen: "127.0.0.1:0", Secret: "s", Routes: []string{a.ClusterAddr(), b.ClusterAddr()},
	})
	if err != nil {
		t.Fatal(err)
	}
	run(t, c)
	select {
	case err := <-ended:
		if !errors.Is(err, natsbus.ErrInUse) {
			t.Errorf("the second ended with %v", err)
		}
	case <-time.After(wait):
		t.Error("both go on")
	}
	if err := stop(); err != nil {
		t.Errorf("the first ended with %v", err)
	}
}

func TestAWrongSecretIsRefused(t *testing.T) {
	a := embedded(t, nil)("a")
	run(t, a)
	for _, secret := range []string{"", "another"} {
		_, err := natsbus.Join(t.Context(), "b", natsbus.Options{
			Cluster: "test", Beacon: beacon, Listen: "127.0.0.1:0", Secret: secret, Routes: []string{a.ClusterAddr()},
		})
		if !errors.Is(err, natsbus.ErrRefused) || !strings.Contains(err.Error(), "secret") {
			t.Errorf("secret %q: %v", secret, err)
		}
	}
	_, err := natsbus.Join(t.Context(), "b", natsbus.Options{
		Cluster: "other", Beacon: beacon, Listen: "127.0.0.1:0", Secret: "a secret", Routes: []string{a.ClusterAddr()},
	})
	if !errors.Is(err, natsbus.ErrOtherCluster) {
		t.Errorf("another cluster: %v", err)
	}
	if _, err := natsbus.Join(t.Context(), "b", natsbus.Options{Cluster: "test", Listen: "0.0.0.0:0"}); err == nil || !strings.Contains(err.Error(), "set cluster.secret") {
		t.Errorf("no secret on every address: %v", err)
	}
	if _, err := natsbus.Join(t.Context(), "b", natsbus.Options{Cluster: "test", Listen: a.ClusterAddr(), Secret: "s"}); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("an address that is taken: %v", err)
	}
}

// Who mistypes a port in cluster.join reaches a web server, which waits for a request. It is
// not taken for a node with TLS.
func TestAWebServerIsNotANode(t *testing.T) {
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	_, err := natsbus.Join(t.Context(), "a", natsbus.Options{
		Cluster: "test", Beacon: beacon, Listen: "127.0.0.1:0", Secret: "a secret", Routes: []string{web.Listener.Addr().String()},
	})
	if !errors.Is(err, natsbus.ErrRefused) || !strings.Contains(err.Error(), "is not a node") || strings.Contains(err.Error(), "wants TLS") {
		t.Error(err)
	}
}

// A node that starts on a busy machine takes its time to say what it is: it counts as one that
// is not there yet.
func TestANodeThatIsLateIsNoneThatRefuses(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 1)) // who knocks has lost patience, and asks for TLS
			_, _ = conn.Write([]byte("INFO {}\r\n"))
			_ = conn.Close()
		}
	}()
	a, err := natsbus.Join(t.Context(), "a", natsbus.Options{
		Cluster: "test", Beacon: beacon, Listen: "127.0.0.1:0", Secret: "a secret", Routes: []string{l.Addr().String()},
	})
	if err != nil {
		t.Fatal(err)
	}
	run(t, a)
}

func TestAnExternalServerRefusesOrIsNotThere(t *testing.T) {
	s := nats(t, server.Options{})
	for u, want := range map[string]error{
		s.ClientURL(): natsbus.ErrRefused,
		strings.Replace(s.ClientURL(), "://", "://u:hidden@", 1): natsbus.ErrRefused,
		strings.Replace(s.ClientURL(), "://", "://hidden@", 1):   natsbus.ErrRefused,
		"nats://u:hidden@127.0.0.1:1":                            nil,
		"nats://u:hidden@127.0.0.1:port":                         nil,
	} {
		_, err := natsbus.Join(t.Context(), "a", natsbus.Options{Cluster: "test", URL: u})
		if err == nil || want != nil && !errors.Is(err, want) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v, want %v", u, err, want)
		}
	}
	small := nats(t, server.Options{MaxPayload: 1 << 16})
	if _, err := natsbus.Join(t.Context(), "a", natsbus.Options{Cluster: "test", URL: url(small)}); err == nil || !strings.Contains(err.Error(), "max_payload") {
		t.Errorf("a server with small messages: %v", err)
	}
}

// While the server is away each node is alone, and serves itself.
func TestAnExternalServerThatComesBack(t *testing.T) {
	port := portOf(t, proctest.FreePorts(t, 1)[0])
	s := nats(t, server.Options{Port: port})
	join := external(t, s, "test")
	a, b := join("a"), join("b")
	b.Handle("echo", bus.Answering(func(_ im.Node, p []byte) []byte { return p }))
	a.Handle("echo", bus.Answering(func(_ im.Node, p []byte) []byte { return p }))
	run(t, a)
	run(t, b)
	until(t, "a sees b", func() bool { return peers(a) == "b" })
	s.Shutdown()
	s.WaitForShutdown()
	var err error
	until(t, "Send fails", func() bool { err = a.Send("b", "echo", nil); return err != nil })
	if errors.Is(err, bus.ErrNoNode) {
		t.Errorf("a message was taken while there was no way: it ended with %v", err)
	}
	until(t, "a is alone", func() bool { return peers(a) == "" })
	if p, err := a.Request(t.Context(), "a", "echo", []byte("x")); err != nil || string(p) != "x" {
		t.Errorf("a asks itself: %q, %v", p, err)
	}
	nats(t, server.Options{Port: port})
	until(t, "a sees b again", func() bool { return peers(a) == "b" })
	if p, err := a.Request(t.Context(), "b", "echo", []byte("x")); err != nil || string(p) != "x" {
		t.Errorf("a asks b: %q, %v", p, err)
	}
	if a.Reconnects.Load() == 0 {
		t.Error("the way back is not counted")
	}
}

// A node whose handlers stand still loses what is beyond the bound, and that is
// counted.
func TestWhatWaitsForASlowNodeIsBounded(t *testing.T) {
	s := nats(t, server.Options{})
	join := external(t, s, "test")
	a, b := join("a"), join("b")
	hold := make(chan struct{})
	var got atomic.Int64
	goOn := sync.OnceFunc(func() { close(hold) })
	b.Handle("s", func(im.Node, []byte, func([]byte)) { <-hold; got.Add(1) })
	run(t, a)
	stop := run(t, b)
	t.Cleanup(goOn) // runs before those of run
	until(t, "a sees b", func() bool { return peers(a) == "b" })
	p := make([]byte, bus.MaxMessage)
	const n = 100
	for range n {
		if err := a.Send("b", "s", p); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "drops are counted", func() bool { return b.Dropped.Load() > 0 && b.Dropped.Load()+b.Received.Load() > 0 })
	until(t, "all has arrived", func() bool { return a.Sent.Load() >= n && b.Dropped.Load() >= n-65 })
	goOn()
	until(t, "the rest is served", func() bool { return got.Load() >= 50 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if got.Load()+int64(b.Dropped.Load()) > n {
		t.Errorf("%d messages were served, %d dropped, of %d", got.Load(), b.Dropped.Load(), n)
	}
}

func TestRoutesWithTLS(t *testing.T) {
	good := certificate(t)
	join := embedded(t, good)
	a, b := join("a"), join("b")
	run(t, a)
	run(t, b)
	until(t, "a sees b", func() bool { return peers(a) == "b" && peers(b) == "a" })
	for name, c := range map[string]*tls.Config{"another authority": certificate(t), "none": {RootCAs: good.RootCAs}, "plaintext": nil} {
		_, err := natsbus.Join(t.Context(), "c", natsbus.Options{
			Cluster: "test", Beacon: beacon, Listen: "127.0.0.1:0", Secret: "a secret", Routes: []string{a.ClusterAddr()}, TLS: c,
		})
		if !errors.Is(err, natsbus.ErrRefused) {
			t.Errorf("a node with %s certificate: %v", name, err)
		}
	}
}

// Another authority is added while the nodes run, and no connection ends. Then nodes with
// its certificates may come.
func TestRootsAreExchangedWhileNodesRun(t *testing.T) {
	first, second := certificate(t), certificate(t)
	join := embedded(t, first)
	a, b := join("a"), join("b")
	run(t, a)
	run(t, b)
	until(t, "a sees b", func() bool { return peers(a) == "b" && peers(b) == "a" })
	both := x509.NewCertPool()
	for _, c := range []*tls.Config{first, second} {
		cert, err := c.GetCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		root, err := x509.ParseCertificate(cert.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		both.AddCert(root)
	}
	second.RootCAs = both
	late := func() (*natsbus.Bus, error) {
		return natsbus.Join(t.Context(), "c", natsbus.Options{
			Cluster: "test", Beacon: beacon, Listen: "127.0.0.1:0", Secret: "a secret", Routes: []string{a.ClusterAddr(), b.ClusterAddr()}, TLS: second,
		})
	}
	if _, err := late(); !errors.Is(err, natsbus.ErrRefused) {
		t.Errorf("before the exchange: %v", err)
	}
	for _, n := range []*natsbus.Bus{a, b} {
		if err := n.SetRoots(both); err != nil {
			t.Fatal(err)
		}
	}
	if peers(a) != "b" || peers(b) != "a" {
		t.Errorf("the exchange has ended connections: %q, %q", peers(a), peers(b))
	}
	c, err := late()
	if err != nil {
		t.Fatalf("after the exchange: %v", err)
	}
	run(t, c)
	until(t, "all see each other", func() bool { return peers(a) == "b c" && peers(b) == "a c" && peers(c) == "a b" })
}

// certificate is one that signs itself, for both ends of a route on the
// loopback.
func certificate(t *testing.T) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	if c, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(c)
	cert := &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	return &tls.Config{
		RootCAs:              roots, // asked for at each handshake, as a certificate may be renewed
		GetCertificate:       func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return cert, nil },
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert, nil },
	}
}

func portOf(t *testing.T, addr string) int {
	t.Helper()
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
