package route

import (
	"context"
	"time"

	"golang.org/x/sync/semaphore"
)

// tasks is a bounded number of goroutines, each for one short task. Run of the Router waits for
// them at its end.
type tasks struct {
	life  context.Context // of all of them
	end   context.CancelFunc
	max   int64
	slots *semaphore.Weighted // one of max for each that runs
}

func newTasks(most int64) *tasks {
	t := &tasks{max: most, slots: semaphore.NewWeighted(most)}
	t.life, t.end = context.WithCancel(context.Background())
	return t
}

// start runs f, whose context ends after some time. It returns false if too many run, or
// if they have ended.
func (t *tasks) start(atMost time.Duration, f func(context.Context)) bool {
	if !t.slots.TryAcquire(1) {
		return false
	}
	go func() { // stop waits for it
		defer t.slots.Release(1)
		ctx, cancel := context.WithTimeout(t.life, atMost)
		defer cancel()
		f(ctx)
	}()
	return true
}

// stop ends them, and returns when they have ended. None starts after that.
func (t *tasks) stop() {
	t.end()
	// fails only when its context ends; all slots are taken from here on
	_ = t.slots.Acquire(context.Background(), t.max)
}
