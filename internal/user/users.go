// Package user keeps the accounts: tenants, users, their devices and access tokens. Of tokens and invitations
// the store has only the SHA-256, of passwords only slow hashes (package password).
package user

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/petrel-im/petrel/internal/idp"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/password"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/transaction"
)

// Users are the accounts of all tenants.
type Users struct {
	store  store.Store
	secret [16]byte // of the store; the key of mac
	ids    *im.IDs  // of the store
	log    *slog.Logger
	now    func() time.Time
	o      Options
	idp    atomic.Pointer[idp.Provider] // nil: none is configured
	rates  rates
	txs    *transaction.Manager

	Passwords *password.Passwords

	firstRules sync.Map // im.Tenant: firstRule

	mu      sync.Mutex           // tier 0; guards the field below
	tenants map[string]im.Tenant // those that this node has met; a number never changes
}

// New opens the accounts of a store. If the identity provider publishes
// its keys, they are kept up to date until ctx ends.
func New(ctx context.Context, o Options, st store.Store) (*Users, error) {
	o.fill()
	us := &Users{
		store: st, secret: st.Info().Secret, ids: im.NewIDs(st.Info().Secret), log: o.Log, now: o.Now, o: o,
		txs: transaction.New(st), tenants: map[string]im.Tenant{DefaultTenantName: im.DefaultTenant},
	}
	var err error
	if us.Passwords, err = password.New(o.PasswordWork, o.StolenPasswords, reserved); err != nil {
		return nil, err
	}
	if o.JWT != nil {
		us.o.JWT.Tenant = named(o.JWT.Tenant)
		p, err := idp.New(ctx, o.Log, o.JWT)
		if err != nil {
			return nil, err
		}
		us.idp.Store(p)
	}
	if _, err := us.readTenants(ctx); err != nil {
		return nil, err
	}
	return us, nil
}

// Exists tells whether a user exists.
func (us *Users) Exists(ctx context.Context, a im.Account) (bool, error) {
	u, err := us.read(ctx, a)
	return u != nil, err
}

func (us *Users) read(ctx context.Context, a im.Account) (*storepb.User, error) {
	value, err := us.store.Record(ctx, store.Users, a.Tenant, []byte(a.User))
	if err != nil {
		return nil, err
	}
	return transaction.Parse[storepb.User]("user", value)
}

// NewJWTKey checks a new value of Options.JWT.Key, and returns a function that puts it in the place of the
// former key. The other options stay. It is only for options without KeysURL.
func (us *Users) NewJWTKey(ctx context.Context, key []byte) (use func(), err error) {
	o := *us.o.JWT
	o.Key = key
	p, err := idp.New(ctx, us.log, &o)
	if err != nil {
		return nil, err
	}
	return func() { us.idp.Store(p) }, nil
}

// Issued is a fresh access token. It is not kept anywhere in clear.
type Issued struct {
	User    im.User
	Token   string
	Created bool // false: the user was there
}

// Create makes the users that do not exist, and for each user a token that has no device and does not expire.
// All is one commit. The tenant is made first, if there is none. Codes: invalid; forbidden: one of the users is
// disabled, and no user and no token was made.
func (us *Users) Create(ctx context.Context, tenantName string, users []im.User) ([]Issued, error) {
	for _, u := range users {
		if err := u.Check(); err != nil {
			return nil, err
		}
	}
	t, err := us.EnsureTenant(ctx, tenantName)
	if err != nil {
		return nil, err
	}
	accounts := make([]im.Account, len(users))
	for i, u := range users {
		accounts[i] = im.Account{Tenant: t, User: u}
	}
	var issued []Issued
	err = us.change(ctx, accounts, func(c *change) error {
		issued = issued[:0]
		there, err := c.users(ctx, accounts)
		if err != nil {
			return err
		}
		recs := map[im.User]*storepb.User{}
		for _, a := range accounts {
			rec, seen := recs[a.User]
			created := false
			if !seen {
				rec = there[a.User]
				switch created = rec == nil; {
				case created:
					rec = us.newUser()
					if err := c.claim(ctx, a, false, false); err != nil {
						return err
					}
				case rec.Disabled:
					return im.Errorf(im.CodeForbidden, "user %s is disabled", a.User)
				case rec.LeavingMs > 0:
					return im.Errorf(im.CodeForbidden, "user %s has deleted the account", a.User)
				}
				// Also for an existing user: a revocation between the read of the epoch and the
				// commit would void the new token.
				if err := c.putUser(a, rec); err != nil {
					return err
				}
				recs[a.User] = rec
			}
			token := accessToken(tenantName, a.User, secret())
			if err := c.putToken(t, token, &storepb.Token{User: string(a.User), Epoch: rec.Epoch}); err != nil {
				return err
			}
			issued = append(issued, Issued{a.User, token, created})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return issued, nil
}

func (us *Users) newUser() *storepb.User { return &storepb.User{CreatedMs: us.nowMs()} }

func (us *Users) nowMs() uint64 { return uint64(us.now().UnixMilli()) }
