package gateway

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/rate"
)

// A browser on this machine reaches the address of operators, whatever page it
// shows. Spec: P-10.8.
func TestPagesOfStrangersReachNoOperatorsAddress(t *testing.T) {
	served := 0
	a, err := NewAdmin(AdminOptions{
		Addr: "127.0.0.1:0", TLS: TLSConfig(func() *tls.Certificate { return nil }), Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }),
		Access: func() *Access { return &Access{Origins: []string{"https://app.example.org"}} }, MaxHTTP: 4, Log: slog.New(slog.DiscardHandler),
	})
	must(t, err)
	if a.TLS() {
		t.Error("TLS on a loopback address: no certificate is for that")
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	own := "http://" + a.Addr().String()
	for _, c := range []struct {
		name, method, host string
		header             http.Header
		want               int
	}{
		{"the CLI", http.MethodPost, "", nil, 200},
		{"its own page", http.MethodPost, "", http.Header{"Origin": {own}}, 200},
		{"a page that may connect as a client", http.MethodPost, "", http.Header{"Origin": {"https://app.example.org"}}, 403},
		{"a page of a stranger", http.MethodPost, "", http.Header{"Origin": {"https://evil.example"}}, 403},
		{"the same, as the browser says it", http.MethodPost, "", http.Header{"Sec-Fetch-Site": {"cross-site"}}, 403},
		{"a name of a stranger", http.MethodGet, "evil.example", nil, 403},
		{"a link on a page of a stranger", http.MethodGet, "", http.Header{"Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Mode": {"navigate"}}, 200},
		{"an image on a page of a stranger", http.MethodGet, "", http.Header{"Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Mode": {"no-cors"}}, 403},
		{"a page of a stranger that reads", http.MethodGet, "", http.Header{"Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Mode": {"cors"}}, 403},
		{"its own page reads", http.MethodGet, "", http.Header{"Sec-Fetch-Site": {"same-origin"}, "Sec-Fetch-Mode": {"cors"}}, 200},
	} {
		r, err := http.NewRequest(c.method, own+"/x", nil)
		must(t, err)
		r.Host = c.host
		for k, v := range c.header {
			r.Header[k] = v
		}
		before := served
		res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
		must(t, err)
		must(t, res.Body.Close())
		if res.StatusCode != c.want || (served > before) != (c.want == 200) || res.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %s, %v", c.name, res.Status, res.Header)
		}
	}
	if _, err := NewAdmin(AdminOptions{Addr: a.Addr().String()}); err == nil || !strings.Contains(err.Error(), "--listen-admin") {
		t.Errorf("a taken address: %v", err)
	}
	stop()
	must(t, <-ended)
}

// serveAdmin serves h to operators, with room for a number of connections.
func serveAdmin(t *testing.T, room int, h http.HandlerFunc) *Admin {
	t.Helper()
	a, err := NewAdmin(AdminOptions{
		Addr: "127.0.0.1:0", Handler: h, Access: func() *Access { return &Access{} }, MaxHTTP: room, Log: slog.New(slog.DiscardHandler),
	})
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		must(t, <-ended)
	})
	return a
}

// silences are the ways in which a program opens a connection to an Admin and says nothing then. Each
// returns when the server waits for more.
var silences = map[string]func(t *testing.T, nc net.Conn, host string){
	"no word":       func(*testing.T, net.Conn, string) {},
	"half a header": func(t *testing.T, nc net.Conn, host string) { say(t, nc, "POST /body HTTP/1.1\r\nHost: "+host+"\r\n") },
	"half a body": func(t *testing.T, nc net.Conn, host string) {
		say(t, nc, "POST /body HTTP/1.1\r\nHost: "+host+"\r\nContent-Length: 9\r\n\r\n1234")
	},
	"an answer that nobody reads": func(t *testing.T, nc net.Conn, host string) {
		say(t, nc, "GET /long HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
	},
	"idle after a request": func(t *testing.T, nc net.Conn, host string) {
		say(t, nc, "GET / HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
		must(t, nc.SetReadDeadline(eventually.Deadline()))
		res, err := http.ReadResponse(bufio.NewReader(nc), nil)
		must(t, err)
		must(t, res.Body.Close())
	},
	"HTTP/2 without streams": func(t *testing.T, nc net.Conn, _ string) {
		say(t, nc, http2.ClientPreface)
		f := http2.NewFramer(nc, nc)
		must(t, f.WriteSettings())
		must(t, nc.SetReadDeadline(eventually.Deadline()))
		_, err := f.ReadFrame()
		must(t, err)
	},
}

func say(t *testing.T, nc net.Conn, text string) {
	t.Helper()
	_, err := io.WriteString(nc, text)
	must(t, err)
}

// ask has an operator ask a over a new connection.
func ask(a *Admin, path string) error {
	c := http.Client{Timeout: eventually.Limit, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := c.Get("http://" + a.Addr().String() + path)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		err = fmt.Errorf("answer %s", res.Status)
	}
	return errors.Join(err, res.Body.Close())
}

// An operator is answered although a program of the host has opened a thousand connections and says
// nothing: each connection makes room for a later one, long before the server's times for requests
// are over.
func TestSilentConnectionsHoldNoOperatorUp(t *testing.T) {
	for name, fallSilent := range silences {
		t.Run(name, func(t *testing.T) {
			const room = 16
			a := serveAdmin(t, room, func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/body":
					_, _ = io.Copy(io.Discard, r.Body)
				case "/long":
					for err := error(nil); err == nil; {
						_, err = w.Write(make([]byte, 64<<10))
					}
				}
			})
			connections := 1000
			if name == "an answer that nobody reads" { // the kernel takes megabytes for each
				connections = 3 * room
			}
			for i := range connections {
				nc, err := net.Dial("tcp", a.Addr().String())
				must(t, err)
				t.Cleanup(func() { _ = nc.Close() })
				fallSilent(t, nc, a.Addr().String())
				if i%100 == 2*room {
					must(t, ask(a, "/"))
				}
			}
			must(t, ask(a, "/"))
			a.limits.mu.Lock()
			held := int(a.limits.all[ofHTTP])
			a.limits.mu.Unlock()
			if held < room-1 || held > room { // that of the operator is gone, or about to be
				t.Errorf("%d connections are held, want as many as there is room for: a time of the server has ended them", held)
			}
		})
	}
}

// Only a request of an operator keeps its place when a new connection comes, and the new one waits
// for its end then.
func TestOnlyRequestsOfOperatorsKeepTheirPlaces(t *testing.T) {
	for name, c := range map[string]struct {
		states []http.ConnState
		key    bool // the request after these states has one
		keeps  bool
	}{
		"a new connection":                {states: []http.ConnState{http.StateNew}},
		"a request of a stranger":         {states: []http.ConnState{http.StateNew, http.StateActive}},
		"a connection after its request":  {states: []http.ConnState{http.StateNew, http.StateActive, http.StateIdle}},
		"a request of an operator":        {states: []http.ConnState{http.StateNew, http.StateActive}, key: true, keeps: true},
		"another one after it was silent": {states: []http.ConnState{http.StateNew, http.StateActive, http.StateIdle, http.StateActive}, key: true, keeps: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			a := &Admin{limits: newLimits(nil), freed: make(chan struct{}, 1)}
			a.limits.maxHTTP = 1
			nc, peer := net.Pipe()
			enter := func(done <-chan struct{}) *place {
				return a.enter(netip.IPv6Loopback(), func() { _ = nc.Close() }, done)
			}
			first := enter(nil)
			for _, state := range c.states {
				a.note(first, state)
			}
			if c.key {
				rate.Vouch(rate.WithVoucher(t.Context(), first))
			}
			entered := make(chan *place, 1)
			done := make(chan struct{})
			go func() { entered <- enter(done) }()
			synctest.Wait()
			if waits := len(entered) == 0; waits != c.keeps {
				t.Errorf("%s: a later connection waits %v, want %v", name, waits, c.keeps)
			}
			_ = peer.SetReadDeadline(time.Now().Add(time.Second))
			if _, err := peer.Read(make([]byte, 1)); errors.Is(err, io.EOF) == c.keeps {
				t.Errorf("%s: the connection reads %v", name, err)
			}
			if c.keeps {
				a.note(first, http.StateIdle)
			} else {
				a.note(first, http.StateClosed)
			}
			late := <-entered
			if late == nil {
				t.Fatalf("%s: the later connection gets no place", name)
			}
			a.note(late, http.StateNew)
			rate.Vouch(rate.WithVoucher(t.Context(), late))
			go func() { entered <- enter(done) }()
			synctest.Wait()
			close(done)
			if <-entered != nil {
				t.Errorf("%s: there is a place at the end of the server", name)
			}
		})
	}
}

// A request of an operator goes on whatever comes after it, and when all connections serve operators
// a new one waits for its turn.
func TestRequestsOfOperatorsKeepTheirConnections(t *testing.T) {
	const room = 4
	begun, end := make(chan struct{}), make(chan struct{})
	a := serveAdmin(t, room, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/key" {
			rate.Vouch(r.Context())
			begun <- struct{}{}
			<-end
		}
	})
	answers := make(chan error, room+1)
	for range room {
		go func() { answers <- ask(a, "/key") }()
		eventually.Receive(t, "a request of an operator has begun", begun)
		for range 3 * room { // silent ones make room, not this
			nc, err := net.Dial("tcp", a.Addr().String())
			must(t, err)
			t.Cleanup(func() { _ = nc.Close() })
		}
	}
	go func() { answers <- ask(a, "/") }()
	select {
	case err := <-answers:
		t.Fatalf("one more is served than there is room for, or an operator is not: %v", err)
	default:
	}
	close(end)
	for range room + 1 {
		must(t, eventually.Receive(t, "an operator is answered", answers))
	}
}
