package api

import (
	"context"
	"strconv"
	"time"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/internal/user"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// GetTenant describes a tenant.
func (s adminService) GetTenant(ctx context.Context, r *connect.Request[petrelv1.GetTenantRequest]) (*connect.Response[petrelv1.TenantInfo], error) {
	return tenantInfo(s.users.DescribeTenant(ctx, r.Msg.Tenant))
}

// SetRegistration says who may register in a tenant. Spec: P-11.1.
func (s adminService) SetRegistration(ctx context.Context, r *connect.Request[petrelv1.SetRegistrationRequest]) (*connect.Response[petrelv1.TenantInfo], error) {
	was, before := user.TenantInfo{}, ""
	if t, err := s.users.DescribeTenant(ctx, r.Msg.Tenant); err == nil {
		was, before = t, petrelv1.Registration(t.Set).String()
	}
	now, err := s.users.SetRegistration(ctx, r.Msg.Tenant, user.Registration(r.Msg.Registration), r.Msg.StrictIds)
	changed(ctx, "registration", before, petrelv1.Registration(now.Set).String())
	if r.Msg.StrictIds != nil {
		changed(ctx, "strict_ids", strconv.FormatBool(was.StrictIDs), strconv.FormatBool(now.StrictIDs))
	}
	return tenantInfo(now, err)
}

// CreateInvitation makes a code with which people register. Spec: P-11.1.
func (s adminService) CreateInvitation(ctx context.Context, r *connect.Request[petrelv1.CreateInvitationRequest]) (*connect.Response[petrelv1.CreateInvitationResponse], error) {
	m := r.Msg
	const day = 24 * 60 * 60 // seconds
	code, expires, err := s.users.Invite(ctx, m.Tenant, int(m.Uses), time.Duration(min(m.TtlS, 1000*day))*time.Second)
	return respond(&petrelv1.CreateInvitationResponse{Code: code, ExpiresMs: uint64(expires.UnixMilli())}, err)
}

func tenantInfo(i user.TenantInfo, err error) (*connect.Response[petrelv1.TenantInfo], error) {
	return respond(&petrelv1.TenantInfo{
		Tenant: i.Name, Registration: petrelv1.Registration(i.Set), Effective: petrelv1.Registration(i.Effective), StrictIds: i.StrictIDs,
	}, err)
}
