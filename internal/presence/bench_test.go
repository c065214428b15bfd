package presence_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/user"
	"github.com/petrel-im/petrel/internal/wake"
)

// cpu is what the process has used of processors.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// writer is what a gateway has for its connections: it encodes what was told, and writes
// it nowhere.
type writer struct {
	flusher *fanout.Flusher
	ready   chan struct{}
	writes  atomic.Int64
}

func newWriter() *writer {
	w := &writer{ready: make(chan struct{}, 1)}
	w.flusher = fanout.NewFlusher(func() { wake.Set(w.ready) })
	return w
}

func (w *writer) run(ctx context.Context) {
	var due []*fanout.Outbox
	for {
		due = w.flusher.Take(due)
		for _, o := range due {
			if p, _ := o.Take(); len(p.Bytes) > 0 {
				w.writes.Add(1)
				o.Wrote(p, 0)
			}
		}
		select {
		case <-w.ready:
		case <-ctx.Done():
			return
		}
	}
}

// BenchmarkDeathOfANode is what 10,000 sessions cost that watch users of a node that dies:
// when all of them set their lists, as sessions do that come from another node that has died,
// and when all users whom they watch are gone for good. The CPU is that of the presence and
// of the encoding, without sockets and without the store. Run it with -benchtime 1x.
func BenchmarkDeathOfANode(b *testing.B) {
	const watchers, targets = 10_000, 10_000
	for _, each := range []int{20, 200} {
		for name, policy := range map[string]user.PresencePolicy{"everybody": user.ToEverybody, "peers": user.ToPeers} {
			b.Run(fmt.Sprintf("%d of each, seen by %s", each, name), func(b *testing.B) {
				for range b.N {
					w := newWorldOf(b, 1)
					w.store.quiet = true
					n := w.nodes[0]
					var users []im.User
					var gone []*session
					for i := range targets {
						users = append(users, im.User(fmt.Sprint("u", i)))
						w.store.set(users[i], policy)
						gone = append(gone, n.connect(b, users[i]))
					}
					out := newWriter()
					n.flusher = out.flusher
					of := func(watcher, k int) im.User { return users[(watcher*7+k*491)%targets] }
					w.store.peersOf = map[string][]byte{}
					for i := range watchers {
						u := im.User(fmt.Sprint("w", i))
						var keys [][]byte
						for k := range each {
							keys = append(keys, im.PairKey(u, of(i, k)))
						}
						slices.SortFunc(keys, bytes.Compare)
						w.store.peersOf[string(im.PairKey(u, ""))] = append(bytes.Join(keys, []byte("\n")), '\n')
					}
					var all []*session
					for i := range watchers {
						all = append(all, n.connect(b, im.User(fmt.Sprint("w", i))))
					}
					ctx, stop := context.WithCancel(b.Context())
					var writing sync.WaitGroup
					writing.Go(func() { out.run(ctx) })
					before := cpu(b)
					for i, s := range all {
						list := make([]im.User, each)
						for k := range list {
							list[k] = of(i, k)
						}
						s.set(list...)
					}
					w.told(uint64(watchers * each))
					b.ReportMetric(float64((cpu(b) - before).Milliseconds()), "watch-cpu-ms")
					before, writes := cpu(b), out.writes.Load()
					for _, s := range gone {
						n.table.Leave(s.out.Account, s.out)
					}
					w.told(uint64(2 * watchers * each))
					b.ReportMetric(float64((cpu(b) - before).Milliseconds()), "death-cpu-ms")
					b.ReportMetric(float64(out.writes.Load()-writes), "death-writes")
					stop()
					writing.Wait()
					w.end()
				}
			})
		}
	}
}

// told waits until so many presences were told.
func (w *world) told(want uint64) {
	for w.nodes[0].Sent.Load() < want {
		<-time.After(20 * time.Millisecond)
	}
}

// BenchmarkNewProfile changes the profile of a user whom 10,000 sessions of the node know, and of which 200 watch the
// user: what the change costs beside the update of the record. frames/op are the presences that are told.
func BenchmarkNewProfile(b *testing.B) {
	const know, watch = 10_000, 200
	w := newWorldOf(b, 1)
	w.store.quiet = true
	n := w.nodes[0]
	w.store.set("bob", user.ToEverybody)
	out := newWriter()
	n.flusher = out.flusher
	ctx, stop := context.WithCancel(b.Context())
	var writing sync.WaitGroup
	writing.Go(func() { out.run(ctx) })
	for i := range know {
		u := im.User(fmt.Sprint("w", i))
		w.store.peers = append(w.store.peers, string(im.PairKey(u, "bob")))
		s := n.connect(b, u)
		s.out.Profiles = true
		if i < watch {
			s.set("bob")
		}
	}
	w.told(watch)
	sent, begin := n.Sent.Load(), cpu(b)
	b.ResetTimer()
	for i := range b.N {
		w.rename(n, "bob", fmt.Sprint("v", i))
		w.told(sent + uint64(i+1)*watch)
	}
	b.ReportMetric(float64((cpu(b)-begin).Microseconds())/float64(b.N), "cpu-us/op")
	b.ReportMetric(float64(n.Sent.Load()-sent)/float64(b.N), "frames/op")
	stop()
	writing.Wait()
	w.end()
}
