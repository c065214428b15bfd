package route

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A goroutine that outlived the Router could use what has ended: the bus, the store.
func TestRunWaitsForWhatItBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &Router{moving: newTasks(1), caller: caller{serving: newTasks(1)}}
		ctx, end := context.WithCancel(t.Context())
		var running atomic.Int64
		began := func(tasks *tasks) bool {
			return tasks.start(time.Hour, func(ctx context.Context) {
				running.Add(1)
				defer running.Add(-1)
				<-ctx.Done()
				time.Sleep(time.Minute) // in a bubble: something that does not end at once
			})
		}
		for name, tasks := range map[string]*tasks{"calls": r.serving, "moves": r.moving} {
			if !began(tasks) {
				t.Fatalf("%s: none starts", name)
			}
			if began(tasks) {
				t.Errorf("%s: more start than there may be", name)
			}
		}
		synctest.Wait()
		end()
		if err := r.Run(ctx); err != nil || running.Load() != 0 {
			t.Errorf("Run returns %v while %d of its goroutines run", err, running.Load())
		}
		for name, tasks := range map[string]*tasks{"calls": r.serving, "moves": r.moving} {
			if began(tasks) {
				t.Errorf("%s: one starts after the end", name)
			}
		}
	})
}
