package gateway

import (
	"container/list"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/rate"
	"github.com/petrel-im/petrel/internal/session"
)

// Names of limits in logs and metrics: options, and limits without an option.
const (
	limitOfAll            = "limits.connections"
	limitOfAddress        = "limits.connections_per_ip"
	limitOfWaiting        = "limits.unauthenticated"
	limitOfWaitingAddress = "limits.unauthenticated_per_ip"
	limitOfNew            = "limits.new_connections_per_ip_per_s"
	limitOfHandshakes     = "handshakes"
	limitOfHTTP           = "http"
)

// kind is how a connection is counted.
type kind uint8

const (
	greeted kind = iota // its session is welcomed
	waiting             // its session is not welcomed yet
	ofHTTP              // it belongs to the HTTP server, until an upgrade
	kinds
)

// limit is a row of table: a limit on the number of connections.
type limit struct {
	name      string
	of        kind              // connections that it refuses
	counts    []kind            // connections that it counts
	perSource bool              // it counts those of one source
	noProxy   bool              // it does not hold for a proxy, which speaks for many
	bound     func(*limits) int // how many there may be; negative: any number
	evicts    bool              // the oldest silent connection makes room
	text      string            // for the client
	after     time.Duration     // the client is told to come back after this time, or up to twice as much
}

// table has the limits on the number of connections, in the order in which they are checked. The first that is
// reached decides. Package session limits the connections of a user.
var table = [...]limit{
	{
		name: limitOfAll, of: waiting, counts: []kind{greeted, waiting},
		bound: func(l *limits) int { return l.options().Connections },
		text:  "the server has reached its limit of connections", after: 5 * time.Second,
	},
	{
		name: limitOfAddress, of: waiting, counts: []kind{greeted}, perSource: true,
		bound: func(l *limits) int { return l.options().ConnectionsPerIP },
		text:  "the IP address has all the connections it may have", after: 5 * time.Second,
	},
	{
		name: limitOfWaitingAddress, of: waiting, counts: []kind{waiting}, perSource: true, evicts: true,
		bound: func(l *limits) int { return l.options().UnauthenticatedPerIP },
		text:  "too many connections of the IP address have not said hello yet", after: time.Second,
	},
	{
		name: limitOfWaiting, of: waiting, counts: []kind{waiting}, evicts: true,
		bound: func(l *limits) int { return l.options().Unauthenticated },
		text:  "too many connections have not said hello yet", after: time.Second,
	},
	{
		name: limitOfHTTP, of: ofHTTP, counts: []kind{ofHTTP}, perSource: true, noProxy: true, evicts: true,
		bound: func(l *limits) int { return min(maxHTTPPerIP, (l.maxHTTP+1)/2) },
		text:  textOfHTTP, after: time.Second,
	},
	{
		name: limitOfHTTP, of: ofHTTP, counts: []kind{ofHTTP}, evicts: true,
		bound: func(l *limits) int { return l.maxHTTP },
		text:  textOfHTTP, after: time.Second,
	},
}

// Limits that limits.place does not check.
var (
	newConnections = limit{name: limitOfNew, text: "too many new connections of the IP address", after: time.Second}
	handshakes     = limit{name: limitOfHandshakes, text: "too many handshakes are under way", after: time.Second}
)

const textOfHTTP = "the server has reached its limit of HTTP connections"

// maxHTTPPerIP bounds the connections that one source has to the HTTP server. Timeouts of the HTTP server end
// unfinished requests and idle connections.
const maxHTTPPerIP = 512

// addressRate is a row of rates.
type addressRate struct {
	share   int           // the average is 1/share of limits.new_connections_per_ip_per_s
	burst   int           // at once: burst times that option
	least   int           // lower bound of average and burst
	ahead   time.Duration // a token may be taken up to this long before it comes
	friends int           // factor of average and burst for an address from which somebody is logged in
}

// rates has the limits on how often an address may do something.
var rates = [...]addressRate{
	rateOfNew: {share: 1, burst: 1, friends: 1}, // beyond this rate a connection is refused
	// Beyond this rate a connection is reset as soon as it is accepted, which takes no goroutine, buffer or place.
	rateOfShortLived: {share: 20, burst: 1, least: 1, ahead: maxShutOut, friends: 4},
	rateOfReads:      {share: 1, burst: 4, ahead: longestWait, friends: 1}, // beyond it a read waits or fails
}

const (
	rateOfNew        = iota // connections of clients
	rateOfShortLived        // connections that ended before a login: they cost the server more than the client
	rateOfReads             // reads of an HTTP connection before a login
)

const (
	maxShutOut  = 5 * time.Second // how long an address is shut out, at most, after its last short-lived connection
	longestWait = 5 * time.Second // a read that would have to wait for longer fails at once

	freeReads = 4    // reads of a connection that are not counted in allReads: a hello, or the headers of a browser
	allReads  = 1000 // per second, of all connections on which nobody has logged in: reads beyond their freeReads
)

// limits counts connections, in all and of each source, and admits new ones. Clients that open
// connections and say nothing keep nobody out: their oldest silent connection makes room for a new one.
// Spec: P-9.1.
type limits struct {
	options    func() *session.Limits
	maxHTTP    int               // as in Options
	minSilence time.Duration     // as in Options
	pressed    func() bool       // memory is full
	onRefused  func(name string) // gets the name of the limit that refuses a connection or a read
	gone       <-chan struct{}   // closed when the gateway ends: no read waits any more

	rates        [len(rates)]rate.Addresses
	furtherReads rate.Table[struct{}] // one bucket, of allReads
	furtherLimit rate.Limit

	mu      sync.Mutex // tier 0; guards the fields below, and those of places
	all     usage
	sources map[source]usage
	places  [kinds]list.List // of *place: by the time of entering; ofHTTP: by the time of the last await
}

// source is an IP address, or the /64 network of an IPv6 address, which is the smallest that a subscriber has.
type source [16]byte

// usage counts connections by kind. The map sources has no entry for a source without connections.
type usage [kinds]int32

func newLimits(options func() *session.Limits) limits {
	return limits{
		options: options, pressed: func() bool { return false }, onRefused: func(string) {},
		furtherLimit: rate.Per(allReads, time.Second, 2*allReads), sources: map[source]usage{},
	}
}

func sourceOf(a netip.Addr) source {
	a = a.Unmap()
	s := source(a.As16())
	if a.Is6() {
		clear(s[8:])
	}
	return s
}

// place is the entry of a connection in the limits, until its session is welcomed, HTTP upgrades it to a WebSocket,
// or it ends.
type place struct {
	l      *limits
	kind   kind
	addr   netip.Addr
	proxy  bool          // addr is that of a proxy, which has named no client
	e      *list.Element // in places; nil: the place is lost or given back
	silent time.Time     // since when the server waits for the peer; zero: the peer waits for the server
	end    func()        // ends the connection; nil: there is none yet

	known atomic.Bool  // the connection does not count as short-lived
	free  atomic.Int64 // bytes that the connection may still read without tokens; only for the HTTP server

	// Only the reading goroutine of the connection uses these.
	bytes int // read before the hello
	reads int // of an HTTP connection only the first freeReads are counted
}

// enter gives a connection a place, or returns the reason why there is none. It may end a silent connection to make
// room. proxy: the address is that of a proxy that names no client, and all connections through it count as those
// of one address. The caller gives the place up once: by welcome when the session is welcomed, else by leave when
// the connection ends.
func (l *limits) enter(k kind, a netip.Addr, proxy bool, now time.Time) (*place, *im.Error) {
	if k == waiting && l.take(rateOfNew, now, a) > 0 {
		return nil, l.refuse(newConnections)
	}
	p, victim, refusal := l.place(k, a, proxy, now)
	if victim != nil && victim.end != nil {
		victim.end()
	}
	if p == nil {
		return nil, l.refuse(refusal)
	}
	return p, nil
}

func (l *limits) refuse(r limit) *im.Error {
	l.onRefused(r.name)
	return tooMany(r.text, spread(r.after))
}

// place does the rest of enter, after the rate limit. p is nil if there is no place: refusal says why. A victim
// has lost its place, and the caller ends its connection.
func (l *limits) place(k kind, a netip.Addr, proxy bool, now time.Time) (p, victim *place, refusal limit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := sourceOf(a)
	if k == ofHTTP && !proxy && l.sources[s][greeted] == 0 && l.pressed() {
		return nil, nil, limit{name: limitOfHTTP, text: textOfHTTP, after: time.Second}
	}
	for _, r := range table {
		if r.of != k || r.noProxy && proxy || !r.reachedLocked(l, s) {
			continue
		}
		if r.evicts {
			victim = l.silentLocked(r, s, now)
		}
		if victim == nil {
			return nil, nil, r
		}
		l.removeLocked(victim)
		break
	}
	p = &place{l: l, kind: k, addr: a, proxy: proxy, silent: now}
	p.e = l.places[k].PushBack(p)
	l.countLocked(k, a, 1)
	return p, victim, limit{}
}

// reachedLocked reports whether there are as many connections as r allows.
func (r limit) reachedLocked(l *limits, s source) bool {
	u, n := l.all, 0
	if r.perSource {
		u = l.sources[s]
	}
	for _, k := range r.counts {
		n += int(u[k])
	}
	bound := r.bound(l)
	return bound >= 0 && n >= bound
}

// silentLocked returns the oldest connection, of those that r counts, that has been silent for at least
// minSilence; nil: there is none.
func (l *limits) silentLocked(r limit, s source, now time.Time) *place {
	for e := l.places[r.of].Front(); e != nil; e = e.Next() {
		p := e.Value.(*place)
		if !p.silent.IsZero() && now.Sub(p.silent) >= l.minSilence && (!r.perSource || sourceOf(p.addr) == s) {
			return p
		}
	}
	return nil
}

func tooMany(text string, after time.Duration) *im.Error {
	return &im.Error{Code: im.CodeTooManyConnections, Message: text, RetryAfter: after}
}

// spread returns a random time from d to twice d, so that not all clients come back at once.
func spread(d time.Duration) time.Duration { return d + rand.N(d) }

// attach sets the function that ends the connection. It reports whether the connection still has its place.
func (p *place) attach(end func()) bool {
	p.l.mu.Lock()
	defer p.l.mu.Unlock()
	p.end = end
	return p.e != nil
}

// await notes since when the server waits for the peer (zero: the peer waits for the server). It
// reports whether the connection still has its place.
func (p *place) await(since time.Time) bool {
	p.l.mu.Lock()
	defer p.l.mu.Unlock()
	p.silent = since
	if p.kind == ofHTTP && p.e != nil {
		p.l.places[ofHTTP].MoveToBack(p.e)
	}
	return p.e != nil
}

// Vouched is called for a request with a valid token or key. The connection may then read vouchedBytes without
// tokens, does not count as short-lived, and is not silent.
func (p *place) Vouched() {
	p.free.Store(vouchedBytes)
	p.known.Store(true)
	p.await(time.Time{})
}

// welcome gives the place back and counts the connection as greeted. When the connection ends, the caller calls
// limits.leave.
func (p *place) welcome() {
	p.l.mu.Lock()
	defer p.l.mu.Unlock()
	p.l.removeLocked(p) // unless it has lost its place, and goes on until its end is written
	p.l.countLocked(greeted, p.addr, 1)
}

// leave gives the place back. The connection counts as short-lived, once, unless it is known.
func (p *place) leave() {
	p.l.mu.Lock()
	p.l.removeLocked(p)
	p.l.mu.Unlock()
	if !p.known.Swap(true) {
		p.l.noteShortLived(time.Now(), p.addr, p.proxy)
	}
}

func (l *limits) removeLocked(p *place) {
	if p.e != nil {
		l.places[p.kind].Remove(p.e)
		p.e = nil
		l.countLocked(p.kind, p.addr, -1)
	}
}

// leave counts one greeted connection less: it has ended.
func (l *limits) leave(a netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.countLocked(greeted, a, -1)
}

// countLocked adds n, which may be negative, to the connections of a source, and forgets a source without any.
func (l *limits) countLocked(k kind, a netip.Addr, n int32) {
	s := sourceOf(a)
	u := l.sources[s]
	u[k] += n
	l.all[k] += n
	l.sources[s] = u
	if u == (usage{}) {
		delete(l.sources, s)
	}
}

// counts returns how many connections there are, without those of the HTTP server, and how many of them are not
// welcomed yet.
func (l *limits) counts() (total, unauthenticated int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int(l.all[greeted] + l.all[waiting]), int(l.all[waiting])
}

// rateOf returns the limit that a row of rates sets for an address.
func (l *limits) rateOf(row int, a netip.Addr) rate.Limit {
	r, n := rates[row], l.options().NewPerIPPerSecond
	if n < 0 {
		return rate.Limit{Every: -1}
	}
	limit := rate.Per(max(r.least, n/r.share), time.Second, max(r.least, n*r.burst))
	if r.friends > 1 && l.someoneFrom(a) {
		return limit.Times(r.friends)
	}
	return limit
}

// someoneFrom reports whether somebody is logged in from an address.
func (l *limits) someoneFrom(a netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sources[sourceOf(a)][greeted] > 0
}

// take takes a token of an address, and returns how long to wait for it. It takes none if that is
// longer than the row's ahead.
func (l *limits) take(row int, now time.Time, a netip.Addr) (wait time.Duration) {
	return l.rates[row].Reserve(now, rates[row].ahead, a, l.rateOf(row, a))
}

// noteShortLived counts a connection that ended before anybody logged in on it. Those of proxies do
// not count, because a proxy speaks for many.
func (l *limits) noteShortLived(now time.Time, a netip.Addr, proxy bool) {
	if !proxy {
		l.take(rateOfShortLived, now, a)
	}
}

// shutOut reports whether an address has had so many short-lived connections that new ones are reset.
func (l *limits) shutOut(now time.Time, a netip.Addr) bool {
	return l.rates[rateOfShortLived].Wait(now, maxShutOut, a, l.rateOf(rateOfShortLived, a)) > 0
}

// takeRead takes a token for a read of an HTTP connection, and returns how long to wait for it. Beyond freeReads a
// read also takes a token of allReads. ok is false if the wait is too long: then the read fails.
func (l *limits) takeRead(now time.Time, p *place) (wait time.Duration, ok bool) {
	if wait = l.take(rateOfReads, now, p.addr); wait > longestWait {
		return wait, false
	}
	if p.reads < freeReads {
		p.reads++
		return wait, true
	}
	wait = max(wait, l.takeFurtherRead(now, longestWait))
	return wait, wait <= longestWait
}

// takeFurtherRead takes a token of allReads if one comes within most, and returns how long to wait for it.
func (l *limits) takeFurtherRead(now time.Time, most time.Duration) time.Duration {
	return l.furtherReads.Reserve(now, most, rate.Claim[struct{}]{Limit: l.furtherLimit})
}
