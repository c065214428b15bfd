package sdk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/internal/imtest"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/wire"
	petrel "github.com/petrel-im/petrel/sdk/go"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// scissors are a network between clients and a server that cuts a connection
// behind a random number of bytes, in the middle of a frame as well.
type scissors struct {
	mu    sync.Mutex // tier 0; guards the fields below
	r     *rand.Rand
	blunt bool
	cuts  int
}

// dial is NetDial of a client behind the scissors.
func (x *scissors) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.blunt {
		return conn, nil
	}
	return &cutConn{Conn: conn, x: x, in: 200 + x.r.IntN(16000), out: 200 + x.r.IntN(6000)}, nil
}

type cutConn struct {
	net.Conn
	x       *scissors
	mu      sync.Mutex // tier 0; guards what may still pass
	in, out int
}

// left takes n bytes of what may pass, and says how many did.
func (c *cutConn) left(of *int, n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n = min(n, *of)
	*of -= n
	return n
}

func (c *cutConn) cut() error {
	c.x.mu.Lock()
	c.x.cuts++
	c.x.mu.Unlock()
	_ = c.Conn.Close() // this is how
	return io.ErrUnexpectedEOF
}

func (c *cutConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if passed := c.left(&c.in, n); passed < n {
		return passed, c.cut()
	}
	return n, err
}

func (c *cutConn) Write(b []byte) (int, error) {
	n := c.left(&c.out, len(b))
	n, err := c.Conn.Write(b[:n])
	if err == nil && n < len(b) {
		err = c.cut()
	}
	return n, err
}

// actor is a device that writes, and is restarted now and then.
type actor struct {
	t     *testing.T
	name  string
	o     petrel.Options
	path  string // of its store; "": in memory
	d     *device
	wrote map[string][]string // texts by target, in the order of composition
}

func (a *actor) start() {
	a.t.Helper()
	if a.path != "" {
		s, err := petrel.OpenFile(a.path)
		if err != nil {
			a.t.Fatal(err)
		}
		a.o.Store = s
	}
	a.d = run(a.t, a.o)
}

func (a *actor) restart() {
	a.t.Helper()
	a.d.stop()
	if a.path != "" {
		if err := a.o.Store.Close(); err != nil {
			a.t.Error(err)
		}
	}
	a.start()
}

// TestEveryMessageOnceInOrderOverBrokenLinks: three devices of two users write
// at once over links that are cut at any byte and are restarted from their
// stores; the server is restarted as well.
func TestEveryMessageOnceInOrderOverBrokenLinks(t *testing.T) {
	t.Parallel()
	s := imtest.Start(t, imtest.Options{Config: map[string]string{"listen.hosts": "ws.test"}})
	tokens := s.Users("", "alice", "bob")
	group := s.Group("", "g", "alice", "bob")
	x := &scissors{r: rand.New(rand.NewPCG(1, 2))}
	url := newAddress(s)
	dir := t.TempDir()
	option := func(token string, f wire.Framing, json bool) petrel.Options {
		return petrel.Options{URL: url.at(f), NetDial: url.dial(x), JSON: json, Token: petrel.StaticToken(token), Keep: 5000}
	}
	actors := []*actor{
		{t: t, name: "a1", path: filepath.Join(dir, "a1"), o: option(tokens[0], wire.WebSocket, false)},
		{t: t, name: "a2", path: filepath.Join(dir, "a2"), o: option(tokens[0], wire.TCP, true)},
		{t: t, name: "b1", path: filepath.Join(dir, "b1"), o: option(tokens[1], wire.TCP, false)},
	}
	const each = 120
	var writers sync.WaitGroup
	for i, a := range actors {
		a.wrote = map[string][]string{}
		a.start()
		r := rand.New(rand.NewPCG(uint64(i), 3))
		writers.Go(func() { a.write(r, each, group) })
	}
	writers.Wait()
	s.Restart()
	url.moved(s)
	x.mu.Lock()
	x.blunt = true // else the end of it would take long
	t.Logf("connections cut: %d", x.cuts)
	if x.cuts < 10 {
		t.Errorf("connections cut: got %d", x.cuts)
	}
	x.mu.Unlock()

	direct := ""
	for _, a := range actors {
		a.d.until(a.name+" has sent everything", func() bool {
			direct = a.d.Direct(map[byte]string{'a': "bob", 'b': "alice"}[a.name[0]])
			return direct != "" && len(a.d.Pending(group))+len(a.d.Pending(direct)) == 0 && a.d.Status().Synced
		})
	}
	for _, conv := range []string{group, direct} {
		log := history(t, s, conv)
		for _, a := range actors {
			a.d.until(a.name+" shows everything", func() bool {
				v, _ := a.d.Conversation(conv)
				return v.Have >= uint64(len(log))
			})
			if got := entries(a.d, conv); !slices.Equal(got, log) {
				t.Errorf("%s shows of %s: got %d entries, want %d; first difference: %s", a.name, conv, len(got), len(log), difference(got, log))
			}
			var own []string
			for _, e := range log {
				if _, text, _ := strings.Cut(e, " "); strings.HasPrefix(text, a.name) {
					own = append(own, text)
				}
			}
			if want := a.wrote[conv[:1]]; !slices.Equal(own, want) {
				t.Errorf("%s wrote to %s: stored %d, want %d in order; first difference: %s", a.name, conv, len(own), len(want), difference(own, want))
			}
		}
	}
}

// write sends n messages and sometimes restarts.
func (a *actor) write(r *rand.Rand, n int, group string) {
	to := map[byte]string{'a': "bob", 'b': "alice"}[a.name[0]]
	for i := range n {
		if i%40 == 39 {
			a.restart()
		}
		d := petrel.Draft{Conv: group, Text: fmt.Sprintf("%s-%d", a.name, i)}
		kind := "g"
		if r.IntN(3) == 0 {
			d.Conv, d.User, kind = "", to, "d"
		}
		o, err := a.d.Send(d)
		if err != nil {
			a.t.Error(err)
			return
		}
		a.wrote[kind] = append(a.wrote[kind], d.Text)
		if r.IntN(8) == 0 { // else much is under way at once
			if _, err := o.Wait(eventually.Context(a.t)); errors.Is(err, context.DeadlineExceeded) {
				a.t.Errorf("%s: message %d is not settled", a.name, i)
				return
			}
		}
	}
}

// entries are "seq text" of what d shows.
func entries(d *device, conv string) []string {
	var out []string
	for _, m := range d.Messages(conv, 0, 0) {
		out = append(out, fmt.Sprint(m.Seq, " ", m.GetText()))
	}
	return out
}

// history is what the server has, as entries.
func history(t *testing.T, s *imtest.Server, conv string) []string {
	t.Helper()
	var out []string
	for after := uint64(0); ; {
		r, err := s.Admin.GetHistory(t.Context(), connect.NewRequest(&petrelv1.AdminGetHistoryRequest{
			History: &petrelv1.GetHistory{Conv: conv, After: after},
		}))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range r.Msg.Messages {
			out = append(out, fmt.Sprint(m.Seq, " ", m.GetText()))
			after = m.Seq
		}
		if !r.Msg.More {
			return out
		}
	}
}

func difference(a, b []string) string {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("at %d: %q, not %q", i, a[i], b[i])
		}
	}
	return fmt.Sprintf("behind %d", min(len(a), len(b)))
}

// address is where a server is, which changes when it restarts.
type address struct {
	mu   sync.Mutex // tier 0; guards ws and tcp
	ws   string
	tcp  string
	name map[wire.Framing]string
}

func newAddress(s *imtest.Server) *address {
	a := &address{name: map[wire.Framing]string{wire.WebSocket: "ws://ws.test:1", wire.TCP: "tcp://tcp.test:1"}}
	a.moved(s)
	return a
}

func (a *address) at(f wire.Framing) string { return a.name[f] }

func (a *address) moved(s *imtest.Server) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ws = strings.TrimPrefix(s.URL(wire.WebSocket), "ws://")
	a.tcp = strings.TrimPrefix(s.URL(wire.TCP), "tcp://")
}

func (a *address) dial(x *scissors) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		a.mu.Lock()
		to := a.tcp
		if strings.HasPrefix(addr, "ws.test") {
			to = a.ws
		}
		a.mu.Unlock()
		return x.dial(ctx, network, to)
	}
}
