package session_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/inbox"
	"github.com/petrel-im/petrel/internal/session"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/user"
)

// device logs a phone of alice in. It does not end the sessions of earlier logins.
func (w *world) device(id string) *user.Login {
	w.t.Helper()
	l, err := w.users.Mint(context.Background(), "", "alice", user.DeviceRef{ID: id, Kind: "phone"}, 0)
	w.must(err)
	return l
}

// replace ends the sessions that a login replaces, and returns how many there were. The
// API does this before it answers the login.
func (w *world) replace(l *user.Login) int {
	w.t.Helper()
	total := 0
	for _, d := range l.Ended {
		n, err := w.hub.CloseDevice(context.Background(), l.Account, d, im.CodeReplaced)
		w.must(err)
		total += n
	}
	return total
}

// wantSessions checks how many sessions alice has on each device.
func (w *world) wantSessions(want map[string]int) {
	w.t.Helper()
	got, err := w.hub.SessionsOf(context.Background(), account("alice"))
	w.must(err)
	if d := cmp.Diff(want, got); d != "" {
		w.t.Errorf("sessions by device (-want +got):\n%s", d)
	}
}

func TestSessionIsOfTheTokensDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t).start()
		l := w.device("phone-1")
		f := hello(l.Access)
		f.GetHello().Device, f.GetHello().Client = "what the hello says", "example/1"
		c := w.connect()
		c.send(f)
		c.want("welcome of 1")
		want := user.Identity{Account: account("alice"), Device: "phone-1", Kind: "phone", Login: 1}
		if got := c.s.Identity(); got != want || c.s.Out.Device != "phone-1" || c.s.Out.Login != 1 {
			t.Errorf("identity %+v, outbox of device %q, login %d; want %+v", got, c.s.Out.Device, c.s.Out.Login, want)
		}
		settled(t, "the client is noted", func() bool {
			d, err := w.users.Devices(context.Background(), account("alice"))
			w.must(err)
			return d[0].Client == "example/1"
		})
		w.login(l.Access)
		w.login(w.token("", "alice"))
		w.wantSessions(map[string]int{"phone-1": 2, "": 1})
	})
}

// Spec: P-11.3.
func TestSessionOutlivesItsAccessToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t).start()
		l := w.device("phone-1")
		c := w.login(l.Access)
		pass(2 * time.Hour)
		c.send(ping(2), syncFrame(3, nil))
		c.want("pong of 2", "sync of 0 of 3")
		late := w.connect()
		late.send(hello(l.Access))
		late.want("unauthenticated of 1")
	})
}

// Spec: P-11.5.
func TestRevokedDeviceIsKickedAndRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t).start()
		l := w.device("phone-1")
		laptop, err := w.users.Mint(context.Background(), "", "alice", user.DeviceRef{ID: "laptop", Kind: "desktop"}, 0)
		w.must(err)
		one, two, other, unbound := w.login(l.Access), w.login(l.Access), w.login(laptop.Access), w.login(w.token("", "alice"))
		w.must(w.users.RevokeDevice(context.Background(), account("alice"), "phone-1"))
		if n, err := w.hub.CloseDevice(context.Background(), account("alice"), "phone-1", im.CodeRevoked); n != 2 || err != nil {
			t.Errorf("closed %d sessions, %v; want 2", n, err)
		}
		for _, c := range []*client{one, two} {
			c.want("kick revoked")
			c.wantEnd(im.CodeRevoked)
			c.close()
		}
		other.wantNothing()
		unbound.wantNothing()
		back := w.connect()
		back.send(hello(l.Access))
		back.want("revoked of 1")
		back.wantEnd(im.CodeRevoked)
		if n, err := w.hub.CloseDevice(context.Background(), account("alice"), "", im.CodeRevoked); n != 1 || err != nil {
			t.Errorf("closed %d sessions without a device, %v; want 1", n, err)
		}
		unbound.want("kick revoked")
		other.wantNothing()
		unbound.close()
		w.wantSessions(map[string]int{"laptop": 1})
	})
}

// Spec: P-11.4.
func TestReplacedDeviceIsRefusedAsSuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t).start()
		one := w.device("phone-1")
		w.replace(w.device("phone-2"))
		c := w.connect()
		c.send(hello(one.Access))
		f := c.next()
		if e := f.GetError(); f.Id != 1 || e.GetCode() != string(im.CodeReplaced) || e.GetRetryable() {
			t.Errorf("hello gets %v, want %s", f, im.CodeReplaced)
		}
		c.wantEnd(im.CodeReplaced)
		if code := im.CodeReplaced.Info().Close; code != 4411 {
			t.Errorf("close code %d", code)
		}
	})
}

// F11 with F2: a second login of the kind comes at any moment of the hello of the first
// one. Only the session of the second login stays. The login becomes durable and then
// ends the sessions in the table; the hello enters the table and then looks at its
// login again. Spec: P-11.4.
func TestF11TheLowerLoginLosesWhereverItsHelloStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		for at := 1; at <= 13; at++ { // before and after each read of a hello
			w := newWorld(t).start()
			low := w.device("phone-1")
			var high *user.Login
			newer := func() {
				high = w.device("phone-2")
				if high.Number <= low.Number || !slices.Equal(high.Ended, []string{"phone-1"}) {
					t.Errorf("second login %+v", high)
				}
				w.replace(high)
			}
			var calls atomic.Int32
			w.store.onRecord(func(store.Table, []byte, bool) error {
				if int(calls.Add(1)) == at {
					w.store.onRecord(nil)
					newer()
				}
				return nil
			})
			c := w.connect()
			c.send(hello(low.Access))
			got := show(c.next())
			if int(calls.Load()) >= at {
				reads = at
			} else { // the hello ended before that read
				if got != "welcome of 1" {
					t.Errorf("hello gets %s", got)
				}
				w.store.onRecord(nil)
				newer()
			}
			if got == "welcome of 1" {
				got = show(c.next())
			}
			if got != "replaced of 1" && got != "kick replaced" {
				t.Errorf("replaced at step %d of its hello: %s", at, got)
			}
			if c.take(); c.end == nil || c.end.Code != im.CodeReplaced {
				t.Errorf("replaced at step %d of its hello: the connection ends with %v", at, c.end)
			}
			c.close()
			winner := w.login(high.Access)
			winner.send(ping(2))
			winner.want("pong of 2")
			w.wantSessions(map[string]int{"phone-2": 1})
			w.stop()
		}
		if reads != 12 {
			t.Errorf("a hello has %d steps: it does not read its token again after it entered the table", reads)
		}
	})
}

// F11: two devices of one kind log in, and get numbers one after the other. However late
// the first login ends sessions, and wherever the hellos are in between, exactly the
// session of the higher number is open in the end.
func TestF11EveryOrderOfTwoLoginsLeavesTheHigherNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// The steps of each login, in this order: it becomes durable, ends sessions, is
		// answered, and its client says hello.
		orders := merge([]string{"log in 1", "end 1", "hello 1"}, []string{"log in 2", "end 2", "hello 2"})
		seen := 0
		for _, order := range orders {
			if slices.Index(order, "log in 1") > slices.Index(order, "log in 2") {
				continue // or 2 would have the lower number
			}
			seen++
			w := newWorld(t).start()
			old := w.device("phone-2")
			oldSession := w.login(old.Access)
			logins, sessions := map[byte]*user.Login{}, map[byte]*client{}
			for _, step := range order {
				n := step[len(step)-1]
				switch step[:len(step)-2] {
				case "log in":
					logins[n] = w.device("phone-" + string(n))
				case "end":
					w.replace(logins[n])
				case "hello":
					sessions[n] = w.connect()
					sessions[n].send(hello(logins[n].Access))
					got := show(sessions[n].next())
					want := "welcome of 1"
					if n == '1' && logins['2'] != nil {
						want = "replaced of 1"
					}
					if got != want {
						t.Errorf("%q: hello %c gets %s, want %s", order, n, got, want)
					}
				}
			}
			for _, c := range []*client{oldSession, sessions['1']} {
				if c.take(); c.end == nil || c.end.Code != im.CodeReplaced {
					t.Errorf("%q: a lower number ends with %v", order, c.end)
				}
				c.close()
			}
			sessions['2'].wantNothing()
			w.wantSessions(map[string]int{"phone-2": 1})
			w.stop()
		}
		if seen != 10 {
			t.Errorf("%d orders, want 10", seen)
		}
	})
}

// merge returns all ways to merge two lists that keep the order of each.
func merge(a, b []string) [][]string {
	if len(a) == 0 || len(b) == 0 {
		return [][]string{slices.Concat(a, b)}
	}
	var all [][]string
	for _, rest := range merge(a[1:], b) {
		all = append(all, slices.Concat(a[:1], rest))
	}
	for _, rest := range merge(a, b[1:]) {
		all = append(all, slices.Concat(b[:1], rest))
	}
	return all
}

// A second login of a device ends the session of its first login, and no other.
func TestF11SecondLoginOfOneDeviceEndsItsEarlierSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t).start()
		one := w.device("phone-1")
		before := w.login(one.Access)
		two := w.device("phone-1")
		if n := w.replace(two); n != 1 {
			t.Errorf("the login ended %d sessions, want 1", n)
		}
		before.want("kick replaced")
		before.wantEnd(im.CodeReplaced)
		after := w.login(two.Access)
		if n := w.replace(two); n != 0 { // its connection is still there, but it is counted once
			t.Errorf("once more: ended %d sessions, want none", n)
		}
		after.wantNothing()
		stale := w.connect()
		stale.send(hello(one.Access))
		stale.want("unauthenticated of 1")
	})
}

// Spec: P-11.4.
func TestF11SessionsOfADeviceEndOnEveryNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t).start()
		table := fanout.NewTable()
		second := session.New(w.o, w.users, w.convs, w.router, &inbox.Syncer{Router: w.router, Store: w.store}, table, w.limits)
		b, err := w.net.Join("two")
		w.must(err)
		second.Attach(b)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 2)
		go func() { ended <- b.Run(ctx) }()
		go func() { ended <- second.Run(ctx) }()
		defer func() {
			cancel()
			for range 2 {
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}
		}()
		one := w.device("phone-1")
		here := w.login(one.Access)
		first := w.hub
		w.hub = second
		there, unbound := w.login(one.Access), w.login(w.token("", "alice"))
		w.hub = first
		w.wantSessions(map[string]int{"phone-1": 2, "": 1})
		if n := w.replace(w.device("phone-2")); n != 2 {
			t.Errorf("closed %d sessions, want 2", n)
		}
		for _, c := range []*client{here, there} {
			c.want("kick replaced")
		}
		unbound.wantNothing()
	})
}

// The caller of CloseDevice hangs up at once. The sessions end all the same.
func TestSessionsEndForACallerWhoHasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t).start()
		c := w.login(w.device("phone-1").Access)
		w.must(w.users.RevokeDevice(context.Background(), account("alice"), "phone-1"))
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		if n, err := w.hub.CloseDevice(gone, account("alice"), "phone-1", im.CodeRevoked); n != 1 || err != nil {
			t.Errorf("%d sessions were ended, %v; want 1", n, err)
		}
		c.want("kick revoked")
	})
}
