// Package chaos takes a cluster apart under load: three nodes, PostgreSQL with
// a synchronous standby, NATS. Behind every fault it holds what the users were
// told against what is there, and prints what the fault cost them.
//
//	go test ./test/chaos -run TestChaos/kill-node -v -args -times=100
//
// Without -times a few faults run once; `make chaos-cluster` runs all of them,
// as often as is worth it. -seed replays the moments of a run.
package chaos

import (
	"flag"
	"math/rand/v2"
	"os"
	"testing"
	"time"
)

var (
	times = flag.Int("times", 0, "how often each fault happens; -1: as often as is worth it")
	seed  = flag.Uint64("seed", uint64(time.Now().UnixNano()&0xffffff), "of the moments")
)

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if program.dir != "" {
		_ = os.RemoveAll(program.dir) // a temporary folder
	}
	os.Exit(code)
}

// targets of what a fault costs.
const (
	takeover = 5 * time.Second // a node that is killed
	handOver = 500 * time.Millisecond
)

// fault is something that happens to a cluster.
type fault struct {
	name string
	long int  // how often it is worth to happen
	ci   bool // once without -times
	bus  func(w *world)
	run  func(w *world, rng *rand.Rand, times int)
}

func TestChaos(t *testing.T) {
	for _, f := range faults {
		n := *times
		switch {
		case n < 0:
			n = f.long
		case n == 0 && f.ci:
			n = 1
		case n == 0:
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			t.Logf("-times=%d -seed=%d", n, *seed)
			w := newWorld(t, *seed, f.bus)
			f.run(w, rand.New(rand.NewPCG(*seed, 1)), n)
			w.judge()
		})
	}
}

var faults = []fault{
	{name: "kill-node", long: 100, ci: true, run: killNode},
}

// victim is a node that owns something, each in its turn.
func (w *world) victim(i int) *node {
	for range w.nodes {
		if n := w.nodes[i%len(w.nodes)]; n.pid() != 0 && n.metric(ownedMetric) > 0 {
			return n
		}
		i++
	}
	return w.nodes[i%len(w.nodes)]
}

// killNode: kill -9. The others find out and take over.
func killNode(w *world, rng *rand.Rand, times int) {
	for i := range times {
		n := w.victim(i)
		w.fault("kill -9 "+n.name, takeover, n.kill)
		n.start()
		w.breathe(rng, 3*time.Second)
		if w.t.Failed() {
			return
		}
	}
}
