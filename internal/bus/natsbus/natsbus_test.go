package natsbus_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
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
	client "github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/petrel-im/petrel/internal/bus"
	"github.com/petrel-im/petrel/internal/bus/buspb"
	"github.com/petrel-im/petrel/internal/bus/bustest"
	"github.com/petrel-im/petrel/internal/bus/natsbus"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/imtest/proctest"
)

func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "4") // a node that joins listens for 600 ms; more of them starve each other
	goleak.VerifyTestMain(m)
}

// join joins a cluster as a node, which is not refused.
func join(t *testing.T, n im.Node, o natsbus.Options) *natsbus.Bus {
	t.Helper()
	b, err := tryJoin(t.Context(), n, o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// tryJoin joins a cluster as a node, or is refused. A machine that stands still for as long as
// a dial may take makes Join fail, and the node tries again.
func tryJoin(ctx context.Context, n im.Node, o natsbus.Options) (b *natsbus.Bus, err error) {
	eventually.Holds(func() bool {
		b, err = natsbus.Join(ctx, n, o)
		return err == nil || errors.Is(err, natsbus.ErrRefused) || errors.Is(err, natsbus.ErrInUse) || errors.Is(err, natsbus.ErrOtherCluster) || ctx.Err() != nil
	})
	return b, err
}

// refusal is the error with which a node is refused. A machine that stands still for as long
// as an answer may take lets Join go on without the answer, or fail, and the node tries again.
func refusal(t *testing.T, n im.Node, o natsbus.Options, want func(error) bool) error {
	t.Helper()
	var err error
	eventually.Holds(func() bool {
		var b *natsbus.Bus
		if b, err = natsbus.Join(t.Context(), n, o); err == nil {
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			_ = b.Run(ended) // closes it
		}
		return err != nil && want(err)
	})
	return err
}

// is tells whether an error is another one.
func is(target error) func(error) bool {
	return func(err error) bool { return errors.Is(err, target) }
}

// says tells whether an error has a text.
func says(text string) func(error) bool {
	return func(err error) bool { return strings.Contains(err.Error(), text) }
}

// embedded are nodes with a server each, all of which know the first one.
func embedded(t *testing.T, tls *tls.Config) func(im.Node) *natsbus.Bus {
	var first string
	return func(n im.Node) *natsbus.Bus {
		t.Helper()
		o := natsbus.Options{Cluster: "test", Listen: "127.0.0.1:0", Secret: "a secret", TLS: tls}
		if first != "" {
			o.Routes = []string{first}
		}
		b := join(t, n, o)
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
	if !s.ReadyForConnections(eventually.Limit) {
		t.Fatal("the server does not start")
	}
	return s
}

func url(s *server.Server) string { return strings.Replace(s.ClientURL(), "://", "://u:p@", 1) }

func external(t *testing.T, s *server.Server, cluster string) func(im.Node) *natsbus.Bus {
	return func(n im.Node) *natsbus.Bus {
		t.Helper()
		return join(t, n, natsbus.Options{Cluster: cluster, URL: url(s)})
	}
}

func TestEmbeddedServersAreABus(t *testing.T) {
	t.Parallel()
	bustest.Run(t, func(t *testing.T) func(im.Node) bus.Bus {
		join := embedded(t, nil)
		return func(n im.Node) bus.Bus { return join(n) }
	})
}

func TestAnExternalServerIsABus(t *testing.T) {
	t.Parallel()
	s := nats(t, server.Options{})
	var clusters atomic.Int64
	bustest.Run(t, func(t *testing.T) func(im.Node) bus.Bus {
		join := external(t, s, fmt.Sprint("test-", clusters.Add(1)))
		return func(n im.Node) bus.Bus { return join(n) }
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

func peers(b bus.Bus) string {
	var all []string
	for _, n := range b.Peers() {
		all = append(all, string(n))
	}
	return strings.Join(all, " ")
}

func TestNodesFindEachOtherThroughOne(t *testing.T) {
	t.Parallel()
	nodes := embedded(t, nil)
	a, b, c := nodes("a"), nodes("b"), nodes("c")
	run(t, a)
	run(t, b)
	stop := run(t, c)
	eventually.True(t, "each sees the two others", func() bool { return peers(a) == "b c" && peers(b) == "a c" && peers(c) == "a b" })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "c has left", func() bool { return peers(a) == "b" && peers(b) == "a" })
}

// announcement is an announcement of a node.
type announcement struct {
	node  string
	state buspb.Presence_State
}

// presence are the announcements in cluster "test", and sends announcements of its own.
type presence struct {
	t    *testing.T
	conn *client.Conn
	all  chan announcement
}

func listen(t *testing.T, s *server.Server) *presence {
	t.Helper()
	p := &presence{t: t, all: make(chan announcement, 1000)}
	var err error
	if !eventually.Holds(func() bool { p.conn, err = client.Connect(url(s)); return err == nil }) {
		t.Fatal(err)
	}
	t.Cleanup(p.conn.Close)
	_, err = p.conn.Subscribe("petrel.test.nodes", func(m *client.Msg) {
		var a buspb.Presence
		if err := a.UnmarshalVT(m.Data); err != nil {
			t.Error(err)
		}
		p.all <- announcement{a.Node, a.State}
	})
	if err == nil {
		err = p.conn.FlushTimeout(eventually.Limit)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// waitFor waits until a node has said that it is in a state.
func (p *presence) waitFor(want announcement) {
	p.t.Helper()
	for eventually.Receive(p.t, fmt.Sprintf("%s announces %s", want.node, want.state), p.all) != want {
	}
}

// say announces a node that does not exist.
func (p *presence) say(n im.Node) {
	p.t.Helper()
	b, err := (&buspb.Presence{Node: string(n), Incarnation: 1, State: buspb.Presence_SERVING}).MarshalVT()
	if err == nil {
		err = p.conn.Publish("petrel.test.nodes", b)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// A node that leaves says so: nobody waits for its silence.
func TestANodeThatLeavesIsGoneAtOnce(t *testing.T) {
	t.Parallel()
	s := nats(t, server.Options{})
	heard := listen(t, s)
	nodes := external(t, s, "test")
	a, b := nodes("a"), nodes("b")
	run(t, a)
	stop := run(t, b)
	eventually.True(t, "a sees b", func() bool { return peers(a) == "b" })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	heard.waitFor(announcement{"b", buspb.Presence_LEFT})
	eventually.True(t, "a sees c", func() bool {
		heard.say("c") // a hears of it after b has left
		return strings.HasSuffix(peers(a), "c")
	})
	if got := peers(a); got != "c" {
		t.Errorf("a has the peers %q after b has left", got)
	}
}

func TestTwoClustersOnOneServerDoNotMix(t *testing.T) {
	t.Parallel()
	s := nats(t, server.Options{})
	a, b := external(t, s, "one")("a"), external(t, s, "two")("b")
	run(t, a)
	run(t, b)
	other := external(t, s, "one")("c") // has listened for a beacon
	run(t, other)
	eventually.True(t, "c sees a", func() bool { return peers(other) == "a" })
	if got := peers(b); got != "" {
		t.Errorf("a node of another cluster has the peers %q", got)
	}
}

// patient is a Beacon that makes a node listen until it is refused, or its context ends.
const patient = 2 * eventually.Limit

func TestANodeIDInUseIsRefused(t *testing.T) {
	t.Parallel()
	s := nats(t, server.Options{})
	heard := listen(t, s)
	a := join(t, "a", natsbus.Options{Cluster: "test", URL: url(s), Process: "host1 process 812"})
	stop := run(t, a)
	heard.waitFor(announcement{"a", buspb.Presence_SERVING})
	err := refusal(t, "a", natsbus.Options{Cluster: "test", Beacon: patient, URL: url(s)}, is(natsbus.ErrInUse))
	if !errors.Is(err, natsbus.ErrInUse) || !strings.Contains(err.Error(), "node id a is in use by host1 process 812") {
		t.Errorf("join: %v", err)
	}
	if err := stop(); err != nil {
		t.Errorf("the first one ended: %v", err)
	}
	run(t, join(t, "a", natsbus.Options{Cluster: "test", URL: url(s)}))
}

// Two nodes that join at once do not hear each other serve. The lower incarnation stays,
// whichever of them began first.
func TestOfTwoThatJoinUnderOneIDOneIsRefused(t *testing.T) {
	t.Parallel()
	s := nats(t, server.Options{})
	heard := listen(t, s)
	for _, first := range []int{0, 1} {
		ctx, cancel := context.WithCancel(t.Context())
		errs := [2]chan error{make(chan error, 1), make(chan error, 1)}
		for _, i := range []int{first, 1 - first} {
			go func() {
				b, err := tryJoin(ctx, "a", natsbus.Options{Cluster: "test", Beacon: patient, URL: url(s), Incarnation: uint64(i + 1)})
				if err == nil {
					err = b.Run(ctx)
				}
				errs[i] <- err
			}()
			heard.waitFor(announcement{"a", buspb.Presence_JOINING})
		}
		if err := eventually.Receive(t, "one is refused", errs[1]); !errors.Is(err, natsbus.ErrInUse) {
			t.Errorf("incarnation 2 ended with %v", err)
		}
		cancel()
		if err := eventually.Receive(t, "the other ends", errs[0]); !errors.Is(err, context.Canceled) {
			t.Errorf("incarnation 1 ended with %v", err)
		}
	}
}

// Two that were cut from each other meet when they both serve.
func TestOfTwoThatServeUnderOneIDOneEnds(t *testing.T) {
	t.Parallel()
	o := natsbus.Options{Cluster: "test", Listen: "127.0.0.1:0", Secret: "s", Incarnation: 1}
	a := join(t, "a", o)
	o.Incarnation = 2
	b := join(t, "a", o)
	ended := make(chan error, 1)
	stop := run(t, a)
	go func() { ended <- b.Run(t.Context()) }()
	o.Incarnation, o.Routes = 3, []string{a.ClusterAddr(), b.ClusterAddr()} // connects the two
	run(t, join(t, "c", o))
	if err := eventually.Receive(t, "the second ends", ended); !errors.Is(err, natsbus.ErrInUse) {
		t.Errorf("the second ended with %v", err)
	}
	if err := stop(); err != nil {
		t.Errorf("the first ended with %v", err)
	}
}

func TestAWrongSecretIsRefused(t *testing.T) {
	t.Parallel()
	a := embedded(t, nil)("a")
	run(t, a)
	for _, secret := range []string{"", "another"} {
		err := refusal(t, "b", natsbus.Options{
			Cluster: "test", Listen: "127.0.0.1:0", Secret: secret, Routes: []string{a.ClusterAddr()},
		}, is(natsbus.ErrRefused))
		if !errors.Is(err, natsbus.ErrRefused) || !strings.Contains(err.Error(), "secret") {
			t.Errorf("secret %q: %v", secret, err)
		}
	}
	err := refusal(t, "b", natsbus.Options{
		Cluster: "other", Listen: "127.0.0.1:0", Secret: "a secret", Routes: []string{a.ClusterAddr()},
	}, is(natsbus.ErrOtherCluster))
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

// A mistyped port in cluster.join may lead to a web server, which waits for a request. The
// node does not take it for a node with TLS.
func TestAWebServerIsNotANode(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	err := refusal(t, "a", natsbus.Options{
		Cluster: "test", Listen: "127.0.0.1:0", Secret: "a secret", Routes: []string{web.Listener.Addr().String()},
	}, is(natsbus.ErrRefused))
	if !errors.Is(err, natsbus.ErrRefused) || !strings.Contains(err.Error(), "is not a node") || strings.Contains(err.Error(), "wants TLS") {
		t.Error(err)
	}
}

// A node that starts on a busy machine takes its time to say what it is: it counts as one that
// is not there yet.
func TestANodeThatIsLateIsNoneThatRefuses(t *testing.T) {
	t.Parallel()
	addr := listenAs(t, func(conn net.Conn) {
		_, _ = conn.Read(make([]byte, 1)) // the joining node has lost patience, and asks for TLS
		_, _ = conn.Write([]byte("INFO {}\r\n"))
	})
	run(t, join(t, "a", natsbus.Options{Cluster: "test", Listen: "127.0.0.1:0", Secret: "a secret", Routes: []string{addr}}))
}

// A node that stands still while it joins hears that it was silent for too long. It was not
// refused, and goes on.
func TestANodeThatStandsStillIsNotRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"Stale Connection", "Authentication Timeout"} {
		addr := listenAs(t, func(conn net.Conn) {
			_, _ = fmt.Fprintf(conn, "INFO {}\r\n-ERR '%s'\r\n", text)
			_, _ = io.Copy(io.Discard, conn)
		})
		b, err := natsbus.Join(t.Context(), "a", natsbus.Options{Cluster: "test", Listen: "127.0.0.1:0", Secret: "a secret", Routes: []string{addr}})
		if errors.Is(err, natsbus.ErrRefused) {
			t.Errorf("after %q: %v", text, err)
		}
		if err == nil {
			run(t, b)
		}
	}
}

// listenAs listens for connections, with each of which talk speaks.
func listenAs(t *testing.T, talk func(net.Conn)) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer func() { _ = conn.Close() }() // nothing is read any more
				talk(conn)
			})
		}
	})
	return l.Addr().String()
}

func TestAnExternalServerRefusesOrIsNotThere(t *testing.T) {
	t.Parallel()
	s := nats(t, server.Options{})
	for u, want := range map[string]error{
		s.ClientURL(): natsbus.ErrRefused,
		strings.Replace(s.ClientURL(), "://", "://u:hidden@", 1): natsbus.ErrRefused,
		strings.Replace(s.ClientURL(), "://", "://hidden@", 1):   natsbus.ErrRefused,
		"nats://u:hidden@127.0.0.1:1":                            nil,
		"nats://u:hidden@127.0.0.1:port":                         nil,
	} {
		err := refusal(t, "a", natsbus.Options{Cluster: "test", URL: u}, func(err error) bool { return want == nil || errors.Is(err, want) })
		if err == nil || want != nil && !errors.Is(err, want) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v, want %v", u, err, want)
		}
	}
	small := nats(t, server.Options{MaxPayload: 1 << 16})
	if err := refusal(t, "a", natsbus.Options{Cluster: "test", URL: url(small)}, says("max_payload")); err == nil || !strings.Contains(err.Error(), "max_payload") {
		t.Errorf("a server with small messages: %v", err)
	}
}

// While the server is away each node is alone, and serves itself.
func TestAnExternalServerThatComesBack(t *testing.T) {
	t.Parallel()
	port := portOf(t, proctest.FreePorts(t, 1)[0])
	s := nats(t, server.Options{Port: port})
	nodes := external(t, s, "test")
	a, b := nodes("a"), nodes("b")
	b.Handle("echo", bus.Answering(func(_ im.Node, p []byte) []byte { return p }))
	a.Handle("echo", bus.Answering(func(_ im.Node, p []byte) []byte { return p }))
	run(t, a)
	run(t, b)
	eventually.True(t, "a sees b", func() bool { return peers(a) == "b" })
	s.Shutdown()
	s.WaitForShutdown()
	var err error
	eventually.True(t, "Send fails", func() bool { err = a.Send("b", "echo", nil); return err != nil })
	if errors.Is(err, bus.ErrNoNode) {
		t.Errorf("a message was taken while there was no way: it ended with %v", err)
	}
	eventually.True(t, "a is alone", func() bool { return peers(a) == "" })
	if p, err := a.Request(t.Context(), "a", "echo", []byte("x")); err != nil || string(p) != "x" {
		t.Errorf("a asks itself: %q, %v", p, err)
	}
	nats(t, server.Options{Port: port})
	eventually.True(t, "a sees b again", func() bool { return peers(a) == "b" })
	echo := eventually.Answer(t, "b answers a", func(ctx context.Context) ([]byte, error) { return a.Request(ctx, "b", "echo", []byte("x")) })
	if string(echo) != "x" {
		t.Errorf("b answers a with %q", echo)
	}
	if a.Reconnects.Load() == 0 {
		t.Error("the way back is not counted")
	}
}

// A node whose handlers stand still loses what is beyond the bound, and that is
// counted.
func TestWhatWaitsForASlowNodeIsBounded(t *testing.T) {
	t.Parallel()
	s := nats(t, server.Options{})
	nodes := external(t, s, "test")
	a, b := nodes("a"), nodes("b")
	hold := make(chan struct{})
	var got atomic.Int64
	goOn := sync.OnceFunc(func() { close(hold) })
	b.Handle("s", func(im.Node, []byte, func([]byte)) { <-hold; got.Add(1) })
	run(t, a)
	stop := run(t, b)
	t.Cleanup(goOn) // runs before those of run
	eventually.True(t, "they see each other", func() bool { return peers(a) == "b" && peers(b) == "a" })
	p := make([]byte, bus.MaxMessage)
	const n = 100
	sent := 0
	for b.Dropped.Load() < n-65 { // once, unless a connection ends meanwhile and loses what is under way
		connected := a.Reconnects.Load() + b.Reconnects.Load()
		for i := range n {
			if a.Send("b", "s", p) == nil {
				sent++
			}
			if i%10 == 9 { // b gets the answer after all that a has sent before
				eventually.Answer(t, "a answers", func(ctx context.Context) ([]byte, error) { return b.Request(ctx, "a", "nothing", nil) })
			}
		}
		eventually.True(t, "drops are counted", func() bool {
			return b.Dropped.Load() >= n-65 || a.Reconnects.Load()+b.Reconnects.Load() > connected
		})
	}
	goOn()
	eventually.True(t, "the rest is served", func() bool { return got.Load() >= 50 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if got.Load()+int64(b.Dropped.Load()) > int64(sent) {
		t.Errorf("%d messages were served, %d dropped, of %d", got.Load(), b.Dropped.Load(), sent)
	}
}

func TestRoutesWithTLS(t *testing.T) {
	t.Parallel()
	good := certificate(t)
	nodes := embedded(t, good)
	a, b := nodes("a"), nodes("b")
	run(t, a)
	run(t, b)
	eventually.True(t, "a sees b", func() bool { return peers(a) == "b" && peers(b) == "a" })
	for name, c := range map[string]*tls.Config{"another authority": certificate(t), "none": {RootCAs: good.RootCAs}, "plaintext": nil} {
		err := refusal(t, "c", natsbus.Options{
			Cluster: "test", Listen: "127.0.0.1:0", Secret: "a secret", Routes: []string{a.ClusterAddr()}, TLS: c,
		}, is(natsbus.ErrRefused))
		if !errors.Is(err, natsbus.ErrRefused) {
			t.Errorf("a node with %s certificate: %v", name, err)
		}
	}
}

// Another authority is added while the nodes run, and no connection ends. Then nodes with
// its certificates may come.
func TestRootsAreExchangedWhileNodesRun(t *testing.T) {
	t.Parallel()
	first, second := certificate(t), certificate(t)
	nodes := embedded(t, first)
	a, b := nodes("a"), nodes("b")
	run(t, a)
	run(t, b)
	eventually.True(t, "a sees b", func() bool { return peers(a) == "b" && peers(b) == "a" })
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
	late := natsbus.Options{
		Cluster: "test", Listen: "127.0.0.1:0", Secret: "a secret", Routes: []string{a.ClusterAddr(), b.ClusterAddr()}, TLS: second,
	}
	if err := refusal(t, "c", late, is(natsbus.ErrRefused)); !errors.Is(err, natsbus.ErrRefused) {
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
	c := join(t, "c", late)
	run(t, c)
	eventually.True(t, "all see each other", func() bool { return peers(a) == "b c" && peers(b) == "a c" && peers(c) == "a b" })
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
		SerialNumber: big.NewInt(1), NotBefore: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2120, 1, 1, 0, 0, 0, 0, time.UTC),
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
