package api

import (
	"sync"
	"time"

	"github.com/petrel-im/petrel/internal/im"
)

// What is counted for each user.
const (
	rateGroup = iota + 1
	rateSend
)

type rateKey struct {
	what    byte
	account im.Account
}

// maxRates is how many buckets may be in use; what would need a further one is
// refused as overloaded.
const maxRates = 1 << 16

// rates are token buckets. One that is full again is as good as none and is
// forgotten when room is needed.
type rates struct {
	mu    sync.Mutex            // tier 0; guards the fields below
	full  map[rateKey]time.Time // when the bucket is full again
	swept time.Time
}

// take takes one token of a bucket that holds burst and gets another one every
// so often. A negative burst is no limit. Codes: rate_limited, overloaded.
// Spec: P-9.2.
func (r *rates) take(now time.Time, k rateKey, every time.Duration, burst int) error {
	if burst < 0 || every < 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	full, used := r.full[k]
	if full.Before(now) {
		full = now
	}
	if wait := full.Sub(now) - every*time.Duration(burst-1); wait > 0 {
		return &im.Error{Code: im.CodeRateLimited, RetryAfter: wait}
	}
	if !used && !r.roomLocked(now) {
		return &im.Error{Code: im.CodeOverloaded, RetryAfter: time.Second}
	}
	r.full[k] = full.Add(every)
	return nil
}

// roomLocked makes room for one bucket; it looks for it once a second at most.
func (r *rates) roomLocked(now time.Time) bool {
	if r.full == nil {
		r.full = map[rateKey]time.Time{}
	}
	if len(r.full) >= maxRates && now.Sub(r.swept) >= time.Second {
		r.swept = now
		for k, full := range r.full {
			if !full.After(now) {
				delete(r.full, k)
			}
		}
	}
	return len(r.full) < maxRates
}
