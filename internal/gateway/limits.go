package gateway

import (
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/rate"
	"github.com/petrel-im/petrel/internal/session"
)

// limits counts connections, in all and for each source, and refuses those
// that are too many. Spec: P-9.1.
type limits struct {
	maxHTTP int // of what enterHTTP counts

	mu      sync.Mutex // tier 0; guards the fields below
	total   int
	waiting int // of these, not yet greeted
	http    int // connections of the HTTP server; an upgrade takes one out
	sources map[source]usage
	gone    []source // whose last connection has ended, oldest first; each at most once
}

// source is an IP address, or the /64 network of an IPv6 address: one
// subscriber has at least that many.
type source [16]byte

// usage is what one source has. It is forgotten when it has no connections
// and its bucket is full again, so there are never many more of them than
// connections.
type usage struct {
	total, waiting, http int32
	gone                 bool        // stands in limits.gone
	rate                 rate.Bucket // of new connections
}

func sourceOf(a netip.Addr) source {
	a = a.Unmap()
	s := source(a.As16())
	if a.Is6() {
		clear(s[8:])
	}
	return s
}

// over reports whether one more is beyond a limit; negative: there is none.
func over(have, limit int) bool { return limit >= 0 && have >= limit }

// enter takes a place for a connection that has not said hello, or says why
// there is none. Whoever got one gives it back by leave.
func (l *limits) enter(a netip.Addr, lim *session.Limits, now time.Time) *im.Error {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := sourceOf(a)
	u, known := l.sources[s]
	switch {
	case over(l.total, lim.Connections):
		return tooMany("the server has all the connections it takes", spread(5*time.Second))
	case over(int(u.total), lim.ConnectionsPerIP):
		return tooMany("the IP address has all the connections it may have", spread(5*time.Second))
	case over(l.waiting, lim.Unauthenticated):
		return tooMany("too many connections have not said hello yet", spread(time.Second))
	case over(int(u.waiting), lim.UnauthenticatedPerIP):
		return tooMany("too many connections of the IP address have not said hello yet", spread(time.Second))
	case u.rate.Take(now, rate.Per(lim.NewPerIPPerSecond, time.Second, lim.NewPerIPPerSecond)) > 0:
		if known { // the clock may have been set back
			l.sources[s] = u
		}
		return tooMany("too many new connections of the IP address", spread(time.Second))
	}
	u.total++
	u.waiting++
	l.total++
	l.waiting++
	l.storeLocked(s, u)
	return nil
}

func tooMany(text string, after time.Duration) *im.Error {
	return &im.Error{Code: im.CodeTooManyConnections, Message: text, RetryAfter: after}
}

// spread is d to twice d, at random, so that not all come back at once.
func spread(d time.Duration) time.Duration { return d + rand.N(d) }

// greeted moves a connection out of those that have not said hello.
func (l *limits) greeted(a netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := sourceOf(a)
	u := l.sources[s]
	u.waiting--
	l.waiting--
	l.sources[s] = u
}

// leave gives a place back.
func (l *limits) leave(a netip.Addr, greeted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := sourceOf(a)
	u := l.sources[s]
	u.total--
	l.total--
	if !greeted {
		u.waiting--
		l.waiting--
	}
	l.storeLocked(s, u)
}

// storeLocked writes u back and notes when there is nothing left of it.
func (l *limits) storeLocked(s source, u usage) {
	if u.total == 0 && u.http == 0 && !u.gone {
		u.gone = true
		l.gone = append(l.gone, s)
	}
	if l.sources == nil {
		l.sources = make(map[source]usage)
	}
	l.sources[s] = u
}

// maxHTTPPerIP bounds what one source has of what the HTTP server holds beside the
// connections of clients: requests that do not come to their end, and idle ones. Its
// timeouts end both.
const maxHTTPPerIP = 512

// enterHTTP counts a new connection of the HTTP server and reports whether it
// may stay; those of a proxy are those of many. It is given back by leaveHTTP
// either way.
func (l *limits) enterHTTP(a netip.Addr, proxy bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := sourceOf(a)
	u := l.sources[s]
	u.http++
	l.http++
	l.storeLocked(s, u)
	return l.http <= l.maxHTTP && (proxy || int(u.http) <= min(maxHTTPPerIP, (l.maxHTTP+1)/2))
}

// leaveHTTP ends what enterHTTP began.
func (l *limits) leaveHTTP(a netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := sourceOf(a)
	u := l.sources[s]
	u.http--
	l.http--
	l.storeLocked(s, u)
}

// forget drops sources without connections whose bucket is full again, which
// it is within a second. It is called about once a second.
func (l *limits) forget(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	keep := l.gone[:0]
	for _, s := range l.gone {
		u := l.sources[s]
		switch {
		case u.total > 0 || u.http > 0:
			u.gone = false
			l.sources[s] = u
		case !u.rate.Full(now):
			keep = append(keep, s)
		default:
			delete(l.sources, s)
		}
	}
	if l.gone = keep; len(keep) == 0 {
		l.gone = nil
	}
}

// counts returns the connections and how many of them have not said hello.
func (l *limits) counts() (total, waiting int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total, l.waiting
}
