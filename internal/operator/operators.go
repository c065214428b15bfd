// Package operator keeps who runs the server: operators (operators.go) with a second factor (totp.go) and their
// sessions (sessions.go), admin keys (adminkeys.go), and the one-time code of the first start (setupcode.go).
// Keys, codes and tokens are stored as SHA-256 only, passwords as a slow hash, secrets of second factors as they
// are.
package operator

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/password"
	"github.com/petrel-im/petrel/internal/rate"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/transaction"
	"github.com/petrel-im/petrel/internal/user"
)

// Operators keeps the accounts: people with a name, a password and a second factor, and admin keys. A person
// becomes an operator with a one-time code: that of the setup link, or one that another operator made.
// Spec: P-10.10.
type Operators struct {
	o        Options
	store    store.Store
	txs      *transaction.Manager
	users    *user.Users
	attempts password.Attempts // tries to log in

	mu    sync.Mutex // tier 0; guards the field below
	setup []byte     // SHA-256 of the last setup code made here
}

// Options tune Operators.
type Options struct {
	Now         func() time.Time // nil: the wall clock
	Logins      int              // tries in a minute at one name from one address; 0: 5, negative: no limit
	LoginsPerIP int              // tries in a minute from one address; 0: 20, negative: no limit

	// Shared: other nodes work on the store too, and each may show a setup code.
	Shared bool
}

// New opens the operators of a store.
func New(o Options, st store.Store, users *user.Users) *Operators {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Logins, o.LoginsPerIP = cmp.Or(o.Logins, 5), cmp.Or(o.LoginsPerIP, 20)
	return &Operators{o: o, store: st, txs: transaction.New(st), users: users}
}

// change is one transaction on operators and keys.
type change struct {
	*transaction.Tx
	os *Operators
}

func (os *Operators) begin() *change { return &change{os.txs.Begin(), os} }

// change runs f in a transaction. Codes: those of f, disk_full, store_stalled, overloaded.
func (os *Operators) change(ctx context.Context, f func(*change) error) error {
	_, err := os.txs.Do(ctx, []im.Account{transaction.Server},
		func(tx *transaction.Tx) error { return f(&change{tx, os}) })
	return err
}

func (os *Operators) nowMs() uint64 { return uint64(os.o.Now().UnixMilli()) }

// secret returns 256 random bits as text.
func secret() string { return base64.RawURLEncoding.EncodeToString(random(32)) }

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return b
}

// enrollTime is how long a code for an operator is valid.
const enrollTime = 24 * time.Hour

// maxOperatorName is in bytes.
const maxOperatorName = 64

// Operator is an operator as others see them.
type Operator struct {
	Name        string
	Scopes      []string
	TenantName  string // the only one; "": all
	Created     time.Time
	Enrolled    bool
	Disabled    bool
	LoggedIn    time.Time // last; the zero time: never
	Sessions    int
	CodeExpires time.Time // of a code that was not used; the zero time: there is none
}

func checkOperatorName(name string) error {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789._-"
	if name == "" || len(name) > maxOperatorName || strings.Trim(name, letters) != "" {
		return im.Errorf(im.CodeInvalid, "the name of an operator has 1 to %d of a to z, 0 to 9, ., _ and -",
			maxOperatorName)
	}
	return nil
}

// OperatorExists reports whether there is an operator of this name.
func (os *Operators) OperatorExists(ctx context.Context, name string) (bool, error) {
	if checkOperatorName(name) != nil {
		name = "?" // no operator has it; every name costs the same work
	}
	value, err := os.store.Record(ctx, store.Operators, 0, []byte(name))
	return value != nil, err
}

// operator reads an operator's record; nil: there is none.
func (c *change) operator(ctx context.Context, name string) (*storepb.Operator, error) {
	value, err := c.Record(ctx, store.Operators, 0, []byte(name))
	if err != nil {
		return nil, err
	}
	return transaction.Parse[storepb.Operator]("operator", value)
}

// mustOperator reads the record of an operator who has to exist. Codes: no_operator.
func (c *change) mustOperator(ctx context.Context, name string) (*storepb.Operator, error) {
	o, err := c.operator(ctx, name)
	if err == nil && o == nil {
		err = im.Errorf(im.CodeNoOperator, "there is no operator %.64q", name)
	}
	return o, err
}

func (c *change) putOperator(name string, o *storepb.Operator) error {
	value, err := o.MarshalVT()
	c.Put(store.Operators, 0, []byte(name), value)
	return err
}

// describeOperator returns o as others see it, but does not count its sessions.
func (os *Operators) describeOperator(ctx context.Context, name string, o *storepb.Operator) (Operator, error) {
	tenant, err := os.users.TenantName(ctx, im.Tenant(o.Tenant))
	d := Operator{Name: name, Scopes: o.Scopes, TenantName: tenant, Created: at(o.CreatedMs),
		Enrolled: o.Password != "", Disabled: o.Disabled, LoggedIn: at(o.LoggedInMs)}
	if len(o.Code) > 0 && o.CodeExpiresMs > os.nowMs() {
		d.CodeExpires = at(o.CodeExpiresMs)
	}
	return d, err
}

// at converts a stored time; 0 becomes the zero time.
func at(ms uint64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(ms)).UTC()
}

// Operators lists the operators by name.
func (os *Operators) Operators(ctx context.Context) ([]Operator, error) {
	sessions, err := os.operatorSessions(ctx)
	if err != nil {
		return nil, err
	}
	all, err := os.operatorRecords(ctx)
	var list []Operator
	for _, o := range all {
		var d Operator
		if err == nil {
			d, err = os.describeOperator(ctx, o.name, o.Operator)
		}
		for _, s := range sessions {
			if s.Operator == o.name && s.Epoch == o.Epoch && os.lasts(s.OperatorSession) {
				d.Sessions++
			}
		}
		list = append(list, d)
	}
	return list, err
}

// namedOperator is the record of an operator with the name.
type namedOperator struct {
	name string
	*storepb.Operator
}

func (os *Operators) operatorRecords(ctx context.Context) (all []namedOperator, err error) {
	err = transaction.Each(ctx, os.store, "operator", store.Operators, 0, nil,
		func(key, _ []byte, o *storepb.Operator) {
			all = append(all, namedOperator{string(key), o})
		})
	return all, err
}

// CreateOperator makes an operator, and a code with which they enroll within enrollTime. Before that they cannot
// log in. Codes: invalid, operator_exists.
func (os *Operators) CreateOperator(ctx context.Context, name, tenantName string,
	of []string) (code string, made Operator, err error) {
	if err := checkOperatorName(name); err != nil {
		return "", Operator{}, err
	}
	of, err = checkScopes(of)
	if err != nil {
		return "", Operator{}, err
	}
	tenant := im.Tenant(0)
	if tenantName != "" {
		if tenant, err = os.users.EnsureTenant(ctx, tenantName); err != nil {
			return "", Operator{}, err
		}
	}
	code = secret()
	err = os.change(ctx, func(c *change) error {
		o, err := c.operator(ctx, name)
		if err == nil && o != nil {
			err = im.Errorf(im.CodeOperatorExists, "there is an operator %s", name)
		}
		if err != nil {
			return err
		}
		o = &storepb.Operator{CreatedMs: os.nowMs(), Scopes: of, Tenant: uint32(tenant)}
		c.openCode(o, code)
		if made, err = os.describeOperator(ctx, name, o); err != nil {
			return err
		}
		return c.putOperator(name, o)
	})
	return code, made, err
}

func (c *change) openCode(o *storepb.Operator, code string) {
	sum := sha256.Sum256([]byte(code))
	o.Code, o.CodeExpiresMs = sum[:], uint64(c.os.o.Now().Add(enrollTime).UnixMilli())
}

// changeOperator calls f with an operator's record, and stores what f has made of it. Codes: no_operator, and those
// of f.
func (os *Operators) changeOperator(ctx context.Context, name string,
	f func(*change, *storepb.Operator) error) (now Operator, err error) {
	err = os.change(ctx, func(c *change) error {
		o, err := c.mustOperator(ctx, name)
		if err == nil {
			err = f(c, o)
		}
		if err != nil {
			return err
		}
		if now, err = os.describeOperator(ctx, name, o); err != nil {
			return err
		}
		return c.putOperator(name, o)
	})
	return now, err
}

// ChangeOperator changes the scopes of an operator (none: they stay) and whether they may log in, and ends their
// sessions. was has the operator before the change. Codes: invalid, no_operator.
func (os *Operators) ChangeOperator(ctx context.Context, name string, of []string,
	disabled bool) (was, now Operator, err error) {
	if len(of) > 0 {
		if of, err = checkScopes(of); err != nil {
			return Operator{}, Operator{}, err
		}
	}
	now, err = os.changeOperator(ctx, name, func(_ *change, o *storepb.Operator) (err error) {
		if was, err = os.describeOperator(ctx, name, o); err != nil {
			return err
		}
		if len(of) > 0 {
			o.Scopes = of
		}
		o.Disabled = disabled
		o.Epoch++
		return nil
	})
	return was, now, err
}

// ResetOperator makes a code with which an operator chooses a new password and a new second factor. It ends their
// sessions. They can log in again after they have used the code. Codes: no_operator.
func (os *Operators) ResetOperator(ctx context.Context, name string) (code string, now Operator, err error) {
	code = secret()
	now, err = os.changeOperator(ctx, name, func(c *change, o *storepb.Operator) error {
		o.Password, o.Secret, o.Spent = "", nil, 0
		o.Epoch++
		c.openCode(o, code)
		return nil
	})
	return code, now, err
}

// RemoveOperator removes an operator and ends their sessions. Codes: no_operator.
func (os *Operators) RemoveOperator(ctx context.Context, name string) error {
	return os.change(ctx, func(c *change) error {
		if _, err := c.mustOperator(ctx, name); err != nil {
			return err
		}
		c.Put(store.Operators, 0, []byte(name), nil)
		// A later operator of the same name must not get these sessions.
		sessions, err := os.operatorSessions(ctx)
		for _, s := range sessions {
			if s.Operator == name {
				c.Put(store.OperatorSessions, 0, s.sum, nil)
			}
		}
		return err
	})
}

// Enrollment describes what a code is for.
type Enrollment struct {
	Name       string // of the operator; "": the code is that of the setup link
	Scopes     []string
	TenantName string
	Expires    time.Time
	Secret     []byte // a new one, for a second factor
}

// BeginEnrollment returns what a code is for, and a new secret. Codes: setup_closed.
func (os *Operators) BeginEnrollment(ctx context.Context, code string) (Enrollment, error) {
	name, o, expires, err := os.begin().codeOf(ctx, code)
	if err != nil {
		return Enrollment{}, err
	}
	e := Enrollment{Name: name, Scopes: []string{ScopeAdmin}, Expires: expires, Secret: random(totpSecret)}
	if o != nil {
		e.Scopes = o.Scopes
		e.TenantName, err = os.users.TenantName(ctx, im.Tenant(o.Tenant))
	}
	return e, err
}

// codeOf finds the operator for whom a code was made, and when the code expires. An empty name and nil mean the
// setup code, for which expires is only an upper bound. Codes: setup_closed.
func (c *change) codeOf(ctx context.Context,
	code string) (name string, o *storepb.Operator, expires time.Time, err error) {
	sum := sha256.Sum256([]byte(code))
	open, closed, err := c.setups(ctx)
	if err != nil {
		return "", nil, expires, err
	}
	i := slices.IndexFunc(open, func(e []byte) bool { return bytes.Equal(e[:sha256.Size], sum[:]) })
	if i >= 0 && !closed {
		return "", nil, c.os.o.Now().Add(SetupTime), nil
	}
	all, err := c.os.operatorRecords(ctx)
	if err != nil {
		return "", nil, expires, err
	}
	for _, x := range all {
		if bytes.Equal(x.Code, sum[:]) && x.CodeExpiresMs > c.os.nowMs() {
			if o, err = c.operator(ctx, x.name); err != nil || o == nil || !bytes.Equal(o.Code, sum[:]) {
				break // changed meanwhile
			}
			return x.name, o, at(o.CodeExpiresMs), nil
		}
	}
	if err == nil {
		err = &im.Error{Code: im.CodeSetupClosed}
	}
	return "", nil, expires, err
}

// Enrolled is the result of Enroll.
type Enrolled struct {
	Session  Session
	AdminKey string // the first one, with the setup code; else ""
}

// Enroll sets the password and the second factor of the operator for whom a code was made, and logs them in. With
// the setup code it makes a new operator and the first admin key. With that key an operator who loses the second
// factor can get in again. Codes: setup_closed, invalid, weak_password, bad_credentials, operator_exists,
// overloaded.
func (os *Operators) Enroll(ctx context.Context, code, name, password, secretText, digits string) (*Enrolled, error) {
	if err := checkOperatorName(name); err != nil {
		return nil, err
	}
	factor, err := parseSecret(secretText)
	if err != nil {
		return nil, err
	}
	if _, err := os.BeginEnrollment(ctx, code); err != nil { // before it costs a hash
		return nil, err
	}
	if err := os.users.Passwords.Check(im.User(name), password); err != nil {
		return nil, err
	}
	step := checkTOTP(factor, digits, os.o.Now(), 0)
	if step == 0 {
		return nil, im.Errorf(im.CodeBadCredentials,
			"these are not the digits that the app shows now; is the clock right?")
	}
	hash, err := os.users.Passwords.Hash(ctx, true, password)
	if err != nil {
		return nil, err
	}
	var e *Enrolled
	err = os.change(ctx, func(c *change) error {
		e = &Enrolled{}
		of, o, _, err := c.codeOf(ctx, code)
		switch {
		case err != nil:
			return err
		case o == nil: // the setup code
			if o, err = c.operator(ctx, name); err != nil {
				return err
			}
			if o != nil {
				return im.Errorf(im.CodeOperatorExists, "there is an operator %s", name)
			}
			o = &storepb.Operator{CreatedMs: os.nowMs(), Scopes: []string{ScopeAdmin}}
			e.AdminKey = keyPrefix + secret()
			c.putSetups(nil)
			if err := c.putKey(e.AdminKey, &storepb.Token{Name: "setup", Scopes: []string{ScopeAdmin}}); err != nil {
				return err
			}
		case of != name:
			return im.Errorf(im.CodeInvalid, "this code is for the operator %s", of)
		}
		o.Password, o.Secret, o.Spent = hash, factor, step
		o.Code, o.CodeExpiresMs, o.LoggedInMs = nil, 0, os.nowMs()
		o.Epoch++
		if e.Session, err = c.beginSession(ctx, &storepb.OperatorSession{Operator: name, Epoch: o.Epoch}); err != nil {
			return err
		}
		if e.Session.Key, err = os.operatorKey(ctx, name, o); err != nil {
			return err
		}
		return c.putOperator(name, o)
	})
	if err != nil {
		return nil, err
	}
	return e, nil
}

// LogInOperator logs an operator in. Wrong names, passwords and digits have the same answer, and wrong names cost
// the same work as wrong passwords. Codes: bad_credentials, rate_limited, overloaded.
func (os *Operators) LogInOperator(ctx context.Context, name, password, digits string,
	remote netip.Addr) (Session, error) {
	if err := os.admit(ctx, name, remote); err != nil {
		return Session{}, err
	}
	var o *storepb.Operator
	if checkOperatorName(name) == nil {
		var err error
		if o, err = os.begin().operator(ctx, name); err != nil {
			return Session{}, err
		}
	}
	may := o != nil && !o.Disabled && o.Password != ""
	stored := os.users.Passwords.DummyHash
	if may {
		stored = o.Password
	}
	ok, _, err := os.users.Passwords.Verify(ctx, false, stored, password)
	if err != nil {
		return Session{}, err
	}
	bad := im.Errorf(im.CodeBadCredentials, "name, password or digits are wrong; digits work once")
	if !ok || !may {
		return Session{}, bad
	}
	var s Session
	err = os.change(ctx, func(c *change) error {
		o, err := c.operator(ctx, name)
		if err != nil {
			return err
		}
		if o == nil || o.Disabled || o.Password != stored { // changed meanwhile
			return bad
		}
		step := checkTOTP(o.Secret, digits, os.o.Now(), o.Spent)
		if step == 0 {
			return bad
		}
		o.Spent, o.LoggedInMs = step, os.nowMs()
		if s, err = c.beginSession(ctx, &storepb.OperatorSession{Operator: name, Epoch: o.Epoch}); err != nil {
			return err
		}
		if s.Key, err = os.operatorKey(ctx, name, o); err != nil {
			return err
		}
		return c.putOperator(name, o)
	})
	return s, err
}

// LogInKey begins a session of an admin key, so that the client need not keep the key. Only wrong keys count
// against the limit of the address: nobody guesses a right one, and its holder gets in whatever others have tried
// from the same address. Codes: bad_credentials, rate_limited.
func (os *Operators) LogInKey(ctx context.Context, key string, remote netip.Addr) (Session, error) {
	k, err := os.AuthenticateKey(ctx, key)
	if im.CodeOf(err) == im.CodeUnauthenticated {
		if err := os.admitHost(remote); err != nil {
			return Session{}, err
		}
		return Session{}, im.Errorf(im.CodeBadCredentials, "there is no such admin key")
	}
	if err != nil {
		return Session{}, err
	}
	var s Session
	sum := sha256.Sum256([]byte(key))
	err = os.change(ctx, func(c *change) (err error) {
		s, err = c.beginSession(ctx, &storepb.OperatorSession{Key: sum[:]})
		s.Key = k
		return err
	})
	return s, err
}

// admit counts a try to log in against the limits of the address, of the address at this name, and of all
// addresses at this name. The last one may delay the try. Codes: rate_limited.
func (os *Operators) admit(ctx context.Context, name string, remote netip.Addr) error {
	now, limit := os.o.Now(), rate.Per(os.o.Logins, time.Minute, os.o.Logins)
	if err := os.admitHost(remote); err != nil {
		return err
	}
	who := password.Key{User: im.User(name[:min(len(name), maxOperatorName)])}
	if remote.IsValid() {
		who.Host = rate.Host(remote)
		if err := os.attempts.Of.Take(now, who, limit); err != nil {
			return err
		}
		who.Host = netip.Prefix{}
	}
	return os.attempts.TakeTurn(ctx, now, who, limit)
}

// admitHost counts a try to log in from an address. Codes: rate_limited.
func (os *Operators) admitHost(remote netip.Addr) error {
	return os.attempts.Hosts.Take(os.o.Now(), remote, rate.Per(os.o.LoginsPerIP, time.Minute, os.o.LoginsPerIP))
}
