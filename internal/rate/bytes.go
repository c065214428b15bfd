package rate

import "time"

// freeBytes is up to how many bytes nothing is counted: how often they come is limited
// elsewhere.
const freeBytes = 1 << 10

// Bytes bounds how many bytes each key takes, in KiB. A nil Bytes bounds nothing.
type Bytes[K comparable] struct {
	kib   Limit
	table Table[K]
}

// NewBytes bounds each key to so many bytes in a second on average, and at once.
func NewBytes[K comparable](perSecond, burst int64) *Bytes[K] {
	return &Bytes[K]{kib: Per(int(max(perSecond>>10, 1)), time.Second, int(max(burst>>10, 1)))}
}

// Take counts n bytes of k. If they are too many it counts nothing, and returns how long to
// wait.
func (b *Bytes[K]) Take(now time.Time, k K, n int) (wait time.Duration) {
	if b == nil || n <= freeBytes {
		return 0
	}
	return b.table.Reserve(now, 0, Claim[K]{Key: k, Limit: b.kib, Tokens: min((n+1023)>>10, b.kib.Burst)})
}
