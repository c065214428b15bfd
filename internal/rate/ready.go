package rate

import "time"

// Ready takes nothing, and says whether k's bucket has a token. Codes: rate_limited.
func (t *Table[K]) Ready(now time.Time, k K, l Limit) error {
	return refusal(t.Wait(now, 0, Claim[K]{Key: k, Limit: l}))
}

// Wait takes nothing, and returns how long to wait until the tokens of each claim are
// there. Tokens of the time until most from now may have been taken by Reserve.
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
