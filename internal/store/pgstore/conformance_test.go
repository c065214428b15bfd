package pgstore

import (
	"testing"

	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/pgtest"
	"github.com/petrel-im/petrel/internal/store/storetest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func mustOpen(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustClose(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestStoreOnPostgreSQLIsAStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) func() store.Store {
		o := Options{DSNs: []string{pgtest.Shared(t).New(t)}}
		return func() store.Store { return mustOpen(t, o) }
	})
}

func TestStoreOnThreeDatabasesIsAStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) func() store.Store {
		s := pgtest.Shared(t)
		o := Options{DSNs: []string{s.New(t), s.New(t), s.New(t)}}
		return func() store.Store { return mustOpen(t, o) }
	})
}
