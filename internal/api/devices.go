package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/inbox"
	"github.com/petrel-im/petrel/internal/user"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// ListDevices lists the caller's devices. Spec: P-11.5.
func (s *Server) ListDevices(ctx context.Context,
	_ *petrelv1.ListDevicesRequest) (*petrelv1.ListDevicesResponse, error) {
	id := identity(ctx)
	list, _, err := s.devices(ctx, id.Account, id.Device)
	if err != nil {
		return nil, err
	}
	return &petrelv1.ListDevicesResponse{Devices: list}, nil
}

// RenameDevice gives one of the caller's devices a name.
func (s *Server) RenameDevice(ctx context.Context, r *petrelv1.RenameDeviceRequest) (*petrelv1.Device, error) {
	id := identity(ctx)
	d, err := s.users.RenameDevice(ctx, id.Account, r.Device, r.Name)
	if err != nil {
		return nil, err
	}
	n, err := s.o.Sessions(ctx, id.Account)
	if err != nil {
		return nil, err
	}
	return device(d, n[d.ID], id.Device), nil
}

// RevokeDevice ends one of the caller's devices. Spec: P-11.5.
func (s *Server) RevokeDevice(ctx context.Context,
	r *petrelv1.RevokeDeviceRequest) (*petrelv1.RevokeDeviceResponse, error) {
	return s.revokeDevice(ctx, identity(ctx).Account, r.Device)
}

// Logout ends the device that calls. A token that belongs to no device cannot be told from the user's others,
// so the call is refused.
func (s *Server) Logout(ctx context.Context, _ *petrelv1.LogoutRequest) (*petrelv1.LogoutResponse, error) {
	id := identity(ctx)
	if id.Device == "" {
		return nil, im.Errorf(im.CodeNoDevice, "this token belongs to no device")
	}
	if _, err := s.revokeDevice(ctx, id.Account, id.Device); err != nil {
		return nil, err
	}
	return &petrelv1.LogoutResponse{}, nil
}

// AdminRevokeDevice ends a device of any user, for the operator.
func (s *Server) AdminRevokeDevice(ctx context.Context, a im.Account,
	r *petrelv1.AdminRevokeDeviceRequest) (*petrelv1.RevokeDeviceResponse, error) {
	return s.revokeDevice(ctx, a, r.Device)
}

func (s *Server) revokeDevice(ctx context.Context, a im.Account, id string) (*petrelv1.RevokeDeviceResponse, error) {
	if err := s.users.RevokeDevice(ctx, a, id); err != nil {
		return nil, err
	}
	n, err := s.o.CloseDevice(ctx, a, id, im.CodeRevoked)
	if err != nil {
		return nil, err
	}
	s.noteRevoked(ctx, a, id)
	return &petrelv1.RevokeDeviceResponse{Sessions: uint32(n)}, nil
}

// devices lists a user's devices and counts the present sessions, with those that belong to no device. current is
// the device that calls; "": none.
func (s *Server) devices(ctx context.Context, a im.Account,
	current string) (list []*petrelv1.Device, sessions int, err error) {
	known, err := s.users.Devices(ctx, a)
	if err != nil {
		return nil, 0, err
	}
	n, err := s.o.Sessions(ctx, a)
	if err != nil {
		return nil, 0, err
	}
	for _, d := range known {
		list = append(list, device(d, n[d.ID], current))
	}
	for _, n := range n {
		sessions += n
	}
	return list, sessions, nil
}

func device(d user.Device, sessions int, current string) *petrelv1.Device {
	return &petrelv1.Device{
		Id: d.ID, Kind: d.Kind, Name: d.Name, Client: d.Client, LoginMs: uint64(d.LoggedIn.UnixMilli()),
		LoginNumber: d.Login,
		Sessions:    uint32(sessions), Current: d.ID == current, Revoked: d.Revoked,
	}
}

// endDevice ends the sessions of a device. It only logs an error: their tokens are void already, so no session
// comes back.
func (s *Server) endDevice(ctx context.Context, a im.Account, device string, code im.Code) {
	if _, err := s.o.CloseDevice(ctx, a, device, code); err != nil {
		s.log.WarnContext(ctx, "end sessions of a device failed", "user", string(a.User), "device", device, "req",
			callOf(ctx).id, "err", err)
	}
}

// noteRevoked writes the revocation of a device into the user's inbox, under the number of the device's login.
func (s *Server) noteRevoked(ctx context.Context, a im.Account, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	known, err := s.users.Devices(ctx, a)
	if err != nil {
		s.log.WarnContext(ctx, "write revocation into inbox failed", "user", string(a.User), "device", id, "req",
			callOf(ctx).id, "err", err)
		return
	}
	for _, d := range known {
		if d.ID == id {
			s.noteSession(ctx, a, id, d.Login, true)
		}
	}
}

// noteSession writes a login or a revocation into the user's inbox. It only logs an error: the login or
// revocation stands. Spec: P-11.5.
func (s *Server) noteSession(ctx context.Context, a im.Account, device string, login uint64, revoked bool) {
	if device == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	sum := sha256.Sum256([]byte(device))
	k := fmt.Sprintf("session:%s:%d:%t", hex.EncodeToString(sum[:8]), login, revoked)
	e := &petrelv1.InboxEntry{Entry: &petrelv1.InboxEntry_Session{Session: &petrelv1.InboxSession{Device: device,
		Revoked: revoked}}}
	if _, err := inbox.Write(ctx, s.convs, a, e, k); err != nil {
		s.log.WarnContext(ctx, "write login into inbox failed", "user", string(a.User), "device", device, "req",
			callOf(ctx).id, "err", err)
	}
}
