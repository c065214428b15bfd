package rate

import (
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/im"
)

func TestPaceHasEarlyOnesWaitAndRefusesTheOthers(t *testing.T) {
	p := NewPace[string](20, 60)
	now := time.Unix(2_000_000_000, 0)
	take := func(k string, bytes int, want time.Duration, refused time.Duration) {
		t.Helper()
		wait, err := p.Take(now, k, bytes)
		if err == nil {
			err = &im.Error{}
		}
		if refused > 0 && wait >= want/2 && wait < want {
			wait = want // a moment within the last half
		}
		if wait != want || err.RetryAfter != refused || refused > 0 && err.Code != im.CodeRateLimited {
			t.Fatalf("%s waits %v and gets %v, want %v and %v", k, wait, err, want, refused)
		}
	}
	for range 60 {
		take("ann", 0, 0, 0)
	}
	for i := range time.Duration(20) {
		take("ann", 0, (i+1)*50*time.Millisecond, 0)
	}
	take("ann", 0, time.Second, 1050*time.Millisecond)
	take("ann", 0, time.Second, 1050*time.Millisecond) // the refused one took none
	take("ben", 10*PerToken, 0, 0)                     // eleven
	for range 49 {
		take("ben", 0, 0, 0)
	}
	take("ben", PerToken-1, 50*time.Millisecond, 0)

	now = now.Add(time.Hour)
	take("ann", 40*PerToken, 0, 0)
	p.AddBytes(now, "ann", 59*PerToken) // ahead of time
	take("ann", 0, time.Second, 41*50*time.Millisecond)
	for range 100 {
		p.AddBytes(now, "ann", 1<<30) // more is not owed
	}
	if _, err := p.Take(now, "ann", 0); err == nil || err.RetryAfter > owed+time.Second {
		t.Errorf("after very many bytes: %v", err)
	}
	now = now.Add(owed + 3*time.Second)
	take("ann", 0, 0, 0)

	var none *Pace[string]
	none.AddBytes(now, "ann", 1<<30)
	if wait, err := none.Take(now, "ann", 1<<30); wait != 0 || err != nil || NewPace[string](-1, -1) != nil {
		t.Errorf("no limit: %v %v", wait, err)
	}
}
