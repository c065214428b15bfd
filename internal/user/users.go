// Package user keeps the accounts: tenants, users, access tokens, admin keys
// and the one-time setup code. Secrets are stored as SHA-256 only.
package user

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// Users are the accounts of all tenants.
type Users struct {
	store  store.Store
	secret [16]byte // of the store; key of what is derived from tokens
	log    *slog.Logger
	now    func() time.Time
	o      Options
	jwt    *verifier // nil: none is configured
	hasher hasher
	rates  rates

	// turn orders the changes: who puts the token in reads, writes, and takes it
	// out when the outcome is known. Authentication does not wait for it.
	turn  chan struct{} // capacity 1
	setup setupCode     // of who has the turn

	mu      sync.Mutex // tier 0; guards the field below
	tenants map[string]im.Tenant
}

// begin takes the turn; the caller gives it back with <-us.turn.
func (us *Users) begin(ctx context.Context) error {
	select {
	case us.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for another change of accounts: %w", ctx.Err())
	}
}

// update writes records as one unit, by who has the turn. It is not given up on
// with the caller: who has the next turn reads what came of it. Codes: disk_full.
func (us *Users) update(ctx context.Context, puts []store.RecordPut) error {
	err := us.store.Update(context.WithoutCancel(ctx), puts)
	if errors.Is(err, store.ErrFull) {
		return &im.Error{Code: im.CodeDiskFull, RetryAfter: 5 * time.Second}
	}
	return err
}

// New opens the accounts of a store.
func New(ctx context.Context, o Options, st store.Store) (*Users, error) {
	o.fill()
	us := &Users{
		store: st, secret: st.Info().Secret, log: o.Log, now: o.Now, o: o, hasher: newHasher(),
		turn: make(chan struct{}, 1), tenants: map[string]im.Tenant{DefaultTenantName: im.DefaultTenant},
	}
	if o.JWT != nil {
		var err error
		if us.jwt, err = newVerifier(o.JWT); err != nil {
			return nil, err
		}
	}
	var bad error
	err := st.Records(ctx, store.Tenants, 0, nil, func(key, value []byte) bool {
		var t storepb.Tenant
		if bad = t.UnmarshalVT(value); bad == nil {
			us.tenants[t.Name] = im.Tenant(t.Number)
		}
		return bad == nil
	})
	if err == nil {
		err = bad
	}
	if err != nil {
		return nil, fmt.Errorf("read tenants: %w", err)
	}
	return us, nil
}

// DefaultTenantName is the tenant that needs no configuration.
const DefaultTenantName = "default"

// Tenant finds a tenant by name; "" is the default one. Codes: invalid.
func (us *Users) Tenant(name string) (im.Tenant, error) {
	if name == "" {
		name = DefaultTenantName
	}
	us.mu.Lock()
	defer us.mu.Unlock()
	t, ok := us.tenants[name]
	if !ok {
		return 0, im.Errorf(im.CodeInvalid, "there is no tenant %.40q", name)
	}
	return t, nil
}

// EnsureTenant finds a tenant or makes it. Codes: invalid.
func (us *Users) EnsureTenant(ctx context.Context, name string) (im.Tenant, error) {
	if t, err := us.Tenant(name); err == nil {
		return t, nil
	}
	if err := im.User(name).Check(); err != nil || len(name) > maxTenantName || strings.Contains(name, ".") {
		return 0, im.Errorf(im.CodeInvalid, "a tenant's name has 1 to %d letters, digits and _ @ + -", maxTenantName)
	}
	if err := us.begin(ctx); err != nil {
		return 0, err
	}
	defer func() { <-us.turn }()
	if t, err := us.Tenant(name); err == nil {
		return t, nil
	}
	t := us.nextTenant()
	value, err := (&storepb.Tenant{Number: uint32(t), Name: name}).MarshalVT()
	if err != nil {
		return 0, err
	}
	put := store.RecordPut{Table: store.Tenants, Key: []byte(name), Value: value, Check: true}
	if err := us.update(ctx, []store.RecordPut{put}); err != nil {
		return 0, fmt.Errorf("make tenant %s: %w", name, err)
	}
	us.mu.Lock()
	defer us.mu.Unlock()
	us.tenants[name] = t
	return t, nil
}

func (us *Users) nextTenant() im.Tenant {
	us.mu.Lock()
	defer us.mu.Unlock()
	t := im.DefaultTenant
	for _, n := range us.tenants {
		t = max(t, n)
	}
	return t + 1
}

// maxTenantName is in bytes; the name is part of tokens.
const maxTenantName = 32

// Exists tells whether a user was made.
func (us *Users) Exists(ctx context.Context, a im.Account) (bool, error) {
	u, err := us.read(ctx, a)
	return u != nil, err
}

func (us *Users) read(ctx context.Context, a im.Account) (*storepb.User, error) {
	value, err := us.store.Record(ctx, store.Users, a.Tenant, []byte(a.User))
	if err != nil || value == nil {
		return nil, err
	}
	u := &storepb.User{}
	if err := u.UnmarshalVT(value); err != nil {
		return nil, fmt.Errorf("read user %s: %w", a, store.ErrCorrupt)
	}
	return u, nil
}

// Issued is a fresh access token. It is not kept anywhere in clear.
type Issued struct {
	User    im.User
	Token   string
	Created bool // false: the user was there
}

// Create makes the users that do not exist, and a token for each that belongs to
// no device and does not expire; all of it in one commit. Codes: invalid.
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
	// A revocation between the look at a user's epoch and the commit would make
	// the new token void.
	if err := us.begin(ctx); err != nil {
		return nil, err
	}
	defer func() { <-us.turn }()
	var issued []Issued
	var puts []store.RecordPut
	made := map[im.User]bool{}
	for _, u := range users {
		a := im.Account{Tenant: t, User: u}
		rec, err := us.read(ctx, a)
		if err != nil {
			return nil, err
		}
		created := rec == nil && !made[u]
		if rec == nil {
			rec = us.newUser()
		}
		if created {
			made[u] = true
			if puts, err = putUser(puts, a, rec); err != nil {
				return nil, err
			}
		}
		token := accessToken(tenantName, u, secret())
		if puts, err = us.putToken(puts, t, token, &storepb.Token{User: string(u), Epoch: rec.Epoch}); err != nil {
			return nil, err
		}
		issued = append(issued, Issued{u, token, created})
	}
	return issued, us.update(ctx, puts)
}

func (us *Users) newUser() *storepb.User { return &storepb.User{CreatedMs: us.nowMs()} }

func (us *Users) nowMs() uint64 { return uint64(us.now().UnixMilli()) }

func putUser(puts []store.RecordPut, a im.Account, u *storepb.User) ([]store.RecordPut, error) {
	value, err := u.MarshalVT()
	return append(puts, store.RecordPut{Table: store.Users, Tenant: a.Tenant, Key: []byte(a.User), Value: value}), err
}
