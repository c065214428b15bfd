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

// Renewed is the result of Renew.
type Renewed struct {
	Former  uint64 // history id of the first database
	History uint64
	Proofs  []string // for each database that was an earlier state, the proof of it
}

// Renew gives a store a new history id, for databases that lack acked commits: they were restored to an earlier
// time, or failed over to a standby that lagged. Clients then drop what they have stored. No node may run. If
// Renew is interrupted, the databases have different history ids, no node opens them, and Renew must be run
// again.
func Renew(ctx context.Context, o Options) (*Renewed, error) {
	o = o.withDefaults()
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	r := &Renewed{History: binary.BigEndian.Uint64(b[:])}
	var m *mark // the store mark of a node, which may have seen newer commits than these databases hold
	if o.Mark != "" {
		var err error
		if m, err = readMark(o.Mark); err != nil {
			return nil, fmt.Errorf("renew the store: %w", err)
		}
	}
	var all []*database
	var first *identity
	for n := range o.DSNs {
		d, err := newDatabase(o, n, nil, func() *store.Info { return nil }, nil)
		if err != nil {
			return nil, fmt.Errorf("renew the store: %w", err)
		}
		d.bare = true
		id, err := d.unused(ctx, first)
		if err != nil {
			return nil, fmt.Errorf("renew the store: database %s: %w", d.name, d.advice(err))
		}
		if first == nil {
			first, r.Former = id, id.info.HistoryID
		}
		all = append(all, d)
	}
	for _, d := range all {
		err := d.alone(ctx, func(ctx context.Context, c *pgx.Conn) error { return d.renew(ctx, c, r, m.number(d.n)) })
		if err != nil {
			return nil, fmt.Errorf("renew the store: database %s: %w", d.name, d.advice(err))
		}
	}
	return r, nil
}

// renew gives a database the new history id, opens its lost feeds, and begins a generation with a number above
// known. A server that has a former generation is refused from then on.
func (d *database) renew(ctx context.Context, c *pgx.Conn, r *Renewed, known uint64) error {
	state, err := readServerState(ctx, c.PgConn())
	if err != nil {
		return err
	}
	if state == nil {
		return fmt.Errorf("it has no record of its identity: %w", store.ErrCorrupt)
	}
	next, err := d.positions(ctx, c.PgConn())
	if err != nil {
		return err
	}
	tx, err := c.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // after a commit there is nothing to undo
	for _, sql := range []string{
		fmt.Sprintf(`UPDATE petrel.store SET history_id = %d, refuted = '' WHERE id = 1`, int64(r.History)),
		fmt.Sprintf(`UPDATE petrel.part SET state = %d, holder = 0 WHERE state = %d`, store.FeedOpen, store.FeedLost),
	} {
		if _, err := tx.Exec(ctx, sql); err != nil {
			return err
		}
	}
	if err := insertGeneration(ctx, c.PgConn(), newGeneration(max(state.generation.Number, known)+1, state),
		next); err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return err
	}
	if state.refuted != "" {
		r.Proofs = append(r.Proofs, fmt.Sprintf("database %d: %s", d.n+1, state.refuted))
	}
	return nil
}

// alone runs f on a connection outside the pool.
func (d *database) alone(ctx context.Context, f func(ctx context.Context, c *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, d.o.Timeout)
	defer cancel()
	c, err := d.dial(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }() // the result is known by then
	return f(ctx, c)
}

// unused reads the identity of a database. It fails if the database belongs to another store than first, or if
// Petrel has connections to it. With a nil first the store is not compared.
func (d *database) unused(ctx context.Context, first *identity) (id *identity, err error) {
	err = d.alone(ctx, func(ctx context.Context, c *pgx.Conn) error {
		if id, err = readIdentity(ctx, c); err != nil {
			if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Code == "42P01" {
				err = &Problem{Code: "other_store", What: "it holds no store",
					Fix: "name the databases that were restored"}
			}
			return err
		}
		if first != nil {
			id.info.HistoryID = first.info.HistoryID // the histories may differ
		}
		if err := id.check(first, d.n); err != nil {
			return err
		}
		for end := time.Now().Add(leaveTime); ; { // a connection that was closed is listed a moment longer
			var users int
			err := c.QueryRow(ctx,
				`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'petrel' AND pid <> pg_backend_pid()`).Scan(&users)
			if err != nil || users == 0 {
				return err
			}
			if time.Now().After(end) {
				return &Problem{Code: "store_in_use", What: fmt.Sprintf("Petrel has %d connections to it", users),
					Fix: "stop all nodes first"}
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
	return id, err
}

// leaveTime bounds the time for which a closed connection may still be listed.
const leaveTime = time.Second
