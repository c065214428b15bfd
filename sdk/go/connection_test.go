package petrel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

func TestComesBackLaterAndLater(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		s.onHello = func(ss *fakeSession, _ *petrelv1.ClientFrame) bool {
			_ = ss.conn.Close() // a link that dies
			return true
		}
		c := s.client(Options{})
		stop := run(c)
		pass(3 * time.Minute)
		expect(t, "run", stop(), nil)
		for i, want := 1, time.Second; i < len(s.dials); i, want = i+1, min(2*want, 30*time.Second) {
			if got := s.dials[i].Sub(s.dials[i-1]); got < want/2 || got > want+time.Millisecond {
				t.Errorf("wait %d: got %v, want %v to %v", i, got, want/2, want)
			}
		}
		if n := len(s.dials); n < 9 || n > 20 {
			t.Errorf("tries in 3 minutes: got %d", n)
		}
	})
}

func TestKickSaysWhetherAndWhenToComeBack(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		c := s.client(Options{})
		ended := make(chan error, 1)
		go func() { ended <- c.Run(context.Background()) }()
		synctest.Wait()
		expect(t, "state", c.Status().State, Live)

		began := time.Now()
		s.sessions[0].kick(&petrelv1.Kick{Code: "draining", Reconnect: true, ReconnectAfterMs: 20000})
		pass(45 * time.Second)
		if len(s.dials) != 2 {
			t.Fatalf("connections: got %d, want 2", len(s.dials))
		}
		if w := s.dials[1].Sub(began); w < 20*time.Second || w > 40*time.Second {
			t.Errorf("came back after %v, want 20 s to 40 s", w)
		}

		s.sessions[0].kick(&petrelv1.Kick{Code: "replaced"})
		err := <-ended
		expect(t, "code", CodeOf(err), CodeReplaced)
		expect(t, "code of the status", CodeOf(c.Status().Err), CodeReplaced)
		expect(t, "connections", len(s.dials), 2)
	})
}

func TestAnotherTokenIsAskedForOnce(t *testing.T) {
	for _, good := range []bool{true, false} {
		play(t, func(t *testing.T, s *fake) {
			s.onHello = func(ss *fakeSession, f *petrelv1.ClientFrame) bool {
				if good && f.GetHello().Token == "new" {
					return false
				}
				ss.fail(f.Id, &petrelv1.Error{Code: CodeUnauthenticated})
				_ = ss.conn.Close() // P-1.6
				return true
			}
			var asked []string
			c := s.client(Options{Token: func(_ context.Context, refused string) (string, error) {
				asked = append(asked, refused)
				if refused == "" {
					return "old", nil
				}
				return "new", nil
			}})
			ended := make(chan error, 1)
			ctx, cancel := context.WithCancel(context.Background())
			go func() { ended <- c.Run(ctx) }()
			synctest.Wait()
			expect(t, "refused tokens", asked, []string{"", "old"})
			expect(t, "tries", len(s.hellos), 2)
			cancel()
			if err := <-ended; good && err != nil || !good && CodeOf(err) != CodeUnauthenticated {
				t.Errorf("run: got %v with a good second token %v", err, good)
			}
		})
	}
}

func TestTokenSourceDecidesWhetherToGoOn(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		calls := 0
		c := s.client(Options{Token: func(context.Context, string) (string, error) {
			if calls++; calls < 3 {
				return "", errors.New("the network is down")
			}
			return "", &Error{Code: "refresh_reused"}
		}})
		expect(t, "code", CodeOf(c.Run(context.Background())), "refresh_reused")
		expect(t, "calls", calls, 3)
		expect(t, "connections", len(s.dials), 0)
	})
}

func TestEachLaggedNeedsASyncOfItsOwn(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		s.conv("g1", "")
		c := s.client(Options{})
		stop := run(c)
		synctest.Wait()
		expect(t, "syncs at first", s.syncs, 1)

		// The second lagged comes between the sync and its answer.
		ss := s.sessions[0]
		lagged := &petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Lagged{Lagged: &petrelv1.Lagged{}}}
		s.mu.Lock()
		s.onFrame = func(ss *fakeSession, f *petrelv1.ClientFrame) bool {
			if f.GetSync() == nil {
				return false
			}
			s.onFrame = nil
			ss.write(lagged)
			s.convs["g1"].add(text("bob", "missed"))
			return false
		}
		s.mu.Unlock()
		ss.write(lagged)
		synctest.Wait()
		expect(t, "syncs", s.syncs, 3)
		expect(t, "messages", shown(c, "g1"), "[missed]")
		expect(t, "run", stop(), nil)
	})
}

func TestSilentServerIsProbedAndGivenUp(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		s.beat = 30000
		pings := 0
		s.onFrame = func(_ *fakeSession, f *petrelv1.ClientFrame) bool {
			if f.GetPing() != nil {
				pings++
			}
			return f.GetPing() != nil && pings > 2
		}
		c := s.client(Options{})
		stop := run(c)
		counts := func() string {
			s.mu.Lock()
			defer s.mu.Unlock()
			return fmt.Sprint(len(s.dials), " connections, ", pings, " pings")
		}
		pass(134 * time.Second) // probes at 45 s and 90 s are answered
		expect(t, "after 134 s", counts(), "1 connections, 2 pings")
		pass(4 * time.Second) // that at 135 s is not
		expect(t, "after 138 s", counts(), "2 connections, 3 pings")
		expect(t, "run", stop(), nil)
	})
}

// The socket of a server that is frozen goes on taking what the client writes. However often
// it writes, it leaves after about 5 s. Spec: S-5.2, S-5.3.
func TestClientThatGoesOnWritingLeavesAFrozenServer(t *testing.T) {
	for _, every := range []time.Duration{400 * time.Millisecond, 1500 * time.Millisecond, 2500 * time.Millisecond} {
		t.Run(every.String(), func(t *testing.T) {
			play(t, func(t *testing.T, s *fake) {
				s.beat = 30000
				const convs = 60
				for i := range convs {
					s.conv(fmt.Sprint("g", i), "")
				}
				frozen := false
				s.onFrame = func(*fakeSession, *petrelv1.ClientFrame) bool { return frozen }
				c := s.client(Options{})
				stop := run(c)
				pass(10 * time.Second)
				s.mu.Lock()
				frozen = true
				s.mu.Unlock()
				from := time.Now()
				for i := 0; time.Since(from) < 8*time.Second; i++ {
					sendText(t, c, fmt.Sprint("g", i%convs), "hello")
					pass(every)
				}
				expect(t, "run", stop(), nil)
				if len(s.dials) < 2 || s.dials[1].Sub(from) > 6*time.Second {
					t.Errorf("%d connections, the last one after %v", len(s.dials), s.dials[len(s.dials)-1].Sub(from))
				}
			})
		})
	}
}

// slowConn is a socket whose buffer takes everything, and whose link carries 50 kbit/s.
type slowConn struct {
	net.Conn
	out chan []byte // capacity 1024; full: writes wait
}

func (c slowConn) Write(b []byte) (int, error) {
	c.out <- slices.Clone(b)
	return len(b), nil
}

func (c slowConn) drain() {
	for b := range c.out {
		<-time.After(time.Duration(len(b)) * time.Second / 6250)
		if _, err := c.Conn.Write(b); err != nil {
			return
		}
	}
}

// A message of 48 KiB is 8 s under way, and a client that went away would never get it
// through. Spec: P-7.3.
func TestALargeMessageOverASlowLinkCostsNoConnection(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		s.conv("g1", "")
		s.beat = 30000
		c, err := New(Options{URL: "tcp://fake:1", Token: StaticToken("pt_x"), NetDial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := s.dial(ctx, network, addr)
			slow := slowConn{conn, make(chan []byte, 1024)}
			go slow.drain()
			t.Cleanup(func() { close(slow.out) })
			return slow, err
		}})
		if err != nil {
			t.Fatal(err)
		}
		stop := run(c)
		synctest.Wait()
		var all []*Outgoing
		for range 5 {
			all = append(all, sendText(t, c, "g1", strings.Repeat("x", 48<<10)))
		}
		pass(60 * time.Second)
		for i, o := range all {
			if state, _, _, _ := o.State(); state != Sent {
				t.Errorf("message %d is %v", i, state)
			}
		}
		expect(t, "connections", len(s.dials), 1)
		expect(t, "run", stop(), nil)
	})
}

func TestPingIsAnsweredWithItsID(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		var pong *petrelv1.ClientFrame
		s.onFrame = func(_ *fakeSession, f *petrelv1.ClientFrame) bool {
			if f.GetPong() != nil {
				pong = f
			}
			return pong != nil
		}
		stop := run(s.client(Options{}))
		synctest.Wait()
		s.sessions[0].write(&petrelv1.ServerFrame{Id: 1 << 40, Body: &petrelv1.ServerFrame_Ping{Ping: &petrelv1.Ping{}}})
		synctest.Wait()
		expect(t, "id of the pong", pong.GetId(), uint64(1<<40))
		expect(t, "run", stop(), nil)
	})
}

func TestStoreOfAnotherUserIsRefused(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		store := NewMemory()
		if err := store.Write([]Row{{metaKey, []byte(`{"user":"bob"}`)}}); err != nil {
			t.Fatal(err)
		}
		err := s.client(Options{Store: store}).Run(context.Background())
		expect(t, "code", CodeOf(err), CodeInvalid)
	})
}

func TestFailingStoreEndsRun(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		s.conv("g1", "")
		store := NewMemory()
		write := store.Write
		full := false
		store.Write = func(rows []Row) error {
			if full {
				return errors.New("disk full")
			}
			return write(rows)
		}
		c := s.client(Options{Store: store})
		ended := make(chan error, 1)
		go func() { ended <- c.Run(context.Background()) }()
		synctest.Wait()
		full = true
		if _, err := c.Send(Draft{Conv: "g1", Text: "x"}); err == nil {
			t.Error("a message that cannot be stored was taken")
		}
		expect(t, "pending", len(c.Pending("g1")), 0)
		s.post("g1", text("bob", "hi"))
		if err := <-ended; err == nil {
			t.Error("run goes on without its store")
		}
		expect(t, "sends", len(s.sent), 0)
	})
}
