package gateway

import (
	"container/list"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/rate"
	"github.com/petrel-im/petrel/internal/session"
)

// Options that refuse connections, and what does so without an option.
const (
	limitOfAll            = "limits.connections"
	limitOfAddress        = "limits.connections_per_ip"
	limitOfWaiting        = "limits.unauthenticated"
	limitOfWaitingAddress = "limits.unauthenticated_per_ip"
	limitOfNew            = "limits.new_connections_per_ip_per_s"
	limitOfHandshakes     = "handshakes"
	limitOfHTTP           = "http"
)

// limits counts connections, in all and for each source, and refuses those
// that are too many. Of those that have not said hello it ends the oldest instead,
// if that is silent: whoever opens connections and says nothing keeps nobody out.
// Spec: P-9.1.
type limits struct {
	maxHTTP    int                 // of what enterHTTP counts
	pressed    func() bool         // memory is full; nil: it never is
	minSilence time.Duration       // as in Options
	onRefused  func(option string) // gets the option that refuses a connection
	rates      rate.Addresses      // of new connections

	mu      sync.Mutex // tier 0; guards the fields below, and those of places and of resting connections
	total   int
	waiting list.List                  // of *place, oldest first: connections that are not yet greeted
	http    int                        // connections of the HTTP server; an upgrade takes one out
	resting list.List                  // of *resting, oldest first: those of them that wait for a request
	rests   map[net.Conn]*list.Element // of these
	sources map[source]usage
}

// source is an IP address, or the /64 network of an IPv6 address: one
// subscriber has at least that many.
type source [16]byte

// usage is what one source has. It is forgotten when it has no connections.
type usage struct{ greeted, waiting, http int32 }

// place is that of a connection that has not said hello.
type place struct {
	l      *limits
	addr   netip.Addr
	proxy  bool          // it is one's, and came for a client that nobody names
	e      *list.Element // nil: it has been left
	silent time.Time     // since when the peer has to say something; zero: we have to do something
	end    func()        // ends the connection; nil: there is none yet
	read   int           // bytes, by the connection's reader, which alone uses this and the next one
	reads  int
}

// resting is a connection of the HTTP server that waits for a request; at the listener of
// operators also one that serves a stranger's.
type resting struct {
	nc    net.Conn
	addr  netip.Addr
	since time.Time
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
// there is none. proxy: the address is that of a proxy, which names no client; all that
// come through it are limited together.
// Whoever got a place gives it back by leave, or goes on as greeted.
func (l *limits) enter(a netip.Addr, proxy bool, lim *session.Limits, now time.Time) (*place, *im.Error) {
	n := lim.NewPerIPPerSecond
	if l.rates.Take(now, a, rate.Per(n, time.Second, n)) != nil {
		return nil, l.refuse(&refusedBy{limitOfNew, "too many new connections of the IP address", time.Second})
	}
	p, end, why := l.take(a, proxy, lim, now)
	if why != nil {
		return nil, l.refuse(why)
	}
	if end != nil {
		end()
	}
	return p, nil
}

// refusedBy is an option that refuses a connection.
type refusedBy struct {
	option, text string
	after        time.Duration
}

// noteRefused passes on which option has refused a connection.
func (l *limits) noteRefused(option string) {
	if l.onRefused != nil {
		l.onRefused(option)
	}
}

func (l *limits) refuse(r *refusedBy) *im.Error {
	l.noteRefused(r.option)
	return tooMany(r.text, spread(r.after))
}

// take is enter behind the limit of the rate. end ends the connection that has lost its
// place; nil: there is none, or whoever makes it finds that it has no place.
func (l *limits) take(a netip.Addr, proxy bool, lim *session.Limits, now time.Time) (p *place, end func(), why *refusedBy) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var victim *place
	s := sourceOf(a)
	u := l.sources[s]
	switch {
	case over(l.total, lim.Connections):
		why = &refusedBy{limitOfAll, "the server has all the connections it takes", 5 * time.Second}
	case over(int(u.greeted), lim.ConnectionsPerIP):
		why = &refusedBy{limitOfAddress, "the IP address has all the connections it may have", 5 * time.Second}
	case over(int(u.waiting), lim.UnauthenticatedPerIP):
		if victim = l.silentLocked(now, func(p *place) bool { return sourceOf(p.addr) == s }); victim == nil {
			why = &refusedBy{limitOfWaitingAddress, "too many connections of the IP address have not said hello yet", time.Second}
		}
	case over(l.waiting.Len(), lim.Unauthenticated):
		if victim = l.silentLocked(now, func(*place) bool { return true }); victim == nil {
			why = &refusedBy{limitOfWaiting, "too many connections have not said hello yet", time.Second}
		}
	}
	if why != nil {
		return nil, nil, why
	}
	if victim != nil {
		l.leaveLocked(victim)
		end = victim.end
	}
	p = &place{l: l, addr: a, proxy: proxy, silent: now}
	p.e = l.waiting.PushBack(p)
	l.total++
	l.countLocked(a, usage{waiting: 1})
	return p, end, nil
}

// silentLocked is the oldest of some connections that has been silent for long
// enough; nil: there is none.
func (l *limits) silentLocked(now time.Time, of func(*place) bool) *place {
	for e := l.waiting.Front(); e != nil; e = e.Next() {
		if p, ok := e.Value.(*place); ok && !p.silent.IsZero() && now.Sub(p.silent) >= l.minSilence && of(p) {
			return p
		}
	}
	return nil
}

func tooMany(text string, after time.Duration) *im.Error {
	return &im.Error{Code: im.CodeTooManyConnections, Message: text, RetryAfter: after}
}

// spread is d to twice d, at random, so that not all come back at once.
func spread(d time.Duration) time.Duration { return d + rand.N(d) }

// attach names what ends the connection of a place. It reports whether the
// connection still has it.
func (p *place) attach(end func()) bool {
	p.l.mu.Lock()
	defer p.l.mu.Unlock()
	p.end = end
	return p.e != nil
}

// await notes since when the peer has to say something; zero: we have to do
// something for it, so its silence is not held against it. It reports whether the
// connection still has its place.
func (p *place) await(since time.Time) bool {
	p.l.mu.Lock()
	defer p.l.mu.Unlock()
	p.silent = since
	return p.e != nil
}

// greeted moves a connection out of those that have not said hello. It is given
// back by limits.leave from now on.
func (p *place) greeted() {
	p.l.mu.Lock()
	defer p.l.mu.Unlock()
	if p.e == nil {
		p.l.total++ // it has lost its place, and goes on for the moment that its end takes
	} else {
		p.l.waiting.Remove(p.e)
		p.e = nil
		p.l.countLocked(p.addr, usage{waiting: -1})
	}
	p.l.countLocked(p.addr, usage{greeted: 1})
}

// leave gives a place back.
func (p *place) leave() {
	p.l.mu.Lock()
	defer p.l.mu.Unlock()
	p.l.leaveLocked(p)
}

func (l *limits) leaveLocked(p *place) {
	if p.e == nil {
		return
	}
	l.waiting.Remove(p.e)
	p.e = nil
	l.total--
	l.countLocked(p.addr, usage{waiting: -1})
}

// leave ends what greeted began.
func (l *limits) leave(a netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total--
	l.countLocked(a, usage{greeted: -1})
}

// countLocked adds d to what a source has, and forgets one that has nothing.
func (l *limits) countLocked(a netip.Addr, d usage) {
	s := sourceOf(a)
	u := l.sources[s]
	u = usage{u.greeted + d.greeted, u.waiting + d.waiting, u.http + d.http}
	if u == (usage{}) {
		delete(l.sources, s)
		return
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
// may stay; those of a proxy are those of many. If there are too many, the one that
// has waited longest for a request is closed instead. It is given back by leaveHTTP
// either way.
func (l *limits) enterHTTP(a netip.Addr, proxy bool, now time.Time) bool {
	ok, victim := l.takeHTTP(a, proxy, now)
	if victim != nil {
		_ = bottom(victim.nc).Close() // it is counted out when the HTTP server has noticed
	}
	return ok
}

func (l *limits) takeHTTP(a netip.Addr, proxy bool, now time.Time) (ok bool, victim *resting) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.http++
	l.countLocked(a, usage{http: 1}) // a proxy is counted and not limited: it may be one no longer when the connection ends
	of := func(*resting) bool { return true }
	s := sourceOf(a)
	if !proxy && l.sources[s].greeted == 0 && l.pressed != nil && l.pressed() {
		return false, nil // memory is full, and nobody from there is logged in
	}
	if !proxy && int(l.sources[s].http) > min(maxHTTPPerIP, (l.maxHTTP+1)/2) {
		of = func(r *resting) bool { return sourceOf(r.addr) == s }
	} else if l.http <= l.maxHTTP {
		return true, nil
	}
	for e := l.resting.Front(); e != nil; e = e.Next() {
		if r, is := e.Value.(*resting); is && now.Sub(r.since) >= l.minSilence && of(r) {
			l.resting.Remove(e)
			delete(l.rests, r.nc)
			return true, r
		}
	}
	return false, nil
}

// leaveHTTP ends what enterHTTP began.
func (l *limits) leaveHTTP(a netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.http--
	l.countLocked(a, usage{http: -1})
}

// rest notes whether a connection of the HTTP server waits for a request.
func (l *limits) rest(nc net.Conn, a netip.Addr, waits bool, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.rests[nc]; e != nil {
		l.resting.Remove(e)
		delete(l.rests, nc)
	}
	if waits {
		if l.rests == nil {
			l.rests = map[net.Conn]*list.Element{}
		}
		l.rests[nc] = l.resting.PushBack(&resting{nc, a, now})
	}
}

// people reports whether somebody is logged in from an address.
func (l *limits) people(a netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sources[sourceOf(a)].greeted > 0
}

// counts returns the connections and how many of them have not said hello.
func (l *limits) counts() (total, waiting int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total, l.waiting.Len()
}
