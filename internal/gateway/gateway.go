// Package gateway holds the clients' connections: it listens, turns bytes into frames for their
// sessions, writes their outboxes, and enforces limits on connections. It also listens for
// operators.
//
// Begin with gateway.go, which has the listeners for clients and what all connections
// share. The other files, in the order in which a connection meets them:
//
//   - Admission: resettinglistener.go (resets new connections of an address for some seconds), limits.go
//     (the tables of limits, and the counters), refusals.go (tells a refused connection the reason).
//   - Before the protocol: accept.go (accepts and admits the connections of both ports),
//     clientconn.go (the TCP connection below TLS, and the TLS handshake), proxyprotocol.go (the
//     header of the PROXY protocol).
//   - HTTP: httpserver.go (the HTTP servers and their bounds), upgrade.go (from HTTP to
//     WebSocket), hosts.go (names under which the server is called), httpsecurity.go (origins of
//     pages, headers of answers, TLS), forwardedheader.go (the client that proxies name in a
//     header), throttle.go (reads of connections on which nobody has logged in).
//   - A connection of a client: conn.go (makes frames for the session of the bytes of a read),
//     frames.go with tcp.go and ws.go (where a frame ends).
//   - The reader and writer of its socket: loop.go (one of the event loops, without TLS) with
//     timerwheel.go, or goroutineconn.go (goroutines of its own, with TLS).
//   - The listener of operators: admin.go.
//
// The package owns the sockets and their limits. It may not know what a frame means: that is the
// session's part. Spec: P-1, P-2.5, P-7, P-9.
package gateway

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/measure"
	"github.com/petrel-im/petrel/internal/session"
	"github.com/petrel-im/petrel/internal/share"
	"github.com/petrel-im/petrel/internal/wire"
)

// Options says where and how a Gateway listens. A zero field means the default, which its comment names.
type Options struct {
	HTTPAddr string       // host:port of HTTP and WebSocket; empty: none
	HTTPOnly bool         // no WebSocket: Handler serves its path too
	TCPAddr  string       // host:port of raw TCP; empty: none
	TLS      *tls.Config  // nil: plaintext on both
	Handler  http.Handler // of everything on HTTPAddr but /v1/ws; nil: 404

	Names          Access   // at the start; SetAccess changes it
	ExposedHeaders []string // of Handler's answers, that pages may read beside those of Connect

	ProxyHeader   string // in which Access.Proxies name the client: X-Forwarded-For, the default, or Forwarded
	ProxyProtocol bool   // proxies begin each connection, on both ports, with a header of the PROXY protocol, version 2

	Heartbeat    time.Duration // silence before a probe; 30 s; negative: never
	Misses       int           // further silent intervals before a link is dead; 2
	HelloTimeout time.Duration // from the connection to the hello; 10 s
	WriteStall   time.Duration // how long a client may take none of the bytes that wait for it; 10 s
	DrainTimeout time.Duration // how long the end of Run waits for connections to close; 5 s

	Loops int // event loops; half of the cores, at least 1; negative: none, a goroutine for each connection
	// bound of the WebSocket handshakes under way, and of the connections whose proxy has not named the client yet;
	// 1,024 of each
	MaxUpgrades int
	MaxHTTP     int // connections of the HTTP server; 8,192. Each source but a proxy has at most half, and at most 512
	MaxRefusals int // refused connections that are open to be told the reason; 64

	// MinSilence is how long a connection may be silent, before its hello or between HTTP requests, and still
	// keep its place when a new connection needs one; 300 ms. Clients on slow networks need this time.
	MinSilence time.Duration

	Pressed func() bool  // memory is full; nil: it never is
	Log     *slog.Logger // nil: none
}

func (o *Options) setDefaults() {
	o.Heartbeat = cmp.Or(o.Heartbeat, 30*time.Second)
	o.HelloTimeout = cmp.Or(o.HelloTimeout, 10*time.Second)
	o.WriteStall = cmp.Or(o.WriteStall, 10*time.Second)
	o.DrainTimeout = cmp.Or(o.DrainTimeout, 5*time.Second)
	o.MinSilence = cmp.Or(o.MinSilence, 300*time.Millisecond)
	o.Misses = cmp.Or(o.Misses, 2)
	o.Loops = cmp.Or(o.Loops, max(1, runtime.GOMAXPROCS(0)/2))
	o.MaxUpgrades = cmp.Or(o.MaxUpgrades, 1024)
	o.MaxHTTP = cmp.Or(o.MaxHTTP, 8192)
	o.MaxRefusals = cmp.Or(o.MaxRefusals, 64)
	o.ProxyHeader = cmp.Or(o.ProxyHeader, xForwardedFor)
	if o.Handler == nil {
		o.Handler = http.NotFoundHandler()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Pressed == nil {
		o.Pressed = func() bool { return false }
	}
}

// maxEnrolling is how many connections for each event loop may be on their way to the loops at once. A loop takes
// over all that wait for it, about 50 µs each, before it serves its other connections again.
const maxEnrolling = 8

// drainPause is how long a drain waits, after it takes no more frames, before it ends the connections: the
// answers under way are sent meanwhile. Spec: P-9.3.
const drainPause = 100 * time.Millisecond

// Gateway serves the clients' connections.
type Gateway struct {
	o      Options
	hub    *session.Hub
	log    *slog.Logger
	http   net.Listener // nil: none
	tcp    net.Listener
	limits limits
	logged sync.Map // messages that logOnce, and limits that warnOnce, have logged

	EndedFor   *measure.Counts // connections that the server ended, by the code of their end
	RefusedFor *measure.Counts // refused connections and reads, by the limit (constants in limits.go) or by code

	turns  share.Turns
	access atomic.Pointer[Access]
	began  time.Time

	// Times in ticks, the unit of the wheels.
	tick                                          time.Duration
	helloTicks, beatTicks, stallTicks, graceTicks uint32
	grace                                         time.Duration // for our end to be written, then for the peer to close

	refusals refusals
	gone     context.Context // done when the gateway ends: nothing is accepted any more
	goAway   context.CancelFunc
	// capacity MaxUpgrades: a token for each connection whose proxy has not named the client yet; full: the
	// next TCP connection waits in the queue of the kernel
	announcing chan struct{}
	// capacity maxEnrolling for each loop: a token for each connection on its way to an event loop; full: the next
	// one waits, a TCP connection in the queue of the kernel
	enrolling chan struct{}

	loops    []*loop     // set by Run before it serves
	deaf     atomic.Bool // set by drain: no frame is taken any more
	ending   atomic.Bool // every connection is being ended
	upgrades atomic.Int32

	mu      sync.Mutex // tier 0; guards the fields below
	serving bool       // hand-overs are possible
	streams map[*stream]struct{}
	tasks   sync.WaitGroup // hand-overs, streams, refusals; nothing is added unless serving
}

// New binds the addresses; Run serves them. Errors name the address and the remedy.
func New(o Options, hub *session.Hub) (*Gateway, error) {
	o.setDefaults()
	g := &Gateway{
		o: o, hub: hub, log: o.Log, began: time.Now(), streams: make(map[*stream]struct{}),
		turns: newTurns(), limits: newLimits(hub.Limits),
		refusals:   refusals{time: refusalTime, open: make(chan *refusal, o.MaxRefusals)},
		announcing: make(chan struct{}, o.MaxUpgrades),
		enrolling:  make(chan struct{}, maxEnrolling*max(1, o.Loops)),
	}
	g.gone, g.goAway = context.WithCancel(context.Background())
	l := &g.limits
	l.maxHTTP, l.minSilence, l.pressed = o.MaxHTTP, o.MinSilence, o.Pressed
	l.onRefused, l.gone = g.warnOnce, g.gone.Done()
	g.setTicks()
	g.SetAccess(o.Names)
	g.EndedFor = measure.NewCounts(im.Codes()...)
	g.RefusedFor = measure.NewCounts(append([]string{
		limitOfAll, limitOfAddress, limitOfWaiting, limitOfWaitingAddress, limitOfNew, limitOfHandshakes, limitOfHTTP,
	}, codes()...)...)
	var err error
	if o.HTTPAddr != "" {
		if g.http, err = g.listen(o.HTTPAddr, "--listen-http"); err != nil {
			return nil, err
		}
	}
	if o.TCPAddr != "" {
		if g.tcp, err = g.listen(o.TCPAddr, "--listen-tcp"); err != nil {
			if g.http != nil {
				_ = g.http.Close()
			}
			return nil, err
		}
	}
	return g, nil
}

// setTicks sets the tick, the unit of the timer wheels, to an eighth of the shortest timeout, within 5 to 200 ms.
// It converts the timeouts to ticks, and sets the grace.
func (g *Gateway) setTicks() {
	shortest := min(g.o.HelloTimeout, g.o.WriteStall)
	if g.o.Heartbeat > 0 {
		shortest = min(shortest, g.o.Heartbeat)
	}
	g.tick = min(max(shortest/8, 5*time.Millisecond), 200*time.Millisecond)
	in := func(d time.Duration) uint32 { return uint32((d + g.tick - 1) / g.tick) }
	g.helloTicks, g.stallTicks = in(g.o.HelloTimeout), in(g.o.WriteStall)
	g.beatTicks = 1 << 30 // never
	if g.o.Heartbeat > 0 {
		g.beatTicks = in(g.o.Heartbeat)
	}
	g.grace = min(2*time.Second, g.o.WriteStall)
	g.graceTicks = in(g.grace)
}

// Probe returns an error, like those of New, if an address cannot be bound. The address "" needs no check.
func Probe(addr, flag string) error {
	if addr == "" {
		return nil
	}
	ln, err := listen(addr, flag)
	if err == nil {
		_ = ln.Close() // nobody has connected
	}
	return err
}

func listen(addr, flag string) (net.Listener, error) {
	// The heartbeat finds dead peers; probes of the kernel every 15 s, Go's
	// default, would be 67,000 packets a second for a million idle connections.
	ln, err := (&net.ListenConfig{KeepAlive: -1}).Listen(context.Background(), "tcp", addr)
	if err == nil {
		return ln, nil
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("listen %s: the address is in use; stop the program that uses it, or choose another %s",
			addr, flag)
	}
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	return nil, fmt.Errorf("listen %s: %w; choose another %s", addr, err, flag)
}

// listen binds an address for clients.
func (g *Gateway) listen(addr, flag string) (net.Listener, error) {
	ln, err := listen(addr, flag)
	if err != nil {
		return nil, err
	}
	return &resettingListener{TCPListener: ln.(*net.TCPListener), g: g}, nil // the network is TCP
}

// SetAccess sets names, origins and proxies. They hold from the next connection and request on. The caller must
// not change the lists afterwards.
func (g *Gateway) SetAccess(a Access) { g.access.Store(&a) }

// Access returns the Access that was set last.
func (g *Gateway) Access() *Access { return g.access.Load() }

// Close frees the addresses of a Gateway that does not run.
func (g *Gateway) Close() { g.closeListeners() }

// HTTPAddr is the address that HTTP is bound to, with the real port; nil when
// there is none.
func (g *Gateway) HTTPAddr() net.Addr { return addrOf(g.http) }

// TCPAddr is the address that raw TCP is bound to; nil when there is none.
func (g *Gateway) TCPAddr() net.Addr { return addrOf(g.tcp) }

func addrOf(ln net.Listener) net.Addr {
	if ln == nil {
		return nil
	}
	return ln.Addr()
}

// Run serves until ctx ends or a listener fails, then drains: it stops accepting, sends the answers
// under way, tells every client to come back later, and closes the connections that remain after
// DrainTimeout.
func (g *Gateway) Run(ctx context.Context) error {
	if err := g.start(); err != nil {
		return err
	}
	srv := g.server(context.WithoutCancel(ctx))
	failed := make(chan error, 2) // one for each listener
	var serving sync.WaitGroup
	if g.http != nil {
		serving.Go(func() { failed <- g.serveHTTP(srv) })
	}
	if g.tcp != nil {
		serving.Go(func() { failed <- g.accept(g.tcp, g.takeTCP) })
	}
	tick := time.NewTicker(g.tick)
	defer tick.Stop()
	var err error
	for done := false; !done; {
		select {
		case <-ctx.Done():
			done = true
		case err = <-failed:
			done = true
		case <-tick.C:
			g.look()
		}
	}
	g.drain(srv, tick.C)
	serving.Wait()
	return err
}

// start makes the event loops, if there are to be any, and lets hand-overs begin. On an error it stops the loops
// and closes the listeners.
func (g *Gateway) start() error {
	for n := g.o.Loops; haveLoops && g.o.TLS == nil && n > 0; n-- {
		l, err := newLoop(g)
		if err != nil {
			g.closeListeners()
			for _, l := range g.loops {
				l.stop()
			}
			return err
		}
		g.loops = append(g.loops, l)
	}
	g.mu.Lock()
	g.serving = true
	g.mu.Unlock()
	return nil
}

// look has the event loops check the connections that are due. It is called once a tick.
func (g *Gateway) look() {
	for _, l := range g.loops {
		l.tickSoon()
	}
}

func (g *Gateway) closeListeners() {
	if g.http != nil {
		_ = g.http.Close()
	}
	if g.tcp != nil {
		_ = g.tcp.Close()
	}
}

// drain stops accepting and ends every connection, as Run describes. It returns when nothing is counted in tasks
// and the event loops have stopped.
func (g *Gateway) drain(srv *http.Server, tick <-chan time.Time) {
	g.closeListeners()
	g.goAway()
	g.deaf.Store(true)
	deadline := time.Now().Add(g.o.DrainTimeout)
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	var shutdown sync.WaitGroup
	shutdown.Go(func() {
		if srv.Shutdown(ctx) != nil {
			_ = srv.Close()
		}
	})
	pause := time.After(min(drainPause, g.o.DrainTimeout))
	for waiting := true; waiting; {
		select {
		case <-pause:
			waiting = false
		case <-tick:
			g.look()
		}
	}
	g.endAll()
	for now := range tick {
		g.look()
		if n, _ := g.limits.counts(); n == 0 || now.After(deadline) {
			break
		}
	}
	shutdown.Wait()

	g.mu.Lock()
	g.serving = false // from here on there are no hand-overs
	g.mu.Unlock()
	for _, s := range g.allStreams() {
		s.drop()
	}
	g.tasks.Wait()
	for _, l := range g.loops {
		l.stop()
	}
}

// endAll ends every connection with the code draining.
func (g *Gateway) endAll() {
	g.ending.Store(true)
	for _, l := range g.loops {
		l.endAll(g.draining)
	}
	for _, s := range g.allStreams() {
		s.poke()
	}
}

func (g *Gateway) allStreams() []*stream {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Collect(maps.Keys(g.streams))
}

// draining returns the error that ends or refuses a connection in a drain. Its RetryAfter is random, within a time
// that grows with the number of connections: about 1,000 clients a second come back. Beyond 30,000 connections the
// time does not grow any more.
func (g *Gateway) draining() *im.Error {
	n, _ := g.limits.counts()
	return &im.Error{Code: im.CodeDraining, RetryAfter: spread(time.Second +
		time.Duration(min(n, 30_000))*time.Millisecond)}
}

// begin counts one more hand-over, stream or refusal in tasks. If the gateway has stopped serving, it counts
// nothing and returns false.
func (g *Gateway) begin() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.serving {
		g.tasks.Add(1)
	}
	return g.serving
}

// hold takes over nc, whose place in the limits is p, and gives the place back when the connection ends. early
// has the bytes that were read already. The caller has called begin, and does not use nc any more.
func (g *Gateway) hold(nc net.Conn, p *place, f wire.Framing, early []byte) {
	if a, ok := nc.(*clientConn); ok {
		nc = a.TCPConn
	}
	if t, ok := nc.(*net.TCPConn); ok {
		if len(g.loops) > 0 {
			g.enrolling <- struct{}{}
			g.enroll(t, p, f, early)
			return
		}
		nc = &clientConn{TCPConn: t}
	}
	s := &stream{conn: newConn(p, f), g: g, nc: nc}
	if !p.attach(s.evict) {
		s.evict()
	}
	g.mu.Lock()
	g.streams[s] = struct{}{}
	g.mu.Unlock()
	go s.serve(early) // counted in g.tasks by begin, and done in closed
}

// enroll gives a connection to the event loop with the fewest connections, and waits until the loop has it. If the
// loop does not take it, enroll logs that and gives its place back. The caller has called begin, and has a token of
// enrolling.
func (g *Gateway) enroll(nc *net.TCPConn, p *place, f wire.Framing, early []byte) {
	defer g.tasks.Done()
	c := &loopConn{conn: newConn(p, f)}
	err := g.quietest().enroll(c, nc, early)
	<-g.enrolling
	if err != nil {
		g.log.Warn("connection lost at hand-over", "err", err)
		p.leave()
	}
}

// closed forgets a stream that has ended, and gives its place back.
func (g *Gateway) closed(s *stream) {
	g.mu.Lock()
	delete(g.streams, s)
	g.mu.Unlock()
	s.release(&g.limits)
	g.tasks.Done()
}

// quietest returns the loop with the fewest connections.
func (g *Gateway) quietest() *loop {
	best := g.loops[0]
	for _, l := range g.loops[1:] {
		if l.connections() < best.connections() {
			best = l
		}
	}
	return best
}

// warnOnce counts a connection or a read that a limit refuses, and logs the first one of each limit. An operator
// who has many clients behind one address learns which option to raise.
func (g *Gateway) warnOnce(limit string) {
	g.RefusedFor.Add(limit)
	if _, said := g.logged.LoadOrStore(limit, true); !said {
		g.log.Warn("connections are refused: this limit is reached; this is said once", "limit", limit)
	}
}

// logOnce logs a message only the first time, because strangers can cause it as often as they like.
func (g *Gateway) logOnce(level slog.Level, message string, args ...any) {
	if _, said := g.logged.LoadOrStore(message, true); !said {
		g.log.Log(context.Background(), level, message+"; this is said once", args...)
	}
}

// panicked logs a panic of a connection.
func (g *Gateway) panicked(p any, stack []byte) {
	g.log.Error("connection panicked", "err", p, "stack", string(stack))
}

// ended counts a connection that the server ends.
func (g *Gateway) ended(e *im.Error) {
	g.EndedFor.Add(string(e.Code))
	g.log.Debug("connection ended", "err", string(e.Code))
}

// codes returns the codes of the catalogue as strings.
func codes() (list []string) {
	for _, c := range im.Codes() {
		list = append(list, string(c))
	}
	return list
}

// Stats are how many connections of clients there are, and how many of them are not welcomed yet. Connections of
// the HTTP server do not count.
type Stats struct{ Connections, Unauthenticated int }

// Stats returns the numbers as they are now.
func (g *Gateway) Stats() (s Stats) {
	s.Connections, s.Unauthenticated = g.limits.counts()
	return s
}
