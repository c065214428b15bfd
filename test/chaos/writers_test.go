package chaos

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
	"github.com/petrel-im/petrel/test/crowd"
	"github.com/petrel-im/petrel/test/passenger"
)

// writersTo is how many users a writer writes to, in turn.
const writersTo = 60

// paces are the times between two messages of writers. Each is shorter than the time after which
// a silent link is probed: bytes that the kernel takes are no sign of life (S-5.2).
var paces = []time.Duration{400 * time.Millisecond, 1500 * time.Millisecond, 2500 * time.Millisecond}

// losses are ways in which a gateway is gone and says nothing.
var losses = []departure{
	{"frozen", 6 * time.Second, func(_ *world, n *node) { n.pause(true) }, func(_ *world, n *node) { n.pause(false) }},
	{"cut off", 6 * time.Second, func(w *world, n *node) { w.net.set(true, w.apartFromAll(n)...) }, func(w *world, n *node) { w.net.set(false, w.apartFromAll(n)...) }},
	{"killed", 6 * time.Second, func(_ *world, n *node) { n.kill() }, func(_ *world, n *node) { n.start() }},
}

// apartFromAll is every way to and from n.
func (w *world) apartFromAll(n *node) []direction {
	return append(w.around(n), direction{n, nil}, direction{nil, n}, direction{n, theClients}, direction{theClients, n})
}

// writers: clients of both SDKs that write all the time, at three paces, to many users in turn,
// lose their gateway in each way.
func writers(w *world, rng *rand.Rand, times int) {
	sdk := passenger.StartNode(w.t)
	var to []string
	for i := range writersTo {
		to = append(to, fmt.Sprintf("reader-%d", i))
	}
	admin := w.crowd.Admin(w.nodes[0].operators())
	if _, err := admin.CreateUsers(w.t.Context(), connect.NewRequest(&petrelv1.CreateUsersRequest{Users: to})); err != nil {
		w.t.Fatalf("make users: %v", err)
	}
	waits := map[string][]time.Duration{}
	for round := range times {
		for i, way := range losses {
			n := w.nodes[(round+i)%len(w.nodes)]
			all := map[string]*passenger.Passenger{}
			for _, pace := range paces {
				for name, begin := range map[string]func(passenger.Options) *passenger.Passenger{"Go": func(o passenger.Options) *passenger.Passenger { return passenger.Go(w.t, o) }, "TypeScript": sdk.Passenger} {
					o := w.ticket(n, fmt.Sprintf("w-%s-%d-%d-%d", name, round, i, pace.Milliseconds()))
					o.To, o.Every, o.Reads = to, pace, false
					all[fmt.Sprintf("%s gateway, %s, each %v", way.name, name, pace)] = begin(o)
				}
			}
			crowd.Wait(w.t.Context(), between(rng, 7*time.Second, 10*time.Second))
			w.avoided.Store(n)
			for _, p := range all {
				p.Longest()
			}
			way.inject(w, n)
			for what, p := range all {
				if !eventually.Holds(func() bool { _, since, _ := p.Acked(); return len(p.Connections()) > 1 && since > 3 }) {
					w.t.Errorf("%s: %s is at %v", what, p.Name, p.Connections())
				}
			}
			way.mend(w, n)
			w.avoided.Store(nil)
			w.awaitFeeds()
			for what, p := range all {
				waits[what] = append(waits[what], p.Longest())
				p.Stop()
			}
			if w.t.Failed() {
				return
			}
		}
	}
	for _, what := range slices.Sorted(maps.Keys(waits)) {
		list := waits[what]
		slices.Sort(list)
		w.t.Logf("%s, %d times: wait for an ack p50=%v max=%v", what, len(list), share(list, 0.5), share(list, 1))
		if longest := list[len(list)-1]; longest > 6*time.Second && len(list) >= 10 {
			w.t.Errorf("%s: longest wait for an ack %v, want at most 6s; all: %v", what, longest, list)
		}
	}
}
