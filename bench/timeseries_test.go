package bench

import (
	"math"
	"testing"
	"time"
)

func TestASecondIsCountedOnTheLadder(t *testing.T) {
	l := newLatency()
	for _, d := range []time.Duration{time.Microsecond, 12 * time.Millisecond, 14 * time.Millisecond, 15100 * time.Microsecond} {
		l.record(0, int64(d), 2)
	}
	p, rungs := l.recent()
	if p.P50 < 11.9 || p.P50 > 12.1 || p.Max < 15 || p.Max > 15.2 {
		t.Errorf("percentiles %+v of 0.001, 12, 14 and 15.1 ms", p)
	}
	want := map[float64]int64{0.01: 2, 10: 4, 15: 2} // the first rung takes what is below it
	for i, n := range rungs {
		if n != want[Ladder[i]] {
			t.Errorf("%d messages at %g ms and more, want %d", n, Ladder[i], want[Ladder[i]])
		}
	}
	if last := Ladder[len(rungs)-1]; last != 15 {
		t.Errorf("the last rung is that of %g ms, want 15", last)
	}
	if p, rungs = l.recent(); p != (Percentiles{}) || len(rungs) != 0 {
		t.Errorf("a second without a message has %+v, %v", p, rungs)
	}
}

func TestServerThatWasKilledCountsAnew(t *testing.T) {
	begun := time.Unix(1_795_262_400, 0)
	before := reading{at: begun, pauses: 2, commits: map[float64]float64{0.001: 90, 0.002: 100, math.Inf(1): 100}}
	u := reading{at: begun.Add(time.Second), pauses: 0.5, commits: map[float64]float64{0.001: 0, 0.002: 10, math.Inf(1): 10}}.since(before)
	if u.Pauses != 500 || u.CommitP50 != 1.5 {
		t.Errorf("pauses %g ms, commits p50 %g ms, want 500 and 1.5", u.Pauses, u.CommitP50)
	}
}

func TestCurveHasTheSlowestInItsEnd(t *testing.T) {
	l := newLatency()
	l.from, l.to = 0, int64(time.Hour)
	for n := range int64(1000) {
		l.record(0, (n+1)*int64(time.Millisecond), 1)
	}
	points := curve(l.all)
	for i, p := range points {
		if want := 1000 * p.Share; math.Abs(p.Ms-want) > 0.002*want+1.1 {
			t.Errorf("%g of all took up to %g ms, want %g", p.Share, p.Ms, want)
		}
		if i > 0 && p.Share <= points[i-1].Share {
			t.Errorf("share %g comes after %g", p.Share, points[i-1].Share)
		}
	}
	if last := points[len(points)-1]; last.Share < 0.998 || last.Share >= 1 {
		t.Errorf("the curve ends at the share %g", last.Share)
	}
	if points := curve(newLatency().all); len(points) != 0 {
		t.Errorf("a curve of nothing: %v", points)
	}
}

func TestQuantileOfBuckets(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		below map[float64]float64
		q     float64
		want  float64
	}{
		{nil, 0.5, 0},
		{map[float64]float64{1: 0, 2: 0, inf: 0}, 0.5, 0},
		{map[float64]float64{1: 10, 2: 10, inf: 10}, 0.5, 0.5},
		{map[float64]float64{1: 0, 2: 10, inf: 10}, 0.9, 1.9},
		{map[float64]float64{1: 0, 2: 10, inf: 20}, 0.99, 2}, // more than is known
	} {
		if got := quantile(c.below, c.q); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("quantile %g of %v is %g, want %g", c.q, c.below, got, c.want)
		}
	}
}
