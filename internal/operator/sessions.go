package operator

import (
	"bytes"
	"context"
	"crypto/sha256"
	"strings"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/transaction"
	"github.com/petrel-im/petrel/internal/user"
)

// The session of an operator, or of an admin key, ends sessionLife after its login, or when it was not used for
// SessionIdle. Its use is stored at most once a minute, so an idle session may end a minute early.
const (
	SessionIdle = 30 * time.Minute
	sessionLife = 12 * time.Hour
	seenEvery   = time.Minute

	sessionPrefix = "po_"
)

// Session is the session of an operator or of an admin key.
type Session struct {
	Token   string // of a session that has just begun; only its hash is stored
	Key     Key    // what it may do
	Expires time.Time
}

// IsSession reports whether a credential is the token of a session, and not an admin key.
func IsSession(credential string) bool { return strings.HasPrefix(credential, sessionPrefix) }

// operatorKey returns what an operator may do, in the form of a Key.
func (os *Operators) operatorKey(ctx context.Context, name string, o *storepb.Operator) (Key, error) {
	tenant, err := os.users.TenantName(ctx, im.Tenant(o.Tenant))
	return Key{ID: "operator " + name, Name: name, Tenant: im.Tenant(o.Tenant), TenantName: tenant, Scopes: o.Scopes,
		Created: at(o.CreatedMs), Operator: name}, err
}

// beginSession stores a new session, and removes those that have ended.
func (c *change) beginSession(ctx context.Context, rec *storepb.OperatorSession) (Session, error) {
	now := c.os.o.Now()
	rec.CreatedMs, rec.SeenMs, rec.ExpiresMs = uint64(now.UnixMilli()), uint64(now.UnixMilli()),
		uint64(now.Add(sessionLife).UnixMilli())
	token := sessionPrefix + secret()
	sum := sha256.Sum256([]byte(token))
	value, err := rec.MarshalVT()
	if err != nil {
		return Session{}, err
	}
	c.Create(store.OperatorSessions, 0, sum[:], value)
	others, err := c.os.operatorSessions(ctx)
	for _, s := range others {
		if !c.os.lasts(s.OperatorSession) {
			c.Put(store.OperatorSessions, 0, s.sum, nil)
		}
	}
	return Session{Token: token, Expires: at(rec.ExpiresMs)}, err
}

// lasts reports whether a session has neither expired nor been idle for too long.
func (os *Operators) lasts(s *storepb.OperatorSession) bool {
	now := os.nowMs()
	return now < s.ExpiresMs && now < s.SeenMs+uint64(SessionIdle.Milliseconds())
}

type storedSession struct {
	sum []byte
	*storepb.OperatorSession
}

func (os *Operators) operatorSessions(ctx context.Context) (all []storedSession, err error) {
	err = transaction.Each(ctx, os.store, "session of an operator", store.OperatorSessions, 0, nil,
		func(key, _ []byte, s *storepb.OperatorSession) {
			all = append(all, storedSession{key, s})
		})
	return all, err
}

// AuthenticateOperator checks an admin key or the token of a session, and returns what its holder may do. expires
// is the end of the session; the zero time: the credential is a key. Codes: unauthenticated. Spec: P-10.10.
func (os *Operators) AuthenticateOperator(ctx context.Context,
	credential string) (k Key, expires time.Time, err error) {
	if !IsSession(credential) {
		k, err = os.AuthenticateKey(ctx, credential)
		return k, expires, err
	}
	ended := im.Errorf(im.CodeUnauthenticated, "the session has ended: log in again")
	if len(credential) > user.MaxToken {
		return Key{}, expires, ended
	}
	sum := sha256.Sum256([]byte(credential))
	value, err := os.store.Record(ctx, store.OperatorSessions, 0, sum[:])
	if err != nil || value == nil {
		return Key{}, expires, orEnded(err, ended)
	}
	value = bytes.Clone(value)
	rec, err := transaction.Parse[storepb.OperatorSession]("session of an operator", value)
	if err != nil {
		return Key{}, expires, err
	}
	if !os.lasts(rec) {
		return Key{}, expires, ended
	}
	if k, err = os.keyOfSession(ctx, rec); err != nil || k.ID == "" {
		return Key{}, expires, orEnded(err, ended)
	}
	os.noteSeen(ctx, sum[:], value, rec)
	return k, at(rec.ExpiresMs), nil
}

func orEnded(err error, ended *im.Error) error {
	if err != nil {
		return err
	}
	return ended
}

// keyOfSession returns what a session may do. The result has no ID if the operator or the key is gone, or the
// operator was changed or disabled since the login.
func (os *Operators) keyOfSession(ctx context.Context, s *storepb.OperatorSession) (Key, error) {
	if s.Operator != "" {
		value, err := os.store.Record(ctx, store.Operators, 0, []byte(s.Operator))
		if err != nil {
			return Key{}, err
		}
		o, err := transaction.Parse[storepb.Operator]("operator", value)
		if err != nil || o == nil || o.Disabled || o.Epoch != s.Epoch {
			return Key{}, err
		}
		return os.operatorKey(ctx, s.Operator, o)
	}
	value, err := os.store.Record(ctx, store.Tokens, 0, s.Key)
	if err != nil || value == nil {
		return Key{}, err
	}
	rec, err := transaction.Parse[storepb.Token]("key", value)
	if err != nil {
		return Key{}, err
	}
	return os.key(ctx, s.Key, rec)
}

// noteSeen stores that a session is used, at most once a minute. If the write fails, or another call has written
// the session, it does nothing.
func (os *Operators) noteSeen(ctx context.Context, sum, was []byte, s *storepb.OperatorSession) {
	now := os.nowMs()
	if now < s.SeenMs+uint64(seenEvery.Milliseconds()) {
		return
	}
	s.SeenMs = now
	if value, err := s.MarshalVT(); err == nil {
		_ = os.txs.Update(ctx, store.RecordPut{Table: store.OperatorSessions, Key: sum, Value: value, Check: true,
			Was: was})
	}
}

// EndSession ends a session. An unknown token, or an admin key, is no error.
func (os *Operators) EndSession(ctx context.Context, token string) error {
	if !IsSession(token) {
		return nil
	}
	sum := sha256.Sum256([]byte(token))
	return os.txs.Update(ctx, store.RecordPut{Table: store.OperatorSessions, Key: sum[:]})
}
