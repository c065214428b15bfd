package fanout

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/bus"
	"github.com/petrel-im/petrel/internal/bus/bustest"
	"github.com/petrel-im/petrel/internal/bus/localbus"
	"github.com/petrel-im/petrel/internal/bus/natsbus"
	"github.com/petrel-im/petrel/internal/bus/stream"
	"github.com/petrel-im/petrel/internal/im"
)

// What a delivery costs its owner when the members are online at three nodes, a
// third at each: recipients and frames, without what the streams do.
func BenchmarkDeliverToNodes(b *testing.B) {
	for _, members := range []int{2, 1000, 10_000} {
		for _, nodes := range []int{1, 3} {
			b.Run(fmt.Sprintf("%d members on %d", members, nodes), func(b *testing.B) {
				f := New(NewTable())
				f.Remote = NewNodes(f.Table, stream.New(busOf(b), 1, stream.Options{}), secret, nil)
				for i := range nodes - 1 {
					f.Remote.join(f.Remote.node(im.Node(rune('b' + i))))
				}
				var users []im.User
				for i := range members {
					users = append(users, im.User(fmt.Sprintf("user%05d", i)))
					a := im.Account{Tenant: im.DefaultTenant, User: users[i]}
					if at := i % nodes; at > 0 {
						f.Remote.set(f.Table.hash(a), 1<<(at-1))
						continue
					}
					o := NewOutbox(protoTCP, NewFlusher(func() {}), -1, nil)
					o.Account = a
					o.Close() // nobody reads
					f.Table.Enter(a, o, -1)
				}
				items := []Item{{Row: row(1, "user00000", "how are you?")}}
				b.ReportAllocs()
				for b.Loop() {
					f.Deliver(im.DefaultTenant, users, items)
					f.Flush()
				}
			})
		}
	}
}

// What another node's online user takes in memory here.
func BenchmarkMillionUsersElsewhere(b *testing.B) {
	n := NewNodes(NewTable(), stream.New(busOf(b), 1, stream.Options{}), secret, nil)
	dice := rand.New(rand.NewPCG(1, 1))
	before := heap()
	const users = 1_000_000
	for b.Loop() {
		for range users {
			n.set(dice.Uint64(), 1<<dice.IntN(2))
		}
	}
	b.ReportMetric(float64(heap()-before)/users/float64(b.N), "bytes/user")
	runtime.KeepAlive(n)
}

func busOf(b *testing.B) *localbus.Bus {
	net, err := localbus.New().Join("a")
	if err != nil {
		b.Fatal(err)
	}
	return net
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A million users online at three nodes on NATS, whose routes are of this
// machine: what a node takes in memory for the two thirds elsewhere, and how long
// it takes until all nodes know all of them, until one that was started again
// does, until one does that a packet did not reach, and one that was cut off for
// longer than the ring of the streams remembers.
func BenchmarkMillionUsers(b *testing.B) {
	const each, more = 333_333, 10_000
	for b.Loop() {
		join := onNATS(b)
		var all []*site
		for i := range 3 {
			all = append(all, startSite(b, join, im.Node(rune('a'+i)), stream.Options{}))
		}
		until(b, func() bool {
			return !slices.ContainsFunc(all, func(s *site) bool { return s.nodes.joined.Load() < 2 })
		})
		before := heap()
		login := func(i, from, n int) {
			var user [24]byte
			for u := from; u < from+n; u++ {
				o := &Outbox{Account: im.Account{Tenant: im.DefaultTenant, User: im.User(fmt.Appendf(user[:0], "user-%d-%d", i, u))}}
				all[i].fan.Table.Enter(o.Account, o, -1)
			}
		}
		know := func(s *site, n int) time.Duration { return until(b, func() bool { return s.nodes.count() == n }) }

		began := time.Now()
		for i := range all {
			login(i, 0, each)
		}
		b.ReportMetric(time.Since(began).Seconds(), "s/logins")
		for _, s := range all {
			know(s, 2*each)
		}
		b.ReportMetric(time.Since(began).Seconds(), "s/announced")
		b.ReportMetric(float64(heap()-before)/3/(1<<20), "MiB/node")

		login(1, each, more/2)
		know(all[0], 2*each+more/2)
		lost := atomic.Bool{}
		all[1].bus.SetRules(bustest.Rules{Drop: func(to im.Node, _ bus.Subject, payload []byte) bool {
			return to == "a" && len(payload) > 1000 && !lost.Swap(true)
		}})
		login(1, each+more/2, more/2)
		b.ReportMetric(know(all[0], 2*each+more).Seconds(), "s/lost-packet")
		if !lost.Load() {
			b.Error("no packet was lost")
		}
		all[1].bus.Cut("a", true)
		login(1, each+more, more)
		<-time.After(5 * time.Second)
		all[1].bus.Cut("a", false)
		b.ReportMetric(know(all[0], 2*each+2*more).Seconds(), "s/lost-5s")

		all[0].end()
		began = time.Now()
		all[0] = all[0].again()
		until(b, func() bool { return all[0].nodes.joined.Load() == 2 })
		b.ReportMetric(time.Since(began).Seconds(), "s/restart-joined")
		know(all[0], 2*each+2*more)
		b.ReportMetric(time.Since(began).Seconds(), "s/restart-knows")
		endAll(all)
	}
}

// onNATS joins nodes that each have a NATS server, with routes between them.
func onNATS(b *testing.B) func(im.Node) (bus.Bus, error) {
	var routes []string
	return func(n im.Node) (bus.Bus, error) {
		nb, err := natsbus.Join(b.Context(), n, natsbus.Options{Cluster: "bench", Listen: "127.0.0.1:0", Secret: "s", Routes: routes})
		if err == nil {
			routes = append(routes, nb.ClusterAddr())
		}
		return nb, err
	}
}

// until waits for something, and returns how long that took.
func until(b *testing.B, ok func() bool) time.Duration {
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	began := time.Now()
	for !ok() {
		if time.Since(began) > 30*time.Second {
			b.Fatal("it does not come to pass")
		}
		<-poll.C
	}
	return time.Since(began)
}

func (n *Nodes) count() (users int) {
	for i := range n.shards {
		s := &n.shards[i]
		s.mu.RLock()
		users += len(s.at)
		s.mu.RUnlock()
	}
	return users
}
