package conv_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/conv/convtest"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/note"
)

// It measures the cost of reactions: 1,000 members of a group of 10,000, of whom 2,000 are
// online and look at the group, have three reactions each at one message, and then change
// them 10,000 times, at most 2,000 times in a second. Somebody else sends to another
// conversation, one message after the other, before and meanwhile.
func BenchmarkReactionsInALargeGroup(b *testing.B) {
	const members, online, reacting, toggles = 10_000, 2_000, 1_000, 10_000
	for range b.N {
		b.Chdir(b.TempDir())
		w := &world{fs: vfs.Default}
		w.start(b)
		users := make([]im.User, members)
		for i := range users {
			users[i] = im.User(fmt.Sprintf("user-%05d", i))
		}
		key, other := w.Group(users...), w.Group("ann", "ben")
		q := w.MustSend(convtest.Message(key, users[0], "m", 1, "hello"))
		screens := make([]*convtest.Screen, online)
		for i := range screens {
			screens[i] = w.Online(users[members-1-i], convtest.Notes)
		}
		emojis := make([]string, note.MaxReactions)
		for i := range emojis {
			emojis[i] = fmt.Sprintf("e%02d", i)
		}
		react := func(u im.User, emoji string, removed bool) {
			_, err := w.owner().React(b.Context(), conv.Query{Conv: key, User: u}, &convpb.React{Seq: uint64(q), Emoji: emoji, Removed: removed})
			if err != nil {
				b.Error(err)
			}
		}
		each := func(n int, f func(i int)) {
			var next atomic.Int64
			var wg sync.WaitGroup
			for range 32 { // as many as serve calls
				wg.Go(func() {
					for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
						f(i)
					}
				})
			}
			wg.Wait()
		}
		each(reacting, func(i int) {
			for k := range note.MaxUserReactions {
				react(users[i], emojis[(i+k)%len(emojis)], false)
			}
		})
		sent := 0
		acks := func(stop *atomic.Bool, n int) (took []time.Duration) {
			for len(took) < n || n == 0 && !stop.Load() {
				sent++
				at := time.Now()
				w.MustSend(convtest.Message(other, "ann", fmt.Sprint(sent), 1, "hello"))
				took = append(took, time.Since(at))
			}
			slices.Sort(took)
			return took
		}
		quiet := acks(nil, 1000)
		for _, s := range screens {
			s.Out.Take()
		}
		var stop atomic.Bool
		var busy []time.Duration
		var wg sync.WaitGroup
		pushed := 0
		wg.Go(func() { busy = acks(&stop, 0) })
		wg.Go(func() {
			for ; !stop.Load(); <-time.After(10 * time.Millisecond) {
				for _, s := range screens {
					p, _ := s.Out.Take()
					pushed += len(p.Bytes)
					s.Out.Wrote(p, 0)
				}
			}
		})
		cpu, begun := cpuTime(b), time.Now()
		took := make([]time.Duration, toggles)
		b.StartTimer()
		each(toggles, func(i int) {
			<-time.After(time.Until(begun.Add(time.Duration(i) * 500 * time.Microsecond)))
			at := time.Now()
			u := i % reacting
			react(users[u], emojis[u%len(emojis)], i/reacting%2 == 0)
			took[i] = time.Since(at)
		})
		b.StopTimer()
		spent, elapsed := cpuTime(b)-cpu, time.Since(begun)
		stop.Store(true)
		wg.Wait()
		slices.Sort(took)
		ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
		p99 := func(all []time.Duration) float64 { return ms(all[len(all)*99/100]) }
		b.ReportMetric(spent.Seconds(), "cpu-s")
		b.ReportMetric(elapsed.Seconds(), "s")
		b.ReportMetric(float64(pushed)/1e6, "MB-pushed")
		b.ReportMetric(p99(took), "react-p99-ms")
		b.ReportMetric(p99(quiet), "quiet-ack-p99-ms")
		b.ReportMetric(p99(busy), "ack-p99-ms")
		b.ReportMetric(float64(len(busy)), "acks")
		w.stop()
	}
}

// cpuTime is what this process has used.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
