package passenger

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/internal/imtest"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/imtest/standstill"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// rides are ways to start a passenger: each SDK, and each codec.
func rides(t *testing.T) map[string]func(Options) *Passenger {
	t.Helper()
	node := StartNode(t)
	return map[string]func(Options) *Passenger{
		"Go": func(o Options) *Passenger { return Go(t, o) },
		"Go-protobuf": func(o Options) *Passenger {
			o.Protobuf = true
			return Go(t, o)
		},
		"TypeScript": node.Passenger,
	}
}

func host(s *imtest.Server) string { return strings.TrimPrefix(s.URL(wire.WebSocket), "ws://") }

// number is a variable of the environment; without it, `otherwise`.
func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	v := os.Getenv(name)
	if v == "" {
		return otherwise
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// awaitAcks waits until n messages have their ack. It waits twice, because pages that a
// client reads first take 40 s over a slow link.
func awaitAcks(t *testing.T, name string, p *Passenger, n int) {
	t.Helper()
	acked := func() int { all, _, _ := p.Acked(); return all }
	have := func() bool { return acked() >= n }
	held := eventually.Holds(have)
	if !held {
		held = eventually.Holds(have)
	}
	if !held {
		t.Fatalf("%s: %d messages have an ack, want %d", name, acked(), n)
	}
}

// awaitPongs waits until a client has answered n pings since the last Forget.
func awaitPongs(t *testing.T, name string, k *Link, n int) {
	t.Helper()
	if !eventually.Holds(func() bool { client, _ := k.Sent(); return client["pong"] >= n }) {
		client, server := k.Sent()
		t.Fatalf("%s: sent %v, received %v, want %d pongs", name, client, server, n)
	}
}

// A message of 48 KiB takes 8 s over a link of 50 kbit/s, and the pong waits behind it. That
// is no failure. Spec: S-5.4, S-5.7.
func TestSlowLinkIsNotLeft(t *testing.T) {
	t.Parallel()
	const rate, bytes = 50_000, 48 << 10
	count := number(t, "PETREL_SLOW_SENDS", 2)
	s := imtest.Start(t, imtest.Options{Process: true})
	s.Users("", "a", "b", "c", "d")
	least := time.Duration(count) * bytes * 8 * time.Second / rate
	type run struct {
		*Passenger
		*Link
	}
	runs := map[string]run{}
	for ride, start := range rides(t) {
		for name, to := range map[string][]string{"one conversation": {"a"}, "four conversations": {"a", "b", "c", "d"}} {
			user := strings.ToLower(ride) + "-" + to[len(to)-1]
			link := NewLink(t, host(s), rate)
			o := Options{Name: user, URL: "ws://" + link.Addr, Token: s.Users("", user)[0], To: to, Count: count, Bytes: bytes}
			runs[ride+", "+name] = run{start(o), link}
		}
	}
	for name, r := range runs {
		for n := range count {
			awaitAcks(t, name, r.Passenger, n+1)
		}
		longest := r.Longest()
		client, server := r.Sent()
		t.Logf("%s: %d messages of %d KiB, the last ack came after %v; sent %v; received %v", name, count, bytes>>10, longest.Round(time.Millisecond), client, server)
		if longest < least {
			t.Errorf("%s: the last ack came after %v, which takes %v at least: the link is not slow", name, longest, least)
		}
		if at := r.Connections(); len(at) != 1 {
			t.Errorf("%s: the client connected %d times", name, len(at))
		}
	}
}

// Messages of 48 KiB take 8 s each also on their way to the client: a page of them, and one
// that is pushed while the client waits for acks. That is no failure either. Spec: P-7.4, S-5.7.
func TestPagesOverSlowLinkDoNotEndIt(t *testing.T) {
	t.Parallel()
	const rate, bytes, page = 50_000, 48 << 10, 2
	s := imtest.Start(t, imtest.Options{Process: true})
	s.Users("", "bob")
	tell := func(user string) {
		q := &petrelv1.SendAsRequest{From: "bob", Send: &petrelv1.Send{User: user, ClientMsgId: rand.Text(), Body: &petrelv1.Send_Text{Text: strings.Repeat("x", bytes)}}}
		eventually.Answer(t, "bob writes to "+user, func(ctx context.Context) (proto.Message, error) {
			return s.Call(ctx, imtest.ByJSON, "petrel.v1.AdminService/SendAs", s.Key(), q)
		})
	}
	var machine standstill.Machine
	go machine.Watch(t.Context())
	links, passengers := map[string]*Link{}, map[string]*Passenger{}
	for ride, start := range rides(t) {
		link, user := NewLink(t, host(s), rate), strings.ToLower(ride)
		token := s.Users("", user)[0]
		for range page {
			tell(user)
		}
		links[ride] = link
		passengers[ride] = start(Options{Name: user, URL: "ws://" + link.Addr, Token: token, To: []string{user}, Every: 500 * time.Millisecond})
	}
	for ride, p := range passengers {
		awaitAcks(t, ride, p, 1) // the first sync has ended
		if _, server := links[ride].Sent(); server["sync"] == 0 {
			t.Errorf("%s: the first ack came before the page: received %v", ride, server)
		}
		tell(p.Name)
	}
	for ride, p := range passengers {
		all, _, _ := p.Acked()
		_, before := links[ride].Sent()
		eventually.True(t, ride+": what was pushed comes", func() bool {
			now, _, _ := p.Acked()
			_, server := links[ride].Sent()
			return now >= all+10 && server["events"] > 0
		})
		_, server := links[ride].Sent()
		t.Logf("%s: longest wait for an ack %v; received %v, then %v", ride, p.Longest().Round(time.Millisecond), before, server)
		if at := p.Connections(); len(at) != 1 {
			// A client that stands still for most of the 2 s in which a pong should come gives up.
			if stood := machine.Longest(); stood > time.Second {
				t.Logf("%s: the client connected %d times; the machine stood still for %v", ride, len(at), stood)
			} else {
				t.Errorf("%s: the client connected %d times", ride, len(at))
			}
		}
		if large := server["large"]; (large > 0) != (ride == "TypeScript") {
			t.Errorf("%s: %d large frames were announced", ride, large)
		}
	}
}

// Spec: S-5.5, P-7.1.
func TestIdleClientSendsNothingButPongs(t *testing.T) {
	t.Parallel()
	seconds, silence := number(t, "PETREL_IDLE_SECONDS", 12), 6 // a client that hears nothing for half as long again asks itself: S-5.5
	if seconds >= 60 {
		silence = 30 // what it is by itself
	}
	pings := seconds / silence
	s := imtest.Start(t, imtest.Options{Process: true, Config: map[string]string{"heartbeat.silence": fmt.Sprintf("%ds", silence)}})
	s.Users("", "friend")
	links, passengers := map[string]*Link{}, map[string]*Passenger{}
	for ride, start := range rides(t) {
		link, user := NewLink(t, host(s), 0), strings.ToLower(ride)
		links[ride] = link
		passengers[ride] = start(Options{Name: user, URL: "ws://" + link.Addr, Token: s.Users("", user)[0], To: []string{"friend"}, Count: 3})
	}
	for ride, p := range passengers {
		awaitAcks(t, ride, p, 3)
	}
	for ride, link := range links { // cursors are told some time after the acks
		for idle := false; !idle; {
			link.Forget()
			awaitPongs(t, ride, link, 1)
			client, _ := link.Sent()
			idle = len(client) == 1
		}
	}
	for _, link := range links {
		link.Forget()
	}
	for ride, link := range links {
		for n := range pings {
			awaitPongs(t, ride, link, n+1)
		}
	}
	for ride, p := range passengers {
		client, server := links[ride].Sent()
		p.Stop()
		t.Logf("%s, %d pings, one after %d s: sent %v; received %v", ride, pings, silence, client, server)
		if ride == "TypeScript" {
			t.Logf("%s: %d timers fired since its start", ride, p.Timers())
		}
		if len(client) != 1 {
			t.Errorf("%s: an idle client sent %v, want pongs and nothing else", ride, client)
		}
		if server["ping"] == 0 || len(server) != 1 {
			t.Errorf("%s: the server sent %v to an idle client, want pings and nothing else", ride, server)
		}
		if at := p.Connections(); len(at) != 1 {
			t.Errorf("%s: the client connected %d times", ride, len(at))
		}
	}
}
