package pebblestore

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// benchBatch fills b with rows of 130 bytes, half of them random, in random
// ones of 10,000 conversations.
func benchBatch(b *store.Batch, n int, rng *rand.Rand, heads []im.Seq) {
	b.Rows = b.Rows[:0]
	b.Entry = &storepb.FeedEntry{TimeMs: 1 << 40}
	for range n {
		i := rng.IntN(len(heads))
		heads[i]++
		c := im.Key{Tenant: 1, Conv: im.ConvID{'g', byte(i), byte(i >> 8)}}
		v := make([]byte, 130)
		for j := 0; j < 64; j += 8 {
			v[j], v[j+1], v[j+2], v[j+3] = byte(rng.Uint32()), byte(rng.Uint32()), byte(rng.Uint32()), byte(rng.Uint32())
		}
		b.Rows = append(b.Rows, store.RowPut{Conv: c, Seq: heads[i], Value: v})
		b.Entry.Items = append(b.Entry.Items, &storepb.FeedItem{Tenant: 1, Conv: c.Conv[:], From: uint64(heads[i]), Count: 1, Kinds: 1})
	}
}

// cpu is what the process has used of the processors.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkAppend commits batches one after the other, as the committer of conv
// does: the next is begun when Append returns, while the witness is written.
// A batch is one operation and includes making its rows.
func BenchmarkAppend(b *testing.B) {
	for _, rows := range []int{1, 16, 256, 1024} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			st := mustOpen(b, Options{Dir: b.TempDir(), BallastBytes: -1})
			defer mustClose(b, st)
			w := newWriter(b, st)
			rng, heads := rand.New(rand.NewPCG(1, 2)), make([]im.Seq, 10_000)
			var wg sync.WaitGroup
			b.ReportAllocs()
			used := cpu()
			for b.Loop() {
				batch := &store.Batch{Epoch: w.epoch, Holder: holder, From: w.pos}
				benchBatch(batch, rows, rng, heads)
				w.pos++
				wg.Add(1)
				st.Append(batch, func(err error) {
					if err != nil {
						b.Error(err)
					}
					wg.Done()
				})
			}
			wg.Wait()
			total := float64(rows) * float64(b.N)
			b.ReportMetric(total/b.Elapsed().Seconds(), "rows/s")
			b.ReportMetric((cpu()-used).Seconds()*1e6/total, "cpu-us/row")
		})
	}
}

func BenchmarkMakeBatch(b *testing.B) {
	rng, heads := rand.New(rand.NewPCG(1, 2)), make([]im.Seq, 10_000)
	for b.Loop() {
		benchBatch(&store.Batch{}, 1024, rng, heads)
	}
}

// BenchmarkDedupe looks for hashes that are not there, which is the rule.
func BenchmarkDedupe(b *testing.B) {
	st := mustOpen(b, Options{Dir: b.TempDir(), BallastBytes: -1})
	defer mustClose(b, st)
	w := newWriter(b, st)
	for i := range 50 {
		batch := w.next()
		for j := range 2000 {
			batch.Dedupe = append(batch.Dedupe, store.DedupePut{Conv: conv, Hash: uint64(i*2000+j) << 20, Seq: 1})
		}
		st.Append(batch, func(error) {})
	}
	if err := st.db.Flush(); err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := st.Dedupe(b.Context(), conv, rng.Uint64()|1); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkHistory reads the newest 50 rows of a conversation.
func BenchmarkHistory(b *testing.B) {
	st := mustOpen(b, Options{Dir: b.TempDir(), BallastBytes: -1})
	defer mustClose(b, st)
	w := newWriter(b, st)
	rng, heads := rand.New(rand.NewPCG(1, 2)), make([]im.Seq, 500)
	for range 200 {
		batch := &store.Batch{Epoch: w.epoch, Holder: holder, From: w.pos}
		benchBatch(batch, 1000, rng, heads)
		w.pos++
		st.Append(batch, func(error) {})
	}
	b.ReportAllocs()
	for b.Loop() {
		i := rng.IntN(len(heads))
		c := im.Key{Tenant: 1, Conv: im.ConvID{'g', byte(i), byte(i >> 8)}}
		n := 0
		if err := st.Rows(b.Context(), c, heads[i]-49, heads[i], func(store.Row) bool { n++; return true }); err != nil || n != 50 {
			b.Fatal(n, err)
		}
	}
}

// BenchmarkSizes reads the sizes of 10,000 conversations that have 1, 10 and 100 rows on average.
// An operation is one conversation.
func BenchmarkSizes(b *testing.B) {
	for _, rows := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			st := mustOpen(b, Options{Dir: b.TempDir(), BallastBytes: -1})
			defer mustClose(b, st)
			w := newWriter(b, st)
			rng, heads := rand.New(rand.NewPCG(1, 2)), make([]im.Seq, 10_000)
			for range 10 * rows {
				batch := &store.Batch{Epoch: w.epoch, Holder: holder, From: w.pos}
				benchBatch(batch, 1000, rng, heads)
				w.pos++
				done := make(chan error, 1)
				st.Append(batch, func(err error) { done <- err })
				if err := <-done; err != nil {
					b.Fatal(err)
				}
			}
			n, used := 0, cpu()
			b.ResetTimer()
			for n < b.N {
				if err := st.Sizes(b.Context(), func(im.Key, store.Size) bool {
					n++
					return n < b.N
				}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((cpu()-used).Nanoseconds())/float64(b.N), "cpu-ns/op")
		})
	}
}
