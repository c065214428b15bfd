package app

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// giveBack returns memory to the system when a busy time is over: the garbage of 10,000 logins would
// otherwise stay resident until the next busy time. It collects only if much was allocated since the last
// time and little is being allocated now, so an idle server does nothing and a busy one is left alone. It
// collects once more later, when conversations that were unused since the busy time have left memory.
func giveBack(ctx context.Context) error {
	const (
		every = 5 * time.Second
		quiet = 4 << 20          // bytes allocated in that time
		worth = 16 << 20         // bytes allocated since memory was last given back
		again = 75 * time.Second // conversations leave memory after a minute
	)
	tick := time.NewTicker(every)
	defer tick.Stop()
	last, returned := allocated(), uint64(0)
	var dropped <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-dropped:
			dropped = nil
			runtime.GC() // a sync.Pool frees its objects at the second collection
			debug.FreeOSMemory()
		case <-tick.C:
		}
		now := allocated()
		if now-last < quiet && now-returned > worth {
			runtime.GC()
			debug.FreeOSMemory()
			now = allocated()
			returned = now
			dropped = time.After(again)
		}
		last = now
	}
}

// allocated returns the bytes that were ever allocated on the heap.
func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
