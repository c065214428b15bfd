package localbus_test

import (
	"context"
	"encoding/binary"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/petrel-im/petrel/internal/bus"
	"github.com/petrel-im/petrel/internal/bus/bustest"
	"github.com/petrel-im/petrel/internal/bus/localbus"
	"github.com/petrel-im/petrel/internal/im"
)

func TestLocalBusIsABus(t *testing.T) {
	bustest.RunInBubbles(t, func(t *testing.T) func(im.Node) bus.Bus {
		net := localbus.New()
		return func(n im.Node) bus.Bus {
			b, err := net.Join(n)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
	})
}

// A wrapper without rules changes nothing.
func TestALossyBusThatLosesNothingIsABus(t *testing.T) {
	bustest.RunInBubbles(t, func(t *testing.T) func(im.Node) bus.Bus {
		net := localbus.New()
		return func(n im.Node) bus.Bus {
			b, err := net.Join(n)
			if err != nil {
				t.Fatal(err)
			}
			return bustest.Lossy(b, bustest.Rules{})
		}
	})
}

// lossyRun tells what of 1,000 sends from a to b arrives, in which order.
func lossyRun(t *testing.T, rules bustest.Rules, cut bool) (got []uint32) {
	synctest.Test(t, func(t *testing.T) {
		net := localbus.New()
		ctx, cancel := context.WithCancel(context.Background())
		a, errA := net.Join("a")
		b, errB := net.Join("b")
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		b.Handle("n", func(_ im.Node, p []byte, _ func([]byte)) { got = append(got, binary.BigEndian.Uint32(p)) })
		l := bustest.Lossy(a, rules)
		l.Cut("b", cut)
		done := make(chan error, 2)
		go func() { done <- l.Run(ctx) }()
		go func() { done <- b.Run(ctx) }()
		for i := range uint32(1000) {
			if err := l.Send("b", "n", binary.BigEndian.AppendUint32(nil, i)); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		time.Sleep(time.Second)
		cancel()
		if errA, errB := <-done, <-done; errA != nil || errB != nil {
			t.Error(errA, errB)
		}
	})
	return got
}

func TestALossyBusDoesWhatItsRulesSay(t *testing.T) {
	if got := lossyRun(t, bustest.Rules{}, true); len(got) != 0 {
		t.Errorf("%d messages came through a cut", len(got))
	}
	if got := lossyRun(t, bustest.Rules{Drop: func(_ im.Node, _ bus.Subject, p []byte) bool { return p[3] == 7 }}, false); len(got) != 996 {
		t.Errorf("%d messages arrived, want 996: 7, 263, 519 and 775 are lost", len(got))
	}
	r := bustest.Rules{Seed: 5, Lose: 0.2, Duplicate: 0.2, Delay: 0.2}
	got := lossyRun(t, r, false)
	sorted := slices.Sorted(slices.Values(got))
	once := len(slices.Compact(slices.Clone(sorted)))
	if once < 700 || once > 900 || len(got) < once+100 || slices.IsSorted(got) {
		t.Errorf("%d messages arrived, %d of them once, in order: %v", len(got), once, slices.IsSorted(got))
	}
	if again := lossyRun(t, r, false); !slices.Equal(slices.Sorted(slices.Values(again)), sorted) {
		t.Error("the same seed had another outcome")
	}
	r.Seed = 6
	if other := lossyRun(t, r, false); slices.Equal(slices.Sorted(slices.Values(other)), sorted) {
		t.Error("another seed had the same outcome")
	}
}
