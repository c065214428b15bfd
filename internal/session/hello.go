package session

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"
	"unique"

	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/measure"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Version is the version of the protocol that this server speaks. Spec: P-3.2.
const Version = 1

// The capabilities, by their names in hello and welcome. Spec: P-2.6.
const (
	capEdit   = "edit"
	capCursor = "cursor"
	capFocus  = "focus"
	capNewest = "newest"
	capCall   = "call"
	capRel    = "rel"
	capSignal = "signal"
	capNotes  = "notes"

	capPresence = "presence"
	capPersonal = "personal"
	capProfiles = "profiles"
	capMentions = "mentions"
	capLarge    = "large"
)

// capabilities are those of this server, beyond the base of the protocol.
var capabilities = []string{capEdit, capCursor, capFocus, capNewest, capCall, capRel, capSignal, capPresence, capNotes,
	capPersonal, capMentions, capLarge, capProfiles}

// noteCapabilities notes the client's capabilities: the server sends only frames that the client
// understands. It is called before the outbox enters the online table. Spec: P-2.6.
func (s *Session) noteCapabilities(ofClient []string) {
	for _, c := range ofClient {
		switch c {
		case capCursor:
			s.Out.Receipts = true
		case capFocus:
			s.Out.Hints = true
		case capRel:
			s.Out.Refs = true
		case capSignal:
			s.Out.Signals = true
		case capPresence:
			s.Out.Presences = true
		case capNotes:
			s.Out.Notes = true
		case capProfiles:
			s.Out.Profiles = true
		case capPersonal:
			s.Out.Personal = true
		case capMentions:
			s.Out.Mentions = true
		case capLarge:
			s.Out.Large = s.Out.Encoding().Framing == wire.WebSocket
		}
	}
}

// hello has a worker check a hello. The first frame that the client gets
// is the answer: the welcome or an error.
func (s *Session) hello(id uint64, h *petrelv1.Hello, k *fanout.WakeUps) {
	s.phase.Store(checksHello)
	at := k.Now()
	if s.hub.o.Pressed() {
		s.reject(id, &im.Error{Code: im.CodeTooManyConnections, RetryAfter: time.Second}, k)
		return
	}
	if err := s.hub.checkHello(h); err != nil {
		s.reject(id, err, k)
		return
	}
	ok := s.hub.asyncOn(s.hub.queueHello, &s.Out, func(ctx context.Context, k *fanout.WakeUps) {
		if err := s.begin(ctx, id, h, at, k); err != nil {
			s.reject(id, s.hub.clientError(s.Out.Account.User, "hello", err), k)
		}
	})
	if !ok {
		s.reject(id, &im.Error{Code: im.CodeTooManyConnections, RetryAfter: time.Second}, k)
	}
}

func (h *Hub) checkHello(f *petrelv1.Hello) *im.Error {
	switch {
	case f.VersionMin > Version || f.VersionMax < Version:
		return im.Errorf(im.CodeVersionUnsupported, "the server speaks version %d, and the client offers %d to %d",
			Version, f.VersionMin, f.VersionMax)
	case len(f.Device) > 64 || len(f.DeviceKind) > 32 || len(f.Client) > 128:
		return im.Errorf(im.CodeBadFrame, "device, device_kind and client have at most 64, 32 and 128 bytes")
	case h.draining.Load():
		return &im.Error{Code: im.CodeDraining, RetryAfter: 2 * time.Second}
	}
	return nil
}

// reject answers the hello with an error, and ends the connection. If the code
// is one that does not end a connection, the client gets internal instead.
func (s *Session) reject(id uint64, e *im.Error, k *fanout.WakeUps) {
	if e.Code.Info().Close == 0 {
		e = &im.Error{Code: im.CodeInternal, Message: e.Error(), Request: e.Request}
	}
	s.hub.Refused.Add(1)
	s.hub.Hellos.Add(string(e.Code))
	s.noteRefusal("hello", e)
	s.refuse(id, e, k)
	s.Out.EndAfterAnswer(e, k)
}

// begin checks the token, enters the session into the online table and welcomes it.
func (s *Session) begin(ctx context.Context, id uint64, h *petrelv1.Hello, came time.Duration,
	k *fanout.WakeUps) error {
	at := s.hub.revocations.Now() // before the check: a token that passes it was valid then
	who, err := s.hub.users.AuthenticateSession(ctx, h.Token)
	if err != nil {
		return err
	}
	l := s.hub.Limits()
	who = who.Packed()
	s.kind = unique.Make(who.Kind)
	s.Out.Account, s.Out.Device, s.Out.Login = who.Account, who.Device, who.Login
	if who.Device == "" {
		s.Out.Login = who.Epoch
	}
	if s.hub.barrier != nil {
		s.Out.TrackValidity(s.hub.revocations, at)
	}
	s.noteCapabilities(h.Capabilities)
	s.limits = l
	if !s.enter(l.ConnectionsPerUser) {
		return &im.Error{Code: im.CodeTooManyConnections, RetryAfter: time.Second}
	}
	if s.hub.draining.Load() { // SendAway may have read the table before the session entered it
		return &im.Error{Code: im.CodeDraining, RetryAfter: 2 * time.Second}
	}
	// The session is in the table now, so check the token again. A revocation, or a login of
	// another device of the same kind, first becomes durable and then reads the table. So it
	// finds this session in the table, or this check finds it in the store. A change of the standing does the same.
	// Spec: P-11.4.
	learn := s.Out.Asks()
	if who, err = s.hub.users.AuthenticateSession(ctx, h.Token); err != nil {
		return err
	}
	learn(who.Standing)
	s.phase.Store(welcomed)
	s.Out.Welcome(s.welcomeFrame(id, who.Account, l), k)
	s.hub.table.Wake(&s.Out, k)
	s.hub.Hellos.Add(outcomeOK)
	s.hub.Requests["hello"].Observe(measure.Now() - came)
	k.Flush() // before NoteClient writes to the store: the client need not wait for that
	if err := s.hub.users.NoteClient(ctx, who, h.Client); err != nil {
		s.hub.o.Log.Warn("store the client's name failed", "user", string(who.Account.User), "device", who.Device,
			"err", err)
	}
	return nil
}

func (s *Session) welcomeFrame(id uint64, a im.Account, l *Limits) *petrelv1.ServerFrame {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	o := &s.hub.o
	return &petrelv1.ServerFrame{Id: id, Body: &petrelv1.ServerFrame_Welcome{Welcome: &petrelv1.Welcome{
		Version: Version, Session: hex.EncodeToString(b[:]), User: string(a.User),
		Inbox:     o.IDs.Inbox(a.Tenant, a.User).String(),
		HistoryId: fmt.Sprintf("%016x", o.HistoryID), ServerTimeMs: uint64(o.Now().UnixMilli()),
		HeartbeatMs: uint32(o.Heartbeat.Milliseconds()), HeartbeatMisses: uint32(o.Misses),
		Window: &petrelv1.Window{Sends: announced(l.WindowSends), Bytes: announced(l.WindowBytes)},
		Limits: &petrelv1.Limits{
			FrameBytes: announced(wire.FrameLimit(l.BodyBytes)), BodyBytes: announced(l.BodyBytes),
			HistoryMessages: uint32(l.pageSize()), OpenRequests: maxRequests,
		},
		Capabilities: capabilities, Server: "petrel/" + o.Version,
		Gateways: o.gateways(a),
	}}}
}

// announced returns a limit as the welcome has it: the largest number if there is no limit.
func announced(n int) uint32 {
	if n < 0 {
		return 1<<32 - 1
	}
	return uint32(n)
}

func (o *Options) gateways(a im.Account) []string {
	if o.Gateways == nil {
		return nil
	}
	return o.Gateways(a)
}
