package api

import (
	"context"
	"strconv"
	"time"

	"github.com/petrel-im/petrel/internal/user"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// GetTenant describes a tenant.
func (s *Server) GetTenant(ctx context.Context, r *petrelv1.GetTenantRequest) (*petrelv1.TenantInfo, error) {
	return tenantInfo(s.users.DescribeTenant(ctx, r.Tenant))
}

// SetRegistration sets who may register in a tenant. Spec: P-11.1.
func (s *Server) SetRegistration(ctx context.Context,
	r *petrelv1.SetRegistrationRequest) (*petrelv1.TenantInfo, error) {
	was, before := user.TenantInfo{}, ""
	if t, err := s.users.DescribeTenant(ctx, r.Tenant); err == nil {
		was, before = t, petrelv1.Registration(t.Set).String()
	}
	now, err := s.users.SetRegistration(ctx, r.Tenant, user.Registration(r.Registration), r.StrictIds)
	recordChange(ctx, "registration", before, petrelv1.Registration(now.Set).String())
	if r.StrictIds != nil {
		recordChange(ctx, "strict_ids", strconv.FormatBool(was.StrictIDs), strconv.FormatBool(now.StrictIDs))
	}
	return tenantInfo(now, err)
}

// CreateInvitation makes a code for a registration. Spec: P-11.1.
func (s *Server) CreateInvitation(ctx context.Context,
	r *petrelv1.CreateInvitationRequest) (*petrelv1.CreateInvitationResponse, error) {
	const day = 24 * 60 * 60 // seconds
	code, expires, err := s.users.Invite(ctx, r.Tenant, int(r.Uses), time.Duration(min(r.TtlS, 1000*day))*time.Second)
	return &petrelv1.CreateInvitationResponse{Code: code, ExpiresMs: uint64(expires.UnixMilli())}, err
}

func tenantInfo(i user.TenantInfo, err error) (*petrelv1.TenantInfo, error) {
	return &petrelv1.TenantInfo{
		Tenant: i.Name, Registration: petrelv1.Registration(i.Set), Effective: petrelv1.Registration(i.Effective),
		StrictIds: i.StrictIDs, Managed: i.Managed, FirstMessages: petrelv1.FirstMessages(i.First),
		ReportContext: i.ReportContext,
	}, err
}
