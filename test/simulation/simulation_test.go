package simulation

import (
	"flag"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

var (
	seed  = flag.Uint64("seed", 0, "replay one seed")
	seeds = flag.Int("seeds", 100, "how many seeds")
	stop  = flag.Int("stop", 5, "after how many seeds that fail no further ones begin")
	oplog = flag.String("oplog", "", "where the op log of the seed that is replayed goes, for petrel check")
	from  = flag.Uint64("from", 1, "the first seed")
)

// Faults hit three nodes and their store. No client gets a wrong answer, and when the
// faults end, every client has every entry.
func TestSimulation(t *testing.T) {
	first, n := *from, *seeds
	if *seed != 0 {
		first, n = *seed, 1
	}
	used := cpu()
	t.Run("seeds", func(t *testing.T) {
		for s := first; s < first+uint64(n); s += together {
			last := min(s+together, first+uint64(n)) - 1
			t.Run(fmt.Sprintf("%d to %d", s, last), func(t *testing.T) {
				t.Parallel()
				some(t, s, last)
			})
		}
	})
	if spent := (cpu() - used).Seconds(); spent > 0 {
		t.Logf("%d seeds, %.1f for each second of a processor", n, float64(n)/spent)
	}
}

// together is how many seeds are judged at once: the checker makes some files for each judgement.
const together = 10

// failed counts the seeds that have failed.
var failed atomic.Int64

// some plays some seeds and judges them.
func some(t *testing.T, first, last uint64) {
	var worlds []*world
	for s := first; s <= last && int(failed.Load()) < *stop; s++ {
		worlds = append(worlds, simulate(t, s))
	}
	wrong, err := judge(worlds)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range worlds {
		if *oplog != "" {
			if err := w.writeLog(*oplog); err != nil {
				t.Error(err)
			}
		}
		if list := wrong[w]; len(list) > 0 {
			failed.Add(1)
			t.Errorf("seed %d: %s\ndrawn: %s\nplan:\n%s\nreplay, which mostly succeeds: go test ./test/simulation -run TestSimulation -args -seed %d",
				w.o.seed, strings.Join(list, "\n  "), &w.o, strings.Join(w.story, "\n"), w.o.seed)
		}
	}
}

// sleep lets fake time pass.
func sleep(d time.Duration) { <-time.After(d) }

func cpu() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// simulate plays one seed.
func simulate(t *testing.T, s uint64) (w *world) {
	synctest.Test(t, func(t *testing.T) {
		w = newWorld(t, draw(s))
		w.begin()
		w.play()
		w.say("heal")
		w.heal()
		w.settled()
		w.say("all is settled")
		w.readBack()
		w.close()
	})
	return w
}

// begin starts the nodes, the clients and the groups.
func (w *world) begin() {
	for _, id := range []im.Node{"b", "a", "c"} {
		w.start(id)
	}
	r := w.o.rand(3)
	for _, u := range w.o.users {
		for _, name := range []string{"phone", "laptop"} {
			d := &device{w: w, account: im.Account{Tenant: im.DefaultTenant, User: u}, name: string(u) + "'s " + name, patience: w.o.patience,
				limit: w.o.limit, hints: r.IntN(2) == 0, dice: w.o.rand(10 + uint64(len(w.devices))), views: map[im.Key]*view{}}
			for _, key := range w.keysOf(u) {
				d.views[key] = &view{key: key, held: map[im.Seq]bool{}, follows: true}
			}
			w.devices = append(w.devices, d)
		}
	}
	for _, d := range w.devices {
		w.wg.Go(d.run)
	}
	for i, key := range w.groups {
		c := &petrelv1.MemberChange{}
		for n, u := range w.o.users {
			if n == 0 || r.IntN(4) > 0 {
				c.Added = append(c.Added, &petrelv1.MemberRef{User: string(u), Role: []petrelv1.Role{petrelv1.Role_ROLE_OWNER, petrelv1.Role_ROLE_ADMIN}[min(n, 1)]})
			}
			if n > 1 && len(c.Added) > 1 {
				c.Added[len(c.Added)-1].Role = petrelv1.Role_ROLE_MEMBER
			}
		}
		s := w.devices[0].compose(key, fmt.Sprint("create", i), "", true)
		s.change, s.create = c, true
		w.devices[0].enqueue(s)
	}
	sleep(3 * time.Second) // until the nodes know each other
}
