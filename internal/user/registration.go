package user

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// Registration says who may make an account with a password. The numbers are those of
// petrel.v1.Registration, and part of the format.
type Registration uint32

// Who may register in a tenant.
const (
	AsConfigured Registration = 0
	Open         Registration = 1
	ByInvitation Registration = 2
	Closed       Registration = 3
)

// TenantInfo describes a tenant.
type TenantInfo struct {
	Name      string
	Set       Registration // of this tenant; AsConfigured: nothing was set
	Effective Registration // what holds
}

// effective is what holds in a tenant for which set was set. Without any setting, the
// default tenant is open where only this host reaches the server: people try it out there.
// Everywhere else strangers make no accounts until the operator says so.
func (us *Users) effective(t im.Tenant, set Registration) Registration {
	switch {
	case set != AsConfigured:
		return set
	case us.o.Registration != AsConfigured:
		return us.o.Registration
	case t == im.DefaultTenant && us.o.Loopback != nil && us.o.Loopback():
		return Open
	}
	return Closed
}

// DescribeTenant describes a tenant. Codes: invalid.
func (us *Users) DescribeTenant(ctx context.Context, name string) (TenantInfo, error) {
	t, err := us.Tenant(ctx, name)
	if err != nil {
		return TenantInfo{}, err
	}
	set, err := us.registration(ctx, named(name))
	return TenantInfo{Name: named(name), Set: set, Effective: us.effective(t, set)}, err
}

// registration is what was set for a tenant.
func (us *Users) registration(ctx context.Context, name string) (Registration, error) {
	value, err := us.store.Record(ctx, store.Tenants, 0, []byte(name))
	if err != nil || value == nil {
		return AsConfigured, err
	}
	return parseRegistration(name, value)
}

func parseRegistration(name string, value []byte) (Registration, error) {
	var rec storepb.Tenant
	if err := rec.UnmarshalVT(value); err != nil {
		return AsConfigured, fmt.Errorf("read tenant %s: %w", name, store.ErrCorrupt)
	}
	return Registration(rec.Registration), nil
}

// SetRegistration says who may register in a tenant, which is made if there is none.
// Codes: invalid.
func (us *Users) SetRegistration(ctx context.Context, name string, r Registration) (TenantInfo, error) {
	if r > Closed {
		return TenantInfo{}, im.Errorf(im.CodeInvalid, "registration is open, by invitation or closed")
	}
	name = named(name)
	t, err := us.EnsureTenant(ctx, name)
	if err != nil {
		return TenantInfo{}, err
	}
	err = us.change(ctx, []im.Account{server}, func(c *change) error {
		value, err := c.record(ctx, store.Tenants, 0, []byte(name))
		rec := storepb.Tenant{Number: uint32(t), Name: name}
		if err == nil && value != nil && rec.UnmarshalVT(value) != nil {
			err = fmt.Errorf("read tenant %s: %w", name, store.ErrCorrupt)
		}
		if err != nil {
			return err
		}
		rec.Registration = uint32(r)
		if value, err = rec.MarshalVT(); err == nil {
			c.put(store.Tenants, 0, []byte(name), value)
		}
		return err
	})
	return TenantInfo{Name: name, Set: r, Effective: us.effective(t, r)}, err
}

// invitationPrefix makes codes recognisable to secret scanners.
const invitationPrefix = "pi_"

const (
	maxInvitationTTL  = 366 * 24 * time.Hour
	maxInvitationUses = 10_000
)

// Invite makes a code with which uses people may register in a tenant. 0 uses means
// 1, and a ttl of 0 means 7 days. Codes: invalid.
func (us *Users) Invite(ctx context.Context, tenantName string, uses int, ttl time.Duration) (code string, expires time.Time, err error) {
	if uses == 0 {
		uses = 1
	}
	if ttl == 0 {
		ttl = 7 * 24 * time.Hour
	}
	if uses < 0 || uses > maxInvitationUses || ttl < 0 || ttl > maxInvitationTTL {
		return "", time.Time{}, im.Errorf(im.CodeInvalid, "an invitation has 1 to %d uses and is valid for at most %d days", maxInvitationUses, int(maxInvitationTTL.Hours()/24))
	}
	t, err := us.EnsureTenant(ctx, named(tenantName))
	if err != nil {
		return "", time.Time{}, err
	}
	code, expires = invitationPrefix+secret(), us.now().Add(ttl)
	value, err := (&storepb.Invitation{ExpiresMs: uint64(expires.UnixMilli()), Uses: uint32(uses)}).MarshalVT()
	if err != nil {
		return "", time.Time{}, err
	}
	sum := sha256.Sum256([]byte(code))
	err = us.update(ctx, []store.RecordPut{{Table: store.Invitations, Tenant: t, Key: sum[:], Value: value, Check: true}})
	return code, expires, err
}

// admitRegistration tells whether somebody may register in a tenant now, 0 for one that
// does not exist, and uses the invitation up with the change. A tenant that
// does not exist is like one that is closed: its name is not confirmed. Codes: forbidden.
// Spec: P-11.1, P-8.9.
func (c *change) admitRegistration(ctx context.Context, t im.Tenant, n *Newcomer) error {
	sum := sha256.Sum256([]byte(n.Invitation))
	value, err := c.record(ctx, store.Invitations, t, sum[:]) // the same work for every tenant
	if err != nil {
		return err
	}
	if t == 0 {
		return registrationClosed()
	}
	set, err := c.us.registration(ctx, named(n.Tenant))
	if err != nil {
		return err
	}
	switch r := c.us.effective(t, set); {
	case r == Open:
		return nil
	case r != ByInvitation || value == nil:
		return registrationClosed()
	}
	var rec storepb.Invitation
	if rec.UnmarshalVT(value) != nil {
		return fmt.Errorf("read invitation: %w", store.ErrCorrupt)
	}
	if rec.ExpiresMs <= c.us.nowMs() || rec.Uses == 0 {
		return registrationClosed()
	}
	if rec.Uses--; rec.Uses == 0 {
		c.put(store.Invitations, t, sum[:], nil)
		return nil
	}
	if value, err = rec.MarshalVT(); err == nil {
		c.put(store.Invitations, t, sum[:], value)
	}
	return err
}

func registrationClosed() error {
	return im.Errorf(im.CodeForbidden, "registration is closed, or by an invitation that is valid")
}
