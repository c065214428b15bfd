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
	store store.Store
	log   *slog.Logger
	now   func() time.Time

	// turn orders the changes that read before they write: who puts the token
	// in makes one. Logins do not wait for it.
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

// update writes records as one unit. Codes: disk_full.
func (us *Users) update(ctx context.Context, puts []store.RecordPut) error {
	err := us.store.Update(ctx, puts)
	if errors.Is(err, store.ErrFull) {
		return &im.Error{Code: im.CodeDiskFull, RetryAfter: 5 * time.Second}
	}
	return err
}

// Options tune Users.
type Options struct {
	Log *slog.Logger
	Now func() time.Time // token times; nil: the wall clock
}

// New opens the accounts of a store.
func New(ctx context.Context, o Options, st store.Store) (*Users, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	us := &Users{store: st, log: o.Log, now: o.Now, turn: make(chan struct{}, 1), tenants: map[string]im.Tenant{DefaultTenantName: im.DefaultTenant}}
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
	put := store.RecordPut{Table: store.Tenants, Key: []byte(name), Value: value, IfAbsent: true}
	// Not given up on with the caller: a number of which it is unknown whether it
	// was written could be given out twice.
	if err := us.update(context.WithoutCancel(ctx), []store.RecordPut{put}); err != nil {
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

// Create makes the users that do not exist, and a token for each; all of it in
// one commit. Codes: invalid.
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
	for {
		issued, puts, err := us.prepare(ctx, t, tenantName, users)
		if err != nil {
			return nil, err
		}
		if err = us.update(ctx, puts); !errors.Is(err, store.ErrExists) {
			return issued, err
		}
		// Somebody made one of them meanwhile: look again.
	}
}

func (us *Users) prepare(ctx context.Context, t im.Tenant, tenantName string, users []im.User) ([]Issued, []store.RecordPut, error) {
	var issued []Issued
	var puts []store.RecordPut
	made := map[im.User]bool{}
	for _, u := range users {
		rec, err := us.read(ctx, im.Account{Tenant: t, User: u})
		if err != nil {
			return nil, nil, err
		}
		created := rec == nil && !made[u]
		if rec == nil {
			rec = &storepb.User{CreatedMs: uint64(us.now().UnixMilli())}
		}
		if created {
			made[u] = true
			value, err := rec.MarshalVT()
			if err != nil {
				return nil, nil, err
			}
			puts = append(puts, store.RecordPut{Table: store.Users, Tenant: t, Key: []byte(u), Value: value, IfAbsent: true})
		}
		token, put, err := us.newToken(t, tenantName, u, rec.Epoch)
		if err != nil {
			return nil, nil, err
		}
		issued = append(issued, Issued{u, token, created})
		puts = append(puts, put)
	}
	return issued, puts, nil
}

// Revoke makes every token of a user void. The caller closes the sessions.
// Codes: no_user.
func (us *Users) Revoke(ctx context.Context, a im.Account) error {
	if err := us.begin(ctx); err != nil { // two revocations at once must not write the same epoch
		return err
	}
	defer func() { <-us.turn }()
	u, err := us.read(ctx, a)
	if err != nil {
		return err
	}
	if u == nil {
		return im.Errorf(im.CodeNoUser, "there is no user %.64s", a.User)
	}
	u.Epoch++
	value, err := u.MarshalVT()
	if err != nil {
		return err
	}
	return us.update(ctx, []store.RecordPut{{Table: store.Users, Tenant: a.Tenant, Key: []byte(a.User), Value: value}})
}
