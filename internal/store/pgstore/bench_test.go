package pgstore

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/pgtest"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// cpu is what this process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // zero is a wrong figure, not a wrong store
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkAppend has 64 feeds append all the time, each its next batch when
// the last one is done, on a server that syncs. A row has 200 bytes, and each
// batch its feed entry.
func BenchmarkAppend(b *testing.B) {
	for _, rows := range []int{1, 64, 1000} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) { benchAppend(b, 64, rows) })
	}
	b.Run("alone", func(b *testing.B) { benchAppend(b, 1, 1) })
}

func benchAppend(b *testing.B, feeds, rows int) {
	server := pgtest.Own(b, pgtest.Options{Settings: map[string]string{
		"fsync": "on", "shared_buffers": "1GB", "max_wal_size": "8GB", "checkpoint_timeout": "30min",
	}})
	st := mustOpen(b, Options{DSNs: []string{server.New(b)}})
	defer mustClose(b, st)
	writers := make([]*feedWriter, feeds)
	for i := range writers {
		writers[i] = newFeedWriter(b, st, store.Feed(i))
	}
	left := make(chan struct{}, b.N)
	for range b.N {
		left <- struct{}{}
	}
	close(left)
	statements := st.dbs[0].statements.Load()
	used, server0 := cpu(), server.CPU()
	b.ResetTimer()
	var wg sync.WaitGroup
	for _, w := range writers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(w.feed)))
			for range left {
				if err := appendOne(st, w.batch(rng, rows)); err != nil {
					b.Error(err)
					return
				}
				w.pos++
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	total := float64(rows) * float64(b.N)
	b.ReportMetric(total/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric((cpu()-used).Seconds()*1e6/total, "petrel-us/row")
	b.ReportMetric((server.CPU()-server0).Seconds()*1e6/total, "pg-us/row")
	b.ReportMetric(float64(b.N)/float64(st.dbs[0].statements.Load()-statements), "batches/statement")
}

// feedWriter makes the batches of one feed.
type feedWriter struct {
	feed  store.Feed
	epoch im.Epoch
	pos   im.Pos
	heads map[byte]im.Seq
}

const holder = 0xfeedfacecafebeef

func newFeedWriter(t testing.TB, st *Store, f store.Feed) *feedWriter {
	t.Helper()
	epoch, pos, err := st.Takeover(t.Context(), f, holder)
	if err != nil {
		t.Fatal(err)
	}
	return &feedWriter{feed: f, epoch: epoch, pos: pos, heads: map[byte]im.Seq{}}
}

// conv is the nth conversation of a feed.
func conv(f store.Feed, n byte) im.Key {
	return im.Key{Tenant: 1, Conv: im.ConvID{'d', byte(f), n, 7: 0xa5, 15: 0x5a}}
}

func (w *feedWriter) batch(rng *rand.Rand, rows int) *store.Batch {
	b := &store.Batch{Feed: w.feed, Epoch: w.epoch, Holder: holder, From: w.pos, Entry: &storepb.FeedEntry{TimeMs: 1}}
	value := make([]byte, 200)
	for range rows {
		n := byte(rng.Uint32())
		w.heads[n]++
		b.Rows = append(b.Rows, store.RowPut{Conv: conv(w.feed, n), Seq: w.heads[n], Value: value})
	}
	return b
}

func appendOne(st *Store, b *store.Batch) error {
	done := make(chan error, 1)
	st.Append(b, func(err error) { done <- err })
	return <-done
}

// BenchmarkSizes reads the sizes of 6,400 conversations that have 1, 10 and 100 rows on average. An operation is one
// conversation; the CPU is that of Petrel and of PostgreSQL.
func BenchmarkSizes(b *testing.B) {
	for _, rows := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			server := pgtest.Own(b, pgtest.Options{})
			st := mustOpen(b, Options{DSNs: []string{server.New(b)}})
			defer mustClose(b, st)
			rng := rand.New(rand.NewPCG(1, 2))
			for f := range 25 {
				w := newFeedWriter(b, st, store.Feed(f))
				for range 4 * rows {
					batch := w.batch(rng, 64)
					if w.pos == 0 {
						for n := range 256 {
							batch.Convs = append(batch.Convs, store.ConvPut{Conv: conv(w.feed, byte(n)), Record: &storepb.Conversation{Kind: 2}})
						}
					}
					if err := appendOne(st, batch); err != nil {
						b.Fatal(err)
					}
					w.pos++
				}
			}
			n, used, server0 := 0, cpu(), server.CPU()
			b.ResetTimer()
			for n < b.N {
				if err := st.Sizes(b.Context(), func(im.Key, store.Size) bool {
					n++
					return n < b.N
				}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((cpu()-used).Microseconds())/float64(b.N), "petrel-us/op")
			b.ReportMetric((server.CPU()-server0).Seconds()*1e6/float64(b.N), "pg-us/op")
		})
	}
}
