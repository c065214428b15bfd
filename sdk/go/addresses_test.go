package petrel

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// gateways makes a client that is given one of the addresses of s; it returns
// those that were dialed. down are addresses that nobody listens on.
func (s *fake) gateways(given string, down map[string]bool) (c *Client, dialed *[]string) {
	s.t.Helper()
	dialed = &[]string{}
	c, err := New(Options{URL: given, Token: StaticToken("pt_x"), NetDial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		s.mu.Lock()
		*dialed = append(*dialed, addr)
		refused := down[addr]
		s.mu.Unlock()
		if refused {
			return nil, errors.New("connection refused")
		}
		return s.dial(ctx, network, addr)
	}})
	if err != nil {
		s.t.Fatal(err)
	}
	return c, dialed
}

// tell has the welcomes of s list gateways.
func (s *fake) tell(gateways ...string) {
	s.onHello = func(ss *fakeSession, f *petrelv1.ClientFrame) bool {
		ss.welcomed = true
		ss.write(&petrelv1.ServerFrame{Id: f.Id, Body: &petrelv1.ServerFrame_Welcome{Welcome: &petrelv1.Welcome{
			Version: 1, User: "alice", HistoryId: s.history, Window: s.window, Limits: &petrelv1.Limits{FrameBytes: 65536, BodyBytes: 49152, HistoryMessages: 50},
			Gateways: gateways,
		}}})
		return true
	}
}

func TestComesBackAtTheGatewaysInTheirOrder(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		down := map[string]bool{}
		s.tell("tcp://a:1", "ftp://no:1", "tcp://b:1")
		c, dialed := s.gateways("tcp://door:1", down)
		stop := run(c)
		synctest.Wait()
		s.cut()
		pass(2 * time.Second) // the best one is there
		s.mu.Lock()
		down["a:1"] = true
		s.mu.Unlock()
		s.cut()
		pass(2 * time.Second) // the next one at once
		s.mu.Lock()
		down["b:1"], down["door:1"] = true, true
		s.mu.Unlock()
		s.cut()
		pass(1100 * time.Millisecond) // all, then a pause
		expect(t, "run", stop(), nil)
		if want := []string{"door:1", "a:1", "a:1", "b:1", "a:1", "b:1", "door:1"}; !slices.Equal(*dialed, want) {
			t.Errorf("dialed %v, want %v", *dialed, want)
		}
	})
}

func TestDrainedGatewayIsTheLastToComeBackTo(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		s.tell("tcp://a:1", "tcp://b:1")
		c, dialed := s.gateways("tcp://a:1", nil)
		stop := run(c)
		synctest.Wait()
		s.sessions[0].kick(&petrelv1.Kick{Code: CodeDraining, Reconnect: true, ReconnectAfterMs: 1000})
		pass(3 * time.Second)
		expect(t, "run", stop(), nil)
		if want := []string{"a:1", "b:1"}; !slices.Equal(*dialed, want) {
			t.Errorf("dialed %v, want %v", *dialed, want)
		}
	})
}

func TestGatewaysWithoutTLSAreNotForThoseWhoHaveIt(t *testing.T) {
	for _, c := range []struct {
		given, other string
		want         bool
	}{
		{"wss://a", "https://b", true}, {"tls://a:1", "wss://b", true}, {"ws://a", "wss://b", true}, {"tcp://a:1", "http://b", true},
		{"wss://a", "ws://b", false}, {"https://a", "tcp://b:1", false}, {"ws://a", "b:1", false}, {"ws://a", "ws://", false},
	} {
		if got := speaks(c.given, c.other); got != c.want {
			t.Errorf("a client of %s uses %s: %v, want %v", c.given, c.other, got, c.want)
		}
	}
}
