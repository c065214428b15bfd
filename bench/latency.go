package bench

import (
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// latency gathers durations: all has those of messages that were sent, or due, within the measured window,
// whenever they arrive, and newest a sample of those since the last call of recent.
type latency struct {
	all    *hdrhistogram.Histogram
	newest *hdrhistogram.Histogram

	from, to int64  // the measured window, in ns of the generator's clock
	planned  int64  // ns of the window
	begin    mean   // of its first quarter
	end      mean   // of its last quarter
	seen     uint64 // since newest was emptied
	skip     uint64 // newest takes every (skip+1)th record; skip+1 is a power of two
}

// Durations are kept from 1 µs to 2 minutes; longer ones count as 2 minutes.
const (
	shortest = int64(time.Microsecond)
	longest  = int64(2 * time.Minute)
)

// newTimes makes a histogram of durations with a number of significant digits.
func newTimes(digits int) *hdrhistogram.Histogram { return hdrhistogram.New(shortest, longest, digits) }

// observe records one duration in ns.
func observe(h *hdrhistogram.Histogram, ns int64) {
	_ = h.RecordValue(min(max(ns, shortest), longest)) // within the bounds
}

func newLatency() *latency {
	return &latency{
		all:    newTimes(3),
		newest: newTimes(2),
		from:   math.MaxInt64, to: math.MaxInt64,
	}
}

// record records n messages that were sent at one moment, and have arrived at one moment.
func (l *latency) record(sentNs, now int64, n int) {
	d := min(max(now-sentNs, 0), longest)
	if sentNs >= l.from && sentNs < l.to {
		_ = l.all.RecordValues(d, int64(n)) // within the bounds
		if since := 4 * (sentNs - l.from); since < l.planned {
			l.begin.add(d, n)
		} else if since >= 3*l.planned {
			l.end.add(d, n)
		}
	}
	if l.seen++; l.seen&l.skip == 0 {
		_ = l.newest.RecordValues(d, int64(n))
	}
}

// mean is the mean of durations.
type mean struct {
	sum   float64 // ns
	count int
}

func (m *mean) add(d int64, n int) {
	m.sum += float64(d) * float64(n)
	m.count += n
}

// value returns the mean, 0 if there are no durations.
func (m *mean) value() time.Duration {
	if m.count == 0 {
		return 0
	}
	return time.Duration(m.sum / float64(m.count))
}

// recent returns the percentiles of the durations in newest, and how many are on each rung of the ladder, and empties
// newest. After more than 20,000 records, newest takes only every 16th one until the next call.
func (l *latency) recent() (Percentiles, []int64) {
	p, rungs := percentiles(l.newest), climb(l.newest)
	l.newest.Reset()
	l.skip = 0
	if l.seen > 20_000 {
		l.skip = 15
	}
	l.seen = 0
	return p, rungs
}

func ms(ns int64) float64 { return float64(ns) / 1e6 }

// Percentiles are in milliseconds; all 0 when nothing was measured.
type Percentiles struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
	Mean float64 `json:"mean"`
}

func percentiles(h *hdrhistogram.Histogram) Percentiles {
	if h.TotalCount() == 0 {
		return Percentiles{}
	}
	q := func(p float64) float64 { return round(ms(h.ValueAtQuantile(p)), 1000) }
	return Percentiles{P50: q(50), P90: q(90), P99: q(99), P999: q(99.9), Max: q(100),
		Mean: round(ms(int64(h.Mean())), 1000)}
}

// curve returns the latency at ever higher shares of the messages: 0, 1/4, 1/2, 5/8, 3/4, 13/16, 7/8 and so on, until
// less than one message is above the share.
func curve(h *hdrhistogram.Histogram) (points []Point) {
	n := float64(h.TotalCount())
	for above := 1.0; n*above >= 1; above /= 2 {
		for _, part := range []float64{1, 0.75} {
			share := 1 - above*part
			points = append(points, Point{Share: share, Ms: round(ms(h.ValueAtQuantile(100*share)), 1000)})
		}
	}
	return points
}

// Point says that a share of all messages took no longer than Ms.
type Point struct {
	Share float64 `json:"share"` // 0 to 1
	Ms    float64 `json:"ms"`
}

// Ladder has the bounds, in milliseconds, between which the latencies of a second are counted: rung i of
// Second.Rungs is from Ladder[i] to below Ladder[i+1]. The first and the last rung also take what is beyond.
var Ladder = func() (ms []float64) {
	for decade := 0.01; decade < 1e5; decade *= 10 {
		for _, step := range []float64{1, 1.5, 2, 3, 5, 7} {
			ms = append(ms, round(decade*step, 1000))
		}
	}
	return ms
}()

// climb returns how many durations of h are on each rung of the ladder, up to the highest rung that has any.
func climb(h *hdrhistogram.Histogram) []int64 {
	rungs, rung, top := make([]int64, len(Ladder)), 0, 0
	for _, bar := range h.Distribution() {
		if bar.Count == 0 {
			continue
		}
		for rung+1 < len(Ladder) && ms(bar.From) >= Ladder[rung+1] {
			rung++
		}
		rungs[rung] += bar.Count
		top = rung + 1
	}
	return rungs[:top]
}
