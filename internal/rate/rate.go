// Package rate limits how often something may be done, with token buckets.
//
// A bucket holds at most Burst tokens and gets one every Every. A Bucket does
// not count tokens: it keeps the moment at which it will be full again, and the
// tokens follow from that. So it takes 8 bytes and every session can have one.
// The Limiter of golang.org/x/time/rate takes 80 and a lock.
package rate

import (
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

// Per is a limit of n in a period on average, and of burst at once; a negative
// one of them is no limit, and with 0 nothing may be done at all.
func Per(n int, period time.Duration, burst int) Limit {
	switch {
	case n < 0:
		return Limit{Every: -1}
	case n == 0:
		return Limit{Every: period, Burst: min(burst, 0)}
	}
	return Limit{period / time.Duration(n), burst}
}

// maxRoom is for how long a bucket can give tokens before it is empty; a moment
// so far ahead of now still fits into 64 bits.
const maxRoom = time.Duration(1 << 62) // 146 years

// room is how long an empty bucket takes to be full.
func (l Limit) room() int64 {
	high, room := bits.Mul64(uint64(l.Every), uint64(l.Burst))
	if high > 0 || room > uint64(maxRoom) {
		return int64(maxRoom)
	}
	return int64(room)
}

// Bucket is one token bucket; the zero Bucket is full. It has no lock.
type Bucket struct {
	full int64 // when it is full again, in Unix nanoseconds
}

// Take takes a token and returns 0. If there is none it takes nothing and
// returns how long to wait for one, in whole milliseconds.
func (b *Bucket) Take(now time.Time, l Limit) (wait time.Duration) {
	if l.Every < 0 || l.Burst < 0 {
		return 0
	}
	at, room := now.UnixNano(), l.room()
	// No bucket is emptier than empty. One that is full only in an hour, because
	// the clock was set back by an hour, would refuse all until then.
	b.full = min(max(b.full, at), at+room)
	if wait := time.Duration(b.full-at-room) + l.Every; wait > 0 {
		return (wait + time.Millisecond - 1).Truncate(time.Millisecond)
	}
	b.full += int64(l.Every)
	return 0
}

// Full tells whether the bucket is as good as a new one.
func (b *Bucket) Full(now time.Time) bool { return b.full <= now.UnixNano() }

// Table has a bucket for each key. One that is full is as good as none and is
// forgotten when room is needed.
type Table[K comparable] struct {
	mu      sync.Mutex // tier 0; guards the fields below
	buckets map[K]Bucket
	swept   time.Time
}

// MaxBuckets is how many buckets of a table may be in use. What would need a
// further one is refused as overloaded: attackers who use many names or
// addresses get no memory, and no tries without a limit.
const MaxBuckets = 1 << 16

// Take takes a token of k's bucket. Codes: rate_limited, overloaded.
func (t *Table[K]) Take(now time.Time, k K, l Limit) error {
	if l.Every < 0 || l.Burst < 0 {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	b, used := t.buckets[k]
	if wait := b.Take(now, l); wait > 0 {
		if used { // the clock may have been set back
			t.buckets[k] = b
		}
		return &im.Error{Code: im.CodeRateLimited, RetryAfter: wait}
	}
	if !used && !t.roomLocked(now) {
		return &im.Error{Code: im.CodeOverloaded, RetryAfter: time.Second}
	}
	t.buckets[k] = b
	return nil
}

// roomLocked makes room for one bucket; it looks for it once a second at most.
func (t *Table[K]) roomLocked(now time.Time) bool {
	if t.buckets == nil {
		t.buckets = map[K]Bucket{}
	}
	if len(t.buckets) >= MaxBuckets && now.Sub(t.swept) >= time.Second {
		t.swept = now
		for k, b := range t.buckets {
			if b.Full(now) {
				delete(t.buckets, k)
			}
		}
	}
	return len(t.buckets) < MaxBuckets
}
