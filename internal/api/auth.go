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
func (s *Server) Register(ctx context.Context, r *connect.Request[petrelv1.RegisterRequest]) (*connect.Response[petrelv1.LoginResponse], error) {
	m := r.Msg
	n := user.Newcomer{Tenant: m.Tenant, User: im.User(m.User), Password: m.Password, DisplayName: m.DisplayName, Invitation: m.Invitation}
	l, err := s.users.Register(ctx, n, deviceRef(m.Device), remote(r))
	return s.loggedIn(ctx, l, err)
}

// Login logs a device in with a password. Spec: P-11.2.
func (s *Server) Login(ctx context.Context, r *connect.Request[petrelv1.LoginRequest]) (*connect.Response[petrelv1.LoginResponse], error) {
	m := r.Msg
	l, err := s.users.LogIn(ctx, m.Tenant, im.User(m.User), m.Password, deviceRef(m.Device), remote(r))
	return s.loggedIn(ctx, l, err)
}

// Exchange logs a device in with a JWT of the identity provider. Spec: P-11.2.
func (s *Server) Exchange(ctx context.Context, r *connect.Request[petrelv1.ExchangeRequest]) (*connect.Response[petrelv1.LoginResponse], error) {
	l, err := s.users.Exchange(ctx, r.Msg.Tenant, r.Msg.Token, deviceRef(r.Msg.Device))
	return s.loggedIn(ctx, l, err)
}

// Refresh turns a refresh token into a new pair. One that is used again ends
// the device. Spec: P-11.3.
func (s *Server) Refresh(ctx context.Context, r *connect.Request[petrelv1.RefreshRequest]) (*connect.Response[petrelv1.LoginResponse], error) {
	l, err := s.users.Refresh(ctx, r.Msg.RefreshToken, r.Msg.RequestId)
	if err != nil {
		if l != nil { // refresh_reused
			for _, device := range l.Ended {
				s.endDevice(ctx, l.Account, device, im.CodeRevoked)
				s.noteSession(ctx, l.Account, device, l.Number, true)
			}
		}
		return nil, err
	}
	return connect.NewResponse(s.tokens(ctx, l)), nil
}

// loggedIn ends the sessions that a login ends, and tells of it.
func (s *Server) loggedIn(ctx context.Context, l *user.Login, err error) (*connect.Response[petrelv1.LoginResponse], error) {
	if err != nil {
		return nil, err
	}
	for _, device := range l.Ended {
		s.endDevice(ctx, l.Account, device, im.CodeReplaced)
	}
	s.noteSession(ctx, l.Account, l.Device, l.Number, false)
	return connect.NewResponse(s.tokens(ctx, l)), nil
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

// remote is the caller's address; the zero value when there is none.
func remote(r connect.AnyRequest) netip.Addr {
	return addrOf(r.Peer().Addr)
}
