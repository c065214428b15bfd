package pebblestore

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storetest"
)

// small keeps the memory of a test's store low.
func small(o Options) Options {
	o.CacheBytes, o.MemTableBytes = 1<<20, 256<<10
	o.BallastBytes = -1
	if o.StallAfter == 0 {
		o.StallAfter = eventually.Limit // the disk of a test is as slow as its machine
	}
	return o
}

func mustOpen(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStoreOnDiskIsAStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) func() store.Store {
		o := small(Options{Dir: t.TempDir()})
		return func() store.Store { return mustOpen(t, o) }
	})
}

func TestStoreInMemoryIsAStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) func() store.Store {
		o := small(Options{Dir: "data", FS: vfs.NewMem()})
		return func() store.Store { return mustOpen(t, o) }
	})
}
