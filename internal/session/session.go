package session

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/user"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Session is one connection's state above its bytes. Receive, ReadDone and
// Closed are called by one goroutine at a time, the connection's reader.
type Session struct {
	Out *fanout.Outbox

	hub      *Hub
	id       user.Identity // set before the welcome
	phase    atomic.Int32  // of the constants below
	requests atomic.Int32  // reads of the store under way
	moves    atomic.Int32  // of cursors, unanswered

	mu      sync.Mutex // tier 1; guards the fields below
	entered bool       // Out is in the online table
	gone    bool

	// Only the reader.
	sends       []*conv.Send // gathered from one read
	rate        bucket
	focuses     uint64 // requests to change the focus
	windowSends int
	windowBytes int
	ended       bool
}

// The phases of a session. Spec: P-3.1.
const (
	fresh    = iota // waits for the hello
	greeting        // the hello is being checked
	welcome         // serves
)

// maxRequests is how many reads of one session may be under way.
const maxRequests = 16

// Identity is who the session speaks for, once it is Ready.
func (s *Session) Identity() user.Identity { return s.id }

// Ready reports whether the session was welcomed.
func (s *Session) Ready() bool { return s.phase.Load() == welcome }

// Receive takes one frame's payload, which must not change any more. False
// means that the session is ending and wants no more.
func (s *Session) Receive(b []byte, k *fanout.Kicks) bool {
	if s.ended {
		return false
	}
	var f petrelv1.ClientFrame
	err := wire.Decode(s.Out.Encoding().Codec, b, &f)
	if err == nil {
		err = s.handle(&f, len(b), k)
	}
	if err != nil {
		s.ended = true
		s.Out.End(err, k)
		return false
	}
	return true
}

// handle serves a frame; an error ends the session.
func (s *Session) handle(f *petrelv1.ClientFrame, bytes int, k *fanout.Kicks) *im.Error {
	if hello, ok := f.Body.(*petrelv1.ClientFrame_Hello); ok != (s.phase.Load() == fresh) {
		return &im.Error{Code: im.CodeHelloExpected}
	} else if ok {
		s.hello(f.Id, hello.Hello, k)
		return nil
	}
	if s.phase.Load() != welcome {
		return &im.Error{Code: im.CodeHelloExpected}
	}
	switch body := f.Body.(type) {
	case *petrelv1.ClientFrame_Send:
		return s.send(f.Id, body.Send, bytes, k)
	case *petrelv1.ClientFrame_History:
		s.request(f.Id, "history", k, func(ctx context.Context) (*petrelv1.ServerFrame, error) { return s.history(ctx, body.History) })
	case *petrelv1.ClientFrame_Sync:
		s.sync(f.Id, body.Sync, k)
	case *petrelv1.ClientFrame_Cursor:
		s.cursor(f.Id, body.Cursor, k)
	case *petrelv1.ClientFrame_Focus:
		s.focus(f.Id, body.Focus, k)
	case *petrelv1.ClientFrame_Call:
		s.call(f.Id, body.Call, k)
	case *petrelv1.ClientFrame_Ping:
		s.Out.Answer(&petrelv1.ServerFrame{Id: f.Id, Body: &petrelv1.ServerFrame_Pong{Pong: &petrelv1.Pong{}}}, k)
	case *petrelv1.ClientFrame_Pong:
	default:
		s.refuse(f.Id, &im.Error{Code: im.CodeUnsupported}, k)
	}
	return nil
}

// send gathers a send; ReadDone submits it. Every send that got room in the
// window gets exactly one answer, which gives the room back. Spec: P-4.
func (s *Session) send(id uint64, f *petrelv1.Send, bytes int, k *fanout.Kicks) *im.Error {
	if !s.Out.Window(bytes, s.windowSends, s.windowBytes) {
		return &im.Error{Code: im.CodeWindowExceeded, RetryAfter: time.Second}
	}
	origin := fanout.Origin{Out: s.Out, ID: id, Bytes: bytes}
	l := s.hub.Limits()
	if ok, wait := s.rate.take(s.hub.o.Now().UnixMilli(), l.SendsPerSecond, l.SendBurst); !ok {
		origin.Reply(wire.Ack{}, &im.Error{Code: im.CodeRateLimited, RetryAfter: time.Duration(wait) * time.Millisecond}, k)
		return nil
	}
	if s.hub.draining.Load() {
		origin.Reply(wire.Ack{}, &im.Error{Code: im.CodeDraining, RetryAfter: 2 * time.Second}, k)
		return nil
	}
	send, err := conv.Prepare(s.Out.Account, f, l.BodyBytes)
	if err != nil {
		origin.Reply(wire.Ack{}, err, k)
		return nil
	}
	send.Origin = origin
	s.sends = append(s.sends, send)
	return nil
}

// ReadDone submits what one read brought.
func (s *Session) ReadDone(k *fanout.Kicks) {
	if len(s.sends) == 0 {
		return
	}
	s.hub.convs.Submit(s.sends, k)
	s.sends = nil
}

// held is what a request gets while it is not known whether the session may be
// served: neither the other nodes nor the store have said so for too long.
var held = &im.Error{Code: im.CodeStoreStalled, RetryAfter: time.Second}

// request serves a read of the store on a worker.
func (s *Session) request(id uint64, what string, k *fanout.Kicks, f func(context.Context) (*petrelv1.ServerFrame, error)) {
	s.requestOn(s.hub.queue, id, what, k, f)
}

func (s *Session) requestOn(queue func(job func()) bool, id uint64, what string, k *fanout.Kicks, f func(context.Context) (*petrelv1.ServerFrame, error)) {
	if s.Out.Held() {
		s.refuse(id, held, k)
		return
	}
	busy := &im.Error{Code: im.CodeOverloaded, RetryAfter: 200 * time.Millisecond}
	if limit := s.hub.Limits().OutboxBytes; limit >= 0 && s.Out.Pending() > limit {
		s.refuse(id, busy, k)
		return
	}
	if s.requests.Add(1) > maxRequests {
		s.requests.Add(-1)
		s.refuse(id, busy, k)
		return
	}
	ok := s.hub.asyncOn(queue, s, func(ctx context.Context, k *fanout.Kicks) {
		defer s.requests.Add(-1)
		frame, err := f(ctx)
		if err == nil && s.Out.Held() {
			err = held
		}
		if err != nil {
			s.refuse(id, s.hub.internal(s, what, err), k)
			return
		}
		frame.Id = id
		s.Out.Answer(frame, k)
	})
	if !ok {
		s.requests.Add(-1)
		s.refuse(id, busy, k)
	}
}

func (s *Session) refuse(id uint64, e *im.Error, k *fanout.Kicks) {
	s.Out.Answer(&petrelv1.ServerFrame{Id: id, Body: &petrelv1.ServerFrame_Error{Error: wire.ErrorFrame(e)}}, k)
}

// Probe queues a ping. Spec: P-7.1.
func (s *Session) Probe(k *fanout.Kicks) {
	s.Out.Answer(&petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Ping{Ping: &petrelv1.Ping{}}}, k)
}

// Closed ends the session: its connection is gone.
func (s *Session) Closed() {
	s.Out.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = true
	if s.entered {
		s.entered = false
		s.hub.table.Leave(s.Out.Account, s.Out)
		s.hub.Sessions.Add(-1)
	}
}
