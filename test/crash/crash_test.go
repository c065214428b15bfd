// Package crash kills the whole server with SIGKILL, again and again, while
// clients send, receive and read, and holds what they were told against what
// is there in the end.
//
// PETREL_KILLS sets how often (8), PETREL_SEED replays the moments of a run.
package crash

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/test/crowd"
)

const (
	defaultKills = 8
	maxReady     = 3 * time.Second // from the start of the process to /readyz 200
)

// people are who sends and reads over what.
func people(seed uint64, s *server) crowd.Options {
	return crowd.Options{
		Seed: seed,
		Senders: []crowd.Role{
			{User: "ann", Framing: wire.WebSocket, Codec: wire.Proto},
			{User: "ben", Framing: wire.WebSocket, Codec: wire.Proto},
			{User: "cat", Framing: wire.WebSocket, Codec: wire.Proto},
			{User: "dan", Framing: wire.WebSocket, Codec: wire.Proto},
			{User: "eve", Framing: wire.TCP, Codec: wire.JSON},
			{User: "fay", Framing: wire.TCP, Codec: wire.Proto},
		},
		Receivers: []crowd.Role{
			{User: "ann", Framing: wire.WebSocket, Codec: wire.Proto}, // a second device of a sender
			{User: "gus", Framing: wire.WebSocket, Codec: wire.JSON},
			{User: "hal", Framing: wire.TCP, Codec: wire.JSON},
		},
		Readers:  []crowd.Role{{User: "gus", Framing: wire.WebSocket, Codec: wire.Proto}, {User: "ben", Framing: wire.TCP, Codec: wire.JSON}},
		Outsider: crowd.Role{User: "zoe", Framing: wire.WebSocket, Codec: wire.Proto},
		Groups: [][]string{
			{"ann", "ben", "cat", "dan", "eve", "fay", "gus", "hal"},
			{"ann", "ben", "gus", "eve"},
			{"cat", "hal", "fay", "gus"},
		},
		Directs: [][2]string{{"ann", "gus"}, {"ben", "ann"}, {"eve", "hal"}, {"dan", "dan"}},
		URL:     func(f wire.Framing, _, _ string) string { return s.url(f) },
	}
}

func TestKill9LosesNothing(t *testing.T) {
	kills, seed := number(t, "PETREL_KILLS", defaultKills), uint64(number(t, "PETREL_SEED", rand.IntN(1<<24)))
	t.Logf("PETREL_KILLS=%d PETREL_SEED=%d", kills, seed)
	s := newServer(t)
	w := crowd.New(t, people(seed, s))
	s.start()
	link, err := os.ReadFile(filepath.Join(s.dir, "setup-link"))
	if err != nil {
		t.Fatal(err)
	}
	w.Populate("http://"+s.admin, string(link))
	w.Start(t.Context())

	rng := rand.New(rand.NewPCG(seed, 1))
	done, slowest := 0, time.Duration(0)
	for done < kills || !w.Ledger.IsComplete() && done < 8*kills { // a slow machine does little between two kills
		d := time.Duration(20+rng.IntN(180)) * time.Millisecond
		if rng.IntN(10) == 0 { // while it starts
			s.kill()
			s.launch()
			d = time.Duration(rng.IntN(60)) * time.Millisecond
		}
		crowd.Wait(t.Context(), d)
		s.kill()
		done++
		begun := time.Now()
		s.start()
		slowest = max(slowest, time.Since(begun))
		if t.Failed() || w.Ledger.Broken() {
			break
		}
	}
	w.Settle()
	w.End()

	s.kill() // the audit checks the reads of a new process
	s.start()
	w.Audit("http://" + s.http)
	s.end()
	t.Logf("kills=%d max_ready=%v %s", done, slowest.Round(time.Millisecond), w.Ledger.Counts())
	w.Ledger.Report(t)
	if w.Ledger.Resent() == 0 {
		t.Error("nothing was sent again: the run did not do what it is for")
	}
	if kills > defaultKills && slowest > maxReady { // make crash judges the promise
		t.Errorf("ready after %v, want at most %v", slowest, maxReady)
	}
}

func number(t *testing.T, env string, otherwise int) int {
	v := os.Getenv(env)
	if v == "" {
		return otherwise
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		t.Fatalf("%s=%s: %v", env, v, err)
	}
	return n
}
