package bench

import (
	"fmt"
	"math"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Step is one rate of an open loop that has several, one after the other.
type Step struct {
	Rate      float64     `json:"rate"`   // messages per second
	From      float64     `json:"from_s"` // in seconds since the first message, as in the series
	To        float64     `json:"to_s"`
	Offered   float64     `json:"offered_per_s"` // these are means of its whole seconds
	Accepted  float64     `json:"accepted_per_s"`
	Delivered float64     `json:"delivered_per_s"`
	CPU       float64     `json:"cpu"` // cores of the servers and their database
	Ack       Percentiles `json:"ack_ms"`
	EndToEnd  Percentiles `json:"end_to_end_ms"` // of the messages that were due in it
}

func (s Step) String() string {
	return fmt.Sprintf("%9s/s   accepted %9s/s   delivered %9s/s   p50 %.2f   p99 %.2f   p99.9 %.2f ms   server %.2f cores", count(s.Rate), count(s.Accepted),
		count(s.Delivered), s.EndToEnd.P50, s.EndToEnd.P99, s.EndToEnd.P999, s.CPU)
}

// stepped are the latencies of each step of the measured window.
type stepped struct {
	length int64 // ns of each step; 0: there are none
	from   int64 // ns; when the first one began
	of     []*hdrhistogram.Histogram
}

func (s *stepped) record(sentNs, d int64, n int) {
	if s.length == 0 || sentNs < s.from {
		return
	}
	if i := int((sentNs - s.from) / s.length); i < len(s.of) {
		_ = s.of[i].RecordValues(d, int64(n)) // within the bounds
	}
}

// newStepped makes room for n steps.
func newStepped(length int64, n int) stepped {
	s := stepped{length: length, from: math.MaxInt64}
	for range n {
		s.of = append(s.of, hdrhistogram.New(shortest, longest, 3))
	}
	return s
}

// steps are those of the run. The series is there.
func (r *run) steps() (all []Step) {
	g := r.gen
	for i, rate := range r.p.Steps {
		s := Step{Rate: rate, Ack: percentiles(g.ackTime.steps.of[i]), EndToEnd: percentiles(g.endToEnd.steps.of[i])}
		s.From = float64(g.begin.at-g.started)/1e9 + float64(i)*r.p.Seconds
		s.To = s.From + r.p.Seconds
		n := 0.0
		for _, sec := range r.report.Series {
			if sec.At-1 >= s.From-0.1 && sec.At <= s.To+0.1 {
				n++
				s.Offered += sec.Offered
				s.Accepted += sec.Accepted
				s.Delivered += sec.Delivered
				s.CPU += sec.Servers.CPU + sec.Servers.PostgresCPU
			}
		}
		for _, v := range []*float64{&s.Offered, &s.Accepted, &s.Delivered, &s.CPU} {
			*v = round(*v/max(1, n), 100)
		}
		s.From, s.To = round(s.From, 100), round(s.To, 100)
		all = append(all, s)
	}
	return all
}
