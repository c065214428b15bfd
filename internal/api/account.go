package api

import (
	"context"
	"errors"

	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/user"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// identity returns the user who calls. Only methods that need an access token may call it.
func identity(ctx context.Context) user.Identity { return callOf(ctx).caller.identity }

// GetAccount describes the caller.
func (s *Server) GetAccount(ctx context.Context, _ *petrelv1.GetAccountRequest) (*petrelv1.Account, error) {
	a := identity(ctx).Account
	i, p, err := s.users.Own(ctx, a)
	return s.ownAccount(ctx, a, i, p, err)
}

// UpdateAccount changes the caller's profile. Spec: P-14.1.
func (s *Server) UpdateAccount(ctx context.Context, r *petrelv1.UpdateAccountRequest) (*petrelv1.Account, error) {
	a := identity(ctx).Account
	if err := s.store(ctx, proto.Size(r)); err != nil {
		return nil, err
	}
	if r.GetHandle() != "" { // handle_taken would tell for nothing which names exist
		if err := s.takeLookUp(ctx, a, handleName(r.GetHandle())); err != nil {
			return nil, err
		}
	}
	i, p, err := s.users.UpdateAccount(ctx, a, &user.ProfileChange{DisplayName: r.DisplayName, About: r.About,
		Handle: r.Handle, Fields: r.Fields, Visibility: visibility(r.Visibility)})
	if err == nil {
		s.o.UserChanged(a)
	}
	return s.ownAccount(ctx, a, i, p, err)
}

// SetAddPolicy sets who may add the caller to groups. Spec: P-8.8.
func (s *Server) SetAddPolicy(ctx context.Context, r *petrelv1.SetAddPolicyRequest) (*petrelv1.Account, error) {
	a := identity(ctx).Account
	i, p, err := s.users.SetAddPolicy(ctx, a, user.AddPolicy(r.Policy))
	return s.ownAccount(ctx, a, i, p, err)
}

// SetForwardPolicy sets whether forwards of the caller's messages name the caller. Spec: P-5.10.
func (s *Server) SetForwardPolicy(ctx context.Context, r *petrelv1.SetForwardPolicyRequest) (*petrelv1.Account, error) {
	a := identity(ctx).Account
	i, p, err := s.users.SetForwardPolicy(ctx, a, user.ForwardPolicy(r.Policy))
	return s.ownAccount(ctx, a, i, p, err)
}

// SetPresencePolicy sets who may see when the caller is online. Spec: P-13.6.
func (s *Server) SetPresencePolicy(ctx context.Context,
	r *petrelv1.SetPresencePolicyRequest) (*petrelv1.Account, error) {
	a := identity(ctx).Account
	i, p, err := s.users.SetPresencePolicy(ctx, a, user.PresencePolicy(r.Policy))
	if err == nil {
		s.o.UserChanged(a)
	}
	return s.ownAccount(ctx, a, i, p, err)
}

// SetFirstMessages sets what becomes of first messages to the caller. Spec: P-14.11.
func (s *Server) SetFirstMessages(ctx context.Context, r *petrelv1.SetFirstMessagesRequest) (*petrelv1.Account, error) {
	a := identity(ctx).Account
	i, p, err := s.users.SetFirstMessages(ctx, a, user.FirstMessages(r.FirstMessages))
	return s.ownAccount(ctx, a, i, p, err)
}

// SetPrivateReading sets whether others learn how far the caller has read. Spec: P-14.14.
func (s *Server) SetPrivateReading(ctx context.Context,
	r *petrelv1.SetPrivateReadingRequest) (*petrelv1.Account, error) {
	a := identity(ctx).Account
	i, p, err := s.users.SetPrivateReading(ctx, a, r.Private)
	if err == nil {
		err = s.o.Announce(ctx, a, i.Standing)
	}
	return s.ownAccount(ctx, a, i, p, err)
}

// ownAccount returns the caller's account, with the fields that others do not see.
func (s *Server) ownAccount(ctx context.Context, a im.Account, i user.Info, p user.Profile,
	err error) (*petrelv1.Account, error) {
	if err != nil {
		return nil, err
	}
	res := account(i, p)
	rule, err := s.users.FirstMessageRule(ctx, a.Tenant)
	if err != nil {
		return nil, err
	}
	res.PrivateReading = i.Standing.PrivateReading
	res.FirstMessages, res.FirstMessagesDefault = petrelv1.FirstMessages(i.First), petrelv1.FirstMessages(rule)
	res.AddPolicy, res.ForwardPolicy, res.PresencePolicy = petrelv1.AddPolicy(i.AddPolicy),
		petrelv1.ForwardPolicy(i.Forwards), petrelv1.PresencePolicy(i.Presence)
	return res, nil
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
