package simulation

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/petrel-im/petrel/internal/bus/bustest"
	"github.com/petrel-im/petrel/internal/bus/stream"
	"github.com/petrel-im/petrel/internal/im"
)

// options are what a seed draws before anything happens.
type options struct {
	seed     uint64
	users    []im.User
	groups   int
	steps    int
	sync     time.Duration // of the disk, at most
	lag      time.Duration // of a call of the store, at most
	busDelay time.Duration // of a message, at most
	patience time.Duration // of clients
	limit    int           // of outboxes, in bytes
	faulty   int           // of 100 steps, how many are faults
	streams  stream.Options
}

// rand are dice of their own for each purpose, so that one more throw here does not change
// what is drawn there.
func (o *options) rand(purpose uint64) *rand.Rand { return rand.New(rand.NewPCG(o.seed, purpose)) }

func draw(seed uint64) options {
	o := options{seed: seed}
	r := o.rand(0)
	all := []im.User{"alice", "bob", "carol", "dave"}
	o.users = all[:3+r.IntN(2)]
	o.groups = 1 + r.IntN(2)
	o.steps = 20 + r.IntN(40)
	o.sync = time.Duration(1+r.IntN(20)) * time.Millisecond
	o.lag = time.Duration(r.IntN(10)) * time.Millisecond
	o.busDelay = time.Duration(1+r.IntN(20)) * time.Millisecond
	o.patience = []time.Duration{3 * time.Second, 6 * time.Second, 12 * time.Second}[r.IntN(3)]
	o.limit = []int{1 << 20, 1 << 20, 2000}[r.IntN(3)]
	o.faulty = []int{10, 25, 40}[r.IntN(3)]
	if r.IntN(4) == 0 {
		o.streams.Hints = 1 + r.IntN(4)
	}
	if r.IntN(4) == 0 {
		o.streams.RingBytes = 100_000 + r.IntN(100_000) // large enough for a packet of sends, 64 KiB
	}
	return o
}

func (o *options) String() string {
	return fmt.Sprintf("%d users, %d groups, %d steps of which %d%% are faults; a sync of the disk takes up to %v, a call of the store %v, a message %v; clients wait %v for an answer, outboxes have %d bytes, streams %d hints and %d bytes",
		len(o.users), o.groups, o.steps, o.faulty, o.sync, o.lag, o.busDelay, o.patience, o.limit, o.streams.Hints, o.streams.RingBytes)
}

// calm are the rules of a bus that does what it should.
func (o *options) calm(seed uint64) bustest.Rules {
	return bustest.Rules{Seed: seed, Delay: 0.5, MaxDelay: o.busDelay}
}

// step is a row of a table of the plan: what can happen, how often compared with the others,
// and what it does. do returns what it did, in words; "": there was nothing to do.
type step struct {
	name   string
	weight int
	do     func(w *world, dice *rand.Rand) string
}

// pick draws a row.
func pick(table []step, r *rand.Rand) *step {
	sum := 0
	for i := range table {
		sum += table[i].weight
	}
	n := r.IntN(sum)
	for i := range table {
		if n -= table[i].weight; n < 0 {
			return &table[i]
		}
	}
	panic("unreachable")
}

// play does what the seed has drawn. Each step has dice of its own.
func (w *world) play() {
	r := w.o.rand(2)
	for i := range w.o.steps {
		table := load
		if r.IntN(100) < w.o.faulty {
			table = faults
		}
		s := pick(table, r)
		pause := time.Duration(0)
		switch r.IntN(4) {
		case 0:
		case 1, 2:
			pause = time.Duration(r.IntN(50)) * time.Millisecond
		default:
			pause = time.Duration(r.IntN(1000)) * time.Millisecond
		}
		sleep(pause)
		if what := s.do(w, w.o.rand(uint64(100+i))); what != "" {
			w.say("%s: %s", s.name, what)
		}
	}
}

// words joins what a step did.
func words(parts ...any) string { return strings.TrimSuffix(fmt.Sprintln(parts...), "\n") }
