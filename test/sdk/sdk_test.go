// Package sdk tests the Go SDK against the real server.
package sdk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/petrel-im/petrel/internal/imtest"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/wire"
	petrel "github.com/petrel-im/petrel/sdk/go"
)

func TestMain(m *testing.M) {
	imtest.ServeChild()
	removed := goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(programs.dir) // "" if no test has built them; remains are in the system's temporary folder
		os.Exit(code)
	})
	goleak.VerifyTestMain(m, removed, // goroutines that a package of the event loop starts once and keeps
		goleak.IgnoreAnyFunction("github.com/panjf2000/ants/v2.(*poolCommon).purgeStaleWorkers"),
		goleak.IgnoreAnyFunction("github.com/panjf2000/ants/v2.(*poolCommon).ticktock"))
}

// device is one client that runs until the test ends or stop is called.
type device struct {
	*petrel.Client
	t    testing.TB
	stop func()
}

// run starts a client; it must not end by itself.
func run(t testing.TB, o petrel.Options) *device {
	t.Helper()
	c, err := petrel.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	d := &device{Client: c, t: t}
	stopped := false
	d.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := eventually.Receive(t, "the end of the client", ended); err != nil {
			t.Errorf("run: %v", err)
		}
	}
	t.Cleanup(d.stop)
	return d
}

// until waits, change by change, for cond.
func (d *device) until(what string, cond func() bool) {
	d.t.Helper()
	ctx := eventually.Context(d.t)
	s := d.Subscribe()
	defer s.Close()
	for !cond() {
		if _, err := s.Next(ctx); err != nil {
			if errors.Is(err, context.DeadlineExceeded) && cond() {
				d.t.Fatalf("%s: it is so, and no change told of it", what)
			}
			d.t.Fatalf("not within %v: %s; status %+v", eventually.Limit, what, d.Status())
		}
	}
}

func (d *device) synced() *device {
	d.t.Helper()
	d.until("synced", func() bool { return d.Status().Synced })
	return d
}

// texts are the messages with a text that the client shows.
func (d *device) texts(conv string) []string {
	var out []string
	for _, m := range d.Messages(conv, 0, 0) {
		if t := m.GetText(); t != "" {
			out = append(out, t)
		}
	}
	return out
}

// connections are all ways to speak to a server.
var connections = []struct {
	name string
	f    wire.Framing
	json bool
	tls  bool
}{
	{"WebSocketProto", wire.WebSocket, false, false},
	{"WebSocketJSON", wire.WebSocket, true, false},
	{"TCPProto", wire.TCP, false, false},
	{"TCPJSON", wire.TCP, true, false},
	{"WebSocketTLS", wire.WebSocket, false, true},
	{"TCPTLS", wire.TCP, false, true},
}

func TestTwoUsersTalkOverEveryTransport(t *testing.T) {
	servers := map[bool]*imtest.Server{false: imtest.Start(t, imtest.Options{}), true: imtest.Start(t, imtest.Options{TLS: true})}
	for _, k := range connections {
		t.Run(k.name, func(t *testing.T) {
			s := servers[k.tls].For(t)
			tokens := s.Users(k.name, "alice", "bob")
			o := petrel.Options{URL: s.URL(k.f), JSON: k.json, TLS: s.TLS()}
			o.Token = petrel.StaticToken(tokens[0])
			alice := run(t, o).synced()
			o.Token = petrel.StaticToken(tokens[1])
			bob := run(t, o).synced()

			ctx := eventually.Context(t)
			var want []string
			for i := range 20 {
				from, to := alice, "bob"
				if i%2 == 1 {
					from, to = bob, "alice"
				}
				text := fmt.Sprint("message ", i)
				o, err := from.Send(petrel.Draft{User: to, Text: text})
				if err != nil {
					t.Fatal(err)
				}
				if seq, err := o.Wait(ctx); err != nil || seq != uint64(i+1) {
					t.Fatalf("send %d: got seq %d, %v", i, seq, err)
				}
				want = append(want, text)
			}
			for _, d := range []*device{alice, bob} {
				d.until("all messages in order", func() bool {
					for _, v := range d.Conversations() {
						if fmt.Sprint(d.texts(v.ID)) == fmt.Sprint(want) && len(d.Pending(v.ID)) == 0 {
							return true
						}
					}
					return false
				})
			}
		})
	}
}

// A frame that the server does not take costs only its message, and no later one. Spec:
// P-2.3, P-2.5, P-4.2.
func TestEveryBodyIsStoredOrRejected(t *testing.T) {
	s := imtest.Start(t, imtest.Options{})
	tokens := s.Users("", "alice", "bob")
	for i, json := range []bool{true, false} {
		alice := run(t, petrel.Options{URL: s.URL(wire.TCP), JSON: json, Token: petrel.StaticToken(tokens[i]), Device: fmt.Sprint("device-", i)}).synced()
		to := []string{"bob", "alice"}[i]
		var all []*petrel.Outgoing
		drafts := []struct {
			petrel.Draft
			code string // of the rejection; "": it is stored
		}{
			{petrel.Draft{Text: strings.Repeat(`"`, 40_000)}, ""}, {petrel.Draft{Text: strings.Repeat("\x01", 48<<10)}, ""},
			{petrel.Draft{Data: bytes.Repeat([]byte{0xff}, 48<<10)}, ""}, {petrel.Draft{Text: strings.Repeat("\x01", 48<<10+1)}, petrel.CodeTooLarge},
			{petrel.Draft{Text: strings.Repeat("x", 1<<20)}, petrel.CodeTooLarge},
			{petrel.Draft{Text: "after all of these"}, ""},
		}
		for _, d := range drafts {
			d.User = to
			o, err := alice.Send(d.Draft)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, o)
		}
		ctx := eventually.Context(t)
		for n, o := range all {
			_, err := o.Wait(ctx)
			if petrel.CodeOf(err) != drafts[n].code || (err == nil) != (drafts[n].code == "") {
				t.Errorf("JSON %t, draft %d: %v, want %q", json, n, err, drafts[n].code)
			}
		}
	}
}
