package eventually

import (
	"context"
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

func TestAQuestionIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, asked := time.Now(), 0
		got := Answer(t, "the answer", func(ctx context.Context) (int, error) {
			if asked++; asked < 3 {
				<-ctx.Done()
			}
			return asked, ctx.Err()
		})
		if took := time.Since(begun); got != 3 || took < Limit/5 || took > Limit/5+time.Second {
			t.Errorf("answer %d after %s, want 3 after two questions without answers, %s", got, took, Limit/5)
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
