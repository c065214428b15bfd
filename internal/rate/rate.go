// Package rate limits how often something may be done, with token buckets.
//
// A bucket holds at most Burst tokens and gets one token each Limit.Every. A Bucket does not count
// tokens: it keeps the moment at which it will be full again, and the tokens follow from that. So it
// takes 8 bytes and every session can have one. The Limiter of golang.org/x/time/rate takes 80 and a
// lock.
package rate

import (
	"hash/maphash"
	"math/bits"
	"sync"
	"time"

	"github.com/petrel-im/petrel/internal/im"
)

// Limit is how often something may be done. A negative field: there is no limit.
type Limit struct {
	Every time.Duration // from one to the next, on average
	Burst int           // at once
}

// Per returns a limit of n in a period on average, and of burst at once. If n or burst
// is negative, there is no limit; if one of them is 0, nothing may be done at all.
func Per(n int, period time.Duration, burst int) Limit {
	switch {
	case n < 0:
		return Limit{Every: -1}
	case n == 0:
		return Limit{Every: period, Burst: min(burst, 0)}
	}
	return Limit{period / time.Duration(n), burst}
}

// maxRoom bounds how long a bucket takes to be full. A moment so far ahead of now still fits into 64 bits.
const maxRoom = time.Duration(1 << 62) // 146 years

// room returns how long an empty bucket takes to be full, in nanoseconds.
func (l Limit) room() int64 {
	high, room := bits.Mul64(uint64(l.Every), uint64(l.Burst))
	if high > 0 || room > uint64(maxRoom) {
		return int64(maxRoom)
	}
	return int64(room)
}

// origin is the beginning of 1970. It has a monotonic clock reading, by
// the difference of the two clocks at the start.
var origin = func() time.Time {
	now := time.Now()
	return now.Add(-time.Duration(now.UnixNano()))
}()

// moment returns the time since origin in nanoseconds. If now has a monotonic clock reading,
// as results of time.Now have, a step of the wall clock neither fills nor empties a bucket.
func moment(now time.Time) int64 { return int64(now.Sub(origin)) }

// Bucket is one token bucket; the zero Bucket is full. It has no lock.
type Bucket struct {
	full int64 // when it is full again, in nanoseconds since origin
}

// Take takes a token and returns 0. If there is none, it takes nothing
// and returns how long to wait for one, in whole milliseconds.
func (b *Bucket) Take(now time.Time, l Limit) (wait time.Duration) {
	if wait = b.wait(now, l, 0, 1); wait == 0 {
		b.take(l, 1)
	}
	return wait
}

// wait returns how long to wait for the next n tokens, in whole milliseconds.
// Callers of Reserve may have taken tokens that come within most from now.
func (b *Bucket) wait(now time.Time, l Limit, most time.Duration, n int) time.Duration {
	if l.Every < 0 || l.Burst < 0 {
		return 0
	}
	at, room := moment(now), l.room()
	// No bucket is emptier than that, even if an earlier now came from another clock.
	b.full = min(max(b.full, at), at+room+int64(most))
	if wait := time.Duration(b.full-at-room) + time.Duration(n)*l.Every; wait > 0 {
		return (wait + time.Millisecond - 1).Truncate(time.Millisecond)
	}
	return 0
}

// take takes the n tokens that wait has found.
func (b *Bucket) take(l Limit, n int) {
	if l.Every > 0 && l.Burst >= 0 {
		b.full += int64(n) * int64(l.Every)
	}
}

// Full tells whether the bucket is as good as a new one.
func (b *Bucket) Full(now time.Time) bool { return b.full <= moment(now) }

// Table has a bucket for each key, in memory that is bounded. It grows while more buckets are in use, and
// shrinks when fewer are. A full bucket is not in use: a new one is the same.
//
// If a new key finds no room in a table that cannot grow, the fullest bucket of a few is forgotten: it
// refuses least, and its key has a full bucket again. So attackers who use many names or addresses do not
// get others refused. They gain tries only after they have emptied as many buckets as there are. A secret
// decides which buckets these few are, so nobody can aim at a bucket.
type Table[K comparable] struct {
	mu     sync.Mutex // tier 0; guards the fields below
	seed   maphash.Seed
	slots  []slot    // a power of two; nil before the first bucket
	looked time.Time // when it was last considered to shrink
}

// slot holds the bucket of one key, and a hash of the key.
type slot struct {
	hash   uint64
	bucket Bucket
}

// MaxBuckets is how many buckets of a table may be in use; they take 1 MiB.
// A key may use any of ways slots of the table, and gets one of them.
const (
	MaxBuckets  = 1 << 16
	minBuckets  = 1 << 6
	ways        = 8
	shrinkEvery = time.Minute
)

// Claim asks for tokens of one key's bucket.
type Claim[K comparable] struct {
	Key    K
	Limit  Limit
	Tokens int // at most Burst, as more are never there; 0: one
}

// Take takes a token of k's bucket. Codes: rate_limited.
func (t *Table[K]) Take(now time.Time, k K, l Limit) error {
	return t.TakeAll(now, Claim[K]{Key: k, Limit: l})
}

// TakeAll takes the tokens of all claims, or none if one of them has to wait. Codes: rate_limited.
func (t *Table[K]) TakeAll(now time.Time, claims ...Claim[K]) error {
	return refusal(t.Reserve(now, 0, claims...))
}

// refusal returns the error for a caller who would have to wait; nil: wait is 0.
func refusal(wait time.Duration) error {
	if wait > 0 {
		return &im.Error{Code: im.CodeRateLimited, RetryAfter: wait}
	}
	return nil
}

// Reserve takes the tokens of all claims, also tokens that come only within most from
// now, and returns how long to wait for them. If that is longer than most, it takes none.
func (t *Table[K]) Reserve(now time.Time, most time.Duration, claims ...Claim[K]) (wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.slots == nil {
		t.seed = maphash.MakeSeed()
		t.resizeLocked(now, minBuckets)
	}
	for _, c := range claims {
		var full Bucket
		b := &full
		if s := t.findLocked(c.Key); s != nil {
			b = &s.bucket
		}
		wait = max(wait, b.wait(now, c.Limit, most, max(c.Tokens, 1)))
	}
	if wait > most {
		return wait
	}
	t.shrinkLocked(now)
	for _, c := range claims {
		b := slot{hash: maphash.Comparable(t.seed, c.Key)}
		if s := t.placeLocked(b.hash); s.hash == b.hash {
			b = *s
		}
		b.bucket.wait(now, c.Limit, most, 1)
		b.bucket.take(c.Limit, max(c.Tokens, 1))
		if !b.bucket.Full(now) { // it stays full if there is no limit
			t.putLocked(now, b)
		}
	}
	return wait
}

// Ready returns nil if k's bucket has a token, and takes none. Codes: rate_limited.
func (t *Table[K]) Ready(now time.Time, k K, l Limit) error {
	return refusal(t.Wait(now, 0, Claim[K]{Key: k, Limit: l}))
}

// Wait returns how long to wait until the tokens of all claims are there, and takes
// none. most is the longest wait with which Reserve takes tokens of these buckets.
func (t *Table[K]) Wait(now time.Time, most time.Duration, claims ...Claim[K]) (wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range claims {
		var full Bucket
		b := &full
		if s := t.findLocked(c.Key); s != nil {
			b = &s.bucket
		}
		wait = max(wait, b.wait(now, c.Limit, most, max(c.Tokens, 1)))
	}
	return wait
}

// findLocked returns the slot with the bucket of a key; nil: the key has none, and so a full bucket.
func (t *Table[K]) findLocked(k K) *slot {
	if t.slots == nil {
		return nil
	}
	hash := maphash.Comparable(t.seed, k)
	if s := t.placeLocked(hash); s.hash == hash {
		return s
	}
	return nil
}

// putLocked stores a bucket. If it would replace one that is in use, the table grows first, as long as it can.
func (t *Table[K]) putLocked(now time.Time, b slot) {
	s := t.placeLocked(b.hash)
	for s.hash != b.hash && !s.bucket.Full(now) && len(t.slots) < MaxBuckets {
		t.resizeLocked(now, 2*len(t.slots))
		s = t.placeLocked(b.hash)
	}
	*s = b
}

// shrinkLocked makes the table smaller if at most a sixteenth of its
// buckets is in use. It counts them once in shrinkEvery.
func (t *Table[K]) shrinkLocked(now time.Time) {
	if since := now.Sub(t.looked); len(t.slots) == minBuckets || since >= 0 && since < shrinkEvery {
		return
	}
	t.looked = now
	used := 0
	for i := range t.slots {
		if !t.slots[i].bucket.Full(now) {
			used++
		}
	}
	n := len(t.slots)
	for n > minBuckets && used <= n/16 {
		n /= 2
	}
	if n < len(t.slots) {
		t.resizeLocked(now, n)
	}
}

// resizeLocked moves the buckets that are in use to a table of n slots, or more
// if they do not fit: no bucket in use is forgotten while the table can grow.
func (t *Table[K]) resizeLocked(now time.Time, n int) {
	old := t.slots
	t.slots, t.looked = make([]slot, n), now
	for _, s := range old {
		if !s.bucket.Full(now) {
			t.putLocked(now, s)
		}
	}
}

// placeLocked returns the slot with a hash, or, if there is none, the slot that a bucket of this hash replaces.
func (t *Table[K]) placeLocked(hash uint64) *slot {
	begin := hash % uint64(len(t.slots)/ways) * ways
	set := t.slots[begin : begin+ways]
	fullest := &set[0]
	for i := range set {
		if set[i].hash == hash {
			return &set[i]
		}
		if set[i].bucket.full < fullest.bucket.full {
			fullest = &set[i]
		}
	}
	return fullest
}
