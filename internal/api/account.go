package api

import (
	"context"
	"errors"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/user"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// identity is the user who calls. Only methods that ask for an access token may
// ask.
func identity(ctx context.Context) user.Identity { return callOf(ctx).caller.identity }

// GetAccount describes the caller.
func (s *Server) GetAccount(ctx context.Context, _ *connect.Request[petrelv1.GetAccountRequest]) (*connect.Response[petrelv1.Account], error) {
	return ownAccount(s.users.Account(ctx, identity(ctx).Account))
}

// UpdateAccount changes what others see of the caller.
func (s *Server) UpdateAccount(ctx context.Context, r *connect.Request[petrelv1.UpdateAccountRequest]) (*connect.Response[petrelv1.Account], error) {
	a := identity(ctx).Account
	if err := s.pace(a); err != nil {
		return nil, err
	}
	return ownAccount(s.users.UpdateAccount(ctx, a, r.Msg.DisplayName))
}

// SetAddPolicy says who may add the caller to groups. Spec: P-8.8.
func (s *Server) SetAddPolicy(ctx context.Context, r *connect.Request[petrelv1.SetAddPolicyRequest]) (*connect.Response[petrelv1.Account], error) {
	a := identity(ctx).Account
	if err := s.pace(a); err != nil {
		return nil, err
	}
	return ownAccount(s.users.SetAddPolicy(ctx, a, user.AddPolicy(r.Msg.Policy)))
}

// SetForwardPolicy says whether forwards name the caller. Spec: P-5.10.
func (s *Server) SetForwardPolicy(ctx context.Context, r *connect.Request[petrelv1.SetForwardPolicyRequest]) (*connect.Response[petrelv1.Account], error) {
	a := identity(ctx).Account
	if err := s.pace(a); err != nil {
		return nil, err
	}
	return ownAccount(s.users.SetForwardPolicy(ctx, a, user.ForwardPolicy(r.Msg.Policy)))
}

// SetPresencePolicy says who may see when the caller is online. Spec: P-13.6.
func (s *Server) SetPresencePolicy(ctx context.Context, r *connect.Request[petrelv1.SetPresencePolicyRequest]) (*connect.Response[petrelv1.Account], error) {
	a := identity(ctx).Account
	if err := s.pace(a); err != nil {
		return nil, err
	}
	info, err := s.users.SetPresencePolicy(ctx, a, user.PresencePolicy(r.Msg.Policy))
	if err == nil {
		s.o.PresenceChanged(a)
	}
	return ownAccount(info, err)
}

// GetUser describes another user of the caller's tenant.
func (s *Server) GetUser(ctx context.Context, r *connect.Request[petrelv1.GetUserRequest]) (*connect.Response[petrelv1.Account], error) {
	a := identity(ctx).Account
	if err := s.users.AllowLookUp(a); err != nil {
		return nil, err
	}
	return account(s.users.Account(ctx, im.Account{Tenant: a.Tenant, User: im.User(r.Msg.User)}))
}

// ownAccount is the caller's account with what others do not see.
func ownAccount(i user.Info, err error) (*connect.Response[petrelv1.Account], error) {
	res, err := account(i, err)
	if err != nil {
		return nil, err
	}
	res.Msg.AddPolicy, res.Msg.ForwardPolicy = petrelv1.AddPolicy(i.AddPolicy), petrelv1.ForwardPolicy(i.Forwards)
	res.Msg.PresencePolicy = petrelv1.PresencePolicy(i.Presence)
	return res, nil
}

func account(i user.Info, err error) (*connect.Response[petrelv1.Account], error) {
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&petrelv1.Account{User: string(i.User), DisplayName: i.DisplayName, CreatedMs: uint64(i.Created.UnixMilli())}), nil
}

// ChangePassword voids the tokens of all other devices.
func (s *Server) ChangePassword(ctx context.Context, r *connect.Request[petrelv1.ChangePasswordRequest]) (*connect.Response[petrelv1.ChangePasswordResponse], error) {
	id := identity(ctx)
	ended, err := s.users.ChangePassword(ctx, id.Account, r.Msg.OldPassword, r.Msg.NewPassword, id.Device)
	if err != nil {
		return nil, err
	}
	res := &petrelv1.ChangePasswordResponse{}
	var failed error // one that cannot be closed does not keep the others open
	for _, device := range ended {
		n, err := s.o.CloseDevice(ctx, id.Account, device, im.CodeRevoked)
		failed = errors.Join(failed, err)
		s.noteRevoked(ctx, id.Account, device)
		res.Sessions += uint32(n)
	}
	if failed != nil {
		return nil, failed
	}
	return connect.NewResponse(res), nil
}

// entryID is the id of the entry that a call makes: a repeat of the call meets
// the entry. Spec: P-12.4.
func entryID(request string) string {
	if request == "" {
		return randomID()
	}
	return "r:" + request
}

// account finds a user whom the operator names. Codes: invalid, no_user.
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
