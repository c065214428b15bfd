package route

import (
	"context"
	"time"

	"golang.org/x/sync/semaphore"
)

// tasks runs short tasks, each in a goroutine of its own, and bounds
// their number. Run of the Router waits for them at its end.
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

// start runs f, whose context ends after atMost. It returns false if too many tasks run, or after stop.
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

// stop ends the contexts of the tasks, and returns when all tasks have ended. None starts after that.
func (t *tasks) stop() {
	t.end()
	// Acquire fails only when its context ends; from here on all slots are taken
	_ = t.slots.Acquire(context.Background(), t.max)
}
