package rate

import "time"

// freeBytes is the size up to which Take counts nothing: the rate of sends limits such small ones.
const freeBytes = 1 << 10

// Bytes bounds how many bytes each key takes, in KiB. A nil Bytes bounds nothing.
type Bytes[K comparable] struct {
	kib   Limit
	table Table[K]

	group    func(K) K // nil: keys have none
	groupKiB Limit
}

// NewBytes bounds each key to perSecond bytes in a second on average, and to burst bytes at once.
func NewBytes[K comparable](perSecond, burst int64) *Bytes[K] {
	return &Bytes[K]{kib: Per(int(max(perSecond>>10, 1)), time.Second, int(max(burst>>10, 1)))}
}

// Within also bounds the keys of each group together: to perSecond bytes in a second on
// average, and at once to as many as an hour allows; 0: there is no such bound. group returns
// the key of the group of a key, which must differ from all keys that Take gets. Within returns b.
func (b *Bytes[K]) Within(perSecond int64, group func(K) K) *Bytes[K] {
	if perSecond > 0 {
		kib := int(max(perSecond>>10, 1))
		b.group, b.groupKiB = group, Per(kib, time.Second, 3600*kib)
	}
	return b
}

// Taken returns the bytes that a key has taken and not got back yet, and its bound; 0, 0: no bound.
func (b *Bytes[K]) Taken(now time.Time, k K) (taken, bound int64) {
	if b == nil {
		return 0, 0
	}
	return b.takenOf(now, k, b.kib)
}

// TakenBy returns what Taken does, for the group of k.
func (b *Bytes[K]) TakenBy(now time.Time, k K) (taken, bound int64) {
	if b == nil || b.group == nil {
		return 0, 0
	}
	return b.takenOf(now, b.group(k), b.groupKiB)
}

func (b *Bytes[K]) takenOf(now time.Time, k K, l Limit) (taken, bound int64) {
	if l.Every <= 0 || l.Burst <= 0 {
		return 0, 0
	}
	left := b.table.Wait(now, 0, Claim[K]{Key: k, Limit: l, Tokens: l.Burst}) // until all bytes have come back
	return int64(left/l.Every) << 10, int64(l.Burst) << 10
}

// Take counts n bytes of k, and of its group. If they are too many, it counts nothing and returns how long to
// wait. Up to freeBytes bytes count as none, and more than the burst of k as the burst.
func (b *Bytes[K]) Take(now time.Time, k K, n int) (wait time.Duration) {
	if b == nil || n <= freeBytes {
		return 0
	}
	own := Claim[K]{Key: k, Limit: b.kib, Tokens: min((n+1023)>>10, b.kib.Burst)}
	if b.group == nil {
		return b.table.Reserve(now, 0, own)
	}
	return b.table.Reserve(now, 0, own, Claim[K]{Key: b.group(k), Limit: b.groupKiB, Tokens: own.Tokens})
}
