package chaos

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/imtest/proctest"
	"github.com/petrel-im/petrel/test/crowd"
)

// nats is an external server.
type nats struct {
	t    *testing.T
	addr string
	cmd  *exec.Cmd
}

// external: the nodes meet on a NATS server of its own, which Debian's package
// nats-server brings.
func external(w *world) {
	s := &nats{t: w.t, addr: proctest.FreePorts(w.t, 1)[0]}
	s.start()
	w.t.Cleanup(s.kill)
	w.nats = s
	w.cluster = func(*node) string { return fmt.Sprintf("nats = %q", "nats://"+s.addr) }
}

func (s *nats) start() {
	s.t.Helper()
	host, port, _ := net.SplitHostPort(s.addr) // of a listener
	s.cmd = exec.Command("nats-server", "-a", host, "-p", port)
	if err := s.cmd.Start(); err != nil {
		s.t.Fatalf("start a NATS server: %v; Debian's package is nats-server", err)
	}
	eventually.True(s.t, "the NATS server answers", func() bool {
		c, err := net.Dial("tcp", s.addr)
		if err != nil {
			return false
		}
		_ = c.Close() // it answers
		return true
	})
}

func (s *nats) kill() {
	_ = s.cmd.Process.Signal(syscall.SIGKILL) // ended: nothing to kill
	_ = s.cmd.Wait()                          // it was killed
}

// killNATS: the server between the nodes is gone for a while.
func killNATS(w *world, rng *rand.Rand, times int) {
	for range times {
		d := between(rng, 100*time.Millisecond, 15*time.Second)
		w.fault("kill -9 of NATS", d+heal, func() {
			w.nats.kill()
			crowd.Wait(w.t.Context(), d)
			w.nats.start()
		})
		w.breathe(rng, 3*time.Second)
	}
}
