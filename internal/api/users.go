package api

import (
	"context"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/user"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// maxUsers bounds the users that one call makes.
const maxUsers = 1000

// CreateUsers makes users, and a token for each. A user who exists gets only the token.
func (s *Server) CreateUsers(ctx context.Context,
	r *petrelv1.CreateUsersRequest) (*petrelv1.CreateUsersResponse, error) {
	if n := len(r.Users); n == 0 || n > maxUsers {
		return nil, im.Errorf(im.CodeInvalid, "users has 1 to %d entries", maxUsers)
	}
	list := make([]im.User, len(r.Users))
	for i, u := range r.Users {
		list[i] = im.User(u)
	}
	issued, err := s.users.Create(ctx, r.Tenant, list)
	if err != nil {
		return nil, err
	}
	res := &petrelv1.CreateUsersResponse{}
	for _, i := range issued {
		res.Tokens = append(res.Tokens, &petrelv1.UserToken{User: string(i.User), Token: i.Token, Created: i.Created})
	}
	return res, nil
}

// RevokeTokens ends a user's tokens, then their sessions.
func (s *Server) RevokeTokens(ctx context.Context, t im.Tenant,
	r *petrelv1.RevokeTokensRequest) (*petrelv1.RevokeTokensResponse, error) {
	a := im.Account{Tenant: t, User: im.User(r.User)}
	if err := s.users.Revoke(ctx, a); err != nil {
		return nil, err
	}
	n, err := s.o.CloseUser(ctx, a, im.CodeRevoked)
	if err != nil {
		return nil, err
	}
	return &petrelv1.RevokeTokensResponse{Sessions: uint32(n)}, nil
}

// MintToken logs a device in because the application says who its user is. Spec: P-11.4.
func (s *Server) MintToken(ctx context.Context, r *petrelv1.MintTokenRequest) (*petrelv1.LoginResponse, error) {
	l, err := s.users.Mint(ctx, r.Tenant, im.User(r.User), deviceRef(r.Device), time.Duration(r.TtlS)*time.Second)
	return s.loggedIn(ctx, l, err)
}

// ListUsers lists a page of the users of a tenant, by id or by name, without their devices.
func (s *Server) ListUsers(ctx context.Context, t im.Tenant,
	r *petrelv1.ListUsersRequest) (*petrelv1.ListUsersResponse, error) {
	limit := int(min(r.Limit, user.MaxUsersPage))
	if r.ByName || r.NamePrefix != "" {
		list, next, err := s.users.ListNamed(ctx, t, r.NamePrefix, r.Token, r.Descending, limit)
		return &petrelv1.ListUsersResponse{Users: s.userInfos(t, list), More: len(next) > 0, Token: next}, err
	}
	list, more, err := s.users.List(ctx, t, r.Prefix, im.User(r.After), r.Descending, limit)
	return &petrelv1.ListUsersResponse{Users: s.userInfos(t, list), More: more}, err
}

func (s *Server) userInfos(t im.Tenant, list []user.Info) (all []*petrelv1.UserInfo) {
	for _, i := range list {
		u := userInfo(i)
		a := im.Account{Tenant: t, User: i.User}
		u.Online = s.o.Console.Online(a)
		s.addTaken(u, a)
		all = append(all, u)
	}
	return all
}

// AdminGetUser describes a user with their devices and the whole profile.
func (s *Server) AdminGetUser(ctx context.Context, a im.Account,
	_ *petrelv1.AdminGetUserRequest) (*petrelv1.UserInfo, error) {
	i, p, err := s.users.Own(ctx, a)
	res, err := s.withDevices(ctx, a, i, err)
	if err != nil {
		return nil, err
	}
	res.Profile = account(i, p)
	return res, nil
}

// DisableUser bars all logins of a user and ends their sessions and tokens.
func (s *Server) DisableUser(ctx context.Context, a im.Account,
	_ *petrelv1.DisableUserRequest) (*petrelv1.UserInfo, error) {
	return s.changeUser(ctx, a, im.CodeUserDisabled, func() (user.Info, error) { return s.users.Disable(ctx, a) })
}

// EnableUser lets a disabled user log in again.
func (s *Server) EnableUser(ctx context.Context, a im.Account,
	_ *petrelv1.EnableUserRequest) (*petrelv1.UserInfo, error) {
	return s.changeUser(ctx, a, "", func() (user.Info, error) { return s.users.Enable(ctx, a) })
}

// changeUser changes a user for the operator, then ends the user's sessions with a code; "": they go on.
func (s *Server) changeUser(ctx context.Context, a im.Account, code im.Code,
	change func() (user.Info, error)) (*petrelv1.UserInfo, error) {
	was, err := s.users.Get(ctx, a)
	if err != nil {
		return nil, err
	}
	i, err := change()
	if err == nil {
		recordChange(ctx, "disabled", yesNo(was.Disabled), yesNo(i.Disabled))
		recordChange(ctx, "leaving", yesNo(was.LeavingMs > 0), yesNo(i.LeavingMs > 0))
	}
	if err == nil {
		s.o.UserChanged(a) // a disabled user has no profile
	}
	if err == nil && code != "" {
		_, err = s.o.CloseUser(ctx, a, code)
	}
	return s.withDevices(ctx, a, i, err)
}

// SetPassword sets a user's password, voids all their tokens and ends their sessions.
func (s *Server) SetPassword(ctx context.Context, a im.Account,
	r *petrelv1.SetPasswordRequest) (*petrelv1.UserInfo, error) {
	return s.changeUser(ctx, a, im.CodeRevoked, func() (user.Info,
		error) {
		return s.users.SetPassword(ctx, a, r.Password)
	})
}

// LinkUser lets the identity provider log a user in. Without KeepPassword it removes the password, voids all tokens
// of the user and ends their sessions. Spec: P-11.6.
func (s *Server) LinkUser(ctx context.Context, a im.Account, r *petrelv1.LinkUserRequest) (*petrelv1.UserInfo, error) {
	code := im.CodeRevoked
	if r.KeepPassword {
		code = ""
	}
	return s.changeUser(ctx, a, code, func() (user.Info, error) { return s.users.Link(ctx, a, r.KeepPassword) })
}

// addTaken adds how many bytes a user has stored lately, and their bound.
func (s *Server) addTaken(u *petrelv1.UserInfo, a im.Account) {
	taken, bound := s.o.Stored.Taken(time.Now(), a)
	u.TakenBytes, u.BoundBytes = uint64(taken), uint64(bound)
}

func (s *Server) withDevices(ctx context.Context, a im.Account, i user.Info, err error) (*petrelv1.UserInfo, error) {
	if err != nil {
		return nil, err
	}
	res := userInfo(i)
	list, n, err := s.devices(ctx, a, "")
	if err != nil {
		return nil, err
	}
	res.Devices, res.Sessions, res.Online = list, uint32(n), n > 0
	s.addTaken(res, a)
	return res, nil
}

func userInfo(i user.Info) *petrelv1.UserInfo {
	return &petrelv1.UserInfo{User: string(i.User), DisplayName: i.DisplayName,
		CreatedMs: uint64(i.Created.UnixMilli()), Disabled: i.Disabled, HasPassword: i.HasPassword, Source: i.Source,
		Linked: i.Linked, MutedUntilMs: i.Standing.MutedMs, LeavingMs: i.LeavingMs}
}
