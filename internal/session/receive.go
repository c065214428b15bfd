package session

import (
	"context"
	"time"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/rate"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Ready returns whether the session was welcomed.
func (s *Session) Ready() bool { return s.phase.Load() == welcomed }

// Unread returns how many bytes wait for all sessions of the user on this node; 0 before the welcome.
func (s *Session) Unread() (n int) {
	if !s.Ready() {
		return 0
	}
	for _, o := range s.hub.table.Of(s.Out.Account) {
		n += o.Pending()
	}
	return n
}

// Receive handles the payload of one frame. The caller must not change b afterwards. It returns false if the
// session has ended or ends by this frame; then it takes no more frames.
func (s *Session) Receive(b []byte, k *fanout.WakeUps) bool {
	if s.ended {
		return false
	}
	before := s.unmetered.Load()
	var f petrelv1.ClientFrame
	err := wire.Decode(s.Out.Encoding().Codec, b, &f)
	if err == nil {
		err = s.handle(&f, len(b), k)
	} else if s.answerMalformed(b, err, k) {
		err = nil
	}
	if err == nil && s.unmetered.Load() > before {
		s.unmetered.Add(int32(len(b) / unmeteredBytes))
		err = s.limitUnmetered()
	}
	if err != nil {
		s.ended = true
		s.Out.End(err, k)
		return false
	}
	return true
}

// answerMalformed answers an undecodable frame with the settled code invalid, and keeps the connection. An error
// that ends the connection would have the client send the same message on every new one. The frame counts as a
// send against the rate; above the rate the answer is rate_limited.
//
// answerMalformed returns false, and answers nothing, before the welcome, if the frame has no readable id, and
// for a text message with bad UTF-8. Spec: P-2.3, P-2.4.
func (s *Session) answerMalformed(b []byte, e *im.Error, k *fanout.WakeUps) bool {
	enc := s.Out.Encoding()
	if s.phase.Load() != welcomed ||
		e.Code == im.CodeBadUTF8 && enc == (wire.Encoding{Codec: wire.JSON, Framing: wire.WebSocket}) {
		return false // RFC 6455 8.1: a text message that is not UTF-8 ends the connection
	}
	id := wire.IDOf(enc.Codec, b)
	if id == 0 {
		return false
	}
	if wait := s.takeRate(); wait > 0 {
		s.refuse(id, &im.Error{Code: im.CodeRateLimited, RetryAfter: wait}, k)
	} else {
		s.refuse(id, im.Errorf(im.CodeInvalid, "%s", e.Error()), k)
	}
	return true
}

// limitUnmetered limits the pings and refused frames of a session. It returns the error that ends a session with
// too many; nil if there are not, or if the rate of sends is unlimited. Each of these frames costs the event loop
// as much as a send, and no other rate bounds them. Spec: P-9.2.
func (s *Session) limitUnmetered() *im.Error {
	if s.unmetered.Load() < unmeteredStep || s.hub.Limits().SendsPerSecond < 0 {
		return nil
	}
	s.unmetered.Add(-unmeteredStep)
	if s.rareStateOrNew().unmetered.Take(s.hub.o.Now(), rate.Per(unmeteredPerSecond/unmeteredStep, time.Second,
		unmeteredBurst/unmeteredStep)) > 0 {
		return &im.Error{Code: im.CodeTooManyConnections,
			Message: "too many pings or refused requests on this connection", RetryAfter: time.Second}
	}
	return nil
}

// takeRate takes one send from the session's rate of sends, or returns how long to wait for it.
func (s *Session) takeRate() time.Duration {
	l := s.hub.Limits()
	return s.rate.Take(s.hub.o.Now(), rate.Per(l.SendsPerSecond, time.Second, l.SendBurst))
}

// takeStored counts n bytes that are stored for the user, or returns how
// long to wait. If the rate of sends is unlimited, so are the bytes.
func (s *Session) takeStored(n int) time.Duration {
	if s.hub.Limits().SendsPerSecond < 0 {
		return 0
	}
	return s.hub.o.Stored.Take(s.hub.o.Now(), s.Out.Account, n)
}

// handle handles a frame. An error ends the session.
func (s *Session) handle(f *petrelv1.ClientFrame, bytes int, k *fanout.WakeUps) *im.Error {
	if _, pong := f.Body.(*petrelv1.ClientFrame_Pong); f.Id == 0 && !pong {
		return im.Errorf(im.CodeBadFrame, "the frame has no id")
	}
	hello, isHello := f.Body.(*petrelv1.ClientFrame_Hello)
	switch phase := s.phase.Load(); {
	case isHello && phase != waitsForHello:
		return im.Errorf(im.CodeHelloExpected, "the connection has said hello already")
	case isHello:
		s.hello(f.Id, hello.Hello, k)
		return nil
	case phase == waitsForHello:
		return &im.Error{Code: im.CodeHelloExpected}
	case phase != welcomed:
		return im.Errorf(im.CodeHelloExpected, "wait for the welcome before you send another frame")
	}
	switch body := f.Body.(type) {
	case *petrelv1.ClientFrame_Send:
		return s.send(f.Id, body.Send, bytes, k)
	case *petrelv1.ClientFrame_History:
		s.request(f.Id, "history", k, func(ctx context.Context) (*petrelv1.ServerFrame,
			error) {
			return s.history(ctx, body.History)
		})
	case *petrelv1.ClientFrame_Sync:
		s.request(f.Id, "sync", k, func(ctx context.Context) (*petrelv1.ServerFrame,
			error) {
			return s.sync(ctx, body.Sync)
		})
	case *petrelv1.ClientFrame_Cursor:
		s.cursor(f.Id, body.Cursor, k)
	case *petrelv1.ClientFrame_Focus:
		s.focus(f.Id, body.Focus, k)
	case *petrelv1.ClientFrame_Signal:
		s.signal(f.Id, body.Signal, k)
	case *petrelv1.ClientFrame_Watch:
		s.watch(f.Id, body.Watch, k)
	case *petrelv1.ClientFrame_Call:
		s.call(f.Id, body.Call, k)
	case *petrelv1.ClientFrame_Ping:
		s.unmetered.Add(1)
		s.Out.Answer(&petrelv1.ServerFrame{Id: f.Id, Body: &petrelv1.ServerFrame_Pong{Pong: &petrelv1.Pong{}}}, k)
	case *petrelv1.ClientFrame_Pong:
	default:
		s.refuse(f.Id, &im.Error{Code: im.CodeUnsupported}, k)
	}
	return nil
}

// send checks a send and keeps it for ReadDone. Each send that got room in the window gets exactly one answer,
// and the answer gives the room back. A send without room ends the session (window_exceeded). Spec: P-4.
func (s *Session) send(id uint64, f *petrelv1.Send, bytes int, k *fanout.WakeUps) *im.Error {
	if !s.Out.Window(bytes, s.limits.WindowSends, s.limits.WindowBytes) {
		return &im.Error{Code: im.CodeWindowExceeded, RetryAfter: time.Second}
	}
	origin := fanout.Origin{Out: &s.Out, ID: id, Bytes: bytes, At: k.Now()}
	wait := s.takeRate()
	if wait == 0 {
		wait = s.takeStored(bytes)
	}
	if wait > 0 {
		s.refuseSend(f, origin, &im.Error{Code: im.CodeRateLimited, RetryAfter: wait}, k)
		return nil
	}
	if s.hub.draining.Load() {
		s.refuseSend(f, origin, &im.Error{Code: im.CodeDraining, RetryAfter: 2 * time.Second}, k)
		return nil
	}
	send, err := conv.Prepare(s.hub.o.IDs, s.Out.Account, f, s.hub.Limits().BodyBytes)
	if err != nil {
		s.refuseSend(f, origin, err, k)
		return nil
	}
	send.Origin, send.MutedMs = origin, s.Out.Standing().MutedMs
	if f.Rel != nil && send.Forwards() {
		s.forwards = true
	}
	s.sends = append(s.sends, send)
	return nil
}

// ReadDone submits the sends of one read together. Before that it takes out the forwards, and the sends that must
// wait for one: a worker submits these later (lineUp). The gateway calls ReadDone after the last frame of the
// read.
func (s *Session) ReadDone(k *fanout.WakeUps) {
	if len(s.sends) == 0 {
		return
	}
	sends := s.sends
	if s.sends = nil; s.forwards || s.hub.forwards.n.Load() > 0 {
		s.forwards = false
		sends = s.lineUp(sends, k)
	}
	s.hub.convs.Submit(sends, k)
}
