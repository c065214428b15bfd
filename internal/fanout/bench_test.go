package fanout

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/bus/localbus"
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

// How long it takes until a node that was started knows the 333,333 users of
// each of two others.
func BenchmarkLearnMillionUsers(b *testing.B) {
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for b.Loop() {
		b.StopTimer()
		net := localbus.New()
		var all []*site
		began := time.Now()
		for i := range 3 {
			s := startSite(b, net, im.Node(rune('a'+i)), stream.Options{})
			all = append(all, s)
			if i == 0 {
				continue
			}
			for u := range 333_333 {
				s.fan.Table.Enter(im.Account{Tenant: im.DefaultTenant, User: im.User(fmt.Sprint("u", i, "-", u))}, &Outbox{}, -1)
			}
		}
		ctx, cancel := context.WithTimeout(b.Context(), 20*time.Second)
		for all[0].nodes.count() < 666_666 && ctx.Err() == nil {
			<-poll.C
		}
		b.ReportMetric(time.Since(began).Seconds(), "s/announced")
		all[0].end()
		all[0] = all[0].again()
		for all[0].nodes.joined.Load() < 2 && ctx.Err() == nil {
			<-poll.C
		}
		b.StartTimer()
		for all[0].nodes.count() < 666_666 && ctx.Err() == nil {
			<-poll.C
		}
		b.StopTimer()
		if ctx.Err() != nil {
			b.Errorf("knows %d", all[0].nodes.count())
		}
		cancel()
		endAll(all)
		b.StartTimer()
	}
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
