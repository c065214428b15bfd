package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/imtest/proctest"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/test/crowd"
)

var faults = []fault{
	{name: "kill-node", long: 100, ci: true, run: killNode},
	{name: "pause-node", long: 20, ci: true, run: pauseNode},
	{name: "drain-node", long: 20, ci: true, run: drainNode},
	{name: "gateways", long: 20, run: gateways}, // make gateways, as slow-node and clock-steps
	{name: "kill-postgres", long: 20, run: killPostgres},
	{name: "rolling-restart", long: 5, run: rollingRestart},
	{name: "failover", long: 3, once: true, run: failover},
	{name: "connection-storm", long: 3, run: storm},
	{name: "add-node", long: 5, run: addNode},
	{name: "cut-bus", long: 5, root: true, way: cuttable, run: cutBus},
	{name: "cut-one-way", long: 5, root: true, way: cuttable, run: cutOneWay},
	{name: "cut-flapping", long: 5, root: true, way: cuttable, run: cutFlapping},
	{name: "cut-off", long: 5, ci: true, root: true, way: cuttable, run: cutOff},
	{name: "slow-node", long: 20, root: true, way: cuttable, run: slowNode},
	{name: "clock-steps", long: 3, run: clockSteps},
	{name: "writers", long: 10, root: true, way: cuttable, run: writers},
	{name: "kill-nats", long: 10, way: external, run: killNATS},
	{name: "kill-node-on-nats", long: 10, way: external, run: killNode},
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

// between draws a time.
func between(rng *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(rng.Int64N(int64(most-least)))
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

// pauseNode: a process stands still, others take over, and it goes on where it
// was: its next append is refused. If it had nothing to append at that moment, it is
// stopped once more.
func pauseNode(w *world, rng *rand.Rand, times int) {
	const more = 4
	for i := 0; i < times || w.stale == 0 && i < times+more; i++ {
		n, d := w.victim(i), between(rng, time.Second, 30*time.Second)
		before := n.metric(refusedMetric)
		w.fault("pause of "+n.name, 2*takeover, func() {
			w.avoided.Store(n) // as a load balancer does
			n.pause(true)
			if *repeat == 0 {
				w.takenOver(n)
			} else {
				crowd.Wait(w.t.Context(), d)
			}
			n.pause(false)
			w.avoided.Store(nil)
		})
		w.awaitFeeds()
		w.stale += n.metric(refusedMetric) - before
		if w.t.Failed() {
			return
		}
	}
	if w.stale == 0 {
		w.t.Error("no append of a node that had been replaced was refused: the pauses did not do what they are for")
	}
}

// takenOver waits until the other nodes own all feeds.
func (w *world) takenOver(n *node) {
	w.t.Helper()
	eventually.True(w.t, "the others have taken over from "+n.name, func() bool {
		crowd.Wait(w.t.Context(), 50*time.Millisecond)
		sum := 0.0
		for _, o := range w.nodes {
			if o != n {
				sum += o.metric(ownedMetric)
			}
		}
		return sum == 256
	})
}

// drainNode: SIGTERM. The node hands over what it has and ends.
func drainNode(w *world, rng *rand.Rand, times int) {
	for i := range times {
		n := w.victim(i)
		w.fault("drain of "+n.name, handOver, n.end)
		n.start()
		w.awaitFeeds()
		w.breathe(rng, time.Second)
		if w.t.Failed() {
			return
		}
	}
}

// rollingRestart: all nodes, one after the other.
func rollingRestart(w *world, _ *rand.Rand, times int) {
	for range times {
		for _, n := range w.nodes {
			w.fault("restart of "+n.name, handOver, func() {
				n.end()
				n.start()
				w.awaitFeeds()
			})
		}
	}
}

// addNode: a fourth node comes, takes its part, and is drained.
func addNode(w *world, rng *rand.Rand, times int) {
	n := newNode(w.t, "n4")
	w.nodes = append(w.nodes, n)
	w.configure(n)
	for range times {
		w.fault("a node added", handOver, func() {
			n.start()
			w.awaitFeeds()
		})
		w.breathe(rng, 3*time.Second)
		w.fault("the node drained", handOver, n.end)
	}
}

// killPostgres: the database is gone for a while and comes back with all that
// it had.
func killPostgres(w *world, rng *rand.Rand, times int) {
	for range times {
		d := between(rng, 100*time.Millisecond, 8*time.Second)
		w.fault("kill -9 of PostgreSQL", d+heal, func() {
			w.must(w.primary.Kill())
			crowd.Wait(w.t.Context(), d)
			w.must(w.primary.Start())
		})
		w.breathe(rng, 3*time.Second)
		if w.t.Failed() {
			return
		}
	}
}

// failover: the primary is lost, the standby takes its place, and many clients
// connect at once.
func failover(w *world, rng *rand.Rand, _ int) {
	w.fault("failover to the standby", heal, func() {
		w.must(w.primary.Kill())
		w.breathe(rng, time.Second)
		w.must(w.promote())
		w.t.Logf("1000 connections took %v", w.crowd.Storm(w.t.Context(), 1000).Round(time.Millisecond))
	})
}

// storm: many clients connect at once.
func storm(w *world, _ *rand.Rand, times int) {
	for range times {
		w.fault("connection storm", takeover, func() {
			w.t.Logf("1000 connections took %v", w.crowd.Storm(w.t.Context(), 1000).Round(time.Millisecond))
		})
	}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// cutBus: a node is alone on the bus, and goes on with the database. The others
// take over what it owned, and its clients come to them.
func cutBus(w *world, rng *rand.Rand, times int) {
	for i := range times {
		n, d := w.nodes[i%3], between(rng, time.Second, 15*time.Second)
		w.fault("cut of the bus around "+n.name, 2*takeover, func() {
			w.net.set(true, w.around(n)...)
			crowd.Wait(w.t.Context(), d)
			if d > 2*takeover && n.ready() {
				w.t.Errorf("%s, alone for %v, is ready for clients", n.name, d)
			}
			w.net.set(false, w.around(n)...)
		})
		if !eventually.Holds(n.ready) {
			w.t.Errorf("%s is not ready behind the cut", n.name)
		}
		w.breathe(rng, 3*time.Second)
	}
}

// cutOneWay: nobody hears a node that hears the others, or the other way round.
func cutOneWay(w *world, rng *rand.Rand, times int) {
	for i := range times {
		n, d, way := w.nodes[i%3], between(rng, time.Second, 15*time.Second), i%2
		var cuts []direction
		for _, c := range w.around(n) {
			if (c.from == n) == (way == 0) {
				cuts = append(cuts, c)
			}
		}
		w.fault([]string{"cut of the bus from ", "cut of the bus to "}[way]+n.name, 2*takeover, func() { w.cutFor(d, cuts...) })
		w.breathe(rng, 3*time.Second)
	}
}

// cutFlapping: the bus around a node comes and goes.
func cutFlapping(w *world, rng *rand.Rand, times int) {
	for i := range times {
		n := w.nodes[i%3]
		w.fault("flapping of the bus around "+n.name, 2*takeover, func() {
			for begun := time.Now(); time.Since(begun) < 20*time.Second; {
				w.cutFor(between(rng, 100*time.Millisecond, 2*time.Second), w.around(n)...)
				w.breathe(rng, 2*time.Second)
			}
		})
	}
}

// cutOff: a node has neither the bus nor the database. It decides nothing, and
// says so; the others take over what it owned.
func cutOff(w *world, rng *rand.Rand, times int) {
	for i := range times {
		n, d := w.nodes[i%3], between(rng, 8*time.Second, 20*time.Second)
		intrude, before := w.crowd.Intruder(n.url(wire.WebSocket)), n.metric(refusedMetric)
		cuts := append(w.around(n), direction{n, nil}, direction{nil, n})
		w.fault("cut of "+n.name+" from everything", 2*takeover, func() {
			w.avoided.Store(n) // as a client does that knows others: it comes back there last
			w.net.set(true, cuts...)
			crowd.Wait(w.t.Context(), time.Second) // what was on its way
			w.decidesNothing(n, d-time.Second, intrude)
			w.forgotten(n)
			w.net.set(false, cuts...)
			w.avoided.Store(nil)
		})
		w.stale += max(0, n.metric(refusedMetric)-before)
		w.awaitFeeds()
		if w.t.Failed() {
			return
		}
	}
}

// slowNode: 300 ms pass on the way from a node to everybody else and back. The others take
// over what it owned, as long as that lasts.
func slowNode(w *world, rng *rand.Rand, times int) {
	for i := range times {
		n := w.nodes[i%3]
		w.fault("slow link of "+n.name, time.Second+takeover, func() {
			w.net.delay(n, 150*time.Millisecond)
			if !eventually.Holds(func() bool { return n.metric(ownedMetric) == 0 }) {
				w.t.Errorf("%s owns %v feeds behind its slow link", n.name, n.metric(ownedMetric))
			}
			w.breathe(rng, 10*time.Second)
			w.net.delay(n, 0)
		})
		if !eventually.Holds(func() bool { return n.metric(ownedMetric) > 0 }) {
			w.t.Errorf("%s owns nothing behind the end of its slowness", n.name)
		}
		w.awaitFeeds()
	}
}

// clockSteps: the wall clock of a node is stepped, far and back. The monotonic clock goes on.
func clockSteps(w *world, rng *rand.Rand, times int) {
	const year = 365 * 24 * time.Hour
	for i := range times {
		n := w.nodes[i%3]
		clock := proctest.StepClock(w.t, n.pid())
		for _, by := range []time.Duration{-year, -time.Hour, -time.Minute, time.Minute, year, 0} {
			w.fault(fmt.Sprintf("clock of %s stepped to %v", n.name, by), time.Second, func() {
				clock.Set(by)
				w.breathe(rng, 2*time.Second)
			})
		}
	}
}

// decidesNothing tries for d what a node says that is cut off.
func (w *world) decidesNothing(n *node, d time.Duration, intrude func(context.Context) error) {
	w.t.Helper()
	l, begun := w.crowd.Ledger, time.Now()
	acked := l.AckedBy(n.url(wire.WebSocket), n.url(wire.TCP))
	said := map[im.Code]int{}
	for time.Since(begun) < d {
		ctx, cancel := context.WithTimeout(w.t.Context(), d-time.Since(begun))
		err := intrude(ctx)
		cancel()
		e, ok := errors.AsType[*im.Error](err)
		switch {
		case !ok:
			said["nothing"]++
		case e.Code.Info().Settled:
			w.t.Errorf("%s answered a send with %v while it was cut off", n.name, err)
			return
		default:
			said[e.Code]++
		}
		crowd.Wait(w.t.Context(), 100*time.Millisecond)
	}
	more := l.AckedBy(n.url(wire.WebSocket), n.url(wire.TCP)) - acked
	w.t.Logf("%s, cut off for %v, acked %d sends, and answered others with %v", n.name, d.Round(time.Millisecond), more, said)
	if more > 0 {
		w.t.Errorf("%s acked %d messages while it was cut off", n.name, more)
	}
}

// forgotten waits until the database has ended the sessions of a node that is
// cut off: their locks are free.
func (w *world) forgotten(n *node) {
	w.t.Helper()
	none := fmt.Sprintf(`DO $$ BEGIN ASSERT NOT EXISTS (SELECT FROM pg_stat_activity WHERE client_addr = '%s'); END $$`, w.net.addrs[n])
	var err error
	if !eventually.Holds(func() bool { err = w.primary.Exec("postgres", none); return err == nil }) {
		w.t.Errorf("the database has sessions of %s that is cut off: %v", n.name, err)
	}
}

// around is every way between n and the other nodes.
func (w *world) around(n *node) []direction {
	var list []direction
	for _, o := range w.nodes {
		if o != n {
			list = append(list, direction{n, o}, direction{o, n})
		}
	}
	return list
}

func (w *world) cutFor(d time.Duration, cuts ...direction) {
	w.net.set(true, cuts...)
	crowd.Wait(w.t.Context(), d)
	w.net.set(false, cuts...)
}
