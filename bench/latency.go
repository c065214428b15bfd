package bench

import (
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// latency gathers durations: those of messages that were due within the
// measured window, whenever they arrive, and a sample of the newest for the
// progress line.
type latency struct {
	all    *hdrhistogram.Histogram
	newest *hdrhistogram.Histogram

	from, to int64  // the measured window, in ns of the generator's clock
	planned  int64  // ns of the window
	begin    mean   // of its first quarter
	end      mean   // of its last quarter
	seen     uint64 // since newest was emptied
	skip     uint64 // newest takes every (skip+1)th record; one below a power of two
}

// Durations are kept from 1 µs to 2 minutes with 3 digits; what is longer
// counts as 2 minutes.
const (
	shortest = int64(time.Microsecond)
	longest  = int64(2 * time.Minute)
)

func newLatency() *latency {
	return &latency{
		all:    hdrhistogram.New(shortest, longest, 3),
		newest: hdrhistogram.New(shortest, longest, 2),
		from:   math.MaxInt64, to: math.MaxInt64,
	}
}

// record takes n messages that were sent, and have arrived, at the same moments.
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

// value is 0 if there are none.
func (m *mean) value() time.Duration {
	if m.count == 0 {
		return 0
	}
	return time.Duration(m.sum / float64(m.count))
}

// recent returns the 99th percentile since the last call, in milliseconds.
func (l *latency) recent() float64 {
	p := ms(l.newest.ValueAtQuantile(99))
	l.newest.Reset()
	l.skip = 0
	if l.seen > 20_000 {
		l.skip = 15
	}
	l.seen = 0
	return p
}

func ms(ns int64) float64 { return float64(ns) / 1e6 }

// Percentiles are in milliseconds; all 0 when nothing was measured.
type Percentiles struct {
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
}

func (l *latency) percentiles() Percentiles {
	if l.all.TotalCount() == 0 {
		return Percentiles{}
	}
	q := func(p float64) float64 { return ms(l.all.ValueAtQuantile(p)) }
	return Percentiles{P50: q(50), P99: q(99), P999: q(99.9)}
}
