package user

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// server is whose turn a change of tenants, keys or the setup takes.
var server im.Account

// turns order the changes of one account on this node: who puts the token into
// its channel reads, writes, and takes it out when the outcome is known. They
// only save work: what other nodes do to the same account meanwhile is noticed
// by the store. Authentication does not wait for them.
type turns struct {
	seed maphash.Seed
	of   [64]chan struct{} // capacity 1; an account has always the same one
}

func newTurns() *turns {
	t := &turns{seed: maphash.MakeSeed()}
	for i := range t.of {
		t.of[i] = make(chan struct{}, 1)
	}
	return t
}

func (t *turns) place(a im.Account) int {
	return int(maphash.Comparable(t.seed, a) % uint64(len(t.of)))
}

// enter takes the turns of some accounts; leave gives them back.
func (t *turns) enter(ctx context.Context, accounts ...im.Account) (leave func(), err error) {
	var places []int
	for _, a := range accounts {
		places = append(places, t.place(a))
	}
	slices.Sort(places) // everybody in the same order: nobody waits for who waits for them
	places = slices.Compact(places)
	for i, p := range places {
		select {
		case t.of[p] <- struct{}{}:
		case <-ctx.Done():
			t.leave(places[:i])
			return nil, fmt.Errorf("wait for another change of the account: %w", ctx.Err())
		}
	}
	return func() { t.leave(places) }, nil
}

func (t *turns) leave(places []int) {
	for _, p := range places {
		<-t.of[p]
	}
}

// try is enter for who would rather not wait.
func (t *turns) try(a im.Account) (leave func(), ok bool) {
	p := t.place(a)
	select {
	case t.of[p] <- struct{}{}:
		return func() { <-t.of[p] }, true
	default:
		return nil, false
	}
}

// change is one change of accounts. What it read it writes only if nobody, on
// whichever node, has written it since.
type change struct {
	us   *Users
	was  map[string][]byte // by table, tenant and key, of what was read; nil: there was none
	puts []store.RecordPut
	ends im.Account // whose tokens it ends; the zero account: nobody's

	claimed map[string]bool       // forms of names that puts notes unread
	called  map[im.Account]string // display names of users who were read
}

func (us *Users) newChange() *change {
	return &change{us: us, was: map[string][]byte{}, claimed: map[string]bool{}, called: map[im.Account]string{}}
}

// maxTries is how often a change begins anew because a record has changed. On
// one node they queue for a turn, so others are as many as there are nodes.
const maxTries = 20

// change makes a change of the accounts of: f reads and plans it, and what it
// planned becomes durable at once. f is called again if it was too late, so it
// sets what it returns anew each time. Codes: those of f, disk_full,
// store_stalled, overloaded.
func (us *Users) change(ctx context.Context, of []im.Account, f func(*change) error) error {
	leave, err := us.turns.enter(ctx, of...)
	if err != nil {
		return err
	}
	ends, err := us.tryChange(ctx, f)
	leave()
	if ends != (im.Account{}) && us.o.Changed != nil {
		us.o.Changed(ends)
	}
	return err
}

// tryChange returns whose tokens may have ended: it does not know when the
// outcome of the write is not known.
func (us *Users) tryChange(ctx context.Context, f func(*change) error) (ends im.Account, err error) {
	for n := range maxTries {
		c := us.newChange()
		if err := f(c); err != nil || len(c.puts) == 0 {
			return im.Account{}, err
		}
		err := us.update(ctx, c.puts)
		if !errors.Is(err, store.ErrChanged) {
			if _, refused := errors.AsType[*im.Error](err); refused { // nothing was written
				c.ends = im.Account{}
			}
			return c.ends, err
		}
		select {
		case <-time.After(time.Duration(rand.Int64N(int64(n+1) * int64(time.Millisecond)))):
		case <-ctx.Done():
			return im.Account{}, fmt.Errorf("change accounts: %w", ctx.Err())
		}
	}
	return im.Account{}, &im.Error{Code: im.CodeOverloaded, RetryAfter: time.Second}
}

// update writes records as one unit. It is not given up on with the caller: who
// has the next turn reads what came of it. Codes: disk_full, store_stalled.
func (us *Users) update(ctx context.Context, puts []store.RecordPut) error {
	err := us.store.Update(context.WithoutCancel(ctx), puts)
	switch {
	case errors.Is(err, store.ErrFull):
		return &im.Error{Code: im.CodeDiskFull, RetryAfter: 5 * time.Second}
	case errors.Is(err, store.ErrStalled):
		return &im.Error{Code: im.CodeStoreStalled, RetryAfter: time.Second}
	}
	return err
}

func recordID(t store.Table, tenant im.Tenant, key []byte) string {
	return fmt.Sprintf("%d %d %s", t, tenant, key)
}

// record reads a record that the change may write.
func (c *change) record(ctx context.Context, t store.Table, tenant im.Tenant, key []byte) ([]byte, error) {
	value, err := c.us.store.Record(ctx, t, tenant, key)
	c.was[recordID(t, tenant, key)] = bytes.Clone(value)
	return value, err
}

// put writes a record, or deletes it; if the change has read it, only as it was.
func (c *change) put(t store.Table, tenant im.Tenant, key, value []byte) {
	was, read := c.was[recordID(t, tenant, key)]
	c.puts = append(c.puts, store.RecordPut{Table: t, Tenant: tenant, Key: key, Value: value, Check: read, Was: was})
}

// user reads a user's record; nil: there is none.
func (c *change) user(ctx context.Context, a im.Account) (*storepb.User, error) {
	value, err := c.record(ctx, store.Users, a.Tenant, []byte(a.User))
	if err != nil {
		return nil, err
	}
	u, err := parseUser(a, value)
	c.called[a] = u.GetDisplayName()
	return u, err
}

// readAtOnce is how many records a change of many users reads at a time: a database
// reads with one statement what is asked for together.
const readAtOnce = 64

// users reads the records of many users; nil: there is none. Each is read once: of two
// reads the later one may find what the other did not.
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
	var reads errgroup.Group
	reads.SetLimit(readAtOnce)
	for i, a := range once {
		reads.Go(func() (err error) {
			values[i], err = c.us.store.Record(ctx, store.Users, a.Tenant, []byte(a.User))
			return err
		})
	}
	if err := reads.Wait(); err != nil {
		return nil, err
	}
	for i, a := range once {
		c.was[recordID(store.Users, a.Tenant, []byte(a.User))] = bytes.Clone(values[i])
		var err error
		if of[a.User], err = parseUser(a, values[i]); err != nil {
			return nil, err
		}
		c.called[a] = of[a.User].GetDisplayName()
	}
	return of, nil
}

func (c *change) putUser(a im.Account, u *storepb.User) error {
	value, err := u.MarshalVT()
	c.indexName(a, u.DisplayName)
	c.put(store.Users, a.Tenant, []byte(a.User), value)
	return err
}

// device reads a device's record; nil: there is none.
func (c *change) device(ctx context.Context, a im.Account, id string) (*storepb.Device, error) {
	value, err := c.record(ctx, store.Devices, a.Tenant, deviceKey(a.User, id))
	if err != nil {
		return nil, err
	}
	return parseDevice(a, id, value)
}

// devices reads those of a user, newest login first. One more comes only with a
// change of the user's record.
func (c *change) devices(ctx context.Context, a im.Account) ([]known, error) {
	return c.us.known(ctx, a, func(key, value []byte) {
		c.was[recordID(store.Devices, a.Tenant, key)] = append([]byte{}, value...)
	})
}

func (c *change) putDevice(a im.Account, id string, d *storepb.Device) error {
	value, err := d.MarshalVT()
	c.put(store.Devices, a.Tenant, deviceKey(a.User, id), value)
	return err
}

// putToken makes a token known; nobody else has it.
func (c *change) putToken(t im.Tenant, token string, rec *storepb.Token) error {
	rec.CreatedMs = c.us.nowMs()
	value, err := rec.MarshalVT()
	sum := sha256.Sum256([]byte(token))
	c.puts = append(c.puts, store.RecordPut{Table: store.Tokens, Tenant: t, Key: sum[:], Value: value, Check: true})
	return err
}

// dropTokens deletes the records of a device's access tokens. The caller puts
// the device.
func (c *change) dropTokens(t im.Tenant, d *storepb.Device) {
	for _, x := range d.Access {
		c.put(store.Tokens, t, x.Key, nil)
	}
	d.Access = nil
}
