// Package rate limits how often something may be done, with token buckets.
//
// A bucket holds at most Burst tokens and gets one every Every. A Bucket does
// not count tokens: it keeps the moment at which it will be full again, and the
// tokens follow from that. So it takes 8 bytes and every session can have one.
// The Limiter of golang.org/x/time/rate takes 80 and a lock.
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
	if wait = b.wait(now, l, 0); wait == 0 {
		b.take(l)
	}
	return wait
}

// wait is how long to wait for the next token, in whole milliseconds. Others may
// have taken those of the time until most from now.
func (b *Bucket) wait(now time.Time, l Limit, most time.Duration) time.Duration {
	if l.Every < 0 || l.Burst < 0 {
		return 0
	}
	at, room := now.UnixNano(), l.room()
	// No bucket is emptier than that. One that is full only in an hour, because
	// the clock was set back by an hour, would refuse all until then.
	b.full = min(max(b.full, at), at+room+int64(most))
	if wait := time.Duration(b.full-at-room) + l.Every; wait > 0 {
		return (wait + time.Millisecond - 1).Truncate(time.Millisecond)
	}
	return 0
}

// take takes the token that wait has found.
func (b *Bucket) take(l Limit) {
	if l.Every > 0 && l.Burst >= 0 {
		b.full += int64(l.Every)
	}
}

// Full tells whether the bucket is as good as a new one.
func (b *Bucket) Full(now time.Time) bool { return b.full <= now.UnixNano() }

// Table has a bucket for each key, in memory that does not grow. Where there is
// no room for a further key, the fullest bucket of a few is forgotten: it is the
// one that refuses least, and its key has a full one again. So attackers who use
// many names or addresses turn nobody away. They have to empty as many buckets as
// there are before they win tries by it. The few are chosen by a secret, so that
// nobody can aim at a bucket.
type Table[K comparable] struct {
	mu    sync.Mutex // tier 0; guards the fields below
	seed  maphash.Seed
	slots []slot // nil before the first bucket
}

// slot holds the bucket of one key. Of the key it keeps a hash.
type slot struct {
	hash   uint64
	bucket Bucket
}

// MaxBuckets is how many buckets of a table may be in use, 1 MiB of them. Of ways
// slots that a key may have, it gets one.
const (
	MaxBuckets = 1 << 16
	ways       = 8
)

// Claim is for a token of one key's bucket.
type Claim[K comparable] struct {
	Key   K
	Limit Limit
}

// Take takes a token of k's bucket. Codes: rate_limited.
func (t *Table[K]) Take(now time.Time, k K, l Limit) error {
	return t.TakeAll(now, Claim[K]{k, l})
}

// TakeAll takes a token for each claim, or, if one of them has to wait, none.
// Codes: rate_limited.
func (t *Table[K]) TakeAll(now time.Time, claims ...Claim[K]) error {
	return refusal(t.Reserve(now, 0, claims...))
}

// refusal is what is said to somebody who would have to wait; nil: nobody has to.
func refusal(wait time.Duration) error {
	if wait > 0 {
		return &im.Error{Code: im.CodeRateLimited, RetryAfter: wait}
	}
	return nil
}

// Reserve takes a token for each claim if all are there within most, and returns
// how long to wait until then. If that is longer it takes none.
func (t *Table[K]) Reserve(now time.Time, most time.Duration, claims ...Claim[K]) (wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.slots == nil {
		t.seed, t.slots = maphash.MakeSeed(), make([]slot, MaxBuckets)
	}
	for _, c := range claims {
		var full Bucket
		b := &full
		hash := maphash.Comparable(t.seed, c.Key)
		if s := t.placeLocked(hash); s.hash == hash {
			b = &s.bucket
		}
		wait = max(wait, b.wait(now, c.Limit, most))
	}
	if wait > most {
		return wait
	}
	for _, c := range claims {
		hash := maphash.Comparable(t.seed, c.Key)
		s := t.placeLocked(hash)
		if s.hash != hash {
			*s = slot{hash: hash}
			s.bucket.wait(now, c.Limit, most)
		}
		s.bucket.take(c.Limit)
	}
	return wait
}

// placeLocked is where the bucket of a hash is, or else the one it replaces.
func (t *Table[K]) placeLocked(hash uint64) *slot {
	begin := hash % (MaxBuckets / ways) * ways
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
