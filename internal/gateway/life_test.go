package gateway

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/wire"
)

func TestSilenceIsProbedAndADeadLinkIsEnded(t *testing.T) {
	t.Parallel()                 // it mostly waits
	const beat = 2 * time.Second // a busy machine may hold up an answer for most of it
	transports(t, Options{Heartbeat: beat, Misses: 1}, func(t *testing.T, s *server, fr wire.Framing) {
		began := time.Now()
		p := s.dial(fr)
		p.hello(s.token)
		for range 3 { // longer than a dead link may be
			p.hear(`{"ping":{}}`)
			p.say(`{"pong":{}}`)
		}
		if d := time.Since(began); d < 3*beat*3/4 {
			t.Errorf("3 probes after %s, want one each %s", d, beat)
		}
		if d := time.Since(began); d > 3*beat+9*time.Second {
			t.Errorf("3 probes took %s: the hello timeout of 10 s stood in for the heartbeat", d)
		}
		heard := time.Now()
		p.hear(`{"ping":{}}`)
		p.end(im.CodeDeadLink, 4410)
		if d := time.Since(heard); d < beat*3/4 {
			t.Errorf("the link is dead %s after the probe, want %s", d, beat)
		}
		if n := s.Stats().DeadLinks; n != 1 {
			t.Errorf("%d dead links are counted, want 1", n)
		}
	})
}

func TestTrafficPutsOffTheProbe(t *testing.T) {
	t.Parallel()                 // it mostly waits
	const beat = 4 * time.Second // a busy machine may hold up some of the traffic
	transports(t, Options{Heartbeat: beat}, func(t *testing.T, s *server, fr wire.Framing) {
		p := s.dial(fr)
		p.hello(s.token)
		tick := time.NewTicker(beat / 10)
		defer tick.Stop()
		for range 20 { // two intervals
			<-tick.C
			p.say(`{"id":"5","ping":{}}`)
			p.hear(`{"id":"5","pong":{}}`) // nothing else, so no probe
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
func stalled(s *server, fr wire.Framing, most time.Duration) (asked int) {
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
	must(s.t, nc.SetDeadline(time.Now().Add(most)))
	for {
		n, err := nc.Write(batch)
		asked += n
		if err != nil {
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
		var peak atomic.Uint64
		stop, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-stop:
					return
				case <-tick.C:
					var m runtime.MemStats
					runtime.ReadMemStats(&m)
					peak.Store(max(peak.Load(), m.HeapInuse))
				}
			}
		}()
		asked := stalled(s, fr, patience)
		close(stop)
		<-done
		until(t, "it is gone", func() bool { return s.Stats().Connections == 0 })
		if n := s.Stats().SlowConsumers; n == 0 {
			t.Error("no slow consumer is counted")
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		// maxAnswers twice (ours and gnet's), doubling of buffers, and the garbage of reading
		if grown := int64(peak.Load()) - int64(before.HeapInuse); grown > 48<<20 {
			t.Errorf("%d bytes of requests without reading an answer made the heap grow by %d", asked, grown)
		}
		if asked > 8*maxExcess {
			t.Errorf("%d bytes were read and thrown away", asked)
		}
		t.Logf("asked %d bytes; heap %d before, %d at most, %d after", asked, before.HeapInuse, peak.Load(), after.HeapInuse)
	})
}

// Spec: P-6.4.
func TestConnectionThatTakesNothingIsEnded(t *testing.T) {
	t.Parallel() // it mostly waits
	const stall = time.Second
	transports(t, Options{WriteStall: stall}, func(t *testing.T, s *server, fr wire.Framing) {
		s.narrow()
		p := s.dial(fr)
		p.hello(s.token)
		request := []byte(`{"id":"9","focus":{}}` + "\n")
		if fr == wire.WebSocket {
			request = masked(text, `{"id":"9","focus":{}}`)
		}
		// It asks only while everything it asked for fits into the sockets, so
		// that the number of answers does not end it.
		last := time.Now()
		until(t, "it is gone", func() bool {
			unread := s.unread() // none also when it has just been ended, which the figures show then
			st := s.Stats()
			if unread == 0 && st.Connections == 1 && st.SlowConsumers == 0 {
				last = time.Now()
				_, _ = p.nc.Write(bytes.Repeat(request, 50)) // fails when it has just been ended
			}
			return st.Connections == 0
		})
		if d := time.Since(last); d < stall*3/4 {
			t.Errorf("it is gone %s after the last byte it took, want %s", d, stall)
		}
		if st := s.Stats(); st.SlowConsumers != 1 {
			t.Errorf("%d slow consumers are counted, want 1", st.SlowConsumers)
		}
	})
}

// A piece that the server writes at once is larger than what this one takes within a stall.
// Spec: P-6.4.
func TestSlowConsumerThatMovesStays(t *testing.T) {
	t.Parallel()                  // it mostly waits
	const stall = 5 * time.Second // more than a busy machine keeps the reader waiting
	transports(t, Options{WriteStall: stall}, func(t *testing.T, s *server, fr wire.Framing) {
		s.narrow()
		s.narrowPeers = true
		p := s.dial(fr)
		p.hello(s.token)
		request := []byte(`{"id":"9","call":{}}` + "\n")
		if fr == wire.WebSocket {
			request = masked(text, `{"id":"9","call":{}}`)
		}
		p.write(bytes.Repeat(request, 4000)) // some 760 KB of answers
		must(t, p.nc.SetDeadline(time.Now().Add(2*patience)))
		begun := time.Now()
		b := make([]byte, writeChunk/16)
		for i := range 30 { // three times the stall that it may have
			<-time.After(time.Until(begun.Add(time.Duration(i+1) * stall / 10))) // a reader that was kept waiting makes up for it
			if _, err := io.ReadFull(bottom(p.nc), b); err != nil {
				t.Fatal(err)
			}
		}
		if st := s.Stats(); st.Connections != 1 || st.SlowConsumers != 0 {
			t.Errorf("%d connections are left, want 1; %d slow consumers are counted", st.Connections, st.SlowConsumers)
		}
	})
}

func TestDrainTellsEverybodyToComeBack(t *testing.T) {
	transports(t, Options{}, func(t *testing.T, s *server, fr wire.Framing) {
		greeted, fresh := s.dial(fr), s.dial(fr)
		greeted.hello(s.token)
		until(t, "both are there", func() bool { return s.Stats().Connections == 2 })
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
		until(t, "the drain has begun", s.deaf.Load)
		p.say(`{"id":"2","ping":{}}`)
		p.hear(`"draining"`) // and no pong before
	})
}

func TestDrainDoesNotWaitForEver(t *testing.T) {
	o := Options{DrainTimeout: 300 * time.Millisecond}
	s := serve(t, o, noLimits())
	s.dial(wire.WebSocket).hello(s.token) // and never reads or closes any more
	began := time.Now()
	s.shutdown()
	if d := time.Since(began); d > 3*time.Second {
		t.Errorf("draining took %s", d)
	}
}

func TestConnectionsComeAndGoWithoutATrace(t *testing.T) {
	rounds := 100
	eachTransport(t, Options{}, func(t *testing.T, s *server, fr wire.Framing) {
		n := rounds
		if s.tls != nil {
			n /= 5
		}
		warm := s.dial(fr) // everything that runs anyway runs
		warm.hello(s.token)
		must(t, warm.nc.Close())
		until(t, "it is gone", func() bool { return s.Stats().Connections == 0 })
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
		until(t, "all are gone", func() bool { return s.Stats().Connections == 0 && s.hub.Sessions.Load() == 0 })
		until(t, fmt.Sprintf("no more than %d files are open", before+4), func() bool { return files(t) <= before+4 })
		until(t, fmt.Sprintf("no more than %d goroutines run", goroutines+8), func() bool { return runtime.NumGoroutine() <= goroutines+8 })
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
