package api

import (
	"context"
	"net/netip"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/rate"
	"github.com/petrel-im/petrel/internal/user"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Register makes a user with a password and logs their first device in.
// Spec: P-11.1.
func (s *Server) Register(ctx context.Context, r *petrelv1.RegisterRequest) (*petrelv1.LoginResponse, error) {
	n := user.Newcomer{Tenant: r.Tenant, User: im.User(r.User), Password: r.Password, DisplayName: r.DisplayName,
		Invitation: r.Invitation}
	l, err := s.users.Register(ctx, n, deviceRef(r.Device), callOf(ctx).remote)
	return s.loggedIn(ctx, l, err)
}

// Login logs a device in with a password. Spec: P-11.2.
func (s *Server) Login(ctx context.Context, r *petrelv1.LoginRequest) (*petrelv1.LoginResponse, error) {
	l, err := s.users.LogIn(ctx, r.Tenant, im.User(r.User), r.Password, deviceRef(r.Device), callOf(ctx).remote,
		r.Restore)
	return s.loggedIn(ctx, l, err)
}

// Exchange logs a device in with a JWT of the identity provider. Spec: P-11.2.
func (s *Server) Exchange(ctx context.Context, r *petrelv1.ExchangeRequest) (*petrelv1.LoginResponse, error) {
	l, err := s.users.Exchange(ctx, r.Tenant, r.Token, deviceRef(r.Device), r.Restore)
	return s.loggedIn(ctx, l, err)
}

// Refresh exchanges a refresh token for a new pair of tokens. A token that is used a second time ends its device.
// Spec: P-11.3.
func (s *Server) Refresh(ctx context.Context, r *petrelv1.RefreshRequest) (*petrelv1.LoginResponse, error) {
	l, err := s.users.Refresh(ctx, r.RefreshToken, r.RequestId)
	if err != nil {
		if l != nil { // refresh_reused
			for _, device := range l.Ended {
				s.endDevice(ctx, l.Account, device, im.CodeRevoked)
				s.noteSession(ctx, l.Account, device, l.Number, true)
			}
		}
		return nil, err
	}
	return s.tokens(ctx, l), nil
}

// loggedIn concludes a login: it ends the sessions of the devices that the login has replaced, writes the login
// into the user's inbox, and returns the tokens. If err is not nil, it only returns err.
func (s *Server) loggedIn(ctx context.Context, l *user.Login, err error) (*petrelv1.LoginResponse, error) {
	if err != nil {
		return nil, err
	}
	for _, device := range l.Ended {
		s.endDevice(ctx, l.Account, device, im.CodeReplaced)
	}
	s.noteSession(ctx, l.Account, l.Device, l.Number, false)
	if l.Renamed {
		s.o.UserChanged(l.Account)
	}
	return s.tokens(ctx, l), nil
}

func (s *Server) tokens(ctx context.Context, l *user.Login) *petrelv1.LoginResponse {
	rate.Vouch(ctx)
	return &petrelv1.LoginResponse{
		User: string(l.Account.User), Device: l.Device,
		AccessToken: l.Access, AccessExpiresMs: uint64(l.AccessExpires.UnixMilli()),
		RefreshToken: l.Refresh, RefreshExpiresMs: uint64(l.RefreshExpires.UnixMilli()),
		Gateways: s.o.Cluster.Gateways(l.Account),
	}
}

func deviceRef(d *petrelv1.DeviceRef) user.DeviceRef {
	return user.DeviceRef{ID: d.GetId(), Kind: d.GetKind(), Name: d.GetName()}
}

// remote returns the caller's address; the zero value when there is none.
func remote(r connect.AnyRequest) netip.Addr {
	return addrOf(r.Peer().Addr)
}
