// Package metrics exports the counters of the other packages in the format of Prometheus. It reads them on each
// request, so counting costs the hot path nothing more.
package metrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/petrel-im/petrel/internal/measure"
)

// Value is one figure. Its name has the prefix petrel_ and a base unit, and _total if it is a counter. No label
// has a user or a conversation.
type Value struct {
	Name, Help string
	Labels     map[string]string // nil: none
	Counter    bool
	Read       func() float64
}

// Times has histograms of durations in seconds, one for each value of a label. A value of the label without a
// duration is left out. The only histogram of a Times without a label is always there.
type Times struct {
	Name, Help string
	Label      string // "": there is one histogram, under ""
	Of         map[string]*measure.Histogram
}

// Counts has counters for each value of two labels, or of one. Counters that are 0 are left out.
type Counts struct {
	Name, Help string
	Labels     [2]string // [0] is the label of the keys of Of ("": Of has one entry), [1] that of the names
	Of         map[string]*measure.Counts
}

// Set has all that is exported.
type Set struct {
	Values []Value
	Times  []Times
	Counts []Counts
}

// Handler serves the set and the figures of the Go runtime and the process.
func Handler(s Set) http.Handler {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, v := range s.Values {
		if v.Counter {
			reg.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: v.Name, Help: v.Help,
				ConstLabels: v.Labels}, v.Read))
		} else {
			reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: v.Name, Help: v.Help,
				ConstLabels: v.Labels}, v.Read))
		}
	}
	for _, t := range s.Times {
		reg.MustRegister(t)
	}
	for _, c := range s.Counts {
		reg.MustRegister(c)
	}
	return promhttp.HandlerFor(reg, promhttp.HandlerOpts{})
}

func (t Times) desc() *prometheus.Desc {
	var labels []string
	if t.Label != "" {
		labels = []string{t.Label}
	}
	return prometheus.NewDesc(t.Name, t.Help, labels, nil)
}

// Describe implements prometheus.Collector.
func (t Times) Describe(ch chan<- *prometheus.Desc) { ch <- t.desc() }

// Collect implements prometheus.Collector.
func (t Times) Collect(ch chan<- prometheus.Metric) {
	for name, h := range t.Of {
		count, sum, below := h.Read()
		if count == 0 && t.Label != "" {
			continue
		}
		buckets := make(map[float64]uint64, len(below))
		for i, n := range below {
			buckets[measure.Bound(i).Seconds()] = n
		}
		var labels []string
		if t.Label != "" {
			labels = []string{name}
		}
		ch <- prometheus.MustNewConstHistogram(t.desc(), count, sum.Seconds(), buckets, labels...)
	}
}

func (c Counts) desc() *prometheus.Desc {
	return prometheus.NewDesc(c.Name, c.Help, c.named(c.Labels[0], c.Labels[1]), nil)
}

// named returns two labels, or their values, without the first one if there is no such label.
func (c Counts) named(first, second string) []string {
	if c.Labels[0] == "" {
		return []string{second}
	}
	return []string{first, second}
}

// Describe implements prometheus.Collector.
func (c Counts) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc() }

// Collect implements prometheus.Collector.
func (c Counts) Collect(ch chan<- prometheus.Metric) {
	for of, counts := range c.Of {
		counts.Each(func(name string, n uint64) {
			ch <- prometheus.MustNewConstMetric(c.desc(), prometheus.CounterValue, float64(n), c.named(of, name)...)
		})
	}
}
