package scenario

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/imtest/standstill"
)

// Nodes judge each other within 2 s, and a database is given 2 s to answer. If the machine
// stands still, a node may be left for gone: its clients are sent to others, and signals are
// lost, all of which the server may do. A run on a database tells what the server does on a
// machine that goes on. If it fails and the machine stood still meanwhile, it tells nothing,
// and the file is played anew. A fault of the server fails on a machine that goes on.
const (
	tries  = 8                // how often a file is played at most
	isLost = 20 * time.Second // a line that does not come for so long after that is lost
)

// attempt is a test whose failure may tell nothing. It keeps what is logged, and ends what it
// started, before the next one begins.
type attempt struct {
	testing.TB
	ctx    context.Context
	cancel context.CancelFunc

	mu       sync.Mutex // tier 0; guards the fields below
	failed   bool
	said     []string
	cleanups []func()
}

// try runs a function to its end, or to its first fatal failure.
func try(t testing.TB, run func(t testing.TB)) *attempt {
	a := &attempt{TB: t}
	a.ctx, a.cancel = context.WithCancel(t.Context())
	a.do(func() { run(a) })
	return a
}

// do calls f, which may end its goroutine, and waits for it.
func (a *attempt) do(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

// end does what the end of a test does.
func (a *attempt) end() {
	a.cancel()
	for {
		a.mu.Lock()
		n := len(a.cleanups) - 1
		if n < 0 {
			a.mu.Unlock()
			return
		}
		f := a.cleanups[n]
		a.cleanups = a.cleanups[:n]
		a.mu.Unlock()
		a.do(f)
	}
}

// report makes the attempt the result of its test.
func (a *attempt) report() {
	a.TB.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if text := strings.Join(a.said, "\n"); a.failed {
		a.TB.Fatal(text)
	} else if text != "" {
		a.TB.Log(text)
	}
}

func (a *attempt) Context() context.Context { return a.ctx }

func (a *attempt) Cleanup(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cleanups = append(a.cleanups, f)
}

func (a *attempt) Failed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failed
}

func (a *attempt) say(failed bool, text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failed = a.failed || failed
	a.said = append(a.said, strings.TrimSuffix(text, "\n"))
}

func (a *attempt) Log(args ...any)                   { a.say(false, fmt.Sprintln(args...)) }
func (a *attempt) Logf(format string, args ...any)   { a.say(false, fmt.Sprintf(format, args...)) }
func (a *attempt) Error(args ...any)                 { a.say(true, fmt.Sprintln(args...)) }
func (a *attempt) Errorf(format string, args ...any) { a.say(true, fmt.Sprintf(format, args...)) }
func (a *attempt) Fatal(args ...any)                 { a.Error(args...); runtime.Goexit() }
func (a *attempt) Fatalf(format string, args ...any) { a.Errorf(format, args...); runtime.Goexit() }
func (a *attempt) FailNow()                          { a.Fatal("failed") }
func (a *attempt) Fail()                             { a.Error("failed") }

// machine is what attempts are made on.
type machine struct {
	standstill.Machine
	mu   sync.Mutex // tier 0; guards the field below
	anew int        // attempts that told nothing
}

// steadily tries until an attempt succeeds, or fails while the machine did not stand still.
func (m *machine) steadily(t testing.TB, run func(t testing.TB)) *attempt {
	for i := 1; ; i++ {
		before := m.Stood()
		a := try(t, run)
		if !a.Failed() || i == tries || m.Stood() == before {
			return a
		}
		a.end()
		m.mu.Lock()
		m.anew++
		m.mu.Unlock()
		t.Logf("played anew, because the machine stood still: %s", strings.Join(a.said, "\n"))
	}
}

func TestAnAttemptOnAMachineThatStoodStillTellsNothing(t *testing.T) {
	m := &machine{}
	for _, c := range []struct {
		stands, fails int // in so many of the first attempts
		runs          int
		failed        bool
	}{
		{stands: 0, fails: 0, runs: 1}, {stands: 3, fails: 0, runs: 1}, {stands: 3, fails: 2, runs: 3},
		{stands: 2, fails: 9, runs: 3, failed: true}, {stands: 9, fails: 9, runs: tries, failed: true},
	} {
		runs, ended := 0, 0
		quiet := try(t, func(testing.TB) {}) // keeps what is logged
		a := m.steadily(quiet, func(t testing.TB) {
			runs++
			t.Cleanup(func() { ended++; t.Fatal("the end goes on after that") })
			t.Cleanup(func() { ended++ })
			if runs <= c.stands {
				m.Note()
			}
			if runs <= c.fails {
				t.Fatalf("run %d", runs)
			}
		})
		if failed := a.Failed(); runs != c.runs || failed != c.failed || ended != 2*(runs-1) {
			t.Errorf("%+v: got %d runs, %d ends of those before the last, failed %v", c, runs, ended, failed)
		}
		a.end()
		if ended != 2*runs || a.Context().Err() == nil {
			t.Errorf("%+v: after the end %d of %d are cleaned up, context %v", c, ended, 2*runs, a.Context().Err())
		}
	}
}
