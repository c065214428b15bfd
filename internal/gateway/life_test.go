package gateway

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/wire"
)

// How long the silences are: TestHeartbeatIsExact and TestLoopKeepsTheTimesOfItsConnections.
func TestSilenceIsProbedAndADeadLinkIsEnded(t *testing.T) {
	t.Parallel()
	transports(t, Options{Heartbeat: 300 * time.Millisecond, Misses: 1}, func(t *testing.T, s *server, fr wire.Framing) {
		p := s.dial(fr)
		p.hello(s.token)
		p.hear(`{"ping":{}}`)
		p.end(im.CodeDeadLink, 4410)
		if n := counted(s.EndedFor, im.CodeDeadLink); n != 1 {
			t.Errorf("%d dead links are counted, want 1", n)
		}
	})
}

func TestWebSocketControlFramesAreAnswered(t *testing.T) {
	transports(t, Options{}, func(t *testing.T, s *server, fr wire.Framing) {
		if fr == wire.TCP {
			return
		}
		p := s.dial(fr)
		p.hello(s.token)
		p.write(append(masked(fin|opPing, "one"), masked(fin|opPing, "two")...))
		if m := p.hear("two"); m.op != opPong {
			t.Errorf("the answer has opcode %d", m.op)
		}
		p.write(masked(fin|opPong, "unasked"))
		p.write(masked(opText, `{"id":"7",`))
		p.write(masked(fin|opPing, "between"))
		p.write(masked(fin, `"ping":{}}`))
		p.hear("between")
		p.hear(`"pong"`)
		for _, c := range []struct{ sent, want string }{
			{"", ""}, {"\x03\xe8", "\x03\xe8"}, {"\x03\xe8bye", "\x03\xe8"}, {"\x0f\xa0", "\x0f\xa0"},
			{"\x03", "\x03\xea"}, {"\x03\xed", "\x03\xea"}, {"\x03\xe8\xff", "\x03\xef"},
		} {
			p := s.dial(fr)
			p.hello(s.token)
			p.write(masked(fin|opClose, c.sent))
			if m, err := p.read(); err != nil || m.op != opClose || m.payload != c.want {
				t.Errorf("close %q is answered by %d %q, %v; want %q", c.sent, m.op, m.payload, err, c.want)
			}
			p.gone()
		}
	})
}

// stalled is a connection that asks without reading: every request has an answer
// that nobody takes.
// asks is called before each batch of requests.
func stalled(s *server, fr wire.Framing, asks func()) (asked int) {
	s.t.Helper()
	s.narrow()
	nc := s.connect(fr).nc
	p := &peer{t: s.t, nc: nc, r: bufio.NewReaderSize(nc, 16), fr: fr}
	if fr == wire.WebSocket {
		p.write([]byte(upgradeRequest))
		p.readResponse()
	}
	p.hello(s.token)
	one := `{"id":"9","focus":{}}`
	var batch []byte
	for range 500 {
		if fr == wire.TCP {
			batch = append(batch, one+"\n"...)
		} else {
			batch = append(batch, masked(text, one)...)
		}
	}
	for {
		asks()
		n, err := nc.Write(batch)
		asked += n
		if err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				s.t.Fatalf("after %d bytes of requests the connection is neither read nor ended", asked)
			}
			return asked
		}
	}
}

func TestF21NeverBuffersWithoutBound(t *testing.T) {
	eachTransport(t, Options{WriteStall: 60 * time.Second}, func(t *testing.T, s *server, fr wire.Framing) {
		var before, after runtime.MemStats
		defer debug.SetGCPercent(debug.SetGCPercent(100)) // whatever GOGC says
		runtime.GC()
		runtime.ReadMemStats(&before)
		var peak uint64
		asked := stalled(s, fr, func() {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			peak = max(peak, m.HeapInuse)
		})
		eventually.True(t, "it is gone", func() bool { return s.Stats().Connections == 0 })
		if n := counted(s.EndedFor, im.CodeSlowConsumer); n == 0 {
			t.Error("no slow consumer is counted")
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		// maxAnswers twice (ours and gnet's), doubling of buffers, and the garbage of reading
		if grown := int64(peak) - int64(before.HeapInuse); grown > 48<<20 {
			t.Errorf("%d bytes of requests without reading an answer made the heap grow by %d", asked, grown)
		}
		if asked > 8*maxExcess {
			t.Errorf("%d bytes were read and thrown away", asked)
		}
		t.Logf("asked %d bytes; heap %d before, %d at most, %d after", asked, before.HeapInuse, peak, after.HeapInuse)
	})
}

// Answers that wait for one user have one bound on all connections of the user. Spec: P-6.4.
func TestConnectionsOfAUserShareTheBoundOfAnswers(t *testing.T) {
	eachTransport(t, Options{WriteStall: 60 * time.Second}, func(t *testing.T, s *server, fr wire.Framing) {
		limit := s.hub.Limits().OutboxBytes + maxAnswers
		s.narrow()
		first := s.dial(fr)
		first.hello(s.token)
		request := []byte(`{"id":"9","ping":{}}` + "\n")
		if fr == wire.WebSocket {
			request = masked(text, `{"id":"9","ping":{}}`)
		}
		eventually.True(t, "most of the bound waits for the first connection", func() bool {
			if s.unread() < limit/2 {
				_, err := first.nc.Write(bytes.Repeat(request, 5000))
				must(t, err)
			}
			return s.unread() >= limit/2
		})
		before, most := s.unread(), 0
		stalled(s, fr, func() { most = max(most, s.unread()) })
		eventually.True(t, "the second connection is gone", func() bool { return s.Stats().Connections == 1 })
		if most > limit+limit/4 {
			t.Errorf("%d bytes wait for the user, %d of them for the first connection; %d may", most, before, limit)
		}
		first.nc.Close()
	})
}

// How long it may take nothing: TestStallIsExact and TestLoopKeepsTheTimesOfItsConnections.
// Spec: P-6.4.
func TestConnectionThatTakesNothingIsEnded(t *testing.T) {
	t.Parallel()
	transports(t, Options{WriteStall: 500 * time.Millisecond}, func(t *testing.T, s *server, fr wire.Framing) {
		s.narrow()
		p := s.dial(fr)
		p.hello(s.token)
		request := []byte(`{"id":"9","focus":{}}` + "\n")
		if fr == wire.WebSocket {
			request = masked(text, `{"id":"9","focus":{}}`)
		}
		// It asks only while everything it asked for fits into the sockets, so
		// that the number of answers does not end it.
		eventually.True(t, "it is gone", func() bool {
			unread := s.unread() // none also when it has just been ended, which the figures show then
			st := s.Stats()
			if unread == 0 && st.Connections == 1 && counted(s.EndedFor, im.CodeSlowConsumer) == 0 {
				_, _ = p.nc.Write(bytes.Repeat(request, 50)) // fails when it has just been ended
			}
			return st.Connections == 0
		})
		if n := counted(s.EndedFor, im.CodeSlowConsumer); n != 1 {
			t.Errorf("%d slow consumers are counted, want 1", n)
		}
	})
}

func TestDrainTellsEverybodyToComeBack(t *testing.T) {
	transports(t, Options{}, func(t *testing.T, s *server, fr wire.Framing) {
		greeted, fresh := s.dial(fr), s.dial(fr)
		greeted.hello(s.token)
		eventually.True(t, "both are there", func() bool { return s.Stats().Connections == 2 })
		s.stop()
		m := greeted.hear(`"draining"`)
		if !strings.Contains(m.payload, `"reconnect":true`) && !strings.Contains(m.payload, `"reconnect": true`) || !strings.Contains(m.payload, "reconnectAfterMs") {
			t.Errorf("the kick says no time to come back: %s", m.payload)
		}
		if fr == wire.WebSocket {
			if m, err := greeted.read(); err != nil || m.op != opClose || m.payload != "\x03\xe9draining" {
				t.Errorf("got %d %q, %v; want close 1001", m.op, m.payload, err)
			}
		}
		greeted.gone()
		fresh.end(im.CodeDraining, 1001)
		if n := s.Stats().Connections; n != 2 {
			t.Errorf("%d connections wait for the peer to close, want 2", n)
		}
		_, _ = greeted.nc.Close(), fresh.nc.Close()
		s.shutdown()
		if _, err := s.tcp.Accept(); !errors.Is(err, net.ErrClosed) { // another test may have the port by now
			t.Errorf("the gateway still accepts: %v", err)
		}
	})
}

func TestNothingIsTakenOnceTheDrainHasBegun(t *testing.T) {
	transports(t, Options{}, func(t *testing.T, s *server, fr wire.Framing) {
		p := s.dial(fr)
		p.hello(s.token)
		s.stop()
		eventually.True(t, "the drain has begun", s.deaf.Load)
		p.say(`{"id":"2","ping":{}}`)
		p.hear(`"draining"`) // and no pong before
	})
}

func TestConnectionsComeAndGoWithoutATrace(t *testing.T) {
	rounds := 25
	eachTransport(t, Options{}, func(t *testing.T, s *server, fr wire.Framing) {
		n := rounds
		if s.tls != nil {
			n /= 5
		}
		warm := s.dial(fr) // everything that runs anyway runs
		warm.hello(s.token)
		must(t, warm.nc.Close())
		eventually.True(t, "it is gone", func() bool { return s.Stats().Connections == 0 })
		before := files(t)
		goroutines := runtime.NumGoroutine()
		var wg sync.WaitGroup
		for w := range 8 {
			wg.Go(func() {
				for i := range n {
					p := s.dial(fr)
					switch (i + w) % 4 {
					case 0: // says nothing
					case 1:
						p.hello(s.token)
						p.say(fmt.Sprintf(`{"id":"%d","ping":{}}`, i+1))
					case 2: // in the middle of a frame
						p.write(masked(text, `{"id":"1"}`)[:5])
					case 3: // resets
						p.hello(s.token)
						if t, ok := p.nc.(*net.TCPConn); ok {
							_ = t.SetLinger(0)
						}
					}
					_ = p.nc.Close()
				}
			})
		}
		wg.Wait()
		eventually.True(t, "all are gone", func() bool { return s.Stats().Connections == 0 && s.hub.Sessions.Load() == 0 })
		eventually.True(t, fmt.Sprintf("no more than %d files are open", before+4), func() bool { return files(t) <= before+4 })
		eventually.True(t, fmt.Sprintf("no more than %d goroutines run", goroutines+8), func() bool { return runtime.NumGoroutine() <= goroutines+8 })
	})
}

// files is how many file descriptors this process holds.
func files(t *testing.T) int {
	t.Helper()
	d, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(d)
}

func TestAddressInUseIsNamed(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer ln.Close()
	addr := ln.Addr().String()
	_, err = New(Options{HTTPAddr: "127.0.0.1:0", TCPAddr: addr}, nil)
	want := "listen " + addr + ": the address is in use; stop the program that uses it, or choose another --listen-tcp"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
