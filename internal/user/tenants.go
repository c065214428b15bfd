package user

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/transaction"
)

// DefaultTenantName is the tenant that needs no configuration.
const DefaultTenantName = "default"

// lastTenant is the key of the setting with the last assigned number. Older stores have no such setting.
var lastTenant = []byte("tenant")

// readTenants reads all tenants, and returns the highest number.
func (us *Users) readTenants(ctx context.Context) (im.Tenant, error) {
	last := im.DefaultTenant
	err := transaction.Each(ctx, us.store, "tenant", store.Tenants, 0, nil, func(_, _ []byte, t *storepb.Tenant) {
		us.knowTenant(t.Name, im.Tenant(t.Number))
		last = max(last, im.Tenant(t.Number))
	})
	return last, err
}

func (us *Users) knowTenant(name string, t im.Tenant) {
	us.mu.Lock()
	defer us.mu.Unlock()
	us.tenants[name] = t
}

// Tenant finds a tenant by name; "" is the default one. Codes: invalid.
func (us *Users) Tenant(ctx context.Context, name string) (im.Tenant, error) {
	if name == "" {
		name = DefaultTenantName
	}
	us.mu.Lock()
	t, ok := us.tenants[name]
	us.mu.Unlock()
	if ok {
		return t, nil
	}
	if im.IsTenantName(name) { // another node may have made it
		value, err := us.store.Record(ctx, store.Tenants, 0, []byte(name))
		if err != nil {
			return 0, err
		}
		if value != nil {
			return us.tenantOf(name, value)
		}
	}
	return 0, im.Errorf(im.CodeInvalid, "there is no tenant %.40q", name)
}

func (us *Users) tenantOf(name string, value []byte) (im.Tenant, error) {
	var t storepb.Tenant
	if t.UnmarshalVT(value) != nil || t.Name != name {
		return 0, fmt.Errorf("read tenant %s: %w", name, store.ErrCorrupt)
	}
	us.knowTenant(t.Name, im.Tenant(t.Number))
	return im.Tenant(t.Number), nil
}

// EnsureTenant finds a tenant or makes it. Codes: invalid.
func (us *Users) EnsureTenant(ctx context.Context, name string) (im.Tenant, error) {
	t, err := us.Tenant(ctx, name)
	if err == nil || im.CodeOf(err) != im.CodeInvalid {
		return t, err
	}
	if !im.IsTenantName(name) {
		return 0, im.Errorf(im.CodeInvalid, "a tenant's name has 1 to %d letters, digits and _ @ + -", im.MaxTenantName)
	}
	err = us.change(ctx, []im.Account{transaction.Server}, func(c *change) error {
		value, err := c.Record(ctx, store.Tenants, 0, []byte(name))
		if err == nil && value != nil {
			t, err = us.tenantOf(name, value)
			return err
		}
		if err == nil {
			t, err = c.nextTenant(ctx)
		}
		if err == nil {
			value, err = (&storepb.Tenant{Number: uint32(t), Name: name}).MarshalVT()
		}
		c.Put(store.Tenants, 0, []byte(name), value)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("make tenant %s: %w", name, err)
	}
	us.knowTenant(name, t)
	return t, nil
}

// nextTenant returns the next number. Two tenants with one number would see each other,
// so a simultaneous assignment on another node fails at the setting, which both write.
func (c *change) nextTenant(ctx context.Context) (im.Tenant, error) {
	value, err := c.Record(ctx, store.Settings, 0, lastTenant)
	if err != nil {
		return 0, err
	}
	last, err := c.us.readTenants(ctx)
	if err != nil {
		return 0, err
	}
	if len(value) == 4 {
		last = max(last, im.Tenant(binary.BigEndian.Uint32(value)))
	}
	last++
	c.Put(store.Settings, 0, lastTenant, binary.BigEndian.AppendUint32(nil, uint32(last)))
	return last, nil
}

// TenantName returns a tenant's name; "" for 0 and for an unknown number.
func (us *Users) TenantName(ctx context.Context, t im.Tenant) (string, error) {
	if t == 0 {
		return "", nil
	}
	if name := us.knownTenantName(t); name != "" {
		return name, nil
	}
	_, err := us.readTenants(ctx) // another node has made it
	return us.knownTenantName(t), err
}

func (us *Users) knownTenantName(t im.Tenant) string {
	us.mu.Lock()
	defer us.mu.Unlock()
	for name, n := range us.tenants {
		if n == t {
			return name
		}
	}
	return ""
}

// Tenants describes all tenants, by name. The default one is among them.
func (us *Users) Tenants(ctx context.Context) ([]TenantInfo, error) {
	names := map[string]bool{DefaultTenantName: true}
	err := us.store.Records(ctx, store.Tenants, 0, nil, func(key, _ []byte) bool {
		names[string(key)] = true
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("list tenants: %w", err)
	}
	var list []TenantInfo
	for _, name := range slices.Sorted(maps.Keys(names)) {
		t, err := us.DescribeTenant(ctx, name)
		if err != nil {
			return nil, err
		}
		list = append(list, t)
	}
	return list, nil
}
