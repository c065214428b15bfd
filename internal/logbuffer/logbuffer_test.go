package logbuffer

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// reader takes what is written while it is not shut.
type reader struct {
	open chan struct{} // capacity 1; a token: one may write

	mu  sync.Mutex
	err error
	got bytes.Buffer
}

func newReader() *reader { return &reader{open: make(chan struct{}, 1)} }

func (r *reader) Write(b []byte) (int, error) {
	<-r.open
	defer func() { r.open <- struct{}{} }()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return 0, r.err
	}
	return r.got.Write(b)
}

func (r *reader) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

func (r *reader) lines() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Split(strings.TrimSuffix(r.got.String(), "\n"), "\n")
}

func TestALogThatNobodyReadsHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReader()
		b := New(r)
		b.OnDropped(func(n uint64) { fmt.Fprintf(b, "dropped %d\n", n) })
		line := []byte(strings.Repeat("x", 1023) + "\n")
		fmt.Fprintln(b, "first")
		synctest.Wait() // it is being written
		for range 3000 {
			_, _ = b.Write(line)
		}
		if n := b.Dropped(); n != 3000-1024 {
			t.Errorf("%d of 3000 KiB are dropped, want all but 1 MiB", n)
		}
		r.open <- struct{}{}
		synctest.Wait()
		got := r.lines()
		if n := len(got); n != 1+1024+1 || got[0] != "first" || got[1025] != "dropped 1976" {
			t.Fatalf("%d lines, the first %.20q, the last %.20q; want 1024 between the first and how many were dropped", n, got[0], got[n-1])
		}
		fmt.Fprintln(b, "last")
		if !b.Close(time.Second) {
			t.Error("Close returns false, and nothing is written any more")
		}
		if got := r.lines(); got[len(got)-1] != "last" || len(got) != 1027 {
			t.Errorf("after the end there are %d lines, the last is %.20q, want last", len(got), got[len(got)-1])
		}
		fmt.Fprintln(b, "too late")
		if n := b.Dropped(); n != 1977 {
			t.Errorf("%d are dropped, want 1977", n)
		}
	})
}

func TestTheEndOfALogThatNobodyReadsIsNotWaitedForForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReader()
		b := New(r)
		fmt.Fprintln(b, "a line")
		begun := time.Now()
		if ended := b.Close(2 * time.Second); ended || time.Since(begun) != 2*time.Second {
			t.Errorf("Close returns %v after %v, want false after 2 s: the write is under way", ended, time.Since(begun))
		}
		r.open <- struct{}{}
	})
}

func TestALogThatCannotBeWrittenIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReader()
		r.open <- struct{}{}
		r.fail(errors.New("no space left on device"))
		b := New(r)
		b.OnDropped(func(n uint64) { fmt.Fprintf(b, "dropped %d\n", n) })
		fmt.Fprint(b, "one\ntwo\n")
		synctest.Wait()
		fmt.Fprintln(b, "three")
		synctest.Wait()
		r.fail(nil)
		time.Sleep(time.Second - 1)
		synctest.Wait()
		if got := r.lines(); got[0] != "" {
			t.Errorf("within a second %q is written, want nothing", got)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if got := strings.Join(r.lines(), ", "); got != "three, dropped 2" {
			t.Errorf("%s is written, want three, dropped 2", got)
		}
		b.Close(time.Second)
	})
}
