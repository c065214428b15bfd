// Package transaction changes records of the store. A transaction reads records and plans writes, which
// become durable as one unit. If a record has changed between its read and its write, the transaction is
// repeated.
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

// Server stands for the account of transactions that are about no account.
var Server im.Account

// Manager makes the transactions of one node.
type Manager struct {
	store store.Store
	turns *turns
}

// New makes a Manager.
func New(st store.Store) *Manager { return &Manager{st, newTurns()} }

// turns makes changes of one account on this node wait for each other. A change puts a token into the
// account's channel, and takes it out when its outcome is known. This only saves repeats: the store notices
// changes by other nodes, too. Authentication does not wait for turns.
type turns struct {
	seed maphash.Seed
	of   [64]chan struct{} // capacity 1; an account always has the same one, and shares it with others
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
	slices.Sort(places) // all callers take them in the same order, so no two wait for each other
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

// try takes the turn of an account if it is free; false: it is not.
func (t *turns) try(a im.Account) (leave func(), ok bool) {
	p := t.place(a)
	select {
	case t.of[p] <- struct{}{}:
		return func() { <-t.of[p] }, true
	default:
		return nil, false
	}
}

// Tx is one transaction. If a record that it has read and is to write has changed since, it writes nothing. A
// record that it has not read is written in any case (Put), or only if there is none (Create).
type Tx struct {
	store store.Store
	was   map[string][]byte // the values that were read, by table, tenant and key; nil: there was no record
	puts  []store.RecordPut
}

// Begin returns a transaction for reads alone: only Do and Try write what a transaction has planned.
func (m *Manager) Begin() *Tx { return &Tx{store: m.store, was: map[string][]byte{}} }

// maxTries is how often Do tries a transaction while a record changes. The changes of one node wait for their
// turn, so at most one of each other node competes.
const maxTries = 20

// Do makes a transaction about some accounts. f reads records and plans writes, which then become durable as
// one unit. If a record has changed since its read, Do calls f again, so each call of f has to set its
// results anew. written: the writes are durable, or their outcome is unknown. Codes: those of f, disk_full,
// store_stalled, overloaded.
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

// Try makes a transaction about an account, but does nothing if another one has the turn of the account: it
// does not wait. It writes nothing if a record has changed.
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

// Update writes records as one unit. It goes on when ctx ends, because the next transaction of the account
// has to see the outcome. Codes: disk_full, store_stalled.
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

// Record reads a record, and notes its value for Put.
func (tx *Tx) Record(ctx context.Context, t store.Table, tenant im.Tenant, key []byte) ([]byte, error) {
	value, err := tx.store.Record(ctx, t, tenant, key)
	tx.Saw(t, tenant, key, value)
	return value, err
}

// Saw notes the value of a record that was read in another way; nil: there is none.
func (tx *Tx) Saw(t store.Table, tenant im.Tenant, key, value []byte) {
	tx.was[recordID(t, tenant, key)] = bytes.Clone(value)
}

// Put plans the write of a record; a nil value deletes it. If the transaction has read the record, it is
// written only if it has not changed since.
func (tx *Tx) Put(t store.Table, tenant im.Tenant, key, value []byte) {
	was, read := tx.was[recordID(t, tenant, key)]
	tx.puts = append(tx.puts, store.RecordPut{Table: t, Tenant: tenant, Key: key, Value: value, Check: read, Was: was})
}

// Create plans the write of a record that must not exist yet.
func (tx *Tx) Create(t store.Table, tenant im.Tenant, key, value []byte) {
	tx.puts = append(tx.puts, store.RecordPut{Table: t, Tenant: tenant, Key: key, Value: value, Check: true})
}

// message is a message of the schema, T a struct whose pointer has the methods.
type message[T any] interface {
	*T
	UnmarshalVT([]byte) error
}

// Parse decodes the value of a record; nil: there is none. what names the record in errors.
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

// Each calls f for the records of a table whose key begins with a prefix, in the order of the keys.
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
