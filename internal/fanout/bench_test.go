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

// It measures what a delivery costs its owner when a third of the members is online at each
// of three nodes: choosing recipients and making frames, without the streams.
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
						f.Remote.online.add(f.Table.hash(a), 1<<(at-1))
						continue
					}
					o := NewOutbox(protoTCP, NewFlusher(func() {}), -1)
					o.Account = a
					o.Close() // nobody reads it, so it must not grow
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

// How much memory a user takes here who is online at another node.
func BenchmarkMillionUsersElsewhere(b *testing.B) {
	n := NewNodes(NewTable(), stream.New(busOf(b), 1, stream.Options{}), secret, nil)
	dice := rand.New(rand.NewPCG(1, 1))
	before := heap()
	const users = 1_000_000
	for b.Loop() {
		for range users {
			n.online.add(dice.Uint64(), 1<<dice.IntN(2))
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

// A million users are online at three nodes that NATS connects on this machine. It
// measures how much memory a node needs for the two thirds at other nodes, and how
// long it takes until every node knows all users: at the start, after a packet was
// lost, after a cut that is longer than the ring of the streams remembers, and
// after a restart.
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
		all[0] = all[0].restart()
		until(b, func() bool { return all[0].nodes.joined.Load() == 2 })
		b.ReportMetric(time.Since(began).Seconds(), "s/restart-joined")
		know(all[0], 2*each+2*more)
		b.ReportMetric(time.Since(began).Seconds(), "s/restart-knows")
		endAll(all)
	}
}

// onNATS joins nodes. Each has a NATS server of its own, with routes to the others.
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

// until waits for a condition, and returns how long that took.
func until(b *testing.B, ok func() bool) time.Duration {
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	began := time.Now()
	for !ok() {
		if time.Since(began) > 30*time.Second {
			b.Fatal("the condition is not met after 30 s")
		}
		<-poll.C
	}
	return time.Since(began)
}

func (n *Nodes) count() (users int) {
	for i := range n.online.parts {
		p := &n.online.parts[i]
		p.mu.RLock()
		users += len(p.nodes)
		p.mu.RUnlock()
	}
	return users
}
