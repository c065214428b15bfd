package rate

import (
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/im"
)

var begin = time.UnixMilli(1795262400000)

func TestBucketGivesWhatTheRateSays(t *testing.T) {
	var b Bucket
	now, five := begin, Per(5, time.Minute, 5)
	take := func(what string, want time.Duration) {
		t.Helper()
		if wait := b.Take(now, five); wait != want {
			t.Errorf("%s: waits %v, want %v", what, wait, want)
		}
	}
	for range 5 {
		take("of a full bucket", 0)
	}
	for range 3 { // being refused costs nothing
		take("the sixth", 12*time.Second)
	}
	now = now.Add(12*time.Second - time.Millisecond)
	take("a millisecond too early", time.Millisecond)
	now = now.Add(time.Millisecond - time.Microsecond)
	take("a microsecond too early", time.Millisecond) // not 0, which a client reads as no time
	now = now.Add(time.Microsecond)
	take("when it was told", 0)
	take("at once again", 12*time.Second)
	if now = now.Add(time.Minute - time.Nanosecond); b.Full(now) {
		t.Error("the bucket is full a nanosecond before the minute is over")
	}
	if now = now.Add(time.Nanosecond); !b.Full(now) {
		t.Error("the bucket is not full after a minute")
	}
	now = now.Add(time.Hour)
	for range 5 {
		take("after an hour", 0)
	}
	take("a full bucket has no more than five", 12*time.Second)
}

func TestBurstIsApartFromTheRate(t *testing.T) {
	var b Bucket
	now, n := begin, 0
	for b.Take(now, Per(10, time.Second, 3)) == 0 {
		n++
	}
	if n != 3 {
		t.Errorf("%d at once, want 3", n)
	}
	for range 1000 { // 10 s
		now = now.Add(10 * time.Millisecond)
		if b.Take(now, Per(10, time.Second, 3)) == 0 {
			n++
		}
	}
	if n != 103 {
		t.Errorf("%d in 10 s, want 103", n)
	}
	if wait := b.Take(now, Per(10, time.Second, 30)); wait != 0 { // raised at run time
		t.Errorf("with a higher burst it waits %v", wait)
	}
}

func TestClockThatIsSetBackLocksNobodyOut(t *testing.T) {
	var b Bucket
	l := Per(10, time.Second, 3)
	for range 3 {
		b.Take(begin, l)
	}
	now := begin.Add(-time.Hour)
	if wait := b.Take(now, l); wait != 100*time.Millisecond {
		t.Errorf("an hour earlier it waits %v, want as with an empty bucket", wait)
	}
	for range 3 {
		now = now.Add(100 * time.Millisecond)
		if wait := b.Take(now, l); wait != 0 {
			t.Errorf("then it waits %v", wait)
		}
	}
}

func TestLimitsAtTheEdge(t *testing.T) {
	for _, c := range []struct {
		name string
		l    Limit
		want int // of 1000 tries
	}{
		{"no rate", Per(-1, time.Second, 5), 1000},
		{"no burst", Per(5, time.Second, -1), 1000},
		{"none at all", Per(0, time.Second, 5), 0},
		{"burst of none", Per(5, time.Second, 0), 0},
		{"rate of 0 without a burst", Per(0, time.Second, -1), 1000},
		{"most that is configured", Per(1, time.Hour, 1<<40), 1000},
		{"one a nanosecond", Per(1<<40, time.Second, 1<<40), 1000},
		{"one for ever", Limit{maxRoom, 1}, 1},
		{"more than fits", Limit{maxRoom / 2, 1 << 40}, 2},
	} {
		var b Bucket
		var keyed Table[int]
		n, m := 0, 0
		for range 1000 {
			if b.Take(begin, c.l) == 0 {
				n++
			}
			if keyed.Take(begin, 7, c.l) == nil {
				m++
			}
		}
		if n != c.want || m != c.want {
			t.Errorf("%s: a bucket gives %d, one of a table %d, want %d", c.name, n, m, c.want)
		}
	}
}

func wantLimited(t *testing.T, what string, err error, code im.Code) {
	t.Helper()
	if e, ok := err.(*im.Error); !ok || e.Code != code || e.RetryAfter < time.Millisecond || e.RetryAfter > time.Minute {
		t.Errorf("%s: %v; want %s and a time", what, err, code)
	}
}

func TestKeysHaveBucketsOfTheirOwn(t *testing.T) {
	var all Table[string]
	one := Per(1, time.Minute, 1)
	for _, user := range []string{"alice", "bob"} {
		if err := all.Take(begin, user, one); err != nil {
			t.Errorf("%s: %v", user, err)
		}
		wantLimited(t, user, all.Take(begin, user, one), im.CodeRateLimited)
	}
	wantLimited(t, "an hour earlier", all.Take(begin.Add(-time.Hour), "bob", one), im.CodeRateLimited)
	if err := all.Take(begin.Add(time.Minute-time.Hour), "bob", one); err != nil {
		t.Errorf("a minute after the clock was set back: %v", err)
	}
}

func TestTableIsBounded(t *testing.T) {
	var all Table[int]
	now, five := begin, Per(5, time.Minute, 5)
	for i := range MaxBuckets {
		if err := all.Take(now, i, five); err != nil {
			t.Fatal(err)
		}
	}
	wantLimited(t, "one more", all.Take(now, MaxBuckets, five), im.CodeOverloaded)
	if err := all.Take(now, 7, five); err != nil {
		t.Errorf("one that is there: %v", err)
	}
	if err := all.Take(now, MaxBuckets, Per(-1, time.Minute, 5)); err != nil {
		t.Errorf("one more without a limit: %v", err)
	}
	now = now.Add(12 * time.Second) // all but that one are full again
	if err := all.Take(now, MaxBuckets, five); err != nil || len(all.buckets) != 2 {
		t.Errorf("when they are full again: %v, %d buckets", err, len(all.buckets))
	}
}

func BenchmarkTake(b *testing.B) {
	var k Bucket
	l := Per(1000, time.Second, 1<<30)
	for b.Loop() {
		k.Take(begin, l)
	}
}
