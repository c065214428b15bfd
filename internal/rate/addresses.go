package rate

import (
	"net/netip"
	"time"
)

// Addresses has a bucket for each client's address. One subscriber has a whole
// network of IPv6 addresses, and may have as many as 65,536 of them. So IPv6 is
// counted in steps: a network counts as an address does, and the networks around
// it have a few times as many tokens.
type Addresses struct{ table Table[netip.Prefix] }

// The steps of IPv6: bits of a network, and how many times the tokens of one
// address it has.
const (
	hostBits, hostTimes = 64, 1  // the network of every subscriber
	homeBits, homeTimes = 56, 4  // of many subscribers
	siteBits, siteTimes = 48, 16 // of an organisation
)

// Host is the addresses that count as one: an IPv4 address, or the /64 network
// of an IPv6 address. It is not valid if a is not.
func Host(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	if a.Is6() {
		return network(a, hostBits)
	}
	return netip.PrefixFrom(a, a.BitLen())
}

func network(a netip.Addr, bits int) netip.Prefix {
	p, _ := a.Prefix(bits) // fits
	return p
}

// Take takes a token for an address. Of one that is not valid there is no
// limit. Codes: rate_limited.
func (s *Addresses) Take(now time.Time, a netip.Addr, l Limit) error {
	return refusal(s.Reserve(now, 0, a, l))
}

// Reserve takes a token for an address if it is there within most, and returns how
// long to wait until then. If that is longer it takes none.
func (s *Addresses) Reserve(now time.Time, most time.Duration, a netip.Addr, l Limit) (wait time.Duration) {
	claims, n := claimsOf(a, l)
	if n == 0 {
		return 0
	}
	return s.table.Reserve(now, most, claims[:n]...)
}

// Wait takes no token, and returns how long an address would wait for one. Tokens of the time until
// most from now may have been taken by Reserve.
func (s *Addresses) Wait(now time.Time, most time.Duration, a netip.Addr, l Limit) time.Duration {
	claims, n := claimsOf(a, l)
	return s.table.Wait(now, most, claims[:n]...)
}

// claimsOf is what a token of an address is claimed from: n buckets, of an address that is
// not valid none.
func claimsOf(a netip.Addr, l Limit) (claims [3]Claim[netip.Prefix], n int) {
	if !a.IsValid() {
		return claims, 0
	}
	host := Host(a)
	claims[0] = Claim[netip.Prefix]{Key: host, Limit: l.Times(hostTimes)}
	if host.Addr().Is4() {
		return claims, 1
	}
	claims[1] = Claim[netip.Prefix]{Key: network(host.Addr(), homeBits), Limit: l.Times(homeTimes)}
	claims[2] = Claim[netip.Prefix]{Key: network(host.Addr(), siteBits), Limit: l.Times(siteTimes)}
	return claims, len(claims)
}

// Times is a limit of n times as many.
func (l Limit) Times(n int) Limit {
	if l.Every < 0 || l.Burst <= 0 {
		return l
	}
	return Limit{l.Every / time.Duration(n), l.Burst * n}
}
