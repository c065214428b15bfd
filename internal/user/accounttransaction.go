package user

import (
	"context"
	"crypto/sha256"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/transaction"
)

// change is a transaction that reads and writes records of accounts.
type change struct {
	*transaction.Tx
	us   *Users
	ends im.Account // the account whose tokens it ends; zero: no tokens end

	claimed map[string]bool       // forms of user ids that it writes without reading them
	called  map[im.Account]string // display names of users who were read
	given   map[string]im.User    // forms of the handles that it gives
}

func (us *Users) newChange(tx *transaction.Tx) *change {
	return &change{Tx: tx, us: us, claimed: map[string]bool{}, called: map[im.Account]string{},
		given: map[string]im.User{}}
}

// begin makes a change that only reads.
func (us *Users) begin() *change { return us.newChange(us.txs.Begin()) }

// change runs f in a transaction that changes accounts, and reports an account whose tokens
// it has ended to Options.Changed. Codes: those of f, disk_full, store_stalled, overloaded.
func (us *Users) change(ctx context.Context, of []im.Account, f func(*change) error) error {
	var ends im.Account
	written, err := us.txs.Do(ctx, of, func(tx *transaction.Tx) error {
		c := us.newChange(tx)
		err := f(c)
		ends = c.ends
		return err
	})
	if written && ends != (im.Account{}) && us.o.Changed != nil {
		us.o.Changed(ends)
	}
	return err
}

// user reads a user's record; nil: there is none.
func (c *change) user(ctx context.Context, a im.Account) (*storepb.User, error) {
	value, err := c.Record(ctx, store.Users, a.Tenant, []byte(a.User))
	if err != nil {
		return nil, err
	}
	u, err := transaction.Parse[storepb.User]("user", value)
	c.called[a] = u.GetDisplayName()
	return u, err
}

// readAtOnce is how many records a change of many users reads at a time: a database reads
// simultaneous requests with one statement.
const readAtOnce = 64

// readEach calls read for 0 to n-1, readAtOnce at a time, and returns the first error. Each goroutine does several
// reads, because the first one grows its stack, which takes as long as a read from memory.
func readEach(n int, read func(i int) error) error {
	var next atomic.Int64
	var reads errgroup.Group
	for range min(readAtOnce, (n+3)/4) {
		reads.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return nil
				}
				if err := read(i); err != nil {
					return err
				}
			}
		})
	}
	return reads.Wait()
}

// users reads the records of many users; nil: there is no such user.
// Each is read once, because two reads may have different results.
func (c *change) users(ctx context.Context, accounts []im.Account) (map[im.User]*storepb.User, error) {
	of := make(map[im.User]*storepb.User, len(accounts))
	var once []im.Account
	for _, a := range accounts {
		if _, seen := of[a.User]; !seen {
			of[a.User] = nil
			once = append(once, a)
		}
	}
	values := make([][]byte, len(once))
	if err := readEach(len(once), func(i int) (err error) {
		values[i], err = c.us.store.Record(ctx, store.Users, once[i].Tenant, []byte(once[i].User))
		return err
	}); err != nil {
		return nil, err
	}
	for i, a := range once {
		c.Saw(store.Users, a.Tenant, []byte(a.User), values[i])
		var err error
		if of[a.User], err = transaction.Parse[storepb.User]("user", values[i]); err != nil {
			return nil, err
		}
		c.called[a] = of[a.User].GetDisplayName()
	}
	return of, nil
}

func (c *change) putUser(a im.Account, u *storepb.User) error {
	value, err := u.MarshalVT()
	c.indexName(a, u.DisplayName)
	c.Put(store.Users, a.Tenant, []byte(a.User), value)
	return err
}

// device reads a device's record; nil: there is none.
func (c *change) device(ctx context.Context, a im.Account, id string) (*storepb.Device, error) {
	value, err := c.Record(ctx, store.Devices, a.Tenant, deviceKey(a.User, id))
	if err != nil {
		return nil, err
	}
	return transaction.Parse[storepb.Device]("device", value)
}

// devices reads the devices of a user, newest login first. A device is
// added only together with a change of the user's record.
func (c *change) devices(ctx context.Context, a im.Account) ([]known, error) {
	return c.us.known(ctx, a, func(key, value []byte) { c.Saw(store.Devices, a.Tenant, key, value) })
}

func (c *change) putDevice(a im.Account, id string, d *storepb.Device) error {
	value, err := d.MarshalVT()
	c.Put(store.Devices, a.Tenant, deviceKey(a.User, id), value)
	return err
}

// putToken stores a new token.
func (c *change) putToken(t im.Tenant, token string, rec *storepb.Token) error {
	rec.CreatedMs = c.us.nowMs()
	value, err := rec.MarshalVT()
	sum := sha256.Sum256([]byte(token))
	c.Create(store.Tokens, t, sum[:], value)
	return err
}

// dropTokens deletes the records of a device's access tokens. The caller writes the device.
func (c *change) dropTokens(t im.Tenant, d *storepb.Device) {
	for _, x := range d.Access {
		c.Put(store.Tokens, t, x.Key, nil)
	}
	d.Access = nil
}
