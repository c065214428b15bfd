package user

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// The longest texts of a device, in bytes.
const (
	maxDeviceID   = 64
	maxDeviceKind = 32
	maxDeviceName = 64
	maxClient     = 128
)

// maxDevices is how many devices of a user are known; a login of a further one
// forgets the one whose login is oldest.
const maxDevices = 64

// DeviceRef names the installation that logs in.
type DeviceRef struct {
	ID   string // chosen by the client once and kept, 1 to 64 bytes
	Kind string // phone, desktop, web, …; at most 32 bytes
	Name string // for people, at most 64 bytes; empty: as before
}

func (r *DeviceRef) check() error {
	switch {
	case r.ID == "" || len(r.ID) > maxDeviceID || !utf8.ValidString(r.ID):
		return im.Errorf(im.CodeInvalid, "device.id has 1 to %d bytes", maxDeviceID)
	case len(r.Kind) > maxDeviceKind || !utf8.ValidString(r.Kind):
		return im.Errorf(im.CodeInvalid, "device.kind has at most %d bytes", maxDeviceKind)
	case len(r.Name) > maxDeviceName || !utf8.ValidString(r.Name):
		return im.Errorf(im.CodeInvalid, "device.name has at most %d bytes", maxDeviceName)
	}
	return nil
}

// Device is one installation of a user, as its last login left it.
type Device struct {
	ID, Kind, Name string
	Client         string    // as its last hello said
	LoggedIn       time.Time // its last login
	Login          uint64    // number of that login; a higher one of the user is newer
	Revoked        bool      // its tokens are void until it logs in again
	Replaced       bool      // by another device of its kind; then Revoked is true too
}

func shown(id string, d *storepb.Device) Device {
	return Device{
		ID: id, Kind: d.Kind, Name: d.Name, Client: d.Client, LoggedIn: time.UnixMilli(int64(d.LoginMs)).UTC(),
		Login: d.Login, Revoked: d.Revoked, Replaced: d.Replaced,
	}
}

func deviceKey(u im.User, device string) []byte {
	return append(append([]byte(u), 0), device...)
}

func (us *Users) device(ctx context.Context, a im.Account, device string) (*storepb.Device, error) {
	value, err := us.store.Record(ctx, store.Devices, a.Tenant, deviceKey(a.User, device))
	if err != nil || value == nil {
		return nil, err
	}
	d := &storepb.Device{}
	if err := d.UnmarshalVT(value); err != nil {
		return nil, fmt.Errorf("read device %q of %s: %w", device, a, store.ErrCorrupt)
	}
	return d, nil
}

// mustDevice is device for one that has to be there. Codes: no_device.
func (us *Users) mustDevice(ctx context.Context, a im.Account, device string) (*storepb.Device, error) {
	d, err := us.device(ctx, a, device)
	if err == nil && d == nil {
		err = im.Errorf(im.CodeNoDevice, "there is no device %.64q", device)
	}
	return d, err
}

// known is a device with its id.
type known struct {
	id string
	*storepb.Device
}

// known reads the devices of a user, newest login first.
func (us *Users) known(ctx context.Context, a im.Account) ([]known, error) {
	var list []known
	var bad error
	prefix := deviceKey(a.User, "")
	err := us.store.Records(ctx, store.Devices, a.Tenant, prefix, func(key, value []byte) bool {
		d := known{string(key[len(prefix):]), &storepb.Device{}}
		bad = d.UnmarshalVT(value)
		list = append(list, d)
		return bad == nil
	})
	if err == nil && bad != nil {
		err = fmt.Errorf("read devices of %s: %w", a, store.ErrCorrupt)
	}
	slices.SortFunc(list, func(x, y known) int { return cmp.Compare(y.Login, x.Login) })
	return list, err
}

func putDevice(puts []store.RecordPut, a im.Account, id string, d *storepb.Device) ([]store.RecordPut, error) {
	value, err := d.MarshalVT()
	return append(puts, store.RecordPut{Table: store.Devices, Tenant: a.Tenant, Key: deviceKey(a.User, id), Value: value}), err
}

// void makes the tokens of a device void until it logs in again. Their records
// stay until then: they tell a hello why.
func void(d *storepb.Device, replaced bool) {
	d.Revoked, d.Replaced = true, replaced
	d.Refresh, d.Spent = nil, nil
}

// voidOthers voids all devices of a user but one, and returns those whose tokens
// worked until now.
func (us *Users) voidOthers(ctx context.Context, puts []store.RecordPut, a im.Account, keep string) ([]store.RecordPut, []string, error) {
	list, err := us.known(ctx, a)
	var ended []string
	for _, d := range list {
		if d.Revoked && !d.Replaced || d.id == keep {
			continue
		}
		if !d.Revoked {
			ended = append(ended, d.id)
		}
		void(d.Device, false)
		if puts, err = putDevice(puts, a, d.id, d.Device); err != nil {
			break
		}
	}
	return puts, ended, err
}

// dropTokens deletes the records of a device's access tokens.
func dropTokens(puts []store.RecordPut, t im.Tenant, d *storepb.Device) []store.RecordPut {
	for _, x := range d.Access {
		puts = append(puts, store.RecordPut{Table: store.Tokens, Tenant: t, Key: x.Key})
	}
	d.Access = nil
	return puts
}

// Devices lists the devices of a user, newest login first. Spec: P-11.5.
func (us *Users) Devices(ctx context.Context, a im.Account) ([]Device, error) {
	list, err := us.known(ctx, a)
	if err != nil {
		return nil, err
	}
	devices := make([]Device, len(list))
	for i, d := range list {
		devices[i] = shown(d.id, d.Device)
	}
	return devices, nil
}

// changeDevice changes one device's record.
func (us *Users) changeDevice(ctx context.Context, a im.Account, device string, change func(*storepb.Device)) (Device, error) {
	if err := us.begin(ctx); err != nil {
		return Device{}, err
	}
	defer func() { <-us.turn }()
	d, err := us.mustDevice(ctx, a, device)
	if err != nil {
		return Device{}, err
	}
	change(d)
	puts, err := putDevice(nil, a, device, d)
	if err != nil {
		return Device{}, err
	}
	return shown(device, d), us.update(ctx, puts)
}

// RenameDevice gives a device a name for people. Codes: invalid, no_device.
func (us *Users) RenameDevice(ctx context.Context, a im.Account, device, name string) (Device, error) {
	if len(name) > maxDeviceName || !utf8.ValidString(name) {
		return Device{}, im.Errorf(im.CodeInvalid, "name has at most %d bytes", maxDeviceName)
	}
	return us.changeDevice(ctx, a, device, func(d *storepb.Device) { d.Name = name })
}

// RevokeDevice voids the tokens of a device until it logs in again. The caller
// ends its sessions with revoked. Codes: no_device. Spec: P-11.5.
func (us *Users) RevokeDevice(ctx context.Context, a im.Account, device string) error {
	_, err := us.changeDevice(ctx, a, device, func(d *storepb.Device) { void(d, false) })
	return err
}

// NoteClient keeps what the last hello of a device said of its client. It writes
// only a change, and only if no other change of accounts is under way: after an
// upgrade of all clients their hellos do not wait for each other.
func (us *Users) NoteClient(ctx context.Context, id Identity, client string) error {
	if id.Device == "" || client == "" || len(client) > maxClient {
		return nil
	}
	d, err := us.device(ctx, id.Account, id.Device)
	if err != nil || d == nil || d.Client == client {
		return err
	}
	select {
	case us.turn <- struct{}{}:
	default:
		return nil
	}
	defer func() { <-us.turn }()
	if d, err = us.device(ctx, id.Account, id.Device); err != nil || d == nil || d.Login != id.Login {
		return err
	}
	d.Client = client
	puts, err := putDevice(nil, id.Account, id.Device, d)
	if err != nil {
		return err
	}
	return us.update(ctx, puts)
}
