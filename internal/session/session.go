package session

import (
	"sync"
	"sync/atomic"
	"unique"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/rate"
	"github.com/petrel-im/petrel/internal/user"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Session is the state of one connection, from its first frame on. Receive, ReadDone and Closed are
// called by one goroutine at a time: the reader of the connection.
type Session struct {
	// Out is a value in the session, so a session is one piece of memory, of a size that few other
	// objects have. Go keeps objects of one size together. So when many sessions have ended, whole
	// pages are free and go back to the system. Separate small objects would share their pages with
	// others that live longer. Out also has the account, the device and the login of the session.
	Out fanout.Outbox

	hub       *Hub
	kind      unique.Handle[string] // of the device; set before the welcome. A handle is half as large as a string
	phase     atomic.Int32          // one of the phases below
	requests  atomic.Int32          // requests under way
	moves     atomic.Int32          // moves of cursors that are not answered
	unmetered atomic.Int32          // pings and refusals that no bucket has counted yet

	mu      sync.Mutex // tier 3; guards the fields below
	entered bool       // Out is in the online table
	closed  bool

	// Only the reader uses these fields; the worker of the hello sets limits before the welcome.
	ended         bool
	forwards      bool         // one of sends is a forward
	focusRequests uint32       // number of requests to set the focus
	sends         []*conv.Send // of the present read
	rate          rate.Bucket  // of sends
	rare          *rareState   // nil: no signal, no watch and few pings came yet
	limits        *Limits      // in force at the welcome; the session keeps their windows
}

// The phases of a session. Spec: P-3.1.
const (
	waitsForHello = iota
	checksHello
	welcomed
)

// Open makes the session of a connection with an encoding. f wakes the
// writer of the connection. The caller sets the field Conn of Out before any other use.
func (h *Hub) Open(enc wire.Encoding, f *fanout.Flusher) *Session {
	s := &Session{hub: h}
	s.Out.Init(enc, f, h.Limits().OutboxBytes)
	return s
}

// Identity returns the user and the device of the session, once it is Ready.
func (s *Session) Identity() user.Identity {
	id := identityOf(&s.Out)
	id.Standing = s.Out.Standing()
	if s.kind != (unique.Handle[string]{}) {
		id.Kind = s.kind.Value()
	}
	return id
}

// identityOf returns the identity of the session of an outbox, without the kind of its device.
func identityOf(o *fanout.Outbox) user.Identity {
	if o.Device == "" {
		return user.Identity{Account: o.Account, Epoch: o.Login}
	}
	return user.Identity{Account: o.Account, Device: o.Device, Login: o.Login}
}

// noteRefusal passes a refusal to Options.Refused.
func (s *Session) noteRefusal(what string, e *im.Error) {
	if f := s.hub.o.Refused; f != nil {
		f(Refusal{Who: s.Identity(), Remote: s.Out.Conn.ClientAddr(), What: what, Code: e.Code, Text: e.Message})
	}
}

// refuseSend answers a send that is refused before its conversation gets it.
func (s *Session) refuseSend(f *petrelv1.Send, origin fanout.Origin, e *im.Error, k *fanout.WakeUps) {
	s.unmetered.Add(1)
	if note := s.hub.o.Refused; note != nil {
		note(Refusal{Who: s.Identity(), Remote: s.Out.Conn.ClientAddr(), What: "send", Code: e.Code, Text: e.Message,
			Send: f})
	}
	origin.Reply(wire.Ack{}, e, k)
}

// refuse answers a frame with an error.
func (s *Session) refuse(id uint64, e *im.Error, k *fanout.WakeUps) {
	s.unmetered.Add(1)
	s.hub.Meter.Refusals.Add(string(e.Code))
	s.Out.Answer(&petrelv1.ServerFrame{Id: id, Body: &petrelv1.ServerFrame_Error{Error: wire.ErrorFrame(e)}}, k)
}

// Probe sends the client a ping. Spec: P-7.1.
func (s *Session) Probe(k *fanout.WakeUps) {
	s.Out.Answer(&petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Ping{Ping: &petrelv1.Ping{}}}, k)
}

// enter puts the session into the online table. It returns false if the
// connection is gone, or if the user has maxPerUser sessions here already.
func (s *Session) enter(maxPerUser int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || !s.hub.table.Enter(s.Out.Account, &s.Out, maxPerUser) {
		return false
	}
	s.entered = true
	s.hub.Sessions.Add(1)
	return true
}

// Closed ends the session after its connection has ended.
func (s *Session) Closed() {
	s.Out.Close()
	if s.rare != nil && s.rare.watch != nil {
		s.hub.presence.End(s.rare.watch)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.entered {
		s.entered = false
		s.hub.table.Leave(s.Out.Account, &s.Out)
		s.hub.Sessions.Add(-1)
	}
}
