package bench

import "testing"

// A server that holds so much a second is found within a tenth.
func TestKneeIsFoundWithinATenth(t *testing.T) {
	for _, holds := range []float64{0, 2, 9, 300, 1000, 7_777, 64_000, 2e6} {
		k, rate, runs := &Knee{}, 1000.0, 0
		for rate > 0 {
			if runs++; runs > 40 {
				t.Fatalf("holds %g: still looking after %d runs", holds, runs)
			}
			missed := ""
			if rate > holds {
				missed = "too high"
			}
			rate = k.add(&Report{Params: Params{Rate: rate}}, missed)
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
		case k.Rate > holds || k.TooHigh < holds || k.TooHigh > closeEnough*k.Rate && k.TooHigh > k.Rate+1:
			t.Errorf("holds %g: %g is held, %g too high", holds, k.Rate, k.TooHigh)
		}
		for i := 1; i < len(k.Runs); i++ {
			if k.Runs[i-1].Params.Rate >= k.Runs[i].Params.Rate {
				t.Errorf("the runs are not in the order of their rates")
			}
		}
	}
}
