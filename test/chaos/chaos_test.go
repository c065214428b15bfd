// Package chaos takes a cluster apart under load: three nodes, PostgreSQL with
// a synchronous standby, NATS. Behind every fault it holds what the users were
// told against what is there, and prints what the fault cost them. For the cuts
// each node has a host of its own, a network namespace, which needs root; the
// packets between them are dropped by nft.
//
//	go test ./test/chaos -run TestChaos/kill-node -v -args -times=100
//
// Without -times a few faults run once, on one cluster;
// `make chaos-cluster` runs all of them, as often as is worth it. How long the users wait
// is judged from 20 times on: a shorter run asks only that all are served in the end.
// -seed replays the moments of a run.
package chaos

import (
	"flag"
	"math/rand/v2"
	"os"
	"testing"
	"time"
)

var (
	repeat = flag.Int("times", 0, "how often each fault happens; -1: as often as is worth it")
	seed   = flag.Uint64("seed", rand.Uint64()&0xffffff, "of the moments")
)

// How long a conversation may be without service, where the time is judged.
const (
	takeover = 5 * time.Second        // of a node that is killed
	handOver = 500 * time.Millisecond // of a node that is drained
	heal     = 10 * time.Second       // behind the end of what came from outside
)

// timesToJudge is how often a fault has to happen before its times are judged.
const timesToJudge = 20

func areTimesJudged() bool { return *repeat < 0 || *repeat >= timesToJudge }

// share is the quantile of sorted times.
func share(sorted []time.Duration, of float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(of*float64(len(sorted))))].Round(time.Millisecond)
}

// besideOthers lets worlds run at the same time. With -times they run one after the other:
// then the cost of each fault is measured.
func besideOthers(t *testing.T) {
	if *repeat == 0 {
		t.Parallel()
	}
}

// fault is something that happens to a cluster.
type fault struct {
	name string
	long int            // how often it is worth to happen
	ci   bool           // once without -times
	once bool           // a cluster bears it once
	root bool           // only root can; other users run it only in CI or with -times
	way  func(w *world) // between the processes; nil: all on one host
	run  func(w *world, rng *rand.Rand, times int)
}

// oneOfEach has a cluster bear a fault of each kind that is worth it at a change.
func oneOfEach(t *testing.T) {
	t.Parallel()
	way := cuttable
	if os.Getuid() != 0 && os.Getenv("CI") == "" {
		t.Log("cuts are left out: only root makes network namespaces")
		way = nil
	}
	w := newWorld(t, *seed, way)
	for _, f := range faults {
		if !f.ci || f.root && way == nil {
			continue
		}
		t.Logf("%s -seed=%d", f.name, *seed)
		if f.run(w, rand.New(rand.NewPCG(*seed, 1)), 1); t.Failed() {
			break
		}
	}
	w.judge()
}

func TestChaos(t *testing.T) {
	besideOthers(t)
	if *repeat == 0 {
		t.Run("one-of-each", oneOfEach)
		return
	}
	for _, f := range faults {
		n := *repeat
		if n < 0 {
			n = f.long
		}
		worlds := 1
		if f.once {
			worlds, n = n, 1
		}
		for i := range worlds {
			t.Run(f.name, func(t *testing.T) {
				seed := *seed + uint64(i)
				t.Logf("-times=%d -seed=%d", n, seed)
				w := newWorld(t, seed, f.way)
				f.run(w, rand.New(rand.NewPCG(seed, 1)), n)
				w.judge()
			})
		}
	}
}
