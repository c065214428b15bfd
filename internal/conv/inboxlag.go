package conv

import (
	"sync/atomic"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/policy"
)

// inboxLag knows how far the inboxes are behind the feed. Whoever carries changes of
// membership there says so. While they are further behind than Options.InboxLag, no
// conversation begins and no membership changes: their sends are answered overloaded.
// Else a user could wait for ever until a new conversation is in their list.
type inboxLag struct {
	now   func() time.Time
	limit time.Duration

	oldest atomic.Int64 // Unix milliseconds: when the oldest change was made that the inboxes lack; 0: they lack none
}

// lag is for how long a change of membership waits already.
func (l *inboxLag) lag() time.Duration {
	oldest := l.oldest.Load()
	if oldest == 0 {
		return 0
	}
	return max(0, l.now().Sub(time.UnixMilli(oldest)))
}

// check refuses what would put the inboxes further behind. Codes: overloaded,
// unsettled.
func (l *inboxLag) check(p *policy.Policy) error {
	if p.List || l.lag() <= l.limit {
		return nil
	}
	return &im.Error{Code: im.CodeOverloaded, Message: "the lists of conversations are behind", RetryAfter: time.Second}
}
