package stream_test

import (
	"context"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/bus"
	"github.com/petrel-im/petrel/internal/bus/bustest"
	"github.com/petrel-im/petrel/internal/bus/localbus"
	"github.com/petrel-im/petrel/internal/bus/natsbus"
	"github.com/petrel-im/petrel/internal/bus/stream"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
)

const (
	frameBytes = 200
	ahead      = 20000 // frames a sender may be ahead, so that none becomes a hint
)

// line is two nodes of one process; applied gets a token for every frame that
// b has applied.
type line struct {
	a, b    *stream.Streams
	applied chan struct{}
}

func open(t testing.TB, a, b bus.Bus) line {
	l := line{applied: make(chan struct{}, ahead)}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	var all [2]*stream.Streams
	up := make(chan struct{}, 2)
	for i, n := range []bus.Bus{a, b} {
		s := stream.New(n, uint64(i+1), stream.Options{Ring: time.Minute})
		s.Handle(frame, func(im.Node, []byte) { l.applied <- struct{}{} })
		s.OnPeer(func(_ im.Node, isUp bool) {
			if isUp {
				up <- struct{}{}
			}
		})
		for _, run := range []func(context.Context) error{n.Run, s.Run} {
			wg.Go(func() {
				if err := run(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		all[i] = s
	}
	t.Cleanup(func() { cancel(); wg.Wait() })
	<-up
	<-up
	l.a, l.b = all[0], all[1]
	return l
}

func cpu() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r) // only fails on a bad argument
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func (l line) bench(b *testing.B, inFlight int) {
	payload := make([]byte, frameBytes)
	begin, packets := cpu(), l.a.SentPackets.Load()
	b.ResetTimer()
	for i := range b.N {
		if i >= inFlight {
			<-l.applied
		}
		if _, err := l.a.Send("b", frame, payload, stream.Hint{Optional: true}); err != nil {
			b.Fatal(err)
		}
	}
	for range min(b.N, inFlight) {
		<-l.applied
	}
	b.StopTimer()
	b.ReportMetric(float64(cpu()-begin)/float64(b.N), "cpu-ns/frame")
	b.ReportMetric(float64(b.N)/float64(l.a.SentPackets.Load()-packets), "frames/packet")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "frames/s")
}

func (l line) benches(b *testing.B) {
	b.Run("many", func(b *testing.B) { l.bench(b, ahead) })
	b.Run("one", func(b *testing.B) { l.bench(b, 1) })
}

// Frames of 200 bytes from one node to another of the same process, as many as
// go, and one at a time.
func BenchmarkLocal(b *testing.B) {
	net := localbus.New()
	x, errX := net.Join("a")
	y, errY := net.Join("b")
	if errX != nil || errY != nil {
		b.Fatal(errX, errY)
	}
	open(b, x, y).benches(b)
}

func joinNATS(t testing.TB) (x, y *natsbus.Bus) {
	o := natsbus.Options{Cluster: "test", Listen: "127.0.0.1:0", Secret: "s"}
	x, err := natsbus.Join(context.Background(), "a", o)
	if err != nil {
		t.Fatal(err)
	}
	o.Routes = []string{x.ClusterAddr()}
	if y, err = natsbus.Join(context.Background(), "b", o); err != nil {
		t.Fatal(err)
	}
	return x, y
}

// The same over two embedded NATS servers and a route between them.
func BenchmarkNATS(b *testing.B) {
	x, y := joinNATS(b)
	open(b, x, y).benches(b)
}

func TestStreamsOverNATS(t *testing.T) {
	x, y := joinNATS(t)
	lossy := bustest.Lossy(x, bustest.Rules{Seed: 1, Lose: 0.05, Duplicate: 0.05, Delay: 0.1})
	l := open(t, lossy, y)
	const n = 2000
	var last stream.Mark
	packets := l.a.SentPackets.Load()
	for range n {
		m, err := l.a.Send("b", frame, make([]byte, frameBytes), stream.Hint{})
		if err != nil {
			t.Fatal(err)
		}
		last = m
		if m.Num%10 == 0 {
			eventually.True(t, "a packet is sent", func() bool { return l.a.SentPackets.Load() > packets })
			packets = l.a.SentPackets.Load()
		}
	}
	if err := l.b.WaitApplied(eventually.Context(t), "a", last); err != nil {
		t.Fatal(err)
	}
	if got := len(l.applied); got != n || lossy.Lost.Load() == 0 {
		t.Errorf("%d frames were applied, want %d; %d messages were lost", got, n, lossy.Lost.Load())
	}
}
