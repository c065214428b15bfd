package conv

import (
	"sync/atomic"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/policy"
)

// inboxLag knows the age of the oldest commit that the inbox consumer still has to carry (FeedCarried). The
// consumer sets it. While it is above Options.InboxLag, new conversations and changes of membership are refused
// as overloaded. Otherwise a user could wait for ever for a new conversation in their list.
type inboxLag struct {
	now   func() time.Time
	limit time.Duration

	oldest atomic.Int64 // Unix milliseconds: the time of the oldest commit to carry; 0: there is none
}

// lag returns the age of the oldest commit that the inbox consumer still has to carry; 0: there is none.
func (l *inboxLag) lag() time.Duration {
	oldest := l.oldest.Load()
	if oldest == 0 {
		return 0
	}
	return max(0, l.now().Sub(time.UnixMilli(oldest)))
}

// check refuses a change of membership in a conversation with the policy p while the lag is too high. Inboxes are
// exempt. Codes: overloaded, unsettled.
func (l *inboxLag) check(p *policy.Policy) error {
	if p.List || l.lag() <= l.limit {
		return nil
	}
	return &im.Error{Code: im.CodeOverloaded, Message: "the lists of conversations are being updated", RetryAfter: time.Second}
}
