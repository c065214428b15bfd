package bench

import (
	"strings"
	"testing"
)

// A server that holds so much a second is found within a tenth.
func TestKneeIsFoundWithinATenth(t *testing.T) {
	targets, err := ParseTargets("p99<50ms")
	if err != nil {
		t.Fatal(err)
	}
	for _, holds := range []float64{0, 300, 1000, 7_777, 64_000, 2e6} {
		k, rate, runs := &Knee{}, 1000.0, 0
		for rate > 0 {
			if runs++; runs > 40 {
				t.Fatalf("holds %g: still looking after %d runs", holds, runs)
			}
			r := &Report{Scenario: Direct, Params: Params{Rate: rate}, Accepted: 1, Delivered: 1, AcceptedPerS: min(rate, holds), Latency: Latency{EndToEnd: Percentiles{P99: 1}}}
			rate = k.add(r, targets.missed(r))
		}
		switch {
		case holds == 0:
			if k.Rate != 0 || k.TooHigh != 1 {
				t.Errorf("holds nothing: %g is held, %g too high", k.Rate, k.TooHigh)
			}
		case holds > highestRate:
			if k.TooHigh != 0 || k.Rate < highestRate/2 {
				t.Errorf("holds all: %g is held, %g too high", k.Rate, k.TooHigh)
			}
		case k.Rate > holds/keptUp || k.TooHigh < holds || k.TooHigh > closeEnough*k.Rate:
			t.Errorf("holds %g: %g is held, %g too high", holds, k.Rate, k.TooHigh)
		}
		for i := 1; i < len(k.Runs); i++ {
			if k.Runs[i-1].Params.Rate >= k.Runs[i].Params.Rate {
				t.Errorf("the runs are not in the order of their rates")
			}
		}
	}
	slow := &Report{Scenario: Direct, Params: Params{Rate: 10}, Accepted: 1, Delivered: 1, AcceptedPerS: 10, Latency: Latency{EndToEnd: Percentiles{P99: 51}}}
	if why := targets.missed(slow); !strings.Contains(why, "p99<50ms") {
		t.Errorf("a run that is too slow: %q", why)
	}
}
