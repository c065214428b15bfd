package password

import (
	"context"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/rate"
)

// Attempts counts the tries to log in with a password. Users and operators have Attempts of their own, so guesses
// at users' passwords keep no operator out.
type Attempts struct {
	Of      rate.Table[Key]
	Hosts   rate.Addresses
	delayed atomic.Int32 // tries that wait for their turn
}

// Key names a bucket of tries to log in with a password: those from one host, those by one device, or, if both
// are empty, those of all unknown devices together. It makes no difference whether the tenant and the user exist.
type Key struct {
	Tenant string
	User   im.User
	Host   netip.Prefix
	Device string
}

const (
	// Strangers is a factor: at one account, all unknown devices together have so many times the tries of one
	// address. Further tries are delayed before they are refused: the right password must have a chance among the
	// wrong ones.
	Strangers     = 10
	maxLoginDelay = 3 * time.Second
	maxDelayed    = 256 // logins that wait for their turn, of all accounts
)

// TakeTurn counts a try of an unknown device, and delays it if need be, so that all such tries at one account
// together keep within Strangers times the limit. It refuses a try that would wait for longer than maxLoginDelay,
// or at all while maxDelayed others wait. Codes: rate_limited.
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
