package rate

import (
	"hash/maphash"
	"time"

	"github.com/petrel-im/petrel/internal/im"
)

// Ready takes nothing, and says whether k's bucket has a token. Codes: rate_limited.
func (t *Table[K]) Ready(now time.Time, k K, l Limit) error {
	var b Bucket
	t.mu.Lock()
	if t.slots != nil {
		hash := maphash.Comparable(t.seed, k)
		if s := t.placeLocked(hash); s.hash == hash {
			b = s.bucket
		}
	}
	t.mu.Unlock()
	if wait := b.Take(now, l); wait > 0 {
		return &im.Error{Code: im.CodeRateLimited, RetryAfter: wait}
	}
	return nil
}
