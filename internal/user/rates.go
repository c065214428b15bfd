package user

import (
	"net/netip"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/rate"
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

// allow takes one of n in a period from the bucket of k. n < 0 or a key for
// nobody: there is no limit. Codes: rate_limited, overloaded. Spec: P-11.2.
func (us *Users) allow(k rateKey, n int, period time.Duration) error {
	if k.account == (im.Account{}) && !k.ip.IsValid() {
		return nil
	}
	return us.rates.Take(us.now(), k, rate.Per(n, period, n))
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
	return us.allow(rateKey{what: rateLookUp, account: a}, us.o.Rates.LookUps, time.Minute)
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
	return us.allow(k, maxRepeats*logins, time.Minute)
}
