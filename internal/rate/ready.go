package rate

import (
	"time"

	"github.com/petrel-im/petrel/internal/im"
)

// Ready takes nothing, and says whether k's bucket has a token. Codes: rate_limited.
func (t *Table[K]) Ready(now time.Time, k K, l Limit) error {
	var full Bucket
	b := &full
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.findLocked(k); s != nil {
		b = &s.bucket
	}
	if wait := b.wait(now, l, 0, 1); wait > 0 {
		return &im.Error{Code: im.CodeRateLimited, RetryAfter: wait}
	}
	return nil
}
