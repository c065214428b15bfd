package app

import (
	"fmt"
	"math"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"github.com/petrel-im/petrel/internal/config"
	"github.com/petrel-im/petrel/internal/metrics"
)

// Budgets are the memory bounds of the parts of the server, in bytes.
type Budgets struct {
	Total         int64 // of the whole process; the others are parts of it
	Store         int64 // of the embedded store: blocks that were read, rows that are not in a table yet
	Conversations int64
	Sends         int64 // that are not answered yet
	Calls         int64 // for bodies of calls, and as much again for answers until they are written
}

// unknownMemory is assumed for a machine that does not report its memory.
const unknownMemory = 1 << 30

// ShareMemory divides memory, in bytes, among the parts without a size in the configuration. A total in the
// configuration counts before the argument total. If both are 0, the memory of the machine, of the container or
// GOMEMLIMIT is divided, whichever is least.
func ShareMemory(total int64, c *config.Config) Budgets {
	if c.Memory.TotalBytes > 0 {
		total = c.Memory.TotalBytes
	}
	if total == 0 {
		total = machineMemory()
	}
	part := func(set, of, low, high int64) int64 {
		if set > 0 {
			return set
		}
		return min(max(total/of, low), high)
	}
	const mib = 1 << 20
	return Budgets{
		Total:         total,
		Store:         part(c.Store.CacheBytes, 16, 8*mib, 256*mib),
		Conversations: part(c.Memory.ConversationBytes, 32, 2*mib, 256*mib),
		Sends:         part(c.Limits.AdmittedBytes, 16, 4*mib, 64*mib),
		Calls:         part(0, 16, 4*mib, 64*mib),
	}
}

// goMemLimit is GOMEMLIMIT in bytes; without one, math.MaxInt64.
var goMemLimit = debug.SetMemoryLimit(-1)

// httpBytes is the least memory of a connection of the HTTP server, with HTTP/2.
const httpBytes = 48 << 10

// HTTP returns how many connections the HTTP server may have beside those of clients. Strangers open them.
func (b *Budgets) HTTP() int { return int(max(b.Total/8/httpBytes, 64)) }

// leastMemory is enough memory for a server of a few people.
const leastMemory = 64 << 20

// Sum returns the budgets of all parts together.
func (b *Budgets) Sum() int64 { return b.Store + b.Conversations + b.Sends + 2*b.Calls }

// Short describes a lack of memory; empty: there is none. Garbage and
// connections need about as much as all budgets.
func (b *Budgets) Short() string {
	switch {
	case b.Total < leastMemory:
		return fmt.Sprintf("the memory of %s is less than %s: the server refuses work with overloaded when it is busy",
			config.FormatSize(b.Total), config.FormatSize(leastMemory))
	case b.Sum() > b.Total/2:
		return fmt.Sprintf(
			"the budgets sum up to %s, more than half of the memory of %s: the server refuses work with overloaded when they are full; lower store.cache, memory.conversations and limits.admitted",
			config.FormatSize(b.Sum()), config.FormatSize(b.Total))
	}
	return ""
}

// machineMemory returns the memory of the machine, of the container, or of GOMEMLIMIT, whichever is least.
func machineMemory() int64 {
	least := uint64(0)
	for _, from := range []memlimit.Provider{memlimit.FromSystem, memlimit.FromCgroup} {
		if n, err := from(); err == nil && 0 < n && n < 1<<62 && (least == 0 || n < least) {
			least = n
		}
	}
	if goMemLimit != math.MaxInt64 && (least == 0 || uint64(goMemLimit) < least) {
		least = uint64(goMemLimit)
	}
	if least == 0 {
		return unknownMemory
	}
	return int64(least)
}

// memoryValues returns the memory use and the budgets of the parts of the server.
func (a *App) memoryValues() []metrics.Value {
	var values []metrics.Value
	part := func(name string, read func() (bytes, budget int64)) {
		labels := map[string]string{"part": name}
		values = append(values,
			metrics.Value{Name: "petrel_memory_bytes", Help: "Memory that a part of the server takes, about.",
				Labels: labels, Read: func() float64 {
					n, _ := read()
					return float64(n)
				}},
			metrics.Value{Name: "petrel_memory_budget_bytes", Help: "Memory that a part of the server may take.",
				Labels: labels, Read: func() float64 {
					_, n := read()
					return float64(n)
				}})
	}
	part("process", func() (int64, int64) { return int64(residentBytes()), a.budgets.Total })
	part("conversations", a.convs.MemoryBytes)
	part("sends", a.convs.AdmittedBytes)
	if a.store.cache > 0 {
		part("store", func() (int64, int64) { return int64(a.store.Stats().MemoryBytes), a.store.cache })
	}
	return values
}
