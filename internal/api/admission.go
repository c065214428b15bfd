package api

import (
	"bytes"
	"container/list"
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/rate"
)

// Bounds of calls without a credential.
const (
	maxStrangerBytes = 8 << 10 // of a body
	maxReading       = 1024    // such bodies that are read at once, with the default of UnderWayBytes
	maxReadingOfHost = 64      // from one address
	strangerBurst    = 10      // the burst, as seconds of the rate
)

// maxUnderWay is the default of Options.UnderWayBytes: it bounds the bodies of calls with a credential that are
// under way, in bytes, and likewise the answers to them.
const maxUnderWay = 64 << 20

// One admin key may have a half of UnderWayBytes, and one user an eighth.
const (
	partOfKey = 2
	partOfOne = 8
)

// admission bounds the memory of request bodies before and while they are decoded, and of answers until they
// are written. The zero value is ready.
type admission struct {
	rates, inside rate.Addresses // of calls without a credential, on listen.http and on listen.admin
	refusals      rate.Addresses // of calls on listen.http

	mu      sync.Mutex           // tier 0; guards the fields below
	reading list.List            // of *reader, oldest first: bodies of calls without a credential
	hosts   map[netip.Prefix]int // number of these by host

	bodies, answers underWay   // of calls with a credential
	streams         [2]streams // by listener
}

// reader is a body that is being read. stop ends the read.
type reader struct {
	host    netip.Prefix
	stop    func()
	stopped bool
}

// admit decides on a call before the gate. It reads the body of a call without a credential. The body of any other
// call is read after the gate, and counted; leave releases what was counted. Codes: too_large, invalid,
// rate_limited, overloaded.
func (s *Server) admit(w http.ResponseWriter, r *http.Request, m method) (leave func(), err error) {
	if m.access != aKey && !m.inside && s.o.Pressed() { // operators get in even then
		return nil, &im.Error{Code: im.CodeOverloaded, RetryAfter: time.Second}
	}
	if m.access != anybody { // its body is read after the gate
		b := &boundedBody{ReadCloser: r.Body, s: s, ctx: r.Context(), call: callOf(r.Context())}
		r.Body = b
		return b.release, nil
	}
	client := addrOf(r.RemoteAddr)
	n, rates := s.o.StrangersPerSecond, &s.admission.rates
	if callOf(r.Context()).inside {
		rates = &s.admission.inside // calls of clients from the same host keep no operator out
	}
	if err := rates.Take(s.o.Now(), client, rate.Per(n, time.Second, strangerBurst*n)); err != nil {
		return nil, err
	}
	limit := bodyLimit(m)
	if r.ContentLength > int64(limit) {
		return nil, tooLarge(limit)
	}
	body, err := s.admission.read(w, r, rate.Host(client), limit, s.o.UnderWayBytes/(maxUnderWay/maxReading))
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if callOf(r.Context()).inside {
		rate.Vouch(r.Context()) // the connection is not silent any more: a flood must not end an operator's login
	}
	return func() {}, nil
}

// read reads the body of a call without a credential. If all slots are taken, most in all or maxReadingOfHost of
// its host, it ends the read that began first: that client is slow, and the others must not wait for it.
// Codes: too_large, invalid, overloaded.
func (a *admission) read(w http.ResponseWriter, r *http.Request, host netip.Prefix, limit, most int) ([]byte, error) {
	control := http.NewResponseController(w)
	x := &reader{host: host, stop: func() {
		// An error means that the deadline of the connection cannot be changed: then the server's own holds.
		_ = control.SetReadDeadline(time.Unix(1, 0))
	}}
	e := a.enter(x, most)
	if e == nil {
		return nil, &im.Error{Code: im.CodeOverloaded, RetryAfter: time.Second}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(limit)))
	if stopped := a.leave(e); stopped && err != nil {
		return nil, &im.Error{Code: im.CodeOverloaded, RetryAfter: time.Second}
	}
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, tooLarge(limit)
	}
	if err != nil {
		return nil, im.Errorf(im.CodeInvalid, "the body did not come to its end")
	}
	return body, nil
}

// bodyLimit returns the most bytes that the body of a call may have.
func bodyLimit(m method) int {
	if m.access == anybody {
		return maxStrangerBytes
	}
	return maxRequestBytes
}

func tooLarge(limit int) *im.Error {
	return im.Errorf(im.CodeTooLarge, "a request of this method has at most %d bytes", limit)
}

// enter reserves a slot for a body, and ends the oldest read if none is free. nil: the host has all its slots,
// and all its reads have been ended but have not left yet.
func (a *admission) enter(x *reader, most int) *list.Element {
	a.mu.Lock()
	defer a.mu.Unlock()
	if x.host.IsValid() {
		if a.hosts[x.host] >= maxReadingOfHost &&
			!a.stopOldestLocked(func(old *reader) bool { return old.host == x.host }) {
			return nil
		}
		if a.hosts == nil {
			a.hosts = map[netip.Prefix]int{}
		}
		a.hosts[x.host]++
	}
	if a.reading.Len() >= most {
		a.stopOldestLocked(func(*reader) bool { return true })
	}
	return a.reading.PushBack(x)
}

// stopOldestLocked ends the oldest read for which of returns true and that was not ended before. It returns false
// if there is none.
func (a *admission) stopOldestLocked(of func(*reader) bool) bool {
	for e := a.reading.Front(); e != nil; e = e.Next() {
		if old, ok := e.Value.(*reader); ok && !old.stopped && of(old) {
			old.stopped = true
			old.stop()
			a.reading.MoveToBack(e) // it is listed until it leaves
			return true
		}
	}
	return false
}

// leave releases the slot, and reports whether the read was ended.
func (a *admission) leave(e *list.Element) (stopped bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	x, ok := a.reading.Remove(e).(*reader)
	im.Assert(ok, "no reader in the list of readers")
	if !x.host.IsValid() {
		return x.stopped
	}
	if a.hosts[x.host]--; a.hosts[x.host] <= 0 {
		delete(a.hosts, x.host)
	}
	return x.stopped
}

// underWay counts bytes by owner. The zero value is ready.
type underWay struct {
	mu     sync.Mutex // tier 0; guards the fields below
	bytes  int
	owners map[string]int
}

// anyBytes is a bound that bounds nothing.
const anyBytes = math.MaxInt

// grow counts n more bytes of an owner. It returns false and counts nothing if the total would exceed all, or the
// owner's bytes would exceed most.
func (u *underWay) grow(owner string, n, all, most int) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.bytes+n > all || u.owners[owner]+n > most {
		return false
	}
	if u.owners == nil {
		u.owners = map[string]int{}
	}
	u.bytes += n
	u.owners[owner] += n
	return true
}

func (u *underWay) shrink(owner string, n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.bytes -= n
	if u.owners[owner] -= n; u.owners[owner] <= 0 {
		delete(u.owners, owner)
	}
}

const (
	// smallAnswer is the size up to which an answer is written however many bytes other callers have under way.
	smallAnswer = 8 << 10
	// answerCost is the memory of an answer beyond its bytes: the goroutines and buffers of its call.
	answerCost = 16 << 10
)

// boundAnswer lets an answer be encoded if there is room for it, and reserves the room until the call is over: a
// caller who reads no answers gets no more large ones. An answer takes about four times its size: its message, its
// text, the bytes that wait for the connection, and the memory of its call. An answer larger than the caller's part
// of the bound is let through if the caller has no other answer under way. Answers to callers without a credential
// are not bounded. Codes: overloaded.
func (s *Server) boundAnswer(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
		res, err := next(ctx, r)
		if err != nil {
			return nil, err
		}
		m, ok := res.Any().(proto.Message)
		im.Assert(ok, "answer %T is no message", res.Any())
		size, c := proto.Size(m), callOf(ctx)
		if c.caller == nil || c.caller.anonymous() {
			return res, nil
		}
		s.countBytes(c, size)
		owner, part := c.caller.owner()
		n, all := min(answerCost+4*size, s.o.UnderWayBytes/part), s.o.UnderWayBytes
		if size <= smallAnswer {
			all = anyBytes
		}
		if !s.admission.answers.grow(owner, n, all, s.o.UnderWayBytes/part) {
			return nil, &im.Error{Code: im.CodeOverloaded, RetryAfter: time.Second}
		}
		c.answer += n
		return res, nil
	}
}

// releaseAnswer releases the room that boundAnswer has reserved for a call.
func (s *Server) releaseAnswer(c *call) {
	if c.answer > 0 {
		owner, _ := c.caller.owner()
		s.admission.answers.shrink(owner, c.answer)
		c.answer = 0
	}
}

// boundedBody counts the bytes that were read of a body, until its call is over. One goroutine reads it, after
// the gate.
type boundedBody struct {
	io.ReadCloser
	s    *Server
	ctx  context.Context // of the request
	call *call
	held int
}

// overloaded returns the error of a call that gets no memory, or no turn, because of the other calls.
func overloaded() *im.Error { return &im.Error{Code: im.CodeOverloaded, RetryAfter: time.Second} }

var (
	errTooManyBodies = errors.New("the bodies of all calls under way are too large")
	errTooManyCalls  = errors.New("too many calls wait")
	errNobodys       = errors.New("the body of an unauthorized call is not read")
)

// Read implements io.Reader. At the end of the body it waits for the turn of the call.
func (b *boundedBody) Read(p []byte) (int, error) {
	if b.call.caller == nil {
		return 0, errNobodys
	}
	n, err := b.ReadCloser.Read(p)
	owner, part := b.call.caller.owner()
	if n > 0 && !b.s.admission.bodies.grow(owner, n, b.s.o.UnderWayBytes, b.s.o.UnderWayBytes/part) {
		b.call.overdrawn = overloaded()
		return 0, errTooManyBodies
	}
	b.held += n
	if err == io.EOF {
		if b.call.overdrawn = b.s.begin(b.ctx, b.call, b.held); b.call.overdrawn != nil {
			return 0, errTooManyCalls
		}
	}
	return n, err
}

func (b *boundedBody) release() {
	if b.held > 0 {
		owner, _ := b.call.caller.owner()
		b.s.admission.bodies.shrink(owner, b.held)
		b.held = 0
	}
}

// owner returns the name under which the bytes of a caller are counted, and the part of the bound that the caller
// may have, as a divisor.
func (c *caller) owner() (name string, part int) {
	if c.key != nil {
		return "key " + c.key.ID, partOfKey
	}
	return "user " + c.identity.Account.String(), partOfOne
}

// addrOf returns the address in host:port; the zero value when there is none.
func addrOf(hostport string) netip.Addr {
	a, err := netip.ParseAddrPort(hostport)
	if err != nil {
		return netip.Addr{}
	}
	return a.Addr()
}
