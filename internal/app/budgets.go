package app

import (
	"github.com/KimMachineGun/automemlimit/memlimit"

	"github.com/petrel-im/petrel/internal/config"
	"github.com/petrel-im/petrel/internal/metrics"
)

// Budgets are what the parts of the server may keep in memory, in bytes.
type Budgets struct {
	Total         int64 // that the others are parts of
	Store         int64 // of the embedded store: blocks that were read, rows that are not in a table yet
	Conversations int64
}

// unknownMemory is taken for the memory of a machine that does not say it.
const unknownMemory = 1 << 30

// ShareMemory shares out memory, in bytes, as far as the configuration does not say how
// much each part gets. 0: what the machine has, or the container if that is less.
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
		Store:         part(c.Store.CacheBytes, 16, 64*mib, 256*mib),
		Conversations: part(c.Memory.ConversationBytes, 32, 16*mib, 256*mib),
	}
}

// machineMemory is the memory of the machine, or of the container if that is less.
func machineMemory() int64 {
	least := uint64(0)
	for _, from := range []memlimit.Provider{memlimit.FromSystem, memlimit.FromCgroup} {
		if n, err := from(); err == nil && 0 < n && n < 1<<62 && (least == 0 || n < least) {
			least = n
		}
	}
	if least == 0 {
		return unknownMemory
	}
	return int64(least)
}

// memoryValues are what the parts of the server have in memory, and may have.
func (a *App) memoryValues() []metrics.Value {
	var values []metrics.Value
	part := func(name string, read func() (bytes, budget int64)) {
		labels := map[string]string{"part": name}
		values = append(values,
			metrics.Value{Name: "petrel_memory_bytes", Help: "Memory that a part of the server takes, about.", Labels: labels, Read: func() float64 {
				n, _ := read()
				return float64(n)
			}},
			metrics.Value{Name: "petrel_memory_budget_bytes", Help: "Memory that a part of the server may take.", Labels: labels, Read: func() float64 {
				_, n := read()
				return float64(n)
			}})
	}
	part("process", func() (int64, int64) { return int64(residentBytes()), a.budgets.Total })
	part("conversations", a.convs.MemoryBytes)
	part("sends", a.convs.AdmittedBytes)
	if a.embedded != nil {
		part("store", func() (int64, int64) { return int64(a.store.Stats().MemoryBytes), a.budgets.Store })
	}
	return values
}
