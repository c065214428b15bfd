package rate

import (
	"testing"
	"time"
)

func TestTakenBytesAreGivenBack(t *testing.T) {
	b := NewBytes[string](64<<10, 1<<20).Within(1<<10, func(string) string { return "all" })
	now := time.Unix(2_000_000_000, 0)
	for _, x := range []struct {
		after               time.Duration
		n                   int
		taken, bound, group int64
	}{{0, 0, 0, 1 << 20, 0}, {0, 128 << 10, 128 << 10, 1 << 20, 128 << 10}, {time.Second, 0, 64 << 10, 1 << 20, 127 << 10}, {time.Hour, 0, 0, 1 << 20, 0}} {
		now = now.Add(x.after)
		b.Take(now, "ann", x.n)
		taken, bound := b.Taken(now, "ann")
		group, most := b.TakenBy(now, "ann")
		if taken != x.taken || bound != x.bound || group != x.group || most != 3600<<10 {
			t.Errorf("after %v: %d of %d, and %d of %d together; want %+v", x.after, taken, bound, group, most, x)
		}
	}
	var none *Bytes[string]
	if taken, bound := none.Taken(now, "ann"); taken != 0 || bound != 0 {
		t.Errorf("no bound: %d of %d", taken, bound)
	}
}

func TestBytesOfAGroupAreLimited(t *testing.T) {
	type key struct{ group, name string }
	b := NewBytes[key](64<<10, 1<<20).Within(1<<10, func(k key) key { return key{group: k.group} })
	now := time.Unix(2_000_000_000, 0)
	for i, name := range []string{"ann", "ben", "cat"} { // an hour's 3,600 KiB
		if wait := b.Take(now, key{"acme", name}, 1<<20); wait != 0 {
			t.Errorf("MiB %d of acme waits %v", i+1, wait)
		}
	}
	if wait := b.Take(now, key{"acme", "dan"}, 1<<20); wait != (4*1024-3600)*time.Second {
		t.Errorf("the fourth MiB of acme waits %v, want 496 s", wait)
	}
	if wait := b.Take(now, key{"acme", "dan"}, 1<<10); wait != 0 {
		t.Errorf("what is not counted waits %v", wait)
	}
	if wait := b.Take(now, key{"other", "dan"}, 1<<20); wait != 0 {
		t.Errorf("the first MiB of another group waits %v", wait)
	}
	if wait := b.Take(now, key{"acme", "eve"}, 500<<10); wait != 0 {
		t.Errorf("what is left of the hour waits %v: the refused MiB was counted", wait)
	}
}
