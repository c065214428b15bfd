package api

import (
	"context"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/internal/user"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// CreateKey makes an admin key and shows it once. Spec: P-10.6.
func (s adminService) CreateKey(ctx context.Context, r *connect.Request[petrelv1.CreateKeyRequest]) (*connect.Response[petrelv1.CreateKeyResponse], error) {
	key, k, err := s.users.CreateKey(ctx, r.Msg.Name, r.Msg.Tenant, r.Msg.Scopes)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&petrelv1.CreateKeyResponse{Key: key, Info: keyInfo(k)}), nil
}

// ListKeys lists the admin keys, oldest first.
func (s adminService) ListKeys(ctx context.Context, _ *connect.Request[petrelv1.ListKeysRequest]) (*connect.Response[petrelv1.ListKeysResponse], error) {
	keys, err := s.users.Keys(ctx)
	if err != nil {
		return nil, err
	}
	res := &petrelv1.ListKeysResponse{}
	for _, k := range keys {
		res.Keys = append(res.Keys, keyInfo(k))
	}
	return connect.NewResponse(res), nil
}

// RevokeKey makes an admin key void.
func (s adminService) RevokeKey(ctx context.Context, r *connect.Request[petrelv1.RevokeKeyRequest]) (*connect.Response[petrelv1.RevokeKeyResponse], error) {
	if err := s.users.RevokeKey(ctx, r.Msg.Id); err != nil {
		return nil, err
	}
	return connect.NewResponse(&petrelv1.RevokeKeyResponse{}), nil
}

func keyInfo(k user.Key) *petrelv1.KeyInfo {
	return &petrelv1.KeyInfo{Id: k.ID, Name: k.Name, Tenant: k.TenantName, Scopes: k.Scopes, CreatedMs: uint64(k.Created.UnixMilli())}
}
