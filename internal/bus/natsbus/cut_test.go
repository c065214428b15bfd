package natsbus_test

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/petrel-im/petrel/internal/bus/natsbus"
)

// proxy passes connections to a server, until it is cut: then nothing passes,
// and nobody is told. What was open when it heals stays dead, as it does behind
// a router that has forgotten it.
type proxy struct {
	net.Listener
	to string

	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]bool // true: dead
	wg    sync.WaitGroup
}

func newProxy(t *testing.T, to string) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: l, to: to, conns: map[net.Conn]bool{}}
	p.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.pass(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.mu.Lock()
		for c := range p.conns {
			_ = c.Close()
		}
		p.mu.Unlock()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) pass(c net.Conn) {
	s, err := net.Dial("tcp", p.to)
	if err != nil {
		_ = c.Close()
		return
	}
	p.mu.Lock()
	p.conns[c], p.conns[s] = p.cut, p.cut
	p.mu.Unlock()
	var wg sync.WaitGroup
	for _, way := range [][2]net.Conn{{c, s}, {s, c}} {
		wg.Go(func() {
			_, _ = io.Copy(alive{way[1], p}, way[0])
			_ = way[1].Close()
		})
	}
	wg.Wait()
}

// setCut kills what is open, and what comes while it is cut.
func (p *proxy) setCut(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = cut
	for c := range p.conns {
		p.conns[c] = true
	}
}

// alive writes nothing to a connection that is dead.
type alive struct {
	net.Conn
	p *proxy
}

func (a alive) Write(b []byte) (int, error) {
	a.p.mu.Lock()
	dead := a.p.conns[a.Conn]
	a.p.mu.Unlock()
	if dead {
		return len(b), nil
	}
	return a.Conn.Write(b)
}

// heals cuts a from b at p, and lets them find each other again in time for what
// was lost meanwhile to be repaired within 5 s.
func heals(t *testing.T, p *proxy, a, b *natsbus.Bus) {
	t.Helper()
	run(t, a)
	run(t, b)
	sees := func() bool { return peers(a) == "b" && peers(b) == "a" }
	until(t, "they see each other", sees)
	p.setCut(true)
	until(t, "each is alone", func() bool { return peers(a) == "" && peers(b) == "" })
	if err := a.Send("b", "s", nil); err == nil {
		t.Error("a message to a node that is cut off was taken")
	}
	p.setCut(false)
	begin := time.Now()
	until(t, "they see each other again", sees)
	if took := time.Since(begin); took > 4*time.Second {
		t.Errorf("it took %s", took)
	} else {
		t.Logf("healed after %s", took)
	}
}

// F9: a route that is cut without a word is made anew when the network heals,
// long before its own timers would find out.
func TestF9ACutRouteHeals(t *testing.T) {
	o := natsbus.Options{Cluster: "test", Beacon: beacon, Listen: "127.0.0.1:0", Secret: "s"}
	a, err := natsbus.Join(t.Context(), "a", o)
	if err != nil {
		t.Fatal(err)
	}
	p := newProxy(t, a.ClusterAddr())
	o.Routes = []string{p.Addr().String()}
	b, err := natsbus.Join(t.Context(), "b", o)
	if err != nil {
		t.Fatal(err)
	}
	heals(t, p, a, b)
}

// F9: and so is the way to an external server.
func TestF9ACutFromTheServerHeals(t *testing.T) {
	s := nats(t, server.Options{})
	p := newProxy(t, s.Addr().String())
	a, err := natsbus.Join(t.Context(), "a", natsbus.Options{Cluster: "test", Beacon: beacon, URL: url(s)})
	if err != nil {
		t.Fatal(err)
	}
	b, err := natsbus.Join(t.Context(), "b", natsbus.Options{Cluster: "test", Beacon: beacon, URL: "nats://u:p@" + p.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	heals(t, p, a, b)
}
