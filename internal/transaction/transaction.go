// Package transaction changes records of the store: a transaction reads and plans writes, which
// become durable at once. It is repeated if another node has changed a record that it has read.
package transaction

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
)

// Server is whose turn a transaction takes that is about no account.
var Server im.Account

// Manager makes the transactions of one node.
type Manager struct {
	store store.Store
	turns *turns
}

// New makes a Manager.
func New(st store.Store) *Manager { return &Manager{st, newTurns()} }

// turns order the changes of one account on this node: a change puts a token into the account's
// channel, and takes it out when its outcome is known. They only save work: the store notices
// changes of the same account by other nodes. Authentication does not wait for them.
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

// Tx is one transaction. It writes a record that it has read only if no node has written it since.
type Tx struct {
	store store.Store
	was   map[string][]byte // by table, tenant and key, of what was read; nil: there was none
	puts  []store.RecordPut
}

// Begin returns a transaction that is not written by Do, but read only or written by Try.
func (m *Manager) Begin() *Tx { return &Tx{store: m.store, was: map[string][]byte{}} }

// maxTries is how often a transaction begins anew because a record has changed. On
// one node they queue for a turn, so others are as many as there are nodes.
const maxTries = 20

// Do makes a transaction about some accounts: f reads and plans it, and what it
// planned becomes durable at once. f is called again if it was too late, so it
// sets what it returns anew each time. written: it is durable, or it is not known whether it is.
// Codes: those of f, disk_full, store_stalled, overloaded.
func (m *Manager) Do(ctx context.Context, of []im.Account, f func(*Tx) error) (written bool, err error) {
	leave, err := m.turns.enter(ctx, of...)
	if err != nil {
		return false, err
	}
	defer leave()
	for n := range maxTries {
		tx := m.Begin()
		if err := f(tx); err != nil || len(tx.puts) == 0 {
			return false, err
		}
		err := m.Update(ctx, tx.puts...)
		if !errors.Is(err, store.ErrChanged) {
			_, refused := errors.AsType[*im.Error](err) // nothing was written
			return !refused, err
		}
		select {
		case <-time.After(time.Duration(rand.Int64N(int64(n+1) * int64(time.Millisecond)))):
		case <-ctx.Done():
			return false, fmt.Errorf("change accounts: %w", ctx.Err())
		}
	}
	return false, &im.Error{Code: im.CodeOverloaded, RetryAfter: time.Second}
}

// Try makes a transaction about an account, unless another one is under way: it does not wait. It does
// nothing if a record has changed.
func (m *Manager) Try(ctx context.Context, a im.Account, f func(*Tx) error) error {
	leave, ok := m.turns.try(a)
	if !ok {
		return nil
	}
	defer leave()
	tx := m.Begin()
	if err := f(tx); err != nil || len(tx.puts) == 0 {
		return err
	}
	if err := m.Update(ctx, tx.puts...); !errors.Is(err, store.ErrChanged) {
		return err
	}
	return nil
}

// Update writes records as one unit. It is not given up on with the caller: who
// has the next turn reads what came of it. Codes: disk_full, store_stalled.
func (m *Manager) Update(ctx context.Context, puts ...store.RecordPut) error {
	err := m.store.Update(context.WithoutCancel(ctx), puts)
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

// Record reads a record that the transaction may write.
func (tx *Tx) Record(ctx context.Context, t store.Table, tenant im.Tenant, key []byte) ([]byte, error) {
	value, err := tx.store.Record(ctx, t, tenant, key)
	tx.Saw(t, tenant, key, value)
	return value, err
}

// Saw notes a record that was read in another way; nil: there is none.
func (tx *Tx) Saw(t store.Table, tenant im.Tenant, key, value []byte) {
	tx.was[recordID(t, tenant, key)] = bytes.Clone(value)
}

// Put writes a record, or deletes it; if the transaction has read it, only as it was.
func (tx *Tx) Put(t store.Table, tenant im.Tenant, key, value []byte) {
	was, read := tx.was[recordID(t, tenant, key)]
	tx.puts = append(tx.puts, store.RecordPut{Table: t, Tenant: tenant, Key: key, Value: value, Check: read, Was: was})
}

// Create writes a record if there is none.
func (tx *Tx) Create(t store.Table, tenant im.Tenant, key, value []byte) {
	tx.puts = append(tx.puts, store.RecordPut{Table: t, Tenant: tenant, Key: key, Value: value, Check: true})
}

// message is a message of the schema, T a struct whose pointer has the methods.
type message[T any] interface {
	*T
	UnmarshalVT([]byte) error
}

// Parse reads a record; nil: there is none.
func Parse[T any, M message[T]](what string, value []byte) (*T, error) {
	if value == nil {
		return nil, nil
	}
	m := new(T)
	if err := M(m).UnmarshalVT(value); err != nil {
		return nil, fmt.Errorf("read %s: %w", what, store.ErrCorrupt)
	}
	return m, nil
}

// Each reads the records of a table whose key begins with a prefix, in their order.
func Each[T any, M message[T]](ctx context.Context, st store.Store, what string, t store.Table, tenant im.Tenant,
	prefix []byte, f func(key, value []byte, m *T)) error {
	var bad error
	err := st.Records(ctx, t, tenant, prefix, func(key, value []byte) bool {
		var m *T
		if m, bad = Parse[T, M](what, append([]byte{}, value...)); bad == nil {
			f(bytes.Clone(key), value, m)
		}
		return bad == nil
	})
	return errors.Join(err, bad)
}
