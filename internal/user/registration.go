package user

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/transaction"
)

// Registration says who may make an account with a password. The numbers are those of
// petrel.v1.Registration, and stored.
type Registration uint32

// These values of Registration say who may register in a tenant.
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
	Effective Registration // the rule in force
	StrictIDs bool         // an id that reads as an existing one is refused
	Managed   []string     // fields of profiles that only the back end changes, ascending
	First     FirstMessages

	ReportContext uint32 // messages that a report keeps beside the reported one; 0: it keeps none, also not that one
}

// effective returns the rule in force in a tenant with the setting set. Without a setting, the
// default tenant is open if only this host reaches the server, so that people can try it out.
// Otherwise registration is closed until the operator opens it.
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
	value, err := us.store.Record(ctx, store.Tenants, 0, []byte(named(name)))
	if err != nil {
		return TenantInfo{}, err
	}
	return us.tenantInfo(named(name), t, value)
}

// tenantInfo describes tenant t by its record; nil: there is no record.
func (us *Users) tenantInfo(name string, t im.Tenant, value []byte) (TenantInfo, error) {
	rec, err := parseTenant(value)
	set := Registration(rec.GetRegistration())
	return TenantInfo{Name: name, Set: set, Effective: us.effective(t, set), StrictIDs: rec.GetStrictIds(),
		Managed: rec.GetManaged(), First: FirstMessages(rec.GetFirstMessages()), ReportContext: reportContext(rec)}, err
}

// parseTenant parses a tenant's record. An empty one gives the zero Tenant.
func parseTenant(value []byte) (*storepb.Tenant, error) {
	return transaction.Parse[storepb.Tenant]("tenant", append([]byte{}, value...))
}

// SetRegistration sets who may register in a tenant, and makes the tenant if there is none. strictIDs sets
// whether an id that reads as an existing one is refused; nil: as before. Codes: invalid.
func (us *Users) SetRegistration(ctx context.Context, name string, r Registration,
	strictIDs *bool) (TenantInfo, error) {
	if r > Closed {
		return TenantInfo{}, im.Errorf(im.CodeInvalid, "registration is open, by invitation or closed")
	}
	return us.changeTenant(ctx, name, func(rec *storepb.Tenant) {
		rec.Registration = uint32(r)
		if strictIDs != nil {
			rec.StrictIds = *strictIDs
		}
	})
}

// changeTenant changes a tenant's record by f, and makes the tenant if there is none. Codes: invalid.
func (us *Users) changeTenant(ctx context.Context, name string, f func(*storepb.Tenant)) (info TenantInfo, err error) {
	name = named(name)
	t, err := us.EnsureTenant(ctx, name)
	if err != nil {
		return TenantInfo{}, err
	}
	err = us.change(ctx, []im.Account{transaction.Server}, func(c *change) error {
		value, err := c.Record(ctx, store.Tenants, 0, []byte(name))
		if err != nil {
			return err
		}
		rec, err := parseTenant(value)
		if err != nil {
			return err
		}
		rec.Number, rec.Name = uint32(t), name
		f(rec)
		if value, err = rec.MarshalVT(); err == nil {
			c.Put(store.Tenants, 0, []byte(name), value)
			info, err = us.tenantInfo(name, t, value)
		}
		return err
	})
	return info, err
}

// invitationPrefix makes codes recognisable to secret scanners.
const invitationPrefix = "pi_"

const (
	maxInvitationTTL  = 366 * 24 * time.Hour
	maxInvitationUses = 10_000
)

// Invite makes a code with which so many people as uses may register in a tenant. 0 uses means 1, and a ttl of
// 0 means 7 days. Codes: invalid.
func (us *Users) Invite(ctx context.Context, tenantName string, uses int,
	ttl time.Duration) (code string, expires time.Time, err error) {
	if uses == 0 {
		uses = 1
	}
	if ttl == 0 {
		ttl = 7 * 24 * time.Hour
	}
	if uses < 0 || uses > maxInvitationUses || ttl < 0 || ttl > maxInvitationTTL {
		return "", time.Time{}, im.Errorf(im.CodeInvalid,
			"an invitation has 1 to %d uses and is valid for at most %d days", maxInvitationUses,
			int(maxInvitationTTL.Hours()/24))
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
	err = us.txs.Update(ctx, store.RecordPut{Table: store.Invitations, Tenant: t, Key: sum[:], Value: value,
		Check: true})
	return code, expires, err
}

// admitRegistration decides whether a newcomer may register in a tenant (0: it does not exist) under an id that
// looks like no other, and takes one use of the invitation in the same change. A missing tenant gets the answer
// of a closed one, so that the answer does not tell which tenants exist. Codes: forbidden, invalid,
// user_exists. Spec: P-11.1, P-8.9.
func (c *change) admitRegistration(ctx context.Context, t im.Tenant, n *Newcomer) error {
	sum := sha256.Sum256([]byte(n.Invitation))
	value, err := c.Record(ctx, store.Invitations, t, sum[:]) // the same work for every tenant
	if err != nil {
		return err
	}
	if t == 0 {
		return registrationClosed()
	}
	tenant, err := c.us.DescribeTenant(ctx, n.Tenant)
	if err != nil {
		return err
	}
	if r := tenant.Effective; r != Open {
		if r != ByInvitation || value == nil {
			return registrationClosed()
		}
		if err := c.useInvitation(t, sum[:], value); err != nil {
			return err
		}
	}
	if err := checkName(n.User, n.DisplayName); err != nil {
		return err
	}
	if n.DisplayName != "" {
		if err := c.us.mayChange(ctx, t, &ProfileChange{DisplayName: &n.DisplayName}); err != nil {
			return err
		}
	}
	return c.claim(ctx, im.Account{Tenant: t, User: n.User}, true, tenant.StrictIDs)
}

// useInvitation takes one use of an invitation, if it is valid. Codes: forbidden.
func (c *change) useInvitation(t im.Tenant, key, value []byte) (err error) {
	var rec storepb.Invitation
	if rec.UnmarshalVT(value) != nil {
		return fmt.Errorf("read invitation: %w", store.ErrCorrupt)
	}
	if rec.ExpiresMs <= c.us.nowMs() || rec.Uses == 0 {
		return registrationClosed()
	}
	if rec.Uses--; rec.Uses == 0 {
		c.Put(store.Invitations, t, key, nil)
		return nil
	}
	if value, err = rec.MarshalVT(); err == nil {
		c.Put(store.Invitations, t, key, value)
	}
	return err
}

func registrationClosed() error {
	return im.Errorf(im.CodeForbidden, "registration is closed, or needs a valid invitation")
}
