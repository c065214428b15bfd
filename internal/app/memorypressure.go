package app

import (
	"context"
	"math"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/petrel-im/petrel/internal/config"
)

// LimitMemory sets the memory limit of the garbage collector, unless GOMEMLIMIT has set one.
// The limit is a part of Budgets.Total: the rest is for memory outside the collector, such as
// buffers of sockets and pages of the program. It returns the limit in bytes, for Options.
func LimitMemory(c *config.Config) int64 {
	if goMemLimit != math.MaxInt64 {
		return goMemLimit
	}
	total := ShareMemory(0, c).Total
	limit := max(total-max(total/8, 24<<20), total/2)
	debug.SetMemoryLimit(limit)
	return limit
}

// watchMemory refuses work with overloaded while the process has more memory
// than its limit, even after a garbage collection: soon the system would kill
// the process. The memory of every part counts, with or without a budget.
func (a *App) watchMemory(ctx context.Context) error {
	const often, seldom = 20 * time.Millisecond, 200 * time.Millisecond // often: while more than half is used
	_, budget := a.convs.AdmittedBytes()
	for wait := seldom; ; {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil
		}
		used, pressed := heldBytes(), a.pressed.Load()
		if used > a.o.MemoryLimit || pressed {
			// A server that refuses everything allocates nothing, so no collection would start by itself.
			debug.FreeOSMemory()
			used = heldBytes()
		}
		if wait = seldom; used > a.o.MemoryLimit/2 && !pressed {
			wait = often
		}
		switch {
		case !pressed && used > a.o.MemoryLimit:
			a.convs.Hold(int(budget)) // no send is admitted
			a.pressed.Store(true)
			a.log.Error("memory is full: sends, calls and logins are refused until some of it is free", "bytes", used,
				"limit", a.o.MemoryLimit)
		case pressed && used <= a.o.MemoryLimit-a.o.MemoryLimit/16:
			a.convs.Release(int(budget))
			a.pressed.Store(false)
			a.log.Info("memory is free again", "bytes", used)
		}
	}
}

// heldBytes returns the memory that the Go runtime has from the system, as GOMEMLIMIT counts it.
func heldBytes() int64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64() - s[1].Value.Uint64())
}
