// Package session is what a connection means: who it is, what it may ask for,
// and how fast. A session turns frames into sends and reads; gateway brings the
// bytes, conv decides.
package session

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/petrel-im/petrel/internal/bus"
	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/inbox"
	"github.com/petrel-im/petrel/internal/route"
	"github.com/petrel-im/petrel/internal/user"
	"github.com/petrel-im/petrel/internal/wire"
)

// Options tune a Hub; zero values are the defaults.
type Options struct {
	Log       *slog.Logger
	Now       func() time.Time
	Version   string        // of the server, for the welcome
	HistoryID uint64        // of the store
	Heartbeat time.Duration // announced; the gateway keeps it
	Misses    int
	Gateways  func(im.Account) []string // where a user should connect, best first; nil: nothing is said
	Workers   int                       // goroutines that serve what reads the store; 8
	Waiting   int                       // requests that may wait for a worker; 4096
	Checks    int                       // sessions that the store is asked about in a second, while another node is silent; 5000
}

// Hub makes sessions and holds what they share.
type Hub struct {
	o     Options
	users *user.Users
	convs *conv.Convs
	route *route.Router
	sync  *inbox.Syncer
	table *fanout.Table
	bus   bus.Bus // set by Attach
	calls Calls   // set by AttachCalls; nil: none are served
	trust *fanout.Revocations
	again again
	said  atomic.Int64 // moment at which the store was asked about a session last, and said
	nodes nodes        // set by AttachStreams

	limits   atomic.Pointer[Limits]
	draining atomic.Bool
	jobs     chan func() // capacity o.Waiting; full: the request is refused as overloaded
	callJobs chan func() // as jobs, for calls
	callers  callers

	Sessions atomic.Int64 // welcomed and not gone
	Refused  atomic.Uint64
}

// New makes a hub.
func New(o Options, us *user.Users, cs *conv.Convs, r *route.Router, sy *inbox.Syncer, t *fanout.Table, l Limits) *Hub {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Workers == 0 {
		o.Workers = 8
	}
	if o.Waiting == 0 {
		o.Waiting = 4096
	}
	if o.Checks == 0 {
		o.Checks = 5000
	}
	h := &Hub{o: o, users: us, convs: cs, route: r, sync: sy, table: t, trust: fanout.NewRevocations(), again: again{due: make(chan struct{}, 1)}, jobs: make(chan func(), o.Waiting), callJobs: make(chan func(), o.Waiting)}
	h.limits.Store(&l)
	return h
}

// Run serves what reads the store, and ends sessions whose tokens have ended,
// until ctx ends.
func (h *Hub) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	work := func(jobs <-chan func()) {
		for {
			select {
			case f := <-jobs:
				f()
			case <-ctx.Done():
				return
			}
		}
	}
	for range h.o.Workers {
		wg.Go(func() { work(h.jobs) })
	}
	for range callWorkers {
		wg.Go(func() { work(h.callJobs) })
	}
	wg.Go(func() { h.runAgain(ctx) })
	if h.nodes.streams != nil {
		wg.Go(func() { h.runAsks(ctx) })
		wg.Go(func() { h.runSweeps(ctx) })
	}
	wg.Wait()
	return nil
}

// Limits are the limits in force.
func (h *Hub) Limits() *Limits { return h.limits.Load() }

// SetLimits changes them for what comes.
func (h *Hub) SetLimits(l Limits) { h.limits.Store(&l) }

// Drain makes the hub refuse new sessions.
func (h *Hub) Drain() { h.draining.Store(true) }

// Conn is what a gateway tells of a connection.
type Conn struct {
	Remote   netip.Addr
	Encoding wire.Encoding
	Flusher  *fanout.Flusher
	Owner    any // comes back as Out.Owner
}

// Open makes the session of a connection whose codec is known.
func (h *Hub) Open(c Conn) *Session {
	both := &struct { // of one size that little else has: what a busy time leaves between small ones stays resident
		s Session
		o fanout.Outbox
	}{}
	both.o.Init(c.Encoding, c.Flusher, h.Limits().OutboxBytes, c.Owner)
	both.s.hub, both.s.Out = h, &both.o
	return &both.s
}

// async runs f on a worker. It reports false when too much waits. A panic in f
// ends s only.
func (h *Hub) async(s *Session, f func(context.Context, *fanout.Kicks)) bool {
	return h.asyncOn(h.queue, s, f)
}

// queue hands a job to the workers of the reads. False: too much waits.
func (h *Hub) queue(job func()) bool {
	select {
	case h.jobs <- job:
		return true
	default:
		return false
	}
}

func (h *Hub) asyncOn(queue func(job func()) bool, s *Session, f func(context.Context, *fanout.Kicks)) bool {
	return queue(func() {
		var k fanout.Kicks
		defer k.Flush()
		defer func() {
			if p := recover(); p != nil {
				h.o.Log.Error("session panicked", "user", string(s.Out.Account.User), "err", fmt.Sprint(p), "stack", string(debug.Stack()))
				s.Out.End(&im.Error{Code: im.CodeInternal}, &k)
			}
		}()
		ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
		defer cancel()
		f(ctx, &k)
	})
}

// requestTimeout bounds what one request may wait for the store.
const requestTimeout = 10 * time.Second

// internal turns err into what a client sees; what is not meant for clients
// goes to the log under a request id.
func (h *Hub) internal(s *Session, what string, err error) *im.Error {
	if e, ok := errors.AsType[*im.Error](err); ok && (e.Code != im.CodeInternal || e.Request != "") {
		return e
	}
	var b [8]byte
	_, _ = rand.Read(b[:])
	req := hex.EncodeToString(b[:])
	h.o.Log.Error(what+" failed", "user", string(s.Out.Account.User), "req", req, "err", err)
	return &im.Error{Code: im.CodeInternal, Request: req}
}
