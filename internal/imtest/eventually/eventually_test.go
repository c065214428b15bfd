package eventually

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestAConditionIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		late := make(chan int, 1)
		time.AfterFunc(Limit-time.Second, func() { late <- 7 })
		if got := Receive(t, "the late value", late); got != 7 {
			t.Errorf("received %d, want 7", got)
		}
		True(t, "another second has passed", func() bool { return time.Since(begun) >= Limit })
		if Holds(func() bool { return false }) {
			t.Error("a condition that is never met holds")
		}
		if took := time.Since(begun); took < 2*Limit || took > 2*Limit+time.Second {
			t.Errorf("the waits took %s, want twice %s", took, Limit)
		}
	})
}

func TestAContextEndsAtTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		<-Context(t).Done()
		if took := time.Since(begun); took != Limit {
			t.Errorf("the context ended after %s, want %s", took, Limit)
		}
	})
}
