// Package metrics exports what the other packages count, in Prometheus' form.
// It reads their counters when it is asked, so counting costs the hot path
// nothing more.
package metrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Value is one figure. Names have the prefix petrel_, base units, and _total
// for counters; none carries a user or a conversation.
type Value struct {
	Name, Help string
	Labels     map[string]string // nil: none
	Counter    bool
	Read       func() float64
}

// Handler serves the values and those of the Go runtime and the process.
func Handler(values []Value) http.Handler {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, v := range values {
		if v.Counter {
			reg.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: v.Name, Help: v.Help, ConstLabels: v.Labels}, v.Read))
		} else {
			reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: v.Name, Help: v.Help, ConstLabels: v.Labels}, v.Read))
		}
	}
	return promhttp.HandlerFor(reg, promhttp.HandlerOpts{})
}
