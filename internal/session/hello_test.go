package session_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Spec: P-3.4.
func TestWelcomeSaysWhatBinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.limits.WindowSends, w.limits.HistoryMessages = -1, 1000
		w.start()
		c := w.connect()
		c.send(hello(w.token("", "alice")))
		f := c.next()
		got := f.GetWelcome()
		if got == nil || got.Session == "" {
			t.Fatalf("frame %v, want a welcome with a session", f)
		}
		got.Session = ""
		want := &petrelv1.Welcome{
			Version: 1, User: "alice", Inbox: w.convs.IDs().Inbox(im.DefaultTenant, "alice").String(), HistoryId: fmt.Sprintf("%016x", w.o.HistoryID),
			ServerTimeMs: bubbleBegin, HeartbeatMs: 30000, HeartbeatMisses: 2, Server: "petrel/test", Capabilities: []string{"edit", "cursor", "focus", "newest", "call", "rel", "signal", "presence", "notes", "personal", "mentions", "large", "profiles"},
			Window: &petrelv1.Window{Sends: 1<<32 - 1, Bytes: 256 << 10}, Limits: &petrelv1.Limits{FrameBytes: uint32(wire.FrameLimit(1000)), BodyBytes: 1000, HistoryMessages: 200, OpenRequests: 16},
		}
		if d := cmp.Diff(want, got, protocmp.Transform()); d != "" || f.Id != 1 {
			t.Errorf("welcome of %d (-want +got):\n%s", f.Id, d)
		}
		if !c.s.Ready() || w.hub.Sessions.Load() != 1 {
			t.Errorf("ready %t, %d sessions", c.s.Ready(), w.hub.Sessions.Load())
		}
	})
}

// Spec: P-3.2.
func TestVersionRange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t).start()
		token := w.token("", "alice")
		for _, r := range []struct {
			from, to uint32
			ok       bool
		}{{1, 1, true}, {0, 1, true}, {1, 9, true}, {1, 1<<32 - 1, true}, {0, 0, false}, {2, 3, false}, {2, 1, false}, {1, 0, false}, {9, 9, false}} {
			c := w.connect()
			f := hello(token)
			f.GetHello().VersionMin, f.GetHello().VersionMax = r.from, r.to
			c.send(f)
			if r.ok {
				c.want("welcome of 1")
				continue
			}
			c.want("version_unsupported of 1")
			c.wantEnd(im.CodeVersionUnsupported)
		}
		// The version is checked before the token.
		c := w.connect()
		f := hello("wrong")
		f.GetHello().VersionMin = 2
		c.send(f)
		c.want("version_unsupported of 1")
	})
}

// Spec: P-3.3.
func TestBadTokenIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t).start()
		good := w.token("", "alice")
		for _, token := range []string{"", "pt_default.alice.x", good + "x", strings.ToUpper(good)} {
			c := w.connect()
			c.send(hello(token))
			c.want("unauthenticated of 1")
			c.wantEnd(im.CodeUnauthenticated)
			if len(w.table.Of(account("alice"))) != 0 || c.s.Ready() {
				t.Errorf("%q is in the table", token)
			}
			if c.send(ping(2)) {
				t.Error("a refused session takes frames")
			}
		}
		if n := w.hub.Refused.Load(); n != 4 {
			t.Errorf("%d hellos refused, want 4", n)
		}
	})
}

// Spec: P-3.1.
func TestLongTextsOfTheHelloAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t).start()
		token := w.token("", "alice")
		for what, change := range map[string]func(h *petrelv1.Hello, n int){
			"64 device": func(h *petrelv1.Hello, n int) { h.Device = strings.Repeat("x", n) }, "32 kind": func(h *petrelv1.Hello, n int) { h.DeviceKind = strings.Repeat("x", n) },
			"128 client": func(h *petrelv1.Hello, n int) { h.Client = strings.Repeat("x", n) },
		} {
			var limit int
			var field string
			if _, err := fmt.Sscan(what, &limit, &field); err != nil {
				t.Fatal(err)
			}
			c, f := w.connect(), hello(token)
			change(f.GetHello(), limit)
			c.send(f)
			c.want("welcome of 1")
			c, f = w.connect(), hello(token)
			change(f.GetHello(), limit+1)
			c.send(f)
			c.want("bad_frame of 1")
			c.wantEnd(im.CodeBadFrame)
		}
	})
}

func TestOnlyAHelloIsTakenFirstAndOnlyOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t).start()
		token := w.token("", "alice")
		id := w.group("team", "alice")
		for _, f := range []*petrelv1.ClientFrame{ping(2), text(2, id, "k", "early"), history(2, id), syncFrame(2, nil), {Id: 2, Body: &petrelv1.ClientFrame_Pong{Pong: &petrelv1.Pong{}}}} {
			c := w.connect()
			if c.send(f, hello(token)) {
				t.Errorf("%v was taken first", f)
			}
			c.want("kick hello_expected")
			c.wantEnd(im.CodeHelloExpected)
		}
		c := w.login(token)
		if c.send(hello(token)) {
			t.Error("a second hello was taken")
		}
		c.want("kick hello_expected")
		c.wantEnd(im.CodeHelloExpected)
		if got := w.texts(id); len(got) != 0 {
			t.Errorf("stored before a welcome: %v", got)
		}
	})
}

func TestFramesWhileTheHelloIsCheckedEndTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t).start()
		token := w.token("", "alice")
		id := w.group("team", "alice")
		for _, f := range []*petrelv1.ClientFrame{ping(2), text(2, id, "k", "early"), hello(token)} {
			in, out := make(chan struct{}, 16), make(chan struct{})
			w.store.onRecord(func(_ store.Table, _ []byte, after bool) error {
				if !after {
					in <- struct{}{}
					<-out
				}
				return nil
			})
			c := w.connect()
			if !c.send(hello(token)) {
				t.Fatal("the hello was refused")
			}
			eventually.Receive(t, "the hello reads the store", in)
			if c.send(f) {
				t.Errorf("%v was taken", f)
			}
			close(out)
			want := "wait for the welcome"
			if f.GetHello() != nil {
				want = "said hello already"
			}
			if k := c.next().GetKick(); k.GetCode() != string(im.CodeHelloExpected) || !strings.Contains(k.GetMessage(), want) {
				t.Errorf("%v is answered %v, want a kick that says %q", f, k, want)
			}
			settled(t, "the hello has been checked", func() bool { return c.s.Ready() })
			c.wantEnd(im.CodeHelloExpected)
			c.close()
			if n := len(w.table.Of(account("alice"))); n != 0 || w.hub.Sessions.Load() != 0 {
				t.Errorf("%d outboxes stay in the table, %d sessions", n, w.hub.Sessions.Load())
			}
			w.store.onRecord(nil)
		}
		if got := w.texts(id); len(got) != 0 {
			t.Errorf("stored before a welcome: %v", got)
		}
	})
}

// Spec: P-9.1.
func TestConnectionsOfAUserAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.limits.ConnectionsPerUser = 2
		w.start()
		token, other := w.token("", "alice"), w.token("acme", "alice")
		first := w.login(token)
		w.login(w.token("", "alice")) // the limit is for the user, not for the token
		c := w.connect()
		c.send(hello(token))
		f := c.next()
		if e := f.GetError(); f.Id != 1 || e.GetCode() != string(im.CodeTooManyConnections) || e.GetRetryAfterMs() == 0 || !e.GetRetryable() {
			t.Errorf("the third connection gets %v, want %s and a time to wait", f, im.CodeTooManyConnections)
		}
		c.wantEnd(im.CodeTooManyConnections)
		c.close()
		if n := len(w.table.Of(account("alice"))); n != 2 {
			t.Errorf("%d connections are in the table, want 2", n)
		}
		w.login(other)
		first.close()
		w.login(token)
	})
}

func TestTooManyHellosAtOnceAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.o.Hellos, w.o.Waiting = 1, 1
		w.start()
		token := w.token("", "alice")
		in, out := make(chan struct{}, 64), make(chan struct{})
		w.store.onRecord(func(_ store.Table, _ []byte, after bool) error {
			in <- struct{}{}
			<-out
			return nil
		})
		a, b, c := w.connect(), w.connect(), w.connect()
		a.send(hello(token))
		eventually.Receive(t, "the first hello reads the store", in) // a worker has the first hello
		b.send(hello(token))
		c.send(hello(token))
		c.want("too_many_connections of 1")
		c.wantEnd(im.CodeTooManyConnections)
		close(out)
		a.want("welcome of 1")
		b.want("welcome of 1")
	})
}

// Spec: P-9.3.
func TestDrainingHubTakesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t).start()
		token := w.token("", "alice")
		id := w.group("team", "alice")
		old := w.login(token)
		w.hub.Drain()
		c := w.connect()
		c.send(hello(token))
		if f := c.next(); f.Id != 1 || f.GetError().GetCode() != string(im.CodeDraining) || f.GetError().GetRetryAfterMs() == 0 {
			t.Errorf("hello gets %v, want %s", f, im.CodeDraining)
		}
		c.wantEnd(im.CodeDraining)
		old.send(text(2, id, "k", "late"), ping(3))
		if f := old.next(); f.Id != 2 || f.GetError().GetCode() != string(im.CodeDraining) || f.GetError().GetSettled() || f.GetError().GetRetryAfterMs() == 0 {
			t.Errorf("a send gets %v, want %s", f, im.CodeDraining)
		}
		old.want("pong of 3")
		if got := w.texts(id); len(got) != 0 {
			t.Errorf("stored while draining: %v", got)
		}
	})
}

// A token is revoked at any moment of a login, and the session ends. The revocation
// becomes durable and then reads the table; the login enters the table and then reads
// the token again. Spec: P-3.5.
func TestRevocationRacingALogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		for at := 1; at <= 5; at++ { // a login reads the token and the user, twice
			w := newWorld(t).start()
			token := w.token("", "alice")
			w.login(w.token("acme", "alice"))
			var calls atomic.Int32
			w.store.onRecord(func(_ store.Table, _ []byte, after bool) error {
				if after && int(calls.Add(1)) == at {
					w.store.onRecord(nil)
					if err := w.users.Revoke(context.Background(), account("alice")); err != nil {
						t.Error(err)
					}
					if _, err := w.hub.CloseUser(context.Background(), account("alice"), im.CodeRevoked); err != nil {
						t.Error(err)
					}
				}
				return nil
			})
			c := w.connect()
			c.send(hello(token))
			got := show(c.next())
			switch {
			case int(calls.Load()) < at: // the login ended before that read
				if got != "welcome of 1" {
					t.Errorf("login gets %s", got)
				}
				if n, err := w.hub.CloseUser(context.Background(), account("alice"), im.CodeRevoked); err != nil || n != 1 {
					t.Errorf("closed %d sessions, %v; want 1", n, err)
				}
				c.want("kick revoked")
			case got == "unauthenticated of 1" || got == "kick revoked":
				reads = at
			case got == "welcome of 1": // revoked after the last read of the token, so the session must be ended by the table
				c.want("kick revoked")
				reads = at
			default:
				t.Errorf("revoked after read %d: login gets %s", at, got)
			}
			c.take()
			if c.end == nil {
				t.Errorf("revoked after read %d: the connection stays", at)
			}
			w.stop()
		}
		if reads < 4 {
			t.Errorf("a login has %d reads: it does not read its token again after it entered the table", reads)
		}
	})
}

// A connection goes away at any moment of its hello, and nothing of it stays.
func TestConnectionThatGoesWhileItsHelloIsChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for at := 1; at <= 8; at++ {
			w := newWorld(t).start()
			token := w.token("", "alice")
			in, out := make(chan struct{}), make(chan struct{})
			var calls atomic.Int32
			w.store.onRecord(func(store.Table, []byte, bool) error {
				if int(calls.Add(1)) == at {
					in <- struct{}{}
					<-out
				}
				return nil
			})
			c := w.connect()
			c.send(hello(token))
			eventually.Receive(t, "the hello reads the store", in)
			c.close()
			close(out)
			w.store.onRecord(nil)
			w.login(w.token("", "bob"))
			w.stop() // returns when the workers have ended
			if n := len(w.table.Of(account("alice"))); n != 0 || w.hub.Sessions.Load() != 1 {
				t.Errorf("gone at look-up %d: %d outboxes stay in the table, %d sessions", at, n, w.hub.Sessions.Load())
			}
		}
	})
}

func TestBrokenStoreDuringAHelloIsInternal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t).start()
		token := w.token("", "alice")
		w.store.onRecord(func(store.Table, []byte, bool) error { return errDisk })
		c := w.connect()
		c.send(hello(token))
		f := c.next()
		e := f.GetError()
		if e.GetCode() != string(im.CodeInternal) || e.GetRequestId() == "" || strings.Contains(e.String(), errDisk.Error()) {
			t.Errorf("hello gets %v, want %s with a request id and without the cause", f, im.CodeInternal)
		}
		if log := w.log.String(); !strings.Contains(log, e.GetRequestId()) || !strings.Contains(log, errDisk.Error()) || strings.Contains(log, token) {
			t.Errorf("log: %s; want the request id %s and the cause, and no token", log, e.GetRequestId())
		}
		c.wantEnd(im.CodeInternal)
	})
}

func TestPanicOfOneSessionEndsOnlyThatOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.o.Hellos = 1
		w.start()
		token := w.token("", "alice")
		bob := w.login(w.token("", "bob"))
		w.store.onRecord(func(store.Table, []byte, bool) error { panic("broken invariant") })
		c := w.connect()
		c.send(hello(token))
		c.want("kick internal")
		c.wantEnd(im.CodeInternal)
		w.store.onRecord(nil)
		bob.send(syncFrame(2, nil))
		bob.want("sync of 0 of 2")
		if log := w.log.String(); !strings.Contains(log, "broken invariant") || !strings.Contains(log, "hello_test.go") {
			t.Errorf("log: %s; want the panic and its stack", log)
		}
	})
}

func TestCloseUserEndsTheSessionsOfOneUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t).start()
		token := w.token("", "alice")
		one, two := w.login(token), w.login(token)
		bob, other := w.login(w.token("", "bob")), w.login(w.token("acme", "alice"))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if n, err := w.hub.CloseUser(ctx, account("alice"), im.CodeRevoked); n != 2 || err != nil {
			t.Errorf("closed %d sessions, %v; want 2", n, err)
		}
		for _, c := range []*client{one, two} {
			f := c.next()
			if k := f.GetKick(); k.GetCode() != string(im.CodeRevoked) || k.GetReconnect() {
				t.Errorf("frame %v, want a kick for good", f)
			}
			c.wantEnd(im.CodeRevoked)
		}
		bob.wantNothing()
		other.wantNothing()
		acme, err := w.users.Tenant(ctx, "acme")
		w.must(err)
		if n, err := w.hub.CloseUser(ctx, im.Account{Tenant: acme, User: "alice"}, im.CodeReplaced); n != 1 || err != nil {
			t.Errorf("closed %d sessions of another tenant, %v; want 1", n, err)
		}
		other.want("kick replaced")
		if n, err := w.hub.CloseUser(ctx, account("nobody"), im.CodeRevoked); n != 0 || err != nil {
			t.Errorf("closed %d sessions of a user who has none, %v", n, err)
		}
		cancel() // the caller hangs up
		if n, err := w.hub.CloseUser(ctx, account("bob"), im.CodeRevoked); n != 1 || err != nil {
			t.Errorf("closed %d sessions for a caller who went away, %v; want 1", n, err)
		}
		bob.want("kick revoked")
	})
}

// A node that does not answer keeps its own sessions. Those of other nodes end.
func TestNodeThatDoesNotAnswerHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t).start()
		if _, err := w.net.Join("dead"); err != nil {
			t.Fatal(err)
		}
		alice := w.login(w.token("", "alice"))
		begun := time.Now()
		ended := make(chan error, 1)
		go func() {
			_, err := w.hub.CloseUser(context.Background(), account("alice"), im.CodeRevoked)
			ended <- err
		}()
		alice.want("kick revoked")
		if took := time.Since(begun); took != 0 {
			t.Errorf("alice is kicked after %s, want at once", took)
		}
		err := eventually.Receive(t, "the call ends", ended)
		if took := time.Since(begun); err == nil || took != 2*time.Second { // which a node has to answer
			t.Errorf("the call ends after %s with %v, want an error after 2 s", took, err)
		}
	})
}
