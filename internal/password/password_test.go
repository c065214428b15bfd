package password

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/rate"
)

// Tries of strangers wait for their turn, each a goroutine and a connection. One more than may
// wait is refused at once.
func TestLoginsThatWaitForTheirTurnAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, limit := &Attempts{}, rate.Per(2, time.Minute, 2) // 20 tries of strangers at once, and one more every 3 s
		try := func(i int) error {
			return l.TakeTurn(t.Context(), time.Now(), Key{User: im.User(fmt.Sprint(i))}, limit)
		}
		waiting := make(chan error, maxDelayed)
		for i := range maxDelayed + 1 {
			for range 20 {
				if err := try(i); err != nil {
					t.Fatal(err)
				}
			}
			if i < maxDelayed {
				go func() { waiting <- try(i) }()
				synctest.Wait()
			}
		}
		began := time.Now()
		wantLimited(t, "one more", try(maxDelayed), im.CodeRateLimited, time.Second, maxLoginDelay)
		if took := time.Since(began); took != 0 {
			t.Errorf("it waited for %s", took)
		}
		for range maxDelayed {
			if err := <-waiting; err != nil {
				t.Errorf("one that may wait: %v", err)
			}
		}
		if n := l.delayed.Load(); n != 0 {
			t.Errorf("%d wait after the end", n)
		}
	})
}

func TestCommonPasswordsOnTheListAreLongEnough(t *testing.T) {
	all := strings.Fields(commonest)
	for _, p := range all {
		if len(p) < minPassword || p != strings.ToLower(p) {
			t.Errorf("%q would never be met", p)
		}
	}
	if len(all) < 3000 {
		t.Errorf("%d passwords, want 3,000 or more", len(all))
	}
}

func TestPasswordsThatStrangersTryFirstAreRefused(t *testing.T) {
	passwords := &Passwords{words: []string{"petrel", "admin", "administrator", "moderator"}}
	for _, p := range []string{"password1", "PassWord1", "Petrel2026!", "petrel123", "administrator", "Admin#2026", "12moderator", "alice.jones", "TrustNo1", "samantha1"} {
		if passwords.Check("Alice.Jones", p) == nil {
			t.Errorf("%q is taken", p)
		}
	}
	for _, p := range []string{"petrels at sea", "administering", "20262026!?", "correct horse", "trustno1\ntrustno1"} {
		if err := passwords.Check("Alice.Jones", p); err != nil {
			t.Errorf("%q: %v", p, err)
		}
	}
}

func wantLimited(t *testing.T, what string, err error, code im.Code, least, most time.Duration) {
	t.Helper()
	e, ok := err.(*im.Error)
	if !ok || e.Code != code || e.RetryAfter < least || e.RetryAfter > most {
		t.Errorf("%s: %v; want %s, to wait %v to %v", what, err, code, least, most)
	}
}

// Logins of strangers do not hold up a known device, and logins of known devices do not
// hold up strangers.
func TestHashesThatWaitAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, known := range []bool{false, true} {
			h, err := New(today, "", nil)
			if err != nil {
				t.Fatal(err)
			}
			l := &h.cores
			if !known {
				l = &h.strangers
			}
			for range cap(l.slots) {
				if err := h.enter(context.Background(), known); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan error, maxWaitingHashes)
			for range maxWaitingHashes {
				go func() { done <- h.enter(ctx, known) }()
			}
			synctest.Wait()
			if n := l.waiting.Load(); n != maxWaitingHashes {
				t.Fatalf("%d wait, want %d", n, maxWaitingHashes)
			}
			wantLimited(t, "one more", h.enter(ctx, known), im.CodeOverloaded, time.Second, time.Minute)
			if !known && cap(h.cores.slots) > 1 {
				if err := h.enter(ctx, true); err != nil {
					t.Errorf("a known device among strangers: %v", err)
				}
				h.leave(true)
			}
			h.leave(known)
			if err := <-done; err != nil {
				t.Errorf("the first that waited: %v", err)
			}
			cancel()
			for range maxWaitingHashes - 1 {
				if err := <-done; err == nil {
					t.Error("one got in without room")
				}
			}
			if n := l.waiting.Load(); n != 0 {
				t.Errorf("%d wait behind the end", n)
			}
		}
	})
}
