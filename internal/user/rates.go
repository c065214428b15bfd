package user

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/password"
	"github.com/petrel-im/petrel/internal/rate"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// rates has the buckets of attempts. Strangers and users fill separate ones.
type rates struct {
	people        password.Attempts
	registrations rate.Addresses
	repeats       rate.Addresses // of calls without a token
	users         rate.Table[userKey]
	named         rate.Table[namedKey] // an empty bucket: this look-up was counted lately
}

// namedKey names a look-up of one user by another one.
type namedKey struct {
	by   im.Account
	user im.User
}

// userKey names a bucket of a user, by the kind of attempt.
type userKey struct {
	what   byte
	user   im.Account
	device string // a device with tries of its own; empty: the bucket is the user's
}

// Kinds of attempts of a user.
const (
	rateLookUp = iota + 1
	rateRefresh
	rateRepeat
	rateExchange
	ratePassword
	rateDevicePassword
)

// allow takes a token from a bucket of a user, which gets n in a minute.
// n < 0: there is no limit. Codes: rate_limited. Spec: P-11.2.
func (us *Users) allow(what byte, a im.Account, n int) error {
	return us.rates.users.Take(us.now(), userKey{what: what, user: a}, perMinute(n))
}

// allowPassword counts a guess of the password by a logged-in device. Each device has guesses of
// its own, so the thief of one token cannot use up those of the others. All devices together have a
// few times as many. Codes: rate_limited. Spec: P-11.2.
func (us *Users) allowPassword(a im.Account, device string) error {
	n := us.o.Rates.Logins
	return us.rates.users.TakeAll(us.now(),
		rate.Claim[userKey]{Key: userKey{rateDevicePassword, a, device}, Limit: perMinute(n)},
		rate.Claim[userKey]{Key: userKey{what: ratePassword, user: a}, Limit: perMinute(password.Strangers * n)})
}

func perMinute(n int) rate.Limit { return rate.Per(n, time.Minute, n) }

// lookedUp is how long the look-up of one user costs nothing more.
const lookedUp = time.Hour

// TakeLookUps counts look-ups of users by an account: a user whom it has looked up in the last hour costs nothing. It
// returns the places of those for whom no look-up is left, and how long to wait for the next one then. The node that
// owns the inbox of the account counts, so there is one counter for all nodes. Spec: P-8.9, P-14.4.
func (us *Users) TakeLookUps(by im.Account, users []im.User) (later []int, wait time.Duration) {
	now, limit := us.now(), perMinute(us.o.Rates.LookUps)
	all := rate.Claim[userKey]{Key: userKey{what: rateLookUp, user: by}, Limit: limit}
	once := rate.Per(1, lookedUp, 1)
	for i, u := range users {
		k := namedKey{by, u}
		switch {
		case us.rates.named.Ready(now, k, once) != nil: // counted
		case us.rates.users.TakeAll(now, all) != nil:
			later = append(later, i)
		default:
			_ = us.rates.named.Take(now, k, once)
		}
	}
	if len(later) > 0 {
		wait = us.rates.users.Wait(now, 0, all)
	}
	return later, wait
}

// LookUp checks users to whom an account (by) writes, or whom it adds to a group. If it refuses none of them,
// it takes no token. Otherwise the first name that it refuses, and each name before it, costs a token, as a
// look-up by TakeLookUps does, from the same bucket of this node: a user who tries names gets no more answers by using
// several methods. An empty bucket refuses every call. If by is empty, the operator asks, and the limit does
// not apply. It refuses users who do not exist, and with adding also those whom the account may not add to groups. The
// error names the user. Codes: no_user, forbidden, rate_limited. Spec: P-8.8, P-8.9.
func (us *Users) LookUp(ctx context.Context, by im.Account, users []im.User, adding bool) error {
	k, limit := userKey{what: rateLookUp, user: by}, perMinute(us.o.Rates.LookUps)
	if by.User == "" {
		limit = rate.Limit{Every: -1}
	}
	if err := us.rates.users.Ready(us.now(), k, limit); err != nil {
		return err
	}
	for i, u := range users {
		a := im.Account{Tenant: by.Tenant, User: u}
		rec, err := us.read(ctx, a)
		if err != nil {
			return fmt.Errorf("look up user %s: %w", u, err)
		}
		refusal := noUser(a)
		if rec != nil {
			taken := true
			if adding {
				if taken, err = us.mayAdd(ctx, by, a, rec); err != nil {
					return fmt.Errorf("look up who may add user %s: %w", u, err)
				}
			}
			if taken {
				continue
			}
			refusal = &im.Error{Code: im.CodeForbidden, User: u,
				Message: fmt.Sprintf("%.64s does not let you add them to groups", u)}
		}
		for range i + 1 {
			if us.rates.users.Take(us.now(), k, limit) != nil {
				break // empty
			}
		}
		return refusal
	}
	return nil
}

// mayAdd tells whether an account (by) may add a user, who has a record, to groups. A user who has not chosen is added
// by contacts alone if messages of strangers would wait or not arrive: a group is no way around that. Spec: P-8.8.
func (us *Users) mayAdd(ctx context.Context, by, a im.Account, u *storepb.User) (bool, error) {
	policy := AddPolicy(u.AddPolicy)
	switch {
	case u.LeavingMs > 0:
		return false, nil
	case by.User == "":
		return true, nil
	case policy == 0:
		rule, err := us.FirstMessageRule(ctx, a.Tenant)
		if err != nil {
			return false, err
		}
		if chosen(rule, u) > FirstOpen {
			policy = ByContacts
		}
	case policy == ByNobody:
		return false, nil
	}
	if policy == ByContacts {
		if s, err := us.pairSight(ctx, by, a.User); err != nil || s != asContact {
			return false, err
		}
	}
	blocked, err := us.blocks(ctx, a, by.User)
	return !blocked, err
}

// maxRepeats is how many repeats of an answered call with a password are
// answered for each login that the rates allow.
const maxRepeats = 4

// AllowRepeat counts a repeat of an answered call with a password, which costs as much work as a login: for a
// user, or for an address if a is the zero account. Repeats and logins have separate buckets. Codes:
// rate_limited. Spec: P-11.2.
func (us *Users) AllowRepeat(a im.Account, remote netip.Addr) error {
	if a == (im.Account{}) {
		return us.rates.repeats.Take(us.now(), remote, perMinute(maxRepeats*us.o.Rates.LoginsPerIP))
	}
	return us.allow(rateRepeat, a, maxRepeats*us.o.Rates.Logins)
}

// tries returns the bucket of a device at an account, whether or not the tenant and the user exist.
func tries(tenantName string, u im.User, device string) password.Key {
	return password.Key{Tenant: named(tenantName), User: u, Device: device}
}

// admitLogin counts a try to log in with a password. Each address has tries of its own at
// an account, so nobody can use up those of another address. A device that has logged in
// to the account before is known. It has tries of its own, at whatever address, so nobody
// who does not know the device's id can use them up. Codes: rate_limited. Spec: P-11.2.
func (us *Users) admitLogin(ctx context.Context, a im.Account, who password.Key,
	remote netip.Addr) (known bool, err error) {
	device := who.Device
	if known, err = us.hasLoggedIn(ctx, a, device); err != nil {
		return false, err
	}
	now, limit := us.now(), perMinute(us.o.Rates.Logins)
	if known && us.rates.people.Of.Take(now, who, limit) == nil {
		return true, nil
	}
	if err := us.rates.people.Hosts.Take(now, remote, perMinute(us.o.Rates.LoginsPerIP)); err != nil {
		return false, err
	}
	who.Device = ""
	if remote.IsValid() {
		who.Host = rate.Host(remote)
		if err := us.rates.people.Of.Take(now, who, limit); err != nil {
			return false, err
		}
		who.Host = netip.Prefix{}
	}
	return false, us.rates.people.TakeTurn(ctx, now, who, limit)
}
