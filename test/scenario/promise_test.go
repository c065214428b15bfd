package scenario

import (
	"slices"
	"sync"
	"testing"
	"time"
)

// promises are how long the lines "within 5s: …" took, by what they promise.
type promises struct {
	mu   sync.Mutex // tier 0; guards the field below
	took map[time.Duration][]time.Duration
}

var promised = promises{took: map[time.Duration][]time.Duration{}}

// begin starts to measure; the function that it returns ends it.
func (p *promises) begin(d time.Duration) (end func()) {
	begun := time.Now()
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.took[d] = append(p.took[d], time.Since(begun))
	}
}

// judge fails if more than one line of a hundred took longer than it promises. Only where
// all ways are run there are enough of them, and nothing else that takes the cores.
func (p *promises) judge(t *testing.T) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for d, took := range p.took {
		slices.Sort(took)
		at := func(percent int) time.Duration { return took[(len(took)-1)*percent/100] }
		t.Logf("within %v: %d lines, 50 %% took %v, 99 %% %v, all %v", d, len(took), at(50), at(99), at(100))
		if chosen == allOf && at(99) > d {
			t.Errorf("1 %% of %d lines took longer than %v, which is promised within %v", len(took), at(99), d)
		}
	}
}
