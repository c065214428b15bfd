// Package session serves an authenticated connection: it knows the user, the requests that are allowed,
// and their rates. A session turns frames into sends and requests. Package gateway brings the bytes, and
// package conv decides about the sends.
//
// Read the files in this order. A send: receive.go, with session.go for the state of a session and
// limits.go; forward.go for forwards, whose source is read first. The other frames: hello.go, request.go
// (history and sync), focus.go, cursor.go, call.go, and signal.go and presencewatch.go, which store
// nothing. The queues of the workers: workerqueues.go. The state that all sessions of a node share:
// hub.go. The end of sessions whose tokens are revoked: close.go (at once, by a request to all nodes),
// sessionrechecks.go (the store is asked about each session), revocationbarrier.go (barriers, which prove
// that no announcement of a revocation was lost). The same ways tell who is muted or reads privately. drain.go
// sends clients to other nodes.
//
// The package owns the sessions from the hello to the end of the connection. It may not know sockets,
// transports, or how a conversation is stored.
package session

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/petrel-im/petrel/internal/bus"
	"github.com/petrel-im/petrel/internal/bus/stream"
	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/inbox"
	"github.com/petrel-im/petrel/internal/measure"
	"github.com/petrel-im/petrel/internal/presence"
	"github.com/petrel-im/petrel/internal/rate"
	"github.com/petrel-im/petrel/internal/route"
	"github.com/petrel-im/petrel/internal/share"
	"github.com/petrel-im/petrel/internal/user"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Options tune a Hub; zero values are the defaults.
type Options struct {
	Log       *slog.Logger
	Now       func() time.Time
	Version   string        // of the server, for the welcome
	HistoryID uint64        // of the store
	IDs       *im.IDs       // of the store
	Heartbeat time.Duration // for the welcome; the gateway sends the pings
	Misses    int
	// returns the addresses to which a user should connect, best first; nil: the welcome names none
	Gateways func(im.Account) []string
	Stored   *rate.Bytes[im.Account] // bounds the bytes that sends of a user store; nil: nothing does
	Reads    *share.Queue            // runs reads of the store for sessions; nil: New calls NewReads
	Calls    *share.Queue            // runs calls of users; nil: New calls NewCalls
	Pace     *rate.Pace[im.Account]  // of calls; nil: calls are not delayed
	Hellos   int                     // hellos that are checked at the same time; 0: 8
	Waiting  int                     // hellos that may wait; 0: 4096
	Pressed  func() bool             // whether memory is short: then each hello is refused; nil: never

	// Refused is called when a hello, a send or a request is refused, except some that are
	// malformed or come while too many wait. It must not block. nil: nothing is called.
	Refused func(Refusal)

	RechecksPerSecond int // in a sweep over all sessions; 0: 5000
}

// Refusal describes a refused hello, send or request.
type Refusal struct {
	Who    user.Identity // the zero value: nobody yet
	Remote netip.Addr    // the client's address; the zero value: not known
	What   string        // "hello", "send", or the name of the request
	Code   im.Code
	Text   string         // for the client, beside the code
	Send   *petrelv1.Send // a send that was refused before its conversation got it; else nil. Refused must not keep it
}

// Hub is shared by the sessions of a node.
type Hub struct {
	o     Options
	users *user.Users
	convs *conv.Convs
	route *route.Router
	sync  *inbox.Syncer
	table *fanout.Table
	bus   bus.Bus // set by Attach

	revocations *fanout.Revocations
	rechecks    *rechecker
	barrier     *barrier // set by AttachStreams; nil: there are no other nodes

	forwards forwards
	limits   atomic.Pointer[Limits]
	draining atomic.Bool
	hellos   chan func() // capacity o.Waiting; full: the hello is refused as too_many_connections
	reads    *share.Queue
	runCall  CallFunc           // set by AttachCalls; nil: calls are unsupported
	presence *presence.Presence // set by AttachPresence; nil: watches are unsupported
	calls    *share.Queue

	Sessions atomic.Int64 // in the online table
	Refused  atomic.Uint64

	Meter    fanout.Meter                  // of all connections
	Requests map[string]*measure.Histogram // from a request to its answer, by name; the map never changes
	Hellos   *measure.Counts               // by the code of the refusal; ok: welcomed
}

// outcomeOK is the outcome of a hello or request that was not refused.
const outcomeOK = "ok"

// CallFunc runs a method of the API for a user whose client has the address remote. Request and answer are
// in JSON if json is set, otherwise in protobuf. Errors: no_method, and those of the method. Spec: P-10.4.
type CallFunc func(ctx context.Context, who user.Identity, remote netip.Addr, method string, json bool,
	request io.Reader) (answer []byte, err error)

// New makes a hub.
func New(o Options, us *user.Users, cs *conv.Convs, r *route.Router, sy *inbox.Syncer, t *fanout.Table, l Limits) *Hub {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Pressed == nil {
		o.Pressed = func() bool { return false }
	}
	if o.Hellos == 0 {
		o.Hellos = 8
	}
	if o.Waiting == 0 {
		o.Waiting = 4096
	}
	if o.Reads == nil {
		o.Reads = NewReads(nil)
	}
	if o.Calls == nil {
		o.Calls = NewCalls()
	}
	if o.RechecksPerSecond == 0 {
		o.RechecksPerSecond = 5000
	}
	h := &Hub{o: o, users: us, convs: cs, route: r, sync: sy, table: t, revocations: fanout.NewRevocations(),
		hellos: make(chan func(), o.Waiting), reads: o.Reads, calls: o.Calls}
	h.Meter.Refusals, h.Hellos = measure.NewCounts(im.Codes()...), measure.NewCounts(append(im.Codes(), outcomeOK)...)
	h.Requests = map[string]*measure.Histogram{}
	for _, name := range []string{"hello", "history", "sync", "focus", "call"} {
		h.Requests[name] = &measure.Histogram{}
	}
	h.rechecks = newRechecker(us, t, h.revocations, o.RechecksPerSecond)
	h.limits.Store(&l)
	return h
}

// AttachCalls sets the function that runs calls. It is called once, before Run.
func (h *Hub) AttachCalls(c CallFunc) { h.runCall = c }

// AttachPresence sets the presence that serves watches. It is called once, before Run.
func (h *Hub) AttachPresence(p *presence.Presence) { h.presence = p }

// AttachStreams connects the hub with the hubs of the other nodes. It is called once, before the
// streams and the hub run. others returns the nodes that may revoke tokens, without this one: all
// nodes with a heartbeat, whether they are on the bus or not. The hub calls others twice a second.
func (h *Hub) AttachStreams(s *stream.Streams, others func() []im.Node) {
	h.barrier = newBarrier(s, others, h.rechecks, h.revocations, h.o.Log)
}

// Changed has every node recheck the sessions of an account, because some of the account's
// tokens may have been revoked. It does not block. It is for user.Options.Changed.
func (h *Hub) Changed(a im.Account) {
	h.rechecks.account(a)
	if h.barrier != nil {
		h.barrier.tellOthers(a)
	}
}

// Run checks hellos, runs reads and calls, and ends sessions whose tokens were
// revoked, until ctx ends.
func (h *Hub) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for range h.o.Hellos {
		wg.Go(func() {
			for {
				select {
				case f := <-h.hellos:
					f()
				case <-ctx.Done():
					return
				}
			}
		})
	}
	wg.Go(func() { h.reads.Run(ctx) })
	wg.Go(func() { h.calls.Run(ctx) })
	wg.Go(func() { h.rechecks.runAccounts(ctx) })
	wg.Go(func() { h.rechecks.runSweeps(ctx) })
	if h.barrier != nil {
		wg.Go(func() { h.barrier.run(ctx, h.bus) })
	}
	wg.Wait()
	return nil
}

// Limits returns the limits in force.
func (h *Hub) Limits() *Limits { return h.limits.Load() }

// SetLimits changes the limits. Sessions that were welcomed before keep the windows
// that their welcome named.
func (h *Hub) SetLimits(l Limits) { h.limits.Store(&l) }

// queueHello hands a hello to the workers for hellos, so that a hello does not
// wait for the reads of other sessions. It returns false if too many wait.
func (h *Hub) queueHello(job func()) bool {
	select {
	case h.hellos <- job:
		return true
	default:
		return false
	}
}

// asyncOn has queue run f with a context that ends after requestTimeout. It returns false if queue does not take
// it. A panic in f ends only the session of out.
func (h *Hub) asyncOn(queue func(job func()) bool, out *fanout.Outbox, f func(context.Context, *fanout.WakeUps)) bool {
	return queue(func() {
		var k fanout.WakeUps
		defer k.Flush()
		defer func() {
			if p := recover(); p != nil {
				h.o.Log.Error("session panicked", "user", string(out.Account.User), "err", fmt.Sprint(p), "stack",
					string(debug.Stack()))
				out.End(&im.Error{Code: im.CodeInternal}, &k)
			}
		}()
		ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
		defer cancel()
		f(ctx, &k)
	})
}

// requestTimeout is how long the context of one hello or request lives, from its start on a worker.
const requestTimeout = 10 * time.Second

// clientError returns err as the client gets it. An error that is not meant for clients goes
// to the log, and the client gets internal with a request id, which the log line has too.
func (h *Hub) clientError(u im.User, what string, err error) *im.Error {
	if e, ok := errors.AsType[*im.Error](conv.Shown(err)); ok && (e.Code != im.CodeInternal || e.Request != "") {
		return e
	}
	var b [8]byte
	_, _ = rand.Read(b[:])
	req := hex.EncodeToString(b[:])
	h.o.Log.Error(what+" failed", "user", string(u), "req", req, "err", err)
	return &im.Error{Code: im.CodeInternal, Request: req}
}
