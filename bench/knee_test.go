package bench

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The search finds the rate that a server can hold within a tenth.
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

// A server that handles a frame of each connection every 20 ms holds 50 messages a second of each of four
// senders.
func TestKneeIsWhatTheServerHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		f.slow(20 * time.Millisecond)
		p := f.params(Direct)
		p.Rate, p.Seconds, p.WarmUp = 100, 1, 0
		for targets, want := range map[string]struct {
			lowest, highest float64
			missed          string // of the lowest rate that is too high
		}{
			"":                    {lowest: 190, highest: 222, missed: "the run was overloaded: "},
			"accepted_per_s<=100": {lowest: 90, highest: 101, missed: "target accepted_per_s<=100 is missed"},
		} {
			ts, err := ParseTargets(targets)
			if err != nil {
				t.Fatal(err)
			}
			k, err := FindKnee(t.Context(), p, ts)
			if err != nil {
				t.Fatal(err)
			}
			high := len(k.Runs) - 1
			for high > 0 && k.Missed[high-1] != "" {
				high--
			}
			if k.Rate < want.lowest || k.Rate > want.highest || !strings.Contains(k.Missed[high], want.missed) {
				t.Errorf("targets %q: %g/s are held, and %g/s are too high: %s; want %+v", targets, k.Rate, k.TooHigh, k.Missed[high], want)
			}
		}
	})
}
