package measure

import (
	"testing"
	"time"
)

func TestDurationsAreInTheBucketsOfTheirLength(t *testing.T) {
	var h Histogram
	var want [Buckets + 1]uint64
	sum := time.Duration(0)
	for bucket, d := range map[int]time.Duration{0: 99 * time.Microsecond, 1: 100 * time.Microsecond, 2: 200 * time.Microsecond, 14: time.Second, Buckets: time.Hour} {
		h.Observe(d)
		want[bucket]++
		sum += d
	}
	h.Observe(-time.Second) // a clock that was set back
	want[0]++
	count, total, below := h.Read()
	if count != 6 || total != sum {
		t.Errorf("%d durations, %v together; want 6, %v", count, total, sum)
	}
	n := uint64(0)
	for i := range below {
		if n += want[i]; below[i] != n {
			t.Errorf("%d below %v, want %d", below[i], Bound(i), n)
		}
	}
	if Bound(Buckets-1) < 50*time.Second {
		t.Errorf("the last bound is %v", Bound(Buckets-1))
	}
}

func TestOnlyKnownNamesAreCounted(t *testing.T) {
	c := NewCounts("a", "b")
	c.Add("a")
	c.Add("a")
	c.Add("stranger")
	(*Counts)(nil).Add("a")
	got := map[string]uint64{}
	c.Each(func(name string, n uint64) { got[name] = n })
	if len(got) != 1 || got["a"] != 2 {
		t.Errorf("got %v", got)
	}
}

// Counting for a message takes no memory, and some nanoseconds.
func TestMeasuringTakesNoMemory(t *testing.T) {
	var h Histogram
	c := NewCounts("a")
	if n := testing.AllocsPerRun(100, func() { h.Observe(Now()); c.Add("a") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkObserve(b *testing.B) {
	var h Histogram
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			h.Observe(time.Millisecond)
		}
	})
}
