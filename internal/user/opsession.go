package user

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// The session of an operator, or of an admin key, ends sessionLife after its login, and
// before that when it was not used for sessionIdle. That it was used is stored once a
// minute: so it may last a minute less.
const (
	SessionIdle = 30 * time.Minute
	sessionLife = 12 * time.Hour
	seenEvery   = time.Minute

	sessionPrefix = "po_"
)

// OperatorSession is one that has begun, or goes on.
type OperatorSession struct {
	Token   string // of one that has begun; it is not kept anywhere in clear
	Key     Key    // what it may do
	Expires time.Time
}

// IsSession tells whether a credential is the token of a session, and not an admin key.
func IsSession(credential string) bool { return strings.HasPrefix(credential, sessionPrefix) }

// operatorKey is what an operator may do.
func (us *Users) operatorKey(ctx context.Context, name string, o *storepb.Operator) (Key, error) {
	tenant, err := us.TenantName(ctx, im.Tenant(o.Tenant))
	return Key{ID: "operator " + name, Name: name, Tenant: im.Tenant(o.Tenant), TenantName: tenant, Scopes: o.Scopes, Created: at(o.CreatedMs), Operator: name}, err
}

// beginSession puts a session, and removes those that have ended.
func (c *change) beginSession(ctx context.Context, rec *storepb.OperatorSession) (OperatorSession, error) {
	now := c.us.now()
	rec.CreatedMs, rec.SeenMs, rec.ExpiresMs = uint64(now.UnixMilli()), uint64(now.UnixMilli()), uint64(now.Add(sessionLife).UnixMilli())
	token := sessionPrefix + secret()
	sum := sha256.Sum256([]byte(token))
	value, err := rec.MarshalVT()
	if err != nil {
		return OperatorSession{}, err
	}
	c.puts = append(c.puts, store.RecordPut{Table: store.OperatorSessions, Key: sum[:], Value: value, Check: true})
	others, err := c.us.operatorSessions(ctx)
	for _, s := range others {
		if !c.us.lasts(s.OperatorSession) {
			c.put(store.OperatorSessions, 0, s.sum, nil)
		}
	}
	return OperatorSession{Token: token, Expires: at(rec.ExpiresMs)}, err
}

// lasts tells whether a session has not ended by itself.
func (us *Users) lasts(s *storepb.OperatorSession) bool {
	now := us.nowMs()
	return now < s.ExpiresMs && now < s.SeenMs+uint64(SessionIdle.Milliseconds())
}

type storedSession struct {
	sum []byte
	*storepb.OperatorSession
}

func (us *Users) operatorSessions(ctx context.Context) (all []storedSession, err error) {
	var bad error
	err = us.store.Records(ctx, store.OperatorSessions, 0, nil, func(key, value []byte) bool {
		s := storedSession{bytes.Clone(key), &storepb.OperatorSession{}}
		bad = s.UnmarshalVT(bytes.Clone(value))
		all = append(all, s)
		return bad == nil
	})
	if err == nil && bad != nil {
		err = fmt.Errorf("read sessions of operators: %w", store.ErrCorrupt)
	}
	return all, err
}

// AuthenticateOperator is AuthenticateKey for who may have a session instead. expires is
// the zero time for an admin key. Codes: unauthenticated. Spec: P-10.10.
func (us *Users) AuthenticateOperator(ctx context.Context, credential string) (k Key, expires time.Time, err error) {
	if !IsSession(credential) {
		k, err = us.AuthenticateKey(ctx, credential)
		return k, expires, err
	}
	ended := im.Errorf(im.CodeUnauthenticated, "the session has ended: log in again")
	if len(credential) > maxToken {
		return Key{}, expires, ended
	}
	sum := sha256.Sum256([]byte(credential))
	value, err := us.store.Record(ctx, store.OperatorSessions, 0, sum[:])
	if err != nil || value == nil {
		return Key{}, expires, orEnded(err, ended)
	}
	value = bytes.Clone(value)
	rec := &storepb.OperatorSession{}
	if err := rec.UnmarshalVT(bytes.Clone(value)); err != nil {
		return Key{}, expires, fmt.Errorf("read session of an operator: %w", store.ErrCorrupt)
	}
	if !us.lasts(rec) {
		return Key{}, expires, ended
	}
	if k, err = us.keyOfSession(ctx, rec); err != nil || k.ID == "" {
		return Key{}, expires, orEnded(err, ended)
	}
	us.noteSeen(ctx, sum[:], value, rec)
	return k, at(rec.ExpiresMs), nil
}

func orEnded(err error, ended *im.Error) error {
	if err != nil {
		return err
	}
	return ended
}

// keyOfSession is what a session may do; without an ID: its operator or key may not any more.
func (us *Users) keyOfSession(ctx context.Context, s *storepb.OperatorSession) (Key, error) {
	if s.Operator != "" {
		value, err := us.store.Record(ctx, store.Operators, 0, []byte(s.Operator))
		if err != nil {
			return Key{}, err
		}
		o, err := parseOperator(value)
		if err != nil || o == nil || o.Disabled || o.Epoch != s.Epoch {
			return Key{}, err
		}
		return us.operatorKey(ctx, s.Operator, o)
	}
	value, err := us.store.Record(ctx, store.Tokens, 0, s.Key)
	if err != nil || value == nil {
		return Key{}, err
	}
	rec := &storepb.Token{}
	if err := rec.UnmarshalVT(value); err != nil {
		return Key{}, fmt.Errorf("read key %s: %w", hex.EncodeToString(s.Key[:keyIDBytes]), store.ErrCorrupt)
	}
	return us.key(ctx, s.Key, rec)
}

// noteSeen notes that a session is used, unless that is known to the minute. If it cannot
// be written, or another call has written it, the session goes on as it was.
func (us *Users) noteSeen(ctx context.Context, sum, was []byte, s *storepb.OperatorSession) {
	now := us.nowMs()
	if now < s.SeenMs+uint64(seenEvery.Milliseconds()) {
		return
	}
	s.SeenMs = now
	if value, err := s.MarshalVT(); err == nil {
		_ = us.update(ctx, []store.RecordPut{{Table: store.OperatorSessions, Key: sum, Value: value, Check: true, Was: was}})
	}
}

// EndSession ends a session. A token that there is not, and an admin key, are no error.
func (us *Users) EndSession(ctx context.Context, token string) error {
	if !IsSession(token) {
		return nil
	}
	sum := sha256.Sum256([]byte(token))
	return us.update(ctx, []store.RecordPut{{Table: store.OperatorSessions, Key: sum[:]}})
}
