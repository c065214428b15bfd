package console

import (
	"testing"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// The figures of a cluster wait for a node that is late by a part of a second, and for no other.
func TestOverviewWaitsForASecondThatIsDue(t *testing.T) {
	for _, c := range []struct {
		what   string
		after  uint64
		newest *petrelv1.Sample
		want   bool
	}{
		{"it ends the next second soon", 60_000, &petrelv1.Sample{TimeMs: 60_000}, true},
		{"it is one second late", 60_000, &petrelv1.Sample{TimeMs: 59_000}, true},
		{"its clock is behind, or it takes no samples", 60_000, &petrelv1.Sample{TimeMs: 58_000}, false},
		{"it has just started", 60_000, nil, false},
		{"the last hour is asked for", 0, &petrelv1.Sample{TimeMs: 60_000}, false},
	} {
		if got := isDue(c.after, c.newest); got != c.want {
			t.Errorf("%s: waited for: %v", c.what, got)
		}
	}
}
