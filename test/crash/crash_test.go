// Package crash kills the whole server with SIGKILL, again and again, while
// clients send, receive and read, and holds what they were told against what
// is there in the end.
//
// PETREL_KILLS sets how often (30), PETREL_SEED replays the moments of a run.
package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/wire"
)

const (
	defaultKills = 30
	maxReady     = 3 * time.Second // from the start of the process to /readyz 200
	settleTime   = 30 * time.Second
)

// roles of the run: who sends and reads over what.
var (
	senders = []role{
		{"ann", wire.WebSocket, wire.Proto},
		{"ben", wire.WebSocket, wire.Proto},
		{"cat", wire.WebSocket, wire.Proto},
		{"dan", wire.WebSocket, wire.Proto},
		{"eve", wire.TCP, wire.JSON},
		{"fay", wire.TCP, wire.Proto},
	}
	receivers = []role{
		{"ann", wire.WebSocket, wire.Proto}, // a second device of a sender
		{"gus", wire.WebSocket, wire.JSON},
		{"hal", wire.TCP, wire.JSON},
	}
	readers  = []role{{"gus", wire.WebSocket, wire.Proto}, {"ben", wire.TCP, wire.JSON}}
	outsider = role{"zoe", wire.WebSocket, wire.Proto}
)

type role struct {
	user    string
	framing wire.Framing
	codec   wire.Codec
}

func TestKill9LosesNothing(t *testing.T) {
	kills, seed := number(t, "PETREL_KILLS", defaultKills), uint64(number(t, "PETREL_SEED", int(time.Now().UnixNano()&0xffffff)))
	t.Logf("PETREL_KILLS=%d PETREL_SEED=%d", kills, seed)
	w := newWorld(t, seed)
	w.server.start()
	w.populate()

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var wg sync.WaitGroup
	for i, r := range senders {
		s := newSender(w, i, r)
		w.senders = append(w.senders, s)
		wg.Go(func() { s.run(ctx) })
	}
	for i, r := range receivers {
		v := newReceiver(w, r, i)
		w.receivers = append(w.receivers, v)
		wg.Go(func() { v.run(ctx) })
	}
	for i, r := range readers {
		wg.Go(func() { w.readHistory(ctx, r, i) })
	}
	wg.Go(func() { w.intrude(ctx, outsider) })

	rng := rand.New(rand.NewPCG(seed, 1))
	done := 0
	for done < kills {
		d := time.Duration(20+rng.IntN(180)) * time.Millisecond
		if rng.IntN(10) == 0 { // while it starts
			w.server.kill()
			w.server.launch()
			d = time.Duration(rng.IntN(60)) * time.Millisecond
		}
		wait(ctx, d)
		w.server.kill()
		done++
		w.server.start()
		if t.Failed() || w.ledger.broken() {
			break
		}
	}
	w.settle()
	stop()
	wg.Wait()

	w.server.kill() // what is checked is what a new process reads
	w.server.start()
	w.audit()
	w.server.end()
	t.Log(w.ledger.summary(done, w.server.slowest))
	w.ledger.report(t)
	if w.server.slowest > maxReady {
		t.Errorf("ready after %v, want at most %v", w.server.slowest, maxReady)
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

// wait waits for d or the end of ctx.
func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// until polls ok until it holds; false: not within d.
func until(ctx context.Context, d time.Duration, ok func() bool) bool {
	deadline := time.Now().Add(d)
	for !ok() {
		if time.Now().After(deadline) || ctx.Err() != nil {
			return false
		}
		wait(ctx, 5*time.Millisecond)
	}
	return true
}

func (r role) String() string {
	return fmt.Sprintf("%s over %s %s", r.user, [...]string{"WebSocket", "TCP"}[r.framing], r.codec)
}
