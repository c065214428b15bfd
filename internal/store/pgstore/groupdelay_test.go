package pgstore

import (
	"testing"
	"time"
)

func TestAGroupWaitsOnlyWhereOthersCome(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	p := pace{last: now.Add(-paceOf)}
	if p.gain = 10; p.waits(1, now) {
		t.Error("the first one after a rest waits")
	}
	p.last = now
	if p.waits(0, now) || p.waits(paceEnough, now) {
		t.Error("nothing waits, or a full group")
	}
	if !p.waits(1, now) {
		t.Error("one does not wait where ten come meanwhile")
	}
	for range 10 {
		p.learn(0)
	}
	tried := 0
	for range 10 * paceProbe {
		if p.waits(1, now) {
			tried++
			p.learn(0)
		}
	}
	if tried != 10 {
		t.Errorf("whoever is always alone waited %d times in %d, want 10", tried, 10*paceProbe)
	}
	for tries := 0; p.gain < 1; tries++ {
		if tries > 3*paceProbe {
			t.Fatal("it does not find out that others come now")
		}
		if p.waits(1, now) {
			p.learn(8)
		}
	}
}
