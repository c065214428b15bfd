package bench

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// Knee is the highest rate at which a server meets the targets, and the runs that have found it. Each run has a
// server of its own, unless all use a running one.
type Knee struct {
	Rate    float64   `json:"rate"`     // messages per second; 0: every rate was too high
	TooHigh float64   `json:"too_high"` // the lowest rate that was too high; 0: none was
	Targets string    `json:"targets"`
	Runs    []*Report `json:"runs"`   // by rate
	Missed  []string  `json:"missed"` // of each run, why its rate was too high; empty: it was not
}

const (
	firstRate   = 1000 // messages per second
	highestRate = 1e6
	// closeEnough ends the search when the lowest rate that is too high is at most this many times the highest
	// good one.
	closeEnough = 1.1
)

// FindKnee makes runs at several rates. It doubles the rate until Report.Clean returns an error or the next rate would
// be above highestRate. Then it tries the middle between the highest good rate and the lowest one that was too high,
// until the two are closeEnough. It begins with the rate of p; 0: with firstRate.
func FindKnee(ctx context.Context, p Params, targets Targets) (*Knee, error) {
	k := &Knee{Targets: targets.String()}
	next := p.Rate
	if next == 0 {
		next = firstRate
	}
	for next > 0 {
		p.Rate = next
		r, err := Run(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("%.0f messages per second: %w", next, err)
		}
		missed := ""
		if err := r.Clean(targets); err != nil {
			missed = err.Error()
		}
		next = k.add(r, missed)
	}
	return k, nil
}

// add records a run and returns the rate of the next one; 0: the knee is found.
func (k *Knee) add(r *Report, missed string) float64 {
	rate := r.Params.Rate
	at, _ := slices.BinarySearchFunc(k.Runs, rate, func(r *Report, rate float64) int {
		return cmp.Compare(r.Params.Rate, rate)
	})
	k.Runs, k.Missed = slices.Insert(k.Runs, at, r), slices.Insert(k.Missed, at, missed)
	if missed == "" {
		k.Rate = max(k.Rate, rate)
	} else if k.TooHigh == 0 || rate < k.TooHigh {
		k.TooHigh = rate
	}
	switch {
	case k.TooHigh == 0 && 2*rate > highestRate, k.TooHigh != 0 && k.TooHigh <= closeEnough*k.Rate:
		return 0
	case k.TooHigh == 0:
		return 2 * rate
	}
	next := math.Floor((k.Rate + k.TooHigh) / 2)
	if next <= k.Rate { // there is no whole number between the two
		return 0
	}
	return next
}

// WriteText writes the search for people, one line for each run.
func (k *Knee) WriteText(w io.Writer) error {
	var b strings.Builder
	b.WriteString("     rate  accepted/s  per CPU-s   p50 ms   p99 ms  p99.9 ms  server cores\n")
	for i, r := range k.Runs {
		e := r.Latency.EndToEnd
		fmt.Fprintf(&b, "%9s %11s %10s %8.2f %8.2f %9.2f %13.2f", count(r.Params.Rate), count(r.AcceptedPerS),
			count(r.Server.AcceptedPerCPU), e.P50, e.P99, e.P999, r.Server.CPU/r.Seconds)
		if why, _, _ := strings.Cut(k.Missed[i], "\n"); why != "" {
			fmt.Fprintf(&b, "  %s", why)
		}
		b.WriteString("\n")
	}
	switch {
	case k.Rate == 0:
		fmt.Fprintf(&b, "not even %s/s was held\n", count(k.TooHigh))
	case k.TooHigh == 0:
		fmt.Fprintf(&b, "%s/s was held; no rate was too high\n", count(k.Rate))
	default:
		fmt.Fprintf(&b, "%s/s was held, %s/s was too high\n", count(k.Rate), count(k.TooHigh))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
