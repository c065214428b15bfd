package api

import (
	"context"
	"github.com/petrel-im/petrel/internal/operator"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// CreateKey makes an admin key and shows it once. Spec: P-10.6.
func (s *Server) CreateKey(ctx context.Context, r *petrelv1.CreateKeyRequest) (*petrelv1.CreateKeyResponse, error) {
	key, k, err := s.o.Operators.CreateKey(ctx, r.Name, r.Tenant, r.Scopes)
	if err != nil {
		return nil, err
	}
	return &petrelv1.CreateKeyResponse{Key: key, Info: keyInfo(k)}, nil
}

// ListKeys lists the admin keys, oldest first.
func (s *Server) ListKeys(ctx context.Context, _ *petrelv1.ListKeysRequest) (*petrelv1.ListKeysResponse, error) {
	keys, err := s.o.Operators.Keys(ctx)
	if err != nil {
		return nil, err
	}
	res := &petrelv1.ListKeysResponse{}
	for _, k := range keys {
		res.Keys = append(res.Keys, keyInfo(k))
	}
	return res, nil
}

// RevokeKey makes an admin key void.
func (s *Server) RevokeKey(ctx context.Context, r *petrelv1.RevokeKeyRequest) (*petrelv1.RevokeKeyResponse, error) {
	if err := s.o.Operators.RevokeKey(ctx, r.Id); err != nil {
		return nil, err
	}
	return &petrelv1.RevokeKeyResponse{}, nil
}

func keyInfo(k operator.Key) *petrelv1.KeyInfo {
	return &petrelv1.KeyInfo{Id: k.ID, Name: k.Name, Tenant: k.TenantName, Scopes: k.Scopes,
		CreatedMs: uint64(k.Created.UnixMilli())}
}
