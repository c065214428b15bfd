package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/pebblestore"
	"github.com/petrel-im/petrel/internal/store/pgstore"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// storage is the store of a server, with the parts that differ between the embedded store and PostgreSQL.
type storage struct {
	store.Store
	kind      string         // "embedded" or "postgres"
	databases *pgstore.Store // nil: the store is embedded, and there are no other nodes
	cache     int64          // bytes that it may keep in the memory of this process; 0: none
	minFree   int64          // with fewer free bytes on the disk of store.dir it refuses sends; 0: it never does

	markFailures func() uint64                                  // how often store.mark could not be written
	compact      func(context.Context) error                    // for measurements; PostgreSQL does it by itself
	checkpoint   func(context.Context) (name string, err error) // a copy for a backup. Codes: not_now
	behind       func() error                                   // why a database must not be used
	reports      func() []*petrelv1.DatabaseReport
}

// ErrEmbedded is returned for options of a cluster without databases.
var ErrEmbedded = errors.New("the embedded store works on one node only")

// openStore opens the databases, or the embedded store.
func (a *App) openStore(ctx context.Context) error {
	c := &a.cfg.Store
	id, err := c.StoreID()
	if err != nil {
		return err // the configuration was checked
	}
	if err := closeFolder(c.Dir, a.log); err != nil {
		return err
	}
	if len(c.Postgres) == 0 {
		a.store, err = a.openEmbedded(id)
	} else {
		a.store, err = a.openDatabases(ctx, id)
	}
	if err == nil {
		i := a.store.Info()
		a.log.Info("store is open", "store", fmt.Sprintf("%016x", i.StoreID), "history",
			fmt.Sprintf("%016x", i.HistoryID))
	}
	return err
}

func (a *App) openEmbedded(id uint64) (storage, error) {
	c := &a.cfg.Store
	if a.cfg.Cluster.On() {
		return storage{}, fmt.Errorf(
			"open the store: %w; set store.postgres, or leave cluster.listen and cluster.nats empty", ErrEmbedded)
	}
	st, err := pebblestore.Open(pebblestore.Options{
		Dir: c.Dir, Log: a.log, CacheBytes: a.budgets.Store, MinFreeBytes: orNone(c.MinFreeBytes),
		BallastBytes: orNone(c.BallastBytes),
		OpenTables:   a.files.Store, StallAfter: a.o.DiskStall,
		StoreID: id, Mark: c.Mark, AcceptCopies: !c.RefuseCopies,
		ScrubEvery: orNone(c.ScrubEvery), ScrubRate: c.ScrubRate,
	})
	if err != nil {
		return storage{}, err
	}
	return storage{
		Store: st, kind: "embedded", cache: a.budgets.Store, minFree: c.MinFreeBytes, markFailures: st.MarkFailures,
		compact: st.Compact,
		checkpoint: func(ctx context.Context) (string, error) {
			began := time.Now()
			name, err := st.Checkpoint(ctx)
			if errors.Is(err, pebblestore.ErrBusy) {
				return "", im.Errorf(im.CodeNotNow, "%v", err)
			}
			if err == nil {
				a.log.Info("checkpoint made for a backup", "name", name, "took", time.Since(began))
			}
			return name, err
		},
		behind:  func() error { return nil },
		reports: func() []*petrelv1.DatabaseReport { return nil },
	}, nil
}

func (a *App) openDatabases(ctx context.Context, id uint64) (storage, error) {
	c := &a.cfg.Store
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return storage{}, fmt.Errorf("make store.dir: %w", err)
	}
	if err := a.isAlone(); err != nil {
		return storage{}, err
	}
	st, err := pgstore.Open(ctx, pgstore.Options{DSNs: c.Postgres, Log: a.log, RequireStandby: c.RequireStandby,
		StoreID: id, Mark: c.Mark})
	if err != nil {
		return storage{}, err
	}
	return storage{
		Store: st, kind: "postgres", databases: st, markFailures: st.MarkFailures,
		compact: func(context.Context) error { return nil },
		checkpoint: func(context.Context) (string, error) {
			return "", im.Errorf(im.CodeNotNow,
				"the messages are in PostgreSQL: back up the databases of store.postgres with their own tools")
		},
		behind: st.Behind,
		reports: func() (all []*petrelv1.DatabaseReport) {
			for i := range st.Databases() {
				f := st.Figures(i)
				all = append(all, &petrelv1.DatabaseReport{Number: uint32(i + 1), Up: f.Up,
					Partitions: uint32(f.Partitions)})
			}
			return all
		},
	}, nil
}

// shared tells whether other nodes work on the store too.
func (a *App) shared() bool { return a.store.databases != nil }
