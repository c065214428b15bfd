package password

import (
	"context"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/rate"
)

// Attempts are the tries to log in with a password: those of people, or those of operators. They
// are counted separately, so guesses at people's passwords keep no operator out.
type Attempts struct {
	Of      rate.Table[Key]
	Hosts   rate.Addresses
	delayed atomic.Int32 // that wait for their turn
}

// Key names a bucket of tries to log in with a password: from one host, by
// one device, or, if both are empty, by all that are not known. Whether there is
// such a tenant and user does not matter.
type Key struct {
	Tenant string
	User   im.User
	Host   netip.Prefix
	Device string
}

const (
	// Strangers is how many times the tries of one address all devices that are not known have
	// together, at one account. Further tries are slower, and not refused at once: the right
	// password must have a chance among the wrong ones.
	Strangers     = 10
	maxLoginDelay = 3 * time.Second
	maxDelayed    = 256 // logins that wait for their turn, of all accounts
)

// TakeTurn lets the tries of all Strangers at one account pass one after the
// other, at a few times the limit of one address. Codes: rate_limited.
func (l *Attempts) TakeTurn(ctx context.Context, now time.Time, account Key, limit rate.Limit) error {
	defer l.delayed.Add(-1)
	most := maxLoginDelay
	if l.delayed.Add(1) > maxDelayed {
		most = 0
	}
	limit.Every, limit.Burst = limit.Every/Strangers, limit.Burst*Strangers
	wait := l.Of.Reserve(now, most, rate.Claim[Key]{Key: account, Limit: limit})
	switch {
	case wait > most:
		return &im.Error{Code: im.CodeRateLimited, RetryAfter: wait}
	case wait == 0:
		return nil
	}
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
