package user

import (
	"context"
	"errors"
	"math"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// Identity is the bearer of an access token.
type Identity struct {
	Account im.Account
	Device  string // empty: the token is bound to no device
	Kind    string // of the device
	Login   uint64 // number of the device's login; 0 without a device
	Epoch   uint64 // token epoch of the user; 0 with a device
	im.Standing
}

// Packed returns the identity with user and device in one piece of memory, for an identity that is kept for long.
func (id Identity) Packed() Identity {
	all := string(id.Account.User) + id.Device
	u := len(id.Account.User)
	id.Account.User, id.Device = im.User(all[:u]), all[u:]
	return id
}

// Authenticate returns the identity of an access token. It reads the store twice for a token
// without a device, and otherwise three times. Codes: unauthenticated, user_disabled. Spec: P-12.2.
func (us *Users) Authenticate(ctx context.Context, token string) (Identity, error) {
	id, err := us.AuthenticateSession(ctx, token)
	if e, ok := errors.AsType[*im.Error](err); ok && (e.Code == im.CodeReplaced || e.Code == im.CodeRevoked) {
		err = &im.Error{Code: im.CodeUnauthenticated}
	}
	return id, err
}

// AuthenticateSession is Authenticate for a hello: its error says whether the token's device was
// replaced or revoked. Codes: unauthenticated, replaced, revoked, user_disabled. Spec: P-3.5.
func (us *Users) AuthenticateSession(ctx context.Context, token string) (Identity, error) {
	bad := &im.Error{Code: im.CodeUnauthenticated}
	a, _, _, ok, err := us.cutToken(ctx, token, tokenPrefix)
	if err != nil {
		return Identity{}, err
	}
	if !ok {
		return Identity{}, bad
	}
	rec, err := us.lookUp(ctx, a.Tenant, token)
	if err != nil {
		return Identity{}, err
	}
	if rec == nil || rec.User != string(a.User) {
		return Identity{}, bad
	}
	u, err := us.read(ctx, a)
	if err != nil {
		return Identity{}, err
	}
	if u == nil {
		return Identity{}, bad
	}
	if u.Disabled {
		return Identity{}, &im.Error{Code: im.CodeUserDisabled}
	}
	a.User = im.User(rec.User) // without a reference to the frame
	id := Identity{Account: a, Standing: standingOf(u)}
	if rec.Device == "" {
		if rec.Epoch != u.Epoch {
			return Identity{}, bad
		}
		id.Epoch = rec.Epoch
	} else {
		d, err := us.device(ctx, a, rec.Device)
		if err != nil {
			return Identity{}, err
		}
		if err := standing(d, rec.Login); err != nil {
			return Identity{}, err
		}
		id.Device, id.Kind, id.Login = rec.Device, d.Kind, rec.Login
	}
	if rec.ExpiresMs != 0 && rec.ExpiresMs <= us.nowMs() {
		return Identity{}, bad
	}
	return id, nil
}

// standing returns nil if the tokens of a device's login are valid. Codes: unauthenticated, replaced, revoked.
func standing(d *storepb.Device, login uint64) error {
	switch {
	case d == nil || d.Login != login:
		return &im.Error{Code: im.CodeUnauthenticated}
	case d.Replaced:
		return &im.Error{Code: im.CodeReplaced}
	case d.Revoked:
		return &im.Error{Code: im.CodeRevoked}
	}
	return nil
}

// Standing returns nil if sessions that began with a token may go on, and what holds for them. They may go on
// after the token has expired. It costs one read of the store, and another one if the answer is
// revoked: a change that voids all tokens of a user, disables the user or changes the standing, also changes each
// device. Codes: replaced, revoked, user_disabled. Spec: P-3.5.
func (us *Users) Standing(ctx context.Context, id Identity) (im.Standing, error) {
	is, err := us.stands(ctx, id)
	if im.CodeOf(err) != im.CodeRevoked {
		return is, err
	}
	u, read := us.read(ctx, id.Account)
	switch {
	case read != nil:
		return im.Standing{}, read
	case u != nil && u.Disabled:
		return im.Standing{}, &im.Error{Code: im.CodeUserDisabled}
	}
	return im.Standing{}, err
}

// stands does what Standing does, without looking whether the user is disabled. Codes: replaced, revoked.
func (us *Users) stands(ctx context.Context, id Identity) (im.Standing, error) {
	if id.Device == "" {
		u, err := us.read(ctx, id.Account)
		if err == nil && (u == nil || u.Epoch != id.Epoch) {
			err = &im.Error{Code: im.CodeRevoked}
		}
		return standingOf(u), err
	}
	d, err := us.device(ctx, id.Account, id.Device)
	if err != nil {
		return im.Standing{}, err
	}
	if d == nil || d.Login != id.Login { // the device was removed, or has logged in again
		return im.Standing{}, &im.Error{Code: im.CodeReplaced}
	}
	return standingOf(d), standing(d, id.Login)
}

// standingOf returns the standing in the record of a user or a device.
func standingOf(r interface {
	GetMutedMs() uint64
	GetPrivateReading() bool
}) im.Standing {
	return im.Standing{MutedMs: r.GetMutedMs(), PrivateReading: r.GetPrivateReading()}
}

// VoidBelow returns the number below which the logins of a device are void: all logins if
// the device was revoked, replaced or removed, otherwise those before the last one. With it,
// a late call that ends sessions of the device spares those of a newer login. Spec: P-11.4.
func (us *Users) VoidBelow(ctx context.Context, a im.Account, device string) (uint64, error) {
	d, err := us.device(ctx, a, device)
	switch {
	case err != nil:
		return 0, err
	case d == nil:
		return math.MaxUint64, nil
	case d.Revoked:
		return d.Login + 1, nil
	}
	return d.Login, nil
}
