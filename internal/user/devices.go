package user

import (
	"cmp"
	"context"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/transaction"
)

// The longest texts of a device, in bytes.
const (
	maxDeviceID   = 64
	maxDeviceKind = 32
	maxDeviceName = 64
	maxClient     = 128
)

// maxDevices is how many devices of a user are kept. The login of a
// further device removes the device with the oldest login.
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

// Device is one installation of a user.
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
	if err != nil {
		return nil, err
	}
	return transaction.Parse[storepb.Device]("device", value)
}

// hasLoggedIn tells whether a device has logged in to an account, and
// was not revoked since (but it may be replaced).
func (us *Users) hasLoggedIn(ctx context.Context, a im.Account, device string) (bool, error) {
	d, err := us.device(ctx, a, device)
	return d != nil && (!d.Revoked || d.Replaced), err
}

// known is a device with its id.
type known struct {
	id string
	*storepb.Device
}

// known reads the devices of a user, newest login first. If see is not nil, it gets each record.
func (us *Users) known(ctx context.Context, a im.Account, see func(key, value []byte)) ([]known, error) {
	var list []known
	prefix := deviceKey(a.User, "")
	err := transaction.Each(ctx, us.store, "device", store.Devices, a.Tenant, prefix,
		func(key, value []byte, d *storepb.Device) {
			list = append(list, known{string(key[len(prefix):]), d})
			if see != nil {
				see(key, value)
			}
		})
	slices.SortFunc(list, func(x, y known) int { return cmp.Compare(y.Login, x.Login) })
	return list, err
}

// void makes the tokens of a device void until it logs in again. The records of the access
// tokens stay until then, so that a hello with one of them is answered with the reason.
func void(d *storepb.Device, replaced bool) {
	d.Revoked, d.Replaced = true, replaced
	d.Refresh, d.Spent = nil, nil
}

// voidOthers voids all devices of a user except keep, and returns those whose tokens were valid until now. A
// device that was replaced becomes revoked. The change then ends tokens of the account (change.ends).
func (c *change) voidOthers(ctx context.Context, a im.Account, keep string) (ended []string, err error) {
	c.ends = a
	list, err := c.devices(ctx, a)
	for _, d := range list {
		if d.Revoked && !d.Replaced || d.id == keep {
			continue
		}
		if !d.Revoked {
			ended = append(ended, d.id)
		}
		void(d.Device, false)
		if err := c.putDevice(a, d.id, d.Device); err != nil {
			return nil, err
		}
	}
	return ended, err
}

// Devices lists the devices of a user, newest login first. Spec: P-11.5.
func (us *Users) Devices(ctx context.Context, a im.Account) ([]Device, error) {
	list, err := us.known(ctx, a, nil)
	if err != nil {
		return nil, err
	}
	devices := make([]Device, len(list))
	for i, d := range list {
		devices[i] = shown(d.id, d.Device)
	}
	return devices, nil
}

// changeDevice changes one device's record. Codes: no_device.
func (us *Users) changeDevice(ctx context.Context, a im.Account, device string,
	f func(*change, *storepb.Device)) (now Device, err error) {
	err = us.change(ctx, []im.Account{a}, func(c *change) error {
		d, err := c.device(ctx, a, device)
		if err == nil && d == nil {
			err = im.Errorf(im.CodeNoDevice, "there is no device %.64q", device)
		}
		if err != nil {
			return err
		}
		f(c, d)
		now = shown(device, d)
		return c.putDevice(a, device, d)
	})
	if err != nil {
		return Device{}, err
	}
	return now, nil
}

// RenameDevice gives a device a name for people. Codes: invalid, no_device.
func (us *Users) RenameDevice(ctx context.Context, a im.Account, device, name string) (Device, error) {
	if len(name) > maxDeviceName || !utf8.ValidString(name) {
		return Device{}, im.Errorf(im.CodeInvalid, "name has at most %d bytes", maxDeviceName)
	}
	return us.changeDevice(ctx, a, device, func(_ *change, d *storepb.Device) { d.Name = name })
}

// RevokeDevice voids the tokens of a device until it logs in again. The caller
// ends its sessions with revoked. Codes: no_device. Spec: P-11.5.
func (us *Users) RevokeDevice(ctx context.Context, a im.Account, device string) error {
	_, err := us.changeDevice(ctx, a, device, func(c *change, d *storepb.Device) {
		c.ends = a
		void(d, false)
	})
	return err
}

// NoteClient stores the client name of the last hello of a device. It writes only if the name has
// changed and no other change of the account is under way, so that a hello does not wait for that.
func (us *Users) NoteClient(ctx context.Context, id Identity, client string) error {
	if id.Device == "" || client == "" || len(client) > maxClient {
		return nil
	}
	d, err := us.device(ctx, id.Account, id.Device)
	if err != nil || d == nil || d.Client == client {
		return err
	}
	return us.txs.Try(ctx, id.Account, func(tx *transaction.Tx) error {
		c := us.newChange(tx)
		d, err := c.device(ctx, id.Account, id.Device)
		if err != nil || d == nil || d.Login != id.Login {
			return err
		}
		d.Client = client
		return c.putDevice(id.Account, id.Device, d)
	})
}
