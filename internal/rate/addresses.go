package rate

import (
	"net/netip"
	"time"
)

// Addresses has a bucket for each client's address. In IPv6 one subscriber has a whole network, and
// may have as many as 65,536 of them. So a /64 network counts as an address does, and shares with its
// neighbours the buckets of the /56 and the /48 around it, which have a few times as many tokens.
type Addresses struct{ table Table[netip.Prefix] }

// The networks of IPv6 that have a bucket: the bits of their prefix, and
// how many times the tokens of one address they have.
const (
	hostBits, hostTimes = 64, 1  // the network of every subscriber
	homeBits, homeTimes = 56, 4  // of many subscribers
	siteBits, siteTimes = 48, 16 // of an organisation
)

// Host returns the network whose addresses count as one: an IPv4 address,
// or the /64 network of an IPv6 address. It is not valid if a is not.
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

// Take takes a token for an address. An address that is not valid has no limit. Codes: rate_limited.
func (s *Addresses) Take(now time.Time, a netip.Addr, l Limit) error {
	return refusal(s.Reserve(now, 0, a, l))
}

// Reserve takes a token for an address, also one that comes only within most from now,
// and returns how long to wait for it. If that is longer than most, it takes none.
func (s *Addresses) Reserve(now time.Time, most time.Duration, a netip.Addr, l Limit) (wait time.Duration) {
	claims, n := claimsOf(a, l)
	if n == 0 {
		return 0
	}
	return s.table.Reserve(now, most, claims[:n]...)
}

// Wait returns how long an address would wait for a token, and takes none.
// most is the longest wait with which Reserve takes tokens of these buckets.
func (s *Addresses) Wait(now time.Time, most time.Duration, a netip.Addr, l Limit) time.Duration {
	claims, n := claimsOf(a, l)
	return s.table.Wait(now, most, claims[:n]...)
}

// claimsOf returns the n claims for one token of an address; there are none for an address that is not valid.
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

// Times returns a limit with n times as many tokens.
func (l Limit) Times(n int) Limit {
	if l.Every < 0 || l.Burst <= 0 {
		return l
	}
	return Limit{l.Every / time.Duration(n), l.Burst * n}
}
