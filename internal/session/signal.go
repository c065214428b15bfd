package session

import (
	"bytes"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/policy"
	"github.com/petrel-im/petrel/internal/presence"
	"github.com/petrel-im/petrel/internal/rate"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// The bounds of a signal. Spec: P-13.1, P-13.4.
const (
	maxSignalKind = 32      // bytes
	maxSignalData = 1 << 10 // bytes
	maxSignalHold = time.Minute

	signalsPerSecond = 10 // of one session
	signalBurst      = 20
)

// reservedKinds is the prefix of the kinds that the protocol may use later.
const reservedKinds = "petrel."

// rareState is the state of sessions that have sent a signal, a watch,
// or many pings or refused frames. Most sessions have none.
type rareState struct {
	signals, watches rate.Bucket
	unmetered        rate.Bucket     // pings and refusals, unmeteredStep a token
	watch            *presence.Watch // nil: it has watched nobody yet
}

// rareStateOrNew returns the rareState, which it makes if there is none. Only the reader calls it.
func (s *Session) rareStateOrNew() *rareState {
	if s.rare == nil {
		s.rare = &rareState{}
	}
	return s.rare
}

// signal passes a signal on, and answers it. The answer waits for no read of the store and does not depend on the
// conversation, so it is the same, after the same time, whether or not the conversation exists. Spec: P-13.1.
func (s *Session) signal(id uint64, f *petrelv1.SendSignal, k *fanout.WakeUps) {
	key, err := s.checkSignal(f)
	if err == nil {
		if muted, ok := errors.AsType[*im.Error](s.hub.users.CheckMuted(s.Identity())); ok {
			err = muted
		}
	}
	if err == nil && !s.Out.Signals {
		err = im.Errorf(im.CodeUnsupported, "the hello did not list %s", capSignal)
	}
	if err != nil {
		s.noteRefusal("signal", err)
		s.refuse(id, err, k)
		return
	}
	// Kind and Data are copied, because a held signal must not keep the buffer of its read in memory. The
	// time is taken here: a call must not look new because the owner of its conversation stood still.
	x := &petrelv1.Signal{
		From: string(s.Out.Account.User), Kind: strings.Clone(f.Kind), Data: bytes.Clone(f.Data), HoldMs: f.HoldMs,
		TimeMs: uint64(s.hub.o.Now().UnixMilli()),
	}
	s.hub.route.Signal(key, x, s.Out.ID)
	s.Out.Answer(&petrelv1.ServerFrame{Id: id, Body: &petrelv1.ServerFrame_Signal{Signal: &petrelv1.Signaled{}}}, k)
}

// checkSignal returns the conversation of a signal, or why the signal may not be passed on.
func (s *Session) checkSignal(f *petrelv1.SendSignal) (im.Key, *im.Error) {
	key := im.Key{Tenant: s.Out.Account.Tenant}
	if wait := s.rareStateOrNew().signals.Take(s.hub.o.Now(),
		rate.Per(signalsPerSecond, time.Second, signalBurst)); wait > 0 {
		return key, &im.Error{Code: im.CodeRateLimited, RetryAfter: wait}
	}
	switch {
	case s.Out.Unconfirmed():
		return key, errUnconfirmed
	case f.Kind == "" || len(f.Kind) > maxSignalKind || !utf8.ValidString(f.Kind) ||
		strings.HasPrefix(f.Kind, reservedKinds):
		return key, im.Errorf(im.CodeInvalid, "the kind of a signal has 1 to %d bytes, and does not begin with %q",
			maxSignalKind, reservedKinds)
	case f.Kind == conv.Typing && (len(f.Data) > 0 || f.HoldMs > 0):
		return key, im.Errorf(im.CodeInvalid, "a signal of kind %s has neither data nor hold_ms", conv.Typing)
	case len(f.Data) > maxSignalData:
		return key, im.Errorf(im.CodeTooLarge, "the data of a signal has at most %d bytes", maxSignalData)
	case int64(f.HoldMs) > maxSignalHold.Milliseconds():
		return key, im.Errorf(im.CodeInvalid, "a signal is held for at most %d ms", maxSignalHold.Milliseconds())
	case (f.Conv == "") == (f.User == ""):
		return key, im.Errorf(im.CodeInvalid, "a signal names exactly one of conv and user")
	}
	if f.User != "" {
		u := im.User(f.User)
		if err := u.Check(); err != nil {
			return key, im.Errorf(im.CodeInvalid, "user is no user id")
		}
		key.Conv = s.hub.o.IDs.Direct(key.Tenant, s.Out.Account.User, u)
		return key, nil
	}
	c, err := im.ParseConvID(f.Conv)
	switch {
	case err != nil, !policy.Of(c.Kind()).Signals:
		return key, im.Errorf(im.CodeInvalid, "conv is the id of a direct conversation or of a group")
	case f.HoldMs > 0 && !policy.Of(c.Kind()).HeldSignals:
		return key, im.Errorf(im.CodeInvalid, "only a signal to a direct conversation may have hold_ms")
	}
	key.Conv = c
	return key, nil
}
