// Package eventually waits in tests for conditions that another goroutine or process fulfils.
//
// A test that waits this way never judges how long something took: Limit is so long that only a fault meets it,
// also on a machine that stands still for seconds. It works in a synctest bubble too, where the time between two
// looks is fake.
package eventually

import (
	"context"
	"testing"
	"time"
)

// Limit is how long a test waits before it calls a condition unmet. Only a fault meets it.
const Limit = 60 * time.Second

// The time between two looks at a condition doubles from firstPause to longestPause: most
// conditions are met soon, and a look may cost a request.
const (
	firstPause   = time.Millisecond
	longestPause = 16 * time.Millisecond
)

// True waits until ok returns true, and ends the test after Limit. what names the condition, as in
// "bob is online". ok runs on the goroutine of the test.
func True(t testing.TB, what string, ok func() bool) {
	t.Helper()
	if !Holds(ok) {
		t.Fatalf("not within %s: %s", Limit, what)
	}
}

// Holds waits until ok returns true, and returns false after Limit. Tests that say more of a
// failure than the name of the condition use it.
func Holds(ok func() bool) bool {
	end := time.Now().Add(Limit)
	for pause := firstPause; !ok(); pause = min(2*pause, longestPause) {
		if time.Now().After(end) {
			return false
		}
		<-time.After(pause)
	}
	return true
}

// Receive waits for the next value of a channel, and ends the test after Limit. A closed
// channel gives the zero value.
func Receive[T any](t testing.TB, what string, ch <-chan T) T {
	t.Helper()
	limit := time.NewTimer(Limit)
	defer limit.Stop()
	select {
	case v := <-ch:
		return v
	case <-limit.C:
		t.Fatalf("not within %s: %s", Limit, what)
		panic("unreachable")
	}
}

// Answer calls ask until that returns an answer, and ends the test after Limit with the last error. Each call has
// a tenth of Limit, because a question or its answer may be lost on the way.
func Answer[T any](t testing.TB, what string, ask func(ctx context.Context) (T, error)) T {
	t.Helper()
	var answer T
	var err error
	ok := Holds(func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), Limit/10)
		defer cancel()
		answer, err = ask(ctx)
		return err == nil
	})
	if !ok {
		t.Fatalf("not within %s: %s: %v", Limit, what, err)
	}
	return answer
}

// Deadline returns the time Limit from now, as the deadline of a socket that may hang. A read or write that takes
// longer ends with os.ErrDeadlineExceeded.
func Deadline() time.Time { return time.Now().Add(Limit) }

// Context returns the context of the test, which also ends after Limit. Calls that may hang use it.
func Context(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), Limit)
	t.Cleanup(cancel)
	return ctx
}
