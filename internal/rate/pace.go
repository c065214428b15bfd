package rate

import (
	"math/rand/v2"
	"time"

	"github.com/petrel-im/petrel/internal/im"
)

// PerToken is how many bytes of what is asked for come with a token of a Pace.
const PerToken = 8 << 10

// A Pace has what each key asks for come no faster than its limit. What is early waits; what
// would have to wait longer than patience is refused, after about that time. So somebody who asks
// again at once does not ask more often for it. A nil Pace lets everything come at once.
type Pace[K comparable] struct {
	limit Limit
	table Table[K]
}

const (
	// patience is for how long something waits at most.
	patience = time.Second
	// owed is how much of the limit may be taken ahead of time by what is known only afterwards.
	owed = 10 * time.Second
)

// NewPace lets each key take so many tokens in a second on average, and so many at once;
// a negative number is no limit.
func NewPace[K comparable](perSecond, burst int) *Pace[K] {
	if perSecond < 0 {
		return nil
	}
	return &Pace[K]{limit: Per(perSecond, time.Second, burst)}
}

// Take takes a token of k, and a further one for each PerToken bytes. The caller waits, and then goes
// on, or fails with err if there is one. Codes: rate_limited.
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

// Late is how long a refusal waits: a moment within the last half of patience, so that a thousand
// that came at once are not answered at once.
func Late() time.Duration { return patience/2 + rand.N(patience/2) }

// AddBytes takes a further token for each PerToken bytes, ahead of time if they are not there yet.
func (p *Pace[K]) AddBytes(now time.Time, k K, bytes int) {
	if n := bytes / PerToken; p != nil && n > 0 {
		p.table.Reserve(now, owed, Claim[K]{Key: k, Limit: p.limit, Tokens: min(n, p.limit.Burst)})
	}
}
