package api

import (
	"context"
	"errors"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/user"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// identity returns the user who calls. Only methods that need an access token may call it.
func identity(ctx context.Context) user.Identity { return callOf(ctx).caller.identity }

// GetAccount describes the caller.
func (s *Server) GetAccount(ctx context.Context, _ *petrelv1.GetAccountRequest) (*petrelv1.Account, error) {
	return ownAccount(s.users.Account(ctx, identity(ctx).Account))
}

// UpdateAccount changes what others see of the caller.
func (s *Server) UpdateAccount(ctx context.Context, r *petrelv1.UpdateAccountRequest) (*petrelv1.Account, error) {
	a := identity(ctx).Account
	return ownAccount(s.users.UpdateAccount(ctx, a, r.DisplayName))
}

// SetAddPolicy sets who may add the caller to groups. Spec: P-8.8.
func (s *Server) SetAddPolicy(ctx context.Context, r *petrelv1.SetAddPolicyRequest) (*petrelv1.Account, error) {
	a := identity(ctx).Account
	return ownAccount(s.users.SetAddPolicy(ctx, a, user.AddPolicy(r.Policy)))
}

// SetForwardPolicy sets whether forwards of the caller's messages name the caller. Spec: P-5.10.
func (s *Server) SetForwardPolicy(ctx context.Context, r *petrelv1.SetForwardPolicyRequest) (*petrelv1.Account, error) {
	a := identity(ctx).Account
	return ownAccount(s.users.SetForwardPolicy(ctx, a, user.ForwardPolicy(r.Policy)))
}

// SetPresencePolicy sets who may see when the caller is online. Spec: P-13.6.
func (s *Server) SetPresencePolicy(ctx context.Context,
	r *petrelv1.SetPresencePolicyRequest) (*petrelv1.Account, error) {
	a := identity(ctx).Account
	info, err := s.users.SetPresencePolicy(ctx, a, user.PresencePolicy(r.Policy))
	if err == nil {
		s.o.PresenceChanged(a)
	}
	return ownAccount(info, err)
}

// GetUser describes another user of the caller's tenant.
func (s *Server) GetUser(ctx context.Context, r *petrelv1.GetUserRequest) (*petrelv1.Account, error) {
	a := identity(ctx).Account
	if err := s.users.AllowLookUp(a); err != nil {
		return nil, err
	}
	return account(s.users.Account(ctx, im.Account{Tenant: a.Tenant, User: im.User(r.User)}))
}

// ownAccount returns the caller's account, with the fields that others do not see.
func ownAccount(i user.Info, err error) (*petrelv1.Account, error) {
	res, err := account(i, err)
	res.AddPolicy, res.ForwardPolicy, res.PresencePolicy = petrelv1.AddPolicy(i.AddPolicy),
		petrelv1.ForwardPolicy(i.Forwards), petrelv1.PresencePolicy(i.Presence)
	return res, err
}

func account(i user.Info, err error) (*petrelv1.Account, error) {
	return &petrelv1.Account{User: string(i.User), DisplayName: i.DisplayName,
		CreatedMs: uint64(i.Created.UnixMilli())}, err
}

// ChangePassword changes the caller's password. It voids the tokens of all their other devices, and ends the
// sessions of these.
func (s *Server) ChangePassword(ctx context.Context,
	r *petrelv1.ChangePasswordRequest) (*petrelv1.ChangePasswordResponse, error) {
	id := identity(ctx)
	ended, err := s.users.ChangePassword(ctx, id.Account, r.OldPassword, r.NewPassword, id.Device)
	if err != nil {
		return nil, err
	}
	res := &petrelv1.ChangePasswordResponse{}
	var failed error // a device that cannot be closed must not keep the others open
	for _, device := range ended {
		n, err := s.o.CloseDevice(ctx, id.Account, device, im.CodeRevoked)
		failed = errors.Join(failed, err)
		s.noteRevoked(ctx, id.Account, device)
		res.Sessions += uint32(n)
	}
	if failed != nil {
		return nil, failed
	}
	return res, nil
}

// entryID returns the client message id of the entry that a call makes. If the call has a request id, its repeat
// gets the same client message id, and so finds the entry. Spec: P-12.4.
func entryID(request string) string {
	if request == "" {
		return randomID()
	}
	return "r:" + request
}

// account returns the user whom a request of the operator names. Codes: invalid, no_user.
func (s *Server) account(ctx context.Context, tenant, name string) (im.Account, error) {
	t, err := s.users.Tenant(ctx, tenant)
	if err != nil {
		return im.Account{}, err
	}
	a := im.Account{Tenant: t, User: im.User(name)}
	ok, err := s.users.Exists(ctx, a)
	if err == nil && !ok {
		err = im.Errorf(im.CodeNoUser, "there is no user %.64s", name)
	}
	if err != nil {
		return im.Account{}, err
	}
	return a, nil
}
