package rate

import (
	"math/rand/v2"
	"time"

	"github.com/petrel-im/petrel/internal/im"
)

// PerToken is how many bytes of a request or an answer cost a further token of a Pace.
const PerToken = 8 << 10

// A Pace delays the requests of each key so that they keep its limit. A request that
// would wait longer than patience is refused after the delay of Late: so a client that
// repeats refused requests at once does not send more of them. A nil Pace delays nothing.
type Pace[K comparable] struct {
	limit Limit
	table Table[K]
}

const (
	// patience is how long a request waits at most.
	patience = time.Second
	// owed is how far ahead of time tokens may be taken, for bytes whose number is known only afterwards.
	owed = 10 * time.Second
)

// NewPace lets each key take perSecond tokens in a second on average,
// and burst at once. If perSecond is negative, it returns nil.
func NewPace[K comparable](perSecond, burst int) *Pace[K] {
	if perSecond < 0 {
		return nil
	}
	return &Pace[K]{limit: Per(perSecond, time.Second, burst)}
}

// Take takes a token of k, and a further one for each PerToken bytes. The caller first
// waits; then it goes on, or fails with err if that is not nil. Codes: rate_limited.
func (p *Pace[K]) Take(now time.Time, k K, bytes int) (wait time.Duration, err *im.Error) {
	if p == nil {
		return 0, nil
	}
	c := Claim[K]{Key: k, Limit: p.limit}
	if wait = p.table.Wait(now, owed, c); wait > patience {
		return Late(), &im.Error{Code: im.CodeRateLimited, RetryAfter: wait}
	}
	wait = p.table.Reserve(now, owed, c)
	p.AddBytes(now, k, bytes)
	return wait, nil
}

// Late returns how long a refusal waits: a random time in the second half of
// patience, so that refusals of a thousand simultaneous requests are spread.
func Late() time.Duration { return patience/2 + rand.N(patience/2) }

// AddBytes takes a further token of k for each PerToken bytes, at most a burst of them. If they come only
// later, it takes them ahead of time, but none if that is later than owed from now.
func (p *Pace[K]) AddBytes(now time.Time, k K, bytes int) {
	if n := bytes / PerToken; p != nil && n > 0 {
		p.table.Reserve(now, owed, Claim[K]{Key: k, Limit: p.limit, Tokens: min(n, p.limit.Burst)})
	}
}
