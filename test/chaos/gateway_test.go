package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
	"github.com/petrel-im/petrel/test/crowd"
	"github.com/petrel-im/petrel/test/passenger"
)

// departure is a way in which a gateway leaves its clients.
type departure struct {
	name string
	// limit is how long a client may wait for an ack. Where the gateway also owns the
	// conversation, another node has to take that over first.
	limit        time.Duration
	inject, mend func(w *world, n *node)
}

var departures = []departure{
	{"frozen", 6 * time.Second, // its sockets stay open
		func(_ *world, n *node) { n.pause(true) }, func(_ *world, n *node) { n.pause(false) }},
	{"killed", 6 * time.Second,
		func(_ *world, n *node) { n.kill() }, func(_ *world, n *node) { n.start() }},
	{"drained", time.Second, (*world).drain, (*world).resume},
	{"stopped", time.Second, // by SIGTERM: it drains, and ends
		func(_ *world, n *node) { n.end() }, func(_ *world, n *node) { n.start() }},
}

// drain has a node drained as `petrel cluster drain` does.
func (w *world) drain(n *node) {
	w.t.Helper()
	r, err := w.crowd.Admin(n.operators()).DrainNode(w.t.Context(), connect.NewRequest(&petrelv1.DrainNodeRequest{Node: n.name}))
	if err != nil || r.Msg.Sessions == 0 {
		w.t.Errorf("drain %s: %v, %v", n.name, r, err)
		return
	}
	w.t.Logf("%s gave %d partitions and %d sessions away in %d ms", n.name, r.Msg.Partitions, r.Msg.Sessions, r.Msg.TookMs)
}

func (w *world) resume(n *node) {
	w.t.Helper()
	if _, err := w.crowd.Admin(n.operators()).ResumeNode(w.t.Context(), connect.NewRequest(&petrelv1.ResumeNodeRequest{Node: n.name})); err != nil {
		w.t.Errorf("resume %s: %v", n.name, err)
	}
}

// gateways: each node is the gateway of a passenger of each SDK, and leaves them. In a round
// each departure happens once: the first node leaves twice, the second time other passengers.
func gateways(w *world, rng *rand.Rand, times int) {
	sdk := passenger.StartNode(w.t)
	waits := map[string][]time.Duration{} // longest wait of each passenger, by departure and SDK
	for round := range times {
		begin := func(n *node, part string) map[string]*passenger.Passenger {
			return map[string]*passenger.Passenger{
				"Go":         passenger.Go(w.t, w.ticket(n, fmt.Sprintf("go-%d-%s%s", round, n.name, part))),
				"TypeScript": sdk.Passenger(w.ticket(n, fmt.Sprintf("ts-%d-%s%s", round, n.name, part))),
			}
		}
		last := func() { crowd.Wait(w.t.Context(), between(rng, 6*time.Second, 7*time.Second)) } // connections that have lasted: S-2.6
		at := map[*node]map[string]*passenger.Passenger{}
		for _, n := range w.nodes {
			at[n] = begin(n, "")
		}
		last()
		ways := slices.Clone(departures)
		rng.Shuffle(len(ways), func(i, j int) { ways[i], ways[j] = ways[j], ways[i] })
		for i, way := range ways {
			n := w.nodes[(round+i)%len(w.nodes)]
			if i == len(w.nodes) {
				stop(at[n])
				at[n] = begin(n, "-again")
				last()
			}
			for name, d := range w.leave(n, way, at) {
				waits[way.name+" gateway, "+name] = append(waits[way.name+" gateway, "+name], d)
			}
			if w.t.Failed() {
				return
			}
		}
		for _, list := range at {
			stop(list)
		}
	}
	for _, way := range departures {
		for _, name := range []string{"Go", "TypeScript"} {
			what := way.name + " gateway, " + name
			all := waits[what]
			if len(all) == 0 {
				continue
			}
			slices.Sort(all)
			longest := all[len(all)-1]
			w.t.Logf("%s, %d times: wait for an ack p50=%v p95=%v max=%v", what, len(all), share(all, 0.5), share(all, 0.95), share(all, 1))
			if longest > way.limit && areTimesJudged() {
				w.t.Errorf("%s: longest wait for an ack %v, want at most %v; all: %v", what, longest, way.limit, all)
			}
		}
	}
}

func stop(list map[string]*passenger.Passenger) {
	for _, p := range list {
		p.Stop()
	}
}

// ticket is a passenger who begins at n, and writes to and reads a conversation of their own
// all the time.
func (w *world) ticket(n *node, user string) passenger.Options {
	w.t.Helper()
	r, err := w.crowd.Admin(n.operators()).CreateUsers(w.t.Context(), connect.NewRequest(&petrelv1.CreateUsersRequest{Users: []string{user}}))
	if err != nil {
		w.t.Fatalf("make user %s: %v", user, err)
	}
	return passenger.Options{Name: user, URL: n.url(wire.WebSocket), Token: r.Msg.Tokens[0].Token, To: []string{user}, Every: 50 * time.Millisecond, Reads: true}
}

// leave has n leave its passengers, and returns how long each of them waited for an ack at most.
func (w *world) leave(n *node, way departure, at map[*node]map[string]*passenger.Passenger) map[string]time.Duration {
	w.t.Helper()
	for _, p := range at[n] {
		if to := p.Connections(); len(to) != 1 || to[0] != n.http {
			w.t.Errorf("%s has connected to %v, and not to %s alone", p.Name, to, n.http)
		}
		p.Longest()
	}
	w.avoided.Store(n)
	way.inject(w, n)
	for _, p := range at[n] {
		// Each message that had no ack when the new connection was open has one now. A
		// passenger that writes faster than it gets acks has always some message without
		// one.
		waiting := -1
		if !eventually.Holds(func() bool {
			_, since, without := p.Acked()
			if waiting < 0 && since > 0 && len(p.Connections()) > 1 {
				waiting = without
			}
			return waiting >= 0 && since > waiting+20
		}) {
			all, since, without := p.Acked()
			w.t.Errorf("%s gateway: %s, at %v, has %d acks, %d of them there, and %d messages without one", way.name, p.Name, p.Connections(), all, since, without)
		}
	}
	way.mend(w, n)
	w.avoided.Store(nil)
	w.awaitFeeds()
	waits := map[string]time.Duration{}
	for name, p := range at[n] {
		waits[name] = p.Longest()
	}
	return waits
}
