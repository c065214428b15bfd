package session

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/sabotage"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// sabotageLooksOnce has a login that lost its race stay.
var sabotageLooksOnce = sabotage.On("look-once")

// Version is the protocol version spoken here. Spec: P-3.2.
const Version = 1

// hello checks who is there. Its answer, welcome or error, is the first frame
// that the client gets.
func (s *Session) hello(id uint64, h *petrelv1.Hello, k *fanout.Kicks) {
	s.phase.Store(greeting)
	if err := s.hub.admitHello(h); err != nil {
		s.reject(id, err, k)
		return
	}
	ok := s.hub.async(s, func(ctx context.Context, k *fanout.Kicks) {
		if err := s.greet(ctx, id, h, k); err != nil {
			s.reject(id, s.hub.internal(s, "hello", err), k)
		}
	})
	if !ok {
		s.reject(id, &im.Error{Code: im.CodeTooManyConnections, RetryAfter: time.Second}, k)
	}
}

func (h *Hub) admitHello(f *petrelv1.Hello) *im.Error {
	switch {
	case f.VersionMin > Version || f.VersionMax < Version:
		return im.Errorf(im.CodeVersionUnsupported, "the server speaks version %d, and the client offers %d to %d", Version, f.VersionMin, f.VersionMax)
	case len(f.Device) > 64 || len(f.DeviceKind) > 32 || len(f.Client) > 128:
		return im.Errorf(im.CodeBadFrame, "device, device_kind and client have at most 64, 32 and 128 bytes")
	case h.draining.Load():
		return &im.Error{Code: im.CodeDraining, RetryAfter: 2 * time.Second}
	}
	return nil
}

// reject answers the hello with an error and ends the connection.
func (s *Session) reject(id uint64, e *im.Error, k *fanout.Kicks) {
	if e.Code.Info().Close == 0 {
		e = &im.Error{Code: im.CodeInternal, Message: e.Error(), Request: e.Request}
	}
	s.hub.Refused.Add(1)
	s.refuse(id, e, k)
	s.Out.EndQuietly(e, k)
}

func (s *Session) greet(ctx context.Context, id uint64, h *petrelv1.Hello, k *fanout.Kicks) error {
	at := s.hub.trust.Now()
	who, err := s.hub.users.AuthenticateSession(ctx, h.Token)
	if err != nil {
		return err
	}
	l := s.hub.Limits()
	who = who.Packed()
	s.id = who
	s.Out.Account, s.Out.Device, s.Out.Login = who.Account, who.Device, who.Login
	if who.Device == "" {
		s.Out.Login = who.Epoch
	}
	if s.hub.nodes.streams != nil {
		s.Out.Watch(s.hub.trust, at)
	}
	s.keep(h.Capabilities)
	s.windowSends, s.windowBytes = l.WindowSends, l.WindowBytes
	if !s.enter(l.ConnectionsPerUser) {
		return &im.Error{Code: im.CodeTooManyConnections, RetryAfter: time.Second}
	}
	if s.hub.draining.Load() { // SendAway may have read the table before
		return &im.Error{Code: im.CodeDraining, RetryAfter: 2 * time.Second}
	}
	// In the table first, then the token again: a revocation, or a newer login of
	// the kind, makes itself durable and then reads the table, so one of the two
	// sees the other. Spec: P-11.4.
	if _, err := s.hub.users.AuthenticateSession(ctx, h.Token); err != nil && !sabotageLooksOnce {
		return err
	}
	s.phase.Store(welcome)
	s.Out.Welcome(s.welcomeFrame(id, who.Account, l), k)
	k.Flush() // the client need not wait for what follows
	if err := s.hub.users.NoteClient(ctx, who, h.Client); err != nil {
		s.hub.o.Log.Warn("store the client's name failed", "user", string(who.Account.User), "device", who.Device, "err", err)
	}
	return nil
}

// enter puts the session into the online table, unless it is gone already.
func (s *Session) enter(perUser int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone || !s.hub.table.Enter(s.Out.Account, s.Out, perUser) {
		return false
	}
	s.entered = true
	s.hub.Sessions.Add(1)
	return true
}

func (s *Session) welcomeFrame(id uint64, a im.Account, l *Limits) *petrelv1.ServerFrame {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	o := &s.hub.o
	return &petrelv1.ServerFrame{Id: id, Body: &petrelv1.ServerFrame_Welcome{Welcome: &petrelv1.Welcome{
		Version: Version, Session: hex.EncodeToString(b[:]), User: string(a.User), Inbox: im.InboxID(a.Tenant, a.User).String(),
		HistoryId: fmt.Sprintf("%016x", o.HistoryID), ServerTimeMs: uint64(o.Now().UnixMilli()),
		HeartbeatMs: uint32(o.Heartbeat.Milliseconds()), HeartbeatMisses: uint32(o.Misses),
		Window:       &petrelv1.Window{Sends: announced(l.WindowSends), Bytes: announced(l.WindowBytes)},
		Limits:       &petrelv1.Limits{FrameBytes: announced(l.FrameBytes), BodyBytes: announced(l.BodyBytes), HistoryMessages: uint32(pageSize(l))},
		Capabilities: capabilities, Server: "petrel/" + o.Version,
		Gateways: o.gateways(a),
	}}}
}

// announced is a limit as the welcome tells it; none is the largest number.
func announced(n int) uint32 {
	if n < 0 {
		return 1<<32 - 1
	}
	return uint32(n)
}

func pageSize(l *Limits) int {
	if l.HistoryMessages <= 0 || l.HistoryMessages > conv.MaxPage {
		return conv.MaxPage
	}
	return l.HistoryMessages
}

// history reads a page. Spec: P-5.2.
func (s *Session) history(ctx context.Context, f *petrelv1.GetHistory) (*petrelv1.ServerFrame, error) {
	page, err := s.hub.convs.HistoryPage(ctx, s.Out.Account, f, pageSize(s.hub.Limits()))
	return &petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_History{History: page}}, err
}
