package pgstore

import (
	"errors"
	"strings"
	"testing"

	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/store"
)

func TestRefutedDatabasesAreNotServedAgain(t *testing.T) {
	dsns := []string{blank(t), blank(t)}
	st, other := mustOpen(t, Options{DSNs: dsns}), mustOpen(t, Options{DSNs: dsns})
	st.Refute("a token names commit 9")
	select {
	case <-st.Failed():
	default:
		t.Error("the store goes on")
	}
	if err := st.Writable(); !errors.Is(err, store.ErrRewound) || !errors.Is(err, store.ErrFailed) {
		t.Errorf("got %v, want %v", err, store.ErrRewound)
	}
	// A node that heard nothing meets the note in its next connection.
	if c, err := other.dbs[1].dial(t.Context()); !errors.Is(err, store.ErrRewound) {
		t.Errorf("connect: got %v, %v, want %v", c, err, store.ErrRewound)
	}
	select {
	case <-other.Failed():
	default:
		t.Error("the other node goes on")
	}
	for _, s := range []*Store{st, other} {
		_ = s.Close() // it has failed
	}
	_, err := Open(t.Context(), Options{DSNs: dsns})
	if p, ok := errors.AsType[*Problem](err); !ok || p.Code != "rewound" || !strings.Contains(err.Error(), "a token names commit 9") {
		t.Errorf("open: got %v, want the refusal with the proof", err)
	}
	if _, err := renew(t, Options{DSNs: dsns}); err != nil {
		t.Fatal(err)
	}
	mustClose(t, mustOpen(t, Options{DSNs: dsns}))
}

// renew renews a store when the connections of its nodes, which are closed, have ended.
func renew(t *testing.T, o Options) (*Renewed, error) {
	t.Helper()
	for _, dsn := range o.DSNs {
		r := newRaw(t, dsn)
		eventually.True(t, "closed connections have ended", func() bool {
			return r.number(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'petrel'`) == 0
		})
	}
	return Renew(t.Context(), patient(o))
}

func TestDatabasesOfAnotherStoreAreRefused(t *testing.T) {
	dsns := []string{blank(t)}
	for range 2 { // empty, then with a store
		_, err := Open(t.Context(), Options{DSNs: dsns, StoreID: 7})
		if p, ok := errors.AsType[*Problem](err); !ok || p.Code != "other_store" || !strings.Contains(err.Error(), "store.id") {
			t.Errorf("got %v, want the refusal of another store", err)
		}
		mustClose(t, mustOpen(t, Options{DSNs: dsns}))
	}
}
