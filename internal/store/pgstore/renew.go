package pgstore

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/petrel-im/petrel/internal/store"
)

// Renew gives a store a new history id, for databases that were restored to an
// earlier time: what clients remember beyond it is gone. No node may run. If it
// is interrupted, the databases differ, no node opens them, and it is run again.
// It returns the former id of the first database, and the new one.
func Renew(ctx context.Context, o Options) (former, history uint64, err error) {
	o = o.withDefaults()
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	history = binary.BigEndian.Uint64(b[:])
	var all []*database
	var first *identity
	for n := range o.DSNs {
		d, err := newDatabase(o, n, nil, func() *store.Info { return nil })
		if err != nil {
			return 0, 0, fmt.Errorf("renew the store: %w", err)
		}
		id, err := d.unused(ctx, first)
		if err != nil {
			return 0, 0, fmt.Errorf("renew the store: database %s: %w", d.name, d.advice(err))
		}
		if first == nil {
			first = id
		}
		all = append(all, d)
	}
	for _, d := range all {
		err := d.alone(ctx, func(ctx context.Context, c *pgx.Conn) error {
			_, err := c.Exec(ctx, `UPDATE petrel.store SET history_id = $1, refuted = '' WHERE id = 1`, int64(history))
			return err
		})
		if err != nil {
			return 0, 0, fmt.Errorf("renew the store: database %s: %w", d.name, d.advice(err))
		}
	}
	return first.info.HistoryID, history, nil
}

// alone runs f on a connection that no store has to do with.
func (d *database) alone(ctx context.Context, f func(ctx context.Context, c *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, d.o.Timeout)
	defer cancel()
	c, err := d.dial(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }() // all is decided by then
	return f(ctx, c)
}

// unused reads what a database is, which must belong to the store of first, if
// that is known, and be in nobody's use.
func (d *database) unused(ctx context.Context, first *identity) (id *identity, err error) {
	err = d.alone(ctx, func(ctx context.Context, c *pgx.Conn) error {
		if id, err = readIdentity(ctx, c); err != nil {
			if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Code == "42P01" {
				err = &Problem{Code: "other_store", What: "it holds no store", Fix: "name the databases that were restored"}
			}
			return err
		}
		id.refuted = "" // this is what mends it
		if first != nil {
			id.info.HistoryID = first.info.HistoryID // whatever it is
		}
		if err := id.check(first, d.n); err != nil {
			return err
		}
		for end := time.Now().Add(leaveTime); ; { // who has just left is there a moment longer
			var users int
			err := c.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'petrel' AND pid <> pg_backend_pid()`).Scan(&users)
			if err != nil || users == 0 {
				return err
			}
			if time.Now().After(end) {
				return &Problem{Code: "store_in_use", What: fmt.Sprintf("Petrel has %d connections to it", users), Fix: "stop all nodes first"}
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
	return id, err
}

// leaveTime is how long a connection that was closed may be seen.
const leaveTime = time.Second
