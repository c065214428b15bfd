package api

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// maxRequestID is in bytes. Spec: P-12.4.
const maxRequestID = 60

// Answers are kept for repeatTime, and deleted at most sweepEvery later.
const (
	repeatTime = time.Hour // P-12.4
	sweepEvery = 10 * time.Minute
)

// hash is a hash of several parts, each hashed with its length: different parts have different hashes.
type hash = [sha256.Size]byte

func hashOf(purpose string, parts ...string) hash {
	h := sha256.New()
	var n [4]byte
	for _, p := range append([]string{purpose}, parts...) {
		binary.BigEndian.PutUint32(n[:], uint32(len(p)))
		h.Write(n[:])
		h.Write([]byte(p))
	}
	return hash(h.Sum(nil))
}

// claimTime is how long a call on another node counts as under way if that node writes no more about it. It is
// longer than a call may take. claimPoll is the interval at which a repeat checks for the end of the first call.
const (
	claimTime = 3 * requestTimeout
	claimPoll = 50 * time.Millisecond
)

// idempotent gives a repeated call the answer of the first one, without running it again. The effect of a call
// and the record of its answer are two commits: after a crash between them a repeat is a new call. A failed call
// leaves no record. If other nodes serve calls too, a record marks the call as under way from its beginning, and
// a repeat on another node waits for its end. Spec: P-12.4.
func (s *Server) idempotent(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		name := procedure(req.Spec())
		msg, ok := req.Any().(proto.Message)
		if !ok || table[name].repeat == reads {
			return next(ctx, req)
		}
		id := fieldOf(msg, "request_id")
		if len(id) > maxRequestID {
			return nil, im.Errorf(im.CodeInvalid, "request_id has at most %d bytes", maxRequestID)
		}
		if table[name].repeat != recorded || id == "" {
			return next(ctx, req)
		}
		r := &repeat{s: s, key: hashOf("request", name, callerName(ctx, msg), id), msg: msg, remote: remote(req)}
		leave, err := s.turns.enter(ctx, r.key)
		if err != nil {
			return nil, err
		}
		defer leave()
		again, err := r.begin(ctx)
		if err != nil {
			return nil, err
		}
		defer r.release(ctx)
		if again != nil {
			method, ok := req.Spec().Schema.(protoreflect.MethodDescriptor)
			im.Assert(ok, "method %s has no schema", name)
			res := dynamicpb.NewMessage(method.Output())
			if err := proto.Unmarshal(again, res); err != nil {
				return nil, fmt.Errorf("read answer of %s: %w", name, err)
			}
			return connect.NewResponse(res), nil
		}
		// The call goes on when its caller hangs up: else it could have an effect and no record.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
		defer cancel()
		res, err := next(ctx, req)
		if err != nil {
			return nil, err
		}
		if err := r.keep(ctx, res.Any()); err != nil {
			s.log.WarnContext(ctx, "storing an answer failed: a repeat will run the call again", "req", callOf(ctx).id, "err", err)
		}
		return res, nil
	}
}

// repeat is one call with a request id.
type repeat struct {
	s   *Server
	key hash
	msg proto.Message

	remote netip.Addr // of the caller

	was   []byte // the record that the method answer has found; nil: none
	claim []byte // the record by which this call is marked as under way; nil: it is not

	content, stretched string // set by read
}

// passwords are the fields with passwords. They are stretched before they are hashed, so that the hash of a
// request does not help to guess them.
var passwords = []protoreflect.Name{"password", "old_password", "new_password"}

// read collects the content that identifies the call. With a password in it, that costs as much as a login.
func (r *repeat) read(ctx context.Context) error {
	m := proto.Clone(r.msg).ProtoReflect()
	m.SetUnknown(nil)
	var secrets []string
	for _, name := range passwords {
		if f := m.Descriptor().Fields().ByName(name); f != nil {
			secrets = append(secrets, m.Get(f).String())
			m.Clear(f)
		}
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m.Interface())
	if err != nil {
		return err
	}
	r.content = string(b)
	if len(secrets) == 0 {
		return nil
	}
	all := hashOf("passwords", secrets...)
	stretched, err := r.s.users.Passwords.Stretch(ctx, !callOf(ctx).caller.anonymous(), all[:], r.key[:16])
	r.stretched = string(stretched)
	return err
}

func (r *repeat) digest() hash { return hashOf("content", r.content, r.stretched) }

// seal returns the cipher for the recorded answer. Its key is made of the admin key or session of the caller, if
// any, and of the request: the database alone does not reveal the tokens in the answer.
func (r *repeat) seal(ctx context.Context) (cipher.AEAD, error) {
	key := hashOf("answer", callOf(ctx).caller.credential, r.content, r.stretched)
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// allow counts a repeat with a password, because its hash costs as much as a login. Calls with an admin key are
// not limited here. Codes: rate_limited.
func (r *repeat) allow(ctx context.Context) error {
	fields := r.msg.ProtoReflect().Descriptor().Fields()
	secret := func(name protoreflect.Name) bool { return fields.ByName(name) != nil }
	c := callOf(ctx).caller
	if c.key != nil || !slices.ContainsFunc(passwords, secret) {
		return nil
	}
	return r.s.users.AllowRepeat(c.identity.Account, r.remote)
}

// begin returns the answer of the first call, and waits while that is under way on another node. nil: this is the
// first call; if other nodes serve calls too, it is marked as under way. Codes: conflict, store_stalled (the
// first call is still under way), and those of allow.
func (r *repeat) begin(ctx context.Context) ([]byte, error) {
	for {
		again, busy, err := r.answer(ctx)
		if err != nil || again != nil || !r.s.o.Shared {
			return again, err
		}
		if !busy {
			if err := r.take(ctx); !errors.Is(err, store.ErrChanged) {
				return nil, err
			}
			continue // another node was quicker
		}
		select {
		case <-time.After(claimPoll):
		case <-ctx.Done():
			return nil, &im.Error{Code: im.CodeStoreStalled, RetryAfter: time.Second}
		}
	}
}

// take marks the call as under way. That is a write, so for a caller without a credential it counts as a repeat
// with a password does. Codes: rate_limited. ErrChanged: another call was quicker.
func (r *repeat) take(ctx context.Context) error {
	if c := callOf(ctx).caller; c.anonymous() {
		if err := r.s.users.AllowRepeat(im.Account{}, r.remote); err != nil {
			return err
		}
	}
	value, err := (&storepb.Request{Digest: []byte(randomID()),
		ExpiresMs: uint64(r.s.o.Now().Add(claimTime).UnixMilli())}).MarshalVT()
	if err != nil {
		return err
	}
	err = r.put(ctx, store.RecordPut{Value: value, Check: true, Was: r.was})
	if err == nil {
		r.claim = value
	}
	return err
}

// release removes the mark of a call that ended without an answer.
func (r *repeat) release(ctx context.Context) {
	if r.claim == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	if err := r.put(ctx, store.RecordPut{Check: true, Was: r.claim}); err != nil {
		r.s.log.WarnContext(ctx, "removing the mark of a call failed: a repeat has to wait", "req", callOf(ctx).id, "err", err)
	}
}

// put writes the record of the call.
func (r *repeat) put(ctx context.Context, p store.RecordPut) error {
	p.Table, p.Key = store.Requests, r.key[:]
	return r.s.o.Store.Update(ctx, []store.RecordPut{p})
}

// answer returns the answer of the first call; nil: there is none. busy: the call is under way on another
// node. Codes: conflict, and those of allow.
func (r *repeat) answer(ctx context.Context) (again []byte, busy bool, err error) {
	if r.was, err = r.s.o.Store.Record(ctx, store.Requests, 0, r.key[:]); err != nil || r.was == nil {
		return nil, false, err
	}
	rec := &storepb.Request{}
	if err := rec.UnmarshalVT(r.was); err != nil {
		return nil, false, fmt.Errorf("read request: %w", store.ErrCorrupt)
	}
	if rec.ExpiresMs <= uint64(r.s.o.Now().UnixMilli()) || len(rec.Answer) == 0 {
		return nil, rec.ExpiresMs > uint64(r.s.o.Now().UnixMilli()), nil
	}
	if err := r.allow(ctx); err != nil {
		return nil, false, err
	}
	again, err = r.open(ctx, rec)
	return again, false, err
}

// open decrypts the answer of a record, for a call with the same content as the first one. Another content from a
// caller without a credential deletes the record. Codes: conflict.
func (r *repeat) open(ctx context.Context, rec *storepb.Request) ([]byte, error) {
	if err := r.read(ctx); err != nil {
		return nil, err
	}
	digest := r.digest()
	if subtle.ConstantTimeCompare(digest[:], rec.Digest) == 1 {
		aead, err := r.seal(ctx)
		if err != nil {
			return nil, err
		}
		if plain, err := aead.Open(nil, nil, rec.Answer, r.key[:]); err == nil {
			return append([]byte{}, plain...), nil // not nil, also of an empty answer
		}
	}
	if callOf(ctx).caller.anonymous() {
		// A caller who guesses a password here gets one try only, and then meets the limits of a login.
		if err := r.put(ctx, store.RecordPut{Check: true, Was: r.was}); err != nil &&
			!errors.Is(err, store.ErrChanged) {
			return nil, err
		}
	}
	return nil, &im.Error{Code: im.CodeConflict, Message: "this request id was used before with another content"}
}

// keep records an answer.
func (r *repeat) keep(ctx context.Context, res any) error {
	if err := r.read(ctx); err != nil {
		return err
	}
	msg, ok := res.(proto.Message)
	im.Assert(ok, "answer %T is no message", res)
	plain, err := proto.Marshal(msg)
	if err != nil {
		return err
	}
	aead, err := r.seal(ctx)
	if err != nil {
		return err
	}
	digest := r.digest()
	value, err := (&storepb.Request{
		Digest: digest[:], Answer: aead.Seal(nil, nil, plain, r.key[:]),
		ExpiresMs: uint64(r.s.o.Now().Add(repeatTime).UnixMilli()),
	}).MarshalVT()
	if err != nil {
		return err
	}
	err = r.put(ctx, store.RecordPut{Value: value, Check: r.claim != nil, Was: r.claim})
	if err == nil {
		r.claim = nil
	}
	return err
}

// sweep deletes expired answers and marks, and records that cannot be decoded.
func (s *Server) sweep(ctx context.Context) error {
	const batch = 1000
	now := uint64(s.o.Now().UnixMilli())
	var old []store.RecordPut
	err := s.o.Store.Records(ctx, store.Requests, 0, nil, func(key, value []byte) bool {
		rec := &storepb.Request{}
		if rec.UnmarshalVT(value) != nil || rec.ExpiresMs <= now {
			old = append(old, store.RecordPut{Table: store.Requests, Key: bytes.Clone(key), Check: true,
				Was: append([]byte{}, value...)})
		}
		return ctx.Err() == nil
	})
	for err == nil && len(old) > 0 {
		n := min(batch, len(old))
		err = s.o.Store.Update(ctx, old[:n])
		if errors.Is(err, store.ErrChanged) { // another node sweeps too; the next sweep deletes the rest
			err = nil
		}
		old = old[n:]
	}
	return err
}

// Run deletes expired answers and reports until ctx ends. Then it ends the answer streams.
func (s *Server) Run(ctx context.Context) error {
	defer close(s.ending)
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := s.sweep(ctx); err != nil && ctx.Err() == nil {
				s.log.WarnContext(ctx, "forget old answers failed", "err", err)
			}
			if err := s.sweepReports(ctx); err != nil && ctx.Err() == nil {
				s.log.WarnContext(ctx, "delete old reports failed", "err", err)
			}
		}
	}
}

// turns lets one call at a time run for each key.
type turns struct {
	mu   sync.Mutex     // tier 0; guards the field below
	keys map[hash]*turn // of calls under way
}

type turn struct {
	ch    chan struct{} // capacity 1; the call that puts the token in has the turn
	users int           // calls that have the turn or wait for it
}

// enter waits for the turn of a key; leave gives it back. Codes: store_stalled (ctx ended).
func (t *turns) enter(ctx context.Context, key hash) (leave func(), err error) {
	t.mu.Lock()
	if t.keys == nil {
		t.keys = map[hash]*turn{}
	}
	x := t.keys[key]
	if x == nil {
		x = &turn{ch: make(chan struct{}, 1)}
		t.keys[key] = x
	}
	x.users++
	t.mu.Unlock()
	forget := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if x.users--; x.users == 0 {
			delete(t.keys, key)
		}
	}
	select {
	case x.ch <- struct{}{}:
		return func() { <-x.ch; forget() }, nil
	case <-ctx.Done():
		forget()
		return nil, &im.Error{Code: im.CodeStoreStalled, RetryAfter: time.Second}
	}
}

// fieldOf returns a text field of a message; "" when the message has no such field.
func fieldOf(m proto.Message, name protoreflect.Name) string {
	r := m.ProtoReflect()
	f := r.Descriptor().Fields().ByName(name)
	if f == nil || f.Kind() != protoreflect.StringKind || f.IsList() {
		return ""
	}
	return r.Get(f).String()
}

// callerName returns the name of the caller to whom a request id belongs. Without a credential, fields of the
// request make the name.
func callerName(ctx context.Context, msg proto.Message) string {
	if c := callOf(ctx).caller; !c.anonymous() {
		return c.name()
	}
	var device *petrelv1.DeviceRef
	switch m := msg.(type) {
	case *petrelv1.RegisterRequest:
		device = m.Device
	case *petrelv1.LoginRequest:
		device = m.Device
	case *petrelv1.ExchangeRequest:
		device = m.Device
	}
	return strings.Join([]string{fieldOf(msg, "tenant"), fieldOf(msg, "user"), fieldOf(msg, "token"), device.GetId()},
		"\x00")
}
