package session_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
)

// BenchmarkOthersWhileTenSync tells how long a hello and an ack take: while nobody else
// does anything; while ten users with 10,000 conversations each sync from the beginning
// without pause; and while ten users page backwards through large messages.
func BenchmarkOthersWhileTenSync(b *testing.B) {
	w := newWorld(b)
	w.limits.BodyBytes = 48 << 10
	w.start()
	const users, n, hellos = 10, 10_000, 200
	var sends []*conv.Send
	add := func(name string, users ...string) *conv.Send {
		s := newGroup(name, users...)
		sends = append(sends, s)
		return s
	}
	submit := func() {
		done := make(chan conv.Result, len(sends))
		for _, s := range sends {
			s.Done = func(r conv.Result) { done <- r }
		}
		var k fanout.WakeUps
		w.convs.Submit(sends, &k)
		k.Flush()
		for range cap(done) {
			if r := <-done; r.Err != nil {
				b.Fatal(r.Err)
			}
		}
		w.must(w.inbox.Await(b.Context()))
		sends = nil
	}
	for u := range users {
		for i := range n {
			add(fmt.Sprint("g-", u, "-", i), fmt.Sprint("greedy", u))
		}
		submit()
	}
	var greedy []string
	for u := range users {
		greedy = append(greedy, fmt.Sprint("greedy", u))
	}
	large := add("large", greedy...).Conv.Conv.String()
	submit()
	writer := w.login(w.token("", "greedy0"))
	big := string(make([]byte, 40<<10))
	for i := range 300 {
		writer.send(text(2, large, fmt.Sprint(i), big))
		for writer.next().GetAck() == nil {
		}
	}
	writer.close()
	chat := w.group("chat", "alice", "bob")
	alice, token := w.login(w.token("", "alice")), w.token("", "carol")
	k := 0

	measure := func(b *testing.B, load func(c *client)) {
		var stop atomic.Bool
		var wg sync.WaitGroup
		if load != nil {
			for _, u := range greedy {
				token := w.token("", im.User(u))
				for range 2 {
					c := w.login(token)
					wg.Go(func() {
						for !stop.Load() {
							load(c)
						}
						c.close()
					})
				}
			}
		}
		var toWelcome, toAck []time.Duration
		for b.Loop() {
			for range hellos {
				begin := time.Now()
				w.login(token).close()
				toWelcome = append(toWelcome, time.Since(begin))
				k++
				begin = time.Now()
				alice.send(text(2, chat, fmt.Sprint("k", k), "hi"))
				for alice.next().GetAck() == nil {
				}
				toAck = append(toAck, time.Since(begin))
				<-time.After(5 * time.Millisecond)
			}
		}
		stop.Store(true)
		wg.Wait()
		for what, all := range map[string][]time.Duration{"hello": toWelcome, "ack": toAck} {
			slices.Sort(all)
			b.ReportMetric(all[len(all)/2].Seconds()*1e3, what+"-p50-ms")
			b.ReportMetric(all[len(all)*99/100].Seconds()*1e3, what+"-p99-ms")
		}
	}
	b.Run("quiet", func(b *testing.B) { measure(b, nil) })
	b.Run("sync", func(b *testing.B) {
		measure(b, func(c *client) {
			var token []byte
			for {
				c.send(syncFrame(3, token))
				p := c.next().GetSync()
				if token = p.GetToken(); !p.GetMore() {
					return
				}
			}
		})
	})
	b.Run("history", func(b *testing.B) {
		measure(b, func(c *client) {
			for i := range uint64(8) {
				f := history(3+i, large)
				f.GetHistory().Before = 300
				c.send(f)
			}
			for range 8 {
				c.next()
			}
		})
	})
}
