package user

import (
	"net/netip"
	"sync"
	"time"

	"github.com/petrel-im/petrel/internal/im"
)

// What is counted.
const (
	rateLogin = iota + 1
	rateLoginIP
	rateRegister
	rateLookUp
	rateRefresh
	rateRepeat
)

// rateKey names a bucket: what is counted, and for whom.
type rateKey struct {
	what    byte
	account im.Account
	ip      netip.Prefix
}

// maxRates is how many buckets may be in use. When all are, what would need a
// further one is refused as overloaded.
const maxRates = 1 << 16

// rates are token buckets. One that is full again is as good as none and is
// forgotten when room is needed.
type rates struct {
	mu    sync.Mutex            // tier 0; guards the fields below
	full  map[rateKey]time.Time // when the bucket is full again
	swept time.Time
}

// take takes one of n in a period. n < 0 or a key for nobody: there is no limit.
// Codes: rate_limited, overloaded. Spec: P-11.2.
func (r *rates) take(now time.Time, k rateKey, n int, period time.Duration) error {
	if n < 0 || k.account == (im.Account{}) && !k.ip.IsValid() {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	full, used := r.full[k]
	if full.Before(now) {
		full = now
	}
	// A bucket that is full for the whole period from now on is empty.
	if wait := full.Sub(now) + period/time.Duration(n) - period; wait > 0 {
		return &im.Error{Code: im.CodeRateLimited, RetryAfter: wait}
	}
	if !used && !r.roomLocked(now) {
		return &im.Error{Code: im.CodeOverloaded, RetryAfter: time.Second}
	}
	r.full[k] = full.Add(period / time.Duration(n))
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

// block is the addresses that count as one: an IPv4 address, or an IPv6 /64. It
// is not valid if a is not.
func block(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	if a.Is6() {
		p, _ := a.Prefix(64) // fits
		return p
	}
	return netip.PrefixFrom(a, a.BitLen())
}

// AllowLookUp counts a look-up of another user by a. Codes: rate_limited,
// overloaded.
func (us *Users) AllowLookUp(a im.Account) error {
	return us.rates.take(us.now(), rateKey{what: rateLookUp, account: a}, us.o.Rates.LookUps, time.Minute)
}

// maxRepeats is how many repeats of an answered call with a password are
// answered for each login that may be tried.
const maxRepeats = 4

// AllowRepeat counts a repeat of an answered call with a password, which costs
// as much as a login: of a user, or of an address if a is nobody. It does not
// take from what they have to log in. Codes: rate_limited, overloaded.
// Spec: P-11.2.
func (us *Users) AllowRepeat(a im.Account, remote netip.Addr) error {
	k, logins := rateKey{what: rateRepeat, account: a}, us.o.Rates.Logins
	if a == (im.Account{}) {
		k.ip, logins = block(remote), us.o.Rates.LoginsPerIP
	}
	return us.rates.take(us.now(), k, maxRepeats*logins, time.Minute)
}
