package session

import (
	"context"
	"sync"

	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/user"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Calls runs a method of the API for a user: request and answer are JSON, or
// else protobuf. Codes: no_method, and those of the method. Spec: P-10.4.
type Calls func(ctx context.Context, who user.Identity, method string, json bool, request []byte) (answer []byte, err error)

// callWorkers run the calls of all sessions. They are not those of the reads: a
// call may wait for the inboxes of a thousand new members.
const callWorkers = 32

// userCalls is how many of the workers one user holds at a time, and
// userWaiting how many further calls of theirs wait for one of these.
const (
	userCalls   = 4
	userWaiting = 4 * maxRequests
)

// callers lets no user hold all workers: a call may be slow because of what its
// user does.
type callers struct {
	mu      sync.Mutex             // tier 0; guards the fields below
	of      map[im.Account]*caller // who has a call under way
	waiting int                    // of all users
}

type caller struct {
	running int // or queued for a worker
	waiting []func()
}

// queueCall runs a call of a user on a worker, in its turn among those of this
// user. False: too much waits.
func (h *Hub) queueCall(a im.Account, job func()) bool {
	c := &h.callers
	c.mu.Lock()
	defer c.mu.Unlock()
	u := c.of[a]
	if u == nil {
		u = &caller{}
	}
	if u.running == userCalls {
		if len(u.waiting) == userWaiting || c.waiting == h.o.Waiting {
			return false
		}
		u.waiting = append(u.waiting, job)
		c.waiting++
		return true
	}
	if !h.enqueueCall(a, job) {
		return false
	}
	if c.of == nil {
		c.of = map[im.Account]*caller{}
	}
	c.of[a] = u
	u.running++
	return true
}

// enqueueCall hands a call to the workers, unless their queue is full.
func (h *Hub) enqueueCall(a im.Account, job func()) bool {
	select {
	case h.callJobs <- func() { h.runCall(a, job) }:
		return true
	default:
		return false
	}
}

// runCall runs a call, then lets the next one of its user in.
func (h *Hub) runCall(a im.Account, job func()) {
	for job != nil {
		job()
		job = h.nextCall(a)
	}
}

// nextCall queues what waits behind a call that ended, behind the calls of other
// users. It returns it if their queue is full: then it runs at once.
func (h *Hub) nextCall(a im.Account) func() {
	c := &h.callers
	c.mu.Lock()
	defer c.mu.Unlock()
	u := c.of[a]
	if len(u.waiting) == 0 {
		if u.running--; u.running == 0 {
			delete(c.of, a)
		}
		return nil
	}
	next := u.waiting[0]
	u.waiting[0] = nil // it holds a request
	u.waiting = u.waiting[1:]
	c.waiting--
	if h.enqueueCall(a, next) {
		return nil
	}
	return next
}

// AttachCalls says who runs the calls. It is called once, before Run.
func (h *Hub) AttachCalls(c Calls) { h.calls = c }

// call runs a method of the API. It counts as a request of the session.
func (s *Session) call(id uint64, f *petrelv1.Call, k *fanout.Kicks) {
	var body []byte
	asJSON := false
	switch r := f.Request.(type) {
	case *petrelv1.Call_Json:
		body, asJSON = []byte(r.Json), true
	case *petrelv1.Call_Proto:
		body = r.Proto
	}
	switch {
	case s.hub.calls == nil:
		s.refuse(id, &im.Error{Code: im.CodeUnsupported}, k)
		return
	case f.Request == nil:
		s.refuse(id, im.Errorf(im.CodeInvalid, "a call needs a request: json or proto"), k)
		return
	}
	queue := func(job func()) bool { return s.hub.queueCall(s.Out.Account, job) }
	s.requestOn(queue, id, "call", k, func(ctx context.Context) (*petrelv1.ServerFrame, error) {
		res, err := s.hub.calls(ctx, s.id, f.Method, asJSON, body)
		answer := &petrelv1.Answer{Response: &petrelv1.Answer_Proto{Proto: res}}
		if asJSON {
			answer.Response = &petrelv1.Answer_Json{Json: string(res)}
		}
		return &petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Answer{Answer: answer}}, err
	})
}
